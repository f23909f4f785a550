"""Figures of studies as plotly.js draws them: progress, importance of parameters, their main effects."""

from __future__ import annotations

import numpy as np

from orrery_plot import palette, units
from orrery_plot.outcomes import axis_label, scale_of

from .figures import NOTE, Figure, _axis, _layout, _panel_label, literal, numbers, tinted
from .study_digest import Points, Shown
from .study_store import Study

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MOST_STEPS = 1500
MOST_BARS = 15
MOST_CELLS = 12
MOST_PANELS = 12
BINS = 8


def labelled(name: str, unit: str) -> str:
    """A name with the unit in which it is drawn, unless the name says it."""
    return f"{name} ({unit})" if unit and unit != units.unit_of(name) else name


def progress(studies: list[Study], names: list[str]) -> Figure:
    """A panel for the hypervolume (of several objectives) and one for each objective's best value so far: the median over
    a study's searches, quartiles shaded. x: points evaluated."""
    objectives = studies[0].objectives
    volume = studies[0].joint["joint_volume"] if studies[0].joint else None
    panels: list[tuple[str, int | None]] = [(f"{axis_label(o)}, best so far", k) for k, o in enumerate(objectives)]
    if volume:
        panels.insert(0, ("Hypervolume, % of " + ("all studies' front" if len(studies) > 1 else "the last front"), None))
    gap = 0.24 / len(panels) if len(panels) > 1 else 0.0
    height = (1 - gap * (len(panels) - 1)) / len(panels)
    layout = _layout(90 + 230 * len(panels), annotations=[], margin={"l": 76, "r": 24, "t": 58, "b": 56})
    layout["legend"]["y"] = 1 + 34 / layout["height"]
    layout["xaxis"] = _axis("points evaluated", anchor=f"y{len(panels)}" if len(panels) > 1 else "y", tickformat=",~g")
    data: list[dict] = []
    for p, (label, objective) in enumerate(panels):
        suffix = "" if p == 0 else str(p + 1)
        top = 1 - p * (height + gap)
        factor, unit = (100 / volume, "%") if objective is None else scale_of(objectives[objective], (
            value for study in studies for s in study.analysis["searches"] for value in s["best_so_far"][objective]))
        title = "%" if objective is None else labelled(objectives[objective]["name"], unit)
        layout["yaxis" + suffix] = _axis(literal(title), anchor="x",
                                         domain=[max(0.0, top - height), top], tickformat=",~g")
        layout["annotations"].append(_panel_label(literal(label), top + 0.004))
        for i, study in enumerate(studies):
            searches = study.analysis["searches"]
            values = [s["hypervolume"] if objective is None else s["best_so_far"][objective] for s in searches]
            curves = [np.array(curve, dtype=float) * factor for curve in values]
            data += _curves(curves, i, literal(names[i]), "y" + suffix, p == 0 and len(studies) > 1, unit)
    return {"data": data, "layout": layout}


def _curves(curves: list[np.ndarray], i: int, name: str, axis: str, legend: bool, unit: str) -> list[dict]:
    length = max(map(len, curves))
    # A search that ended early has what it had.
    grid = np.array([np.concatenate([curve, np.full(length - len(curve), curve[-1])]) for curve in curves])
    known = ~np.isnan(grid).any(axis=0)
    low, middle, high = (np.where(known, _quantile(grid, q), np.nan) for q in (0.25, 0.5, 0.75))
    at = _steps((low, middle, high) if len(curves) > 1 else (middle,))
    x = [int(v) + 1 for v in at]
    colour, dash = palette.SEQUENCE[i % len(palette.SEQUENCE)], DASHES[i % len(DASHES)]
    common = {"type": "scatter", "mode": "lines", "x": x, "yaxis": axis, "legendgroup": name}
    traces: list[dict] = []
    if len(curves) > 1:
        edge = {**common, "line": {"width": 0, "color": colour, "shape": "hv"}, "hoverinfo": "skip", "showlegend": False}
        traces += [{**edge, "y": numbers(low[at])},
                   {**edge, "y": numbers(high[at]), "fill": "tonexty", "fillcolor": tinted(colour, 0.2)}]
    traces.append({**common, "name": name, "showlegend": legend, "y": numbers(middle[at]),
                   "line": {"width": 2, "color": colour, "dash": dash, "shape": "hv"},
                   "hovertemplate": f"%{{y:,.5~g}} {unit}" + " after %{x:,} points<extra>" + name + "</extra>"})
    return traces


def _quantile(grid: np.ndarray, q: float) -> np.ndarray:
    return np.quantile(np.nan_to_num(grid), q, axis=0)


def _steps(curves: tuple[np.ndarray, ...]) -> np.ndarray:
    """Where any of the curves changes, with both ends; of very many an even pick."""
    change = np.zeros(len(curves[0]), dtype=bool)
    for curve in curves:
        change[1:] |= ~((curve[1:] == curve[:-1]) | (np.isnan(curve[1:]) & np.isnan(curve[:-1])))
    change[[0, -1]] = True
    at = np.flatnonzero(change)
    if len(at) > MOST_STEPS:
        at = at[np.unique(np.linspace(0, len(at) - 1, MOST_STEPS).round().astype(int))]
    return at


def importance(found: dict) -> Figure:
    """Two bars a parameter: its main effect and its permutation importance."""
    shown = sorted(found["parameters"], key=lambda p: -(p["permutation"] or 0))[:MOST_BARS]
    layout = _layout(150 + 44 * len(shown), barmode="group", bargap=0.25, margin={"l": 130, "r": 30, "t": 40, "b": 56},
                     xaxis=_axis("% of the objective's variance", rangemode="tozero"),
                     yaxis=_axis("", autorange="reversed", type="category", ticks="", showgrid=False))
    data = []
    for key, label, style in (("main_effect", "main effect: variance it explains by itself", {"color": palette.BLUE}),
                              ("permutation", "permutation importance: error when its values are shuffled",
                               {"color": palette.ORANGE, "pattern": {"shape": "/", "fgcolor": "#ffffff", "bgcolor": palette.ORANGE, "size": 6}})):
        data.append({"type": "bar", "orientation": "h", "name": label, "marker": style,
                     "y": [literal(p["parameter"]) for p in shown],
                     "x": numbers([100 * max(0.0, p[key] or 0) for p in shown]),
                     "hovertemplate": "%{y}: %{x:.3~g} %<extra>" + label + "</extra>"})
    return {"data": data, "layout": layout}


def interactions(found: dict) -> Figure | None:
    """A cell a pair: variance that both explain together beyond each alone; on the diagonal each alone."""
    shown = [p["parameter"] for p in sorted(found["parameters"], key=lambda p: -(p["permutation"] or 0))[:MOST_CELLS]]
    if len(shown) < 2:
        return None
    cells = np.full((len(shown), len(shown)), np.nan)
    for p in found["parameters"]:
        if p["parameter"] in shown:
            cells[shown.index(p["parameter"])][shown.index(p["parameter"])] = 100 * max(0.0, p["main_effect"] or 0)
    for pair in found["interactions"]:
        if pair["first"] in shown and pair["second"] in shown:
            i, j = sorted((shown.index(pair["first"]), shown.index(pair["second"])), reverse=True)
            cells[i][j] = 100 * max(0.0, pair["share"] or 0)
    names = [literal(name) for name in shown]
    most = float(np.nanmax(cells)) or 1.0
    notes = [{"text": f"{cells[i][j]:.1f}", "x": names[j], "y": names[i], "showarrow": False,
              "font": {"size": NOTE, "color": "#ffffff" if cells[i][j] > 0.55 * most else palette.INK}}
             for i in range(len(names)) for j in range(i + 1)] if len(names) <= 9 else []
    layout = _layout(110 + 40 * len(names), margin={"l": 130, "r": 30, "t": 16, "b": 50}, annotations=notes,
                     xaxis=_axis("", type="category", showgrid=False, ticks=""),
                     yaxis=_axis("", type="category", autorange="reversed", showgrid=False, ticks=""))
    return {"data": [{"type": "heatmap", "x": names, "y": names, "z": [numbers(row, 4) for row in cells], "zmin": 0,
                      "zmax": most, "colorscale": [[0, "#ffffff"], [0.5, "#7db8dd"], [1, "#08457e"]],
                      "colorbar": {"title": {"text": "% of variance", "side": "right"}, "thickness": 12, "outlinewidth": 0},
                      "hoverongaps": False, "hovertemplate": "%{y} with %{x}: %{z:.3~g} %<extra></extra>"}],
            "layout": layout}


def main_effects(points: Points, objective: Shown, order: list[str], label: str) -> Figure:
    """A panel a parameter: mean of the objective at each of its values (of many, in eight bins of as many points), with
    the quartiles of the points there."""
    known = np.isin(points.standing, ("front", "best", "feasible", "over a limit"))
    frame = points.frame[known]
    values = frame[objective.column.name].to_numpy(dtype=float)
    factor, unit = units.scale_of(values, objective.unit)
    values, title = values * factor, literal(labelled(label, unit))
    parameters = sorted(points.of_kind("parameter"), key=lambda p: order.index(p.name) if p.name in order else len(order))
    parameters = parameters[:MOST_PANELS]
    columns = min(3, len(parameters))
    rows = -(-len(parameters) // columns)
    layout = _layout(70 + 250 * rows, showlegend=False, annotations=[], margin={"l": 76, "r": 20, "t": 36, "b": 60})
    data = []
    gap_x, gap_y = 0.05, 0.36 / rows if rows > 1 else 0.0
    width, height = (1 - gap_x * (columns - 1)) / columns, (1 - gap_y * (rows - 1)) / rows
    for p, parameter in enumerate(parameters):
        suffix = "" if p == 0 else str(p + 1)
        left, top = (p % columns) * (width + gap_x), 1 - (p // columns) * (height + gap_y)
        cells = frame[parameter.column.name]
        texts = cells.map(lambda v: isinstance(v, str)).any()
        times, of = (1.0, "") if texts else units.scale_of(cells.dropna(), parameter.unit)
        x, middle, low, high, discrete = _effect(cells if times == 1.0 else cells.astype(float) * times, values)
        layout["xaxis" + suffix] = _axis(literal(labelled(parameter.name, of)), domain=[left, left + width], anchor="y" + suffix,
                                         **({"type": "category"} if discrete else {"tickformat": ",~g"}))
        layout["yaxis" + suffix] = _axis(title if p % columns == 0 else "", domain=[max(0.0, top - height), top],
                                         anchor="x" + suffix, tickformat=",~g", nticks=6,
                                         **({"matches": "y"} if p else {}))
        data.append({"type": "scatter", "mode": "markers" if discrete else "lines+markers", "xaxis": "x" + suffix,
                     "yaxis": "y" + suffix, "x": x, "y": numbers(middle), "line": {"color": palette.BLUE, "width": 1.5},
                     "marker": {"color": palette.BLUE, "size": 8},
                     "error_y": {"type": "data", "symmetric": False, "array": numbers(high - middle),
                                 "arrayminus": numbers(middle - low), "color": palette.MUTED, "thickness": 1.2, "width": 4},
                     "hovertemplate": f"{literal(parameter.name)} %{{x}} {of}: mean %{{y:,.4~g}} {unit}<extra></extra>"})
    return {"data": data, "layout": layout}


def _effect(cells, values: np.ndarray) -> tuple[list, np.ndarray, np.ndarray, np.ndarray, bool]:
    """(x, mean, lower and upper quartile, whether x are names) of the values by what a parameter is."""
    texts = cells.map(lambda v: isinstance(v, str)).any()
    there = cells.notna().to_numpy()
    cells, values = cells[there], values[there]
    distinct = list(dict.fromkeys(cells.tolist()))
    if texts or len(distinct) <= 12:
        distinct = distinct if texts else sorted(distinct)
        groups = [values[(cells == level).to_numpy()] for level in distinct]
        x = [literal(str(level).removeprefix("catalog:")) if texts else f"{level:.6g}" for level in distinct]
        return x, *_spread(groups), True
    order = np.argsort(cells.to_numpy(dtype=float), kind="stable")
    parts = np.array_split(order, BINS)
    at = cells.to_numpy(dtype=float)
    return numbers([float(np.mean(at[part])) for part in parts]), *_spread([values[part] for part in parts]), False


def _spread(groups: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not groups:
        return np.array([]), np.array([]), np.array([])
    mean = np.array([np.mean(group) for group in groups])
    low, high = (np.array([np.quantile(group, q) for group in groups]) for q in (0.25, 0.75))
    # A mean far out may lie beyond a quartile: the bar then begins at it.
    return mean, np.minimum(low, mean), np.maximum(high, mean)
