"""Figures of several runs in one plot: the i-th run has the i-th colour and dashes everywhere."""

from __future__ import annotations

import numpy as np

from orrery_plot import palette, units
from orrery_plot.names import METRIC_NAMES, METRICS, SERIES_PANELS

from .figures import LEDGER, Figure, _axis, _layout, _panel_label, literal, log_axis, numbers, side_by_side
from .run_folder import Run

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", ".", "\\", "x", "-")


def _style(i: int) -> dict:
    return {"color": palette.colour(i), "dash": DASHES[i % len(DASHES)], "width": 2}


def latency(runs: list[Run], names: list[str]) -> Figure | None:
    """A panel a metric, a CDF a run; None where no run has distributions."""
    metrics = [m for m in METRICS if any(m in run.cdfs for run in runs)]
    if not metrics:
        return None
    rows = -(-len(metrics) // 2)
    gap = 0.3 / rows
    height = (1 - gap * (rows - 1)) / rows
    layout = _layout(70 + 300 * rows, annotations=[], margin={"l": 70, "r": 24, "t": 60, "b": 56})
    layout["legend"]["y"] = 1 + 36 / layout["height"]
    data, told = [], set()
    for k, metric in enumerate(metrics):
        suffix = "" if k == 0 else str(k + 1)
        left, top = (0.0, 0.54)[k % 2], 1 - (k // 2) * (height + gap)
        curves = [run.cdfs[metric].value_s for run in runs if metric in run.cdfs]
        layout["xaxis" + suffix] = _axis("time (s)", domain=[left, left + 0.46], anchor="y" + suffix,
                                         **log_axis(curves, dense=1e3))
        layout["yaxis" + suffix] = _axis("fraction at or below", domain=[max(0.0, top - height), top], anchor="x" + suffix,
                                         range=[0, 1.01], dtick=0.25)
        layout["annotations"].append(_panel_label(f"{METRIC_NAMES[metric][0]}, {METRIC_NAMES[metric][1]}", top + 0.006, left))
        for i, run in enumerate(runs):
            if metric not in run.cdfs:
                continue
            cdf, name = run.cdfs[metric], literal(names[i])
            data.append({"type": "scatter", "mode": "lines", "name": name, "legendgroup": str(i), "showlegend": i not in told,
                         "xaxis": "x" + suffix, "yaxis": "y" + suffix, "x": numbers(cdf.value_s),
                         "y": numbers(cdf.quantile, 6), "line": _style(i),
                         "hovertemplate": f"%{{x:.4~g}} s at %{{y:.4~g}}<extra>{name}</extra>"})
            told.add(i)
    return {"data": data, "layout": layout}


def over_time(runs: list[Run], names: list[str]) -> Figure | None:
    """A panel a field of series.csv, a line a run (of several replicas one each, or their mean)."""
    known = [(i, run) for i, run in enumerate(runs) if run.series is not None and run.series.lines]
    if not known:
        return None
    gap = 0.055
    height = (1 - gap * (len(SERIES_PANELS) - 1)) / len(SERIES_PANELS)
    layout = _layout(920, margin={"l": 76, "r": 24, "t": 58, "b": 56}, annotations=[])
    layout["legend"]["y"] = 1.03
    layout["xaxis"] = _axis("simulated time (s)", tickformat=",~g", anchor=f"y{len(SERIES_PANELS)}")
    data, told = [], set()
    for k, (name, label, unit, scale) in enumerate(SERIES_PANELS):
        suffix, bottom = "" if k == 0 else str(k + 1), 1 - (k + 1) * height - k * gap
        layout["yaxis" + suffix] = _axis(unit, domain=[max(0.0, bottom), bottom + height], anchor="x", rangemode="tozero",
                                         tickformat=",~g")
        layout["annotations"].append(_panel_label(label, bottom + height + 0.004))
        for i, run in known:
            for line in run.series.lines:
                drawn = line.trend or line
                data.append({"type": "scatter", "mode": "lines", "name": literal(names[i]), "legendgroup": str(i),
                             "showlegend": i not in told, "yaxis": "y" + suffix, "x": numbers(drawn.time_s, 7),
                             "y": numbers(drawn.mean[name] * scale),
                             "line": {**_style(i), "width": 1.5, "shape": "hv" if drawn.steps else "linear"},
                             "hovertemplate": f"%{{y:,.4~g}} {unit} at %{{x:,.6~g}} s<extra>{literal(names[i])}, "
                                              f"{literal(line.label)}</extra>"})
                told.add(i)
    return {"data": data, "layout": layout}


def by_class(runs: list[Run], names: list[str]) -> Figure | None:
    """Device time and energy by class, a bar a run."""
    known = [(i, run.energy.by_class) for i, run in enumerate(runs) if run.energy is not None and len(run.energy.by_class)]
    if not known:
        return None
    classes = list(dict.fromkeys(c for _, table in known for c in table.index if c != "idle"))
    classes += ["idle"] if any("idle" in table.index for _, table in known) else []
    layout = _layout(110 + len(classes) * (14 + 15 * len(known)), barmode="group", bargap=0.22, annotations=[],
                     margin={"l": 130, "r": 30, "t": 70, "b": 56},
                     yaxis=_axis("", autorange="reversed", type="category", ticks="", showgrid=False))
    layout["legend"]["y"] = 1 + 38 / layout["height"]
    data = []
    parts = ("energy_j",) if any(runs[i].energy.overlapping for i, _ in known) else tuple(LEDGER)
    for p, (column, domain) in enumerate(zip(parts, side_by_side(len(parts)))):
        (unit, label, _), suffix = LEDGER[column], "" if p == 0 else "2"
        factor, name = units.prefix(max(float(table[column].max()) for _, table in known), unit)
        layout["xaxis" + suffix] = _axis(f"{label.lower()} ({name})", domain=domain, anchor="y", tickformat=",~g")
        layout["annotations"].append(_panel_label(label, 1.0, domain[0]))
        for i, table in known:
            values = np.array([float(table[column].get(c, 0.0)) for c in classes]) * factor
            pattern = {"shape": PATTERNS[i % len(PATTERNS)], "fgcolor": "#ffffff", "bgcolor": palette.colour(i), "size": 6}
            data.append({"type": "bar", "orientation": "h", "xaxis": "x" + suffix, "name": literal(names[i]),
                         "legendgroup": str(i), "showlegend": p == 0, "y": [literal(c) for c in classes],
                         "x": numbers(values), "marker": {"color": palette.colour(i), **({"pattern": pattern} if i else {})},
                         "hovertemplate": f"%{{y}}: %{{x:.4~g}} {name}<extra>{literal(names[i])}</extra>"})
    return {"data": data, "layout": layout}
