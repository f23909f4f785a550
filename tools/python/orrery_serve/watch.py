"""How far studies are: counts, rate, the best so far and the front, kept up as their stores grow.

Points are added in the order of their numbers, so that a look reads only those that came since the last one.
"""

from __future__ import annotations

import bisect
import sqlite3
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from pathlib import Path

from orrery_plot import units

from . import stores
from .stores import BrokenStore, number, quoted, shown

SPAN_S = 30.0  # over which a rate is told
ROWS = 50_000  # read at a time
SHOWN = 8  # points in the table
DRAWN = 400  # of the front, or of the steps of the best
KEPT_OF_MANY = 300  # of a front of more than two objectives
STUDIES = 500  # that are remembered


class Front:
    """Values to be minimised, with their points: those that no other is as good as in all and better in one.

    Two objectives: sorted by the first, so that the second falls. More: the first few hundred alone. One: the best.
    """

    def __init__(self, objectives: int) -> None:
        self.objectives = objectives
        self.members: list[tuple[tuple[float, ...], int]] = []
        self.cut = False  # whether there were more than are kept

    def add(self, values: tuple[float, ...], point: int) -> bool:
        """Whether it is a new member. Of equals the first stays, as in `orrery analyse`."""
        if self.objectives == 2:
            at = bisect.bisect_left(self.members, (values,))
            if at < len(self.members) and self.members[at][0] == values:
                return False
            if at and self.members[at - 1][0][1] <= values[1]:
                return False
            end = at
            while end < len(self.members) and self.members[end][0][1] >= values[1]:
                end += 1
            self.members[at:end] = [(values, point)]
            return True
        if any(all(o <= v for o, v in zip(other, values)) for other, _ in self.members):
            return False
        self.members = [m for m in self.members if not all(v <= o for v, o in zip(values, m[0]))]
        bisect.insort(self.members, (values, point))
        self.cut = self.cut or len(self.members) > KEPT_OF_MANY
        del self.members[KEPT_OF_MANY:]
        return True

    def some(self, most: int) -> list[tuple[tuple[float, ...], int]]:
        """At most so many, evenly from the first to the last."""
        count = len(self.members)
        if count <= most:
            return list(self.members)
        return [self.members[round(i * (count - 1) / (most - 1))] for i in range(most)]


@dataclass
class Known:
    """What was read of one store."""

    mark: object  # of the file itself: another file of this name is another study
    facts: dict[str, str]
    columns: list[tuple[str, str, str]]
    front: Front
    last: int = 0
    last_key: object = None
    counts: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[int, float]] = field(default_factory=list)  # of the best of the first objective
    reason: str | None = None
    runs: int = 0
    seen: deque = field(default_factory=lambda: deque(maxlen=300))  # (time, points)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def objectives(self) -> list[tuple[str, str]]:
        return [(name, detail) for name, kind, detail in self.columns if kind == "objective"]

    @property
    def units(self) -> dict[str, str]:
        """Of each column."""
        return units.of_columns(self.columns, stores.document(self.facts))

    @property
    def points(self) -> int:
        return sum(self.counts.values())

    def read(self, connection: sqlite3.Connection) -> None:
        """Takes the points that are new."""
        objectives = self.objectives
        signs = [-1 if way == "maximise" else 1 for _, way in objectives]
        names = ["id", "key", "status", "fidelity", "violation", "reason", *(name for name, _ in objectives)]
        query = f"select {', '.join(map(quoted, names))} from points where id > ? order by id limit {ROWS}"
        while True:
            rows = connection.execute(query, (self.last,)).fetchall()
            for point, key, status, fidelity, violation, reason, *values in rows:
                self.counts[str(status)] = self.counts.get(str(status), 0) + 1
                if status != "ok":
                    self.reason = self.reason or (str(reason)[:300] if reason else None)
                elif objectives and fidelity == 1 and not (number(violation) or 0) > 0 and all(
                        number(v) is not None for v in values):
                    self._take(int(point), values, signs)
                self.last, self.last_key = int(point), key
            if len(rows) < ROWS:
                break
        self.runs = int(connection.execute("select ifnull(max(id), 0) from runs").fetchone()[0])

    def _take(self, point: int, values: list[float], signs: list[int]) -> None:
        scored = tuple(sign * value for sign, value in zip(signs, values))
        self.front.add(scored, point)
        if not self.steps or scored[0] < signs[0] * self.steps[-1][1]:
            self.steps.append((point, values[0]))

    def rate(self) -> float | None:
        """Points a second over the last half minute; None before that can be told."""
        now = time.monotonic()
        self.seen.append((now, self.points))
        while len(self.seen) > 2 and now - self.seen[0][0] > SPAN_S:
            self.seen.popleft()
        span = now - self.seen[0][0]
        return (self.points - self.seen[0][1]) / span if span > 0.5 else None


class Watch:
    """The studies of a folder, by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.Lock()
        self.known: OrderedDict[str, Known] = OrderedDict()

    def look(self, name: str, connection: sqlite3.Connection) -> Known:
        """What there is of a study now. BrokenStore, sqlite3.Error if it cannot be read."""
        state = (self.root / name).stat()
        mark = (state.st_dev, state.st_ino)
        with self.lock:
            known = self.known.get(name)
            if known is not None:
                self.known.move_to_end(name)
        if known is None or known.mark != mark or not self._continues(known, connection):
            columns = stores.columns(connection)
            known = Known(mark, stores.facts(connection), columns, Front(sum(k == "objective" for _, k, _ in columns)))
            with self.lock:
                self.known[name] = known
                while len(self.known) > STUDIES:
                    self.known.popitem(last=False)
        with known.lock:
            known.facts = stores.facts(connection)
            known.read(connection)
        return known

    def _continues(self, known: Known, connection: sqlite3.Connection) -> bool:
        """Whether the store still begins with what was read."""
        if known.facts.get("hash") != stores.facts(connection).get("hash"):
            return False
        last = connection.execute("select key from points where id = ?", (known.last,)).fetchone()
        return known.last == 0 or (last is not None and last[0] == known.last_key)

    def status(self, name: str, known: Known) -> str:
        if known.facts.get("complete") == "yes":
            return "complete"
        return "running" if stores.written_now(self.root / name) else "stopped"

    def row(self, root: Path, name: str, changed: float) -> dict:
        """The row of a store in the table; never fails."""
        row = {"path": name, "changed": changed, "status": "broken", "reason": None, "title": "", "study": "", "mode": "",
               "points": None, "ok": None, "infeasible": None, "failed": None, "total": None, "objectives": "", "best": ""}
        try:
            with stores.reading(root / name) as connection:
                known = self.look(name, connection)
                status = self.status(name, known)
        except (BrokenStore, OSError, ValueError, TypeError) as error:
            row["reason"] = str(error)
            return row
        study, counts, first = stores.document(known.facts), known.counts, known.front.members[:1]
        best = zip(known.objectives, first[0][0]) if first else ()
        mode, of = known.facts.get("mode", ""), known.units
        row.update(
            status=status, title=str(study.get("title", ""))[:300], study=known.facts.get("study", ""), mode=mode,
            points=known.points, ok=counts.get("ok", 0), infeasible=counts.get("infeasible", 0),
            failed=counts.get("failed", 0),
            total=known.points if status == "complete" else stores.most_points(study, mode),
            objectives=", ".join(f"{way} {shown(n)}" for n, way in known.objectives),
            best=", ".join(f"{shown(n)} {units.setting(-v if way == 'maximise' else v, of[n])}"
                           for (n, way), v in best))
        return row

    def state(self, name: str, counted: int | None) -> dict:
        """All that the live part of a study's page shows. BrokenStore if it cannot be read."""
        with stores.reading(self.root / name) as connection:
            known = self.look(name, connection)
            status = self.status(name, known)
            objectives = known.objectives
            drawn = [c for c in known.columns if c[1] in ("parameter", "objective")
                     or (c[1] == "measure" and c[0] not in {shown(n) for n, _ in objectives})]
            best = self._rows(connection, [c[0] for c in drawn], [point for _, point in known.front.some(SHOWN)])
        study, mode = stores.document(known.facts), known.facts.get("mode", "")
        total = known.points if status == "complete" else counted or stores.most_points(study, mode)
        rate = known.rate() if status == "running" else None
        signs, of = [-1 if way == "maximise" else 1 for _, way in objectives], known.units
        return {
            "status": status, "points": known.points, "runs": known.runs, "total": total, "counts": known.counts,
            "rate": rate, "left_s": (total - known.points) / rate if total and rate else None, "reason": known.reason,
            "title": str(study.get("title", "")), "mode": mode, "study": known.facts.get("study", ""),
            "objectives": [{"name": shown(n), "way": way, "unit": of[n]} for n, way in objectives],
            "columns": [{"name": shown(n), "kind": kind, "detail": detail, "unit": of[n]} for n, kind, detail in drawn],
            "best": best, "trail": known.steps[-DRAWN:], "front_points": len(known.front.members), "front_cut": known.front.cut,
            "front": [[s * v for s, v in zip(signs, values)] for values, _ in known.front.some(DRAWN)]}

    def _rows(self, connection: sqlite3.Connection, names: list[str], points: list[int]) -> list[dict]:
        query = f"select {', '.join(map(quoted, ['id', *names]))} from points where id = ?"
        rows = [connection.execute(query, (point,)).fetchone() for point in points]
        return [{"id": row[0], "cells": list(row[1:])} for row in rows if row]
