"""Compares what a command printed with what the page shows."""

from __future__ import annotations

import difflib
import re

HASH = re.compile(r"(?<=[\w])-[0-9a-f]{8}(?![0-9a-f])")
# What differs from run to run in what commands print to stdout; --update writes an ellipsis for it.
WALL = [(re.compile(r"\b\d+(\.\d+)?([kM]?) (events|points)/s\b"), r"… \2\3/s")]


def plain(text: str, folder: str = "") -> str:
    """Without what names this run: the scratch folder, hashes of configs, blanks at the ends of lines."""
    if folder:
        text = text.replace(folder + "/", "")
    text = HASH.sub("-…", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def pattern(shown: str) -> re.Pattern[str]:
    """An ellipsis stands for anything in its line; alone in a line, for any lines."""
    parts = []
    for line in shown.split("\n"):
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*(?:\n|\Z))*?")
        else:
            parts.append(r"[^\n]*?".join(re.escape(piece) for piece in line.split("…")) + r"(?:\n|\Z)")
    return re.compile("".join(parts) + r"\Z")


def matches(shown: str, got: str, folder: str = "") -> bool:
    return pattern(plain(shown)).match(plain(got, folder)) is not None


def difference(shown: str, got: str, folder: str = "") -> str:
    """The first lines of a diff."""
    lines = difflib.unified_diff(plain(shown).split("\n"), plain(got, folder).split("\n"), "page", "run", lineterm="", n=0)
    return "\n    ".join(list(lines)[2:30])


def to_show(got: str, folder: str = "", head: int | None = None) -> str:
    """What --update writes into the page."""
    text = plain(got, folder)
    for found, mask in WALL:
        text = found.sub(mask, text)
    lines = text.split("\n")
    if head is not None and len(lines) > head:
        lines = [*lines[:head], "…"]
    return "\n".join(lines) + "\n"
