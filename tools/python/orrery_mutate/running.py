"""Which tests reach a change, and whether one of them fails with it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

MEMORY = 8 << 30  # bytes of address space that a test may take
RUNS = "runs"  # the studies of `tools/digests --quick`, whose files must stay as they are
ROUNDS = (0.2, 1.0, 4.0, 16.0, math.inf)  # seconds of tests that are started together


@dataclasses.dataclass
class Case:
    program: str
    name: str
    seconds: float


@dataclasses.dataclass
class Coverage:
    """Test cases; of each change those that reach it, and those in which it makes a difference."""

    cases: list[Case]
    reached: dict[int, list[int]]
    differs: dict[int, list[int]]
    failing: list[str]  # cases that fail without any change; they judge nothing


class Runner:
    def __init__(self, scratch: pathlib.Path, programs: dict[str, pathlib.Path], command: pathlib.Path, home: pathlib.Path,
                 count: int, studies: list[str]) -> None:
        self.scratch, self.programs, self.command, self.home, self.count = scratch, programs, command, home, count
        self.studies = studies

    def environment(self, folder: str) -> dict[str, str]:
        env = dict(os.environ)
        env["TMPDIR"] = folder
        env["ORRERY_HOME"] = str(self.home)
        if "orrery" in self.programs:
            env["ORRERY_MUTANTS_COMMAND_FROM"] = str(self.command)
            env["ORRERY_MUTANTS_COMMAND_TO"] = str(self.programs["orrery"])
        return env

    def coverage(self) -> Coverage:
        digest = hashlib.sha256()
        digest.update(" ".join(self.studies).encode())
        for name in sorted(self.programs):
            digest.update(name.encode() + self.programs[name].read_bytes())
        stored = self.scratch / f"coverage-{digest.hexdigest()[:24]}.json"
        if not stored.exists():
            found = {name: self.watched(name) for name in sorted(self.programs) if name != "orrery"}
            stored.write_text(json.dumps(found | {RUNS: self.watched_runs()}))
        cases: list[Case] = []
        reached: dict[int, list[int]] = {}
        differs: dict[int, list[int]] = {}
        failing = []
        for program, lines in json.loads(stored.read_text()).items():
            for line in lines:
                name, passed, seconds, numbers = line.split("\t")
                if passed != "1":
                    failing.append(f"{program}: {name}")
                    continue
                for number in numbers.split():
                    reached.setdefault(int(number.rstrip("!")), []).append(len(cases))
                    if number.endswith("!"):
                        differs.setdefault(int(number[:-1]), []).append(len(cases))
                cases.append(Case(program, name, float(seconds)))
        return Coverage(cases, reached, differs, failing)

    def watched(self, name: str) -> list[str]:
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            seen, cases = pathlib.Path(folder) / "seen", pathlib.Path(folder) / "cases"
            seen.write_bytes(bytes(2 * self.count))
            cases.touch()
            env = self.environment(folder) | {"ORRERY_MUTANTS_SEEN": str(seen), "ORRERY_MUTANTS_CASES": str(cases),
                                              "ORRERY_MUTANTS_COUNT": str(self.count)}
            done = subprocess.run(["nice", str(self.programs[name]), "~[slow]"], cwd=folder, env=env, capture_output=True,
                                  text=True, check=False)
            (self.scratch / f"{name}.log").write_text(done.stdout[-20000:] + done.stderr[-5000:])
            if done.returncode < 0:
                raise RuntimeError(f"{name} ended by signal {-done.returncode} with no change on: {self.scratch}/{name}.log")
            return cases.read_text().splitlines()

    def digests(self, study: str) -> list[str]:
        return [sys.executable, str(self.home / "tools/python/orrery_digests"), "--runs", "--jobs", "1", "--orrery",
                str(self.programs["orrery"]), study]

    def watched_runs(self) -> list[str]:
        lines = []
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            seen = pathlib.Path(folder) / "seen"
            for study in self.studies:
                seen.write_bytes(bytes(2 * self.count))
                used = resource.getrusage(resource.RUSAGE_CHILDREN)
                done = subprocess.run(self.digests(study), cwd=folder, capture_output=True, check=False,
                                      env=self.environment(folder) | {"ORRERY_MUTANTS_SEEN": str(seen)})
                now = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
                flags = seen.read_bytes()
                numbers = " ".join(f"{i}{'!' if flags[2 * i + 1] else ''}" for i in range(self.count) if flags[2 * i])
                lines.append(f"{study}\t{int(done.returncode == 0)}\t{seconds:.4f}\t{numbers}")
        return lines

    def fails(self, program: str, cases: list[Case], number: int) -> bool:
        """Whether one of these test cases fails, crashes or takes far longer with a change."""
        seconds = sum(case.seconds for case in cases)
        limit = math.ceil(6 * seconds + 4)

        def limits() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 2))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.nice(5)

        folder = tempfile.mkdtemp(dir=self.scratch)
        try:
            names = pathlib.Path(folder) / "names"
            names.write_text("".join('"' + escaped(case.name) + '"\n' for case in cases))
            env = self.environment(folder) | {"ORRERY_MUTANT": str(number)}
            command = [str(self.programs[program]), "-a", "--input-file", str(names)] if program != RUNS else \
                self.digests(cases[0].name)
            process = subprocess.Popen(command, cwd=folder, env=env,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                       preexec_fn=limits, start_new_session=True)
            out = output_of(process, 8 * limit + 60)
            if out is None:
                return True
            if program != RUNS and process.returncode == 0 and "No test cases matched" in out or "No tests ran" in out:
                raise RuntimeError(f"{program}: no test case of {[case.name for case in cases]}")
            return process.returncode != 0
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def killed_by(self, number: int, cases: list[Case]) -> str:
        """The program that finds the change; empty if none does."""
        left = sorted(cases, key=lambda case: (case.seconds, case.program, case.name))
        for most in ROUNDS:
            batch: dict[str, list[Case]] = {}
            seconds = 0.0
            while left and (not batch or seconds + left[0].seconds <= most):
                case = left.pop(0)
                seconds += case.seconds
                batch.setdefault(case.program, []).append(case)
            for program, some in batch.items():
                for group in [some] if program != RUNS else [[case] for case in some]:
                    if self.fails(program, group, number):
                        return program
        return ""


def output_of(process: subprocess.Popen[str], seconds: float) -> str | None:
    """What it prints; nothing if it has not ended after so long (by its own limit of processor time it should have)."""
    while True:
        try:
            return process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            if pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T":
                continue  # somebody stopped it, which is not its fault
            os.killpg(process.pid, 9)
            process.communicate()
            return None


def escaped(name: str) -> str:
    """As Catch2 reads a name between quotes."""
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("[", "\\[").replace(",", "\\,")
