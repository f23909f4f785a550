"""Which figures of summary.json are better when they are larger, and which when they are smaller.

A figure's name decides, by the first rule that fits a part of its dotted path, the last part first. A figure that no rule
knows has no direction: a difference in it is neither better nor worse.
"""

from __future__ import annotations

import re

from .overview import flat

# Counts and settings that happen to end like a figure with a direction.
NEITHER = re.compile(r"simulated_s|arrived|count|min$|capacity$|weights|available_bytes|nominal|scale|runs$|seeds|steps$")
MORE = re.compile(r"attainment|goodput|throughput|per_s$|requests_per_s|tokens_per_s|mfu|mbu|hit_rate|hits|completed|gain|speedup|"
                  r"return|reward|capacity_per_s|bandwidth_share|accepted|efficiency|quality|algbw|busbw|saved")
LESS = re.compile(r"(_s|_j|_w|_usd|_bytes)$|latency|ttft|tbt|tpot|e2e|queueing|rejected|preempt|unfinished|evict|stall|bubble|"
                  r"makespan|cycles|energy|cost|dollars|without_path|rerouted|slowdown|fragmentation|peak|missed|wait|"
                  r"compile|launches|failed|swapped|migrations|cold_starts|violation")


def direction(path: str) -> int:
    """1: more is better; -1: less is better; 0: neither."""
    for part in reversed(path.split(".")):
        if NEITHER.search(part):
            return 0
        if part in ("mean", "p50", "p90", "p95", "p99", "max", "total", "p25", "p75"):
            continue
        if MORE.search(part):
            return 1
        if LESS.search(part):
            return -1
    return 0


def figures(summary: dict) -> dict[str, object]:
    """Every figure by its dotted path, in the order of the file; lists are left out."""
    return dict(flat(summary, ""))
