"""Entry point for `python3 tools/python/orrery_serve DIR` and for `python3 -m orrery_serve DIR`."""

import os
import signal
import sys
from pathlib import Path

# The command holds signals back while the interpreter starts. Until the server answers them, they end it at once.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) != signal.SIG_IGN:  # as SIGHUP is under nohup
        signal.signal(number, lambda *_: os._exit(130))
signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))

if not __package__:
    # Run as a folder, Python puts the package itself on the path; its parent is what makes `orrery_serve` importable.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from orrery_serve.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
