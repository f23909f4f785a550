"""Figures of serving: distributions of latency, attainment of the SLO, latency against throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from . import frames, palette, units
from .names import METRIC_NAMES, METRICS
from .style import COMMAS, SMALL, WIDTH, Picture, PlotError, grid_of, legend_below, log_axis, plain_log, styled

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
    for axis in (left.xaxis, right.xaxis):
        log_axis(axis, values, dense, least=2)  # a narrow panel: more labels would touch
    right.set_yscale("log")
    plain_log(right.yaxis)


@styled
def slo(frame: pd.DataFrame, x: str = "rate_per_s", by: str | None = None, target: float | None = 0.95,
        panel: str | None = None) -> Picture:
    """Attainment (%) over `x` (requests/s, or scale of the targets), a line a value of `by`, panels by `panel`.

    `frame`: columns `x`, `attainment` (a fraction), and optionally `half_width`; `target` is drawn as a line.
    """
    frames.need(frame, [c for c in (x, "attainment", by, panel) if c], "SLO attainment")
    frames.finite(frame["attainment"], "SLO attainment")
    frame = frame.assign(attainment=frame["attainment"].astype(float), **{x: frame[x].astype(float)})
    figure, panels = _panels(frame, panel, (4.6, 3.1))
    order = _order(frame, by)
    for axes, rows in panels:
        for i, label, own in _groups(rows, by, order):
            own = own.sort_values(x, kind="stable")
            width = 100 * own["half_width"] if "half_width" in own and (own["half_width"] > 0).any() else None
            axes.errorbar(own[x], 100 * own["attainment"], yerr=width, color=palette.colour(i),
                          linestyle=palette.dash(i), marker=palette.marker(i), markersize=3.5, linewidth=1.3,
                          capsize=2, elinewidth=0.8, label=label)
        if target is not None:
            axes.axhline(100 * target, color=palette.INK, linewidth=0.8, linestyle=(0, (1, 1.5)),
                         label=f"target {100 * target:g} %")
        axes.set(xlabel=_rate_label(x), ylim=(-2, 103))
        _spread(axes.xaxis, frame[x])
    panels[0][0].set_ylabel("requests that attain the SLO (%)")
    legend_below(figure, 4)
    return figure


def _panels(frame: pd.DataFrame, column: str | None, size: tuple[float, float]) -> tuple[Picture, list]:
    """A panel a value of the column, with its rows; one without a column."""
    values = [None] if column is None else list(dict.fromkeys(frame[column]))
    figure, (grid,) = grid_of(1, len(values), size if column is None else (max(size[0], 2.4 * len(values)), 2.9),
                              sharey=True)
    for axes, value in zip(grid, values):
        if value is not None:
            axes.set_title(str(value))
    return figure, [(axes, frame if value is None else frame[frame[column] == value])
                    for axes, value in zip(grid, values)]


def _order(frame: pd.DataFrame, by: str | None) -> list:
    """What has a look of its own: numbers sorted, texts in the order of the table."""
    if by is None:
        return [None]
    values = list(dict.fromkeys(frame[by]))
    return sorted(values) if all(units.is_number(v) for v in values) else values


def _groups(rows: pd.DataFrame, by: str | None, order: list):
    """(place in the order, label, rows) of each line of a panel."""
    for i, value in enumerate(order):
        own = rows if by is None else rows[rows[by] == value]
        if len(own):
            label = None if by is None else f"{frames.words_of(by)} {value:g}" if units.is_number(value) else str(value)
            yield i, label, own


def _rate_label(x: str) -> str:
    return {"rate_per_s": "request rate (1/s)",
            "scale": "targets, as a multiple of the SLO's"}.get(x) or frames.label_of(x)


def _spread(axis, values) -> None:
    """A logarithmic axis where positive values span more than a factor of 12."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    if len(known) and known.min() > 0 and known.max() / known.min() > 12:
        log_axis(axis, known)


@styled
def throughput_latency(frame: pd.DataFrame, throughput: str = "throughput.output_tokens_per_s",
                       latency: str = "ttft_s.p99", by: str | None = None, order: str | None = None,
                       target: float | None = None, panel: str | None = None) -> Picture:
    """`latency` over `throughput`, a line a value of `by`, points joined in the order of `order` (else of throughput).

    Both are columns whose names carry their units; `target` is an SLO in the unit of `latency`; panels by `panel`.
    """
    frames.need(frame, [c for c in (throughput, latency, by, order, panel) if c], "latency against throughput")
    known = frame.assign(**{name: frame[name].astype(float) for name in (throughput, latency)})
    known = known[np.isfinite(known[throughput]) & np.isfinite(known[latency])]
    frames.need(known, (), "latency against throughput")
    factor, unit = units.scale_of(known[latency], units.unit_of(latency))
    figure, panels = _panels(known, panel, (4.8, 3.3))
    looks = _order(known, by)
    for axes, rows in panels:
        for i, label, own in _groups(rows, by, looks):
            own = own.sort_values(order or throughput, kind="stable")
            axes.plot(own[throughput], own[latency] * factor, color=palette.colour(i), linestyle=palette.dash(i),
                      marker=palette.marker(i), markersize=3.8, linewidth=1.3, label=label)
        if target is not None:
            axes.axhline(target * factor, color=palette.INK, linewidth=0.8, linestyle=(0, (1, 1.5)))
            axes.annotate(f"SLO {units.plain(target * factor)} {unit}", (0, target * factor), xytext=(3, 2), ha="left",
                          xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=SMALL)
        axes.set(xlabel=frames.label_of(throughput))
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(COMMAS)
        _spread(axes.yaxis, np.append(known[latency] * factor, [] if target is None else target * factor))
        if axes.get_yscale() == "linear":
            axes.set_ylim(bottom=0)
    panels[0][0].set_ylabel(frames.label_of(latency, unit))
    if by is not None:
        legend_below(figure, 3)
    return figure
