"""What goes wrong, as exceptions."""

from __future__ import annotations

import typing


class Fault(typing.NamedTuple):
    """One fault of input: where it stands, what was expected, what may have been meant."""

    file: str
    pointer: str  # JSON pointer inside the file; "" is its root
    message: str
    hint: str

    def __str__(self) -> str:
        where = self.file + (":" if self.file and self.pointer else "") + self.pointer
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(ValueError):
    """Faulty input; `faults` holds all of them, with the pointers and hints that the command prints."""

    def __init__(self, faults):
        self.faults = [Fault(*fault) for fault in faults]
        super().__init__("\n".join(str(fault) for fault in self.faults))


class PolicyError(RuntimeError):
    """A policy in Python failed or broke its contract; the message names it and the simulated time."""
