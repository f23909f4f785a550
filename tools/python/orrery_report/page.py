"""Puts the report together: one HTML file with its style, its script, plotly.js and the figures' data inside.

Every text from the run is escaped; JSON is embedded with `<` written as \\u003c, so that no text can end its script.
A content security policy forbids the page to fetch anything.
"""

from __future__ import annotations

import html
import json
from pathlib import Path

from orrery_plot import palette, units
from orrery_plot.names import METRIC_NAMES

from . import figures, network, overview
from .overview import Card
from .run_folder import Run

ASSETS = Path(__file__).resolve().parent
CSP = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
ENERGY_PARTS = (("compute", palette.BLUE), ("memory", palette.GREEN), ("network", palette.PURPLE),
                ("idle", palette.IDLE))
MEMORY_PARTS = (("weights", "weights", palette.BLUE), ("kv_peak", "KV cache at its peak", palette.ORANGE))


def plotly_js() -> str:
    """plotly.js as the installed plotly package ships it."""
    from plotly.offline import get_plotlyjs

    # A copy inside a script element must not hold the element's end.
    return get_plotlyjs().replace("</script", "<\\/script").replace("<!--", "<\\!--")


def embedded(document: object) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def escape(value: object) -> str:
    return html.escape(str(value), quote=True)


def render(run: Run) -> str:
    """The whole report."""
    drawn: dict[str, figures.Figure] = {}
    tabs = [("overview", "Overview", _first(run))]
    if not run.infeasible and not network.is_network(run):
        tabs += [("latency", "Latency", _latency(run, drawn)), ("time", "Over time", _over_time(run, drawn)),
                 ("requests", "Requests", _requests(run, drawn)), ("energy", "Energy & time", _energy(run, drawn))]
    tabs.append(("config", "Config", _config(run)))
    buttons = "".join(f'<button role="tab" id="tab-{key}" aria-controls="{key}" data-tab="{key}">{escape(name)}'
                      "</button>" for key, name, _ in tabs)
    panels = "".join(f'<section role="tabpanel" class="panel" id="{key}" aria-labelledby="tab-{key}">'
                     f'<h2>{escape(name)}</h2>{body}</section>\n' for key, name, body in tabs)
    library = f"<script>{plotly_js()}</script>\n" if drawn else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{CSP}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(run.name)} · Orrery report</title>
<link rel="icon" href="data:,">
<style>{_asset("page.css")}</style>
</head>
<body>
<header>
<div class="title"><span class="product">Orrery report</span><h1>{escape(run.name)}</h1>{_status(run)}</div>
<p class="headline">{escape(network.headline(run) if network.is_network(run) else overview.headline(run))}</p>
<nav role="tablist" aria-label="Parts of the report">{buttons}</nav>
</header>
<main>
<noscript><p class="note">Plots need JavaScript. The tables below do not.</p></noscript>
{panels}</main>
<script type="application/json" id="figures">{embedded(drawn)}</script>
{library}<script>{_asset("page.js")}</script>
</body>
</html>
"""


def _first(run: Run) -> str:
    """What the run comes to, in the first tab."""
    if run.infeasible:
        return _infeasible(run)
    return network.overview(run) if network.is_network(run) else _overview(run)


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _status(run: Run) -> str:
    status = run.summary["status"]
    kind = {"ok": "good", "infeasible": "bad"}.get(status, "odd")
    return f'<span class="status {kind}">{escape(status)}</span>'


def _figure(key: str, title: str, caption: str, figure: figures.Figure, drawn: dict[str, figures.Figure]) -> str:
    """A figure's place in the page; `caption` is HTML."""
    drawn[key] = figure
    tools = ""
    if key == "latency":
        tools = _switch(key, "Time axis", (("x", "log", "log"), ("x", "linear", "linear"))) + \
            _switch(key, "Show", (("tail", "0", "CDF"), ("tail", "1", "tail, 1 − CDF")))
    elif key == "requests":
        kinds = ("log", "linear")
        first = figure["layout"]["yaxis"]["type"]
        tools = _switch(key, "Latency axes", tuple(("y", k, k) for k in sorted(kinds, key=lambda k: k != first)))
    height = figure["layout"]["height"]
    return (f'<figure><div class="figure-head"><h3>{escape(title)}</h3><div class="tools">{tools}</div></div>'
            f'<div class="scroll"><div id="plot-{key}" data-figure="{key}" style="height:{height}px"></div></div>'
            f"<figcaption>{caption}</figcaption></figure>")


def _switch(key: str, label: str, options: tuple[tuple[str, str, str], ...]) -> str:
    """A row of buttons of which one is on, the first at the start."""
    buttons = "".join(f'<button data-target="{key}" data-set="{what}" data-value="{value}" '
                      f'aria-pressed="{"true" if i == 0 else "false"}">{escape(name)}</button>'
                      for i, (what, value, name) in enumerate(options))
    name = escape(label)
    return f'<span class="switch" role="group" aria-label="{name}"><span>{name}</span>{buttons}</span>'


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _table(head: tuple[str, ...], rows: list[list[str]], kind: str = "") -> str:
    """A table of escaped texts; columns after the first are numbers unless `kind` is "plain"."""
    top = "".join(f'<th scope="col">{escape(h)}</th>' for h in head)
    body = "".join("<tr>" + f'<th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(c)}</td>" for c in row[1:])
                   + "</tr>" for row in rows)
    thead = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f'<div class="scroll"><table class="{kind}">{thead}<tbody>{body}</tbody></table></div>'


def _cards(group: str, members: list[Card]) -> str:
    cells = "".join(
        f'<div class="card" title="{escape(c.title)}"><div class="label">{escape(c.label)}</div>'
        f'<div class="value">{escape(c.value)}<span class="unit">{escape(c.unit)}</span></div>'
        f'<div class="detail">{escape(c.detail)}</div></div>' for c in members)
    return f'<h3>{escape(group)}</h3><div class="cards">{cells}</div>'


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
    groups = "".join(_cards(name, members) for name, members in overview.cards(run))
    energy = s["energy_j"] if isinstance(s.get("energy_j"), dict) else {}
    parts = [(name, float(energy[name]), colour) for name, colour in ENERGY_PARTS if units.is_number(energy.get(name))]
    bars = _stack("Where the energy goes", parts, "J", sum(value for _, value, _ in parts))
    memory = s["memory_bytes"] if isinstance(s.get("memory_bytes"), dict) else {}
    parts = [(name, float(memory[key]), colour) for key, name, colour in MEMORY_PARTS
             if units.is_number(memory.get(key))]
    peak = memory.get("peak") if units.is_number(memory.get("peak")) else 0
    rest = peak - sum(value for _, value, _ in parts)
    parts.append(("rest of the peak", rest, palette.IDLE))
    bars += _stack("What fills the memory", parts, "B", max(peak, sum(v for _, v, _ in parts if v > 0)))
    setup = _table((), [[name, value] for name, value in overview.highlights(run)], "plain pairs")
    further = overview.further_results(s)
    more = "<h3>Further results</h3>" + _table((), [list(row) for row in further], "pairs") if further else ""
    absent = _note(f"Not in this run folder: {', '.join(run.absent)}.") if run.absent else ""
    return (f'{absent}<div class="columns"><div>{slo}{groups}</div><aside><h3>What was simulated</h3>{setup}{bars}'
            f"{more}</aside></div>")


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
    setup = _table((), [[name, value] for name, value in overview.highlights(run)], "plain pairs")
    return (f'<div class="verdict"><p class="lead">This design is infeasible: {reason}</p>{bars}'
            "<p>Nothing was simulated, so there are no latencies, series or energies to show.</p></div>"
            f"<h3>What was asked for</h3>{setup}")


def _latency(run: Run, drawn: dict[str, figures.Figure]) -> str:
    if run.cdfs:
        targets = {m: v for m, v in overview.slo_targets(run.config).items() if m in run.cdfs}
        caption = "Click a name to hide its curve, double-click to see it alone. A logarithmic axis leaves out zeros: a " \
            "curve that starts above the foot has that share of samples at 0 s."
        plot = _figure("latency", "Latency distributions", caption, figures.latency(run.cdfs, targets), drawn)
    else:
        plot = _note("No latency distributions: distributions.csv is absent or empty.")
    rows = [[f"{METRIC_NAMES[m][0]}, {METRIC_NAMES[m][1]}", unit, *values]
            for m, unit, values in overview.percentile_rows(run)]
    table = "<h3>Percentiles</h3>" + _table(("metric", "unit", *overview.QUANTILES), rows) if rows else ""
    return plot + table


def kv_capacity(run: Run) -> float | None:
    """The KV cache's capacity of one replica in bytes, if summary.json states it."""
    value = overview.pick(run.summary, "memory_bytes", "kv_capacity")
    return float(value) if units.is_number(value) and value > 0 else None  # type: ignore[arg-type, operator]


def _over_time(run: Run, drawn: dict[str, figures.Figure]) -> str:
    if run.series is None or not run.series.lines:
        return _note("No samples over time: series.csv is absent or empty.")
    caption = escape(" ".join(filter(None, ("Drag to zoom into a stretch of time, double-click to zoom out.",
                                            run.series.note))))
    return _figure("time", "State over simulated time", caption, figures.over_time(run.series, kv_capacity(run)), drawn)


def _requests(run: Run, drawn: dict[str, figures.Figure]) -> str:
    digest = run.requests
    if digest is None or not digest.total:
        return _note("No requests: requests.csv is absent or empty.")
    caption = f"Every one of the {digest.total:,} requests is drawn."
    if digest.sampled:
        shown = sum(len(group.id) for group in digest.groups)
        caption = f"{shown:,} of {digest.total:,} requests are drawn: an even sample of each status, and the slowest."
    out = _figure("requests", "Latency by arrival", escape(caption), figures.requests(digest), drawn)
    caption = "Prompts of all requests, outputs of completed ones. Dashed line = mean, dotted line = median."
    return out + _figure("tokens", "Request sizes", caption, figures.tokens(digest.prompt, digest.output), drawn)


def _energy(run: Run, drawn: dict[str, figures.Figure]) -> str:
    digest = run.energy
    if digest is None or digest.by_class.empty:
        return _note("No energy ledger: energy.csv is absent or empty.")
    devices = len(digest.busy_by_device)
    over = f"Sum over {devices} devices. " if devices > 1 else ""
    out = _figure("classes", "By operator class", f"{over}Shares are of the total at the panel's top, idle included.",
                  figures.by_class(digest), drawn)
    if devices > 1:
        limit = f"The first {figures.MAX_DEVICES} of {devices} devices." if devices > figures.MAX_DEVICES else ""
        out += _figure("devices", "By device", escape(limit), figures.by_device(digest), drawn)
    return out


def _config(run: Run) -> str:
    facts = [[key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
             for key, value in run.manifest.items() if key != "config" and not isinstance(value, dict)]
    rest = {key: value for key, value in run.manifest.items() if key != "config" and isinstance(value, dict)}
    manifest = _table((), facts, "plain pairs") + (f'<pre class="json">{_json(rest)}</pre>' if rest else "")
    return (f'<h3>Manifest</h3>{manifest}<h3>Configuration as resolved</h3><pre class="json">{_json(run.config)}</pre>'
            f'<h3>Summary</h3><pre class="json">{_json(run.summary)}</pre>')


def _json(value: object, indent: int = 0) -> str:
    """Pretty JSON as HTML: keys, texts and numbers in spans of their own; short lists stay on one line."""
    pad, inner = "  " * indent, "  " * (indent + 1)
    if isinstance(value, dict) and value:
        items = [f'{inner}<span class="k">{escape(json.dumps(k, ensure_ascii=False))}</span>: {_json(v, indent + 1)}'
                 for k, v in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{pad}}}"
    if isinstance(value, list) and value:
        if not any(isinstance(item, (dict, list)) for item in value) and len(json.dumps(value)) < 100:
            return "[" + ", ".join(_json(item) for item in value) + "]"
        return "[\n" + ",\n".join(inner + _json(item, indent + 1) for item in value) + f"\n{pad}]"
    kind = "s" if isinstance(value, str) else "n"
    return f'<span class="{kind}">{escape(json.dumps(value, ensure_ascii=False))}</span>'
