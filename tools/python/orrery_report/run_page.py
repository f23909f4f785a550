"""The report of one run: what it came to, its tables as plots, its configuration.

`render(run)` is a pure function from a run (run_folder.load) to the text of an HTML file; others may call it.
"""

from __future__ import annotations

import json

from orrery_plot import palette, units
from orrery_plot.names import METRIC_NAMES

from . import answers, figures, jobs, kernels, network, overview, small, tables, training
from .markup import Sheet, cards, document, escape, json_block, note, switch, table
from .run_folder import Run

IDLE = " Idle time is time in which nothing runs; idle energy is what devices always draw."
OVERLAP = " Compute and memory work at the same time, so their times do not add up to the device's."
MOST_LISTED = 60  # figures that are listed in full view
LEAST_SHARE = 1e-6  # of a whole that is told as the rest: less is rounding
ENERGY_COLOURS = {"compute": palette.BLUE, "memory": palette.GREEN, "network": palette.PURPLE, "idle": palette.IDLE}
# Parts of memory_bytes that make up its peak: of a serving run, of a graph.
MEMORY_PARTS = (("weights", "weights", palette.BLUE), ("kv_peak", "KV cache at its peak", palette.ORANGE),
                ("parameters", "parameters", palette.BLUE), ("state", "optimizer state", palette.PURPLE),
                ("inputs", "inputs", palette.GREEN), ("activations", "activations", palette.ORANGE))


def render(run: Run, library: str | None = None) -> str:
    """The report as HTML; `library`: address of plotly.js on the page's host, None to have it inside."""
    sheet = Sheet()
    if not run.infeasible:
        if training.is_training(run):
            sheet.tab("pipeline", "Pipeline", training.panel(run, sheet))
        if launched := kernels.panel(run, sheet):
            sheet.tab("kernels", "Kernels", launched)
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
    sheet.tabs.insert(0, ("overview", "Overview", _first(run, sheet)))
    status = run.summary["status"]
    headline = network.headline(run) if network.is_network(run) else overview.headline(run)
    return document(sheet, run.name, headline, (status, {"ok": "good", "infeasible": "bad"}.get(status, "odd")), library)


def _first(run: Run, sheet: Sheet) -> str:
    """What the run comes to, in the first tab: a network's picture, else small plots of what the sheet shows."""
    if run.infeasible:
        return _infeasible(run)
    if network.is_network(run):
        return network.overview(run, sheet) + _timeline(run)
    return _overview(run, answers.first(run, sheet) or jobs.first(run, sheet) or small.strip(sheet))


def _stack(title: str, parts: list[tuple[str, float, str]], unit: str, rest: str, whole: object = None,
           rest_colour: str = palette.IDLE) -> str:
    """A bar of stacked shares of `whole` (else of the parts' sum), with a legend that carries the numbers; what the parts leave
    of the whole is called `rest`. Without a part there is nothing to tell."""
    known = [(name, value, colour) for name, value, colour in parts if value > 0]
    total = sum(value for _, value, _ in known)
    whole = float(whole) if units.is_number(whole) else total  # type: ignore[arg-type]
    if not known or whole <= 0:
        return ""
    if whole - total > LEAST_SHARE * whole:
        known.append((rest, whole - total, rest_colour))
    whole = max(whole, total)
    cells = "".join(f'<span style="width:{100 * value / whole:.4g}%;background:{colour}"></span>' for _, value, colour in known)
    legend = "".join(f'<li><i style="background:{colour}"></i>{escape(name)} <b>{escape(units.text(value, unit))}</b> '
                     f"{escape(units.percent(value / whole))}</li>" for name, value, colour in known)
    return f'<h3>{escape(title)}</h3><div class="stack">{cells}</div><ul class="legend">{legend}</ul>'


def _energy_parts(summary: dict) -> list[tuple[str, float, str]]:
    """The parts of energy_j that make up its total, idle last. A figure per something (`per_sample`) is no part."""
    energy = summary["energy_j"] if isinstance(summary.get("energy_j"), dict) else {}
    known = [(name, float(value)) for name, value in sorted(energy.items(), key=lambda part: part[0] == "idle")
             if name != "total" and not name.startswith("per_") and units.is_number(value)]
    return [(name, value, ENERGY_COLOURS.get(name, palette.colour(i + 3))) for i, (name, value) in enumerate(known)]


def _time_bar(run: Run) -> str:
    """Busy and idle time of the device, where the classes of the ledger do not divide it."""
    if run.energy is None or run.device_time is None or not run.energy.overlapping:
        return ""
    busy, span = run.device_time
    return _stack("How long the device is busy", [("busy", busy, palette.BLUE)], "s", "idle", span)


def _overview(run: Run, plots: str) -> str:
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
    bars = _stack("Where the step time goes", training.step_parts(s), "s", "the rest", s.get("iteration_s"))
    bars += _stack("Where the time goes", jobs.time_parts(s), "", "the rest", 1)
    bars += _stack("Where the energy goes", _energy_parts(s), "J", "kernels and transfers", overview.pick(s, "energy_j", "total"),
                   palette.BLUE) + _time_bar(run)
    memory = s["memory_bytes"] if isinstance(s.get("memory_bytes"), dict) else {}
    parts = [(name, float(memory[key]), colour) for key, name, colour in MEMORY_PARTS
             if units.is_number(memory.get(key))]
    bars += _stack("What fills the memory", parts, "B", "rest of the peak", memory.get("peak"))
    setup = table((), [[name, value] for name, value in overview.highlights(run)], "plain pairs")
    more = _further(overview.further_results(s), "Further results" if run.serving else "Results")
    absent = note(f"Not in this run folder: {', '.join(run.absent)}.") if run.absent else ""
    return (f'{absent}{plots}<div class="columns"><div>{slo}{groups}{more}</div>'
            f"<aside><h3>What was simulated</h3>{setup}{bars}</aside></div>{_timeline(run)}")


def _further(further: overview.Further, title: str) -> str:
    """What only this system or option tells."""
    out = f"<h3>{title}</h3>" if further.distributions or further.figures else ""
    if further.distributions:
        out += table(("", *overview.QUANTILES), [[path, *values] for path, values in further.distributions])
    rows = [list(row) for row in further.figures]
    if rows:
        out += table((), rows[:MOST_LISTED], "pairs figures")
    if len(rows) > MOST_LISTED:
        out += (f'<details class="config"><summary>{len(rows) - MOST_LISTED} more</summary>'
                f'{table((), rows[MOST_LISTED:], "pairs figures")}</details>')
    if further.left_out:
        out += (f'<p class="caption">{further.left_out} figures are left out here, because they are 0 or have no value; the tab '
                "Config has the whole summary.</p>")
    return out


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
            times = f": the design needs {units.plain(needed / available)} times the memory available" if available else ""
            bars += f"<p>{escape(units.text(needed - available, 'B'))} too little{times}.</p>"
    reason = escape(s.get("reason") or "no reason given")
    setup = table((), [[name, value] for name, value in overview.highlights(run)], "plain pairs")
    return (f'<div class="verdict"><p class="lead">This design is infeasible: {reason}</p>{bars}'
            "<p>Nothing was simulated, so there are no latencies, series or energies to show.</p></div>"
            f"<h3>Requested setup</h3>{setup}")


def _latency(run: Run, sheet: Sheet) -> str:
    if run.cdfs:
        targets = {m: v for m, v in overview.slo_targets(run.config).items() if m in run.cdfs}
        caption = "Click a name to hide its curve, double-click to see it alone. A logarithmic axis leaves out zeros: a " \
            "curve that starts above the bottom has that share of samples at 0 s."
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
    caption = escape(" ".join(filter(None, ("Drag to zoom in on a time range, double-click to zoom out.",
                                            run.series.note))))
    return sheet.figure("time", "State over simulated time", caption, figures.over_time(run.series, kv_capacity(run)))


def _requests(run: Run, sheet: Sheet) -> str:
    digest = run.requests
    if digest is None or not digest.total:
        return note("No requests: requests.csv is absent or empty.")
    caption = f"All {units.count(digest.total)} requests are drawn."
    if digest.sampled:
        shown = sum(len(group.id) for group in digest.groups)
        caption = (f"{units.count(shown)} of {units.count(digest.total)} requests are drawn: an even sample of each status, and the "
                   "slowest.")
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
    parts = ("energy_j",) if digest.overlapping else ("busy_s", "energy_j")
    caption = f"{over}Shares are of the total at the panel's top, idle included.{OVERLAP if digest.overlapping else IDLE}"
    title = "Energy by component" if digest.overlapping else "By operator class"
    out = _time_bar(run) + sheet.figure("classes", title, caption, figures.by_class(digest, parts))
    if devices > 1:
        limit = f"The first {figures.MAX_DEVICES} of {devices} devices." if devices > figures.MAX_DEVICES else ""
        out += sheet.figure("devices", "By device", escape(limit), figures.by_device(digest, parts))
    return out


def _config(run: Run) -> str:
    facts = [[key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
             for key, value in run.manifest.items() if key != "config" and not isinstance(value, dict)]
    rest = {key: value for key, value in run.manifest.items() if key != "config" and isinstance(value, dict)}
    manifest = table((), facts, "plain pairs") + (json_block(rest) if rest else "")
    return (f"<h3>Manifest</h3>{manifest}<h3>Resolved configuration</h3>{json_block(run.config)}"
            f"<h3>Summary</h3>{json_block(run.summary)}")
