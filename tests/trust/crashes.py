#!/usr/bin/python3
"""Commands that are stopped, killed, or have no place for their answer; and the run after that.

    tests/trust/crashes.py [--kills N] [--seed N] [--job NAME]   # the matrix; with --kills N kills of each at random moments

Interrupted, a command ends with 130 and leaves nothing but what it can go on from and a working folder, `.NAME.PID`. Killed,
it leaves nothing under the name of its answer. The next run there clears up and gives what an undisturbed one gives. Where an
answer cannot be written the exit code is not 0.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

from orrery_properties.command import Ended, Orrery, cpu_seconds  # noqa: E402

STUDIES = ROOT / "experiments/studies"
SHARE = 0.45  # of its processor time after which a command is stopped
GRACE_S = 5.0  # what a command has to end in after a signal
POLL_S = 0.002
MEMORY = 4 << 30
INTERRUPTED = 130

SERVING = {"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb"}]}, "model": {"config": "catalog:llama-2-7b"},
           "workload": {"generator": {"requests": 60000, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 req/s"}},
                                      "lengths": {"policy": "uniform"}}}}
FEW = {**SERVING, "workload": {**SERVING["workload"], "limit": 200}}
CAPACITY = {**SERVING, "slo": {"ttft": "2 s", "tbt": "200 ms"},
            "capacity": {"requests": 4000, "max_requests": 8000, "replications": 2, "tolerance": 0.05, "suggest": False}}
# One simulation that takes a minute: what stops a command between two of many is not enough to stop it there.
LONG = {**SERVING, "workload": {"generator": {**SERVING["workload"]["generator"], "requests": 3_000_000}},
        "slo": {"ttft": "2 s", "tbt": "200 ms"}, "capacity": {"requests": 3_000_000, "max_requests": 3_000_000},
        "slo_sweep": {"rates": ["4 req/s"], "requests": 3_000_000, "max_requests": 3_000_000}, "plans": {"once": True}}
LONG_STUDY = {"kind": "study", "version": 1, "base": {key: LONG[key] for key in SERVING}, "measures": {"e2e": "e2e_s.mean"},
              "parameters": [{"name": "seed", "path": "run.seed", "values": [1, 2]}], "objectives": [{"minimise": "e2e"}],
              "search": {"driver": {"policy": "grid"}, "budget": 2, "batch": 1}}
INPUTS = {"run.json": SERVING, "few.json": FEW, "capacity.json": CAPACITY, "study.json": LONG_STUDY,
          **{f"long_{system}.json": {key: value for key, value in LONG.items() if key in (*SERVING, "slo", section)}
             for system, section in (("run", ""), ("capacity", "capacity"), ("slo", "slo_sweep"), ("plans", "plans"))}}


@dataclasses.dataclass(frozen=True)
class Job:
    """A command that takes about half a second, and where it leaves its answer."""

    name: str
    arguments: tuple[str, ...]
    out: str  # the answer's name, which stands in the arguments as OUT
    resume: tuple[str, ...] = ()  # more arguments of a run that goes on
    keeps: tuple[str, ...] = ()  # names that an interrupted one may leave, to go on from
    room: int = 16384  # bytes in which its answer has no room

    def words(self, out: str) -> list[str]:
        return [out if word == "OUT" else word for word in self.arguments]


def store(name: str, more: tuple[str, ...]) -> Job:
    out = f"{name}.sqlite"
    return Job(name, (name, str(STUDIES / "sweep_serving.json"), "--out", "OUT", "--jobs", "1", "--quiet", *more), out,
               ("--resume",), (out, f"{out}-wal", f"{out}-shm"))


JOBS = [
    Job("run", ("run", "run.json", "--out", "OUT", "--quiet"), "run"),
    store("sweep", ("--set", "base.workload.limit=60")),
    store("search", ("--set", "base.workload.limit=60", "--set", "search.budget=80")),
    Job("train", ("train", str(STUDIES / "rl_bandit.json"), "--out", "OUT", "--seeds", "1", "--steps", "8000", "--state", "state",
                  "--quiet"), "trained", keeps=("state",)),
    Job("evolve", ("evolve", str(STUDIES / "evolve_queue.json"), "--out", "OUT", "--jobs", "1", "--quiet", "--set",
                   "search.generations=1", "--set", "base.workload.limit=60"), "evolved", room=4096),
    Job("report", ("report", "few", "--png", "no", "--out", "OUT"), "page.html"),
    Job("capacity", ("capacity", "capacity.json", "--out", "OUT", "--quiet"), "capacity", room=4096),
]


LONG_JOBS = [
    *(Job(name, (name, f"long_{name}.json", "--out", "OUT", "--quiet"), "answer")
      for name in ("run", "capacity", "slo", "plans")),
    *(Job(name, (name, "study.json", "--out", "OUT", "--jobs", "1", "--quiet"), "long.sqlite",
          keeps=("long.sqlite", "long.sqlite-wal", "long.sqlite-shm")) for name in ("sweep", "search")),
    Job("train", ("train", str(STUDIES / "rl_bandit.json"), "--out", "OUT", "--seeds", "1", "--steps", "100000000", "--quiet"),
        "trained"),
    Job("evolve", ("evolve", str(STUDIES / "evolve_queue.json"), "--out", "OUT", "--jobs", "1", "--quiet", "--set",
                   "base.workload.generator.requests=300000"), "evolved"),
]
LONG_S = 0.6  # processor time after which they are stopped


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += family(int(child))
    return found


def processor_time(pid: int) -> float:
    """Of a running process and its children, in seconds; those that ended count too."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError, IndexError):
            fields = pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:13])) + (sum(map(int, fields[13:15])) if one == pid else 0)
    return total / os.sysconf("SC_CLK_TCK")


def alive(group: int) -> bool:
    """Whether any process of a group is there still."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def is_working_folder(name: str, out: str) -> bool:
    """Whether a name is that of a folder in which an answer is being made, which the next run takes away."""
    front, _, number = name.rpartition(".")
    return front == f".{out}" and number.isdigit()


class Bench:
    """Runs jobs in a folder, disturbed and undisturbed."""

    def __init__(self, program: pathlib.Path, scratch: pathlib.Path) -> None:
        self.orrery = Orrery(program, ROOT, seconds=60, memory=MEMORY)
        self.scratch = scratch
        self.whole: dict[str, tuple[dict[str, bytes], float]] = {}
        self.inputs = scratch / "inputs"
        self.inputs.mkdir()
        for name, document in INPUTS.items():
            (self.inputs / name).write_text(json.dumps(document))
        made = self.orrery.run(["run", "few.json", "--out", "few", "--quiet"], self.inputs)
        if made.code != 0:
            raise RuntimeError(f"orrery run: {made.said}")

    def folder(self, name: str) -> pathlib.Path:
        """A fresh one with the inputs in it."""
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in self.inputs.iterdir():
            (folder / path.name).symlink_to(path)
        return folder

    def made(self, folder: pathlib.Path) -> list[str]:
        """What stands in a folder beside the inputs."""
        return sorted(path.name for path in folder.iterdir() if not path.is_symlink())

    def answer(self, job: Job, folder: pathlib.Path) -> dict[str, bytes]:
        """The bytes that count: the rows of a store, all but what a folder of results says of its run."""
        out = folder / job.out
        if out.suffix == ".sqlite":
            exported = self.orrery.run(["export", job.out], folder)
            return {"points": exported.out.encode() or exported.err.encode()}
        if out.is_file():
            return {job.out: out.read_bytes()}
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*"))
                if path.is_file() and path.name != "manifest.json"}

    def undisturbed(self, job: Job) -> tuple[dict[str, bytes], float]:
        """The answer, and the processor time that it takes. Asked for twice, it is the one of the first time."""
        if job.name not in self.whole:
            folder, before = self.folder(f"{job.name}-whole"), cpu_seconds()
            ended = self.orrery.run(job.words(job.out), folder)
            seconds = cpu_seconds() - before
            if ended.code != 0:
                raise RuntimeError(f"orrery {job.name}: exit code {ended.code}, {ended.said}")
            self.whole[job.name] = self.answer(job, folder), seconds
        return self.whole[job.name]

    def stop(self, job: Job, folder: pathlib.Path, number: int, after: float, more: tuple[str, ...] = ()) -> tuple[Ended, bool]:
        """Sends a signal after so much processor time; and whether a process outlives the command."""
        process = self.orrery.start([*job.words(job.out), *more], folder, group=True)
        while processor_time(process.pid) < after and process.poll() is None:
            time.sleep(POLL_S)
        begin = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        late = ""
        try:
            out, err = process.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            late = "stuck"
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        outlived = alive(process.pid)
        if outlived:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        ended = Ended(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), time.monotonic() - begin, late)
        return ended, outlived

    # -- what must hold -----------------------------------------------------------------------------------------------

    def after_signal(self, job: Job, number: int, again: bool) -> list[str]:
        """What is wrong after a signal in the middle, and with `again` of the run that follows in the same folder."""
        _, seconds = self.undisturbed(job)
        name = signal.Signals(number).name
        for share in (SHARE, SHARE / 3):  # one that has ended before is tried once more, earlier
            folder = self.folder(f"{job.name}-{name}")
            ended, outlived = self.stop(job, folder, number, share * seconds)
            if ended.code != 0:
                break
        else:
            return ["ends before the signal comes, or does not heed it and ends with 0"]
        return self.wrong(job, folder, number, ended, outlived) + (self.wrong_again(job, folder) if again else [])

    def wrong(self, job: Job, folder: pathlib.Path, number: int, ended: Ended, outlived: bool) -> list[str]:
        left = [name for name in self.made(folder) if name not in job.keeps and not is_working_folder(name, job.out)]
        found = []
        if ended.late:
            found.append(f"does not end within {GRACE_S:.0f} s of the signal")
        if number != signal.SIGKILL and not ended.late:
            if ended.code != INTERRUPTED:
                found.append(f"exit code {ended.code} in place of {INTERRUPTED}: {ended.said}")
            if left:
                found.append(f"leaves {', '.join(left)}")
            if outlived:
                found.append("leaves a process that goes on")
            if "internal fault" in ended.err:
                found.append(ended.said)
        if number == signal.SIGKILL and job.out in left and self.answer(job, folder) != self.undisturbed(job)[0]:
            found.append("has put part of an answer under its name")  # a whole one may have come just in time
        return found

    def wrong_again(self, job: Job, folder: pathlib.Path) -> list[str]:
        """Of the next run in a folder where one was stopped: it gives the undisturbed answer and leaves only that."""
        more = job.resume if (folder / job.out).exists() else ()
        ended = self.orrery.run([*job.words(job.out), *more], folder)
        if ended.code != 0:
            return [f"the next run: exit code {ended.code}, {ended.said}"]
        found = []
        differ = [name for name, content in self.undisturbed(job)[0].items() if self.answer(job, folder).get(name) != content]
        if differ:
            found.append(f"the next run: {', '.join(differ)} not as undisturbed")
        left = [name for name in self.made(folder) if name != job.out and name not in job.keeps]
        if left:
            found.append(f"the next run does not clear up {', '.join(left)}")
        return found

    def without_answer(self, job: Job, folder: pathlib.Path, ended: Ended, codes: tuple[int, ...]) -> list[str]:
        """What is wrong where the answer had no place to go."""
        found = []
        if ended.late or ended.code not in codes:
            found.append(f"exit code {ended.code}{' after ' + str(ended.late) if ended.late else ''}, "
                         f"{' or '.join(map(str, codes))} expected: {ended.said}")
        if "internal fault" in ended.err:
            found.append(f"internal fault: {ended.said}")
        if not ended.err.strip() and ended.code >= 0:
            found.append("not a word on stderr")
        left = [name for name in self.made(folder) if name != "file" and name not in job.keeps]
        if left:
            found.append(f"leaves {', '.join(left)}")
        return found

    def broken_stdout(self, job: Job, pipe: bool) -> list[str]:
        """Nobody reads stdout, or its disk is full: what is printed is an answer too, and lost."""
        folder = self.folder(f"{job.name}-stdout")
        if pipe:
            reader, writer = os.pipe()
            os.close(reader)
        else:
            writer = os.open("/dev/full", os.O_WRONLY)
        try:
            ended = self.orrery.run(job.words(job.out), folder, stdout=writer)
        finally:
            os.close(writer)
        if ended.code == 0:
            return ["exit code 0, though what it printed is lost"]
        found = ["internal fault: " + ended.said] if "internal fault" in ended.err else []
        return found + ([] if pipe or ended.err.strip() else ["not a word on stderr"])

    def full_disk(self, job: Job) -> list[str]:
        folder = self.folder(f"{job.name}-full")
        with small_disk(self.scratch / "disk", job.room) as disk:
            out = disk / job.out if disk else folder / job.out
            ended = self.orrery.run(job.words(str(out)), folder, largest_file=None if disk else job.room)
            left = [path.name for path in disk.iterdir() if path.name not in job.keeps] if disk else []
        # A store says so with 1 and goes on when there is room (docs/explain/studies.md).
        return self.without_answer(job, folder, ended, (1, 2)) + ([f"leaves {', '.join(left)} on the full disk"] if left else [])

    def bad_place(self, job: Job) -> list[str]:
        """Under a file, and where not even root may write."""
        found = []
        for place in ("file/out", "/proc/orrery/out"):
            folder = self.folder(f"{job.name}-place")
            (folder / "file").write_text("a file\n")
            ended = self.orrery.run(job.words(place + pathlib.PurePath(job.out).suffix), folder)
            found += [f"{place}: {what}" for what in self.without_answer(job, folder, ended, (2,))]
        return found

    def cases(self, job: Job) -> Iterator[tuple[str, list[str]]]:
        """The row of the matrix: every way to be disturbed, and what is wrong then."""
        for name in ("KILL", "TERM", "INT", "HUP"):
            yield name, self.after_signal(job, signal.Signals[f"SIG{name}"], again=name in ("KILL", "TERM"))
        yield "PIPE", self.broken_stdout(job, pipe=True)
        yield "full stdout", self.broken_stdout(job, pipe=False)
        yield "full disk", self.full_disk(job)
        yield "no place", self.bad_place(job)

    def in_the_middle(self, job: Job) -> list[str]:
        """Interrupted in one long simulation, a command ends at once."""
        folder = self.folder(f"{job.name}-long")
        ended, outlived = self.stop(job, folder, signal.SIGTERM, LONG_S)
        return self.wrong(job, folder, signal.SIGTERM, ended, outlived)

    def kills(self, job: Job, count: int, stream: random.Random) -> list[str]:
        """Stopped again and again at random moments in one folder, until it may end: the answer is the undisturbed one."""
        _, seconds = self.undisturbed(job)
        folder, found = self.folder(f"{job.name}-kills"), []
        for kill in range(count):
            number = stream.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
            more = job.resume if (folder / job.out).exists() else ()
            before = set(self.made(folder))
            ended, outlived = self.stop(job, folder, number, stream.random() * seconds, more)
            new = {name for name in set(self.made(folder)) - before - set(job.keeps) if not is_working_folder(name, job.out)}
            what = []
            if ended.code == 0:  # it was quicker
                what = [f"has another answer: {name}" for name, content in self.undisturbed(job)[0].items()
                        if self.answer(job, folder).get(name) != content]
                folder = self.folder(f"{job.name}-kills")
            elif number == signal.SIGKILL:
                what = self.wrong(job, folder, number, ended, outlived)
            elif ended.code == -number and not new and not outlived:
                pass  # so early that there was nothing to take away
            elif ended.code != INTERRUPTED or ended.late or new:
                what = [f"exit code {ended.code} {ended.late}, leaves {', '.join(new) or 'nothing'}: {ended.said}"]
            found += [f"kill {kill}, {signal.Signals(number).name}: {one}" for one in what]
        return found + self.wrong_again(job, folder)


@contextlib.contextmanager
def small_disk(place: pathlib.Path, size: int) -> Iterator[pathlib.Path | None]:
    """A file system with little room; None where it cannot be mounted."""
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


def told(job: Job, case: str, found: list[str]) -> int:
    """Prints a case, and returns how much is wrong."""
    print(f"{job.name:9} {case:12} {'; '.join(found) or 'as it should be'}", flush=True)
    return len(found)


# Commands are told by signals; one that is ignored here (SIGHUP under nohup, SIGINT behind a shell's &) would be by them too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/trust/crashes.py", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=0, help="kills of each command at random moments, in place of the matrix")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--job", action="append", choices=sorted({job.name for job in JOBS + LONG_JOBS}),
                        help="this command alone (may be repeated)")
    parser.add_argument("--orrery", type=pathlib.Path, default=os.environ.get("ORRERY_COMMAND", ROOT / "build/release/orrery"))
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="orrery-crashes-") as scratch:
        bench = Bench(options.orrery, pathlib.Path(scratch))
        for job in JOBS:
            if options.job and job.name not in options.job:
                continue
            stream = random.Random(f"{options.seed}/{job.name}")
            cases = bench.cases(job)
            if options.kills:
                cases = iter([(f"{options.kills} kills", bench.kills(job, options.kills, stream))])
            wrong += sum(told(job, case, found) for case, found in cases)
        for job in LONG_JOBS if not options.kills else []:
            if not options.job or job.name in options.job:
                wrong += told(job, "long, TERM", bench.in_the_middle(job))
        print(f"{wrong} things wrong; {bench.orrery.count} commands, {cpu_seconds():.0f} s of processor time")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
