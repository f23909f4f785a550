"""The figures for print: matplotlib PNG files in the palette of the HTML report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from orrery_plot import palette, units  # noqa: E402
from orrery_plot.names import METRIC_NAMES, REQUEST_PANELS, SERIES_PANELS  # noqa: E402
from orrery_plot.palette import METRIC_STYLES  # noqa: E402
from orrery_plot.style import COMMAS, DPI, STYLE, WIDTH  # noqa: E402
from orrery_plot.style import plain_log as _plain_log  # noqa: E402

from . import overview  # noqa: E402
from .figures import bar_texts, group_colour, is_skewed  # noqa: E402
from .run_page import kv_capacity  # noqa: E402
from .run_folder import Run  # noqa: E402

def write(run: Run, folder: Path) -> list[Path]:
    """Writes the figures whose data the run has; their paths. An infeasible run has none."""
    makers: list[tuple[str, bool, Callable[[Run], Figure]]] = [
        ("latency_cdf.png", bool(run.cdfs), _latency),
        ("over_time.png", bool(run.series and run.series.lines), _over_time),
        ("energy_time.png", bool(run.energy is not None and len(run.energy.by_class)), _energy),
        ("requests.png", bool(run.requests and run.requests.total), _requests),
    ]
    written = []
    with plt.rc_context(STYLE):
        for name, possible, make in makers:
            if not possible:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            figure = make(run)
            figure.savefig(folder / name, dpi=DPI, metadata={"Software": "Orrery"})
            plt.close(figure)
            written.append(folder / name)
    return written


def _latency(run: Run) -> Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.1))
    for metric, cdf in run.cdfs.items():
        style = {"color": palette.METRIC_COLOURS[metric], "linestyle": METRIC_STYLES[metric], "linewidth": 1.5}
        shown = cdf.value_s > 0
        left.plot(cdf.value_s[shown], cdf.quantile[shown], label=METRIC_NAMES[metric][0], **style)
        tail = shown & (cdf.quantile < 1)
        right.plot(cdf.value_s[tail], 1 - cdf.quantile[tail], **style)
    targets = overview.slo_targets(run.config)
    for metric in (m for m in targets if m in run.cdfs):
        for axes in (left, right):
            axes.axvline(targets[metric], color=palette.METRIC_COLOURS[metric], linewidth=0.8, linestyle=":")
        left.annotate(f"SLO {METRIC_NAMES[metric][0]}", (targets[metric], 0.02), xytext=(2, 0),
                      textcoords="offset points", rotation=90, fontsize=6.5, va="bottom",
                      color=palette.METRIC_COLOURS[metric])
    left.set(title="Distribution", xlabel="time (s)", ylabel="fraction at or below", ylim=(0, 1.01), xscale="log")
    right.set(title="Tail", xlabel="time (s)", ylabel="fraction above", yscale="log", xscale="log")
    for axis in (left.xaxis, right.xaxis, right.yaxis):
        _plain_log(axis)
    figure.legend(loc="upper center", ncol=5)
    figure.get_layout_engine().set(rect=(0, 0, 1, 0.93))
    return figure


def _over_time(run: Run) -> Figure:
    series = run.series
    figure, grid = plt.subplots(len(SERIES_PANELS), 1, figsize=(WIDTH, 7.6), sharex=True)
    capacity = kv_capacity(run)
    for axes, (name, label, unit, scale) in zip(grid, SERIES_PANELS):
        for n, line in enumerate(series.lines):
            colour = palette.SEQUENCE[n]
            if line.low is not None and line.high is not None:
                axes.fill_between(line.time_s, line.low[name] * scale, line.high[name] * scale, color=colour,
                                  alpha=0.22, linewidth=0)
            axes.plot(line.time_s, line.mean[name] * scale, color=colour, linewidth=0.5 if line.trend else 0.9,
                      alpha=0.45 if line.trend else 1.0, label=line.label,
                      drawstyle="steps-post" if line.steps else "default")
            if line.trend:
                axes.plot(line.trend.time_s, line.trend.mean[name] * scale, color=colour, linewidth=1.2)
        axes.set(title=label, ylabel=unit)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        axes.yaxis.set_major_formatter(COMMAS)
        if name == "kv_used_bytes" and capacity:
            share = axes.secondary_yaxis("right", functions=(lambda v, full=capacity * scale: 100 * v / full,
                                                             lambda p, full=capacity * scale: p / 100 * full))
            share.set_ylabel("% of capacity")
    grid[-1].set_xlabel("simulated time (s)")
    grid[-1].xaxis.set_major_formatter(COMMAS)
    figure.align_ylabels(grid)
    if len(series.lines) > 1:
        grid[0].legend(ncol=6, loc="lower right", bbox_to_anchor=(1, 1.0), borderaxespad=0.2)
    return figure


def _energy(run: Run) -> Figure:
    table = run.energy.by_class
    figure, grid = plt.subplots(1, 2, figsize=(WIDTH, 1.1 + 0.22 * len(table)), sharey=True)
    for axes, column, unit, label, colour in ((grid[0], "busy_s", "s", "Device time", palette.BLUE),
                                              (grid[1], "energy_j", "J", "Energy", palette.ORANGE)):
        values = table[column].to_numpy()
        total = values.sum()
        at = np.arange(len(table))
        factor, name = units.prefix(float(values.max()), unit)
        axes.barh(at, values * factor, height=0.7, color=[palette.IDLE if c == "idle" else colour for c in table.index])
        for y, value, label_text in zip(at, values, bar_texts(values, unit)):
            axes.annotate(label_text, (value * factor, y), xytext=(3, 0), fontsize=6.5,
                          textcoords="offset points", va="center")
        axes.set_yticks(at, [str(c) for c in table.index])
        axes.set_xlim(0, (values.max() * factor or 1.0) * 1.42)
        axes.xaxis.set_major_formatter(COMMAS)
        axes.set(title=f"{label}, {units.text(float(total), unit)} in all", xlabel=f"{label.lower()} ({name})")
        axes.grid(axis="y", visible=False)
        axes.margins(y=0.02)
        axes.tick_params(axis="y", length=0)
    grid[0].invert_yaxis()
    return figure


def _requests(run: Run) -> Figure:
    digest = run.requests
    figure, grid = plt.subplots(2, 2, figsize=(WIDTH, 5.1))
    skewed = any(is_skewed(getattr(g, name)) for g in digest.groups for name, _ in REQUEST_PANELS)
    for axes, (name, label) in zip(grid[0], REQUEST_PANELS):
        for g in digest.groups:
            latency = getattr(g, name)
            many = len(g.id) > 800
            if np.isfinite(latency).any():
                axes.plot(g.arrived_s, latency, "o" if g.label == "completed" else "D", color=group_colour(g.label),
                          markersize=1.8 if many else 2.6, markeredgewidth=0, alpha=0.5 if many else 0.85,
                          label=g.label, rasterized=True)
            else:
                # Above the panel, where no latency can be read from them.
                axes.plot(g.arrived_s, np.full(len(g.id), 1.03), "|", color=group_colour(g.label), markersize=5,
                          transform=axes.get_xaxis_transform(), label=g.label, clip_on=False)
        axes.set_title(f"{label} by arrival", pad=10)
        axes.xaxis.set_major_formatter(COMMAS)
        axes.margins(x=0.015)
        axes.set(xlabel="arrival time (s)", ylabel=f"{label} (s)",
                 yscale="log" if skewed else "linear")
        if skewed:
            _plain_log(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="upper center", ncol=4, markerscale=2)
    figure.get_layout_engine().set(rect=(0, 0, 1, 0.95))
    panels = ((grid[1][0], digest.prompt, "Prompt tokens, all requests", palette.BLUE),
              (grid[1][1], digest.output, "Output tokens, completed requests", palette.GREEN))
    for axes, histogram, title, colour in panels:
        axes.set(title=title, xlabel="tokens", ylabel="requests")
        if histogram is None:
            continue
        axes.stairs(histogram.counts, histogram.edges, fill=True, color=colour, alpha=0.4)
        axes.stairs(histogram.counts, histogram.edges, color=colour, linewidth=1.0)
        for value, name, dash in ((histogram.mean, "mean", "--"), (histogram.median, "median", ":")):
            axes.axvline(value, color=palette.INK, linewidth=0.8, linestyle=dash, label=f"{name} {units.plain(value)}")
        axes.legend(fontsize=6.5)
        if histogram.log:
            axes.set_xscale("log")
            _plain_log(axes.xaxis)
    return figure
