"""The forest plot of a system: each claim a row, what is simulated against the band that is expected.

Claims have unlike units, so a row has a scale of its own: 1 is the middle of a band with two ends, or the end of a band
with one. Bands that are a point at 0, and values that have no ratio to their band, are shown as a mark without one.
"""

from __future__ import annotations

import math
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter  # noqa: E402

from orrery_plot import palette  # noqa: E402
from orrery_plot.style import Picture, save, small_panels  # noqa: E402

LEAST, MOST = 1 / 4, 4  # ratios beyond are drawn at the edge, as an arrow
WRAP = 70
ROW = 0.17  # inches a line


def ratios(claim: dict) -> tuple[float, float, float] | None:
    """Low and high end of the band and the value, over the row's unit; nothing where there is none above 0."""
    low, high = claim["expected"]
    value = claim["simulated"]
    ends = [end for end in (low, high) if end is not None]
    if value is None or value <= 0 or not ends or min(ends) < 0 or max(ends) == 0:
        return None
    if low is None or high is None:
        unit = ends[0]
    else:
        unit = math.sqrt(low * high) if low > 0 else high
    return (0 if low is None else low / unit, math.inf if high is None else high / unit, value / unit)


def inside(ratio: float) -> float:
    return min(max(ratio, LEAST), MOST)


@small_panels
def draw(claims: list[dict]) -> Picture:
    """The figure of one system, claims from the top in their order."""
    labels = [textwrap.shorten(claim["claim"], 2 * WRAP, placeholder=" …") for claim in claims]
    wrapped = [textwrap.wrap(label, WRAP) for label in labels]
    heights = [len(lines) for lines in wrapped]
    figure = Picture(figsize=(7.2, 0.7 + ROW * (sum(heights) + 0.4 * len(heights))))
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_xlim(LEAST * 0.93, MOST * 1.07)
    places, at = [], 0.0
    for lines in heights:
        places.append(at + lines / 2)
        at += lines + 0.4
    for claim, place in zip(claims, places):
        shade = palette.GREEN if claim["holds"] else palette.VERMILION
        found = ratios(claim)
        if found is None:
            axes.plot([1], [place], marker="s" if claim["holds"] else "x", color=shade, markersize=4, fillstyle="none")
            continue
        low, high, value = found
        axes.barh(place, inside(high) - inside(low), left=inside(low), height=0.9, color=palette.MUTED, alpha=0.3, linewidth=0)
        marker = "<" if value < LEAST else ">" if value > MOST else "o"
        axes.plot([inside(value)], [place], marker=marker, color=shade, markersize=4)
    axes.set_ylim(at, -0.4)
    axes.set_yticks(places, ["\n".join(lines) for lines in wrapped], fontsize=6)
    axes.grid(axis="y", visible=False)
    axes.axvline(1, color=palette.INK, linewidth=0.6)
    axes.xaxis.set_major_locator(FixedLocator([0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("simulated (dot) and expected (band), over the middle of the band or its one end")
    held = sum(claim["holds"] for claim in claims)
    axes.set_title(f"{held} of {len(claims)} claims hold; squares and crosses: no ratio")
    return figure


def save_forest(claims: list[dict], path: Path) -> Path:
    return save(draw(claims), path, dpi=130, shades=128)
