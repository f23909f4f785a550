"""What was decided about requests, over the time at which they came: which replica each went to, and who was rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from . import frames, palette
from .style import WIDTH, Picture, PlotError, grid_of, legend_below, styled

NEEDED = ("arrived_s", "replica", "status")
WINDOWS = 48
TURNED_AWAY = "rejected"


def counts_over_time(requests: pd.DataFrame, windows: int) -> tuple[np.ndarray, pd.DataFrame]:
    """Ends of equal windows of arrival, the first begins at 0; of those that came in each how many each replica got, a
    column a replica, and how many were rejected."""
    frames.need(requests, NEEDED, "decisions")
    if not len(requests):
        raise PlotError("decisions: there is nothing to draw, no request arrived")
    arrived = requests["arrived_s"].to_numpy(float)
    last = float(arrived.max())
    ends = np.linspace(0, last, windows + 1)[1:] if last > 0 else np.array([1.0])
    window = np.searchsorted(ends, arrived).clip(0, len(ends) - 1)
    away = requests["status"].astype(str).str.startswith("rejected").to_numpy()
    went = np.where(away, -1, requests["replica"].to_numpy(int))
    counts = pd.crosstab(window, went).reindex(range(len(ends)), fill_value=0)
    counts.columns = [TURNED_AWAY if replica < 0 else int(replica) for replica in counts.columns]
    return ends, counts


@styled
def decisions(runs: Mapping[str, pd.DataFrame], parts: Mapping[str, Sequence[str]]) -> Picture:
    """`runs`: requests.csv of serving runs, by label; `parts`: what each of their replicas is, for the legend."""
    if not runs:
        raise PlotError("decisions: there is nothing to draw, no run was given")
    shown = {label: counts_over_time(table, WINDOWS) for label, table in runs.items()}
    replicas = sorted({column for _, counts in shown.values() for column in counts if column != TURNED_AWAY})
    names = {replica: f"{replica} {part}".strip() for replica in replicas
             for part in [next((of[replica] for of in parts.values() if replica < len(of)), "")]}
    figure, grid = grid_of(len(shown), 1, (WIDTH, 0.6 + 1.35 * len(shown)), sharex=True, sharey=True)
    for axes, (label, (ends, counts)) in zip(grid.flat, shown.items()):
        begins = np.concatenate([[0.0], ends[:-1]])
        below = np.zeros(len(ends))
        for column in [*replicas, TURNED_AWAY]:
            if column not in counts:
                continue
            rate = counts[column].to_numpy() / (ends - begins)
            away = column == TURNED_AWAY
            n = 0 if away else replicas.index(column)
            axes.bar(begins, rate, ends - begins, below, align="edge", color=palette.IDLE if away else palette.colour(n),
                     hatch="" if away else palette.HATCHES[n % len(palette.HATCHES)], edgecolor="white", linewidth=0.2,
                     label=TURNED_AWAY if away else names[column])
            below += rate
        axes.set(title=label, ylabel="requests/s")
        axes.set_xlim(0, ends[-1])
    grid.flat[-1].set(xlabel="arrival time (s)")
    figure.align_ylabels(grid)
    legend_below(figure, 4, title="replica")
    return figure
