"""What an answer can be instead of a page."""

from __future__ import annotations


class Refused(Exception):
    """A request that is not granted: an HTTP status and one line that says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Unusable(Exception):
    """What the command line asks for cannot be done: one line, exit code 2."""
