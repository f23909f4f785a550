"""Entry point for `python3 tools/python/orrery_report RUN` and for `python3 -m orrery_report RUN`."""

import signal
import sys
from pathlib import Path

INTERRUPTED = 130  # the command's exit code
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal. No KeyboardInterrupt: one inside exec(), as when a dataclass is made, ends the interpreter by SIGINT."""


def _interrupt(*_: object) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # a second one would interrupt the clearing up
    raise Interrupted


def _main() -> int:
    try:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # the command holds them back until here
            from orrery_report.cli import main  # what it imports takes longer than some pages
            return main(sys.argv[1:])
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # the interpreter's end would die of them: all is written
    except ModuleNotFoundError as missing:
        print(f"{sys.executable}: expected the module {missing.name}, found none (run tools/setup report)", file=sys.stderr)
        return 2
    except Interrupted:  # a page under its temporary name is gone by now
        return INTERRUPTED


if not __package__:
    # Run as a folder, Python puts the package itself on the path; its parent is what makes `orrery_report` importable.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

if __name__ == "__main__":
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as SIGHUP is under nohup
            signal.signal(number, _interrupt)
    sys.exit(_main())
