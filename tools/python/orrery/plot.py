"""Figures of results, studies and stores: `orrery.plot.NAME(thing or several, …)` gives a matplotlib Figure.

    orrery.plot.latency(result).savefig("latency.png")

A result is what `orrery.run` returns, or the folder of a run; a study is an `orrery.Study` or the path of its store.
Nothing is shown and nothing global of matplotlib is changed; a notebook shows the figure that a cell ends with. What
cannot be drawn (an empty table, a design that does not fit) raises `orrery_plot.style.PlotError`, which says why.
The figures themselves are drawn by `orrery_plot`, over plain frames.
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
    """CDFs of TTFT, TBT, TPOT, E2E and queueing with the SLO's targets, and their tails; of several a line a result."""
    return _drawn_by("facade", "latency")(results, metrics, labels)


@_answered
def slo(*things: object, x: str | None = None, target: float | None = None, labels: Labels = None) -> Figure:
    """SLO attainment against the rate (or `x`, a column; "scale" of the targets), a line for each of what else differs.

    Of a frame (rate_per_s, attainment, and scale or label), a run of `orrery slo`, a study, or several results.
    `target` is a fraction that is drawn as a line.
    """
    return _drawn_by("facade", "slo")(things, x, labels, target)


@_answered
def throughput_latency(*things: object, latency: str | None = None, throughput: str | None = None,
                       labels: Labels = None) -> Figure:
    """Latency against throughput, a line a configuration, points in the order of the rate."""
    return _drawn_by("facade", "throughput_latency")(things, latency, throughput, labels)


@_answered
def series(*results: object, fields: str | Sequence[str] | None = None, labels: Labels = None) -> Figure:
    """Batch, queue, KV cache and power over time; a panel a field."""
    return _drawn_by("facade", "series")(results, fields, labels)


@_answered
def gantt(timeline: object, tracks: str | Sequence[str] | None = None, start_s: float | None = None,
          end_s: float | None = None, by: str | None = None) -> Figure:
    """Slices of a timeline (`result.timeline`, a result or its folder), a row a track: a pipeline, a kernel stream.

    `tracks` chooses tracks or processes, the times a window; `by` is the column that colours, else the kind of slice.
    """
    return _drawn_by("facade", "gantt")(timeline, tracks, start_s, end_s, by)


@_answered
def roofline(machine: object, kernels: object, dtype: str | None = None) -> Figure:
    """FLOP/s against FLOP per byte, under the roof of the device, a point a kernel.

    `machine`: an `orrery.Machine`, or a dict (name, bandwidth_bytes_per_s, peak_flops_per_s as a number or by type);
    `kernels`: a frame (name, flops, bytes, time_s, bound_by), or with a Machine the graph that it runs.
    """
    return _drawn_by("facade", "roofline")(machine, kernels, dtype)


@_answered
def pareto(*studies: object, x: str | None = None, y: str | None = None, labels: Labels = None) -> Figure:
    """Points of studies in the plane of two objectives (or columns `x`, `y`), and the Pareto front of each study."""
    return _drawn_by("facade", "pareto")(studies, x, y, labels)


@_answered
def hypervolume(*studies: object, labels: Labels = None) -> Figure:
    """What was reached after how many points: hypervolume and best of each objective."""
    return _drawn_by("facade", "hypervolume")(studies, labels)


@_answered
def parallel(study: object) -> Figure:
    """Parallel coordinates: an axis a parameter and an objective, a line a point, the front in colour."""
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
    """Training jobs: effective training time so far and speed over time, with failures; of several a line a job."""
    return _drawn_by("facade", "goodput")(results, labels)


@_answered
def decisions(*results: object, labels: Labels = None) -> Figure:
    """Serving runs: which replica requests went to and who was turned away, over time; of several a panel a run."""
    return _drawn_by("facade", "decisions")(results, labels)


@_answered
def rlhf(*results: object, labels: Labels = None, iterations: int = 1) -> Figure:
    """Iterations of learning from feedback: which devices each call has over time; of several a panel a run."""
    return _drawn_by("facade", "rlhf")(results, labels, iterations)


@_answered
def memory_map(plan: object, capacity_bytes: float | None = None) -> Figure:
    """Where blocks lie in memory (offset) and when (lifetime): of the file of `orrery plan --out`, or such a frame."""
    return _drawn_by("facade", "memory_map")(plan, capacity_bytes)


@_answered
def breakdown(*results: object, what: str = "energy", labels: Labels = None) -> Figure:
    """Energy ("energy"), device time ("time") or "both" by class of operator; of several results a bar each."""
    return _drawn_by("facade", "breakdown")(results, what, labels)


@_answered
def claims(claims: object) -> Figure:
    """Claimed band against simulated value, a row a claim: of `orrery.reproduce`, its JSON, or a frame."""
    return _drawn_by("facade", "claims")(claims)
