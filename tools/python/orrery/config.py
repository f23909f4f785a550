"""Configs as the core reads them: a file, or text, and assignments on top."""

from __future__ import annotations

import json
import os
import pathlib


def _system_of(config) -> str:
    """The system of a config (a path, a dict), as far as can be seen without reading it."""
    for _ in range(16):  # a base, its base …
        if isinstance(config, (str, os.PathLike)):
            folder = pathlib.Path(config).parent
            try:
                config = json.loads(pathlib.Path(config).read_text())
            except (OSError, ValueError):
                return "serving"
        else:
            folder = pathlib.Path()
        if not isinstance(config, dict):
            return "serving"
        inner = config.get("base") if config.get("kind") == "study" else None
        if isinstance(inner, dict):
            config = inner
        if isinstance(config.get("system"), str):
            return config["system"]
        base = config.get("base")
        if isinstance(base, list) and base:
            base = base[-1]
        if not isinstance(base, (str, dict)):
            return "serving"
        config = base if isinstance(base, dict) else folder / base
    return "serving"


def _coder(system: str):
    def plain(value):
        """Converts what JSON does not have: machines, models and traces, paths, numbers and arrays of numpy."""
        if hasattr(value, "to_config"):
            return value.to_config(system)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if hasattr(value, "tolist"):
            return value.tolist()
        raise TypeError(f"{type(value).__name__} has no place in a config")

    return plain


def to_json(value, system: str = "serving") -> str:
    """JSON of a config or a part of one; objects such as Machine become what `system` takes for them."""
    return json.dumps(value, default=_coder(system))


def source(config) -> tuple[str | None, str]:
    """A pair of path and text for a path or a dict; one of the two holds the whole config."""
    if isinstance(config, (str, os.PathLike)):
        return str(pathlib.Path(config)), ""
    if hasattr(config, "keys"):
        return None, to_json(dict(config), _system_of(config))
    raise TypeError(f"expected a path or a dict as a config, got {type(config).__name__}")


def _leaves(path: str, value, system: str):
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner, system)
    else:
        yield f"{path}={to_json(value, system)}"


def _has_objects(value) -> bool:
    if isinstance(value, dict):
        return any(_has_objects(inner) for inner in value.values())
    return hasattr(value, "to_config")


def assignments(overrides, sections, config=None) -> list[str]:
    """`{"workload.rate_scale": 2}` and `workload={"rate_scale": 2}` as `--set` takes them, for `config`."""
    given = [overrides or {}, sections]
    system = "serving"
    if any(map(_has_objects, given)):
        stated = [part["system"] for part in given if "system" in part]
        system = stated[-1] if stated else _system_of(config)
    found = []
    for part in given:
        for path, value in part.items():
            found.extend(_leaves(path, value, system))
    return found
