"""Training jobs over time: what failures leave of the time, and how fast the job goes on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from . import frames, palette
from .style import WIDTH, Picture, PlotError, grid_of, legend_below, styled

DAY = 86_400
NEEDED = ("event", "begin_s", "end_s", "steps", "step_s", "share")


def clock(most_s: float) -> tuple[float, str]:
    """A factor and a unit that suit the longest of some times."""
    return (1 / DAY, "days") if most_s >= 2 * DAY else (1 / 3600, "h") if most_s >= 7200 else (1.0, "s")


def ratio_over_time(events: pd.DataFrame, step_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Times, and what share of the time up to them went into steps that were still there then."""
    times = events["end_s"].to_numpy(float)
    kept = events["steps"].to_numpy(float) * step_s
    later = times > 0
    return times[later], kept[later] / times[later]


def rate_over_time(events: pd.DataFrame, step_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Times, and how fast the job trains from then on, over its speed with every node. It stands from a failure to the
    end of its recovery."""
    own = events[events["event"].isin(["failure", "recovery", "node_back", "waiting"])]
    times = np.concatenate([[0.0], own["end_s"].to_numpy(float)])
    steps = own["step_s"].to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = np.where(steps > 0, own["share"].to_numpy(float) * step_s / steps, 0.0)
    speed[(own["event"] != "recovery").to_numpy()] = 0.0
    first = events.loc[events["step_s"] > 0, "step_s"]
    begin = step_s / float(first.iloc[0]) if len(first) else 1.0
    return times, np.concatenate([[begin], speed])


@styled
def goodput(jobs: Mapping[str, tuple[pd.DataFrame, float]]) -> Picture:
    """`jobs`: events.csv of a training_job and its whole step, by label."""
    if not jobs:
        raise PlotError("goodput: there is nothing to draw, no job was given")
    most = 0.0
    for events, step_s in jobs.values():
        frames.need(events, NEEDED, "goodput")
        if not len(events) or not step_s > 0:
            raise PlotError("goodput: the job has no events")
        most = max(most, float(events["end_s"].max()))
    scale, unit = clock(most)
    figure, grid = grid_of(2, 1, (WIDTH, 4.4), sharex=True)
    above, below = grid.flat
    for n, (label, (events, step_s)) in enumerate(jobs.items()):
        colour = palette.colour(n)
        times, ratio = ratio_over_time(events, step_s)
        above.plot(times * scale, 100 * ratio, color=colour, label=label, linestyle=palette.dash(n))
        times, speed = rate_over_time(events, step_s)
        below.step(np.append(times, most) * scale, 100 * np.append(speed, speed[-1]), where="post", color=colour, linewidth=0.8,
                   linestyle=palette.dash(n))
    failed = [events.loc[events["event"] == "failure", "begin_s"].to_numpy(float) for events, _ in jobs.values()]
    alike = all(np.array_equal(failed[0], other) for other in failed)  # policies meet the same ones
    above.plot(failed[0] * scale, np.full(len(failed[0]), 1.0), "|", color=palette.VERMILION, markersize=6,
               label="failures" if alike else f"failures of {next(iter(jobs))}")
    above.set(title="Effective training time so far", ylabel="% of time")
    below.set(title="Speed", ylabel="% of all nodes", xlabel=f"time ({unit})")
    for axes in (above, below):
        axes.set_ylim(0, 105)
        axes.set_xlim(0, most * scale)
    figure.align_ylabels(grid)
    legend_below(figure, 4)
    return figure
