"""Where the nodes of a network stand in a picture: layers, rings, a circle or a grid. Without a drawing library."""

from __future__ import annotations

import re
from collections import deque

import numpy as np
import pandas as pd

from . import frames

LAYOUTS = ("layers", "circle", "rings", "grid")


def cables_of(links: pd.DataFrame) -> pd.Series:
    """The utilisation of the busier direction of each cable, by its ends in order. `links`: from, to, utilisation."""
    ends = [tuple(sorted(pair)) for pair in zip(links["from"].astype(str), links["to"].astype(str))]
    return pd.Series(links["utilisation"].to_numpy(float), index=pd.MultiIndex.from_tuples(ends)).groupby(level=[0, 1]).max()


def nodes_of(links: pd.DataFrame) -> list[str]:
    return sorted(dict.fromkeys([*links["from"].astype(str), *links["to"].astype(str)]), key=frames.natural)


def places_of(links: pd.DataFrame, layout: str | None = None) -> tuple[dict[str, tuple[float, float]], str]:
    """Each node's place, and which layout it is: the one asked for, or what suits."""
    nodes, cables = nodes_of(links), list(cables_of(links).index)
    chosen = layout or _suits(nodes, cables)
    lay_out = {"layers": _layers, "rings": _rings, "circle": _circle, "grid": _grid}[chosen]
    return lay_out(nodes, cables, str(links["from"].iloc[0])), chosen


def family(name: str) -> str:
    """What a node is: its name without digits (`edge0.1` gives `edge`); levels of a tree (`s1.0`) stay apart."""
    level = re.fullmatch(r"([a-z])(\d+)\.\d+", name)
    return level[1] + level[2] if level and level[1] == "s" else re.sub(r"\d+", "", name).strip(".")


def _suits(nodes: list[str], cables) -> str:
    if len({family(n) for n in nodes}) == 1:
        coordinates = all(re.fullmatch(r"\D*\d+(\.\d+)+", n) for n in nodes)
        return "grid" if coordinates else "circle"
    inside = any(family(a) == family(b) for a, b in cables)
    return "rings" if inside or len(nodes) > 150 else "layers"


def _levels(nodes: list[str], cables: list, first: str) -> list[list[str]]:
    """Nodes by hops from the hosts (the family of the first link's source) and family. Two families of switches as near
    as each other stand apart: the one whose hosts are neighbours goes below them."""
    near: dict[str, list[str]] = {n: [] for n in nodes}
    for a, b in cables:
        near[a].append(b)
        near[b].append(a)
    hosts = [n for n in nodes if family(n) == family(first)]
    hops = dict.fromkeys(hosts, 0)
    queue = deque(hosts)
    while queue:
        node = queue.popleft()
        for other in near[node]:
            if other not in hops:
                hops[other] = hops[node] + 1
                queue.append(other)
    groups: dict[tuple[int, str], list[str]] = {}
    for node in nodes:
        groups.setdefault((hops.get(node, 0), family(node)), []).append(node)
    keys = sorted(groups)
    beside = [key for key in keys if key[0] == 1]
    if len(beside) > 1:
        order = {n: i for i, n in enumerate(hosts)}
        spread = {key: np.mean([np.ptp([order.get(o, len(hosts)) for o in near[n]]) for n in groups[key]])
                  for key in beside}
        low = min(beside, key=spread.get)
        keys = [low, *[key for key in keys if key != low]]
    return [groups[key] for key in keys]


def _ordered(levels: list[list[str]], cables: list) -> list[list[str]]:
    """Each level in the order of the mean place of its neighbours, so that few cables cross; hosts keep their own."""
    widest = max(range(len(levels)), key=lambda k: len(levels[k]))
    place = {n: i / max(1, len(levels[widest]) - 1) for i, n in enumerate(levels[widest])}
    out = list(levels)
    for k in sorted((k for k in range(len(levels)) if k != widest), key=lambda k: abs(k - widest)):
        means = {}
        for n in levels[k]:
            near = [place[b if a == n else a] for a, b in cables if n in (a, b) and (b if a == n else a) in place]
            means[n] = float(np.mean(near)) if near else 0.5
        out[k] = sorted(levels[k], key=lambda n: (round(means[n], 9), frames.natural(n)))
        place.update({n: (i + 0.5) / len(out[k]) for i, n in enumerate(out[k])})
    return out


def _layers(nodes: list[str], cables: list, first: str) -> dict[str, tuple[float, float]]:
    levels = _ordered(_levels(nodes, cables, first), cables)
    return {n: ((i + 0.5) / len(level), float(k)) for k, level in enumerate(levels) for i, n in enumerate(level)}


def _rings(nodes: list[str], cables: list, first: str) -> dict[str, tuple[float, float]]:
    levels = _levels(nodes, cables, first)
    radius = [1 - k / len(levels) for k in range(len(levels))]
    return {n: (r * np.cos(t), r * np.sin(t)) for r, level in zip(radius, levels)
            for n, t in zip(level, 2 * np.pi * (np.arange(len(level)) + 0.5) / len(level))}


def _circle(nodes: list[str], cables: list, first: str) -> dict[str, tuple[float, float]]:
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    return {n: (float(np.cos(t)), float(np.sin(t))) for n, t in zip(nodes, angle)}


def _grid(nodes: list[str], cables: list, first: str) -> dict[str, tuple[float, float]]:
    """The first coordinate across, the second upwards, further ones aslant."""
    at = {n: [int(p) for p in re.findall(r"\d+", n)] for n in nodes}
    if len({len(c) for c in at.values()}) != 1:
        return _circle(nodes, cables, first)
    slant = [(1.0, 0.0), (0.0, 1.0), (0.35, 0.28), (0.11, -0.17)]
    return {n: (sum(v * slant[k % 4][0] for k, v in enumerate(c)), sum(v * slant[k % 4][1] for k, v in enumerate(c)))
            for n, c in at.items()}
