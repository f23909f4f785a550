"""Runs, sweeps and searches that are started from the browser: a short queue, a few at a time, each a process of the
`orrery` command.

The command writes a run's folder under a hidden name and renames it when it is whole, so what is cancelled or breaks
leaves nothing. The store of a study keeps what it has, and can be gone on with. Progress is read from a terminal that is
made for the process: there it tells ten times a second how far it is. Where none can be made (no /dev/pts) it tells none.
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
COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")  # what a terminal is told besides texts
ENDED = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Study:
    """A study to be run: its file, `sweep` or `search`, and further arguments of the command."""

    file: Path
    mode: str
    arguments: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        """As --jobs says; 1 where it says nothing."""
        return int(self.arguments[self.arguments.index("--jobs") + 1]) if "--jobs" in self.arguments else 1


@dataclass
class Job:
    """A run or a study from the browser; `state` is queued, running, done, failed or cancelled."""

    number: int
    name: str
    out: str  # the run's folder or the study's store, below the served folder
    base: str  # name of the run it began from, or empty
    work: dict | Study  # the config of a run
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
                "kind": self.work.mode if isinstance(self.work, Study) else "run", "share": self.share,
                "text": self.text, "left": self.left, "lines": self.lines[-20:],
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

    def start(self, name: str, work: dict | Study, base: str = "") -> Job:
        """Puts a run or a study into the queue. Refused: a bad or taken name (422, 409), a full queue (503)."""
        if not NAME.fullmatch(name):
            raise Refused(422, "expected a name of letters, digits and . _ - + =, not beginning with a dot or a dash")
        runs = self.folder.root / "runs"
        if os.path.realpath(runs) != str(runs):
            raise Refused(422, f"{runs} is a link to another place; runs are not written there")
        out = f"runs/{name}" + (".sqlite" if isinstance(work, Study) else "")
        if (self.folder.root / out).exists():
            raise Refused(409, f"{out} is there already; choose another name")
        return self._queued(name, out, work, base)

    def go_on(self, store: str, study: Study) -> Job:
        """Puts a stopped study into the queue, to go on with its store. Refused as start()."""
        return self._queued(Path(store).stem, store, study, "")

    def _queued(self, name: str, out: str, work: dict | Study, base: str) -> Job:
        with self.change:
            active = [job for job in self.jobs.values() if job.state not in ENDED]
            if any(job.out == out for job in active):
                raise Refused(409, f"{out} is at work already; choose another name")
            if sum(job.state == "queued" for job in active) >= WAITING:
                raise Refused(503, f"{WAITING} runs are waiting already")
            job = Job(next(self.numbers), name, out, base, work)
            self.jobs[job.number] = job
            for old in [n for n, j in self.jobs.items() if j.state in ENDED][:-KEPT]:
                del self.jobs[old]
            self.change.notify()
        return job

    def last(self, out: str) -> Job | None:
        """The latest job that wrote there; None if there is none."""
        return next((job for job in reversed(self.jobs.values()) if job.out == out), None)

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
        out = ["--out", str(self.folder.root / job.out)]
        main, terminal = _terminal()
        try:
            if isinstance(job.work, Study):
                (self.folder.root / job.out).parent.mkdir(exist_ok=True)
                arguments = [job.work.mode, str(job.work.file), *job.work.arguments, *out]
            else:
                config.write_text(json.dumps(job.work, indent=1))
                arguments = ["run", str(config), *out]
            with self.change:
                job.process = subprocess.Popen(
                    [str(self.command), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal,
                    cwd=self.folder.root, start_new_session=True)
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
        if job.stop and code != 0 and not isinstance(job.work, Study):
            # What a process ended by force leaves; one that ends by itself leaves nothing.
            shutil.rmtree(self.folder.root / "runs" / f".{job.name}.{job.process.pid}", ignore_errors=True)
        if code == 0:
            job.status = "ok" if isinstance(job.work, Study) else _status(self.folder.root / job.out / "summary.json")
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
                self._take(job, COLOUR.sub(b"", line).decode("utf-8", "replace").strip(), config)
        self._take(job, COLOUR.sub(b"", rest).decode("utf-8", "replace").strip(), config)

    def _take(self, job: Job, line: str, config: str) -> None:
        found = BAR.match(line)
        if found:
            job.share, job.text, job.left = int(found["share"]) / 100, found["text"], found["left"]
        elif RATE.match(line):
            job.text = line
        elif line and len(job.lines) < 200:
            job.lines.append(line.replace(config, "config")[:1000])


def _terminal() -> tuple[int, int]:
    """Two ends of a terminal, or of a pipe where there are no terminals: to read from, to write to."""
    try:
        return os.openpty()
    except OSError:
        return os.pipe()


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
