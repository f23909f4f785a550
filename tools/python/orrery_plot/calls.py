"""Iterations of reinforcement learning from feedback: which devices a call has, and when."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.patches import Rectangle

from . import frames, palette
from .style import WIDTH, Picture, PlotError, grid_of, legend_below, styled

NEEDED = ("iteration", "call", "what", "begin_s", "end_s", "first", "devices")


@styled
def calls(runs: Mapping[str, pd.DataFrame], iterations: int) -> Picture:
    """`runs`: calls.csv of an rlhf run, by label; the first `iterations` of each."""
    if not runs:
        raise PlotError("calls: there is nothing to draw, no run was given")
    if iterations < 1:
        raise PlotError(f"calls: expected at least one iteration, got {iterations}")
    shown = {}
    for label, table in runs.items():
        frames.need(table, NEEDED, "calls")
        shown[label] = table[table["iteration"] < iterations]
    names = list(dict.fromkeys(name for table in shown.values() for name in table["call"]))
    most_s = max(float(table["end_s"].max()) for table in shown.values())
    figure, grid = grid_of(len(shown), 1, (WIDTH, 0.7 + 1.5 * len(shown)), sharex=True)
    for axes, (label, table) in zip(grid.flat, shown.items()):
        for row in table.itertuples():
            n = names.index(row.call)
            weights = row.what == "weights"
            axes.add_patch(Rectangle((row.begin_s, row.first), row.end_s - row.begin_s, row.devices,
                                     facecolor=palette.INK if weights else palette.colour(n), edgecolor="white", linewidth=0.5,
                                     hatch="" if weights else palette.HATCHES[n % len(palette.HATCHES)],
                                     label="weight transfers" if weights else row.call))
        axes.set_xlim(0, most_s)
        axes.set_ylim(int((table["first"] + table["devices"]).max()), 0)
        axes.set(title=label, ylabel="device")
    grid.flat[-1].set(xlabel="time (s)")
    figure.align_ylabels(grid)
    legend_below(figure, 4)
    return figure
