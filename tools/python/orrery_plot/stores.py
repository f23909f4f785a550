"""Stores of studies (SQLite) as the dicts that `outcomes` and `parameters` draw: points, front, progress.

What a store holds is read here; what follows from it (volumes, the front, importance) is what `orrery analyse` says.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd

from .style import PlotError

TICKS = 5


def command() -> str:
    """The `orrery` command: $ORRERY_COMMAND, that of the build tree or installation around this file, or on PATH."""
    here = Path(__file__).absolute()
    beside = [folder / name for folder in here.parents[2:5] for name in ("orrery", "bin/orrery")]
    near = next((str(path) for path in beside if path.is_file() and os.access(path, os.X_OK)), None)
    found = os.environ.get("ORRERY_COMMAND") or near or shutil.which("orrery")
    if not found:
        raise PlotError("expected the command orrery to analyse a store, found none (ORRERY_COMMAND names it)")
    return found


def analyse(files: Sequence[str]) -> dict:
    """What `orrery analyse --json` says of the stores together; PlotError with its message where they do not fit."""
    try:
        from orrery import _orrery

        return _orrery.ask("analyse", json.dumps({"stores": list(files)}), None)
    except (ImportError, AttributeError):
        pass
    except Exception as error:  # a fault of the stores
        raise PlotError(str(error)) from None
    done = subprocess.run([command(), "analyse", *files, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PlotError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "orrery analyse failed")
    return json.loads(done.stdout)


def read(file: str | os.PathLike) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """(points, columns, document): a row a point, what the columns mean (name, kind, detail), the study."""
    path = Path(file)
    if not path.is_file():
        raise PlotError(f"{path}: expected the store of a study, found none")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
            points = pd.read_sql_query("select * from points order by id", store).drop(columns="checksum", errors="ignore")
            columns = pd.read_sql_query("select name, kind, detail from columns order by place", store)
            facts = dict(store.execute("select name, value from facts").fetchall())
    except (sqlite3.Error, pd.errors.DatabaseError) as error:
        raise PlotError(f"{path}: expected the store of a study: {str(error).splitlines()[-1]}") from None
    return points, columns, json.loads(facts["document"])


def load(files: Sequence[str | os.PathLike]) -> dict:
    """The analysis of stores with their trials and parameters: what `orrery analyse --png` hands to its figures."""
    paths = [os.fspath(file) for file in files]
    analysis = analyse(paths)
    for store, path in zip(analysis["stores"], paths):
        points, columns, document = read(path)
        parameters = [row for row in columns.itertuples(index=False) if row.kind == "parameter"]
        goals = [f"objective_{objective['name']}" for objective in analysis["objectives"]]
        stated = {entry.get("name") or _last(entry.get("path")): entry for entry in document.get("parameters", [])}
        axes = [_Axis(row.name, row.detail or "", stated.get(row.name, {}), points[row.name]) for row in parameters]
        store["parameters"] = [{"name": axis.name, "unit": axis.unit, "ticks": axis.ticks} for axis in axes]
        store["trials"] = [_trial(row, goals, axes) for row in points.to_dict("records")]
    return analysis


def _last(path: object) -> str:
    path = path[0] if isinstance(path, list) and path else path
    return str(path).rsplit(".", 1)[-1]


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _trial(row: dict, goals: list[str], axes: list[_Axis]) -> dict:
    ok = row["status"] == "ok" and not any(_missing(row.get(goal)) for goal in goals)
    return {"search": row["repeat"], "status": row["status"], "fidelity": row["fidelity"],
            "feasible": bool(ok and not (row["violation"] or 0) > 0),
            "objectives": [row[goal] for goal in goals] if ok else [],
            "units": [axis.place(row[axis.name]) for axis in axes]}


class _Axis:
    """Where the values of a parameter stand between 0 and 1, by the study: choices evenly, ranges by their scale."""

    def __init__(self, name: str, unit: str, stated: dict, values: pd.Series):
        self.name, self.unit = name, unit
        known = [v for v in dict.fromkeys(values) if not _missing(v)]
        self.numeric = bool(known) and all(isinstance(v, (int, float)) for v in known)
        self.choices = None if "range" in stated and self.numeric else (sorted(known) if self.numeric else known)
        if self.choices is not None:
            self.ticks = [[self.place(v), f"{v:.4g}" if self.numeric else str(v).removeprefix("catalog:")]
                          for v in self.choices]
            return
        ends = [v for v in stated["range"] if isinstance(v, (int, float))]
        known += ends if len(ends) == 2 else []
        self.low, self.high = min(known), max(known)
        self.log = stated.get("scale") == "log" and self.low > 0
        shares = [i / (TICKS - 1) for i in range(TICKS)]
        marks = [self.low * (self.high / self.low) ** s
                 if self.log else self.low + s * (self.high - self.low) for s in shares]
        self.ticks = [[share, f"{mark:.4g}"] for share, mark in zip(shares, marks)]

    def place(self, value: object) -> float | None:
        """Of a value; None where the parameter does not count."""
        if _missing(value):
            return None
        if self.choices is not None:
            return (self.choices.index(value) + 0.5) / len(self.choices)
        if self.high == self.low:
            return 0.5
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)
