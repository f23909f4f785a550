"""Programs besides this package: the command, and the Python packages that it calls."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import weakref

from orrery import _orrery
from orrery.errors import ConfigError
from orrery.keywords import answered


def command() -> str:
    """Path of the command `orrery`: $ORRERY_COMMAND, that of this build, or the one on PATH."""
    beside = pathlib.Path(_orrery.__file__).resolve().parents[2] / "orrery"
    found = os.environ.get("ORRERY_COMMAND") or (str(beside) if beside.is_file() else shutil.which("orrery"))
    if found is None:
        raise ConfigError([("orrery", "", "expected the command orrery, found none", "set ORRERY_COMMAND")])
    return found


def package(name: str, *arguments) -> list[str]:
    """The command line of a package of tools/python."""
    place = pathlib.Path(_orrery.home_folder()) / "tools/python" / name
    return [sys.executable, str(place), *map(os.fspath, arguments)]


def told_by(name: str, *arguments) -> str:
    """The output of a package. Raises ConfigError if it finds faults, RuntimeError if it fails."""
    told = subprocess.run(package(name, *arguments), capture_output=True, text=True, check=False)
    if told.returncode == 2:
        raise ConfigError([("", "", line, "") for line in told.stderr.splitlines() if line])
    if told.returncode != 0:
        raise RuntimeError(f"{name} failed: {told.stderr.strip()}")
    return told.stdout


class Explorer:
    """`orrery serve` in the background, at `url`; it stops with `close`, `with`, or the interpreter."""

    def __init__(self, arguments: list[str]):
        with tempfile.TemporaryFile("w+") as errors:  # nobody would read a pipe, and a full one stops the writer
            self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True)
            line = self._process.stdout.readline() if self._process.stdout else ""
            if not line:
                self._process.communicate()
                errors.seek(0)
                raise ConfigError([("", "", one, "") for one in errors.read().splitlines() if one])
        import json

        self.url: str = json.loads(line)["url"]
        self._end = weakref.finalize(self, _end, self._process)

    def close(self) -> None:
        """Stops the server."""
        self._end()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Explorer {self.url}{'' if self._end.alive else ', closed'}>"

    def _repr_html_(self) -> str:
        return f"<a href='{self.url}' target='_blank'>{self.url}</a>"


def _end(process) -> None:
    process.terminate()
    process.communicate()


@answered
def serve(folder=".", port: int = 0, *, host: str | None = None, open_beyond_loopback: bool = False, parallel: int = 1,
          read_only: bool = False) -> Explorer:
    """Shows the runs and studies of a folder in a browser, as `orrery serve`, and returns while the server runs.

    Port 0 takes any free one. A `host` beyond loopback is refused unless `open_beyond_loopback` is true.
    """
    arguments = ["--port", str(port), "--parallel", str(parallel), "--command", command(), "--home",
                 _orrery.home_folder(), "--json", "--quiet"]
    arguments += ["--host", host] if host is not None else []
    arguments += ["--open-beyond-loopback"] if open_beyond_loopback else []
    arguments += ["--read-only"] if read_only else []
    return Explorer(package("orrery_serve", os.fspath(folder), *arguments))
