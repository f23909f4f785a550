"""Figures of results, studies and stores: `orrery.plot.NAME(thing or several, …)` gives a matplotlib Figure.

    orrery.plot.latency(result).savefig("latency.png")

A result is what `orrery.run` returns, or the folder of a run; a study is an `orrery.Study` or the path of its store.
Nothing is shown and nothing global of matplotlib is changed; a notebook shows the figure that a cell ends with. What
cannot be drawn (an empty table, a design that does not fit) raises `orrery_plot.style.PlotError`, which says why.
The figures themselves are drawn by `orrery_plot`, over plain frames.
"""

from __future__ import annotations

import importlib


def _drawn_by(module: str, name: str):
    return getattr(importlib.import_module(f"orrery_plot.{module}"), name)


def latency(*results, metrics=None, labels=None):
    """CDFs of TTFT, TBT, TPOT, E2E and queueing with the SLO's targets, and their tails; a colour a result if several."""
    return _drawn_by("facade", "latency")(results, metrics, labels)


def slo(*things, x=None, target=None, labels=None):
    """SLO attainment against the rate (or `x`, a column; "scale" of the targets), a line for each of what else differs.

    Of a frame (rate_per_s, attainment, and scale or label), a run of `orrery slo`, a study, or several results.
    `target` is a fraction that is drawn as a line.
    """
    return _drawn_by("facade", "slo")(things, x, labels, target)


def throughput_latency(*things, latency=None, throughput=None, labels=None):
    """Latency against throughput, a line a configuration, points in the order of the rate."""
    return _drawn_by("facade", "throughput_latency")(things, latency, throughput, labels)


def series(*results, fields=None, labels=None):
    """Batch, queue, KV cache and power over time; a panel a field."""
    return _drawn_by("facade", "series")(results, fields, labels)


def gantt(timeline, tracks=None, start_s=None, end_s=None, by=None):
    """Slices of a timeline (`result.timeline`, a result or its folder), a row a track: a pipeline, a kernel stream.

    `tracks` chooses tracks or processes, the times a window; `by` is the column that colours, else the kind of slice.
    """
    return _drawn_by("facade", "gantt")(timeline, tracks, start_s, end_s, by)


def roofline(machine, kernels, dtype=None):
    """FLOP/s against FLOP per byte, under the roof of the device, a point a kernel.

    `machine`: an `orrery.Machine`, or a dict (name, bandwidth_bytes_per_s, peak_flops_per_s as a number or by type);
    `kernels`: a frame (name, flops, bytes, time_s, bound_by), or with a Machine the graph that it runs.
    """
    return _drawn_by("facade", "roofline")(machine, kernels, dtype)


def pareto(*studies, x=None, y=None, labels=None):
    """Points of studies in the plane of two objectives (or columns `x`, `y`), and the Pareto front of each study."""
    return _drawn_by("facade", "pareto")(studies, x, y, labels)


def hypervolume(*studies, labels=None):
    """What was reached after how many points: hypervolume and best of each objective."""
    return _drawn_by("facade", "hypervolume")(studies, labels)


def parallel(study):
    """Parallel coordinates: an axis a parameter and an objective, a line a point, the front in colour."""
    return _drawn_by("facade", "parallel")(study)


def topology(result, layout=None):
    """The network of a run, its links coloured and thickened by utilisation."""
    return _drawn_by("facade", "topology")(result, layout)


def memory_map(plan, capacity_bytes=None):
    """Where each block lies in memory (offset) and when (lifetime): the file of `orrery plan --out`, or such a frame."""
    return _drawn_by("facade", "memory_map")(plan, capacity_bytes)


def breakdown(*results, what="energy", labels=None):
    """Energy ("energy"), device time ("time") or "both" by class of operator; of several results a bar each."""
    return _drawn_by("facade", "breakdown")(results, what, labels)


def claims(claims):
    """Claimed band against simulated value, a row a claim: of `orrery.reproduce`, its JSON, or a frame."""
    return _drawn_by("facade", "claims")(claims)
