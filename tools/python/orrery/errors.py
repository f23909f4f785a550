"""Exceptions, and the faults that they hold."""

from __future__ import annotations

import functools
import os
import traceback
import typing


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Folders of code that is not a user's policy: this package, Python's library and installed packages."""
    import sysconfig

    paths = sysconfig.get_paths()
    folders = {os.path.dirname(os.path.abspath(__file__)),
               *(paths[one] for one in ("stdlib", "platstdlib", "purelib", "platlib"))}
    return tuple(folder + os.sep for folder in folders)


class Fault(typing.NamedTuple):
    """One fault of the input: where it is, what was expected, and a hint at what may have been meant."""

    file: str
    pointer: str  # JSON pointer inside the file; "" is its root
    message: str
    hint: str

    def __str__(self) -> str:
        where = self.file + (":" if self.file and self.pointer else "") + self.pointer
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(ValueError):
    """Faulty input; `faults` holds all faults, with the pointers and hints that the command prints."""

    def __init__(self, faults):
        self.faults = [Fault(*fault) for fault in faults]
        super().__init__("\n".join(str(fault) for fault in self.faults))


class PolicyError(RuntimeError):
    """A policy in Python failed or broke its contract; the message names it and the simulated time.

    If the policy raised an exception, that is the cause, and `file` and `line` say where in the user's code.
    """

    def _place(self) -> tuple[str, int, str] | None:
        """File, line and function of the innermost frame outside libraries; None if there is none."""
        frames = traceback.extract_tb(self.__cause__.__traceback__ if self.__cause__ is not None else None)
        own = [one for one in frames if not one.filename.startswith(_libraries())]
        return (own[-1].filename, own[-1].lineno or 0, own[-1].name) if own else None

    @property
    def file(self) -> str | None:
        """The file of the user's code that raised; None if the policy raised nothing itself."""
        place = self._place()
        return place[0] if place else None

    @property
    def line(self) -> int | None:
        """The line in `file`; None if the policy raised nothing itself."""
        place = self._place()
        return place[1] if place else None

    def __str__(self) -> str:
        place = self._place()
        return super().__str__() + (f" ({place[0]}:{place[1]}, in {place[2]})" if place else "")
