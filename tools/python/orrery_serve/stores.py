"""Stores of studies, read while their writer is at work: how far they are, how fast they go, what is best so far.

The file is opened for reading only; in SQLite's write-ahead mode a reader never holds the writer up.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator
from urllib.parse import quote

STEPS = 20_000_000  # of SQLite's machine; a file made to keep it busy for ever is given up
SPAN_S = 30.0  # over which a rate is told
TOP = 8


class BrokenStore(Exception):
    """A file that is no store, or cannot be read now: one line."""


@contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads. BrokenStore for whatever SQLite says."""
    connection = None
    try:
        connection = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=2.0)
        connection.execute("pragma trusted_schema = off")
        connection.execute("pragma query_only = on")
        spent = [0]

        def step() -> int:
            spent[0] += 100_000
            return spent[0] > STEPS

        connection.set_progress_handler(step, 100_000)
        yield connection
    except sqlite3.Error as error:
        raise BrokenStore(f"{file.name}: {error}") from None
    finally:
        if connection is not None:
            connection.close()


def facts(connection: sqlite3.Connection) -> dict[str, str]:
    """What the store says of itself. BrokenStore if it is none of ours."""
    known = {str(name): str(value) for name, value in connection.execute("select * from facts limit 100")}
    if not known.get("format", "").startswith("orrery study"):
        raise BrokenStore("no store of a study")
    return known


def document(known: dict[str, str]) -> dict:
    """The study as JSON; empty where it is not readable."""
    try:
        found = json.loads(known.get("document", ""))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def columns(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Name, kind and detail of the columns of points."""
    return [(str(n), str(k), str(d or "")) for n, k, d in
            connection.execute("select name, kind, detail from columns order by place")]


def counted_points(connection: sqlite3.Connection) -> dict[str, int]:
    """How many points there are of each status."""
    return {str(status): int(count) for status, count in
            connection.execute("select status, count(*) from points group by status")}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def written_now(file: Path) -> bool:
    """Whether some process holds the lock of a store's writer (flock on the file)."""
    try:
        state = file.stat()
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return False
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    return any("FLOCK" in line and "WRITE" in line and f" {place} " in line for line in lines)


def most_points(study: dict, mode: str) -> int | None:
    """How many points a search looks at, or a sweep of nothing but a grid; None where that is not known."""
    if mode == "search":
        search = study.get("search") if isinstance(study.get("search"), dict) else {}
        budget, repeats = search.get("budget"), search.get("repeats", 1)
        return budget * repeats if isinstance(budget, int) and isinstance(repeats, int) else None
    if study.get("constraints") or study.get("sweep"):
        return None
    product = 1
    for parameter in study.get("parameters", []):
        values, steps = parameter.get("values"), parameter.get("steps")
        if "formula" in parameter:
            continue
        if parameter.get("when") is not None or not (values or steps):
            return None
        product *= len(values) if values else steps
    return product


def study_row(root: Path, name: str, changed: float) -> dict:
    """The row of a store in the table; never fails."""
    row = {"path": name, "changed": changed, "status": "broken", "reason": None, "title": "", "study": "", "mode": "",
           "points": None, "ok": None, "infeasible": None, "failed": None, "total": None, "objectives": "", "best": ""}
    file = root / name
    try:
        with reading(file) as connection:
            known = facts(connection)
            counts = counted_points(connection)
            study = document(known)
            all_columns = columns(connection)
            best = best_points(connection, all_columns, 1)
    except (BrokenStore, KeyError, TypeError, ValueError) as error:
        row["reason"] = str(error)
        return row
    objectives = [(n, d) for n, k, d in all_columns if k == "objective"]
    total = most_points(study, known.get("mode", ""))
    status = "complete" if known.get("complete") == "yes" else "running" if written_now(file) else "stopped"
    row.update(
        status=status, title=str(study.get("title", ""))[:300], study=known.get("study", ""),
        mode=known.get("mode", ""),
        points=sum(counts.values()), ok=counts.get("ok", 0), infeasible=counts.get("infeasible", 0),
        failed=counts.get("failed", 0), total=sum(counts.values()) if status == "complete" else total,
        objectives=", ".join(f"{d} {shown(n)}" for n, d in objectives),
        best=", ".join(f"{shown(n)} {format(best[0]['figures'][n], '.5g')}" for n, _ in objectives
                       if best and number(best[0]["figures"].get(n)) is not None))
    return row


def shown(name: str) -> str:
    """A column as people call it."""
    return name.removeprefix("objective_").removeprefix("limit_")


def number(value: object) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else None  # type: ignore[return-value]


def best_points(connection: sqlite3.Connection, all_columns: list[tuple[str, str, str]], most: int) -> list[dict]:
    """Points that meet every limit and are best in the first objective; of several objectives those of the front."""
    objectives = [(n, d) for n, k, d in all_columns if k == "objective"]
    if not objectives:
        return []
    names = ["id"] + [n for n, _, _ in all_columns]
    first, way = objectives[0]
    query = (f"select {', '.join(map(quoted, names))} from points where status = 'ok' and violation <= 0 and "
             f"{quoted(first)} is not null order by {quoted(first)} {'desc' if way == 'maximise' else 'asc'}, id "
             f"limit {200 if len(objectives) > 1 else most}")
    rows = [dict(zip(names, row)) for row in connection.execute(query)]
    if len(objectives) > 1:
        rows = front(rows, objectives)[:most]
    return [{"id": row["id"], "figures": row} for row in rows]


def front(rows: list[dict], objectives: list[tuple[str, str]]) -> list[dict]:
    """Those that no other dominates."""
    def values(row: dict) -> list[float]:
        return [(-1 if way == "maximise" else 1) * row[n] if number(row[n]) is not None else math.inf
                for n, way in objectives]

    scored = [(values(row), row) for row in rows]
    return [row for score, row in scored
            if not any(other != score and all(o <= s for o, s in zip(other, score)) for other, _ in scored)]


class Progress:
    """How fast each store grows, by what was seen of it before."""

    def __init__(self) -> None:
        self.seen: dict[str, deque[tuple[float, int]]] = {}

    def rate(self, name: str, points: int) -> float | None:
        """Points a second over the last half minute; None at first sight."""
        if len(self.seen) > 200:
            self.seen.clear()
        past = self.seen.setdefault(name, deque(maxlen=200))
        now = time.monotonic()
        if past and points < past[-1][1]:
            past.clear()  # begun anew
        past.append((now, points))
        while len(past) > 2 and now - past[0][0] > SPAN_S:
            past.popleft()
        span = now - past[0][0]
        return (points - past[0][1]) / span if span > 0.5 else None


def study_state(root: Path, name: str, progress: Progress, counted: int | None) -> dict:
    """All that the live part of a study's page shows. BrokenStore if it cannot be read."""
    file = root / name
    with reading(file) as connection:
        known = facts(connection)
        all_columns = columns(connection)
        counts = counted_points(connection)
        runs = int(connection.execute("select count(*) from runs").fetchone()[0])
        best = best_points(connection, all_columns, TOP)
        objectives = [(n, d) for n, k, d in all_columns if k == "objective"]
        trail = best_so_far(connection, *objectives[0]) if objectives else []
        reason = connection.execute("select reason from points where status <> 'ok' order by id limit 1").fetchone()
    study, points = document(known), sum(counts.values())
    complete = known.get("complete") == "yes"
    total = points if complete else counted or most_points(study, known.get("mode", ""))
    running = not complete and written_now(file)
    rate = progress.rate(name, points) if running else None
    left = (total - points) / rate if running and total and rate else None
    shown_columns = [(n, shown(n), k, d) for n, k, d in all_columns if k in ("parameter", "objective", "measure")]
    return {"status": "complete" if complete else "running" if running else "stopped", "points": points, "runs": runs,
            "total": total, "counts": counts, "rate": rate, "left_s": left, "trail": trail,
            "reason": str(reason[0])[:300] if reason and reason[0] else None, "title": str(study.get("title", "")),
            "mode": known.get("mode", ""), "study": known.get("study", ""),
            "objectives": [{"name": shown(n), "way": d} for n, d in objectives],
            "columns": [{"name": label, "kind": kind, "detail": detail} for _, label, kind, detail in shown_columns
                        if kind != "measure" or label not in {shown(n) for n, _ in objectives}],
            "best": [{"id": b["id"], "cells": [b["figures"][n] for n, label, kind, _ in shown_columns
                                               if kind != "measure" or label not in {shown(o) for o, _ in objectives}]}
                     for b in best]}


def best_so_far(connection: sqlite3.Connection, name: str, way: str) -> list[tuple[int, float]]:
    """Steps of the best value of an objective over the points, those that meet the limits."""
    better = "max" if way == "maximise" else "min"
    query = (f"select id, b from (select id, {better}({quoted(name)}) over (order by id) as b from points "
             "where status = 'ok' and violation <= 0) order by id")
    steps: list[tuple[int, float]] = []
    for point, value in connection.execute(query):
        if number(value) is not None and (not steps or steps[-1][1] != value):
            steps.append((int(point), float(value)))
    return steps[-400:]
