"""Pages of `orrery report`, made when they are asked for and kept until their files change.

They run apart from the explorer: without its origin, its token or its addresses. plotly.js is one file for all of them.
"""

from __future__ import annotations

import html
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
    from orrery_report import page

    return page.plotly_js().encode()


def shared(text: str, address: str) -> str:
    """The page with plotly.js taken from an address instead of carried inside."""
    from orrery_report import page

    inside = f"<script>{page.plotly_js()}</script>"
    if inside not in text:
        return text
    return text.replace(inside, f'<script src="{address}"></script>', 1).replace(
        "script-src 'unsafe-inline'", f"script-src 'unsafe-inline' {address}", 1)


def draws_studies() -> bool:
    """Whether the report package draws stores of studies."""
    return False


def page(pages: Pages, path: Path, library: str) -> bytes:
    """The report of a run folder; Refused(422) with the reason where it cannot be made."""
    if not path.is_dir():
        raise Refused(404, "no such run in this folder")
    try:
        mark = tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in sorted(path.iterdir()) if f.is_file())
        return pages.get((str(path), mark, library), lambda: shared(run_page(path), library))
    except OSError as error:
        raise Refused(422, f"{path.name}: {error.strerror}") from None


def run_page(folder: Path) -> str:
    """The report of a run as one page. Refused with the reason where its folder cannot be read."""
    try:
        from orrery_report import page, run_folder
        from orrery_report.errors import InputError
    except ModuleNotFoundError as missing:
        raise Refused(501, f"expected the module {missing.name}, found none (run tools/setup report)") from None
    try:
        return page.render(run_folder.load(folder))
    except InputError as error:
        raise Refused(422, str(error)) from None
    except Exception as error:  # whatever a folder holds, it is that folder's page alone that is missing
        raise Refused(422, f"{folder.name}: the report breaks ({type(error).__name__}: {error})") from None


def reason_page(reason: str) -> bytes:
    """What stands in the place of a report that cannot be made."""
    return (f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>No report</title><style>{STYLE}</style>'
            f"<h1>This run cannot be shown</h1><p>{html.escape(reason)}</p>").encode()
