"""What must hold of every serving run: conservation, capacity, energy, and the same bytes whatever may not matter."""

from __future__ import annotations

import collections
import csv
import dataclasses
import fractions
import json
import pathlib
import shutil
from typing import Any

from .command import Ended, Orrery, fault_of

CLOSE = 1e-7  # of sums of figures that are printed with nine digits
# Requests of a capacity search and of plans: both run the config many times.
SHORT_CAPACITY = {"capacity": {"max_requests": 120, "requests": 30, "replications": 2, "tolerance": 0.5, "suggest": False},
                  "slo": {"ttft": "2 s", "tbt": "200 ms"}}


@dataclasses.dataclass(frozen=True)
class Finding:
    check: str
    message: str


class Broken(Exception):
    """A property that does not hold; the text says how."""


def must(holds: bool, message: str) -> None:
    if not holds:
        raise Broken(message)


def close(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * max(abs(a), abs(b), 1e-3)


def table(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


class Run:
    """What a run wrote."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.files = {str(path.relative_to(folder)): path.read_bytes()
                      for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "manifest.json"}
        self.summary = json.loads(self.files["summary.json"])
        self.requests = table(folder / "requests.csv") if "requests.csv" in self.files else []


# -- of one run -------------------------------------------------------------------------------------------------------


def reason(run: Run) -> None:
    """A design that does not fit, or a run that says nothing, tells why."""
    summary = run.summary
    if summary["status"] != "ok":
        must(isinstance(summary.get("reason"), str) and summary["reason"] != "", f"status {summary['status']} without a reason")


def conservation(run: Run) -> None:
    """Whoever arrives is completed, rejected or unfinished; the table's rows are the summary's counts."""
    if not run.requests:
        return
    told = run.summary["requests"]
    must(told["arrived"] == told["completed"] + told["rejected"] + told["unfinished"],
         "{arrived} arrived, {completed} completed, {rejected} rejected, {unfinished} unfinished".format(**told))
    must(sum(told["rejected_by_reason"].values()) == told["rejected"], "rejections by reason are not all rejections")
    rows = collections.Counter(row["status"].split(":")[0] for row in run.requests)
    for status in ("completed", "rejected", "unfinished"):
        must(rows[status] == told[status], f"{rows[status]} rows are {status}, the summary tells {told[status]}")
    must(len({row["id"] for row in run.requests}) == len(run.requests), "a request has two rows")
    reasons = collections.Counter(row["status"].partition(":")[2] for row in run.requests
                                  if row["status"].startswith("rejected"))
    must(dict(reasons) == {name: count for name, count in told["rejected_by_reason"].items() if count},
         f"reasons of rejection: {dict(reasons)} in the table, {told['rejected_by_reason']} in the summary")


def tokens(run: Run) -> None:
    """Tokens of the completed requests' rows are the summary's; none has more cached than its prompt is long."""
    if not run.requests:
        return
    for name in ("prompt", "output"):
        count = sum(int(row[f"{name}_tokens"]) for row in run.requests if row["status"] == "completed")
        told = run.summary["tokens"][name]
        must(count == told, f"{count} {name} tokens in the table, {told} in the summary")
    for row in run.requests:
        must(int(row["cached_tokens"]) <= int(row["prompt_tokens"]), f"request {row['id']}: more cached than prompt")


def order(run: Run) -> None:
    """Arrived, admitted, first token, finished, end of the run: none before the one that it follows. Times are exact."""
    for row in run.requests:
        steps = [(name, fractions.Fraction(row[f"{name}_s"])) for name in ("arrived", "admitted", "first_token", "finished")
                 if row[f"{name}_s"] != ""]
        for (before, early), (after, late) in zip(steps, steps[1:]):
            must(early <= late, f"request {row['id']}: {after} at {float(late)} s, {before} at {float(early)} s")
        if row["status"] == "completed":
            must(len(steps) == 4, f"request {row['id']} is completed, but only {', '.join(name for name, _ in steps)}")
    if run.requests and run.summary.get("simulated_s") is not None:
        last = max((float(row["finished_s"]) for row in run.requests if row["finished_s"]), default=0)
        must(last <= run.summary["simulated_s"] * (1 + 1e-12), f"a request finishes at {last} s, after the end of the run")


def capacity(run: Run) -> None:
    """No device ever holds more KV than there is room for."""
    memory = run.summary.get("memory_bytes")
    if not memory:
        return
    room = memory["kv_capacity"]
    must(memory["kv_peak"] <= room, f"KV peaks at {memory['kv_peak']} of {room} bytes")
    must(memory["peak"] <= memory["weights"] + room, "weights and KV exceed what was set aside for them")
    for row in table(run.folder / "series.csv"):
        used = int(float(row["kv_used_bytes"]))
        must(used <= room, f"{used} bytes of KV in use at {row['time_s']} s, {room} there")


def energy(run: Run) -> None:
    """The rows of energy.csv add up to the summary: all of them, the idle ones, and those of operators."""
    told = run.summary.get("energy_j")
    if not told:
        return
    rows = table(run.folder / "energy.csv")
    idle = sum(float(row["energy_j"]) for row in rows if row["class"] == "idle")
    work = sum(float(row["energy_j"]) for row in rows if row["class"] != "idle")
    must(close(idle + work, told["total"]), f"rows add up to {idle + work} J, the total is {told['total']} J")
    must(close(idle, told["idle"]), f"idle rows add up to {idle} J, the summary tells {told['idle']} J")
    parts = told["compute"] + told["memory"] + told["network"]
    must(close(work, parts), f"rows of operators add up to {work} J, compute, memory and network to {parts} J")
    for row in rows:
        must(float(row["energy_j"]) >= 0 and float(row["busy_s"]) >= 0, f"a negative row of {row['device']}, {row['class']}")


def replicas(run: Run) -> None:
    """What replicas did adds up to the summary, and of each to the rows of those that ended there."""
    rows = run.summary.get("replicas")
    if not rows:
        return
    told = run.summary
    sums = {"completed": told["requests"]["completed"], "output_tokens": told["tokens"]["output"],
            "processed_tokens": told["tokens"]["processed"], "iterations": told["iterations"],
            "preemptions": told["requests"]["preemptions"]}
    for name, total in sums.items():
        count = sum(row[name] for row in rows)
        must(count == total, f"{name} of replicas add up to {count}, the summary tells {total}")
    if told.get("energy_j"):
        work = sum(row["dynamic_energy_j"] for row in rows)
        dynamic = told["energy_j"]["total"] - told["energy_j"]["idle"]
        must(close(work, dynamic),
             f"dynamic energy of replicas adds up to {work} J, that of the summary to {dynamic} J")
    if not run.requests:
        return
    ended = collections.Counter(int(row["replica"]) for row in run.requests if row["status"] == "completed")
    for i, row in enumerate(rows):
        must(row["completed"] == ended[i], f"{ended[i]} rows ended in replica {i}, which tells {row['completed']}")


def power(run: Run) -> None:
    """Power over time is the energy; where nobody is left, nothing runs, waits or holds KV when the run ends."""
    told = run.summary.get("energy_j")
    if not told:
        return
    joules, last = 0.0, {}
    for row in table(run.folder / "series.csv"):
        if row["replica"] in last:
            joules += float(row["power_w"]) * (float(row["time_s"]) - float(last[row["replica"]]["time_s"]))
        last[row["replica"]] = row
    must(close(joules, told["total"]), f"series.csv comes to {joules} J, the total is {told['total']} J")
    if run.summary["requests"]["unfinished"] == 0:
        for i, row in last.items():
            left = {name: row[name] for name in ("running", "waiting", "kv_used_bytes") if float(row[name]) != 0}
            must(not left, f"nobody is unfinished, but replica {i} ends with {left}")


def caches(run: Run) -> None:
    """Tokens that requests found in a cache are those that the caches count; each has a tier that they came from."""
    if not run.requests:
        return
    found = {status: sum(int(row["cached_tokens"]) for row in run.requests if status in ("", row["status"]))
             for status in ("completed", "")}
    told = run.summary["kv"]["cached_tokens"]
    must(found["completed"] == told, f"{found['completed']} cached tokens in the table, {told} in the summary")
    own = run.summary.get("kv_tiers") or {}
    tiers = own.get("prefixes")
    if not tiers:
        return
    hits = sum(tier["tokens"] for tier in tiers["hits"])
    turns = own.get("turn_tokens") or 0  # no hits, but for those that the device has too
    must(hits <= found[""] <= hits + turns,
         f"tiers tell of {hits} tokens found and {turns} of turns, rows of {found['']}")
    prompts = sum(int(row["prompt_tokens"]) for row in run.requests if row["admitted_s"] != "")
    must(prompts == tiers["prompt_tokens"],
         f"{prompts} prompt tokens were admitted, tiers tell {tiers['prompt_tokens']}")


OF_ONE_RUN = {"reason": reason, "conservation": conservation, "tokens": tokens, "order": order, "capacity": capacity,
              "energy": energy, "replicas": replicas, "power": power, "caches": caches}


# -- of two runs ------------------------------------------------------------------------------------------------------


def same_bytes(one: dict[str, bytes], other: dict[str, bytes], what: str) -> None:
    must(set(one) == set(other), f"{what}: other files: {sorted(set(one) ^ set(other))}")
    for name, content in one.items():
        if content != other[name]:
            lines = zip(content.splitlines(), other[name].splitlines())
            first = next((f"line {i}: {a[:160]!r} | {b[:160]!r}" for i, (a, b) in enumerate(lines, 1) if a != b), "its length")
            raise Broken(f"{what}: {name} differs, {first if name.endswith(('.csv', '.json')) else 'in its bytes'}")


def without_steps(run: Run, config: dict[str, Any]) -> dict[str, bytes]:
    """The files that leaping may not change. Events are what it saves; where there are several replicas, the timeline may
    show what happens in them in another order (docs/explain/timeline.md)."""
    files = dict(run.files)
    summary = {name: value for name, value in run.summary.items() if name != "events"}
    files["summary.json"] = json.dumps(summary, indent=1).encode()
    if "cluster" in config:
        files.pop("timeline.pftrace", None)
    return files


class Bench:
    """Runs configs and tells what does not hold of them."""

    def __init__(self, orrery: Orrery, scratch: pathlib.Path, locale: dict[str, str]) -> None:
        self.orrery, self.scratch, self.locale = orrery, scratch, locale
        self.refused: collections.Counter[str] = collections.Counter()
        self.statuses: collections.Counter[str] = collections.Counter()

    # -- parts --------------------------------------------------------------------------------------------------------

    def fresh(self, name: str) -> pathlib.Path:
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def once(self, folder: pathlib.Path, config: dict[str, Any], assignments: tuple[str, ...] = (),
             command: tuple[str, ...] = ("run",), env: dict[str, str] | None = None) -> tuple[Ended, Run | None]:
        (folder / "c.json").write_text(json.dumps(config))
        words = [word for text in assignments for word in ("--set", text)]
        ended = self.orrery.run([command[0], "c.json", "--out", "out", "--quiet", *command[1:], *words], folder, env=env)
        fault = fault_of(ended, self.orrery.memory)
        must(not fault, fault)
        if ended.code == 0 and not ended.late:
            return ended, Run(folder / "out")
        must(not [path for path in folder.iterdir() if path.name != "c.json"], "leaves files, though it wrote no answer")
        return ended, None

    def same(self, check: str, run: Run, other: Run | None, config: dict[str, Any]) -> None:
        must(other is not None, f"{check}: has no answer, the first run had one")
        if check == "leap":
            same_bytes(without_steps(run, config), without_steps(other, config), "leaping | stepping")
        else:
            same_bytes(run.files, other.files, check)

    # -- checks that run the command again ----------------------------------------------------------------------------

    def leap(self, config: dict[str, Any], run: Run) -> None:
        """Stepping gives what leaping gives."""
        self.same("leap", run, self.once(self.fresh("step"), config, ("run.leap=false",))[1], config)

    def place(self, config: dict[str, Any], run: Run) -> None:
        """Neither folder nor locale nor time zone shows in a result."""
        folder = self.fresh("elsewhere with a longer name/and below")
        self.same("another folder, locale and time zone", run, self.once(folder, config, env=self.locale)[1], config)

    def jobs(self, config: dict[str, Any], run: Run) -> None:
        """One thread and two write the same: of a sweep, of plans, of a search of the capacity (which has no choice)."""
        base = {key: value for key, value in config.items() if key != "cluster"}  # plans divide the devices themselves
        study = {"kind": "study", "version": 1, "base": config, "measures": {"e2e": "e2e_s.mean", "energy": "energy_j.total"},
                 "parameters": [{"name": "rate", "path": "workload.rate_scale", "values": [0.5, 1, 2]},
                                {"name": "seed", "path": "run.seed", "values": [1, 2]}], "objectives": [{"minimise": "e2e"}]}
        exports = []
        for jobs in ("1", "2"):
            folder = self.fresh(f"sweep{jobs}")
            (folder / "s.json").write_text(json.dumps(study))
            ended = self.orrery.run(["sweep", "s.json", "--out", "s.sqlite", "--quiet", "--jobs", jobs], folder)
            fault = fault_of(ended, self.orrery.memory)
            must(not fault, f"sweep: {fault}")
            exported = self.orrery.run(["export", "s.sqlite"], folder)
            exports.append({"points.csv": exported.out.encode(), "stdout": ended.out.encode()})
        same_bytes(*exports, "sweep with one thread | two")
        plans = ("plans", "--devices", "1,2", "--set", "workload.limit=60")
        for command, extra, options in ((plans, {}, (("--jobs", "1"), ("--jobs", "2"))), (("capacity",), SHORT_CAPACITY, ((), ()))):
            found = [self.once(self.fresh(f"{command[0]}{i}"), {**base, **extra}, command=(*command, *more))
                     for i, more in enumerate(options)]
            must(found[0][0].code == found[1][0].code, f"{command[0]}: {found[0][0].said} | {found[1][0].said}")
            if found[0][1] is not None:
                self.same(f"{command[0]} with one thread | two", found[0][1], found[1][1], config)

    # -- a config -----------------------------------------------------------------------------------------------------

    def findings(self, config: dict[str, Any], checks: list[str]) -> list[Finding]:
        """What does not hold of a config, of the checks asked for."""
        try:
            ended, run = self.once(self.fresh("first"), config)
        except Broken as broken:
            return [Finding("ends", str(broken))] if "ends" in checks else []
        if run is None:
            self.refused[ended.said or "stopped: takes too long"] += 1
            return []
        self.statuses[run.summary["status"]] += 1
        found = []
        for check in checks:
            try:
                if check in OF_ONE_RUN:
                    OF_ONE_RUN[check](run)
                elif check != "ends":
                    getattr(self, check)(config, run)
            except Broken as broken:
                found.append(Finding(check, str(broken)))
        return found


CHECKS = ["ends", *OF_ONE_RUN, "leap", "place", "jobs"]
