"""Figures of what lies where and when: slices of a timeline by track (Gantt), blocks of memory by offset."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from . import frames, palette, units
from .style import COMMAS, SIZE, SMALL, WIDTH, Picture, PlotError, grid_of, legend_below, styled, wrapped

MOST_NAMES = 8  # of slices that have a look of their own
MOST_TRACKS = 40
MOST_SLICES = 20_000
OTHERS = "others"
ROW = 0.8  # height of a row of slices, of 1


def _kind(name: str) -> str:
    """What a slice is, its name up to what tells it apart: `prefill 17`, `gemm [3]`, `add_4` are prefill, gemm, add."""
    words = [w for w in re.split(r"[\s\[(#]+", str(name)) if w and not w[0].isdigit()]
    return re.sub(r"[_.\-]?\d+$", "", words[0]) or words[0] if words else str(name)


@styled
def gantt(frame: pd.DataFrame, tracks: Sequence[str] | None = None, start_s: float | None = None,
          end_s: float | None = None, by: str | None = None) -> Picture:
    """Slices by track over time. `frame`: process, track, name, start_s, duration_s, and optionally depth, id.

    `tracks` chooses by track or process and orders; `start_s` and `end_s` cut a window; `by` is a column that gives the
    colours (else the first word of the name, or all of it where that is the same everywhere). Rows of one track lie one
    above the other by depth. Past 40 tracks, or 20,000 slices in the window, it is the longest that are drawn, and the
    title says so.
    """
    frames.need(frame, ("track", "name", "start_s", "duration_s"), "Gantt")
    rows = frame.assign(depth=frame["depth"] if "depth" in frame else 0,
                        track=frame["track"].astype(str),
                        process=frame["process"].astype(str) if "process" in frame else "")
    rows = rows.assign(end_s=rows["start_s"] + rows["duration_s"], row=_row_names(rows),
                       kind=(rows[by].astype(str) if by else rows["name"].map(_kind).astype(str)))
    if tracks is not None:
        chosen = [str(t) for t in tracks]
        rows = rows[rows["track"].astype(str).isin(chosen) | rows["process"].isin(chosen) | rows["row"].isin(chosen)]
        if not len(rows):
            known = list(dict.fromkeys(_row_names(frame.assign(process=frame.get("process", "")))))
            raise PlotError(f"Gantt: no track of {', '.join(chosen)}; there are {', '.join(known[:12])}")
        rank = [min(chosen.index(n) for n in (t, p, r) if n in chosen) for t, p,
                r in zip(rows["track"], rows["process"], rows["row"])]
    else:
        rank = 0
    rows = rows.assign(rank=rank, row=_row_names(rows))
    if by is None and rows["kind"].nunique() == 1 and rows["name"].nunique() <= MOST_NAMES:
        rows = rows.assign(kind=rows["name"].astype(str))  # lane 0, lane 1: what tells them apart is what matters
    low = float(rows["start_s"].min()) if start_s is None else start_s
    high = float(rows["end_s"].max()) if end_s is None else end_s
    rows = rows[(rows["end_s"] >= low) & (rows["start_s"] <= high)]
    if not len(rows) or high <= low:
        raise PlotError(f"Gantt: there is nothing to draw between {low:g} s and {high:g} s")
    return _gantt(rows, low, high)


def _row_names(rows: pd.DataFrame) -> list[str]:
    """`process · track`; the process alone or the track alone where that says it."""
    several = rows["process"].nunique() > 1
    return [f"{p} · {t}" if several and p and p != t else str(t) for p,
            t in zip(rows["process"].astype(str), rows["track"].astype(str))]


def _gantt(rows: pd.DataFrame, low: float, high: float) -> Picture:
    notes = []
    firsts = rows.drop_duplicates("row")
    names = [row.row
             for row in sorted(firsts.itertuples(),
                               key=lambda r: (r.rank, frames.natural(r.process), frames.natural(r.track)))]
    if len(names) > MOST_TRACKS:
        notes.append(f"the first {MOST_TRACKS} of {len(names)} tracks")
        rows, names = rows[rows["row"].isin(names[:MOST_TRACKS])], names[:MOST_TRACKS]
    if len(rows) > MOST_SLICES:
        notes.append(f"the longest {MOST_SLICES:,} of {len(rows):,} slices")
        rows = rows.nlargest(MOST_SLICES, "duration_s", keep="first")
    depth = rows.groupby("row")["depth"].max().reindex(names).astype(int) + 1
    top = dict(zip(names, np.concatenate([[0], np.cumsum(depth)[:-1]])))
    lines = int(depth.sum())
    figure, ((axes,),) = grid_of(1, 1, (WIDTH, min(9.0, 1.0 + 0.24 * lines)))
    factor, unit = units.scale_of([high if high - low > high / 1000 else high - low], "s")
    _slices(axes, rows, top, factor)
    axes.set(xlim=((low) * factor, high * factor), ylim=(lines - 0.5 + 0.1, -0.6), xlabel=f"simulated time ({unit})")
    axes.xaxis.set_major_formatter(COMMAS)
    axes.set_yticks([top[n] + (depth[n] - 1) / 2 for n in names], [wrapped(n, 28) for n in names],
                    fontsize=SIZE if lines < 25 else SMALL)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    for name in names[1:]:
        axes.axhline(top[name] - 0.5, color=palette.GRID, linewidth=0.6)
    if notes:
        axes.set_title("; ".join(notes), fontweight="normal", fontsize=SMALL)
    return figure


def _slices(axes, rows: pd.DataFrame, top: dict[str, int], factor: float) -> None:
    """A collection a kind, so that a million slices would not be a million artists; a legend below."""
    weight = rows.groupby("kind")["duration_s"].sum().sort_values(ascending=False, kind="stable")
    named = list(weight.index[: MOST_NAMES if len(weight) <= MOST_NAMES else MOST_NAMES - 1])
    first = list(dict.fromkeys(rows.sort_values("start_s", kind="stable")["kind"]))
    named.sort(key=frames.natural if len({_kind(name) for name in named}) == 1 else first.index)
    looks = {kind: (palette.colour(i), palette.hatch(i)) for i, kind in enumerate(named)}
    handles = []
    for kind in [*named, OTHERS] if len(weight) > len(named) else named:
        own = rows[~rows["kind"].isin(named)] if kind == OTHERS else rows[rows["kind"] == kind]
        colour, hatch = (palette.IDLE, "") if kind == OTHERS else looks[kind]
        x0, x1 = own["start_s"].to_numpy() * factor, own["end_s"].to_numpy() * factor
        y = own["row"].map(top).to_numpy() + own["depth"].to_numpy()
        low, high = y - ROW / 2, y + ROW / 2
        corners = np.stack([np.stack([x0, low], 1), np.stack([x1, low], 1), np.stack([x1, high], 1),
                            np.stack([x0, high], 1)], 1)
        thin = len(own) > 600
        axes.add_collection(PolyCollection(corners, facecolors=colour, hatch=None if thin else hatch,
                                           edgecolors="white",
                                           linewidths=0 if thin else 0.3, label=kind))
        handles.append(Patch(facecolor=colour, hatch=None if thin else hatch, edgecolor="white", label=kind))
    legend_below(axes.figure, 4, handles=handles)


@styled
def memory_map(blocks: pd.DataFrame, time: str = "time (operators)", capacity_bytes: float | None = None) -> Picture:
    """A box a block: when it lives across, where it lies upwards. `blocks`: id, lower, upper, size, offset (bytes).

    Above it, the bytes that live at each moment; the dashed line is their greatest sum, below which no plan can peak.
    """
    frames.need(blocks, ("lower", "upper", "size", "offset"), "memory map")
    size = blocks["size"].to_numpy(float)
    peak = float((blocks["offset"] + blocks["size"]).max())
    factor, unit = units.scale_of([capacity_bytes or peak], "B")
    figure, ((above,), (axes,)) = grid_of(2, 1, (WIDTH, 4.6), sharex=True, height_ratios=[1, 3.2])
    x0, x1 = blocks["lower"].to_numpy(float), blocks["upper"].to_numpy(float)
    y0, y1 = blocks["offset"].to_numpy(float) * factor, (blocks["offset"].to_numpy(float) + size) * factor
    corners = np.stack([np.stack([x0, y0], 1), np.stack([x1, y0], 1), np.stack([x1, y1], 1), np.stack([x0, y1], 1)], 1)
    # Four looks in turn, so that neighbours can be told apart; they mean nothing else.
    order = np.lexsort((x0, y0))
    for look in range(4):
        axes.add_collection(PolyCollection(corners[order[look::4]], facecolors=palette.colour(look), alpha=0.75,
                                           edgecolors="white", linewidths=0.4))
    if len(blocks) <= 24 and "id" in blocks:
        for k, name in enumerate(blocks["id"].astype(str)):
            axes.text((x0[k] + x1[k]) / 2, (y0[k] + y1[k]) / 2, name, ha="center", va="center", fontsize=SMALL,
                      color=palette.INK,
                      fontweight="bold", clip_on=True)
    at, live = live_bytes(blocks)
    above.stairs(live[:-1] * factor, at, baseline=0, fill=True, color=palette.IDLE)
    above.set(ylabel=f"live ({unit})", ylim=(0, None))
    above.axhline(live.max() * factor, color=palette.INK, linewidth=0.8, linestyle="dashed")
    axes.axhline(live.max() * factor, color=palette.INK, linewidth=0.8, linestyle="dashed")
    waste = peak / live.max() - 1 if live.max() else 0.0
    above.set_title(f"{len(blocks):,} blocks · peak {units.text(peak, 'B')} · "
                    f"{units.percent(waste)} above peak live bytes")
    axes.set(xlabel=time, ylabel=f"offset ({unit})", xlim=(x0.min(), x1.max()),
             ylim=(0, max(peak, capacity_bytes or 0) * factor * 1.04))
    if capacity_bytes:
        axes.axhline(capacity_bytes * factor, color=palette.VERMILION, linewidth=1.0)
        axes.annotate(f"capacity {units.text(capacity_bytes, 'B')}", (1, capacity_bytes * factor), xytext=(0, -2),
                      va="top",
                      xycoords=("axes fraction", "data"), textcoords="offset points", ha="right", fontsize=SMALL)
    axes.xaxis.set_major_formatter(COMMAS)
    figure.align_ylabels()
    return figure


def live_bytes(blocks: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Moments at which the live bytes change, and their sum from there to the next one (0 after the last)."""
    changes = pd.concat([pd.Series(blocks["size"].to_numpy(float), index=blocks["lower"].to_numpy(float)),
                         pd.Series(-blocks["size"].to_numpy(float), index=blocks["upper"].to_numpy(float))])
    steps = changes.groupby(level=0).sum().cumsum()
    return steps.index.to_numpy(), steps.to_numpy()
