"""The report of a training run: the pipeline's passes as a Gantt chart, activations over time, memory by stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from orrery_plot import palette, training, units

from .errors import InputError
from .figures import Figure, _axis, _layout, numbers
from .markup import Sheet, escape, note
from .run_folder import Run

PASSES = ("stage", "chunk", "micro_batch", "kind", "start_s", "end_s")
STAGES = ("stage", *training.MEMORY, "passes_end_s", "gradients_end_s", "end_s")
KEPT = ("stage", "time_s", "kept_bytes")
MOST_PASSES = 6_000  # that are drawn: beyond, a page is slow
MOST_STEPS = 3_000  # of a stage's activations
STEP_PARTS = (("compute", "kernels, or the host if they wait for it", palette.BLUE),
              ("recompute", "recomputed forward passes", palette.SKY),
              ("collectives", "collectives within a layer", palette.ORANGE),
              ("bubble", "bubble: waiting for other stages", palette.IDLE),
              ("gradients", "exposed gradient reduction", palette.PURPLE),
              ("optimizer", "optimizer", palette.VERMILION))


def is_training(run: Run) -> bool:
    return run.config.get("system") == "training"


def step_parts(summary: dict) -> list[tuple[str, float, str]]:
    """The parts of a step, which add up to it."""
    parts = summary.get("breakdown_s")
    parts = parts if isinstance(parts, dict) else {}
    return [(name, float(parts[key]), colour) for key, name, colour in STEP_PARTS if units.is_number(parts.get(key))]


def panel(run: Run, sheet: Sheet) -> str:
    """The tab Pipeline, as HTML."""
    passes, stages, kept = (_read(run.folder / name, columns) for name, columns in
                            (("passes.csv", PASSES), ("stages.csv", STAGES), ("activations.csv", KEPT)))
    if passes is None or stages is None or not len(passes):
        return note("No pipeline passes: passes.csv or stages.csv is absent or empty.")
    drawn, caption = _drawn(passes)
    out = sheet.figure("pipeline", "Passes of the pipeline's stages", escape(caption), _gantt(drawn, stages))
    if kept is not None and len(kept):
        out += sheet.figure("activations", "Activations kept between passes",
                            "For one rank of each stage. Drag to zoom in on a time range, double-click to zoom out.", _kept(kept))
    capacity = (run.summary.get("memory_bytes") or {}).get("available")
    return out + sheet.figure("memory", "Memory by stage", "For one rank, each part at its peak. Dashed line = memory of a device.",
                              _memory(stages, capacity if units.is_number(capacity) else None))


def _read(file: Path, columns: tuple[str, ...]) -> pd.DataFrame | None:
    if not file.exists():
        return None
    try:
        return pd.read_csv(file, usecols=list(columns))
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(file, f"columns {','.join(columns)}", str(error)) from None


def _drawn(passes: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The passes that a page can draw, and what the caption says of them."""
    hint = "Hover to see the number of a micro-batch. Drag to zoom in on a time range, double-click to zoom out."
    if len(passes) <= MOST_PASSES:
        return passes, hint
    ordered = passes.sort_values("start_s", kind="stable")
    half = MOST_PASSES // 2
    ends = pd.concat([ordered.iloc[:half], ordered.iloc[-half:]])
    return ends, f"The first and the last {units.count(half)} of {units.count(len(passes))} passes. {hint}"


def _stage_axis(stages: pd.DataFrame) -> dict:
    labels = [str(s) for s in stages["stage"]]
    return _axis("stage", type="category", categoryorder="array", categoryarray=labels, autorange="reversed", showgrid=False)


def _bars(name: str, colour: str, begin: np.ndarray, end: np.ndarray, stage: list[str], text: list[str]) -> dict:
    return {"type": "bar", "orientation": "h", "name": name, "y": stage, "base": numbers(begin, 9),
            "x": numbers(end - begin, 9), "text": text, "textposition": "none", "width": 0.82,
            "marker": {"color": colour, "line": {"color": "#ffffff", "width": 0.4}},
            "hovertemplate": f"<b>{name}</b> %{{text}}<br>from %{{base:.6~g}} s, %{{x:.4~g}} s long<extra>stage %{{y}}</extra>"}


def _gantt(passes: pd.DataFrame, stages: pd.DataFrame) -> Figure:
    data: list[dict] = []
    several = passes["chunk"].max() > 0
    for kind, (label, colour) in training.KINDS.items():
        own = passes[passes["kind"] == kind]
        if not len(own):
            continue
        text = [f"micro-batch {m}" + (f", chunk {c}" if several else "") for m, c in zip(own["micro_batch"], own["chunk"])]
        data.append(_bars(label, colour, own["start_s"].to_numpy(float), own["end_s"].to_numpy(float),
                          [str(s) for s in own["stage"]], text))
    labels = [str(s) for s in stages["stage"]]
    for name, colour, begin, end in training.after_passes(stages):
        if (end > begin).any():
            data.append(_bars(name, colour, begin, end, labels, [""] * len(labels)))
    layout = _layout(max(300, 150 + 30 * len(labels)), barmode="overlay", bargap=0,
                            xaxis=_axis("simulated time (s)", tickformat=",~g", range=[0, float(stages["end_s"].max())]),
                            yaxis=_stage_axis(stages))
    return {"data": data, "layout": layout}


def _kept(kept: pd.DataFrame) -> dict:
    scale, unit = training.byte_scale(float(kept["kept_bytes"].max()))
    data = []
    for i, (stage, own) in enumerate(kept.groupby("stage", sort=True)):
        own = training.thinned(own, MOST_STEPS)
        data.append({"type": "scatter", "mode": "lines", "name": f"stage {stage}",
                     "x": numbers(own["time_s"], 9), "y": numbers(own["kept_bytes"] * scale),
                     "line": {"shape": "hv", "width": 1.4, "color": training.shade(i, kept["stage"].nunique())},
                     "hovertemplate": f"%{{y:,.4~g}} {unit} at %{{x:,.6~g}} s<extra>stage {stage}</extra>"})
    layout = _layout(430, xaxis=_axis("simulated time (s)", tickformat=",~g"),
                            yaxis=_axis(f"activations ({unit})", rangemode="tozero", tickformat=",~g"))
    return {"data": data, "layout": layout}


def _memory(stages: pd.DataFrame, capacity: float | None) -> dict:
    most = max(float(sum(stages[column] for column in training.MEMORY).max()), capacity or 0)
    scale, unit = training.byte_scale(most)
    labels = [str(s) for s in stages["stage"]]
    data = [{"type": "bar", "orientation": "h", "name": name, "y": labels, "x": numbers(stages[column] * scale),
             "marker": {"color": colour}, "hovertemplate": f"{name} %{{x:,.4~g}} {unit}<extra>stage %{{y}}</extra>"}
            for column, (name, colour) in training.MEMORY.items() if (stages[column] > 0).any()]
    layout = _layout(max(280, 150 + 26 * len(labels)), barmode="stack",
                            xaxis=_axis(f"memory per rank ({unit})", rangemode="tozero", tickformat=",~g"),
                            yaxis=_stage_axis(stages))
    if capacity:
        layout["shapes"] = [{"type": "line", "xref": "x", "yref": "paper", "x0": capacity * scale, "x1": capacity * scale,
                             "y0": 0, "y1": 1, "line": {"color": palette.INK, "width": 1.4, "dash": "dash"}}]
    return {"data": data, "layout": layout}
