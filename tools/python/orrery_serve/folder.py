"""The folder that is served: names from a browser become open files inside it, or are refused.

A name is looked at twice: as a text (no `..`, no absolute path, no hidden part, no control character) and, once the
file is open, by where the kernel says that it is, so that no link leads out and no exchange in between helps.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .errors import Refused

LONGEST_NAME = 1024


def checked_name(name: str) -> str:
    """The name if it can only mean something below a folder; else Refused(404)."""
    parts = name.split("/")
    bad = (not name or len(name) > LONGEST_NAME or any(not p or p.startswith(".") for p in parts)
           or any(ord(c) < 32 or ord(c) == 127 or c == "\\" or 0xD800 <= ord(c) < 0xE000 for c in name))
    if bad:
        raise Refused(404, "no such name in this folder")
    return name


class Folder:
    """The folder of runs and studies, by its real path."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def _inside(self, path: str) -> bool:
        return path == str(self.root) or path.startswith(str(self.root).rstrip("/") + "/")

    def path(self, name: str) -> Path:
        """Where an existing file or folder of this name is; Refused(404) if there is none inside."""
        place = os.path.realpath(self.root / checked_name(name))
        if not self._inside(place) or not os.path.exists(place):
            raise Refused(404, "no such name in this folder")
        return Path(place)

    def open(self, name: str) -> tuple[int, os.stat_result]:
        """A descriptor of a plain file and its state; the caller closes it. Refused(404) for all else."""
        place = self.path(name)  # what lies elsewhere is not even opened: a device may notice that
        try:
            # Not blocking: a pipe would wait for its writer for ever.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
            descriptor = os.open(place, flags)
        except (OSError, ValueError):
            raise Refused(404, "no such file in this folder") from None
        try:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode) or not self._inside(os.readlink(f"/proc/self/fd/{descriptor}")):
                raise Refused(404, "no such file in this folder")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, state

    def files(self, name: str) -> list[dict]:
        """Plain files of a run folder, those of its folders too: name and size in bytes."""
        found = []
        top = self.path(name)
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(f for f in folders if not f.startswith("."))
            for file in sorted(files):
                path = Path(folder) / file
                try:
                    state = path.lstat()
                except OSError:
                    continue
                if stat.S_ISREG(state.st_mode) and not file.startswith("."):
                    found.append({"name": str(path.relative_to(top)), "bytes": state.st_size})
            if len(found) > 1000:
                break
        return found
