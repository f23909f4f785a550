"""The format of run folders, as `manifest.json` names it. Runs from before there was a name are of the first one."""

from __future__ import annotations

RUN_FORMAT = "orrery run 1"


def unreadable(manifest: dict) -> str | None:
    """What a reader says of a run of another format; None of one that it can read."""
    found = manifest.get("format", RUN_FORMAT)
    if found == RUN_FORMAT:
        return None
    return f"a run of format '{found}' (run its config again with this orrery, or read it with the one that wrote it)"
