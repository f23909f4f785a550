"""The network of a run as a plot: nodes and cables, coloured by how busy they were; those that failed are dashed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from orrery_plot import palette, units
from orrery_plot.places import cables_of, family, nodes_of, places_of

from .figures import NOTE, Figure, _layout, literal

MOST_CABLES = 4000  # that a page draws
BINS = 5
# Viridis from light to dark, a colour a fifth of the greatest use.
SHADES = ("#8fd744", "#35b779", "#21918c", "#31688e", "#443983")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
NAMED = 40  # nodes whose names are written


def failed_cables(config: dict) -> set[tuple[str, str]]:
    """Ends of the links that an event took away or weakened, in order."""
    workload = config.get("workload")
    events = workload.get("events") if isinstance(workload, dict) else None
    found = set()
    for event in events if isinstance(events, list) else []:
        name, share = (event.get("link"), event.get("share")) if isinstance(event, dict) else (None, None)
        if isinstance(name, str) and "->" in name and isinstance(share, (int, float)) and share < 1:
            found.add(tuple(sorted(name.split("->", 1))))
    return found


def _lines(ends: list[tuple[str, str]], places: dict) -> tuple[list[float | None], list[float | None]]:
    """One trace for many cables: a gap after each."""
    x: list[float | None] = []
    y: list[float | None] = []
    for a, b in ends:
        x += [places[a][0], places[b][0], None]
        y += [places[a][1], places[b][1], None]
    return x, y


def topology(links: pd.DataFrame, config: dict) -> Figure | None:
    """`links`: from, to, utilisation (a fraction). Nothing where there are too many cables to tell apart."""
    cables = cables_of(links)
    if len(cables) > MOST_CABLES:
        return None
    places, layout = places_of(links)
    share, ends = cables.to_numpy(), list(cables.index)
    most = max(float(share.max()), 1e-12)
    data: list[dict] = []

    def trace(name: str, chosen: list[int], line: dict) -> None:
        if not chosen:
            return
        x, y = _lines([ends[k] for k in chosen], places)
        data.append({"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "hoverinfo": "skip", "line": line})

    trace("no traffic", [k for k in range(len(ends)) if share[k] <= 0], {"color": palette.IDLE, "width": 0.8})
    for i in range(BINS):
        low, high = most * i / BINS, most * (i + 1) / BINS
        trace(f"{units.percent(low)} to {units.percent(high)}",
              [k for k in range(len(ends)) if share[k] > low and (share[k] <= high or i == BINS - 1)],
              {"color": SHADES[i], "width": 1.2 + 0.6 * i})
    failed = failed_cables(config)
    trace("failed or degraded", [k for k, pair in enumerate(ends) if pair in failed],
          {"color": palette.VERMILION, "width": 2.4, "dash": "dash"})
    middles = np.array([[(places[a][d] + places[b][d]) / 2 for d in range(2)] for a, b in ends])
    data.append({"type": "scatter", "mode": "markers", "x": [round(float(v), 6) for v in middles[:, 0]],
                 "y": [round(float(v), 6) for v in middles[:, 1]], "showlegend": False, "marker": {"size": 9, "color": "rgba(0,0,0,0)"},
                 "text": [f"{literal(a)} – {literal(b)}: {units.percent(float(v))}" for (a, b), v in zip(ends, share)],
                 "hovertemplate": "%{text}<extra></extra>"})
    nodes = nodes_of(links)
    families = list(dict.fromkeys(family(node) for node in nodes))
    for i, name in enumerate(families):
        own = [node for node in nodes if family(node) == name]
        data.append({"type": "scatter", "mode": "markers+text" if len(nodes) <= NAMED else "markers",
                     "name": f"{len(own)} {literal(name)}", "x": [places[node][0] for node in own],
                     "y": [places[node][1] for node in own], "text": [literal(node) for node in own], "textposition": "top center",
                     "textfont": {"size": NOTE}, "hovertemplate": "%{text}<extra></extra>",
                     "marker": {"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 9 if len(nodes) <= NAMED else 5, "color": "#ffffff",
                                "line": {"color": palette.INK, "width": 1.2}}})
    hidden = {"visible": False, "showgrid": False, "zeroline": False}
    equal = {"scaleanchor": "x"} if layout in ("circle", "rings", "grid") else {}
    return {"data": data, "layout": _layout(460, xaxis=dict(hidden), yaxis={**hidden, **equal},
                                            margin={"l": 24, "r": 24, "t": 16, "b": 16})}
