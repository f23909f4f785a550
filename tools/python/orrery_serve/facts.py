"""One row of the table from a run folder: what was run and its key figures.

Reads `manifest.json` and `summary.json` alone. Whatever these hold, a row comes out: a folder that cannot be read is a
row of status "broken" with the reason.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

COLUMNS = ("path", "title", "system", "model", "device", "policy", "ttft_p99_s", "tbt_p99_s", "tokens_per_s",
           "slo", "energy_j", "time_s", "status", "reason", "changed", "wall_s")
MOST_NUMBER = 1e300
LARGEST = 64 << 20  # of a JSON file that is read
# What stands for the time that a run took, where it serves no requests: the first that a summary has.
TIMES = ("e2e_s.p99", "makespan_s", "iteration_s", "iteration_s.mean", "step_s.mean", "total_s", "time_s",
         "simulated_s")
# Where a machine that is no list of devices has its name.
MACHINES = ("machine.part", "machine.device.part", "machine.device", "machine.platform.part", "machine.platform",
            "machine.name")
SPEEDS = ("throughput.output_tokens_per_s", "throughput.tokens_per_s", "output_tokens_per_s", "tokens_per_s")
# Decisions in the order in which they are told; the others are on the run's page.
DECISIONS = ("batching", "routing", "kvcache", "fusion", "placement", "parallelism", "memory", "power")
USUAL = {"paged", "round_robin", "none", "single", "always_on", "highest"}


class Broken(Exception):
    """What cannot be read, and why."""


def read_json(file: Path) -> dict:
    """A JSON object. Broken with one line if it is none."""
    try:
        state = file.lstat()  # not what a link leads to, which may lie anywhere
        if not stat.S_ISREG(state.st_mode):
            raise Broken(f"{file.name}: no plain file")
        if state.st_size > LARGEST:
            raise Broken(f"{file.name}: larger than {LARGEST >> 20} MiB")
        document = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise Broken(f"{file.name}: not there") from None
    except OSError as error:
        raise Broken(f"{file.name}: {os.strerror(error.errno or 0)}") from None
    except (ValueError, RecursionError) as error:
        raise Broken(f"{file.name}: no JSON ({str(error)[:120]})") from None
    if not isinstance(document, dict):
        raise Broken(f"{file.name}: expected an object")
    return document


def pick(document: object, path: str) -> object:
    """The member of this dotted path; None where there is none."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def number(value: object) -> float | None:
    """A finite number, else None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    # Whole numbers have no bound in JSON.
    return value if -MOST_NUMBER < value < MOST_NUMBER else None


def first_number(document: dict, paths: tuple[str, ...]) -> float | None:
    return next((n for n in (number(pick(document, p)) for p in paths) if n is not None), None)


def plain(name: object) -> str:
    """A part or model as people call it: without "catalog:", a folder or a suffix."""
    text = str(name or "").removeprefix("catalog:")
    return text.rsplit("/", 1)[-1].removesuffix(".json")


def devices(config: dict) -> str:
    """`2 x a100-sxm4-80gb + l4`."""
    groups = pick(config, "machine.devices")
    told = []
    for group in groups if isinstance(groups, list) else []:
        part, count = plain(pick(group, "part")), pick(group, "count")
        if part:
            told.append(f"{count} x {part}" if isinstance(count, int) and count != 1 else part)
    if not told:
        one = next((pick(config, p) for p in MACHINES if isinstance(pick(config, p), str)), None)
        told = [plain(one)] if one else []
    return " + ".join(told)


def policies(config: dict) -> str:
    """The batching policy first, then what is decided out of the ordinary."""
    blocks = pick(config, "policies")
    if not isinstance(blocks, dict):
        return plain(pick(config, "learner.policy") or pick(config, "learner"))
    names = []
    for key in DECISIONS:
        name = pick(blocks, f"{key}.policy")
        if isinstance(name, str) and (not names or name not in USUAL):
            names.append(name)
    if not names:
        names = [b["policy"] for b in blocks.values() if isinstance(b, dict) and isinstance(b.get("policy"), str)]
    return ", ".join(names[:4])


def broken(name: str, changed: float, reason: str) -> dict:
    """The row of a folder that cannot be read."""
    row: dict = dict.fromkeys(COLUMNS)
    row.update(path=name, status="broken", reason=reason, changed=changed)
    return row


def run_row(root: Path, name: str, changed: float) -> dict:
    """The row of the run folder `name`."""
    row = broken(name, changed, "")
    folder = root / name
    try:
        manifest, summary = read_json(folder / "manifest.json"), read_json(folder / "summary.json")
        config = manifest.get("config")
        if not isinstance(config, dict):
            raise Broken("manifest.json: has no config")
        if not isinstance(summary.get("status"), str):
            raise Broken("summary.json: has no status")
    except Broken as error:
        row["reason"] = str(error)
        return row
    row.update(
        title=text(config.get("title")), system=text(config.get("system")), model=model(config), device=devices(config),
        policy=policies(config), ttft_p99_s=number(pick(summary, "ttft_s.p99")),
        tbt_p99_s=number(pick(summary, "tbt_s.p99")), tokens_per_s=first_number(summary, SPEEDS),
        slo=number(pick(summary, "slo.attainment")),
        energy_j=first_number(summary, ("energy_j.total", "energy_j")), time_s=first_number(summary, TIMES),
        status=summary["status"][:40], reason=text(summary.get("reason")), wall_s=number(manifest.get("wall_s")))
    return row


def model(config: dict) -> str:
    """The model, or what stands in its place: an environment, a function, a graph."""
    for path in ("model.config", "model.builder", "model.policy", "workload.model", "env.policy", "workload.function"):
        value = pick(config, path)
        if isinstance(value, str):
            return plain(value)
    return ""


def text(value: object) -> str:
    return value[:500] if isinstance(value, str) else ""
