"""Reads the store of a study (docs/explain/studies.md) and asks `orrery analyse` what its points tell.

A store may be growing while it is read. Faults are InputError, one line.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from orrery_plot import stores, units
from orrery_plot.style import PlotError

from . import interrupt
from .errors import InputError, ToolFault

NEEDED = ("study", "mode", "document")


@dataclass(frozen=True)
class Column:
    """A column of points: kind is parameter, derived, measure, objective or limit; detail as docs/explain/studies.md says."""

    name: str
    kind: str
    detail: str

    @property
    def heading(self) -> str:
        """What people call it: an objective and a limit by their own names."""
        return self.name.partition("_")[2] if self.kind in ("objective", "limit") else self.name


@dataclass(frozen=True)
class Study:
    """A store as the report shows it."""

    file: Path
    facts: dict[str, str]
    document: dict
    columns: tuple[Column, ...]
    points: pd.DataFrame  # a row a point, columns as in the store
    inputs: tuple[tuple[str, str], ...]
    runs: int
    analysis: dict | None  # a store of `orrery analyse --json --points`; None for a study without objectives
    objectives: tuple[dict, ...] = ()  # name, label, maximise, unit
    joint: dict | None = None  # reference, joint_volume, joint_front: of all stores that were loaded together

    @property
    def name(self) -> str:
        return self.facts["study"]

    @property
    def title(self) -> str:
        return str(self.document.get("title") or self.name)

    @property
    def complete(self) -> bool:
        return "complete" in self.facts

    @property
    def driver(self) -> str:
        if self.facts["mode"] == "sweep":
            return "sweep"
        search = self.document.get("search")
        driver = search.get("driver") if isinstance(search, dict) else None
        return str(driver.get("policy", "random")) if isinstance(driver, dict) else "random"

    @property
    def units(self) -> dict[str, str]:
        """Of each column."""
        return units.of_columns(((c.name, c.kind, c.detail) for c in self.columns), self.document)

    def of_kind(self, *kinds: str) -> list[Column]:
        return [column for column in self.columns if column.kind in kinds]


def load(file: Path, command: str | None = None) -> Study:
    """The study in `file`, analysed."""
    return load_several([file], command)[0]


def load_several(files: list[Path], command: str | None = None) -> list[Study]:
    """Several studies with the same objectives, analysed together."""
    studies = [_read(file) for file in files]
    if len(studies) == 1 and not studies[0].of_kind("objective"):
        return studies
    found = _analyse(files, command)
    joint = {key: found.get(key) for key in ("reference", "joint_volume", "joint_front")}
    unit = studies[0].units
    objectives = tuple({**o, "unit": unit[f"objective_{o['name']}"]} for o in found["objectives"])
    return [Study(s.file, s.facts, s.document, s.columns, s.points.iloc[:len(store["trials"])], s.inputs, s.runs, store,
                  objectives, joint) for s, store in zip(studies, found["stores"])]


def _read(file: Path) -> Study:
    try:
        with sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True) as store:
            facts = dict(store.execute("SELECT name, value FROM facts"))
            columns = tuple(Column(*row) for row in store.execute("SELECT name, kind, detail FROM columns ORDER BY place"))
            names = ", ".join('"' + c.name.replace('"', '""') + '"' for c in columns)
            query = f"SELECT id, repeat, fidelity, status, reason, violation, {names} FROM points ORDER BY id"
            points = pd.read_sql_query(query, store)
            inputs = tuple(store.execute("SELECT path, digest FROM inputs ORDER BY path"))
            runs = store.execute("SELECT count(*) FROM runs").fetchone()[0]
        store.close()
        if any(name not in facts for name in NEEDED):
            raise ValueError("facts")
        document = json.loads(facts["document"])
    except (sqlite3.Error, pd.errors.DatabaseError, ValueError, TypeError):
        raise InputError(file, "a run folder or a study's store", "a file that is neither") from None
    except OSError as error:
        raise InputError(file, "a readable file", str(error.strerror)) from None
    if points.empty:
        raise InputError(file, "a store with points", "none yet")
    return Study(file, facts, document, columns, points, inputs, runs, None)


def _analyse(files: list[Path], command: str | None) -> dict:
    try:
        program = command or stores.command()
    except PlotError as error:
        raise ToolFault(f"{files[0]}: {error}") from None
    try:
        with interrupt.raised():  # the program must end too
            done = subprocess.run([program, "analyse", "--json", "--points", *map(str, files)], capture_output=True, text=True,
                                  check=False)
    except OSError as error:
        raise InputError(program, "a program that can be run", str(error.strerror)) from None
    if done.returncode:
        raise ToolFault(done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"{program} analyse failed")
    return json.loads(done.stdout)
