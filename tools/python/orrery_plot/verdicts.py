"""Claims of papers: the band that is expected, and where the simulated value lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from . import frames, palette
from .style import SIZE, SMALL, WIDTH, Picture, PlotError, grid_of, styled, wrapped

LOW, HIGH = 0.30, 0.70  # where the ends of a band stand in its strip
MOST = 40


def _span(low: float | None, high: float | None, value: float | None) -> float:
    """What the width of a band stands for; of a band with one end, or none, the distance that would fill it."""
    if low is not None and high is not None and high > low:
        return high - low
    edge = next((v for v in (low, high) if v is not None), 0.0)
    reach = abs(value - edge) if value is not None else 0.0
    return max(reach * 1.25, abs(edge) * 0.25, 1e-12)


def place(low: float | None, high: float | None, value: float) -> float:
    """Where a value stands in its strip: the band's ends at LOW and HIGH, linear between and beyond, cut at the ends.
    """
    span = _span(low, high, value)
    at = LOW + (HIGH - LOW) * (value - low) / span if low is not None else HIGH + (HIGH - LOW) * (value - high) / span \
        if high is not None else 0.5
    return float(np.clip(at, 0.03, 0.97))


def number(value: float | None) -> str:
    """Four digits; an en dash for none."""
    return "–" if value is None else f"{value:.4g}"


def band_text(low: float | None, high: float | None) -> str:
    """`1.2 to 1.5`, `≥ 1.2`, `≤ 1.5`."""
    if low is None:
        return f"≤ {number(high)}"
    return f"≥ {number(low)}" if high is None else f"{number(low)} to {number(high)}"


@styled
def claims(rows: Sequence[Mapping] | pd.DataFrame) -> Picture:
    """A row a claim: its words, a strip with the expected band and the simulated value, both as numbers, the verdict.

    `rows`: system, claim, expected ([low, high], or expected_low and expected_high; either may be missing), simulated
    (a number or None), holds.
    Each strip has its own scale: the band is the shaded part. A value off the strip is an arrow at its end.
    """
    table = rows.to_dict("records") if isinstance(rows, pd.DataFrame) else [dict(row) for row in rows]
    for row in table:
        if "expected" not in row and "expected_low" in row:
            row["expected"] = [row["expected_low"], row["expected_high"]]
    frames.need(pd.DataFrame(table), ("claim", "expected", "simulated", "holds"), "claims")
    if len(table) > MOST:
        raise PlotError(f"claims: {len(table)} claims do not fit a page ({MOST} do); choose a study")
    texts = [wrapped(str(row["claim"]), 62) for row in table]
    heights = np.array([max(2, text.count("\n") + 1) * 0.135 + 0.09 for text in texts])
    figure, ((axes,),) = grid_of(1, 1, (WIDTH, heights.sum() + 0.55))
    middles = np.cumsum(heights) - heights / 2
    axes.set(xlim=(0, 1), ylim=(heights.sum(), -0.32))
    axes.axis("off")
    for x, text in ((0.0, _head(table)), (0.575, "expected band"), (0.745, "expected"), (0.875, "simulated")):
        axes.text(x, -0.16, text, fontweight="bold", fontsize=SIZE, va="center", ha="center" if x == 0.575 else "left")
    for row, text, middle, height in zip(table, texts, middles, heights):
        axes.axhline(middle - height / 2, color=palette.GRID, linewidth=0.6)
        axes.text(0, middle, text, fontsize=SMALL, va="center")
        _strip(axes, row, middle)
    return figure


def _head(table: list[dict]) -> str:
    held = sum(bool(row["holds"]) for row in table)
    systems = list(dict.fromkeys(str(row.get("system", "")) for row in table))
    before = f"{systems[0]}: " if len(systems) == 1 and systems[0] else ""
    return f"{before}{held} of {len(table)} claims hold"


def _strip(axes, row: dict, middle: float) -> None:
    left, width = 0.49, 0.17
    low, high = (None if v is None or pd.isna(v) else float(v) for v in row["expected"])
    value = row["simulated"]
    value = None if value is None or pd.isna(value) else float(value)
    colour = palette.GREEN if row["holds"] else palette.VERMILION
    axes.plot([left, left + width], [middle, middle], color=palette.MUTED, linewidth=0.7, solid_capstyle="butt")
    start, end = (0.0 if low is None else LOW), (1.0 if high is None else HIGH)
    axes.fill_between([left + width * start, left + width * end], middle - 0.055, middle + 0.055, color=colour,
                      alpha=0.28,
                      linewidth=0)
    for edge in [LOW] * (low is not None) + [HIGH] * (high is not None):
        axes.plot([left + width * edge] * 2, [middle - 0.055, middle + 0.055], color=colour, linewidth=1.0)
    word = "not judged" if value is None else "holds" if row["holds"] else "MISSED"
    if value is not None:
        at = place(low, high, value)
        mark = "<" if at <= 0.03 else ">" if at >= 0.97 else "o" if row["holds"] else "X"
        axes.plot([left + width * at], [middle], mark, color=colour, markersize=5, markeredgecolor=palette.INK,
                  markeredgewidth=0.5)
    axes.text(0.745, middle, band_text(low, high), fontsize=SMALL, va="center")
    axes.text(0.875, middle, f"{number(value)}  {word}", fontsize=SMALL, va="center",
              color=palette.INK if row["holds"] else colour,
              fontweight="normal" if row["holds"] else "bold")
