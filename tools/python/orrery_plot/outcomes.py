"""Pictures of what points came to: the front, and how a search got there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

import numpy as np

from . import frames, palette, units
from .digest import is_skewed
from .style import WIDTH, Picture, every, grid_of, legend_below, log_axis, panels_of, styled, wrapped

_PATH = re.compile(r"(\S+) \(([\w.]+)\)")  # a label that says which figure is behind its name
MOST_POINTS = 5000  # of a store: more only make the cloud darker
MOST_PAIRS = 3


def unit_of(objective: dict) -> str:
    """The unit of an objective, or what the figure behind it says."""
    if "unit" in objective:
        return objective["unit"]
    path = _PATH.fullmatch(objective["label"])
    return units.unit_of(path[2] if path else objective["label"])


def scale_of(objective: dict, values: Iterable[float]) -> tuple[float, str]:
    """(factor, unit) in which values of an objective read well."""
    return units.scale_of(values, unit_of(objective))


def axis_label(objective: dict, unit: str = "") -> str:
    """Its name, the figure behind it, the unit in which it is drawn, and which way is better; `maximise` None: nothing
    asks for it."""
    label = objective["label"]
    path = _PATH.fullmatch(label)
    if path and units.unit_of(path[2]):
        label = f"{path[1]}: {frames.label_of(path[2], unit)}"
    elif unit and unit != units.unit_of(label):  # a name may say its unit
        label = f"{label} ({unit})"
    if objective["maximise"] is None:
        return label
    return f"{label}, {'maximised' if objective['maximise'] else 'minimised'}"


@styled
def front(stores: list[dict], names: list[str], objectives: list[dict],
          pair: tuple[int, int] | None = None) -> Picture | None:
    """Points in the plane of two objectives at a time: feasible, over a limit, and the front, joined by the line
    between what is and what is not attained. Of three objectives a front of all does not look like a line: none."""
    if len(objectives) < 2:
        return None
    pairs = [pair] if pair else list(combinations(range(len(objectives)), 2))[:MOST_PAIRS]
    width = 4.6 if len(pairs) == 1 else WIDTH
    figure, grid = grid_of(1, len(pairs), (width, 3.4 if len(pairs) == 1 else 2.9))
    known = np.array([t["objectives"] for s in stores for t in s["trials"] if t["objectives"]], dtype=float).reshape(
        -1, len(objectives))
    scales = [scale_of(o, known[:, k]) for k, o in enumerate(objectives)]
    factors = np.array([factor for factor, _ in scales])
    for axes, (x, y) in zip(grid[0], pairs):
        for i, (store, name) in enumerate(zip(stores, names)):
            _points(axes, store, name if len(stores) > 1 else "", i, x, y, factors)
            _front_line(axes, store, objectives, x, y, i, factors)
        axes.set(xlabel=wrapped(axis_label(objectives[x], scales[x][1]), 44),
                 ylabel=wrapped(axis_label(objectives[y], scales[y][1]), 36))
        for axis, k in ((axes.xaxis, x), (axes.yaxis, y)):
            values = known[:, k] * factors[k]
            if len(values) and values.min() > 0 and is_skewed(values):
                log_axis(axis, values, 25)
        axes.margins(0.05)
    legend_below(figure, 3)
    return figure


def _points(axes, store: dict, name: str, i: int, x: int, y: int, factors: np.ndarray) -> None:
    colour = palette.colour(i)
    front_rows = {row["trial"] - 1 for row in store["analysis"]["front"]}
    rows = [(k, trial) for k, trial in enumerate(store["trials"])
            if trial["status"] == "ok" and trial["fidelity"] == 1 and k not in front_rows]
    before = f"{name}: " if name else ""
    over = {"marker": "x", "color": colour if name else palette.MUTED, "linewidths": 0.7, "s": 11}
    within = {"marker": "o", "color": colour, "linewidths": 0, "s": 8, "alpha": 0.35}
    for feasible, style in ((False, over), (True, within)):
        shown = every([trial["objectives"] * factors for _, trial in rows if trial["feasible"] == feasible], MOST_POINTS)
        if shown:
            axes.scatter([v[x] for v in shown], [v[y] for v in shown], zorder=2,
                         label=before + ("feasible" if feasible else "over a limit"), **style)
    best = [row["objectives"] * factors for row in store["analysis"]["front"]]
    if best:
        axes.scatter([v[x] for v in best], [v[y] for v in best], s=20 if len(best) <= 40 else 10, color=colour,
                     marker=palette.marker(i), edgecolors=palette.INK, linewidths=0.5, zorder=4,
                     label=f"{before}front, {len(best)} points")


def _front_line(axes, store: dict, objectives: list[dict], x: int, y: int, i: int, factors: np.ndarray) -> None:
    if len(objectives) > 2 or None in (objectives[x]["maximise"], objectives[y]["maximise"]):
        return
    best = sorted((row["objectives"][x] * factors[x], row["objectives"][y] * factors[y]) for row in store["analysis"]["front"])
    # Between two points only what the one with the better y, or worse x, reaches is attained.
    step = "steps-pre" if objectives[x]["maximise"] else "steps-post"
    axes.plot([v[0] for v in best], [v[1] for v in best], drawstyle=step, linewidth=1, zorder=3,
              color=palette.colour(i), linestyle=palette.dash(i))


@styled
def history(stores: list[dict], names: list[str], analysis: dict) -> Picture:
    """What was reached after how many points: the median over a store's searches, quartiles shaded."""
    objectives = analysis["objectives"]
    panels: list[tuple[str, int | None]] = [(axis_label(o) + ", best so far", k) for k, o in enumerate(objectives)]
    joint = analysis["joint_volume"]
    if any(s["hypervolume"] for store in stores for s in store["searches"]) and joint:
        panels.insert(0, ("hypervolume, % of " + ("all stores' front" if len(stores) > 1 else "the last front"), None))
    figure, grid = panels_of(len(panels), 2, (3.6, 2.5))
    for axes, (label, objective) in zip(grid, panels):
        factor, unit = (100 / joint, "%") if objective is None else scale_of(objectives[objective], (
            value for store in stores for s in store["searches"] for value in s["best_so_far"][objective]))
        for i, (store, name) in enumerate(zip(stores, names)):
            if objective is None:
                curves = [np.array(s["hypervolume"], dtype=float) for s in store["searches"]]
            else:
                curves = [np.array(s["best_so_far"][objective], dtype=float) for s in store["searches"]]
            label_of_store = name if store["driver"] in name else f"{name} ({store['driver']})"
            _curve(axes, [curve * factor for curve in curves], label_of_store, i)
        axes.set_title(wrapped(label, 44), fontweight="normal")
        plain = "%" if objective is None else axis_label({**objectives[objective], "maximise": None}, unit)
        axes.set(xlabel="points evaluated", ylabel=wrapped(plain, 26))
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
        log_axis(axes.yaxis, values)


def _curve(axes, curves: list[np.ndarray], label: str, i: int) -> None:
    length = max(len(curve) for curve in curves)
    # A search that ended early has what it had; nan before the first feasible point of most.
    table = np.array([np.concatenate([curve, np.full(length - len(curve), curve[-1])]) for curve in curves])
    x = np.arange(1, length + 1)
    colour = palette.colour(i)
    low, middle, high = (_quantile(table, q) for q in (0.25, 0.5, 0.75))
    if len(curves) > 1:
        axes.fill_between(x, low, high, step="post", color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, middle, drawstyle="steps-post", color=colour, linewidth=1.4, label=label,
              linestyle=palette.dash(i))


def _quantile(table: np.ndarray, q: float) -> np.ndarray:
    """Of each column; nan where a search has nothing yet."""
    result = np.full(table.shape[1], np.nan)
    whole = ~np.isnan(table).any(axis=0)
    if whole.any():
        result[whole] = np.quantile(table[:, whole], q, axis=0)
    return result
