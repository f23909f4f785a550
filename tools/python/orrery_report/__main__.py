"""Entry point for `python3 tools/python/orrery_report RUN` and for `python3 -m orrery_report RUN`."""

import sys
from pathlib import Path

if not __package__:
    # Run as a folder, Python puts the package itself on the path; its parent is what makes `orrery_report` importable.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from orrery_report import interrupt  # noqa: E402


def _main() -> int:
    try:
        try:
            interrupt.watch()
            from orrery_report.cli import main  # what it imports takes longer than some pages
            return main(sys.argv[1:])
        finally:
            interrupt.ignore()  # all is written
    except ModuleNotFoundError as missing:
        print(f"{sys.executable}: expected the module {missing.name}, found none (run tools/setup report)", file=sys.stderr)
        return 2
    except interrupt.Interrupted:  # a page under its temporary name is gone by now
        return interrupt.INTERRUPTED


if __name__ == "__main__":
    sys.exit(_main())
