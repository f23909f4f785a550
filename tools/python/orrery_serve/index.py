"""The table of runs and studies below a folder, kept up to date by times of change.

A scan looks at every folder once and reads only what is new or has changed since the last one. Rows carry the number of
the scan that changed them, so that a browser that knows a number asks for the rest alone.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import facts
from .watch import Watch

MOST = 200_000  # of rows
DEEPEST = 24
EVERY_S = 1.0  # between two scans at most as often
BATCH, SHOW_S = 250, 0.3  # rows or seconds after which rows are shown while the rest is still being read


@dataclass
class Entry:
    """A run or a study: its mark of change, its row, the version that made it."""

    kind: str
    mark: tuple
    row: dict
    version: int


@dataclass
class Index:
    """What a folder holds, by name; `look()` brings it up to date in a thread of its own."""

    root: Path
    watch: Watch
    entries: dict[str, Entry] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    version: int = 0
    scans: int = 0
    scan_s: float = 0.0
    truncated: bool = False

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.scanning = threading.Lock()
        self.last = 0.0

    def look(self, wait: bool = False) -> None:
        """Scans if the last scan is a while ago; returns at once unless `wait`."""
        if not wait and (time.monotonic() - self.last < EVERY_S or self.scanning.locked()):
            return
        thread = threading.Thread(target=self._scan_once, args=(wait,), name="index", daemon=True)
        thread.start()
        if wait:
            thread.join()

    def _scan_once(self, wait: bool) -> None:
        if not self.scanning.acquire(blocking=wait):
            return
        try:
            begin = time.monotonic()
            self._scan()
            self.last, self.scans = time.monotonic(), self.scans + 1
            self.scan_s = self.last - begin
        finally:
            self.scanning.release()

    def _scan(self) -> None:
        found = find(self.root)
        self.truncated = len(found) >= MOST
        fresh: list[tuple[str, Entry]] = []
        shown = time.monotonic()
        # Runs first: a large store takes a while.
        for name, (kind, mark, changed) in sorted(found.items(), key=lambda item: item[1][0] == "study"):
            if kind == "study" and fresh:
                self._take(fresh, [])
                fresh = []
            known = self.entries.get(name)
            if known is not None and known.mark == mark and known.row.get("status") != "running":
                continue
            make = facts.run_row if kind == "run" else self.watch.row
            try:
                row = make(self.root, name, changed)
            except Exception as error:  # one folder must not keep the others from being shown
                row = facts.broken(name, changed, f"cannot be read ({type(error).__name__}: {error})")
            if known is None or known.row != row or known.kind != kind:
                fresh.append((name, Entry(kind, mark, row, 0)))
            else:
                known.mark = mark
            if len(fresh) >= BATCH or time.monotonic() - shown > SHOW_S:
                self._take(fresh, [])
                fresh, shown = [], time.monotonic()
        self._take(fresh, [name for name in self.entries if name not in found])

    def _take(self, fresh: list[tuple[str, Entry]], gone: list[str]) -> None:
        if not fresh and not gone:
            return
        with self.lock:
            self.version += 1
            for name, entry in fresh:
                entry.version = self.version
                self.entries[name] = entry
                self.gone.pop(name, None)
            for name in gone:
                del self.entries[name]
                self.gone[name] = self.version
            if len(self.gone) > 10_000:
                self.gone = dict(list(self.gone.items())[-5000:])

    def since(self, version: int) -> dict:
        """Rows that changed after `version` (0: all), and names that are gone since."""
        with self.lock:
            version = version if version <= self.version else 0  # a number of an earlier start of the server
            rows = [(e.kind, e.row) for e in self.entries.values() if e.version > version]
            gone = [name for name, when in self.gone.items() if when > version] if version else []
            now = self.version
        return {"version": now, "reading": self.scanning.locked() and self.scans == 0, "truncated": self.truncated,
                "columns": facts.COLUMNS,
                "runs": [[row[c] for c in facts.COLUMNS] for kind, row in rows if kind == "run"],
                "studies": [row for kind, row in rows if kind == "study"], "gone": gone}

    def runs(self) -> tuple[list[str], int]:
        """Names of all runs that can be read, the newest last, and the version that they are of."""
        with self.lock:
            known = [e.row for e in self.entries.values() if e.kind == "run" and e.row["status"] != "broken"]
            return [row["path"] for row in sorted(known, key=lambda row: (row["changed"], row["path"]))], self.version

    def row(self, name: str) -> dict | None:
        entry = self.entries.get(name)
        return entry.row if entry else None


def find(root: Path) -> dict[str, tuple[str, tuple, float]]:
    """Runs (folders with a manifest or a summary) and studies (SQLite files) below `root`: kind, mark, time of change.

    Hidden names and links are left out; a run's own folders are not looked into.
    """
    found: dict[str, tuple[str, tuple, float]] = {}
    waiting = [("", 0)]
    while waiting and len(found) < MOST:
        name, depth = waiting.pop()
        try:
            with os.scandir(root / name if name else root) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        run = name and run_mark({entry.name: entry for entry in entries if entry.name in RUN_FILES})
        if run:
            found[name] = ("run", *run)
            continue
        for entry in reversed(entries):
            if entry.name.startswith(".") or not printable(entry.name):
                continue
            below = f"{name}/{entry.name}" if name else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth < DEEPEST:
                        waiting.append((below, depth + 1))
                elif entry.name.endswith((".sqlite", ".db")) and entry.is_file(follow_symlinks=False):
                    mark, changed = study_mark(root / below)
                    found[below] = ("study", mark, changed)
            except OSError:
                continue
    return found


RUN_FILES = ("manifest.json", "summary.json")


def printable(name: str) -> bool:
    return not any(ord(c) < 32 or c == "\\" or 0xD800 <= ord(c) < 0xE000 for c in name)


def run_mark(files: dict[str, os.DirEntry]) -> tuple[tuple, float] | None:
    """What changes when a run does, and when that was."""
    states = []
    for file in RUN_FILES:
        if file in files:
            try:
                states.append(files[file].stat(follow_symlinks=False))
            except OSError:
                continue
    if not states:
        return None
    return tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in states), max(s.st_mtime for s in states)


def study_mark(file: Path) -> tuple[tuple, float]:
    """Of a store, and of the log that its writer appends to."""
    states = [file.stat()]
    try:
        states.append(file.with_name(file.name + "-wal").stat())
    except OSError:
        pass
    return tuple((s.st_mtime_ns, s.st_size, s.st_ino) for s in states), max(s.st_mtime for s in states)
