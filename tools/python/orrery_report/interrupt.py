"""Ctrl-C, SIGTERM and SIGHUP while a report is made.

A signal ends the interpreter at once: an exception in the middle of an import would come out of numpy or matplotlib as another
one, or not at all. Where something must be taken away first, `raised` makes an exception of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130  # the command's exit code
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_raise = False


class Interrupted(BaseException):
    """A signal, under `raised`."""


@contextmanager
def raised() -> Iterator[None]:
    """Under it a signal is raised as Interrupted, so that what is under way can be taken away. Import nothing there."""
    global _raise
    _raise = True
    try:
        yield
    finally:
        _raise = False


def watch() -> None:
    """From here on signals are answered; those that the command has held back so far, too."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as SIGHUP is under nohup
            signal.signal(number, _answer)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def ignore() -> None:
    """From here on signals wait: the interpreter's end would die of them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _answer(*_: object) -> None:
    ignore()  # a second one would interrupt the clearing up
    if _raise:
        raise Interrupted
    os._exit(INTERRUPTED)
