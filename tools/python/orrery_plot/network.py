"""The network of a run: its nodes and links, coloured and thickened by how busy they were."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, Normalize

from . import frames, palette, units
from .places import LAYOUTS, cables_of, family, nodes_of, places_of
from .style import SIZE, SMALL, WIDTH, Picture, PlotError, grid_of, styled

NAMED = 40  # up to so many nodes, each has its name
MOST_LINKS = 40_000


@styled
def topology(links: pd.DataFrame, layout: str | None = None) -> Picture:
    """`links`: from, to, utilisation (a fraction), as in links.csv of a run.

    A cable is drawn once, by the busier of its directions; grey ones carried nothing. `layout` is `layers` (hosts
    below, switches above, by hops), `rings` (the same, inwards), `circle` or `grid` (names that are coordinates); the
    default suits.
    """
    frames.need(links, ("from", "to", "utilisation"), "topology")
    if layout is not None and layout not in LAYOUTS:
        raise PlotError(f"topology: expected layout to be {', '.join(LAYOUTS)}, got {layout!r}")
    if len(links) > MOST_LINKS:
        raise PlotError(f"topology: {len(links):,} links cannot be told apart in a picture; {MOST_LINKS:,} at most")
    cables, nodes = cables_of(links), nodes_of(links)
    places, chosen = places_of(links, layout)
    return _draw(links, cables, nodes, places, chosen)


def _segment(a: tuple[float, float], b: tuple[float, float], bend: float) -> np.ndarray:
    """A line from a to b, or an arc beside it."""
    p, q = np.array(a), np.array(b)
    if bend == 0:
        return np.stack([p, q])
    middle = (p + q) / 2 + bend * np.array([q[1] - p[1], p[0] - q[0]])
    t = np.linspace(0, 1, 17)[:, None]
    return (1 - t) ** 2 * p + 2 * t * (1 - t) * middle + t**2 * q


def _draw(links: pd.DataFrame, cables: pd.Series, nodes: list[str], places: dict, layout: str) -> Picture:
    round_ = layout in ("circle", "rings", "grid")
    figure, ((axes,),) = grid_of(1, 1, (5.6, 5.0) if round_ else (WIDTH, 3.8))
    # On a grid a cable that goes round the edge would lie on those between.
    bends = [0.22 if layout == "grid" and np.hypot(*np.subtract(places[a], places[b])) > 1.5 else 0.0
             for a, b in cables.index]
    share = np.clip(cables.to_numpy(), 0, None)
    most = max(float(share.max()), 1e-12)
    colours = ListedColormap(matplotlib.colormaps["viridis_r"](np.linspace(0.12, 1, 256)))
    norm = Normalize(0, 100 * most)
    lines = [_segment(places[a], places[b], bend) for (a, b), bend in zip(cables.index, bends)]
    order = np.argsort(share, kind="stable")
    thick = 2.6 if len(lines) < 60 else 1.6 if len(lines) < 200 else 0.9
    axes.add_collection(LineCollection(
        [lines[k] for k in order], zorder=1, capstyle="round",
        colors=[palette.IDLE if share[k] == 0 else colours(norm(100 * share[k])) for k in order],
        linewidths=[0.6 if share[k] == 0 else 0.8 + thick * share[k] / most for k in order]))
    families = list(dict.fromkeys(family(n) for n in nodes))
    small = len(nodes) > NAMED
    for i, name in enumerate(families):
        own = [places[n] for n in nodes if family(n) == name]
        axes.scatter([p[0] for p in own], [p[1] for p in own], s=8 if small else 34, marker=palette.marker(i),
                     color="white", edgecolors=palette.INK, linewidths=0.6 if small else 0.9, zorder=3,
                     label=f"{len(own)} {name}" if len(families) > 1 else f"{len(own)} nodes")
    if not small:
        _names(axes, nodes, places, layout)
    axes.autoscale_view()
    axes.margins(0.06, 0.12)
    if round_:
        axes.set_aspect("equal")
    axes.axis("off")
    bar = figure.colorbar(ScalarMappable(norm=norm, cmap=colours), ax=axes, shrink=0.75, aspect=25, pad=0.02,
                          label="utilisation of the busier direction (%)")
    bar.outline.set_visible(False)
    busiest = links.loc[links["utilisation"].astype(float).idxmax()]
    axes.set_title(f"{len(nodes):,} nodes, {len(cables):,} cables; busiest {busiest['from']} → {busiest['to']}, "
                   f"{units.percent(float(busiest['utilisation']))}", fontsize=SIZE)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), ncol=5, markerscale=1.0, fontsize=SIZE)
    return figure


def _names(axes, nodes: list[str], places: dict, layout: str) -> None:
    levels = {y for _, y in places.values()} if layout == "layers" else set()
    top, crowded = max(levels, default=0), {y: sum(p[1] == y for p in places.values()) > 18 for y in levels}
    for node in nodes:
        x, y = places[node]
        turned = 90 if crowded.get(y) else 0
        above = layout != "layers" or y == top or (y > 0 and not turned)
        axes.annotate(node, (x, y), xytext=(0, 5 if above else -5), textcoords="offset points", ha="center",
                      rotation=turned, va="bottom" if above else "top", fontsize=SMALL, zorder=4,
                      bbox={"facecolor": "white", "alpha": 0.65, "linewidth": 0, "pad": 0.4})
