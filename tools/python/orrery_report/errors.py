"""The one exception that means "the input is at fault"."""

from __future__ import annotations

from pathlib import Path


class InputError(Exception):
    """A file is not what a run folder holds; prints as `FILE: expected ..., got ...`."""

    def __init__(self, file: Path | str, expected: str, got: str) -> None:
        super().__init__(" ".join(f"{file}: expected {expected}, got {got}".split()))


class ToolFault(InputError):
    """What a program of ours said about an input, in its words."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, " ".join(text.split()))
