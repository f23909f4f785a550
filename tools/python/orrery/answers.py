"""The result of a run in a few words: the answer to a question, or the first figures of any other run."""

from __future__ import annotations

from orrery import shown

_TARGETS = {"ttft": "TTFT", "tbt": "TBT"}
_LATENCIES = (("ttft_s", "TTFT"), ("tbt_s", "TBT"), ("e2e_s", "E2E"))
_QUIET = ("events", "status", "reason", "replications")  # say nothing of what came out
_MOST = 4  # figures of a run that has no words of its own


def words(summary: dict, system: str = "") -> list[str]:
    """Phrases of a summary, the most important first: ["capacity 2.95 requests/s", "TBT binds"]."""
    told = _OF.get(system, _figures)(summary)
    binds = summary.get("binds")
    if isinstance(binds, dict) and binds.get("target"):
        told.append(f"{_TARGETS.get(binds['target'], binds['target'])} binds")
    return told


def _capacity(summary: dict) -> list[str]:
    if not summary.get("capacity_per_s"):
        return []  # the reason says why
    return [f"capacity {summary['capacity_per_s']:.4g} {summary.get('arrivals', 'requests')}/s"]


def _slo(summary: dict) -> list[str]:
    scales = summary.get("by_scale") or []
    if not scales:
        return []
    nearest = min(scales, key=lambda one: abs(one["scale"] - 1))
    rate = nearest.get("greatest_rate_per_s")
    upto = f"up to {rate:.4g} requests/s" if rate else "at no rate tried"
    lax = "" if nearest["scale"] == 1 else f", {nearest['scale']:g} times as lax"
    return [f"{100 * summary['target']:g} % attain the targets{lax} {upto}"]


def _plans(summary: dict) -> list[str]:
    told = [f"{summary['feasible']} of {summary['plan_count']} plans fit"]
    if isinstance(best := summary.get("best"), dict):
        layout = best.get("mix") or "x".join(
            f"{best[name]}" for name in ("replicas", "tensor_parallel", "pipeline_parallel"))
        told.append(f"best {best['devices']} x {best['part'].removeprefix('catalog:')} as {layout} with {best['batching']}")
        if best.get("capacity_per_s"):
            told.append(f"capacity {best['capacity_per_s']:.4g} requests/s")
    return told


def _job(summary: dict) -> list[str]:
    told = [f"ETTR {100 * summary['ettr']['mean']:.2f} %"] if isinstance(summary.get("ettr"), dict) else []
    if isinstance(best := summary.get("best"), dict):
        told.append(f"best with a checkpoint every {shown.figure('best.interval_s', best['interval_s'])}")
    return told


def _train(summary: dict) -> list[str]:
    told = [f"{summary['learner']} in {summary['env']}"]
    after, before = (summary.get(name) for name in ("eval_return", "untrained_return"))
    if isinstance(after, dict) and isinstance(before, dict):
        medians = f"(medians of {summary['seeds']} trainings)"
        told.append(f"return {after['p50']:.4g}, {before['p50']:.4g} untrained {medians}")
    return told


def _serving(summary: dict) -> list[str]:
    told = [f"{summary['simulated_s']:.6g} s simulated"] if "simulated_s" in summary else []
    tails = [f"{name} {shown.figure(key, one['p99'])}" for key, name in _LATENCIES
             if isinstance(one := summary.get(key), dict) and one.get("p99") is not None]
    return [*told, *(["P99 " + ", ".join(tails)] if tails else [])]


def _figures(summary: dict) -> list[str]:
    found = [(f"{name}.p50", value["p50"]) if isinstance(value, dict) else (name, value)
             for name, value in figures(summary)]
    numbers = [(name, value) for name, value in found if name not in _QUIET and isinstance(value, (int, float))
               and not isinstance(value, bool)]
    telling = [(name, value) for name, value in numbers if not name.endswith("count") and shown.unit(name)] or numbers
    return [f"{name} {shown.figure(name, value)}" for name, value in telling[:_MOST]]


_OF = {"capacity": _capacity, "slo_sweep": _slo, "plans": _plans, "rl": _train, "serving": _serving,
       "training_job": _job, "goodput": _job}


def figures(node: dict, path: str = ""):
    """Pairs of dotted path and scalar of a summary; a distribution stays one dict."""
    for key, value in node.items():
        name = f"{path}{key}"
        if isinstance(value, dict) and "p50" not in value:
            yield from figures(value, name + ".")
        elif not isinstance(value, list):
            yield name, value
