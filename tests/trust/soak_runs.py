#!/usr/bin/python3
"""Many runs in one process through the Python bindings; tells its memory, open files and threads as it goes.

    PYTHONPATH=build/release/python tests/trust/soak_runs.py RUNS SEED    # a JSON line every twentieth of the runs
"""

from __future__ import annotations

import json
import os
import pathlib
import sys

# Few requests: what a run leaves behind is to show, not what it needs.
CONFIG = {"system": "serving", "machine": {"devices": [{"part": "l40s", "count": 2}]},
          "model": {"config": "catalog:llama-3.1-8b"},
          "workload": {"generator": {"requests": 8, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 req/s"}},
                                     "lengths": {"policy": "log_normal"}}},
          "cluster": {"replicas": [{"count": 2}]}, "replica": {"max_context": 8192}}
FRAMES_EVERY = 20  # runs of which one is read as frames, and one has a fault in its config
SAMPLES = 20


def state(pid: int | str = "self") -> dict[str, int]:
    """Resident memory in KiB, open files and threads of a process."""
    process = pathlib.Path("/proc") / str(pid)
    resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10
    return {"rss_kib": resident, "files": len(os.listdir(process / "fd")), "threads": len(os.listdir(process / "task"))}


def one(orrery, number: int, seed: int) -> None:
    """A run: most give their summary, some are read as frames, some are refused."""
    if number % FRAMES_EVERY == 1:
        result = orrery.run(CONFIG, seed=seed)
        if len(result.requests) != CONFIG["workload"]["generator"]["requests"]:
            raise RuntimeError(f"run {number}: {len(result.requests)} rows of requests")
    elif number % FRAMES_EVERY == 2:
        try:
            orrery.run(CONFIG, {"run.sed": seed}, tables=False)
        except orrery.ConfigError:
            return
        raise RuntimeError(f"run {number}: a faulty config was taken")
    elif orrery.run(CONFIG, seed=seed, tables=False).summary["requests"]["arrived"] == 0:
        raise RuntimeError(f"run {number}: nobody came")


def main() -> int:
    import orrery

    runs, seed = int(sys.argv[1]), int(sys.argv[2])
    every = max(1, runs // SAMPLES)
    for number in range(1, runs + 1):
        one(orrery, number, seed + number)
        if number % every == 0:
            print(json.dumps({"runs": number, **state()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
