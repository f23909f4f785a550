"""Figures over simulated time: batch, queue, KV cache and power; requests by their arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from . import frames, palette, units
from .digest import Line, RequestDigest, SeriesDigest, digest_series, is_skewed, smoothed
from .names import REQUEST_PANELS, SERIES_PANELS
from .style import COMMAS, SMALL, WIDTH, Picture, PlotError, grid_of, legend_below, plain_log, styled


def _panels(fields: Sequence[str] | None) -> list[tuple[str, str, str, float]]:
    known = {panel[0]: panel for panel in SERIES_PANELS}
    for name in fields or ():
        if name not in known:
            raise PlotError(f"series: no field '{name}'; there are {', '.join(known)}")
    return [known[name] for name in fields] if fields else list(SERIES_PANELS)


def lines_of(runs: Mapping[str, pd.DataFrame]) -> list[Line]:
    """What is drawn: of one run its replicas, of several one line a run (the mean of its replicas)."""
    tables = {}
    for label, frame in runs.items():
        frames.need(frame, ("time_s", "replica", *(panel[0] for panel in SERIES_PANELS)), f"series of {label}")
        tables[label] = frame.assign(replica=frame["replica"].astype(str))
    if len(tables) == 1:
        return list(digest_series(next(iter(tables.values()))).lines)
    return [smoothed(label, table) for label, table in tables.items()]


@styled
def series(runs: Mapping[str, pd.DataFrame], fields: Sequence[str] | None = None,
           kv_capacity_bytes: float | None = None) -> Picture:
    """A panel a field of series.csv under one time axis. `runs`: tables by label; the capacity is of one replica."""
    if not runs:
        raise PlotError("series: there is nothing to draw, no run was given")
    return draw_lines(lines_of(runs), fields, kv_capacity_bytes)


@styled
def series_of_digest(digest: SeriesDigest, kv_capacity_bytes: float | None = None) -> Picture:
    """As `series`, of a table that is reduced already."""
    return draw_lines(list(digest.lines), None, kv_capacity_bytes)


def draw_lines(lines: list[Line], fields: Sequence[str] | None, capacity: float | None) -> Picture:
    """The panels of `series`."""
    panels = _panels(fields)
    figure, grid = grid_of(len(panels), 1, (WIDTH, 0.6 + 1.4 * len(panels)), sharex=True)
    for axes, (name, label, unit, scale) in zip(grid[:, 0], panels):
        for n, line in enumerate(lines):
            _line(axes, line, name, scale, n, many=len(lines) > 1)
        axes.set(title=label, ylabel=unit)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        axes.yaxis.set_major_formatter(COMMAS)
        if name == "kv_used_bytes" and capacity:
            share = axes.secondary_yaxis("right", functions=(lambda v, full=capacity * scale: 100 * v / full,
                                                             lambda p, full=capacity * scale: p / 100 * full))
            share.set_ylabel("% of capacity")
    grid[-1][0].set_xlabel("simulated time (s)")
    grid[-1][0].xaxis.set_major_formatter(COMMAS)
    figure.align_ylabels(grid)
    if len(lines) > 1:
        legend_below(figure, 4)
    return figure


def _line(axes, line: Line, name: str, scale: float, n: int, many: bool) -> None:
    colour = palette.colour(n)
    if line.low is not None and line.high is not None:
        axes.fill_between(line.time_s, line.low[name] * scale, line.high[name] * scale, color=colour, alpha=0.22,
                          linewidth=0)
    axes.plot(line.time_s, line.mean[name] * scale, color=colour, linewidth=0.5 if line.trend else 1.0,
              label=line.label, alpha=0.45 if line.trend else 1.0, drawstyle="steps-post" if line.steps else "default",
              linestyle=palette.dash(n) if many else "-")
    if line.trend:
        axes.plot(line.trend.time_s, line.trend.mean[name] * scale, color=colour, linewidth=1.2)


@styled
def requests(digest: RequestDigest) -> Picture:
    """TTFT and E2E latency by arrival, a mark a status; histograms of prompt and output tokens."""
    figure, grid = grid_of(2, 2, (WIDTH, 5.1))
    skewed = any(is_skewed(getattr(g, name)) for g in digest.groups for name, _ in REQUEST_PANELS)
    for axes, (name, label) in zip(grid[0], REQUEST_PANELS):
        for g in digest.groups:
            _status(axes, g, getattr(g, name))
        axes.set_title(f"{label} by arrival", pad=10)
        axes.xaxis.set_major_formatter(COMMAS)
        axes.margins(x=0.015)
        axes.set(xlabel="arrival time (s)", ylabel=f"{label} (s)", yscale="log" if skewed else "linear")
        if skewed:
            plain_log(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="upper center", ncol=4, markerscale=2)
    figure.get_layout_engine().set(rect=(0, 0, 1, 0.95))
    _histogram(grid[1][0], digest.prompt, "Prompt tokens, all requests", palette.BLUE)
    _histogram(grid[1][1], digest.output, "Output tokens, completed requests", palette.GREEN)
    return figure


def _status(axes, group, latency: np.ndarray) -> None:
    many = len(group.id) > 800
    if np.isfinite(latency).any():
        axes.plot(group.arrived_s, latency, "o" if group.label == "completed" else "D",
                  color=palette.group_colour(group.label), markersize=1.8 if many else 2.6, markeredgewidth=0,
                  alpha=0.5 if many else 0.85, label=group.label,
                  rasterized=True)
    else:
        # Above the panel, where no latency can be read from them.
        axes.plot(group.arrived_s, np.full(len(group.id), 1.03), "|", color=palette.group_colour(group.label),
                  markersize=5, transform=axes.get_xaxis_transform(), label=group.label, clip_on=False)


def _histogram(axes, histogram, title: str, colour: str) -> None:
    axes.set(title=title, xlabel="tokens", ylabel="requests")
    if histogram is None:
        return
    axes.stairs(histogram.counts, histogram.edges, fill=True, color=colour, alpha=0.4)
    axes.stairs(histogram.counts, histogram.edges, color=colour, linewidth=1.0)
    for value, name, dash in ((histogram.mean, "mean", "--"), (histogram.median, "median", ":")):
        axes.axvline(value, color=palette.INK, linewidth=0.8, linestyle=dash, label=f"{name} {units.plain(value)}")
    axes.legend(fontsize=SMALL)
    if histogram.log:
        axes.set_xscale("log")
        plain_log(axes.xaxis)
