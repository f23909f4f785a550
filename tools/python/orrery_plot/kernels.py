"""Rooflines: what a device can do at most, and where kernels stand below it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from . import frames, palette, units
from .style import SIZE, SMALL, Picture, PlotError, grid_of, legend_below, log_axis, plain_log, styled

BOUNDS = ("compute", "memory", "launch")  # in this order they have the first looks
MOST_NAMED = 6


@styled
def roofline(machine: Mapping, kernels: pd.DataFrame, dtype: str | None = None) -> Picture:
    """FLOP/s over FLOP per byte, log-log.

    `machine`: name, bandwidth_bytes_per_s, peak_flops_per_s (a number, or by type).
    `kernels`: name, flops, bytes, time_s, and optionally class, bound_by, count, dtype (roofs of other types are left
    out). Equal kernels are one mark, its area their share of the time; the six that take longest are named. Kernels
    without FLOPs or bytes have no place in it: a note says how much of the time they take. Marks lie below the roof by
    what a kernel loses.
    """
    frames.need(kernels, ("name", "flops", "bytes", "time_s"), "roofline")
    bandwidth = float(machine.get("bandwidth_bytes_per_s") or 0)
    peaks = machine.get("peak_flops_per_s")
    peaks = peaks if isinstance(peaks, Mapping) else {dtype or "peak": peaks or 0}
    peaks = {str(name): float(peak) for name, peak in peaks.items()}
    if dtype is not None and dtype not in peaks:
        raise PlotError(f"roofline: no peak for {dtype}; there are {', '.join(peaks)}")
    if dtype is None and "dtype" in kernels and set(kernels["dtype"]) & set(peaks):
        peaks = {name: peak for name, peak in peaks.items() if name in set(kernels["dtype"])}
    peaks = {dtype: peaks[dtype]} if dtype else {k: v for k, v in peaks.items() if v > 0}
    if bandwidth <= 0 or not peaks or max(peaks.values()) <= 0:
        raise PlotError("roofline: expected bandwidth_bytes_per_s and peak_flops_per_s above 0")
    table = _merged(kernels)
    drawn = table[(table["flops"] > 0) & (table["bytes"] > 0) & (table["time_s"] > 0)]
    frames.need(drawn, (), "roofline (kernels with FLOPs and bytes)")
    figure, ((axes,),) = grid_of(1, 1, (5.4, 3.9))
    x = (drawn["flops"] / drawn["bytes"]).to_numpy()
    y = (drawn["flops"] / drawn["time_s"]).to_numpy()
    factor, unit = units.prefix(max(peaks.values()), "FLOP/s")
    ridge = max(peaks.values()) / bandwidth
    low, high = min(x.min() / 4, ridge / 10), max(x.max() * 12, ridge * 6)  # names stand to the right
    _roofs(axes, peaks, bandwidth, low, high, factor, unit)
    bottom = min(y.min() / 2.5, bandwidth * low) * factor
    axes.set(xlim=(low, high), ylim=(bottom, max(peaks.values()) * factor * 2.2),
             xlabel="arithmetic intensity (FLOP/B)", ylabel=f"attained ({unit})")
    log_axis(axes.xaxis, [low, high])
    log_axis(axes.yaxis, [1, 1e6])
    plain_log(axes.yaxis)
    handles = _marks(axes, drawn, x, y * factor, lambda at: min(at * bandwidth, max(peaks.values())) * factor)
    left_out = 1 - float(drawn["time_s"].sum() / table["time_s"].sum())
    note = f"\n{units.percent(left_out)} of the time in kernels without FLOPs" if left_out > 0.0005 else ""
    axes.set_title(f"{machine.get('name', 'device')}: {units.text(float(table['time_s'].sum()), 's')}, "
                   f"{int(table['count'].sum()):,} kernels{note}", fontsize=SIZE)
    legend_below(figure, 4, handles=handles)
    return figure


def _merged(kernels: pd.DataFrame) -> pd.DataFrame:
    """Kernels of the same class (else name), work and bound as one row, with the work and the time of all together."""
    table = kernels.assign(name=kernels["class"] if "class" in kernels else kernels["name"],
                           bound_by=kernels["bound_by"].astype(str) if "bound_by" in kernels else "",
                           count=kernels["count"] if "count" in kernels else 1)
    keys = ["name", "flops", "bytes", "bound_by"]
    merged = table.groupby(keys, sort=False, dropna=False).agg(one_s=("time_s", "mean"), time_s=("time_s", "sum"),
                                                               count=("count", "sum")).reset_index()
    weight = merged["time_s"] / merged["one_s"].where(merged["one_s"] > 0, 1)
    return merged.assign(flops=merged["flops"] * weight, bytes=merged["bytes"] * weight)


def _roofs(axes, peaks: dict, bandwidth: float, low: float, high: float, factor: float, unit: str) -> None:
    at = np.geomspace(low, high, 200)
    for i, (name, peak) in enumerate(sorted(peaks.items(), key=lambda item: -item[1])):
        axes.plot(at, np.minimum(at * bandwidth, peak) * factor, color=palette.INK, linewidth=1.2,
                  linestyle=palette.DASHES[i % 6])
        label = f"{units.plain(peak * factor)} {unit}" + ("" if name == "peak" else f" {name}")
        # Of further peaks at the bend: kernels stand where the line goes on.
        at_bend = i > 0 and peak / bandwidth > low
        axes.annotate(label, (peak / bandwidth if at_bend else high, peak * factor), xytext=(-3, 2), textcoords="offset points",
                      ha="right", fontsize=SMALL)
    start = np.sqrt(low * max(peaks.values()) / bandwidth)
    axes.annotate(units.text(bandwidth, "B/s"), (start, start * bandwidth * factor), xytext=(-4, 3), fontsize=SMALL,
                  textcoords="offset points", ha="right", va="bottom")


def _marks(axes, drawn: pd.DataFrame, x: np.ndarray, y: np.ndarray, roof) -> list:
    """Draws them; what the legend shows."""
    share = (drawn["time_s"] / drawn["time_s"].sum()).to_numpy()
    bounds = sorted(drawn["bound_by"].unique(), key=lambda b: (BOUNDS.index(b) if b in BOUNDS else len(BOUNDS), b))
    handles = []
    for i, bound in enumerate(bounds):
        own = (drawn["bound_by"] == bound).to_numpy()
        axes.scatter(x[own], y[own], s=12 + 500 * share[own], marker=palette.marker(i), color=palette.colour(i),
                     alpha=0.75, edgecolors=palette.INK, linewidths=0.5, zorder=3,
                     label=f"bound by {bound}" if bound else "kernels")
        handles.append(Line2D([], [], linestyle="none", marker=palette.marker(i), color=palette.colour(i), markersize=5,
                              markeredgecolor=palette.INK, markeredgewidth=0.5,
                              label=f"bound by {bound}" if bound else "kernels"))
    _names(axes, drawn, x, y, share, roof)
    return handles


def _names(axes, drawn: pd.DataFrame, x: np.ndarray, y: np.ndarray, share: np.ndarray, roof) -> None:
    """Names the kernels that take longest: under the roof, where no other name or mark is in the way."""
    scale = 72 / axes.figure.dpi
    points = axes.transData.transform(np.stack([x, y], 1)) * scale
    radius = 0.5 * np.sqrt(12 + 500 * share)
    left, bottom, right, top = (v * scale for v in axes.bbox.extents)
    taken = [(px - r, py - r, px + r, py + r) for (px, py), r in zip(points, radius)]
    order = list(np.argsort(-share, kind="stable"))
    firsts = {str(drawn["name"].iloc[k]): k for k in reversed(order)}  # of a name, the kernel that takes longest

    def free(box: tuple) -> bool:
        ax, ay = axes.transData.inverted().transform((box[0] / scale, box[3] / scale))
        inside = left <= box[0] and box[2] <= right and bottom <= box[1] and box[3] <= top and ay < roof(ax)
        return inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)

    for name, k in sorted(firsts.items(), key=lambda item: order.index(item[1]))[:MOST_NAMED]:
        text = f"{name} {units.percent(float(share[k]))}"
        wide, (px, py) = 3.9 * len(text), points[k]
        for dy, side in ((dy, side) for dy in (0, -9, 9, -18, -27, -36, -45) for side in (1, -1)):
            near = px + side * (radius[k] + 3 + 0.4 * abs(dy))
            box = (min(near, near + side * wide), py + dy - 4, max(near, near + side * wide), py + dy + 4)
            if free(box):
                taken.append(box)
                axes.annotate(text, (x[k], y[k]), xytext=(near - px, dy), textcoords="offset points", fontsize=SMALL,
                              ha="left" if side > 0 else "right", va="center", zorder=4,
                              arrowprops={"arrowstyle": "-", "color": palette.MUTED, "linewidth": 0.4, "shrinkA": 0}
                              if dy else None)
                break
