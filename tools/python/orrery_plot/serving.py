"""Figures of serving: distributions of latency, attainment of the SLO, latency against throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from . import frames, palette, units
from .names import METRIC_NAMES, METRICS
from .style import SMALL, WIDTH, Picture, PlotError, grid_of, legend_below, log_axis, plain_log, styled

SEVERAL = ("ttft", "tbt", "e2e")  # drawn of several runs, unless told


def _cdfs(frame: pd.DataFrame, what: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(values in s, quantiles) by metric, in the order of METRICS."""
    frames.need(frame, ("metric", "quantile", "value_s"), what)
    found = {}
    for metric in [*METRICS, *sorted(set(frame["metric"]) - set(METRICS))]:
        rows = frame[(frame["metric"] == metric) & frame["value_s"].notna()]
        if len(rows):
            found[metric] = rows["value_s"].to_numpy(float), rows["quantile"].to_numpy(float)
    return found


def _name(metric: str) -> str:
    return METRIC_NAMES.get(metric, (metric,))[0]


@styled
def latency(runs: Mapping[str, pd.DataFrame], metrics: Sequence[str] | None = None,
            targets: Mapping[str, float] | None = None) -> Picture:
    """CDFs and tails. `runs`: tables of quantiles (metric, quantile, value_s) by label; `targets`: SLO in s by metric.

    One run: all metrics in a pair of panels. Several: a column a metric (TTFT, TBT and E2E unless told), a line a run.
    """
    cdfs = {label: _cdfs(frame, f"latency of {label}") for label, frame in runs.items()}
    if not cdfs:
        raise PlotError("latency: there is nothing to draw, no run was given")
    known = list(dict.fromkeys(metric for one in cdfs.values() for metric in one))
    if not known:
        raise PlotError("latency: there is nothing to draw, no request was completed")
    for metric in metrics or ():
        if metric not in known:
            raise PlotError(f"latency: no metric '{metric}'; there are {', '.join(known)}")
    targets = targets or {}
    if len(cdfs) == 1:
        (one,) = cdfs.values()
        return _one_run({m: one[m] for m in metrics or [m for m in one if m in METRICS] or one}, targets)
    chosen = list(metrics) if metrics else [m for m in SEVERAL if m in known] or known[:3]
    return _several(cdfs, chosen, targets)


def _one_run(cdfs: dict, targets: Mapping[str, float]) -> Picture:
    figure, ((left, right),) = grid_of(1, 2, (WIDTH, 3.1))
    for i, (metric, cdf) in enumerate(cdfs.items()):
        look = {"color": palette.METRIC_COLOURS.get(metric, palette.colour(i)), "linewidth": 1.5,
                "linestyle": palette.METRIC_STYLES.get(metric, palette.dash(i))}
        _curve(left, right, cdf, _name(metric), look)
    for metric in (m for m in targets if m in cdfs):
        _target(left, right, metric, targets[metric], palette.METRIC_COLOURS.get(metric, palette.INK))
    left.set(title="Distribution", xlabel="time (s)", ylabel="fraction at or below", ylim=(0, 1.01))
    right.set(title="Tail", xlabel="time (s)", ylabel="fraction above")
    _axes(left, right)
    legend_below(figure, 5)
    return figure


def _several(cdfs: dict[str, dict], metrics: list[str], targets: Mapping[str, float]) -> Picture:
    figure, grid = grid_of(2, len(metrics), (max(WIDTH, 2.4 * len(metrics)) if len(metrics) > 1 else 3.6, 4.8))
    for k, metric in enumerate(metrics):
        left, right = grid[0][k], grid[1][k]
        for i, (label, one) in enumerate(cdfs.items()):
            if metric in one:
                _curve(left, right, one[metric], label,
                       {"color": palette.colour(i), "linestyle": palette.dash(i), "linewidth": 1.4})
        if metric in targets:
            _target(left, right, metric, targets[metric], palette.INK)
        left.set(title=_name(metric), ylim=(0, 1.01))
        right.set(xlabel=f"{_name(metric)} (s)")
        _axes(left, right, 25)
        right.sharex(left)
        left.tick_params(labelbottom=False)
    grid[0][0].set_ylabel("fraction at or below")
    grid[1][0].set_ylabel("fraction above")
    figure.align_ylabels(grid)
    legend_below(figure, 4)
    return figure


def _curve(left, right, cdf: tuple[np.ndarray, np.ndarray], label: str, look: dict) -> None:
    value, quantile = cdf
    shown = value > 0
    zero = " (all 0 s)" if not shown.any() else ""
    left.plot(value[shown], quantile[shown], label=label + zero, **look)
    tail = shown & (quantile < 1)
    right.plot(value[tail], 1 - quantile[tail], **look)


def _target(left, right, metric: str, seconds: float, colour: str) -> None:
    for axes in (left, right):
        axes.axvline(seconds, color=colour, linewidth=0.8, linestyle=(0, (1, 1.5)))
    left.annotate(f"SLO {_name(metric)} {units.text(seconds, 's')}", (seconds, 0.02), xytext=(2, 0), fontsize=SMALL,
                  textcoords="offset points", rotation=90, va="bottom", color=colour)


def _axes(left, right, dense: float = 120) -> None:
    values = np.concatenate([line.get_xdata() for line in left.lines if len(line.get_xdata()) > 2] or [np.ones(1)])
    log_axis(left.xaxis, values, dense)
    log_axis(right.xaxis, values, dense)
    right.set_yscale("log")
    plain_log(right.yaxis)


@styled
def slo(frame: pd.DataFrame, x: str = "rate_per_s", by: str | None = None, target: float | None = 0.95) -> Picture:
    """Attainment (%) over `x` (requests/s, or scale of the targets), a line a value of `by`.

    `frame`: columns `x`, `attainment` (a fraction), and optionally `half_width` and `by`; `target` is drawn as a line.
    """
    frames.need(frame, [c for c in (x, "attainment", by) if c], "SLO attainment")
    frames.finite(frame["attainment"], "SLO attainment")
    figure, ((axes,),) = grid_of(1, 1, (4.6, 3.2))
    groups = [("", frame)] if by is None else list(frame.groupby(by, sort=True))
    for i, (name, rows) in enumerate(groups):
        rows = rows.sort_values(x, kind="stable")
        label = None if by is None else f"{frames.words_of(by)} {name:g}" if units.is_number(name) else str(name)
        width = 100 * rows["half_width"] if "half_width" in rows and (rows["half_width"] > 0).any() else None
        axes.errorbar(rows[x], 100 * rows["attainment"], yerr=width, color=palette.colour(i), linestyle=palette.dash(i),
                      marker=palette.marker(i), markersize=3.5, linewidth=1.3, capsize=2, elinewidth=0.8, label=label)
    if target is not None:
        axes.axhline(100 * target, color=palette.INK, linewidth=0.8, linestyle=(0, (1, 1.5)))
        axes.annotate(f"target {100 * target:g} %", (1, 100 * target), xycoords=("axes fraction", "data"),
                      xytext=(0, -2), textcoords="offset points", ha="right", va="top", fontsize=SMALL)
    axes.set(xlabel=_rate_label(x), ylabel="requests that attain the SLO (%)", ylim=(-2, 103))
    _spread(axes.xaxis, frame[x])
    if by is not None:
        legend_below(figure, 4)
    return figure


def _rate_label(x: str) -> str:
    return {"rate_per_s": "request rate (1/s)", "scale": "targets, as a multiple of the SLO's"}.get(x) or frames.label_of(x)


def _spread(axis, values) -> None:
    """A logarithmic axis where positive values span more than a factor of 12."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    if len(known) and known.min() > 0 and known.max() / known.min() > 12:
        log_axis(axis, known)


@styled
def throughput_latency(frame: pd.DataFrame, throughput: str = "throughput.output_tokens_per_s", latency: str = "ttft_s.p99",
                       by: str | None = None, order: str | None = None, target: float | None = None) -> Picture:
    """`latency` over `throughput`, a line a value of `by`, joined in the order of `order` (the throughput's own unless told).

    Both are columns whose names carry their units; `target` is an SLO in the unit of `latency`.
    """
    frames.need(frame, [c for c in (throughput, latency, by, order) if c], "latency against throughput")
    known = frame[np.isfinite(frame[throughput].astype(float)) & np.isfinite(frame[latency].astype(float))]
    frames.need(known, (), "latency against throughput")
    factor, unit = frames.scale_of(known[latency], frames.unit_of(latency))
    figure, ((axes,),) = grid_of(1, 1, (4.8, 3.4))
    groups = [(None, known)] if by is None else list(known.groupby(by, sort=False))
    for i, (name, rows) in enumerate(groups):
        rows = rows.sort_values(order or throughput, kind="stable")
        axes.plot(rows[throughput], rows[latency] * factor, color=palette.colour(i), linestyle=palette.dash(i),
                  marker=palette.marker(i), markersize=3.8, linewidth=1.3, label=None if name is None else str(name))
    if target is not None:
        axes.axhline(target * factor, color=palette.INK, linewidth=0.8, linestyle=(0, (1, 1.5)))
        axes.annotate(f"SLO {units.plain(target * factor)} {unit}", (1, target * factor), xytext=(0, 2), ha="right",
                      xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=SMALL)
    axes.set(xlabel=frames.label_of(throughput), ylabel=frames.label_of(latency, unit))
    axes.set_xlim(left=0)
    _spread(axes.yaxis, np.append(known[latency] * factor, [] if target is None else target * factor))
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)
    if by is not None:
        legend_below(figure, 3)
    return figure
