"""Configs as the core reads them: a file, or text, and assignments on top."""

from __future__ import annotations

import json
import os
import pathlib


def _plain(value):
    """What JSON has no word for: paths, numbers and arrays of numpy."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a config")


def to_json(value) -> str:
    """JSON of a config or a part of one."""
    return json.dumps(value, default=_plain)


def source(config) -> tuple[str | None, str]:
    """Path and text, one of which says it all, of a path or a dict."""
    if isinstance(config, (str, os.PathLike)):
        return str(pathlib.Path(config)), ""
    if hasattr(config, "keys"):
        return None, to_json(dict(config))
    raise TypeError(f"expected a path or a dict as a config, got {type(config).__name__}")


def _leaves(path: str, value):
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner)
    else:
        yield f"{path}={to_json(value)}"


def assignments(overrides, sections) -> list[str]:
    """`{"workload.rate_scale": 2}` and `workload={"rate_scale": 2}` as `--set` takes them."""
    found = []
    for given in (overrides or {}), sections:
        for path, value in given.items():
            found.extend(_leaves(path, value))
    return found
