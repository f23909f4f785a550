"""What runs of training jobs open on: time that failures leave, intervals of checkpoints, devices of an iteration's calls."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from orrery_plot import calls, jobs, palette, units

from .errors import InputError
from .figures import Figure, _axis, _layout, literal, log_axis, numbers
from .markup import Sheet, escape
from .run_folder import Run

INTERVALS = ("interval_s", "ettr", "closed_form", "lost", "checkpoints", "recovery")
MOST_POINTS = 20_000  # of a history that are drawn: beyond, a page is slow
MOST_CALLS = 2_000
TIME_PARTS = (("productive", "productive steps", palette.BLUE), ("slower", "slowdown by lost nodes and overhead", palette.SKY),
              ("lost", "steps repeated or cut off", palette.VERMILION), ("checkpoints", "waiting for checkpoints", palette.ORANGE),
              ("recovery", "detection, restarts, state transfer", palette.PURPLE), ("waiting", "waiting for nodes", palette.IDLE))


def first(run: Run, sheet: Sheet) -> str:
    """The figure of the run's question, as HTML; nothing where it asks no such question."""
    folder, s = run.folder, run.summary
    if (folder / "intervals.csv").exists() and isinstance(s.get("ettr"), dict):
        return _intervals(_read(folder / "intervals.csv", INTERVALS), sheet)
    if (folder / "events.csv").exists() and isinstance(s.get("job"), dict):
        return _history(_read(folder / "events.csv", jobs.NEEDED), s, sheet)
    if (folder / "calls.csv").exists():
        return _calls(_read(folder / "calls.csv", calls.NEEDED), s, sheet)
    return ""


def time_parts(summary: dict) -> list[tuple[str, float, str]]:
    """Shares of a job's time, which add up to 1; none of another run."""
    parts = summary.get("time_share") if isinstance(summary.get("ettr"), dict) else None
    parts = parts if isinstance(parts, dict) else {}
    return [(name, float(parts[key]), colour) for key, name, colour in TIME_PARTS if units.is_number(parts.get(key))]


def _read(file: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    try:
        table = pd.read_csv(file)
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(file, f"columns {','.join(columns)}", str(error)) from None
    lacking = [name for name in columns if name not in table.columns]
    if lacking:
        raise InputError(file, f"columns {','.join(columns)}", f"no {', '.join(lacking)}")
    return table


def _history(events: pd.DataFrame, s: dict, sheet: Sheet) -> str:
    step_s, wall_s = s["job"].get("step_s"), s["job"].get("wall_s")
    if not len(events) or not units.is_number(step_s) or not units.is_number(wall_s):
        return ""
    failures, mean = (s.get("failures") or {}).get("all"), s["ettr"].get("mean") if isinstance(s.get("ettr"), dict) else None
    lead = ""
    if units.is_number(mean):
        scale, unit = jobs.clock(float(wall_s))
        lead = f"{units.percent(mean)} of {units.text(wall_s * scale, '')} {unit} went into productive steps"
        lead += f"; {units.text(failures, '')} failure{'' if failures == 1 else 's'}." if units.is_number(failures) else "."
    caption = "Drag to zoom in on a time range, double-click to zoom out."
    if len(events) > MOST_POINTS:
        caption = f"The first {units.count(MOST_POINTS)} of {units.count(len(events))} events. {caption}"
    return ((f'<p class="lead">{escape(lead)}</p>' if lead else "")
            + sheet.figure("job", "Effective training time and speed", escape(caption), _over_time(events[:MOST_POINTS], float(step_s))))


def _over_time(events: pd.DataFrame, step_s: float) -> Figure:
    scale, unit = jobs.clock(float(events["end_s"].max()))
    times, ratio = jobs.ratio_over_time(events, step_s)
    at, speed = jobs.rate_over_time(events, step_s)
    failed = events.loc[events["event"] == "failure"]
    parts = failed["component"] if "component" in failed.columns else [""] * len(failed)
    data = [{"type": "scatter", "mode": "lines", "name": "effective training time so far", "x": numbers(times * scale, 8),
             "y": numbers(ratio), "line": {"color": palette.BLUE, "width": 1.6}, "hovertemplate": f"%{{y:.1%}} by %{{x:.4~g}} {unit}<extra></extra>"},
            {"type": "scatter", "mode": "lines", "name": "speed, relative to all nodes", "x": numbers(at * scale, 8), "y": numbers(speed),
             "yaxis": "y2", "line": {"color": palette.GREEN, "width": 1.2, "shape": "hv"},
             "hovertemplate": f"%{{y:.1%}} from %{{x:.4~g}} {unit}<extra></extra>"},
            {"type": "scatter", "mode": "markers", "name": "failures", "x": numbers(failed["begin_s"] * scale, 8), "y": [0.02] * len(failed),
             "text": [literal(p) for p in parts], "marker": {"color": palette.VERMILION, "symbol": "line-ns-open", "size": 8},
             "hovertemplate": f"failure %{{text}} at %{{x:.4~g}} {unit}<extra></extra>"}]
    most = float(events["end_s"].max()) * scale
    layout = _layout(520, xaxis=_axis(f"simulated time ({unit})", tickformat=",~g", range=[0, most], anchor="y2"),
                     yaxis={**_axis("effective time", tickformat=".0%", range=[0, 1.05]), "domain": [0.56, 1]},
                     yaxis2={**_axis("speed", tickformat=".0%", range=[0, 1.05]), "domain": [0, 0.46]})
    return {"data": data, "layout": layout}


def _intervals(table: pd.DataFrame, sheet: Sheet) -> str:
    if not len(table):
        return ""
    ordered = table.sort_values("interval_s")
    best = ordered.loc[ordered["ettr"].idxmax()]
    every, unit = float(best["interval_s"]), "s"
    if every >= 120:
        every, unit = every / 60, "min"
    lead = (f"A checkpoint every {units.text(every, '')} {unit} gives the most effective training time: "
            f"{units.percent(float(best['ettr']))}.")
    return (f'<p class="lead">{escape(lead)}</p>'
            + sheet.figure("intervals", "Effective training time by checkpoint interval",
                           "Above: simulated histories with failures (points) and the closed form (line). Below: what takes the rest of the time.", _by_interval(ordered)))


def _by_interval(table: pd.DataFrame) -> Figure:
    scale, unit = (1 / 60, "min") if float(table["interval_s"].median()) >= 60 else (1.0, "s")
    x = table["interval_s"].to_numpy(float) * scale
    data = [{"type": "scatter", "mode": "lines", "name": "closed form", "x": numbers(x), "y": numbers(table["closed_form"]),
             "line": {"color": palette.MUTED, "width": 1.4}, "hoverinfo": "skip"},
            {"type": "scatter", "mode": "markers", "name": "simulated", "x": numbers(x), "y": numbers(table["ettr"]),
             "marker": {"color": palette.BLUE, "size": 9}, "hovertemplate": f"%{{y:.2%}} every %{{x:.4~g}} {unit}<extra></extra>"}]
    for key, name, colour in TIME_PARTS:
        if key in table.columns:
            data.append({"type": "scatter", "mode": "lines", "name": name, "x": numbers(x), "y": numbers(table[key]), "yaxis": "y2",
                         "line": {"color": colour, "width": 1.6}, "hovertemplate": f"%{{y:.2%}} every %{{x:.4~g}} {unit}<extra>{name}</extra>"})
    layout = _layout(560, xaxis={**_axis(f"interval between checkpoints ({unit})", anchor="y2"), **log_axis([x])},
                     yaxis={**_axis("effective time", tickformat=".0%"), "domain": [0.5, 1]},
                     yaxis2={**_axis("share of time", tickformat=".0%", rangemode="tozero"), "domain": [0, 0.42]})
    return {"data": data, "layout": layout}


def _calls(table: pd.DataFrame, s: dict, sheet: Sheet) -> str:
    if not len(table):
        return ""
    shown = table[:MOST_CALLS]
    step = s.get("iteration_s")
    lead = f'<p class="lead">{escape("An iteration takes " + units.text(step, "s") + ".")}</p>' if units.is_number(step) else ""
    hint = "Which devices each call uses, and when. Drag to zoom in on a time range, double-click to zoom out."
    if len(table) > len(shown):
        hint = f"The first {units.count(len(shown))} of {units.count(len(table))} calls and weight transfers. {hint}"
    return lead + sheet.figure("calls", "Devices of the calls over time", escape(hint), _devices(shown))


def _devices(table: pd.DataFrame) -> Figure:
    names = list(dict.fromkeys(table["call"]))
    moved = table["what"] == "weights"
    groups = [(name, palette.colour(i), table[(table["call"] == name) & ~moved]) for i, name in enumerate(names)]
    groups.append(("weight transfers", palette.INK, table[moved]))
    data = []
    for name, colour, own in groups:
        if not len(own):
            continue
        last = own["first"] + own["devices"] - 1
        data.append({"type": "bar", "orientation": "h", "name": literal(name), "base": numbers(own["begin_s"], 9),
                     "x": numbers(own["end_s"] - own["begin_s"], 9), "y": numbers(own["first"] + own["devices"] / 2),
                     "width": numbers(own["devices"]), "marker": {"color": colour, "line": {"color": "#ffffff", "width": 0.6}},
                     "text": [f"{literal(c)}, iteration {i}, devices {a} to {b}"
                              for c, i, a, b in zip(own["call"], own["iteration"], own["first"], last)],
                     "textposition": "none", "hovertemplate": "%{text}<br>from %{base:.6~g} s, %{x:.4~g} s long<extra></extra>"})
    most = int((table["first"] + table["devices"]).max())
    layout = _layout(430, barmode="overlay", xaxis=_axis("simulated time (s)", tickformat=",~g", range=[0, float(table["end_s"].max())]),
                     yaxis=_axis("device", range=[most, 0]))
    return {"data": data, "layout": layout}
