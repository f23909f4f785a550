"""Entry point for `python3 tools/python/orrery_serve DIR` and for `python3 -m orrery_serve DIR`."""

import signal
import sys
from pathlib import Path

signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))  # the command holds them back

if not __package__:
    # Run as a folder, Python puts the package itself on the path; its parent is what makes `orrery_serve` importable.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from orrery_serve.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
