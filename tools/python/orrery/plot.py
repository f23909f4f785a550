"""Figures of results, studies and stores: `orrery.plot.NAME(thing or several, …)` gives a matplotlib Figure.

    orrery.plot.latency(result).savefig("latency.png")

A result is what `orrery.run` returns, or the folder of a run; a study is an `orrery.Study` or the path of its store.
The functions open no window and change no global state of matplotlib; a notebook shows the figure that a cell ends
with. Data that cannot be drawn (an empty table, a design that does not fit) raise `orrery_plot.style.PlotError` with
the reason. The package `orrery_plot` draws the figures from plain frames.
"""

from __future__ import annotations

import importlib
import typing

from orrery.keywords import answered as _answered

if typing.TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    Labels = typing.Optional[Sequence[str]]


def _drawn_by(module: str, name: str) -> typing.Callable[..., Figure]:
    return getattr(importlib.import_module(f"orrery_plot.{module}"), name)


@_answered
def latency(*results: object, metrics: str | Sequence[str] | None = None, labels: Labels = None) -> Figure:
    """CDFs of TTFT, TBT, TPOT, E2E and queueing time with SLO targets, and their tails; one line per result."""
    return _drawn_by("facade", "latency")(results, metrics, labels)


@_answered
def slo(*things: object, x: str | None = None, target: float | None = None, labels: Labels = None) -> Figure:
    """SLO attainment against the rate (or column `x`, or "scale" of the targets); one line per other setting.

    `things`: a frame (rate_per_s, attainment, and scale or label), a run of `orrery slo`, a study, or several results.
    `target` is a fraction, drawn as a line.
    """
    return _drawn_by("facade", "slo")(things, x, labels, target)


@_answered
def throughput_latency(*things: object, latency: str | None = None, throughput: str | None = None,
                       labels: Labels = None) -> Figure:
    """Latency against throughput; one line per configuration, its points in order of the rate."""
    return _drawn_by("facade", "throughput_latency")(things, latency, throughput, labels)


@_answered
def series(*results: object, fields: str | Sequence[str] | None = None, labels: Labels = None) -> Figure:
    """Batch, queue, KV cache and power over time; one panel per field."""
    return _drawn_by("facade", "series")(results, fields, labels)


@_answered
def gantt(timeline: object, tracks: str | Sequence[str] | None = None, start_s: float | None = None,
          end_s: float | None = None, by: str | None = None) -> Figure:
    """Slices of a timeline (`result.timeline`, a result or its folder), one row per track, such as a kernel stream.

    `tracks` chooses tracks or processes, `start_s` and `end_s` a window. Slices are coloured by column `by`,
    or by their kind.
    """
    return _drawn_by("facade", "gantt")(timeline, tracks, start_s, end_s, by)


@_answered
def roofline(machine: object, kernels: object, dtype: str | None = None) -> Figure:
    """FLOP/s against FLOP per byte under the roofline of the device; one point per kernel.

    `machine`: an `orrery.Machine`, or a dict (name, bandwidth_bytes_per_s, peak_flops_per_s as a number or by type);
    `kernels`: a frame (name, flops, bytes, time_s, bound_by) or, with a Machine, the graph that it runs.
    """
    return _drawn_by("facade", "roofline")(machine, kernels, dtype)


@_answered
def pareto(*studies: object, x: str | None = None, y: str | None = None, labels: Labels = None) -> Figure:
    """Points of studies in the plane of two objectives (or columns `x`, `y`), with the Pareto front of each study."""
    return _drawn_by("facade", "pareto")(studies, x, y, labels)


@_answered
def hypervolume(*studies: object, labels: Labels = None) -> Figure:
    """Progress of a search by the number of points: hypervolume, and the best value of each objective."""
    return _drawn_by("facade", "hypervolume")(studies, labels)


@_answered
def parallel(study: object) -> Figure:
    """Parallel coordinates: one axis per parameter and objective, one line per point, the front in colour."""
    return _drawn_by("facade", "parallel")(study)


@_answered
def topology(result: object, layout: str | None = None) -> Figure:
    """The network of a run, its links coloured and thickened by utilisation."""
    return _drawn_by("facade", "topology")(result, layout)


@_answered
def pipeline(result: object) -> Figure:
    """A training step: passes of the pipeline's stages over time, and what fills their memory."""
    return _drawn_by("facade", "pipeline")(result)


@_answered
def goodput(*results: object, labels: Labels = None) -> Figure:
    """Training jobs: effective training time ratio so far and speed, over time, with failures; one line per job."""
    return _drawn_by("facade", "goodput")(results, labels)


@_answered
def decisions(*results: object, labels: Labels = None) -> Figure:
    """Serving runs over time: the replicas that requests went to, and rejected requests; one panel per run."""
    return _drawn_by("facade", "decisions")(results, labels)


@_answered
def rlhf(*results: object, labels: Labels = None, iterations: int = 1) -> Figure:
    """Iterations of learning from feedback: the devices that each call uses over time; one panel per run."""
    return _drawn_by("facade", "rlhf")(results, labels, iterations)


@_answered
def memory_map(plan: object, capacity_bytes: float | None = None) -> Figure:
    """Offset and lifetime of blocks in memory, from the file of `orrery plan --out` or such a frame."""
    return _drawn_by("facade", "memory_map")(plan, capacity_bytes)


@_answered
def breakdown(*results: object, what: str = "energy", labels: Labels = None) -> Figure:
    """Energy ("energy"), device time ("time") or "both" by class of operator; one bar per result."""
    return _drawn_by("facade", "breakdown")(results, what, labels)


@_answered
def claims(claims: object) -> Figure:
    """Claimed band and simulated value, one row per claim: from `orrery.reproduce`, its JSON, or a frame."""
    return _drawn_by("facade", "claims")(claims)
