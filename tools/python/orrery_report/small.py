"""Small plots for the first tab: a part of a figure that another tab shows whole, and the way there.

A small plot has no data of its own: it names the figure, which of its traces it takes (page.js copies them), and what is
set of each.
"""

from __future__ import annotations

from .figures import NOTE
from .markup import Sheet, escape

HEIGHT = 210
MARGIN = {"l": 52, "r": 14, "t": 10, "b": 44}


def _axis(axis: dict, **more: object) -> dict:
    """An axis of the whole figure, over the whole small one."""
    kept = {key: value for key, value in axis.items() if key not in ("domain", "anchor", "showspikes", "spikemode")}
    title = kept.get("title")
    text = title.get("text", "") if isinstance(title, dict) else str(title or "")
    text = str(more.pop("text", text))
    return {**kept, "title": {"text": text, "standoff": 4, "font": {"size": NOTE}}, "tickfont": {"size": NOTE}, **more}


def _latency(figure: dict) -> tuple[list[int], dict]:
    shown = [i for i, trace in enumerate(figure["data"]) if trace["name"].split(" ")[0] in ("TTFT", "TBT")]
    layout = figure["layout"]
    return shown, {"xaxis": _axis(layout["xaxis"]), "yaxis": _axis(layout["yaxis"], dtick=0.5, text="share"),
                   "showlegend": True, "legend": {"x": 0.99, "xanchor": "right", "y": 0.05, "yanchor": "bottom"}}


def _over_time(figure: dict) -> tuple[list[int], dict]:
    shown = [i for i, trace in enumerate(figure["data"]) if trace.get("yaxis", "y") == "y"]
    return shown, {"xaxis": _axis(figure["layout"]["xaxis"]), "yaxis": _axis(figure["layout"]["yaxis"]), "showlegend": False}


def _classes(figure: dict) -> tuple[list[int], dict]:
    layout = figure["layout"]
    return [0], {"xaxis": _axis(layout["xaxis"], range=None, rangemode="tozero"), "yaxis": _axis(layout["yaxis"]), "showlegend": False,
                 "margin": {**MARGIN, "l": 92}}


def _whole(figure: dict) -> tuple[list[int], dict]:
    layout = figure["layout"]
    kept = {key: layout[key] for key in ("barmode", "bargap", "shapes") if key in layout}
    return list(range(len(figure["data"]))), {**kept, "xaxis": _axis(layout["xaxis"]), "yaxis": _axis(layout["yaxis"]),
                                              "showlegend": False}


# Of the figures that a run has, the first three: key, tab, what it is called there, what is taken.
CHOICES = (("latency", "latency", "What users wait for", _latency), ("time", "time", "Concurrent requests", _over_time),
           ("pipeline", "pipeline", "The step, stage by stage", _whole), ("memory", "pipeline", "Memory by stage", _whole),
           ("launches", "kernels", "Launches", _whole), ("roofline", "kernels", "Kernels under the roofline", _whole),
           ("activations", "pipeline", "Activations over the step", _whole), ("classes", "energy", "Where time goes", _classes))


def strip(sheet: Sheet) -> str:
    """Up to three small plots of what the sheet already shows, in a row; nothing where it shows none of them."""
    known = [choice for choice in CHOICES if choice[0] in sheet.figures][:3]
    made = ""
    for key, tab, title, take in known:
        whole = sheet.figures[key]
        traces, layout = take(whole)
        if not traces:
            continue
        if key == "classes" and "energy" in whole["layout"]["xaxis"]["title"]["text"]:
            title = "Where energy goes"
        font = {**whole["layout"]["font"], "size": NOTE}
        sheet.figures[f"small-{key}"] = {"of": key, "traces": traces, "set": {"textposition": "none"}, "layout": {
            "height": HEIGHT, "margin": MARGIN, "font": font, "hovermode": "closest",
            **{name: whole["layout"][name] for name in ("paper_bgcolor", "plot_bgcolor", "hoverlabel")}, **layout}}
        made += (f'<figure><h3><a href="#{tab}">{escape(title)}</a></h3>'
                 f'<div id="plot-small-{key}" data-figure="small-{key}" style="height:{HEIGHT}px"></div></figure>')
    return f'<div class="strip">{made}</div>' if made else ""
