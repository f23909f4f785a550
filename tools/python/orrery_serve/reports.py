"""Pages of `orrery report`, made when they are asked for and kept until their files change.

They run apart from the explorer: without its origin, its token or its addresses. plotly.js is one file for all of them.
"""

from __future__ import annotations

import html
import stat
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Callable

from .errors import Refused

KEPT = 24  # pages
STYLE = ("body{font:15px/1.45 system-ui,sans-serif;color:#1f2933;max-width:760px;margin:40px auto;padding:0 20px}"
         "h1{font-size:20px}p{padding:12px 16px;background:#f5f7f9;border-left:4px solid #d55e00;"
         "overflow-wrap:anywhere}")
KEPT_BYTES = 256 << 20
MAKING = threading.BoundedSemaphore(2)  # pages at a time: a large run takes memory


class Pages:
    """Made pages by name and mark of change; a page is made once, however many ask."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.making: dict[tuple, threading.Lock] = {}
        self.made: OrderedDict[tuple, bytes] = OrderedDict()

    def get(self, key: tuple, make: Callable[[], str]) -> bytes:
        with self.lock:
            if key in self.made:
                self.made.move_to_end(key)
                return self.made[key]
            one = self.making.setdefault(key, threading.Lock())
        with one:
            with self.lock:
                if key in self.made:
                    return self.made[key]
            try:
                page = make().encode()
                with self.lock:
                    self.made[key] = page
                    while len(self.made) > KEPT or sum(map(len, self.made.values())) > KEPT_BYTES:
                        self.made.popitem(last=False)
            finally:
                with self.lock:
                    self.making.pop(key, None)
        return page


def plotly() -> bytes:
    """plotly.js as the installed package ships it."""
    from orrery_report import markup

    return markup.plotly_js().encode()


def report(pages: Pages, paths: list[Path], library: str, command: Path) -> bytes:
    """The report of a run or a study, or of several side by side, with plotly.js at the address `library`.

    Refused(422) with the reason where it cannot be made.
    """
    try:
        marks = tuple(mark for path in paths for mark in marks_of(path))
    except OSError as error:
        raise Refused(422, f"{error.filename}: {error.strerror}") from None
    return pages.get((tuple(map(str, paths)), marks, library), lambda: made(paths, library, command))


def all_runs(pages: Pages, root: Path, names: list[str], version: int, library: str) -> bytes:
    """All runs of a folder as a table with a plot of any two columns, made anew when the folder has changed. Refused(422)
    where there are none or one cannot be read."""
    if not names:
        raise Refused(422, "no runs in this folder yet")
    return pages.get((str(root), version, library), lambda: _drawn(lambda page: page.runs_table.load([root / n for n in names], skip=True),
                                                                   library, root.name))


def marks_of(path: Path) -> list[tuple]:
    """What changes when a report must be made anew. Refused(422) for a run folder with links or pipes in it: a report
    opens files by their names, and must come upon none that lies elsewhere or never ends."""
    files = [path, path.with_name(path.name + "-wal")] if path.is_file() else sorted(path.iterdir())
    marks = []
    for file in files:
        try:
            state = file.lstat()
        except FileNotFoundError:
            continue
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
            raise Refused(422, f"{path.name}/{file.name}: expected a plain file, got a link or a pipe")
        marks.append((file.name, state.st_mtime_ns, state.st_size))
    return marks


def made(paths: list[Path], library: str, command: Path) -> str:
    """The report as a page. Refused with the reason where something cannot be read."""
    return _drawn(lambda page: page.load_all(paths, str(command)), library, paths[0].name)


def _drawn(load: Callable, library: str, name: str) -> str:
    """What `load(page)` gives, as a page. Refused with the reason where it cannot be made."""
    try:
        from orrery_report import page
        from orrery_report.errors import InputError
    except ModuleNotFoundError as missing:
        raise Refused(501, f"expected the module {missing.name}, found none (run tools/setup report)") from None
    try:
        with MAKING:
            return page.render(load(page), library)
    except InputError as error:
        raise Refused(422, str(error)) from None
    except Exception as error:  # whatever a folder holds, it is that folder's page alone that is missing
        raise Refused(422, f"{name}: the report breaks ({type(error).__name__}: {error})") from None


def reason_page(reason: str) -> bytes:
    """What stands in the place of a report that cannot be made."""
    return (f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>No report</title><style>{STYLE}</style>'
            f"<h1>This cannot be shown</h1><p>{html.escape(reason)}</p>").encode()
