"""What plots are made of, whatever it is handed over as: results, folders of runs, studies, stores, frames.

Everything is told by what it has (a `summary`, a `table(name)`, a `store`): nothing here needs the compiled core.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from . import formats, units
from .style import PlotError

MOST_IN_LABEL = 3


class Run:
    """A run: `summary`, `config`, `table(name)`, and what it is called."""

    def __init__(self, thing):
        self.thing, self.folder = thing, None
        if hasattr(thing, "summary"):
            self.summary, self.config, self.folder = thing.summary, thing.config, thing.folder
            return
        if not isinstance(thing, (str, os.PathLike)):
            raise PlotError(f"expected a result or the folder of a run, got {type(thing).__name__}")
        self.folder = Path(thing)
        if not (self.folder / "summary.json").is_file():
            raise PlotError(f"{self.folder}: expected the folder of a run, found no summary.json in it")
        self.summary = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        manifest = self.folder / "manifest.json"
        facts = json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else {}
        if other := formats.unreadable(facts):
            raise PlotError(f"{manifest}: expected a run of format '{formats.RUN_FORMAT}', got {other}")
        self.config = facts.get("config", {})

    @property
    def name(self) -> str:
        return Path(self.folder).name if self.folder else "run"

    def need_ok(self, what: str) -> Run:
        """Itself; PlotError for a design that does not fit, with the reason."""
        if self.summary.get("status", "ok") == "infeasible":
            raise PlotError(f"{what}: the design is infeasible, there is nothing to draw: {self.summary.get('reason')}")
        return self

    def table(self, name: str, what: str) -> pd.DataFrame:
        """A table of it; PlotError where the run wrote none."""
        self.need_ok(what)
        if hasattr(self.thing, "table"):
            if name not in self.thing.tables:
                known = ", ".join(self.thing.tables) or "none"
                raise PlotError(f"{what}: the run has no table '{name}'; it has {known}")
            return self.thing.table(name)
        file = self.folder / f"{name}.csv"
        if not file.is_file():
            raise PlotError(f"{what}: {self.folder} has no {file.name}")
        return pd.read_csv(file)

    def figure(self, path: str) -> float | None:
        """A figure of the summary by its dotted path; None where there is none."""
        node = self.summary
        for key in path.split("."):
            node = node.get(key) if isinstance(node, Mapping) else None
        return float(node) if units.is_number(node) else None

    @property
    def targets(self) -> dict[str, float]:
        """The SLO's targets in seconds by metric."""
        stated = self.config.get("slo")
        found = {m: units.seconds(v) for m, v in (stated.items() if isinstance(stated, Mapping) else ())}
        return {metric: value for metric, value in found.items() if value}

    @property
    def rate_per_s(self) -> float | None:
        """Requests/s that arrive: by the table of requests, else by the summary."""
        arrived = self.figure("requests.arrived")
        try:
            at = self.table("requests", "rate")["arrived_s"]
        except PlotError:
            span = self.figure("simulated_s")
            return arrived / span if arrived and span else None
        return (len(at) - 1) / float(at.max() - at.min()) if len(at) > 1 and at.max() > at.min() else None


def runs_of(things: Sequence, labels: Sequence[str] | None, what: str) -> dict[str, Run]:
    """Runs by label; a list among the things is taken apart. Labels, unless given, say in what the configs differ."""
    flat = list(flattened(things))
    if not flat:
        raise PlotError(f"{what}: there is nothing to draw, no result was given")
    runs = [Run(thing).need_ok(what) for thing in flat]
    names = list(labels) if labels is not None else labels_of(runs)
    if len(names) != len(runs):
        raise PlotError(f"{what}: expected {len(runs)} labels, got {len(names)}")
    return dict(zip(unique(names), runs))


def flattened(things: Sequence):
    for thing in things:
        if isinstance(thing, (list, tuple)):
            yield from flattened(thing)
        else:
            yield thing


def unique(names: Sequence[str]) -> list[str]:
    """The names, with a number where one comes again."""
    out: list[str] = []
    for name in map(str, names):
        count, fresh = 1, name
        while fresh in out:
            count += 1
            fresh = f"{name} ({count})"
        out.append(fresh)
    return out


def labels_of(runs: Sequence[Run]) -> list[str]:
    """What tells runs apart: the values of their configs that differ, if these are few; else their folders' names."""
    if len(runs) == 1:
        return [runs[0].name]
    flat = [dict(_leaves(run.config)) for run in runs]
    keys = list(dict.fromkeys(key for one in flat for key in one))
    absent = object()
    differ = [k for k in keys if k != "title" and len({repr(one.get(k, absent)) for one in flat}) > 1]
    if not 0 < len(differ) <= MOST_IN_LABEL:
        return [run.name if run.folder and not Path(run.folder).name.startswith("orrery-") else f"run {i + 1}"
                for i, run in enumerate(runs)]
    return [", ".join(f"{_short_key(k)} {_value(one[k])}" for k in differ if k in one) or "default" for one in flat]


def _value(value: object) -> str:
    return f"{value:g}" if units.is_number(value) else str(value).removeprefix("catalog:")


def _short_key(path: str) -> str:
    pieces = [p for p in path.split(".") if not p.isdigit()]
    return (pieces[-2] if pieces[-1] == "policy" and len(pieces) > 1 else pieces[-1]).replace("_", " ")


def _leaves(node: object, path: str = ""):
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _leaves(value, f"{path}.{i}")
    else:
        yield path, node


def store_of(thing) -> Path | None:
    """The store of a study or the path of one; None for anything else."""
    if hasattr(thing, "store"):
        if thing.store is None:
            raise PlotError("the study has no points yet; run it first")
        return Path(thing.store)
    if isinstance(thing, (str, os.PathLike)) and Path(thing).is_file():
        with open(thing, "rb") as file:
            return Path(thing) if file.read(15) == b"SQLite format 3" else None
    return None


def points_of(thing) -> pd.DataFrame:
    """The points of a study or of its store as a frame; only those that came to a result, in full runs."""
    from . import stores

    if hasattr(thing, "store") and hasattr(thing, "points"):
        points = thing.points
    else:
        points = stores.read(store_of(thing) or thing)[0]
    kept = points[(points["status"] == "ok") & (points["fidelity"] == 1)] if "status" in points else points
    if not len(kept):
        raise PlotError("the study has no point with a result")
    return kept
