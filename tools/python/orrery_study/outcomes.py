"""Figures of what points came to: the front, and how a search got there."""

from __future__ import annotations

import re
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from orrery_plot import palette
from orrery_plot.style import WIDTH

MOST_POINTS = 5000  # of a store: more only make the cloud darker
MOST_PAIRS = 3
MARKERS = "osD^vP"
DASHES = ("solid", "dashed", "dotted", "dashdot", (0, (6, 1.5)), (0, (3, 1, 1, 1)))


def axis_label(objective: dict) -> str:
    return f"{objective['label']}, {'maximised' if objective['maximise'] else 'minimised'}"


def legend_below(figure: Figure, columns: int, title: str | None = None) -> None:
    """One legend under all panels, for what the first of them shows."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    columns = min(columns, len(handles))
    lines = -(-len(handles) // columns) + (title is not None)
    room = (0.08 + 0.165 * lines) / figure.get_figheight()
    figure.legend(handles, labels, loc="lower center", ncol=columns, title=title, title_fontsize=7.5, handletextpad=0.4,
                  columnspacing=1.2, labelspacing=0.25, borderaxespad=0.1)
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


def every(rows: list, most: int) -> list:
    """An even pick of at most so many."""
    return rows[:: max(1, -(-len(rows) // most))]


def front(stores: list[dict], names: list[str], objectives: list[dict]) -> Figure | None:
    """Points in the plane of two objectives at a time: feasible, over a limit, and the front, joined by the line between
    what is and what is not attained. Of three objectives a front of all does not look like a line, and has none."""
    if len(objectives) < 2:
        return None
    pairs = list(combinations(range(len(objectives)), 2))[:MOST_PAIRS]
    width = 4.6 if len(pairs) == 1 else WIDTH
    figure, grid = plt.subplots(1, len(pairs), figsize=(width, 3.4 if len(pairs) == 1 else 2.9), squeeze=False)
    for axes, (x, y) in zip(grid[0], pairs):
        for i, (store, name) in enumerate(zip(stores, names)):
            _points(axes, store, name if len(stores) > 1 else "", i, x, y)
            _front_line(axes, store, objectives, x, y, i)
        axes.set(xlabel=wrapped(axis_label(objectives[x]), 44), ylabel=wrapped(axis_label(objectives[y]), 36))
        axes.margins(0.05)
    legend_below(figure, 3)
    return figure


def _points(axes, store: dict, name: str, i: int, x: int, y: int) -> None:
    colour = palette.SEQUENCE[i % len(palette.SEQUENCE)]
    front_rows = {row["trial"] - 1 for row in store["analysis"]["front"]}
    rows = [(k, trial) for k, trial in enumerate(store["trials"])
            if trial["status"] == "ok" and trial["fidelity"] == 1 and k not in front_rows]
    before = f"{name}: " if name else ""
    for feasible, style in ((False, {"marker": "x", "color": colour if name else palette.MUTED, "linewidths": 0.7, "s": 11}),
                            (True, {"marker": "o", "color": colour, "linewidths": 0, "s": 8, "alpha": 0.35})):
        shown = every([trial["objectives"] for _, trial in rows if trial["feasible"] == feasible], MOST_POINTS)
        if shown:
            axes.scatter([v[x] for v in shown], [v[y] for v in shown], zorder=2,
                         label=before + ("feasible" if feasible else "over a limit"), **style)
    best = [row["objectives"] for row in store["analysis"]["front"]]
    if best:
        axes.scatter([v[x] for v in best], [v[y] for v in best], s=20 if len(best) <= 40 else 10, marker=MARKERS[i % len(MARKERS)], color=colour,
                     edgecolors=palette.INK, linewidths=0.5, zorder=4, label=f"{before}front, {len(best)} points")


def _front_line(axes, store: dict, objectives: list[dict], x: int, y: int, i: int) -> None:
    if len(objectives) > 2:
        return
    best = sorted((row["objectives"][x], row["objectives"][y]) for row in store["analysis"]["front"])
    # Between two points only what the one with the better y, or worse x, reaches is attained.
    step = "steps-pre" if objectives[x]["maximise"] else "steps-post"
    axes.plot([v[0] for v in best], [v[1] for v in best], drawstyle=step, linewidth=1, zorder=3,
              color=palette.SEQUENCE[i % len(palette.SEQUENCE)], linestyle=DASHES[i % len(DASHES)])


def history(stores: list[dict], names: list[str], analysis: dict) -> Figure:
    """What was reached after how many points: the median over a store's searches, quartiles shaded."""
    objectives = analysis["objectives"]
    panels: list[tuple[str, int | None]] = [(axis_label(o) + ", best so far", k) for k, o in enumerate(objectives)]
    joint = analysis["joint_volume"]
    if any(s["hypervolume"] for store in stores for s in store["searches"]) and joint:
        panels.insert(0, ("hypervolume, % of " + ("all stores' front" if len(stores) > 1 else "the last front"), None))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(3.6 * columns, 2.5 * rows), squeeze=False)
    for axes in grid.flat[len(panels):]:
        axes.axis("off")
    for axes, (label, objective) in zip(grid.flat, panels):
        for i, (store, name) in enumerate(zip(stores, names)):
            if objective is None:
                curves = [np.array(s["hypervolume"], dtype=float) / joint * 100 for s in store["searches"]]
            else:
                curves = [np.array(s["best_so_far"][objective], dtype=float) for s in store["searches"]]
            _curve(axes, curves, name if store["driver"] in name else f"{name} ({store['driver']})", i)
        axes.set_title(wrapped(label, 44), fontweight="normal")
        axes.set(xlabel="points evaluated", ylabel="%" if objective is None else wrapped(objectives[objective]["label"], 26))
        _spread_out(axes)
    several = any(len(store["searches"]) > 1 for store in stores)
    if len(stores) > 1 or several:
        legend_below(figure, 3, "median over searches, quartiles shaded" if several else None)
    return figure


def _spread_out(axes) -> None:
    """A logarithmic axis where the curves span orders of magnitude, as after a bad first point."""
    values = np.concatenate([line.get_ydata() for line in axes.lines])
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() / values.min() > 50:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _curve(axes, curves: list[np.ndarray], label: str, i: int) -> None:
    length = max(len(curve) for curve in curves)
    # A search that ended early has what it had; nan before the first feasible point of most.
    table = np.array([np.concatenate([curve, np.full(length - len(curve), curve[-1])]) for curve in curves])
    x = np.arange(1, length + 1)
    colour = palette.SEQUENCE[i % len(palette.SEQUENCE)]
    low, middle, high = (_quantile(table, q) for q in (0.25, 0.5, 0.75))
    if len(curves) > 1:
        axes.fill_between(x, low, high, step="post", color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, middle, drawstyle="steps-post", color=colour, linewidth=1.4, label=label,
              linestyle=DASHES[i % len(DASHES)])


def _quantile(table: np.ndarray, q: float) -> np.ndarray:
    """Of each column; nan where a search has nothing yet."""
    result = np.full(table.shape[1], np.nan)
    whole = ~np.isnan(table).any(axis=0)
    if whole.any():
        result[whole] = np.quantile(table[:, whole], q, axis=0)
    return result
