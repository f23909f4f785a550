"""What answers open on: a capacity on its knee, plans on the front of what they cost and how long they take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from orrery_plot import palette, units
from orrery_plot.names import METRIC_NAMES

from .errors import InputError
from .figures import Figure, _axis, _layout, literal, log_axis, numbers
from .markup import Sheet, escape
from .run_folder import Run

PROBES = ("rate_per_s", "meets", "certain", "load", "figure", "mean", "half_width", "bound")
MOST_PANELS = 4  # figures of a probe that are drawn
# What a plan costs, by what is known of it: column, axis, unit.
COSTS = (("cost_per_million_tokens", "cost per million tokens", ""), ("energy_per_output_token_j", "energy per output token", "J"),
         ("memory_bytes", "memory per device", "B"), ("energy_j", "energy per step", "J"), ("devices", "devices", ""))
TIMES = (("e2e_s", "mean end-to-end latency", "s"), ("iteration_s", "time per step", "s"), ("tpot_s", "time per output token", "s"))


def first(run: Run, sheet: Sheet) -> str:
    """The figure that a run's question is answered by, as HTML; nothing where it asks no such question."""
    if units.is_number(run.summary.get("capacity_per_s")) and (run.folder / "probes.csv").exists():
        return _capacity(run, sheet)
    if (run.folder / "plans.csv").exists():
        return _plans(run, sheet)
    return ""


def _read(file: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(file)
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(file, "a table", str(error)) from None


def _capacity(run: Run, sheet: Sheet) -> str:
    probes = _read(run.folder / "probes.csv")
    lacking = [name for name in PROBES if name not in probes.columns]
    if lacking or not len(probes):
        return ""
    s = run.summary
    fails = (s.get("bracket_per_s") or {}).get("fails")
    lead = f"{units.text(s['capacity_per_s'], '')} requests/s meet the targets"
    lead += f"; {units.text(fails, '')} do not." if units.is_number(fails) else "; every rate tried meets them."
    binds = s.get("binds")
    reason = binds["text"] if isinstance(binds, dict) and isinstance(binds.get("text"), str) else ""
    why = f"<p>{escape(reason[:1].upper() + reason[1:])}.</p>" if reason else ""
    caption = "Each point is a rate that was tried, with a 95 % interval if it was run more than once. Dashed = the target."
    return (f'<p class="lead">{escape(lead)}</p>{why}'
            + sheet.figure("knee", "Where the targets are missed", caption, _knee(probes, float(s["capacity_per_s"]), fails)))


def _name(figure: str) -> str:
    """`ttft_s.p99` as people say it."""
    metric, _, quantile = figure.partition(".")
    short = METRIC_NAMES.get(metric.removesuffix("_s"), (metric,))[0]
    return f"{literal(short)} {literal(quantile)} (s)".replace("  ", " ")


def _span(title: str, values: np.ndarray) -> dict:
    """An axis: logarithmic where values differ by more than four times."""
    known = values[values > 0]
    if len(known) == len(values) and known.max() > 4 * known.min():
        return {**_axis(title), **log_axis([known])}
    return _axis(title, tickformat=",~g")


def _panel(title: str, i: int, count: int, least: bool) -> dict:
    gap = 0.08 if count > 1 else 0
    height = (1 - gap * (count - 1)) / count
    bottom = 1 - (i + 1) * height - i * gap
    return {**_axis(title, tickformat=".1%" if least else ",~g"), "domain": [round(bottom, 4), round(bottom + height, 4)]}


def _knee(probes: pd.DataFrame, capacity: float, fails: object) -> Figure:
    names = list(dict.fromkeys(probes["figure"]))[:MOST_PANELS]
    data: list[dict] = []
    shapes = [{"type": "line", "xref": "x", "yref": "paper", "x0": capacity, "x1": capacity, "y0": 0, "y1": 1,
               "line": {"color": palette.INK, "width": 1.2}}]
    if units.is_number(fails) and fails > capacity:
        shapes.append({"type": "rect", "xref": "x", "yref": "paper", "x0": capacity, "x1": fails, "y0": 0, "y1": 1, "line": {"width": 0},
                       "fillcolor": palette.VERMILION, "opacity": 0.12})
    axes: dict[str, dict] = {}
    # A probe is one colour in every panel: its verdict is over all figures.
    full = probes["load"] == "overloaded"
    verdicts = (("meets the targets", palette.GREEN, "circle", (probes["meets"] == 1) & ~full),
                ("overloaded: the queue grows", palette.ORANGE, "triangle-up", full),
                ("misses a target", palette.VERMILION, "x", (probes["meets"] != 1) & ~full))
    for i, name in enumerate(names):
        least = name == "attainment"  # at least its bound; every other figure at most
        key = "y" if i == 0 else f"y{i + 1}"
        axes["yaxis" if i == 0 else f"yaxis{i + 1}"] = _panel("attainment" if least else _name(name), i, len(names), least)
        own = probes["figure"] == name
        line = probes[own].sort_values("rate_per_s")
        data.append({"type": "scatter", "mode": "lines", "x": numbers(line["rate_per_s"]), "y": numbers(line["mean"]), "yaxis": key,
                     "showlegend": False, "hoverinfo": "skip", "line": {"color": palette.MUTED, "width": 1}})
        for label, colour, symbol, which in verdicts:
            part = probes[own & which]
            if not len(part):
                continue
            data.append({"type": "scatter", "mode": "markers", "name": label, "legendgroup": label, "showlegend": i == 0,
                         "x": numbers(part["rate_per_s"]), "y": numbers(part["mean"]), "yaxis": key,
                         "error_y": {"type": "data", "array": numbers(part["half_width"].fillna(0)), "visible": True, "width": 3,
                                     "thickness": 1},
                         "marker": {"color": colour, "symbol": symbol, "size": 9},
                         "hovertemplate": f"%{{x:.4~g}} requests/s: %{{y:.4~g}}<extra>{label}</extra>"})
        bound = float(line["bound"].iloc[0])
        if np.isfinite(bound):
            shapes.append({"type": "line", "xref": "paper", "yref": key, "x0": 0, "x1": 1, "y0": bound, "y1": bound,
                           "line": {"color": palette.INK, "width": 1.2, "dash": "dash"}})
    layout = _layout(150 + 230 * len(names), shapes=shapes, **axes,
                     xaxis=_axis("requests/s", tickformat=",~g", rangemode="tozero", anchor="y" if len(names) == 1 else f"y{len(names)}"))
    return {"data": data, "layout": layout}


def _plans(run: Run, sheet: Sheet) -> str:
    plans = _read(run.folder / "plans.csv")
    known = plans[plans["status"] == "ok"] if "status" in plans.columns else plans
    # What is the same for all plans does not tell them apart.
    cost = next((c for c in COSTS if c[0] in known.columns and known[c[0]].nunique() > 1), None)
    time = next((t for t in TIMES if t[0] in known.columns and known[t[0]].notna().any()), None)
    if cost is None or time is None or not len(known):
        return ""
    currency = run.summary.get("currency")
    unit = currency if cost[0].startswith("cost") and isinstance(currency, str) else cost[2]
    lacks = len(plans) - len(known)
    told = f"{units.count(len(known))} of {units.count(len(plans))} plans are feasible. " if lacks else f"{units.count(len(plans))} plans. "
    caption = told + "Lower and further left is better. The line is the Pareto front; the tab Plans has all figures."
    return sheet.figure("front", f"{cost[1].capitalize()} against {time[1]}", escape(caption), _front(known, cost[0], cost[1], unit, time))


def _front(plans: pd.DataFrame, cost: str, cost_name: str, unit: str, time: tuple[str, str, str]) -> Figure:
    known = plans[plans[cost].notna() & plans[time[0]].notna()]
    x, y = known[time[0]].to_numpy(float), known[cost].to_numpy(float)
    if unit == "B":
        scale, unit = units.scale_of(y, unit)
        y = y * scale
    order = np.lexsort((y, x))
    best, front = np.inf, []
    for i in order:
        if y[i] < best:
            best = y[i]
            front.append(i)
    data: list[dict] = [{"type": "scatter", "mode": "lines", "name": "Pareto front", "x": numbers(x[front]), "y": numbers(y[front]),
                         "hoverinfo": "skip", "line": {"color": palette.INK, "width": 1.4, "dash": "dot"}}]
    groups = known["part"].astype(str) if "part" in known.columns else pd.Series(["plans"] * len(known), index=known.index)
    told = [c for c in ("devices", "tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "replicas", "batching", "dtype",
                        "plan") if c in known.columns]
    texts = [", ".join(f"{c.replace('_', ' ')} {literal(row[c])}" for c in told if pd.notna(row[c])) for _, row in known.iterrows()]
    for i, name in enumerate(dict.fromkeys(groups)):
        own = np.flatnonzero((groups == name).to_numpy())
        data.append({"type": "scatter", "mode": "markers", "name": literal(name), "x": numbers(x[own]), "y": numbers(y[own]),
                     "text": [texts[k] for k in own], "marker": {"color": palette.colour(i), "size": 9},
                     "hovertemplate": f"%{{text}}<br>%{{x:.4~g}} {time[2]}, %{{y:.4~g}} {unit}<extra>{literal(name)}</extra>"})
    layout = _layout(430, xaxis=_span(f"{time[1]} ({time[2]})", x), yaxis=_span(cost_name + (f" ({unit})" if unit else ""), y))
    return {"data": data, "layout": layout}
