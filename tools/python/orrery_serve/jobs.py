"""Runs that are started from the browser: a short queue, a few at a time, each a process of the `orrery` command.

The command writes its folder under a hidden name and renames it when it is whole, so what is cancelled or breaks leaves
nothing. Its progress is read from a terminal that is made for it: there it tells ten times a second how far it is.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from .errors import Refused
from .folder import Folder

WAITING = 32  # runs in the queue
KEPT = 200  # ended runs that are remembered
PATIENCE_S = 5.0  # after the wish to stop, before a process is ended by force
NAME = re.compile(r"[A-Za-z0-9_+=][A-Za-z0-9._+=-]{0,79}")
BAR = re.compile(r"\[(?P<bar>=* *)\]\s+(?P<share>\d+)% (?P<text>.*), (?P<left>[\d:]+) left$")
RATE = re.compile(r"^(?P<done>\d+) (?P<what>.*?) \((?P<rate>[^)]*)\), simulated (?P<simulated>\S+) s$")
ENDED = ("done", "failed", "cancelled")


@dataclass
class Job:
    """A run from the browser; `state` is queued, running, done, failed or cancelled."""

    number: int
    name: str
    out: str  # of the run folder, below the served folder
    base: str  # name of the run it began from, or empty
    config: dict
    state: str = "queued"
    share: float | None = None
    text: str = ""
    left: str = ""
    lines: list[str] = field(default_factory=list)
    status: str = ""
    began: float = 0.0
    ended: float = 0.0
    process: subprocess.Popen | None = None
    stop: bool = False

    def shown(self) -> dict:
        """What a browser is told."""
        now = self.ended or time.time()
        return {"id": self.number, "name": self.name, "out": self.out, "base": self.base, "state": self.state,
                "share": self.share, "text": self.text, "left": self.left, "lines": self.lines[-20:],
                "status": self.status, "seconds": now - self.began if self.began else 0}


class Runner:
    """Takes configs, runs them `parallel` at a time into FOLDER/runs, tells of them, ends them."""

    def __init__(self, command: Path, folder: Folder, parallel: int) -> None:
        self.command, self.folder = command, folder
        self.jobs: dict[int, Job] = {}
        self.numbers = itertools.count(1)
        self.change = threading.Condition()
        self.closing = False
        self.workers = [threading.Thread(target=self._work, name=f"run-{i}", daemon=True) for i in range(parallel)]
        for worker in self.workers:
            worker.start()

    def start(self, name: str, config: dict, base: str) -> Job:
        """Puts a run into the queue. Refused: a bad or taken name (422, 409), a full queue (503)."""
        if not NAME.fullmatch(name):
            raise Refused(422, "expected a name of letters, digits and . _ - + =, not beginning with a dot or a dash")
        runs = self.folder.root / "runs"
        if os.path.realpath(runs) != str(runs):
            raise Refused(422, f"{runs} is a link to another place; runs are not written there")
        with self.change:
            active = [job for job in self.jobs.values() if job.state not in ENDED]
            if (runs / name).exists() or any(job.name == name for job in active):
                raise Refused(409, f"runs/{name} is there already; choose another name")
            if sum(job.state == "queued" for job in active) >= WAITING:
                raise Refused(503, f"{WAITING} runs are waiting already")
            job = Job(next(self.numbers), name, f"runs/{name}", base, config)
            self.jobs[job.number] = job
            for old in [n for n, j in self.jobs.items() if j.state in ENDED][:-KEPT]:
                del self.jobs[old]
            self.change.notify()
        return job

    def get(self, number: int) -> Job:
        if number not in self.jobs:
            raise Refused(404, "no such run was started here")
        return self.jobs[number]

    def cancel(self, number: int) -> Job:
        """Asks a run to end; one that waits ends at once."""
        job = self.get(number)
        with self.change:
            job.stop = True
            if job.state == "queued":
                job.state, job.ended = "cancelled", time.time()
            process = job.process
        if process is not None:
            _end(process)
        return job

    def close(self) -> None:
        """Ends all runs and waits for their processes."""
        with self.change:
            self.closing = True
            self.change.notify_all()
        for number in list(self.jobs):
            if self.jobs[number].state not in ENDED:
                self.cancel(number)
        for worker in self.workers:
            worker.join(PATIENCE_S + 5)

    def _work(self) -> None:
        while True:
            with self.change:
                job = None
                while job is None:
                    if self.closing:
                        return
                    job = next((j for j in self.jobs.values() if j.state == "queued"), None)
                    if job is None:
                        self.change.wait()
                job.state, job.began = "running", time.time()
            try:
                self._run(job)
            except Exception as error:  # whatever it is, the next run wants this worker
                job.lines.append(str(error) or type(error).__name__)
                job.state = "failed"
            finally:
                job.process, job.ended = None, time.time()

    def _run(self, job: Job) -> None:
        config = self.folder.root / f".whatif-{os.getpid()}-{job.number}.json"
        main, terminal = os.openpty()
        try:
            config.write_text(json.dumps(job.config, indent=1))
            with self.change:
                job.process = subprocess.Popen(
                    [str(self.command), "run", str(config), "--out", str(self.folder.root / job.out)],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal, cwd=self.folder.root,
                    start_new_session=True)
            os.close(terminal)
            terminal = -1
            if job.stop:
                _end(job.process)
            self._follow(job, main, str(config))
            code = job.process.wait()
        finally:
            for descriptor in (main, terminal):
                if descriptor >= 0:
                    os.close(descriptor)
            config.unlink(missing_ok=True)
        if job.stop and code != 0:
            # What a process ended by force leaves; one that ends by itself leaves nothing.
            shutil.rmtree(self.folder.root / "runs" / f".{job.name}.{job.process.pid}", ignore_errors=True)
        job.status = _status(self.folder.root / job.out / "summary.json") if code == 0 else ""
        job.share = 1.0 if code == 0 else job.share
        job.state = "done" if code == 0 else "cancelled" if job.stop else "failed"

    def _follow(self, job: Job, terminal: int, config: str) -> None:
        """Reads what the process tells until it has ended."""
        rest = b""
        while True:
            try:
                data = os.read(terminal, 1 << 14)
            except OSError:  # how a terminal says that nobody writes any more
                data = b""
            if not data:
                break
            *lines, rest = re.split(rb"[\r\n]+", rest + data)
            if len(rest) > 1 << 16:
                rest = b""
            # A bar is drawn over the last one and ends without a line's end.
            for line in lines + ([rest] if rest.endswith(b" left") else []):
                self._take(job, line.replace(b"\x1b[K", b"").decode("utf-8", "replace").strip(), config)
        self._take(job, rest.replace(b"\x1b[K", b"").decode("utf-8", "replace").strip(), config)

    def _take(self, job: Job, line: str, config: str) -> None:
        found = BAR.match(line)
        if found:
            job.share, job.text, job.left = int(found["share"]) / 100, found["text"], found["left"]
        elif RATE.match(line):
            job.text = line
        elif line and len(job.lines) < 200:
            job.lines.append(line.replace(config, "config")[:1000])


def _end(process: subprocess.Popen) -> None:
    """Asks a process group to end, as Ctrl-C does; ends it by force if it does not."""
    def force() -> None:
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)

    _signal(process, signal.SIGINT)
    threading.Thread(target=force, daemon=True).start()


def _signal(process: subprocess.Popen, number: int) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass


def _status(summary: Path) -> str:
    try:
        return str(json.loads(summary.read_bytes()).get("status", ""))[:40]
    except (OSError, ValueError, AttributeError):
        return ""
