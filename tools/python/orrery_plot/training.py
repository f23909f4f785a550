"""A training step: the passes of a pipeline's stages, and what fills their memory."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd

from . import frames, palette
from .style import WIDTH, Picture, PlotError, grid_of, styled

KINDS = {"forward": ("forward", palette.BLUE), "backward": ("backward", palette.ORANGE),
         "backward_input": ("backward, inputs", palette.ORANGE), "backward_weight": ("backward, weights", palette.GREEN)}
MEMORY = {"weight_bytes": ("weights", palette.BLUE), "gradient_bytes": ("gradients", palette.PURPLE),
          "optimizer_bytes": ("optimizer states", palette.GREEN), "activation_bytes": ("activations", palette.ORANGE),
          "working_bytes": ("working memory of a pass", palette.SKY),
          "buffer_bytes": ("buckets and context", palette.IDLE)}
MOST_PASSES = 100_000


def after_passes(stages: pd.DataFrame) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """What follows a stage's passes: (name, colour, begins, ends). Every step of the optimizer waits for the last sum."""
    passes, gradients, end = (stages[name].to_numpy(float) for name in ("passes_end_s", "gradients_end_s", "end_s"))
    return [("gradient reduction", palette.PURPLE, passes, gradients),
            ("optimizer", palette.VERMILION, np.full(len(stages), gradients.max()), end)]


def byte_scale(most: float) -> tuple[float, str]:
    """A factor and a unit that suit the largest of some bytes."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if most >= 1 << (10 * power):
            return 1 / (1 << (10 * power)), unit
    return 1.0, "B"


def thinned(kept: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most about `most` of a stage's steps; of those that are left out together the highest stays."""
    if len(kept) <= most:
        return kept
    groups = np.arange(len(kept)) * most // len(kept)
    return kept.loc[kept.reset_index().groupby(groups)["kept_bytes"].idxmax().map(lambda i: kept.index[i])]


def shade(i: int, count: int) -> str:
    """The colour of the i-th of so many stages: from light to dark, as they follow one another."""
    shades = matplotlib.colormaps["viridis"](0.05 + 0.85 * (i / max(1, count - 1)))
    return matplotlib.colors.to_hex(shades)


@styled
def pipeline(passes: pd.DataFrame, stages: pd.DataFrame) -> Picture:
    """`passes`: stage, kind, start_s, end_s as in passes.csv of a training run; `stages`: stages.csv of it."""
    frames.need(passes, ("stage", "kind", "start_s", "end_s"), "pipeline")
    frames.need(stages, ("stage", *MEMORY, "passes_end_s", "gradients_end_s", "end_s"), "pipeline")
    if len(passes) > MOST_PASSES:
        raise PlotError(f"pipeline: {len(passes):,} passes cannot be told apart in a picture; {MOST_PASSES:,} at most")
    rows = len(stages)
    figure, grid = grid_of(2, 1, (WIDTH, 2.2 + 0.3 * rows))
    chart, memory = grid.flat
    for kind, (label, colour) in KINDS.items():
        own = passes[passes["kind"] == kind]
        if len(own):
            chart.barh(own["stage"], own["end_s"] - own["start_s"], left=own["start_s"], height=0.8, color=colour, label=label,
                       edgecolor="white", linewidth=0.15)
    for name, colour, begin, end in after_passes(stages):
        if (end > begin).any():
            chart.barh(stages["stage"], end - begin, left=begin, height=0.8, color=colour, label=name)
    chart.set_xlabel("simulated time (s)")
    chart.set_xlim(0, float(stages["end_s"].max()))
    scale, unit = byte_scale(float(sum(stages[column] for column in MEMORY).max()))
    left = np.zeros(rows)
    for column, (label, colour) in MEMORY.items():
        values = stages[column].to_numpy(float) * scale
        if values.any():
            memory.barh(stages["stage"], values, left=left, height=0.8, color=colour, label=label)
            left += values
    memory.set_xlabel(f"memory per rank ({unit})")
    for axes in (chart, memory):
        axes.set_ylabel("stage")
        axes.set_yticks(stages["stage"])
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, frameon=False)
    return figure
