"""The report of one run: what it came to, its tables as plots, its configuration.

`render(run)` is a pure function from a run (run_folder.load) to the text of an HTML file; others may call it.
"""

from __future__ import annotations

import json

from orrery_plot import palette, units
from orrery_plot.names import METRIC_NAMES

from . import figures, network, overview, tables
from .markup import Sheet, cards, document, escape, json_block, note, switch, table
from .run_folder import Run

ENERGY_COLOURS = {"compute": palette.BLUE, "memory": palette.GREEN, "network": palette.PURPLE, "idle": palette.IDLE}
MEMORY_PARTS = (("weights", "weights", palette.BLUE), ("kv_peak", "KV cache at its peak", palette.ORANGE))


def render(run: Run, library: str | None = None) -> str:
    """The report as HTML; `library`: address of plotly.js on the page's host, None to have it inside."""
    sheet = Sheet()
    sheet.tab("overview", "Overview", _first(run))
    if not run.infeasible:
        if run.cdfs or run.serving:
            sheet.tab("latency", "Latency", _latency(run, sheet))
        if run.series is not None or run.serving:
            sheet.tab("time", "Over time", _over_time(run, sheet))
        if run.requests is not None or run.serving:
            sheet.tab("requests", "Requests", _requests(run, sheet))
        if run.energy is not None or run.serving:
            sheet.tab("energy", "Energy & time", _energy(run, sheet))
        for one in run.tables:
            sheet.tab(f"table-{one.key}", one.title, tables.panel(sheet, one))
    sheet.tab("config", "Config", _config(run))
    status = run.summary["status"]
    headline = network.headline(run) if network.is_network(run) else overview.headline(run)
    return document(sheet, run.name, headline, (status, {"ok": "good", "infeasible": "bad"}.get(status, "odd")), library)


def _first(run: Run) -> str:
    """What the run comes to, in the first tab."""
    if run.infeasible:
        return _infeasible(run)
    return network.overview(run) + _timeline(run) if network.is_network(run) else _overview(run)


def _stack(title: str, parts: list[tuple[str, float, str]], unit: str, whole: float) -> str:
    """A bar of stacked shares of `whole`, with a legend that carries the numbers."""
    known = [(name, value, colour) for name, value, colour in parts if value > 0]
    if not known or whole <= 0:
        return ""
    cells = "".join(f'<span style="width:{100 * min(1.0, value / whole):.4g}%;background:{colour}"></span>'
                    for _, value, colour in known)
    legend = "".join(f'<li><i style="background:{colour}"></i>{escape(name)} <b>{escape(units.text(value, unit))}</b> '
                     f"{escape(units.percent(value / whole))}</li>" for name, value, colour in known)
    return f'<h3>{escape(title)}</h3><div class="stack">{cells}</div><ul class="legend">{legend}</ul>'


def _overview(run: Run) -> str:
    s = run.summary
    attainment = overview.pick(s, "slo", "attainment")
    slo = ""
    if units.is_number(attainment):
        targets = ", ".join(f"{METRIC_NAMES[m][0]} ≤ {units.text(v, 's')}"
                            for m, v in overview.slo_targets(run.config).items())
        slo = (f'<div class="slo"><div><b>{escape(units.percent(attainment))}</b> of the requests attain the SLO'
               f'{escape(f" ({targets})" if targets else "")}</div><div class="stack">'
               f'<span style="width:{100 * min(1.0, max(0.0, attainment)):.4g}%;background:{palette.GREEN}"></span>'
               "</div></div>")
    groups = "".join(cards(name, members) for name, members in overview.cards(run))
    energy = s["energy_j"] if isinstance(s.get("energy_j"), dict) else {}
    parts = [(name, float(value), ENERGY_COLOURS.get(name, palette.colour(i + 3))) for i, (name, value)
             in enumerate(sorted(energy.items(), key=lambda part: part[0] == "idle"))
             if name != "total" and units.is_number(value)]
    bars = _stack("Where the energy goes", parts, "J", sum(value for _, value, _ in parts))
    memory = s["memory_bytes"] if isinstance(s.get("memory_bytes"), dict) else {}
    parts = [(name, float(memory[key]), colour) for key, name, colour in MEMORY_PARTS
             if units.is_number(memory.get(key))]
    peak = memory.get("peak") if units.is_number(memory.get("peak")) else 0
    rest = peak - sum(value for _, value, _ in parts)
    parts.append(("rest of the peak", rest, palette.IDLE))
    bars += _stack("What fills the memory", parts, "B", max(peak, sum(v for _, v, _ in parts if v > 0)))
    setup = table((), [[name, value] for name, value in overview.highlights(run)], "plain pairs")
    further = overview.further_results(s)
    title = "Further results" if run.serving else "Results"
    more = f"<h3>{title}</h3>" + table((), [list(row) for row in further], "pairs") if further else ""
    absent = note(f"Not in this run folder: {', '.join(run.absent)}.") if run.absent else ""
    # Figures that only this system has are its main ones.
    main, side = (slo + groups, more) if run.serving else (slo + more + groups, "")
    return (f'{absent}{_timeline(run)}<div class="columns"><div>{main}</div><aside><h3>What was simulated</h3>{setup}{bars}'
            f"{side}</aside></div>")


def _timeline(run: Run) -> str:
    """How to look at timeline.pftrace; a link works where the page lies in the run's folder."""
    if not run.timeline_bytes:
        return ""
    return ('<p class="note">Timeline: <a href="timeline.pftrace" download>timeline.pftrace</a> '
            f"({escape(units.text(run.timeline_bytes, 'B'))}, in the run's folder) shows every track, slice and counter in "
            "Perfetto: open ui.perfetto.dev in a browser and drop the file there.</p>")


def _infeasible(run: Run) -> str:
    s = run.summary
    needed, available = s.get("needed_bytes"), s.get("available_bytes")
    bars = ""
    if units.is_number(needed) and units.is_number(available):
        whole = max(needed, available, 1)
        rows = (("needed", needed, palette.VERMILION), ("available", available, palette.BLUE))
        bars = "".join(f'<div class="measure"><span>{name}</span><div class="stack"><span style="width:'
                       f'{100 * value / whole:.4g}%;background:{colour}"></span></div>'
                       f'<b>{escape(units.text(value, "B"))}</b><small>{value:,} bytes</small></div>'
                       for name, value, colour in rows)
        if needed > available:
            times = f": the design needs {units.plain(needed / available)} times what there is" if available else ""
            bars += f"<p>{escape(units.text(needed - available, 'B'))} too little{times}.</p>"
    reason = escape(s.get("reason") or "no reason given")
    setup = table((), [[name, value] for name, value in overview.highlights(run)], "plain pairs")
    return (f'<div class="verdict"><p class="lead">This design is infeasible: {reason}</p>{bars}'
            "<p>Nothing was simulated, so there are no latencies, series or energies to show.</p></div>"
            f"<h3>What was asked for</h3>{setup}")


def _latency(run: Run, sheet: Sheet) -> str:
    if run.cdfs:
        targets = {m: v for m, v in overview.slo_targets(run.config).items() if m in run.cdfs}
        caption = "Click a name to hide its curve, double-click to see it alone. A logarithmic axis leaves out zeros: a " \
            "curve that starts above the foot has that share of samples at 0 s."
        tools = switch("latency", "Time axis", (("x", "log", "log"), ("x", "linear", "linear"))) + \
            switch("latency", "Show", (("tail", "0", "CDF"), ("tail", "1", "tail, 1 − CDF")))
        plot = sheet.figure("latency", "Latency distributions", caption, figures.latency(run.cdfs, targets), tools)
    else:
        plot = note("No latency distributions: distributions.csv is absent or empty.")
    rows = [[f"{METRIC_NAMES[m][0]}, {METRIC_NAMES[m][1]}", unit, *values]
            for m, unit, values in overview.percentile_rows(run)]
    percentiles = "<h3>Percentiles</h3>" + table(("metric", "unit", *overview.QUANTILES), rows) if rows else ""
    return plot + percentiles


def kv_capacity(run: Run) -> float | None:
    """The KV cache's capacity of one replica in bytes, if summary.json states it."""
    value = overview.pick(run.summary, "memory_bytes", "kv_capacity")
    return float(value) if units.is_number(value) and value > 0 else None  # type: ignore[arg-type, operator]


def _over_time(run: Run, sheet: Sheet) -> str:
    if run.series is None or not run.series.lines:
        return note("No samples over time: series.csv is absent or empty.")
    caption = escape(" ".join(filter(None, ("Drag to zoom into a stretch of time, double-click to zoom out.",
                                            run.series.note))))
    return sheet.figure("time", "State over simulated time", caption, figures.over_time(run.series, kv_capacity(run)))


def _requests(run: Run, sheet: Sheet) -> str:
    digest = run.requests
    if digest is None or not digest.total:
        return note("No requests: requests.csv is absent or empty.")
    caption = f"Every one of the {digest.total:,} requests is drawn."
    if digest.sampled:
        shown = sum(len(group.id) for group in digest.groups)
        caption = f"{shown:,} of {digest.total:,} requests are drawn: an even sample of each status, and the slowest."
    drawn = figures.requests(digest)
    first = drawn["layout"]["yaxis"]["type"]
    tools = switch("requests", "Latency axes", tuple(("y", k, k) for k in sorted(("log", "linear"), key=lambda k: k != first)))
    out = sheet.figure("requests", "Latency by arrival", escape(caption), drawn, tools)
    caption = "Prompts of all requests, outputs of completed ones. Dashed line = mean, dotted line = median."
    return out + sheet.figure("tokens", "Request sizes", caption, figures.tokens(digest.prompt, digest.output))


def _energy(run: Run, sheet: Sheet) -> str:
    digest = run.energy
    if digest is None or digest.by_class.empty:
        return note("No energy ledger: energy.csv is absent or empty.")
    devices = len(digest.busy_by_device)
    over = f"Sum over {devices} devices. " if devices > 1 else ""
    out = sheet.figure("classes", "By operator class", f"{over}Shares are of the total at the panel's top, idle included.",
                  figures.by_class(digest))
    if devices > 1:
        limit = f"The first {figures.MAX_DEVICES} of {devices} devices." if devices > figures.MAX_DEVICES else ""
        out += sheet.figure("devices", "By device", escape(limit), figures.by_device(digest))
    return out


def _config(run: Run) -> str:
    facts = [[key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
             for key, value in run.manifest.items() if key != "config" and not isinstance(value, dict)]
    rest = {key: value for key, value in run.manifest.items() if key != "config" and isinstance(value, dict)}
    manifest = table((), facts, "plain pairs") + (json_block(rest) if rest else "")
    return (f"<h3>Manifest</h3>{manifest}<h3>Configuration as resolved</h3>{json_block(run.config)}"
            f"<h3>Summary</h3>{json_block(run.summary)}")
