"""Stores of studies as files: opened for reading only, while their writer may be at work.

In SQLite's write-ahead mode a reader never holds the writer up.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import stat
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator
from urllib.parse import quote

LIMIT_S = 20.0  # a file made to keep SQLite busy for ever is given up


class BrokenStore(Exception):
    """A file that is no store, or cannot be read now: one line."""


@contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads. BrokenStore for whatever SQLite says."""
    plain(file)
    connection = None
    try:
        connection = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=2.0)
        connection.execute("pragma trusted_schema = off")
        connection.execute("pragma query_only = on")
        end = time.monotonic() + LIMIT_S
        connection.set_progress_handler(lambda: time.monotonic() > end, 100_000)
        yield connection
    except sqlite3.Error as error:
        raise BrokenStore(f"{file.name}: {error}") from None
    finally:
        if connection is not None:
            connection.close()


def plain(file: Path) -> None:
    """BrokenStore unless a store and all that SQLite opens beside it are plain files: a pipe would hold its reader for
    ever, and a link may lead anywhere."""
    for ending in ("", "-wal", "-shm", "-journal"):
        try:
            state = file.with_name(file.name + ending).lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BrokenStore(f"{file.name}{ending}: {error.strerror}") from None
        if not stat.S_ISREG(state.st_mode):
            raise BrokenStore(f"{file.name}{ending}: no plain file")


def facts(connection: sqlite3.Connection) -> dict[str, str]:
    """What the store says of itself. BrokenStore if it is none of ours."""
    known = {str(name): str(value) for name, value in connection.execute("select name, value from facts limit 100")}
    if not known.get("format", "").startswith("orrery study"):
        raise BrokenStore("no store of a study")
    return known


def document(known: dict[str, str]) -> dict:
    """The study as JSON; empty where it is not readable."""
    try:
        found = json.loads(known.get("document", ""))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def columns(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Name, kind and detail of the columns of points."""
    return [(str(n), str(k), str(d or "")) for n, k, d in
            connection.execute("select name, kind, detail from columns order by place")]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def shown(name: str) -> str:
    """A column as people call it."""
    return name.removeprefix("objective_").removeprefix("limit_")


def number(value: object) -> float | None:
    """A finite number, else None."""
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


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
    if study.get("constraints") or study.get("sweep") or not isinstance(study.get("parameters"), list):
        return None
    product = 1
    for parameter in study["parameters"]:
        if not isinstance(parameter, dict):
            return None
        values, steps = parameter.get("values"), parameter.get("steps")
        if "formula" in parameter:
            continue
        if parameter.get("when") is not None or not (values or steps):
            return None
        if not isinstance(values or steps, list if values else int):
            return None
        product *= len(values) if values else steps
    return product
