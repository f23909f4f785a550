"""What points in flight gain where evaluations take unequal times, and what the driver loses by knowing less.

    ORRERY_COMMAND=build/release/orrery PYTHONPATH=build/release/python /usr/bin/python3 tests/bench/points_in_flight.py [SEEDS]

Eight workers evaluate the function `hartmann`, whose least value is 0; each evaluation sleeps for a time that its point decides, lognormal, 40 ms in
the median. Printed: the share of the workers' time in which they sleep, and the median regret. docs/explain/studies.md has
the figures.
"""

import hashlib
import math
import statistics
import sys
import time

import orrery

WORKERS, EVALUATIONS, MEDIAN_S = 8, 200, 0.04
SPACE = {f"x{i}": {"range": [0, 1]} for i in range(1, 7)}


def normal(values) -> float:
    """A draw that these values decide (Box and Muller)."""
    digest = hashlib.sha256(repr(values).encode()).digest()
    u, v = (int.from_bytes(digest[i:i + 6], "big") / 2**48 for i in (0, 6))
    return math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)


def measured(driver: str, seed: int, spread: float, **how) -> tuple[float, float]:
    """Share of the workers' time that is used, and regret."""
    slept = []

    def function(**point):
        slept.append(MEDIAN_S * math.exp(spread * normal(sorted(point.items()))))
        time.sleep(slept[-1])
        config = {"system": "function", "workload": {"function": "hartmann", "point": point}}
        return {"cost": orrery.run(config).summary["f1"]}

    began = time.perf_counter()
    found = orrery.search(function, SPACE, "cost", driver, EVALUATIONS, seed, WORKERS, **how)
    took = time.perf_counter() - began
    return sum(slept) / took / WORKERS, found.points["cost"].min()


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    ways = {f"batch {n}": {"batch": n} for n in (8, 24)}
    ways |= {f"in flight {n}": {"batch": 1, "in_flight": n} for n in (8, 16, 24)}
    for spread in (0.5, 1.0):
        for driver in ("random", "tpe", "bayesian"):
            for name, how in ways.items():
                all_of = [measured(driver, seed, spread, **how) for seed in range(1, seeds + 1)]
                busy, regret = (statistics.median(one) for one in zip(*all_of))
                print(f"spread {spread}  {driver:9} {name:13} busy {busy:4.0%}  regret {regret:.4f}", flush=True)


if __name__ == "__main__":
    main()
