"""What `orrery.plot` calls: from results, studies, stores and paths to the frames that the figures are drawn of."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from . import (calls, decisions as decided, frames, jobs, kernels, network, outcomes, overtime, parameters, serving, shares, sources, stores, timeline, training,
               verdicts)
from .digest import with_idle_times
from .style import Picture, PlotError

MOST_LINES = 8  # of one panel


def latency(results: Sequence, metrics, labels) -> Picture:
    runs = sources.runs_of(results, labels, "latency")
    targets: dict[str, float] = {}
    for i, run in enumerate(runs.values()):  # of several, those that all state alike
        targets = run.targets if i == 0 else {m: v for m, v in targets.items() if run.targets.get(m) == v}
    tables = {label: run.table("distributions", "latency") for label, run in runs.items()}
    return serving.latency(tables, [metrics] if isinstance(metrics, str) else metrics, targets)


def slo(things: Sequence, x, labels, target) -> Picture:
    things = list(sources.flattened(things))
    if len(things) == 1 and isinstance(things[0], pd.DataFrame):
        return _slo_frame(things[0], x, target)
    if len(things) == 1 and sources.store_of(things[0]) is not None:
        return _slo_study(things[0], x, target)
    runs = sources.runs_of(things, labels, "SLO attainment")
    first = next(iter(runs.values()))
    if len(runs) == 1 and "by_rate" in first.summary:  # a run of `orrery slo`
        return _slo_frame(first.table("slo", "SLO attainment"), x, first.figure("target") if target is None else target)
    rows = pd.DataFrame({"rate_per_s": [run.rate_per_s for run in runs.values()],
                         "attainment": [run.figure("slo.attainment") for run in runs.values()]})
    return serving.slo(rows, "rate_per_s", None, target)


def _slo_frame(frame: pd.DataFrame, x: str | None, target: float | None) -> Picture:
    x = x or "rate_per_s"
    by = {"rate_per_s": "scale", "scale": "rate_per_s"}.get(x)
    by = by if by in frame.columns and frame[by].nunique() > 1 else "label" if "label" in frame.columns else None
    return serving.slo(frame, x, by, target)


def _study_columns(thing) -> tuple[pd.DataFrame, pd.DataFrame]:
    points = sources.points_of(thing)
    columns = stores.read(sources.store_of(thing))[1]
    return points, columns


def _measure(columns: pd.DataFrame, path: str, what: str) -> str:
    """The column of a measure, by its name or by the path of its figure."""
    own = columns[columns["kind"] == "measure"]
    for key in ("name", "detail"):
        if path in set(own[key]):
            return str(own[own[key] == path]["name"].iloc[0])
    known = ", ".join(f"{n} ({d})" for n, d in zip(own["name"], own["detail"]))
    raise PlotError(f"{what}: the study measures no {path}; it measures {known}")


def _lines(points: pd.DataFrame, columns: pd.DataFrame, x: str) -> tuple[pd.DataFrame, dict]:
    """The points with a column `label`: the parameters other than x that differ. Where that makes more lines than can
    be told apart, the first of these parameters makes panels (`panel`). And what the figure is to draw by."""
    own = [n for n, k in zip(columns["name"], columns["kind"])
           if k == "parameter" and n != x and points[n].nunique(dropna=False) > 1]
    table = points.assign(label=_labels(points, own))
    several = table["label"].nunique() > MOST_LINES and len(own) > 1
    if several:
        table = table.assign(label=_labels(points, own[1:]), panel=_labels(points, own[:1]))
    return table, {"by": "label" if table["label"].nunique() > 1 else None, "panel": "panel" if several else None}


def _labels(points: pd.DataFrame, own: list[str]) -> list[str]:
    def text(name: str, value: object) -> str:
        return f"{name} {value:g}" if isinstance(value, (int, float)) else str(value).removeprefix("catalog:")

    return [", ".join(text(n, row[n]) for n in own if row[n] is not None and row[n] == row[n])
            for row in points[own].to_dict("records")]


def _rate(columns: pd.DataFrame, points: pd.DataFrame, x: str | None, what: str) -> str:
    """The parameter that is the load: `x`, else the one whose name or path speaks of a rate."""
    own = [n for n, k in zip(columns["name"], columns["kind"]) if k == "parameter"]
    if x is not None and x not in points.columns:
        raise PlotError(f"{what}: no column '{x}'; there are {', '.join(own)}")
    found = [x] if x else [n for n in own if "rate" in n or "load" in n]
    if not found:
        raise PlotError(f"{what}: which parameter is the load? x names it: {', '.join(own)}")
    return found[0]


def _slo_study(study, x: str | None, target: float | None) -> Picture:
    points, columns = _study_columns(study)
    x = _rate(columns, points, x, "SLO attainment")
    measure = _measure(columns, "slo.attainment", "SLO attainment")
    table, drawn = _lines(points, columns, x)
    return serving.slo(table.rename(columns={measure: "attainment"}), x, target=target, **drawn)


def throughput_latency(things: Sequence, latency, throughput, labels) -> Picture:
    things = list(sources.flattened(things))
    y, x = latency or "ttft_s.p99", throughput or "throughput.output_tokens_per_s"
    if len(things) == 1 and isinstance(things[0], pd.DataFrame):
        frame = things[0]
        return serving.throughput_latency(frame, x, y, "label" if "label" in frame.columns else None)
    if len(things) == 1 and sources.store_of(things[0]) is not None:
        points, columns = _study_columns(things[0])
        rate = _rate(columns, points, None, "latency against throughput")
        table, drawn = _lines(points, columns, rate)
        names = {_measure(columns, path, "latency against throughput"): _path(columns, path) for path in (x, y)}
        table = table.rename(columns=names)
        return serving.throughput_latency(table, _path(columns, x), _path(columns, y), order=rate, **drawn)
    runs = sources.runs_of(things, labels, "latency against throughput")
    rows = pd.DataFrame({x: [run.figure(x) for run in runs.values()], y: [run.figure(y) for run in runs.values()]})
    for path in (x, y):
        if rows[path].isna().all():
            raise PlotError(f"latency against throughput: no summary has a figure {path}")
    targets = {run.targets.get(y.split(".")[0].removesuffix("_s")) for run in runs.values()}
    return serving.throughput_latency(rows, x, y, target=targets.pop() if len(targets) == 1 else None)


def _path(columns: pd.DataFrame, path: str) -> str:
    """The path of a measure, which carries the unit."""
    own = columns[columns["kind"] == "measure"]
    return str(own[own["name"] == path]["detail"].iloc[0]) if path in set(own["name"]) else path


def series(results: Sequence, fields, labels) -> Picture:
    runs = sources.runs_of(results, labels, "series")
    capacities = {run.figure("memory_bytes.kv_capacity") for run in runs.values()}
    capacity = capacities.pop() if len(capacities) == 1 else None
    tables = {label: run.table("series", "series") for label, run in runs.items()}
    return overtime.series(tables, [fields] if isinstance(fields, str) else fields, capacity)


def gantt(thing, tracks, start_s, end_s, by) -> Picture:
    if hasattr(thing, "summary"):
        sources.Run(thing).need_ok("Gantt")
    elif isinstance(thing, (str, os.PathLike)):
        from orrery.timeline import Timeline

        path = Path(thing)
        thing = Timeline(path / "timeline.pftrace" if path.is_dir() else path).slices
    frame = thing.timeline if hasattr(thing, "timeline") else thing.slices if hasattr(thing, "slices") else thing
    if not isinstance(frame, pd.DataFrame):
        raise PlotError(f"Gantt: expected a frame of slices, a result or a run's folder, got {type(thing).__name__}")
    if "instant" in frame.columns:
        frame = frame[~frame["instant"].astype(bool)]
    return timeline.gantt(frame, [tracks] if isinstance(tracks, str) else tracks, start_s, end_s, by)


def roofline(machine, work, dtype) -> Picture:
    if not isinstance(machine, Mapping):
        if not isinstance(work, pd.DataFrame):
            work = machine.kernels(work)  # a graph
        machine = {"name": machine.name, "peak_flops_per_s": machine.peak_flops,
                   "bandwidth_bytes_per_s": machine.memory_bandwidth_bytes_per_s}
    return kernels.roofline(machine, work, dtype)


def _stores(studies: Sequence, what: str) -> tuple[dict, list[str]]:
    files = []
    for study in sources.flattened(studies):
        file = sources.store_of(study)
        if file is None or not file.is_file():
            raise PlotError(f"{what}: expected a study or the store of one, got {study!r}")
        if hasattr(study, "points"):
            study.points  # brings what is known into the store
        files.append(file)
    if not files:
        raise PlotError(f"{what}: there is nothing to draw, no study was given")
    analysis = stores.load(files)
    return analysis, sources.unique([file.stem for file in files])


def _named(names: list[str], labels, what: str) -> list[str]:
    if labels is not None and len(labels) != len(names):
        raise PlotError(f"{what}: expected {len(names)} labels, got {len(labels)}")
    return list(labels) if labels is not None else names


def pareto(studies: Sequence, x, y, labels) -> Picture:
    analysis, names = _stores(studies, "Pareto front")
    objectives = analysis["objectives"]
    pair = None
    if x is not None or y is not None:
        known = [o["name"] for o in objectives]
        x, y = x or known[0], y or next((k for k in known if k != x), known[0])
        objectives, pair = _planes(analysis, list(sources.flattened(studies)), (x, y))
    elif len(objectives) < 2:
        raise PlotError(f"Pareto front: the study has one objective ({objectives[0]['name']}); "
                        "x and y name columns to draw, or plot.hypervolume shows its progress")
    return outcomes.front(analysis["stores"], _named(names, labels, "Pareto front"), objectives, pair)


def _planes(analysis: dict, studies: list, axes: tuple[str, str]) -> tuple[list[dict], tuple[int, int]]:
    """Puts columns of points in the place of the objectives; objectives keep their direction and label."""
    chosen = []
    for store, study in zip(analysis["stores"], studies):
        points, columns, _ = stores.read(sources.store_of(study))
        details = dict(zip(columns["name"], columns["detail"]))
        chosen = []
        for name in axes:
            goal = next((o for o in analysis["objectives"] if o["name"] == name), None)
            column = f"objective_{name}" if goal else name
            if column not in points.columns:
                raise PlotError(f"Pareto front: no column '{name}'; there are {', '.join(columns['name'])}")
            label = frames.label_of(details[name]) if details.get(name) and "." in str(details[name]) else name
            chosen.append((column, goal or {"name": name, "label": label, "maximise": None}))
        values = points[[column for column, _ in chosen]].astype(float).to_numpy()
        for k, trial in enumerate(store["trials"]):
            trial["objectives"] = list(values[k]) if trial["objectives"] else []
        for row in store["analysis"]["front"]:
            row["objectives"] = list(values[row["trial"] - 1])
    return [objective for _, objective in chosen], (0, 1)


def hypervolume(studies: Sequence, labels) -> Picture:
    analysis, names = _stores(studies, "hypervolume")
    return outcomes.history(analysis["stores"], _named(names, labels, "hypervolume"), analysis)


def parallel(study) -> Picture:
    analysis, _ = _stores([study], "parallel coordinates")
    figure = parameters.parallel(analysis["stores"][0], analysis["objectives"])
    if figure is None:
        raise PlotError("parallel coordinates: there is nothing to draw, no point meets the limits")
    return figure


def topology(result, layout) -> Picture:
    links = result if isinstance(result, pd.DataFrame) else sources.Run(result).table("links", "topology")
    return network.topology(links, layout)


def pipeline(result) -> Picture:
    run = sources.Run(result)
    return training.pipeline(run.table("passes", "pipeline"), run.table("stages", "pipeline"))


def goodput(results: Sequence, labels) -> Picture:
    runs = sources.runs_of(results, labels, "goodput")
    return jobs.goodput({label: (run.table("events", "goodput"), run.figure("job.step_s")) for label, run in runs.items()})


def decisions(results: Sequence, labels) -> Picture:
    runs = sources.runs_of(results, labels, "decisions")
    parts = {label: [str(replica.get("part", "")) for replica in run.summary.get("replicas", [])] for label, run in runs.items()}
    return decided.decisions({label: run.table("requests", "decisions") for label, run in runs.items()}, parts)


def rlhf(results: Sequence, labels, iterations) -> Picture:
    runs = sources.runs_of(results, labels, "calls of iterations")
    return calls.calls({label: run.table("calls", "calls of iterations") for label, run in runs.items()}, iterations)


def memory_map(plan, capacity_bytes) -> Picture:
    if isinstance(plan, (str, os.PathLike)):
        if not Path(plan).is_file():
            raise PlotError(f"{plan}: expected a plan that `orrery plan FILE --out PLAN` wrote, found none")
        plan = pd.read_csv(plan)
    elif hasattr(plan, "offsets"):  # of orrery.plan
        plan = plan.offsets
    elif not isinstance(plan, pd.DataFrame):
        plan = pd.DataFrame(plan["blocks"] if isinstance(plan, Mapping) and "blocks" in plan else plan)
    return timeline.memory_map(plan, capacity_bytes=capacity_bytes)


def breakdown(results: Sequence, what, labels) -> Picture:
    runs = sources.runs_of(results, labels, "breakdown")
    return shares.breakdown({label: with_idle_times(run.table("energy", "breakdown"), run.summary.get("simulated_s"))
                             for label, run in runs.items()}, what)


def claims(found) -> Picture:
    found = getattr(found, "document", getattr(found, "claims", found))  # of `orrery.reproduce`
    if isinstance(found, (str, os.PathLike)):
        found = json.loads(Path(found).read_text(encoding="utf-8"))
    if isinstance(found, Mapping):
        found = found.get("claims", [found])
    return verdicts.claims(found)
