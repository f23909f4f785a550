"""The interactive figures, as the plain `{data, layout}` objects that plotly.js draws.

Plain objects instead of Plotly's Python classes: the same bytes every time, and nothing drawn that is not named here.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable

import numpy as np

from orrery_plot import palette, units
from orrery_plot.digest import EnergyDigest, Group, Histogram, Line, RequestDigest, SeriesDigest, is_skewed
from orrery_plot.names import METRIC_NAMES, REQUEST_PANELS, SERIES_PANELS

from .run_folder import Cdf

Figure = dict

OTHER_CLASSES = "all others"
MAX_DEVICES = 32
SIZE = 13  # of every text in a figure
NOTE = 11  # but of notes inside it, and of small figures
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def numbers(values: Iterable[float], digits: int = 6) -> list[float | None]:
    """JSON numbers of `digits` significant digits; NaN becomes null."""
    return [None if not math.isfinite(v) else float(f"{v:.{digits}g}") for v in values]


def literal(value: object) -> str:
    """A text that plotly.js shows as it is, although it reads tags and `%{...}` in its texts."""
    return html.escape(str(value), quote=False).replace("%{", "% {")


def tinted(colour: str, alpha: float) -> str:
    """`#rrggbb` as an rgba() colour."""
    red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def _axis(title: str, **more: object) -> dict:
    return {"title": {"text": title, "standoff": 8, "font": {"size": SIZE}}, "gridcolor": palette.GRID,
            "linecolor": palette.MUTED, "showline": True, "zeroline": False, "ticks": "outside", "ticklen": 4, "tickcolor": palette.MUTED,
            "automargin": True, **more}


def log_axis(values: Iterable[np.ndarray], dense: float = 1e6) -> dict:
    """A logarithmic axis with whole labels: units.log_ticks."""
    known = np.concatenate([np.asarray(v, dtype=float) for v in values] or [np.array([])])
    known = known[np.isfinite(known) & (known > 0)]
    low, high = (known.min(), known.max()) if len(known) else (0.1, 10.0)
    ticks = units.log_ticks(float(low), float(high), dense)
    texts = [f"{t:,.10f}".rstrip("0").rstrip(".") if t >= 1e-10 else f"{t:g}" for t in ticks]
    return {"type": "log", "tickmode": "array", "tickvals": numbers(ticks), "ticktext": texts, "exponentformat": "none"}


def _padded(values: Iterable[np.ndarray]) -> list[float]:
    """The range of the values and a little more."""
    known = np.concatenate([np.asarray(v, dtype=float) for v in values])
    known = known[np.isfinite(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    pad = 0.012 * (high - low) or 0.5
    return [low - pad, high + pad]


def _layout(height: int, **more: object) -> dict:
    base = {
        "height": height, "font": {"family": FONT, "size": SIZE, "color": palette.INK}, "hovermode": "closest",
        "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff", "margin": {"l": 70, "r": 24, "t": 16, "b": 56},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom",
                   "itemsizing": "constant", "itemwidth": 36},
        "hoverlabel": {"font": {"family": FONT, "size": SIZE}},
    }
    return {**base, **more}


def _panel_label(text: str, top: float, x: float = 0.0) -> dict:
    return {"text": f"<b>{text}</b>", "xref": "paper", "yref": "paper", "x": x, "y": top, "xanchor": "left",
            "yanchor": "bottom", "showarrow": False, "font": {"size": SIZE}}


def latency(cdfs: dict[str, Cdf], targets: dict[str, float]) -> Figure:
    """CDFs; each curve carries its tail (1 - quantile) too, for the other y axis. Targets: SLO in s by metric."""
    data = []
    for metric, cdf in cdfs.items():
        short, meaning = METRIC_NAMES[metric]
        zero = " (all 0 s)" if not cdf.value_s.any() else ""
        data.append({
            "type": "scatter", "mode": "lines", "name": short + zero, "x": numbers(cdf.value_s),
            "y": numbers(cdf.quantile, 9), "meta": meaning,
            "line": {"color": palette.METRIC_COLOURS[metric], "dash": palette.METRIC_DASHES[metric], "width": 2.2},
            "hovertemplate": f"<b>{short}</b> %{{x:.4~g}} s<br>quantile %{{y:.4~g}}<extra>{meaning}</extra>",
        })
    shapes, labels = [], []
    for metric, target in targets.items():
        colour = palette.METRIC_COLOURS[metric]
        shapes.append({"type": "line", "xref": "x", "yref": "paper", "x0": target, "x1": target, "y0": 0, "y1": 1,
                       "line": {"color": colour, "width": 1.2, "dash": "dot"}})
        labels.append({"text": f"SLO {METRIC_NAMES[metric][0]} {units.text(target, 's')}", "xref": "x",
                       "yref": "paper", "x": math.log10(target), "y": 0.03, "xanchor": "left", "yanchor": "bottom",
                       "showarrow": False, "font": {"color": colour, "size": NOTE}, "textangle": -90, "xshift": 2})
    layout = _layout(
        520, xaxis=_axis("time (s)", **log_axis([c.value_s for c in cdfs.values()])),
        yaxis=_axis("fraction of samples at or below", range=[0, 1.005], dtick=0.2, exponentformat="none"),
        shapes=shapes, annotations=labels)
    return {"data": data, "layout": layout}


def _series_traces(line: Line, colour: str, name: str, axis: str, scale: float, unit: str, legend: bool) -> list[dict]:
    time = numbers(line.time_s, 9)
    common = {"type": "scatter", "mode": "lines", "x": time, "xaxis": "x", "yaxis": axis, "legendgroup": line.label}
    traces = []
    if line.low is not None and line.high is not None:
        edge = {**common, "line": {"width": 0, "color": colour}, "hoverinfo": "skip", "showlegend": False}
        traces.append({**edge, "y": numbers(line.low[name] * scale)})
        traces.append({**edge, "y": numbers(line.high[name] * scale), "fill": "tonexty",
                       "fillcolor": tinted(colour, 0.22)})
    hover = f"%{{y:,.4~g}} {unit} at %{{x:,.6~g}} s<extra>{literal(line.label)}</extra>"
    traces.append({
        **common, "name": literal(line.label), "showlegend": legend, "y": numbers(line.mean[name] * scale),
        "line": {"width": 1.0 if line.trend else 1.6, "color": tinted(colour, 0.4) if line.trend else colour,
                 "shape": "hv" if line.steps else "linear"}, "hovertemplate": hover})
    if line.trend:
        traces.append({**common, "x": numbers(line.trend.time_s, 9), "y": numbers(line.trend.mean[name] * scale),
                       "line": {"width": 2.0, "color": colour}, "showlegend": False, "hoverinfo": "skip"})
    return traces


def over_time(series: SeriesDigest, kv_capacity_bytes: float | None) -> Figure:
    """One panel for each field of series.csv under one time axis; KV also in percent where its capacity is known."""
    count, gap = len(SERIES_PANELS), 0.055
    height = (1 - gap * (count - 1)) / count
    data: list[dict] = []
    layout = _layout(920, margin={"l": 76, "r": 64, "t": 58, "b": 56}, annotations=[])
    layout["legend"]["y"] = 1.03
    layout["xaxis"] = _axis("simulated time (s)", tickformat=",~g", anchor=f"y{count}", range=_from_zero(series),
                            showspikes=True, spikemode="across", spikethickness=1, spikedash="solid", spikecolor=palette.MUTED, spikesnap="data")
    for i, (name, label, unit, scale) in enumerate(SERIES_PANELS):
        suffix = "" if i == 0 else str(i + 1)
        bottom = 1 - (i + 1) * height - i * gap
        layout["yaxis" + suffix] = _axis(unit, domain=[max(0.0, bottom), bottom + height], anchor="x",
                                         rangemode="tozero", tickformat=",~g")
        layout["annotations"].append(_panel_label(label, bottom + height + 0.004))
        for n, line in enumerate(series.lines):
            data += _series_traces(line, palette.SEQUENCE[n], name, "y" + suffix, scale, unit,
                                   i == 0 and len(series.lines) > 1)
        if name == "kv_used_bytes" and kv_capacity_bytes:
            top = _largest(series, name) * scale * 1.05 or kv_capacity_bytes * scale
            layout["yaxis" + suffix] |= {"range": [0, top], "rangemode": "normal"}
            layout["yaxis9"] = _axis("% of capacity", overlaying="y" + suffix, side="right", anchor="x", showline=False,
                                     range=[0, 100 * top / (kv_capacity_bytes * scale)], showgrid=False)
            data.append({"type": "scatter", "mode": "lines", "x": [], "y": [], "yaxis": "y9", "showlegend": False})
    return {"data": data, "layout": layout}


def _from_zero(series: SeriesDigest) -> list[float]:
    """The time range, from 0 unless the samples begin late."""
    first = float(min(line.time_s.min() for line in series.lines))
    last = float(max(line.time_s.max() for line in series.lines))
    return [0.0 if first < 0.2 * last else first, last if last > first else first + 1.0]


def _largest(series: SeriesDigest, name: str) -> float:
    """The largest sample of a field, 0 if there is none."""
    tops = [np.nanmax(values) for line in series.lines
            if len(values := (line.high or line.mean)[name]) and not np.isnan(values).all()]
    return float(max(tops, default=0.0))


def requests(digest: RequestDigest) -> Figure:
    """TTFT and E2E over arrival time; requests without latency (rejected ones) are ticks in a strip at the foot."""
    timed = [g for g in digest.groups if np.isfinite(g.ttft_s).any() or np.isfinite(g.e2e_s).any()]
    strip = [g for g in digest.groups if g not in timed]
    foot = 0.06 + 0.035 * len(strip) if strip else 0.0
    height = (1 - foot - (0.07 if strip else 0) - 0.08) / 2
    layout = _layout(760, margin={"l": 76, "r": 24, "t": 58, "b": 56}, annotations=[])
    layout["legend"]["y"] = 1.045
    layout["xaxis"] = _axis("arrival time (s)", tickformat=",~g", anchor="y3" if strip else "y2",
                            range=_padded([g.arrived_s for g in digest.groups]))
    skewed = any(is_skewed(getattr(g, name)) for g in timed for name, _ in REQUEST_PANELS)
    data = []
    for i, (name, label) in enumerate(REQUEST_PANELS):
        suffix = "" if i == 0 else "2"
        top = 1 - i * (height + 0.08)
        scale = log_axis([getattr(g, name) for g in timed], dense=1e3)
        layout["yaxis" + suffix] = _axis(f"{label} (s)", domain=[max(0.0, top - height), top], anchor="x",
                                         rangemode="tozero", **scale)
        if not skewed:
            layout["yaxis" + suffix] |= {"type": "linear", "tickmode": "auto"}
        layout["annotations"].append(_panel_label(label, top + 0.006))
        for g in timed:
            many = len(g.id) > 300
            data.append({
                "type": "scatter", "mode": "markers", "name": f"{literal(g.label)} ({units.count(g.total)})",
                "legendgroup": g.label, "showlegend": i == 0, "x": numbers(g.arrived_s, 9), "y": numbers(getattr(g, name)),
                "yaxis": "y" + suffix, "text": [literal(value) for value in g.id],
                "marker": {"size": 4 if many else 5.5, "color": palette.group_colour(g.label), "opacity": 0.45 if many else 0.8,
                           "symbol": "circle" if g.label == "completed" else "diamond"},
                "hovertemplate": f"{label} %{{y:.4~g}} s<br>arrived %{{x:,.6~g}} s<br>request %{{text}}<extra></extra>",
            })
    if strip:
        data += _strip(strip, foot, layout)
    return {"data": data, "layout": layout}


def _strip(groups: list[Group], height: float, layout: dict) -> list[dict]:
    """One row of ticks for each group, in a strip at the foot of the figure."""
    layout["yaxis3"] = _axis("", domain=[0, height], anchor="x", showgrid=False, ticks="",
                             range=[len(groups) - 0.4, -0.6], showticklabels=False)
    layout["annotations"].append(_panel_label("No latency: rejected or unfinished", height + 0.006))
    data = []
    for row, g in enumerate(groups):
        colour, name = palette.group_colour(g.label), literal(g.label)
        data.append({
            "type": "scatter", "mode": "markers", "name": f"{name} ({units.count(g.total)})", "yaxis": "y3",
            "x": numbers(g.arrived_s, 9), "y": [row] * len(g.id), "text": [literal(value) for value in g.id],
            "marker": {"symbol": "line-ns-open", "size": 11, "color": colour, "line": {"width": 1.4, "color": colour}},
            "hovertemplate": f"{name}<br>arrived %{{x:,.6~g}} s<br>request %{{text}}<extra></extra>"})
    return data


def tokens(prompt: Histogram | None, output: Histogram | None) -> Figure:
    """Histograms of prompt tokens (of all requests) and output tokens (of completed ones), side by side."""
    layout = _layout(360, margin={"l": 70, "r": 24, "t": 64, "b": 56}, showlegend=False, annotations=[])
    data = []
    panels = ((prompt, "Prompt", "prompt tokens", palette.BLUE, [0.0, 0.46]),
              (output, "Output", "output tokens", palette.GREEN, [0.54, 1.0]))
    for i, (histogram, label, title, colour, domain) in enumerate(panels):
        suffix = "" if i == 0 else "2"
        layout["xaxis" + suffix] = _axis(title, domain=domain, anchor="y" + suffix)
        layout["yaxis" + suffix] = _axis("requests", anchor="x" + suffix, rangemode="tozero", tickformat=",~g")
        layout["annotations"].append(_panel_label(label, 1.03, domain[0]))
        if histogram is None:
            continue
        low, high = histogram.edges[:-1], histogram.edges[1:]
        layout["xaxis" + suffix] |= log_axis([high], dense=2e3) if histogram.log else {"tickformat": ",~g"}
        layout["annotations"][-1]["text"] += f" · mean {units.plain(histogram.mean)}, median " \
            f"{units.plain(histogram.median)}"
        data.append({
            "type": "scatter", "mode": "lines", "fill": "tozeroy", "xaxis": "x" + suffix, "yaxis": "y" + suffix,
            "x": numbers([low[0], *low, high[-1], high[-1]], 9),
            "y": numbers([0, *histogram.counts, histogram.counts[-1], 0], 9),
            "line": {"shape": "hv", "color": colour, "width": 1.4}, "fillcolor": tinted(colour, 0.35),
            "hovertemplate": f"%{{y:,}} requests from %{{x:,}} {title.split()[0]} tokens<extra></extra>"})
        for value, dash in ((histogram.mean, "dash"), (histogram.median, "dot")):
            layout.setdefault("shapes", []).append({
                "type": "line", "xref": "x" + suffix, "yref": f"y{suffix} domain", "x0": value, "x1": value, "y0": 0,
                "y1": 1, "line": {"color": palette.INK, "width": 1, "dash": dash}})
    return {"data": data, "layout": layout}


LEDGER = {"busy_s": ("s", "Device time", palette.BLUE), "energy_j": ("J", "Energy", palette.ORANGE)}


def side_by_side(count: int) -> list[list[float]]:
    return [[0.0, 1.0]] if count == 1 else [[0.0, 0.47], [0.53, 1.0]]


def by_class(digest: EnergyDigest, parts: tuple[str, ...] = tuple(LEDGER)) -> Figure:
    """Busy time and energy by operator class, summed over devices; shares stand at the bars' ends."""
    table = digest.by_class
    layout = _layout(max(300, 30 * len(table) + 110), margin={"l": 130, "r": 30, "t": 36, "b": 56}, showlegend=False,
                     annotations=[], yaxis=_axis("", autorange="reversed", ticks="", showgrid=False))
    data = []
    for i, (column, domain) in enumerate(zip(parts, side_by_side(len(parts)))):
        unit, label, colour = LEDGER[column]
        suffix = "" if i == 0 else "2"
        values, total = table[column].to_numpy(), float(table[column].sum())
        factor, name = units.prefix(float(values.max()), unit)
        layout["xaxis" + suffix] = _axis(f"{label.lower()} ({name})", domain=domain, anchor="y", tickformat=",~g",
                                         range=[0, float(values.max()) * factor * 1.32 or 1.0])
        layout["annotations"].append(_panel_label(f"{label}, {units.text(total, unit)} in total", 1.0, domain[0]))
        data.append({
            "type": "bar", "orientation": "h", "xaxis": "x" + suffix, "y": [literal(c) for c in table.index],
            "x": numbers(values * factor), "cliponaxis": False, "textposition": "outside", "textfont": {"size": NOTE},
            "marker": {"color": [palette.IDLE if c == "idle" else colour for c in table.index]},
            "text": units.bar_texts(values, unit),
            "hovertemplate": f"%{{y}}: %{{text}}<extra>{label}</extra>"})
    return {"data": data, "layout": layout}


def by_device(digest: EnergyDigest, parts: tuple[str, ...] = tuple(LEDGER)) -> Figure:
    """Device time and energy of each device, stacked by the classes that matter most."""
    classes = [c for c in digest.by_class.index if c != "idle"]
    named, rest = classes[:5], classes[5:]
    devices = [literal(d) for d in digest.busy_by_device.index[:MAX_DEVICES]]
    layout = _layout(max(240, 26 * len(devices) + 130), barmode="stack",
                     margin={"l": 130, "r": 30, "t": 36, "b": 56},
                     yaxis=_axis("", autorange="reversed", type="category", ticks="", showgrid=False))
    data = []
    grids = {"busy_s": digest.busy_by_device, "energy_j": digest.energy_by_device}
    for i, (part, domain) in enumerate(zip(parts, side_by_side(len(parts)))):
        (unit, label, _), grid, suffix = LEDGER[part], grids[part], "" if i == 0 else "2"
        head = grid.iloc[:MAX_DEVICES]
        factor, unit = units.prefix(float(head.sum(axis=1).max()), unit)
        head = head * factor
        layout["xaxis" + suffix] = _axis(f"{label.lower()} ({unit})", domain=domain, anchor="y", tickformat=",~g")
        stacks = [(c, head[c], palette.SEQUENCE[n]) for n, c in enumerate(named)]
        stacks += [(OTHER_CLASSES, head[rest].sum(axis=1), palette.SEQUENCE[5])] if rest else []
        stacks += [("idle", head["idle"], palette.IDLE)] if "idle" in head.columns else []
        for name, values, colour in stacks:
            data.append({"type": "bar", "orientation": "h", "xaxis": "x" + suffix, "y": devices, "name": literal(name),
                         "x": numbers(values), "legendgroup": name, "showlegend": i == 0,
                         "marker": {"color": colour},
                         "hovertemplate": f"%{{y}}: %{{x:.4~g}} {unit}<extra>{literal(name)}</extra>"})
    return {"data": data, "layout": layout}
