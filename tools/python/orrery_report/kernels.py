"""The report of a graph run: its kernels under the device's roofline, its launches over time, what takes the time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from orrery_plot import palette, units

from .errors import InputError
from .figures import Figure, _axis, _layout, literal, log_axis, numbers
from .markup import Sheet, escape, note, table
from .run_folder import Run

COLUMNS = ("op", "class", "device", "call_s", "start_s", "end_s", "flops", "bytes", "bound", "peak_flops", "bandwidth")
BOUNDS = {"compute": ("bound by compute", palette.BLUE), "memory": ("bound by memory", palette.ORANGE),
          "launch": ("bound by its launch", palette.GREEN), "network": ("bound by the network", palette.PURPLE),
          "": ("transfers", palette.SKY)}
MOST_LAUNCHES = 3_000  # that are drawn over time
MOST_MARKS = 4_000  # of kernels that differ
MOST_ROOFS = 4
MOST_ROWS = 15


def of_run(run: Run) -> pd.DataFrame | None:
    """The kernels of a graph run, merged; None for a run of another system, or without kernels.csv."""
    kernels = _read(run)
    return None if kernels is None else merged(kernels)


def under_a_roof(marks: pd.DataFrame) -> pd.DataFrame:
    """Those that have work, time and a roof: what a roofline can show."""
    return marks[(marks["flops"] > 0) & (marks["bytes"] > 0) & (marks["one_s"] > 0) & (marks["peak_flops"] > 0)]


def panel(run: Run, sheet: Sheet) -> str:
    """The tab Kernels, as HTML; empty for a run without kernels.csv."""
    kernels = _read(run)
    if kernels is None:
        return ""
    if not len(kernels):
        return note("No kernels: kernels.csv is empty.")
    out = ""
    marks = merged(kernels)
    drawn = under_a_roof(marks)
    if len(drawn):
        share = 1 - drawn["time_s"].sum() / max(marks["time_s"].sum(), 1e-300)
        left = f" {units.percent(share)} of the time is in kernels without FLOPs, which are not drawn." if share > 5e-4 else ""
        caption = ("Each mark is a group of equal kernels of the first request; its area is their share of the time. Lines = their "
                   f"compute peaks and the limit of memory bandwidth.{left}")
        out += sheet.figure("roofline", "Kernels under the roofline", escape(caption), _roofline(drawn.head(MOST_MARKS), kernels))
    ordered = kernels.sort_values("start_s", kind="stable")
    some = f"The first {units.count(MOST_LAUNCHES)} of {units.count(len(ordered))}. " if len(ordered) > MOST_LAUNCHES else ""
    caption = f"{some}Grey = from the host's call to the start. Gaps in a row = the device waits for the host."
    out += sheet.figure("launches", "Launches of the first request", escape(caption), _launches(ordered.head(MOST_LAUNCHES)))
    return out + "<h3>Where the time goes</h3>" + table(
        ("class", "kernels", "time", "share", "of roofline", "bound by"), _rows(marks))


def _read(run: Run) -> pd.DataFrame | None:
    file = run.folder / "kernels.csv"
    if run.config.get("system") != "graph" or not file.is_file():
        return None
    try:
        kernels = pd.read_csv(file, usecols=list(COLUMNS), dtype={"op": str, "class": str, "device": str, "bound": str},
                              keep_default_na=False, na_values={name: [""] for name in ("peak_flops", "bandwidth")})
        return kernels.astype({name: float for name in COLUMNS if name not in ("op", "class", "device", "bound")})
    except (ValueError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(file, f"columns {','.join(COLUMNS)}", str(error)) from None


def merged(kernels: pd.DataFrame) -> pd.DataFrame:
    """Kernels of equal class, work, bound and device as one row, those that take most time first: time_s of all, one_s of one."""
    keys = ["class", "device", "flops", "bytes", "bound", "peak_flops", "bandwidth"]
    timed = kernels.assign(time_s=kernels["end_s"] - kernels["start_s"])
    rows = timed.groupby(keys, sort=False, dropna=False).agg(
        one_s=("time_s", "mean"), time_s=("time_s", "sum"), count=("op", "size"), first=("op", "first")).reset_index()
    return rows.sort_values("time_s", ascending=False, kind="stable")


def _roofline(marks: pd.DataFrame, kernels: pd.DataFrame) -> Figure:
    """FLOP/s over FLOP per byte, log-log, a trace a bound."""
    intensity = (marks["flops"] / marks["bytes"]).to_numpy()
    attained = (marks["flops"] / marks["one_s"]).to_numpy()
    share = (marks["time_s"] / (kernels["end_s"] - kernels["start_s"]).sum()).to_numpy()
    roofs = kernels.dropna(subset=["peak_flops", "bandwidth"])[["device", "peak_flops", "bandwidth"]].drop_duplicates()
    roofs = roofs[(roofs["peak_flops"] > 0) & (roofs["bandwidth"] > 0)].sort_values("peak_flops", ascending=False).head(MOST_ROOFS)
    top = float(roofs["peak_flops"].max()) if len(roofs) else float(attained.max())
    factor, unit = units.prefix(top, "FLOP/s")
    ridge = float((roofs["peak_flops"] / roofs["bandwidth"]).max()) if len(roofs) else 1.0
    low, high = min(intensity.min() / 2, ridge / 10), max(intensity.max() * 2, ridge * 4)
    data = []
    for i, roof in enumerate(roofs.itertuples()):
        bend = roof.peak_flops / roof.bandwidth
        of = f" of {roof.device}" if roofs["device"].nunique() > 1 else ""
        name = f"{units.text(roof.peak_flops, 'FLOP/s')}, {units.text(roof.bandwidth, 'B/s')}{of}"
        data.append({"type": "scatter", "mode": "lines", "name": literal(name), "x": numbers([low, bend, high]),
                     "y": numbers(np.array([low * roof.bandwidth, roof.peak_flops, roof.peak_flops]) * factor), "hoverinfo": "skip",
                     "line": {"color": palette.MUTED, "width": 1.6, "dash": ("solid", "dash", "dot", "dashdot")[i]}})
    for bound, (name, colour) in BOUNDS.items():
        own = (marks["bound"] == bound).to_numpy()
        if not own.any():
            continue
        text = [f"<b>{literal(k)}</b>, {units.count(n)} of {units.text(s, 's')}" for k, n, s in
                zip(marks["class"][own], marks["count"][own], marks["one_s"][own])]
        data.append({"type": "scatter", "mode": "markers", "name": name, "x": numbers(intensity[own]), "y": numbers(attained[own] * factor),
                     "text": text, "marker": {"color": colour, "opacity": 0.75, "size": numbers(7 + 40 * np.sqrt(share[own]), 3),
                                              "line": {"color": palette.INK, "width": 0.6}},
                     "hovertemplate": f"%{{text}}<br>%{{y:,.4~g}} {unit} at %{{x:,.4~g}} FLOP/B<extra>{name}</extra>"})
    floor = min(attained.min() / 2, low * float(roofs["bandwidth"].min()) if len(roofs) else np.inf) * factor
    layout = _layout(480, xaxis=_axis("arithmetic intensity (FLOP/B)", **log_axis([np.array([low, high])]),
                                      range=numbers(np.log10([low, high]))),
                     yaxis=_axis(f"attained ({unit})", **log_axis([np.array([floor, top * factor * 2])]),
                                 range=numbers(np.log10([floor, top * factor * 2]))))
    return {"data": data, "layout": layout}


def _launches(kernels: pd.DataFrame) -> Figure:
    """A row a device: bars from start to end, over thin ones from the host's call on."""
    devices = list(dict.fromkeys(kernels["device"]))
    label = {name: literal(name) for name in devices} if len(devices) > 1 else {devices[0]: "device"}
    scale, unit = units.prefix(float(kernels["end_s"].max()), "s")
    rows = [label[name] for name in kernels["device"]]
    call, start, end = (kernels[name].to_numpy() * scale for name in ("call_s", "start_s", "end_s"))
    data = [{"type": "bar", "orientation": "h", "name": "called, not started", "y": rows, "base": numbers(call, 9), "width": 0.96,
             "x": numbers(start - call, 9), "marker": {"color": palette.IDLE, "opacity": 0.45}, "hoverinfo": "skip"}]
    for bound, (name, colour) in BOUNDS.items():
        own = (kernels["bound"] == bound).to_numpy()
        if not own.any():
            continue
        text = [f"<b>{literal(op)}</b> ({literal(kind)})" for op, kind in zip(kernels["op"][own], kernels["class"][own])]
        data.append({"type": "bar", "orientation": "h", "name": name, "y": [row for row, mine in zip(rows, own) if mine],
                     "base": numbers(start[own], 9), "x": numbers((end - start)[own], 9), "text": text, "textposition": "none",
                     "width": 0.62, "marker": {"color": colour, "line": {"color": "#ffffff", "width": 0.3}},
                     "hovertemplate": f"%{{text}}<br>from %{{base:.6~g}} {unit}, %{{x:.4~g}} {unit} long<extra>{name}</extra>"})
    layout = _layout(max(230, 150 + 70 * len(devices)), barmode="overlay", bargap=0,
                     xaxis=_axis(f"simulated time ({unit})", tickformat=",~g", range=[0, float(end.max())]),
                     yaxis=_axis("", type="category", categoryorder="array", categoryarray=list(label.values()), autorange="reversed",
                                 showgrid=False))
    return {"data": data, "layout": layout}


def _rows(marks: pd.DataFrame) -> list[list[str]]:
    """A row a class, by time; what it attains of its roof is the least time that peaks allow over what it takes."""
    peak, bandwidth = (marks[name].to_numpy() for name in ("peak_flops", "bandwidth"))
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.fmax(np.where(peak > 0, marks["flops"] / peak, np.nan), np.where(bandwidth > 0, marks["bytes"] / bandwidth, np.nan))
    timed = marks.assign(least_s=least * marks["count"].to_numpy())
    whole = float(timed["time_s"].sum())
    rows = []
    for kind, own in sorted(timed.groupby("class", sort=False), key=lambda item: -item[1]["time_s"].sum())[:MOST_ROWS]:
        time = float(own["time_s"].sum())
        bounds = own.groupby("bound")["time_s"].sum().sort_values(ascending=False, kind="stable")
        roof = units.percent(float(own["least_s"].sum()) / time) if time > 0 and own["least_s"].notna().any() else units.MISSING
        rows.append([str(kind), units.count(int(own["count"].sum())), units.text(time, "s"),
                     units.percent(time / whole) if whole > 0 else units.MISSING, roof,
                     ", ".join(name or "copies" for name in bounds.index[:2])])
    return rows
