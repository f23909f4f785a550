"""Pieces of HTML that every report is made of, and the document around them: one file with its style, its scripts,
plotly.js and the data of its figures inside.

plotly.js and large tables are kept compressed (unpack.js). Every text is escaped; JSON is embedded with `<` written as \\u003c, so that no text can end its script. A content
security policy forbids the page to fetch anything.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
from dataclasses import dataclass, field
from pathlib import Path

Figure = dict  # {data, layout} as plotly.js draws it

ASSETS = Path(__file__).resolve().parent
SCRIPTS = ("page.js", "grid.js", "explorer.js", "parallel.js", "study.js")
LARGE = 200_000  # characters of JSON that are worth compressing


@dataclass
class Sheet:
    """What a document is made of: tabs as (key, name, HTML), figures by key, and what scripts read."""

    tabs: list[tuple[str, str, str]] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    tables: dict[str, dict] = field(default_factory=dict)
    data: dict[str, object] = field(default_factory=dict)

    def tab(self, key: str, name: str, body: str) -> None:
        self.tabs.append((key, name, body))

    def figure(self, key: str, title: str, caption: str, figure: Figure, tools: str = "") -> str:
        """A figure's place in the page; `caption` and `tools` are HTML."""
        self.figures[key] = figure
        height = figure["layout"]["height"]
        return (f'<figure><div class="figure-head"><h3>{escape(title)}</h3><div class="tools">{tools}</div></div>'
                f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(title)}, a plot">'
                f'<div id="plot-{key}" data-figure="{key}" style="height:{height}px"></div></div>'
                f"<figcaption>{caption}</figcaption></figure>")


def plotly_js() -> str:
    """plotly.js as the installed plotly package ships it."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def packed(kind: str, text: str, key: str = "") -> str:
    """A script element of this type, compressed: unpack.js puts the text in its place."""
    data = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
    name = f' id="{key}"' if key else ""
    return f'<script type="application/gzip" data-packed="{kind}"{name}>{data}</script>'


@functools.cache
def _plotly() -> str:
    return packed("text/javascript", plotly_js())


def _json_block(key: str, document: object) -> str:
    text = embedded(document)
    if len(text) < LARGE:
        return f'<script type="application/json" id="{key}">{text}</script>'
    return packed("application/json", text, key)


def embedded(document: object) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def escape(value: object) -> str:
    return html.escape(str(value), quote=True)


def document(sheet: Sheet, title: str, headline: str, status: tuple[str, str] | None, library: str | None = None) -> str:
    """The whole page. `status` is (text, good|bad|odd); `library` an address of plotly.js, or None to have it inside."""
    plots = bool(sheet.figures or sheet.tables or sheet.data)
    elsewhere = library is not None and plots
    # A page in a sandbox has no host of its own: a whole address is allowed as it is.
    source = "" if not elsewhere else f" {escape(library)}" if library.startswith("http") else " 'self'"
    policy = f"default-src 'none'; script-src 'unsafe-inline'{source}; style-src 'unsafe-inline'; img-src data: blob:"
    plotly = "" if not plots else \
        f'<script src="{escape(library)}"></script>' if elsewhere else _plotly()
    mark = f'<span class="status {status[1]}">{escape(status[0])}</span>' if status else ""
    tabs = [(escape(key), escape(name), body) for key, name, body in sheet.tabs]  # a key may be the name of a file
    buttons = "".join(f'<button role="tab" id="tab-{key}" aria-controls="{key}" data-tab="{key}">{name}</button>'
                      for key, name, _ in tabs)
    panels = "".join(f'<section role="tabpanel" class="panel" id="{key}" aria-labelledby="tab-{key}">'
                     f'<h2>{name}</h2>{body}</section>\n' for key, name, body in tabs)
    scripts = SCRIPTS if sheet.tables or sheet.data else SCRIPTS[:1]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · Orrery report</title>
<link rel="icon" href="data:,">
<style>{_asset("colours.css")}{_asset("page.css")}</style>
</head>
<body>
<header>
<div class="title"><span class="product">Orrery report</span><h1>{escape(title)}</h1>{mark}</div>
<p class="headline">{escape(headline)}</p>
<nav role="tablist" aria-label="Parts of the report">{buttons}</nav>
</header>
<main>
<noscript><p class="note">Plots need JavaScript. The tables below do not.</p></noscript>
{panels}</main>
{_json_block("figures", sheet.figures)}
{_json_block("tables", sheet.tables)}
{_json_block("data", sheet.data)}
{plotly}
{"".join(f'<script type="text/late">{_asset(name)}</script>' for name in scripts)}
<script>{_asset("unpack.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def switch(key: str, label: str, options: tuple[tuple[str, str, str], ...]) -> str:
    """A row of buttons of which one is on, the first at the start; options are (what, value, name)."""
    buttons = "".join(f'<button data-target="{key}" data-set="{what}" data-value="{escape(value)}" '
                      f'aria-pressed="{"true" if i == 0 else "false"}">{escape(name)}</button>'
                      for i, (what, value, name) in enumerate(options))
    name = escape(label)
    return f'<span class="switch" role="group" aria-label="{name}"><span>{name}</span>{buttons}</span>'


def note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def table(head: tuple[str, ...], rows: list[list[str]], kind: str = "") -> str:
    """A table of escaped texts; columns after the first are numbers unless `kind` is "plain"."""
    top = "".join(f'<th scope="col">{escape(h)}</th>' for h in head)
    body = "".join("<tr>" + f'<th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(c)}</td>" for c in row[1:])
                   + "</tr>" for row in rows)
    thead = f"<thead><tr>{top}</tr></thead>" if head else ""
    return scrolled(f'<table class="{kind}">{thead}<tbody>{body}</tbody></table>')


def scrolled(content: str, label: str = "a table") -> str:
    """What may be wider than the page; with the keyboard it can be scrolled too."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(label)}">{content}</div>'


def cards(group: str, members: list) -> str:
    """Key figures (overview.Card) under a heading."""
    cells = "".join(
        f'<div class="card" title="{escape(c.title)}"><div class="label">{escape(c.label)}</div>'
        f'<div class="value">{escape(c.value)}<span class="unit">{escape(c.unit)}</span></div>'
        f'<div class="detail">{escape(c.detail)}</div></div>' for c in members)
    return f'<h3>{escape(group)}</h3><div class="cards">{cells}</div>'


def json_block(value: object) -> str:
    """A document as people read it."""
    return f'<pre class="json" tabindex="0">{_json(value)}</pre>'


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
