"""The command under limits of time and memory: whatever it is given, the caller goes on."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import resource
import signal
import subprocess
import time

GIB = 1 << 30
TERM_GRACE_S = 3.0  # what a command has to end in after SIGTERM
MOST_WALL = 6  # times the limit of processor time: for one that waits


@dataclasses.dataclass
class Ended:
    """How a command ended."""

    code: int  # minus the signal's number where one ended it
    out: str
    err: str
    seconds: float
    late: str = ""  # "": in time; "stopped": SIGTERM ended it; "stuck": only SIGKILL did

    @property
    def said(self) -> str:
        """The first line on stderr."""
        return self.err.strip().split("\n")[0]


class Orrery:
    """The command, with limits that every run of it has. Time is the processor's, so that a busy machine decides nothing."""

    def __init__(self, program: pathlib.Path, home: pathlib.Path, seconds: float = 10, memory: int = GIB) -> None:
        self.program, self.home, self.seconds, self.memory = program.resolve(), home.resolve(), seconds, memory
        self.count = 0

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        """A plain one: no locale, plugin or colour of the caller's takes part."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "ORRERY_PYTHON") if name in os.environ}
        return {**kept, "ORRERY_HOME": str(self.home), "LC_ALL": "C", "TZ": "UTC", **(extra or {})}

    def start(self, arguments: list[str], folder: pathlib.Path, *, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
              env: dict[str, str] | None = None, memory: int | None = None, largest_file: int | None = None,
              group: bool = False) -> subprocess.Popen:
        """Begins the command in `folder` and leaves it running; with `group` in a process group of its own."""
        limit = self.memory if memory is None else memory

        def confine() -> None:
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            if largest_file is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails then, as on a full disk
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

        self.count += 1
        return subprocess.Popen([str(self.program), *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout,
                                stderr=stderr, env=self.environment(env), preexec_fn=confine, start_new_session=group)

    def run(self, arguments: list[str], folder: pathlib.Path, *, seconds: float | None = None, **kind) -> Ended:
        """Runs the command to its end; one that takes too long is told to end, and then made to."""
        limit = self.seconds if seconds is None else seconds
        begin = time.monotonic()
        process = self.start(arguments, folder, **kind)
        late = ""
        while True:
            try:
                out, err = process.communicate(timeout=0.5 if not late else TERM_GRACE_S)
                break
            except subprocess.TimeoutExpired:
                if late:
                    process.kill()
                    late = "stuck"
                elif processor_time(process.pid) > limit or time.monotonic() - begin > MOST_WALL * limit:
                    process.terminate()
                    late = "stopped"
        return Ended(process.returncode, (out or b"").decode(errors="replace"), (err or b"").decode(errors="replace"),
                     time.monotonic() - begin, late)


def processor_time(pid: int) -> float:
    """Seconds of processor time of a process that runs."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0  # it has just ended
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fault_of(ended: Ended, memory: int) -> str:
    """What is wrong with how a command ended, whatever it was given; empty if nothing is."""
    if ended.late == "stuck":
        return "hangs: neither ends nor heeds SIGTERM"
    if ended.late == "stopped":
        # What only reads and prints may die of the signal itself: it has nothing to take away.
        return "" if ended.code in (130, -signal.SIGTERM) else f"exit code {ended.code} after SIGTERM, not 130"
    if "internal fault" in ended.err:
        return f"internal fault: {ended.said}"
    if ended.code < 0:
        return f"dies of signal {-ended.code} (limit of memory: {memory >> 20} MiB)"
    if ended.code not in (0, 2):
        return f"exit code {ended.code}: {ended.said}"
    if ended.code == 2 and not ended.err.strip():
        return "exit code 2 without a word on stderr"
    return ""


def cpu_seconds() -> float:
    """Processor time of this process and of all commands that ended."""
    mine, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime
