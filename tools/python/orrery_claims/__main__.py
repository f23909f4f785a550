"""Plots of claim studies, from what `orrery reproduce --points` and `--json` write.

    python3 orrery_claims POINTS.csv CLAIMS.json --png FOLDER

One PNG a study (its name): a panel a measure, a line a variant over the axis that has the most numbers; then a panel a
claim, with what its formula reduces over the same axis, the value it comes to (dashed) and the band that is expected
(shaded). Over axes that are neither x nor colour a line is the geometric mean and the light area the range. Prints the path
of every file.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: E402

from orrery_plot import palette  # noqa: E402
from orrery_plot.style import Picture, legend_below, panels_of, save, short, small_panels  # noqa: E402

COLUMNS = 4
PANEL = (2.5, 2.1)  # inches
MANY = 12  # values of an axis that are all written below it
FITS = 8  # lines whose legend fits into a panel


def axes_of(points: pd.DataFrame) -> pd.DataFrame:
    """The column x ("batch=4;model=bert") as a column an axis, numbers where all are."""
    cells = [dict(part.split("=", 1) for part in str(x).split(";") if "=" in part) for x in points["x"].fillna("")]
    table = pd.DataFrame(cells, index=points.index)
    for name in table.columns:
        numbers = pd.to_numeric(table[name], errors="coerce")
        if numbers.notna().all():
            table[name] = numbers
    return table


def choose_axes(axes: pd.DataFrame, variants: int) -> tuple[str | None, str | None]:
    """Which axis is x and which gives the colours (none: the variants do)."""
    several = [name for name in axes.columns if axes[name].nunique() > 1]
    numeric = [name for name in several if pd.api.types.is_numeric_dtype(axes[name])]
    x = max(numeric or several, key=lambda name: axes[name].nunique(), default=None)
    others = [name for name in several if name != x]
    return x, others[0] if others and variants == 1 else None


def spread(values: pd.Series) -> tuple[float, float, float]:
    """Middle, least and largest: the middle is the geometric mean where there is one."""
    middle = math.exp(np.log(values).mean()) if (values > 0).all() else values.mean()
    return middle, values.min(), values.max()


def positions(axes, x: str | None, values: pd.Series) -> dict:
    """Where the values of an axis stand: themselves if they are numbers, else their order."""
    order = list(dict.fromkeys(values))
    if x is None or not pd.api.types.is_numeric_dtype(values):
        many = len(order) > 6
        names = [short(str(name), 20) for name in order] if len(order) > 1 else []
        axes.set_xticks(range(len(names)), names, rotation=90 if many else 30, ha="center" if many else "right",
                        rotation_mode="default" if many else "anchor", fontsize=5 if many else 6.5)
        return {name: i for i, name in enumerate(order)}
    low, high = min(order), max(order)
    if low > 0 and high / low >= 8:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if len(order) <= MANY:
        axes.set_xticks(sorted(order), [f"{value:g}" for value in sorted(order)])
        axes.minorticks_off()
    return {value: value for value in order}


def plain_numbers(axes) -> None:
    """Figures on the y axis without markup, whatever its scale."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.4g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def lines(axes, rows: pd.DataFrame, x: str | None, colour: str | None, order: list, label: bool) -> None:
    """A line a colour over x; `order` holds all that have one, so that each keeps it in every panel."""
    key = rows[x] if x else rows["variant"]
    place = positions(axes, x, key)
    names = rows[colour] if colour else rows["variant"]
    for name in names.unique():
        own = rows[names == name]
        i = order.index(name) if name in order else len(order)
        table = own.groupby(own[x] if x else own["variant"], sort=False)["value"].apply(lambda v: spread(v))
        table = table.loc[sorted(table.index, key=place.get)]
        at = [place[index] for index in table.index]
        middle, low, high = (np.array([entry[k] for entry in table]) for k in range(3))
        shade = palette.colour(i)
        axes.plot(at, middle, marker=palette.marker(i), color=shade, linestyle=palette.dash(i), linewidth=1.1,
                  markersize=2.5, label=str(name) or "over the grid")
        if (high > low).any():
            axes.fill_between(at, low, high, color=shade, alpha=0.13, linewidth=0)
    values = rows["value"]
    if (values > 0).all() and values.max() / values.min() > 20:
        axes.set_yscale("log")
    elif np.ptp(values) < 1e-9 * max(1.0, abs(values.mean())):  # nothing but one value
        room = max(0.5, abs(values.mean()) * 0.5)
        axes.set_ylim(values.mean() - room, values.mean() + room)
    plain_numbers(axes)
    if x:
        axes.set_xlabel(x if len(place) > 1 else f"{x} = {next(iter(place))}")
    if label:
        axes.legend(handlelength=1.4, borderpad=0.1, labelspacing=0.2)


def band(axes, claim: dict) -> None:
    """Shades what is expected and draws what came out."""
    low, high = claim["expected"]
    shade = palette.GREEN if claim["holds"] else palette.VERMILION
    marks = [v for v in (low, high, claim["simulated"]) if v is not None]
    logarithmic = axes.get_yscale() == "log"
    if logarithmic:  # an end at 0 is below every such axis
        marks = [v for v in marks if v > 0]
    bottom, top = axes.get_ylim() if axes.has_data() else (min(marks), max(marks))
    bottom, top = min([bottom, *marks]), max([top, *marks])
    if logarithmic or (bottom > 0 and top / bottom > 20):
        axes.set_yscale("log")
        bottom, top = bottom / 1.2, top * 1.2
        plain_numbers(axes)
    else:
        margin = 0.08 * (top - bottom) or 0.5 * abs(top) or 0.5
        bottom, top = bottom - margin, top + margin
    axes.set_ylim(bottom, top)
    axes.axhspan(bottom if low is None else low, top if high is None else high, color=shade, alpha=0.12, linewidth=0)
    for edge in (low, high):
        if edge is not None:
            axes.axhline(edge, color=shade, linewidth=0.7)
    if claim["simulated"] is not None:
        axes.axhline(claim["simulated"], color=palette.INK, linewidth=0.9, linestyle="dashed")


def title_of(claim: dict) -> str:
    simulated = "not judged" if claim["simulated"] is None else f"{claim['simulated']:.4g}"
    word = "" if claim["simulated"] is None else ", holds" if claim["holds"] else ", MISSED"
    return "\n".join([*textwrap.wrap(claim["claim"], 46)[:4], simulated + word])


@small_panels
def draw(study: str, points: pd.DataFrame, claims: list[dict]) -> Picture:
    """The figure of one study."""
    points = pd.concat([points, axes_of(points)], axis=1)
    points["variant"] = points["variant"].fillna("")
    measured = points[~points["measure"].str.startswith("claim:")]
    known = [c for c in points.columns if c not in ("study", "variant", "point", "x", "measure", "value")]
    x, colour = choose_axes(measured[known], measured["variant"].nunique())
    measures = list(dict.fromkeys(measured["measure"]))
    order = list(dict.fromkeys(measured[colour or "variant"]))
    figure, grid = panels_of(len(measures) + len(claims), COLUMNS, PANEL, 0.3)
    for i, (axes, measure) in enumerate(zip(grid, measures)):
        lines(axes, measured[measured["measure"] == measure], x, colour, order, i == 0 and len(order) <= FITS)
        axes.set_title(measure)
    for i, (axes, claim) in enumerate(zip(grid[len(measures):], claims)):
        over = points[points["measure"] == f"claim:{i}"]
        if len(over) > 0 and x:
            lines(axes, over, x, colour, order, False)
        else:
            axes.set_xticks([])
        if len(over) > 0 or claim["simulated"] is not None:
            band(axes, claim)
        axes.set_title(title_of(claim), fontsize=6.5)
    figure.suptitle(f"{claims[0]['system']} ({study})" if claims else study, fontsize=8)
    if len(order) > FITS:
        legend_below(figure, 8)
    return figure


def written(study: tuple[str, pd.DataFrame, list[dict], Path]) -> Path:
    name, rows, claims, folder = study
    return save(draw(name, rows, claims), folder / f"{name}.png", dpi=130, shades=128)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="orrery_claims", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path)
    parser.add_argument("claims", type=Path)
    parser.add_argument("--png", type=Path, required=True)
    options = parser.parse_args(arguments)
    points = pd.read_csv(options.points, dtype={"x": str, "variant": str})
    claims = json.loads(options.claims.read_text(encoding="utf-8"))["claims"]
    studies = [(str(study), rows, [claim for claim in claims if claim["study"] == study], options.png)
               for study, rows in points.groupby("study", sort=True)]
    with concurrent.futures.ProcessPoolExecutor() as pool:  # two seconds a picture
        for path in pool.map(written, studies):
            print(path, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
