"""The smallest document of which something still holds."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[Any, ...]  # keys and indices, from the root


def paths(document: Any, root: Path = ()) -> Iterator[Path]:
    """The way to every value of a document, outer ones first, the root left out."""
    items = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in items:
        yield (*root, key)
        yield from paths(value, (*root, key))


def at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def changed(document: Any, path: Path, change: Callable[[Any, Any], None]) -> Any:
    """A copy on which `change(parent, key)` was done at the path."""
    document = copy.deepcopy(document)
    change(at(document, path[:-1]), path[-1])
    return document


def without(document: Any, path: Path) -> Any:
    return changed(document, path, lambda parent, key: parent.pop(key))


def put(document: Any, path: Path, value: Any) -> Any:
    return changed(document, path, lambda parent, key: parent.__setitem__(key, value))


def size(document: Any) -> int:
    return len(json.dumps(document))


def smaller_values(value: Any) -> list[Any]:
    """Simpler values for one of a document's numbers, the simplest first."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return []
    tries = [1, 2, value // 2 if isinstance(value, int) else round(value / 2, 3)]
    return [number for number in dict.fromkeys(tries) if abs(number) < abs(value)]


def shrink(document: Any, holds: Callable[[Any], bool], tries: int = 200, seconds: float = 120) -> Any:
    """Drops sections, keys and elements, then makes numbers smaller, as long as `holds` does. `tries` bounds the calls, and
    no call begins after so many `seconds`."""
    left = tries
    end = time.monotonic() + seconds

    def ask(candidate: Any) -> bool:
        nonlocal left
        if time.monotonic() > end:
            left = 0
            return False
        left -= 1
        return holds(candidate)

    again = True
    while again and left > 0:
        again = False
        skipped: set[Path] = set()
        while left > 0:  # the largest part that can go, over and over
            parts = [path for path in paths(document) if path not in skipped]
            if not parts:
                break
            path = max(parts, key=lambda p: size(at(document, p)))
            candidate = without(document, path)
            if ask(candidate):
                document, again = candidate, True
                if isinstance(path[-1], int):  # the indices after it have moved
                    skipped = {p for p in skipped if p[:len(path) - 1] != path[:-1]}
            else:
                skipped.add(path)
        for path in list(paths(document)):
            for value in smaller_values(at(document, path)):
                if left <= 0:
                    break
                candidate = put(document, path, value)
                if ask(candidate):
                    document, again = candidate, True
                    break
    return document
