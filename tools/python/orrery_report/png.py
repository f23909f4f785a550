"""The figures for print: what `orrery_plot` draws of a run, as PNG files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from orrery_plot import overtime, serving, shares
from orrery_plot.style import Picture, save

from . import overview
from .run_page import kv_capacity
from .run_folder import Run


def write(run: Run, folder: Path) -> list[Path]:
    """Writes the figures whose data the run has; their paths. An infeasible run has none."""
    makers: list[tuple[str, bool, Callable[[Run], Picture]]] = [
        ("latency_cdf.png", bool(run.cdfs), _latency),
        ("over_time.png", bool(run.series and run.series.lines),
         lambda run: overtime.series_of_digest(run.series, kv_capacity(run))),
        ("energy_time.png", bool(run.energy is not None and len(run.energy.by_class)),
         lambda run: shares.bars(run.energy.by_class, ["time", "energy"])),
        ("requests.png", bool(run.requests and run.requests.total), lambda run: overtime.requests(run.requests)),
    ]
    return [save(make(run), folder / name) for name, possible, make in makers if possible]


def _latency(run: Run) -> Picture:
    tables = [pd.DataFrame({"metric": metric, "quantile": cdf.quantile, "value_s": cdf.value_s})
              for metric, cdf in run.cdfs.items()]
    return serving.latency({run.name: pd.concat(tables)}, targets=overview.slo_targets(run.config))
