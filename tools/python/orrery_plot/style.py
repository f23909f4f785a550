"""The one style of all figures, and the small helpers that keep them alike.

No pyplot, so that nothing global changes and no figure is kept alive behind the caller's back: `@styled` functions make
`Picture`s with `grid_of`, and a picture draws and saves itself in the style whatever the caller's rcParams are.
"""

from __future__ import annotations

import functools
import io
import re
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from . import palette, units

WIDTH = 7.2  # inches: the text width of a page
DPI = 220
SIZE = 8  # font size of every text in a figure
SMALL = 6.5  # but of notes inside a panel
TEXTS = ("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize", "legend.title_fontsize")
STYLE = {
    **dict.fromkeys(TEXTS, SIZE), "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"],
    "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelcolor": palette.INK, "axes.grid": True,
    "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": palette.MUTED,
    "axes.linewidth": 0.7, "grid.color": palette.GRID, "grid.linewidth": 0.6, "text.color": palette.INK,
    "xtick.color": palette.INK, "ytick.color": palette.INK, "legend.frameon": False,
    "figure.constrained_layout.use": True, "text.parse_math": False, "hatch.linewidth": 0.6, "figure.dpi": 110,
    "figure.facecolor": "white", "savefig.facecolor": "white", "savefig.dpi": DPI,
}
# On top of it for pages of many small panels.
PANELS = {**dict.fromkeys(TEXTS, SMALL), "axes.titleweight": "normal"}
COMMAS = FuncFormatter(lambda v, _: f"{v:,.10g}")


class PlotError(ValueError):
    """There is nothing to draw, or what there is cannot be drawn; the message says why and what would help."""


class Picture(Figure):
    """A matplotlib Figure that draws itself in the style; notebooks show it."""

    def __init__(self, *arguments, **more):
        self.style = STYLE
        super().__init__(*arguments, **more)
        FigureCanvasAgg(self)

    def draw(self, renderer) -> None:
        """As of any figure, but with the style's parameters: ticks are made as late as this."""
        with matplotlib.rc_context(self.style):
            super().draw(renderer)

    def savefig(self, fname, **more) -> None:
        """As of any figure; PNG files carry no date, so that the same picture gives the same bytes."""
        with matplotlib.rc_context(self.style):
            if str(fname).lower().endswith(".png") or more.get("format") == "png":
                more.setdefault("metadata", {"Software": "Orrery"})
            super().savefig(fname, **more)

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        self.savefig(data, format="png", dpi=STYLE["figure.dpi"])
        return data.getvalue()


def styled(function: Callable) -> Callable:
    """A function whose figures are made in the style; rcParams are afterwards what they were before."""

    @functools.wraps(function)
    def inside(*arguments, **more):
        with matplotlib.rc_context(STYLE):
            return function(*arguments, **more)

    return inside


def small_panels(function: Callable) -> Callable:
    """As `styled`, for pages of many small panels."""

    @functools.wraps(function)
    def inside(*arguments, **more):
        with matplotlib.rc_context({**STYLE, **PANELS}):
            figure = function(*arguments, **more)
            if isinstance(figure, Picture):
                figure.style = {**STYLE, **PANELS}
            return figure

    return inside


def grid_of(rows: int = 1, columns: int = 1, size: tuple[float, float] = (WIDTH, 3.0), **more) -> tuple[Picture,
                                                                                                        np.ndarray]:
    """A picture of `size` inches with axes in an array of rows and columns."""
    figure = Picture(figsize=size)
    return figure, figure.subplots(rows, columns, squeeze=False, **more)


def panels_of(count: int, columns: int, panel: tuple[float, float], extra: float = 0.0) -> tuple[Picture, list]:
    """A picture of `count` panels, `columns` in a row at most; `extra` inches of height for what stands around them."""
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    figure, grid = grid_of(rows, columns, (columns * panel[0], rows * panel[1] + extra))
    for axes in grid.flat[count:]:
        axes.axis("off")
    return figure, list(grid.flat[:count])


def save(figure: Figure, path: Path, dpi: int = DPI, shades: int | None = None) -> Path:
    """Writes a PNG and its folder; the path. With so many `shades` (at most 256) the file is a third as large, and text
    stays sharp: for images that a repository keeps."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if shades is None:
        figure.savefig(path, dpi=dpi)
        return path
    from PIL import Image

    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=dpi)
    picture = Image.open(data).convert("RGB")
    picture.quantize(shades, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def plain_log(axis, subs: Sequence[int] = (1,)) -> None:
    """Labels 0.01, 1, 100 instead of powers on a logarithmic axis."""
    axis.set_major_locator(LogLocator(numticks=12, subs=subs))
    axis.set_major_formatter(COMMAS)
    axis.set_minor_formatter(NullFormatter())


def log_axis(axis, values, dense: float = 120, least: int = 4) -> None:
    """Makes an axis logarithmic; where its ends differ by a factor below `dense` it has labels at 2 and 5 too, and on a short
    axis as many more as it takes for `least`."""
    known = np.asarray([v for v in np.ravel(values) if np.isfinite(v) and v > 0], dtype=float)
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    plain_log(axis, (1, 2, 5) if len(known) and known.max() / known.min() < dense else (1,))
    if len(known) and known.max() / known.min() < 30:  # so short that 1, 2 and 5 may all lie outside
        axis.set_major_locator(FixedLocator(units.log_ticks(float(known.min()), float(known.max()), dense, least)))


def legend_below(figure: Figure, columns: int, title: str | None = None, handles: Sequence | None = None) -> None:
    """One legend under all panels, for what they show (or for `handles`, which carry their labels); a label once."""
    shown = {handle.get_label(): handle for handle in handles or ()}
    for axes in figure.axes if handles is None else ():
        for handle, label in zip(*axes.get_legend_handles_labels()):
            shown.setdefault(label, handle)
    if not shown:
        return
    longest = max(map(len, shown))
    columns = max(1, min(columns, len(shown), int(figure.get_figwidth() / (0.42 + 0.06 * longest))))
    lines = -(-len(shown) // columns) + (title is not None)
    below = 0.08 + 0.165 * lines  # inches: the panels keep their height
    figure.set_figheight(figure.get_figheight() + below)
    room = below / figure.get_figheight()
    figure.legend(list(shown.values()), list(shown), loc="lower center", ncol=columns, title=title, title_fontsize=SIZE,
                  handletextpad=0.4, columnspacing=1.2, labelspacing=0.25, borderaxespad=0.1)
    figure.get_layout_engine().set(rect=(0, room, 1, 1 - room))


def wrapped(text: str, width: int) -> str:
    """Lines of at most so many characters where that is possible; names and paths break after a dot or "_" too, where a
    whole word does not fit."""
    lines = [""]
    for word in re.findall(r"\S+\s*", text):
        pieces = [word] if len(word.rstrip()) <= width else re.findall(r"[^._]*[._]*", word)
        for piece in pieces:
            if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def short(name: str, most: int = 18) -> str:
    """At most some characters and a mark of what is left out; between words where there are any."""
    return textwrap.shorten(name, most, placeholder="…") if " " in name else name[:most] + "…" * (len(name) > most)


def every(rows: list, most: int) -> list:
    """An even pick of at most so many."""
    return rows[:: max(1, -(-len(rows) // most))]
