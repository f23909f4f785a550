#!/usr/bin/python3
"""Days of a cluster, and ten thousand runs in one process: memory stays flat and every ledger balances.

    tests/trust/soak.py [--hours H] [--runs N] [--seed S] [--only days|runs]

A day is simulated at three lengths (a 24th, a quarter, the whole of --hours), so that what grows with it shows. There
are two: `mixed` (all replicas alike, run until nobody is left) and `apart` (prefill and decode, cut off at its end).
Both have a daily curve of arrivals, two priorities, prompts that share prefixes, failures, migration, scaling, and KV
tiers to swap to and to load prefixes from.

What grows: a run keeps its latencies exactly for percentiles, a number for each metric and request (and once more for
each priority), up to 200,000 requests; past those a histogram of fixed size takes over. A sweep keeps what it
proposed and what came of it until its end, and SQLite up to 2 MB of pages.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import ledgers
import soak_runs
from orrery_properties.checks import Broken, Run
from orrery_properties.command import GIB, Orrery, cpu_seconds

ROOT = ledgers.ROOT
KINDS = ("mixed", "apart")
RATE = 4  # requests a second, mean over the day
REPLICAS = 8
REQUEST_BYTES = 320  # that a request may add to the peak of a day: ten latencies of 8 bytes, in vectors that double
SLACK_KIB = 4096  # of one peak against another
RUNS_KIB = 2048  # that the last half of the runs may add
POINT_BYTES = 768  # that a point of a sweep may add, of the last half
LEAST_POINTS = 2000  # a sweep holds 256 points at once: its memory rises over these, so that they be few of all
EXACT = 1_000_000  # requests whose latencies are kept
LONG_S = 3600  # most processor time of one command
SAMPLE_S = 0.1  # between two looks at a sweep

# Starts the command and tells its peak. A child's peak counts what its parent held when it forked: a small one forks.
LAUNCHER = """
import json, os, signal, sys
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
_, status, usage = os.wait4(child, 0)
open(sys.argv[1], "w").write(json.dumps({"peak_kib": usage.ru_maxrss, "cpu_s": usage.ru_utime + usage.ru_stime}))
code = os.waitstatus_to_exitcode(status)
sys.exit(code if code >= 0 else 128 - code)
"""


def day(kind: str, hours: float, seed: int) -> dict[str, Any]:
    """The config of a day that lasts so many hours; the curve of arrivals takes a day, or all of a shorter one."""
    span = hours * 3600
    scaling = {"policy": "target", "target": {"metric": "requests", "target": 12, "stabilisation": "120 s"}}
    bounds = {"least": 1, "initial": 2, "interval": "15 s", "start": {"scheduling": "1 s", "code": "10 s"}}
    found = {
        "system": "serving", "model": {"config": "catalog:llama-3.1-8b"},
        "machine": {"devices": [{"part": "l40s", "count": REPLICAS,
                                 "override": {"power": {"idle": f"{ledgers.IDLE_W} W"}}}]},
        "workload": {"generator": {
            "requests": int(RATE * span), "high_share": 0.1,
            "arrivals": {"policy": "diurnal", "diurnal": {"rate": f"{RATE} req/s", "peak_to_mean": 1.8, "phase": 0.75,
                                                          "period": f"{min(span, 86400)} s"}},
            "lengths": {"policy": "log_normal"}, "limits": {"prompt_max": 6000, "output_max": 1000, "total_max": 7500},
            "prefixes": {"depth": 2, "fanout": 6}}},
        "policies": {"batching": {"policy": "vllm_v0", "vllm_v0": {"preemption": "swap", "priorities": True}},
                     "kvcache": {"policy": "block_hash"}, "routing": {"policy": "llumnix"},
                     "migration": {"policy": "llumnix"},
                     "admission": {"policy": "queue_limit", "queue_limit": {"requests": 20}}, "scaling": scaling},
        # Replicas fail far more often than real ones, so that an hour has some.
        "cluster": {"replicas": [{"count": REPLICAS}], "scaling": bounds,
                    "failures": {"mtbf": "1800 s", "mttr": "120 s"}},
        "migration": {"bandwidth": "2.6 GB/s", "handshake": "9 ms", "interval": "200 ms"},
        "kv_tiers": {"tiers": [{"name": "host", "capacity": "1 GB", "bandwidth": "25 GB/s", "copy": "5 us"},
                               {"name": "nvme", "capacity": "10 GB", "bandwidth": "5 GB/s", "copy": "100 us"}],
                     "overlap": True, "prefixes": True},
        "replica": {"max_context": 8192, "kv_blocks": ledgers.KV_BLOCKS}, "slo": {"ttft": "2 s", "tbt": "200 ms"},
        "run": {"seed": seed, "series_interval": "60 s", "timeline": {"enabled": False}}}
    if kind == "apart":
        found["cluster"]["replicas"] = [{"name": "p", "count": 3, "role": "prefill"},
                                        {"name": "d", "count": 5, "role": "decode"}]
        found["cluster"]["decode_scaling"] = bounds
        found["policies"]["decode_scaling"] = scaling
        found["policies"]["scaling"] = {"policy": "target", "target": {**scaling["target"], "target": 2}}
        found["workload"]["generator"]["requests"] = int(1.2 * RATE * span) + 100
        found["run"]["until"] = f"{span} s"  # some are under way then, and unfinished
    return found


def plain(requests: int) -> dict[str, Any]:
    """Many short requests on one device, to see where their latencies stop taking memory."""
    return {"system": "serving", "machine": {"devices": [{"part": "l40s"}]},
            "model": {"config": "catalog:llama-3.1-8b"},
            "workload": {"generator": {"requests": requests,
                                       "arrivals": {"policy": "poisson", "poisson": {"rate": "4 req/s"}},
                                       "lengths": {"policy": "fixed", "fixed": {"prompt": 64, "output": 4}}}},
            "run": {"series_interval": "86400 s", "timeline": {"enabled": False}}}


def study(points: int, seed: int) -> dict[str, Any]:
    """A sweep over so many seeds."""
    return {"kind": "study", "version": 1, "base": soak_runs.CONFIG, "measures": {"e2e": "e2e_s.mean"},
            "parameters": [{"name": "seed", "path": "run.seed", "range": [seed, seed + points - 1], "type": "integer"}],
            "objectives": [{"minimise": "e2e"}]}


@dataclasses.dataclass
class Measured:
    """A run that ended well, and what it took."""

    folder: pathlib.Path
    requests: int
    peak_kib: int
    cpu_s: float


@dataclasses.dataclass
class Sample:
    """A process after so many runs."""

    runs: int
    rss_kib: int
    files: int
    threads: int


def grown(samples: list[Sample], bound_kib: float) -> list[str]:
    """What the last half of the samples has more of than the first."""
    half = len(samples) // 2
    if half < 2:
        return [f"only {len(samples)} samples"]
    found = []
    for name, bound in (("rss_kib", bound_kib), ("files", 1), ("threads", 0)):
        first, last = (max(getattr(one, name) for one in part) for part in (samples[:half], samples[half:]))
        if last - first > bound:
            found.append(f"{name} goes from {first} in the first half to {last} in the last, by more than {bound:.0f}")
    return found


def risen(days: list[Measured]) -> list[str]:
    """Peaks that rise by more than what each further request may keep."""
    found = []
    for short, long in zip(days, days[1:]):
        most = short.peak_kib + SLACK_KIB + (long.requests - short.requests) * REQUEST_BYTES / 1024
        if long.peak_kib > most:
            found.append(f"{long.requests} requests peak at {long.peak_kib} KiB, {short.requests} at {short.peak_kib}: "
                         f"more than {REQUEST_BYTES} B a request and {SLACK_KIB} KiB")
    return found


class Soak:
    """Runs the bench in a scratch folder, and prints a line for each part."""

    def __init__(self, program: pathlib.Path, scratch: pathlib.Path, seed: int) -> None:
        self.program, self.scratch, self.seed = program.resolve(), scratch, seed
        self.orrery = Orrery(program, ROOT, seconds=LONG_S, memory=4 * GIB)
        self.launcher = Orrery(pathlib.Path(sys.executable), ROOT, seconds=LONG_S, memory=4 * GIB)
        self.wrong: list[str] = []
        self.left_out: list[str] = []

    def tell(self, what: str, text: str, wrong: list[str]) -> None:
        self.wrong += [f"{what}: {one}" for one in wrong]
        print(f"{what:22} {text}{''.join(f'{chr(10)}  {one}' for one in wrong)}", flush=True)

    def leave_out(self, what: str) -> None:
        """A build without the Python package has less to test."""
        self.left_out.append(what)
        print(f"{what:22} left out: the Python package is not there", flush=True)

    def measured(self, name: str, config: dict[str, Any]) -> Measured:
        """Runs a config in a process of its own."""
        folder = self.scratch / name
        folder.mkdir()
        (folder / "c.json").write_text(json.dumps(config))
        words = [str(self.program), "run", "c.json", "--out", "out", "--quiet"]
        ended = self.launcher.run(["-SEc", LAUNCHER, "usage.json", *words], folder)
        if ended.code != 0:
            raise RuntimeError(f"{name}: exit code {ended.code}, {ended.said}")
        usage = json.loads((folder / "usage.json").read_text())
        arrived = json.loads((folder / "out/summary.json").read_text())["requests"]["arrived"]
        return Measured(folder / "out", arrived, usage["peak_kib"], usage["cpu_s"])

    # -- days ---------------------------------------------------------------------------------------------------------

    def days(self, hours: float) -> None:
        """Both kinds of day at three lengths: ledgers of each, peaks of one against the other."""
        print(f"{'':22} {'requests':>9} {'peak MiB':>9} {'CPU s':>7} {'failed':>6} {'again':>6} {'moved':>6} "
              f"{'starts':>6}  ledgers")
        for kind in KINDS:
            lengths = (hours / 24, hours / 4, hours)
            all_days = [self.measured(f"{kind}-{length:g}h", day(kind, length, self.seed)) for length in lengths]
            for length, one in zip(lengths, all_days):
                self.ledger(f"{kind}, {length:.4g} h", one, full=length >= 1)
            short, long = all_days[-2:]
            added = (long.peak_kib - short.peak_kib) * 1024 / (long.requests - short.requests)
            self.tell(f"{kind}, memory", f"{added:.0f} B a further request", risen(all_days))
            self.timeline(kind, min(hours, 1))
        if hours >= 24:
            self.plateau()

    def ledger(self, what: str, one: Measured, full: bool) -> None:
        """Checks a day; a short one need not have seen all that can happen."""
        run = Run(one.folder)
        wrong = [text for text in ledgers.broken(run) if full or not text.startswith("happens:")]
        cluster = run.summary["cluster"]
        counts = (cluster["failures"], cluster["rerouted"], cluster["migrations"]["completed"],
                  cluster["cold_starts"]["count"])
        self.tell(what, f"{one.requests:9} {one.peak_kib / 1024:9.1f} {one.cpu_s:7.1f} "
                  f"{' '.join(f'{count:6}' for count in counts)}  {'balanced' if not wrong else 'WRONG'}", wrong)

    def timeline(self, kind: str, hours: float) -> None:
        """The same of an hour as its timeline shows it."""
        try:
            import orrery
        except ImportError:
            return self.leave_out(f"{kind}, timeline")
        config = day(kind, hours, self.seed)
        config["run"]["timeline"] = {"iterations": 10**9, "operators": 0, "counter_interval": "60 s", "limit": "4 GiB"}
        one = self.measured(f"{kind}-timeline", config)
        slices, wrong = orrery.Timeline(one.folder / "timeline.pftrace").slices, []
        try:
            ledgers.timeline(Run(one.folder), slices)
        except Broken as told:
            wrong.append(str(told))
        verdict = "as counted" if not wrong else "WRONG"
        self.tell(f"{kind}, timeline", f"{len(slices)} slices of {hours:g} h, {verdict}", wrong)

    def plateau(self) -> None:
        """Past a million requests a run takes no more memory."""
        few, many = (self.measured(f"plain-{count}", plain(count)) for count in (6 * EXACT // 5, 12 * EXACT // 5))
        wrong = [] if many.peak_kib <= few.peak_kib + RUNS_KIB else ["memory grows past a million requests"]
        self.tell("plain", f"{few.requests} requests {few.peak_kib / 1024:.1f} MiB, {many.requests} "
                  f"{many.peak_kib / 1024:.1f} MiB; {few.cpu_s + many.cpu_s:.1f} s", wrong)

    # -- runs ---------------------------------------------------------------------------------------------------------

    def told(self, what: str, samples: list[Sample], bound_kib: float, begin: float) -> None:
        half = len(samples) // 2
        halves = [max((one.rss_kib for one in part), default=0) / 1024 for part in (samples[:half], samples[half:])]
        last = samples[-1] if samples else Sample(0, 0, 0, 0)
        self.tell(what, f"{last.runs} runs: peak {halves[0]:.1f} MiB in the first half, {halves[1]:.1f} in the last; "
                  f"{last.files} files, {last.threads} threads; {cpu_seconds() - begin:.1f} s",
                  grown(samples, bound_kib))

    def in_python(self, runs: int) -> None:
        """Runs one after the other in one interpreter."""
        begin = cpu_seconds()
        ended = subprocess.run([sys.executable, soak_runs.__file__, str(runs), str(self.seed)], text=True,
                               capture_output=True, check=False, env={**os.environ, "ORRERY_HOME": str(ROOT)})
        if ended.returncode != 0:
            last = ended.stderr.strip().split("\n")[-1]
            return self.leave_out("Python") if "No module named 'orrery" in last else self.tell("Python", "", [last])
        self.told("Python", [Sample(**json.loads(line)) for line in ended.stdout.splitlines()], RUNS_KIB, begin)

    def in_a_sweep(self, points: int) -> None:
        """Points of a sweep in one thread. They all take about as long, so time tells how many are done."""
        points = max(points, LEAST_POINTS)
        begin, folder = cpu_seconds(), self.scratch / "sweep"
        folder.mkdir()
        (folder / "s.json").write_text(json.dumps(study(points, self.seed)))
        process = self.orrery.start(["sweep", "s.json", "--out", "s.sqlite", "--jobs", "1", "--quiet"], folder,
                                    stdout=subprocess.DEVNULL)
        seen = []
        while process.poll() is None:
            time.sleep(SAMPLE_S)
            try:
                seen.append(soak_runs.state(process.pid))
            except OSError:
                break  # it has ended
        _, err = process.communicate()
        if process.returncode != 0:
            return self.tell("sweep", "", [f"exit code {process.returncode}: {err.decode(errors='replace').strip()}"])
        seen = [one for one in seen if one["rss_kib"]]  # one that is ending has no memory any longer
        samples = [Sample((i + 1) * points // len(seen), **one) for i, one in enumerate(seen)]
        self.told("sweep --jobs 1", samples, 1024 + points / 2 * POINT_BYTES / 1024, begin)


def soak(program: pathlib.Path, hours: float, runs: int, seed: int, only: str = "") -> Soak:
    """The whole bench: `wrong` of what is given back tells what is."""
    begin, cpu = time.monotonic(), cpu_seconds()
    with tempfile.TemporaryDirectory(prefix="orrery-soak-") as scratch:
        bench = Soak(program, pathlib.Path(scratch), seed)
        if only != "runs":
            bench.days(hours)
        if only != "days":
            bench.in_python(runs)
            bench.in_a_sweep(runs)
    print(f"{len(bench.wrong)} things wrong; {cpu_seconds() - cpu:.0f} s of processor time, "
          f"{time.monotonic() - begin:.0f} s")
    return bench


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/trust/soak.py", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=24, help="simulated hours of the longest day (default: 24)")
    parser.add_argument("--runs", type=int, default=10_000,
                        help="runs in one process, and points of a sweep (default: 10000)")
    parser.add_argument("--seed", type=int, default=1, help="of arrivals, lengths and failures (default: 1)")
    parser.add_argument("--only", choices=("days", "runs"), default="", help="one half of the bench")
    parser.add_argument("--orrery", type=pathlib.Path,
                        default=os.environ.get("ORRERY_COMMAND", ROOT / "build/release/orrery"))
    options = parser.parse_args()
    return 1 if soak(options.orrery, options.hours, options.runs, options.seed, options.only).wrong else 0


if __name__ == "__main__":
    sys.exit(main())
