"""The figures for print: what `orrery_plot` draws of a run, of several beside each other, and of studies, as PNG files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from orrery_plot import facade, network, overtime, serving, shares, studies
from orrery_plot.style import Picture, PlotError, save

from . import kernels, overview, training
from .run_page import kv_capacity
from .run_folder import Run


def write(run: Run, folder: Path) -> list[Path]:
    """Writes the figures whose data the run has; their paths. An infeasible run has none."""
    makers: list[tuple[str, bool, Callable[[Run], Picture]]] = [
        ("latency_cdf.png", bool(run.cdfs), _latency),
        ("over_time.png", bool(run.series and run.series.lines),
         lambda run: overtime.series_of_digest(run.series, kv_capacity(run))),
        ("energy_time.png", bool(run.energy is not None and len(run.energy.by_class)),
         lambda run: shares.bars(run.energy.by_class, ["energy"] if run.energy.overlapping else ["time", "energy"])),
        ("requests.png", bool(run.requests and run.requests.total), lambda run: overtime.requests(run.requests)),
        ("roofline.png", (marks := kernels.of_run(run)) is not None and len(kernels.under_a_roof(marks)) > 0, lambda _: _roofline(marks)),
        ("pipeline.png", training.is_training(run) and (run.folder / "passes.csv").is_file(),
         lambda run: facade.pipeline(run.folder)),
        ("goodput.png", (run.folder / "events.csv").is_file() and "job" in run.summary,
         lambda run: facade.goodput([run.folder], None)),
        ("calls.png", (run.folder / "calls.csv").is_file(), lambda run: facade.rlhf([run.folder], None, 2)),
        ("topology.png", _has_links(run), lambda run: facade.topology(run.folder, None)),
    ]
    return [save(make(run), folder / name) for name, possible, make in makers if possible]


def _has_links(run: Run) -> bool:
    """Whether a network run knows of its links: a closed form does not, and too many cannot be told apart."""
    file = run.folder / "links.csv"
    if not file.is_file():
        return False
    with file.open(encoding="utf-8") as lines:
        return 1 < sum(1 for _ in lines) <= network.MOST_LINKS


def _roofline(marks: pd.DataFrame) -> Picture:
    drawn = kernels.under_a_roof(marks)
    first = drawn["device"].iloc[0]  # where most of their time goes
    own = drawn[drawn["device"] == first]
    peaks = sorted(own["peak_flops"].unique(), reverse=True)
    machine = {"name": first, "bandwidth_bytes_per_s": float(own["bandwidth"].max()),
               "peak_flops_per_s": {"peak" if i == 0 else "other units" + (f" {i}" if i > 1 else ""): float(peak) for i, peak in enumerate(peaks)}}
    whole = own.rename(columns={"bound": "bound_by"}).assign(
        name=own["class"], flops=own["flops"] * own["count"], bytes=own["bytes"] * own["count"])
    return facade.roofline(machine, whole, None)


def _latency(run: Run) -> Picture:
    tables = [pd.DataFrame({"metric": metric, "quantile": cdf.quantile, "value_s": cdf.value_s})
              for metric, cdf in run.cdfs.items()]
    return serving.latency({run.name: pd.concat(tables)}, targets=overview.slo_targets(run.config))


def write_several(folders: list[Path], folder: Path) -> list[Path]:
    """Writes the figures of runs beside each other: a line or a bar each. What one of them lacks is not drawn."""
    makers = {"latency_cdf.png": lambda: facade.latency(folders, None, None),
              "over_time.png": lambda: facade.series(folders, None, None),
              "energy_time.png": lambda: facade.breakdown(folders, "both", None)}
    written = []
    for name, make in makers.items():
        try:
            written.append(save(make(), folder / name))
        except PlotError:
            continue
    return written


def write_studies(analysis: dict, folder: Path) -> list[Path]:
    """Writes the figures of studies, from what `orrery analyse --json --points` says of their stores."""
    return studies.write(analysis, folder)
