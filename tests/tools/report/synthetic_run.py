"""Writes made-up run folders that look like real ones, so that the report's tests need no simulator.

    /usr/bin/python3 synthetic_run.py DIR [--requests N] [--replicas N] [--samples N] [--infeasible]
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np

METRICS = ("ttft", "tbt", "tpot", "e2e", "queueing")
CLASSES = {"ffn_up": 0.27, "ffn_down": 0.14, "attention_decode": 0.22, "attention_prefill": 0.06, "qkv_proj": 0.09,
           "out_proj": 0.06, "norm": 0.03, "rope": 0.015, "activation": 0.02, "embedding": 0.005, "lm_head": 0.02,
           "all_reduce": 0.07}

CONFIG = {
    "kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{"part": "catalog:a100-sxm4-80gb", "count": 2}]},
    "model": {"config": "catalog:llama-2-7b", "dtype": "fp16"},
    "workload": {"rate_scale": 1.0, "trace": {"path": "traces/samples/azure_code.csv", "format": "azure_llm"}},
    "policies": {
        "batching": {"policy": "sarathi", "sarathi": {"token_budget": 512, "max_sequences": 128}},
        "kvcache": {"policy": "paged", "paged": {"block_tokens": 16}},
        "routing": {"policy": "least_loaded"},
    },
    "slo": {"ttft": "2 s", "tbt": "100 ms"},
    "run": {"seed": 1, "tick": "1 ps", "warmup": "0 s", "until": None, "replications": 1},
}


def write_run(folder: Path, *, requests: int = 2000, replicas: int = 1, samples: int = 900, devices: int = 2,
              config: dict | None = None, rejected: bool = True) -> Path:
    """A completed run; returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    table = _requests(rng, requests, replicas, rejected)
    with (folder / "requests.csv").open("w", newline="") as file:
        csv.writer(file).writerows(table["rows"])
    span = table["span"]
    _series(rng, folder / "series.csv", replicas, samples, span)
    energy = _energy(rng, folder / "energy.csv", devices, span)
    distributions = _distributions(folder / "distributions.csv", table["latency"])
    done = len(table["latency"]["e2e"])
    output = int(table["output_tokens"])
    summary = {
        "status": "ok", "simulated_s": span,
        "requests": {"arrived": requests, "completed": done, "rejected": requests - done,
                     "preempted": table["preempted"], "rejected_by_reason": {"context_exceeded": requests - done}},
        **distributions,
        "slo": {"attainment": 0.968, "goodput_per_s": 0.968 * done / span} if done else
        {"attainment": None, "goodput_per_s": 0.0},
        "throughput": {"requests_per_s": done / span, "output_tokens_per_s": output / span,
                       "total_tokens_per_s": 6.1 * output / span},
        "utilisation": {"mfu": 0.231, "mbu": 0.548, "busy": 0.871},
        "energy_j": energy, "energy_per_output_token_j": energy["total"] / output if output else None,
        "memory_bytes": {"peak": 68_719_476_736, "weights": 13_476_831_232, "kv_peak": 51_539_607_552,
                         "kv_capacity": 60_129_542_144},
        "events": 12 * requests + 345,
    }
    _write_json(folder / "summary.json", summary)
    _write_manifest(folder, config or CONFIG)
    (folder / "timeline.pftrace").write_bytes(b"")
    return folder


def write_infeasible(folder: Path) -> Path:
    """A run whose model does not fit."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "summary.json", {
        "status": "infeasible", "reason": "weights of llama-2-70b (fp16) do not fit one a100-sxm4-80gb",
        "needed_bytes": 137_953_296_384, "available_bytes": 77_309_411_328})
    _write_manifest(folder, CONFIG | {"model": {"config": "catalog:llama-2-70b", "dtype": "fp16"}})
    return folder


def _write_json(file: Path, document: dict) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _write_manifest(folder: Path, config: dict) -> None:
    _write_json(folder / "manifest.json", {
        "config": config, "config_hash": "9f2c41d0a7be55c3", "seed": 1, "version": "0.1.0", "compiler": "g++ 12.2.0",
        "host": "x86_64 Linux", "wall_s": 0.412, "events": 24345})


def _requests(rng: np.random.Generator, count: int, replicas: int, rejected: bool) -> dict:
    """requests.csv rows with a burst in the middle, during which the queue grows."""
    gap = rng.exponential(0.42, count)
    gap[int(count * 0.45):int(count * 0.55)] *= 0.45
    arrived = np.cumsum(gap)
    prompt = np.clip(rng.lognormal(6.6, 0.95, count), 4, 7900).astype(int)
    output = np.clip(rng.lognormal(5.1, 0.8, count), 1, 2000).astype(int)
    load = np.exp(-(((np.arange(count) / max(count, 1)) - 0.54) / 0.05) ** 2)
    queueing = np.where(rng.random(count) < 0.4 * (1 - load), 0.0, rng.exponential(0.03, count) + 2.6 * load)
    ttft = queueing + 0.02 + prompt * 1.1e-4 * rng.lognormal(0, 0.15, count)
    tpot = 0.018 * rng.lognormal(0, 0.2, count) * (1 + 0.6 * load)
    e2e = ttft + tpot * (output - 1)
    turned_away = (rng.random(count) < 0.012) & rejected
    preemptions = np.where(rng.random(count) < 0.15 * load, rng.integers(1, 3, count), 0)
    e2e += preemptions * 4.0
    rows = [["id", "arrived_s", "admitted_s", "first_token_s", "finished_s", "prompt_tokens", "output_tokens",
             "cached_tokens", "preemptions", "replica", "status"]]
    for i in range(count):
        a = arrived[i]
        if turned_away[i]:
            rows.append([i, f"{a:.6f}", "", "", "", int(prompt[i]) + 4096, int(output[i]), "", "", "",
                         "rejected:context_exceeded"])
        else:
            rows.append([i, f"{a:.6f}", f"{a + queueing[i]:.6f}", f"{a + ttft[i]:.6f}", f"{a + e2e[i]:.6f}", prompt[i],
                         output[i], 0, preemptions[i], i % replicas, "completed"])
    ok = ~turned_away
    tbt = np.repeat(tpot[ok], np.minimum(output[ok], 40)) if ok.any() else np.array([])
    tbt = tbt * rng.lognormal(0, 0.25, len(tbt)) + np.where(rng.random(len(tbt)) < 0.01, 0.15, 0.0)
    return {"rows": rows, "span": float((arrived + e2e).max()) if count else 1.0,
            "output_tokens": output[ok].sum(), "preempted": int((preemptions[ok] > 0).sum()),
            "latency": {"ttft": ttft[ok], "tbt": tbt, "tpot": tpot[ok & (output > 1)], "e2e": e2e[ok],
                        "queueing": queueing[ok]}}


def _distributions(file: Path, latency: dict[str, np.ndarray]) -> dict:
    """Writes distributions.csv; the `<metric>_s` parts of the summary."""
    found = {}
    quantiles = np.unique(np.concatenate([np.linspace(0, 1, 401), 1 - np.geomspace(1e-4, 1e-2, 40)]))
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["metric", "quantile", "value_s"])
        for metric in METRICS:
            values = latency[metric]
            if not len(values):
                found[metric + "_s"] = dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "max"))
                continue
            for q, value in zip(quantiles, np.quantile(values, quantiles)):
                writer.writerow([metric, f"{q:.8g}", f"{value:.9g}"])
            found[metric + "_s"] = {"mean": values.mean(), "max": values.max(),
                                    **{f"p{p}": np.percentile(values, p) for p in (50, 90, 95, 99)}}
    return found


def _series(rng: np.random.Generator, file: Path, replicas: int, samples: int, span: float) -> None:
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["time_s", "replica", "running", "waiting", "kv_used_bytes", "batch_tokens", "power_w"])
        walk = rng.normal(0, 1, (replicas, samples)).cumsum(axis=1) * 0.6
        for i in range(samples):
            x = i / max(samples - 1, 1)
            load = np.exp(-((x - 0.54) / 0.06) ** 2)
            for r in range(replicas):
                running = int(np.clip(14 + 5 * r + walk[r, i] + 40 * load, 0, 66))
                waiting = int(max(0.0, 90 * load - 20 + rng.normal(0, 1.5)))
                tokens = min(512, running + (int(rng.integers(0, 480)) if rng.random() < 0.6 + 0.4 * load else 0))
                writer.writerow([f"{x * span:.6f}", r, running, waiting, running * 850 * 1_048_576, tokens,
                                 f"{min(400.0, 95 + 3.1 * running + 0.22 * tokens):.2f}"])


def _energy(rng: np.random.Generator, file: Path, devices: int, span: float) -> dict:
    total = {"total": 0.0, "idle": 0.0, "compute": 0.0, "memory": 0.0, "network": 0.0}
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["device", "class", "energy_j", "busy_s"])
        for d in range(devices):
            busy = 0.871 * span
            for name, share in CLASSES.items():
                seconds = busy * share * rng.uniform(0.92, 1.08)
                joules = seconds * (150 if name == "all_reduce" else 290 if "attention" in name else 340)
                writer.writerow([f"gpu{d}", name, f"{joules:.3f}", f"{seconds:.6f}"])
                part = "network" if name == "all_reduce" else "memory" if "attention" in name else "compute"
                total[part] += joules
            writer.writerow([f"gpu{d}", "idle", f"{0.129 * span * 82:.3f}", f"{0.129 * span:.6f}"])
            total["idle"] += 0.129 * span * 82
    total["total"] = sum(total.values())
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--samples", type=int, default=900)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--infeasible", action="store_true")
    options = parser.parse_args()
    if options.infeasible:
        write_infeasible(options.folder)
    else:
        write_run(options.folder, requests=options.requests, replicas=options.replicas, samples=options.samples,
                  devices=options.devices)


if __name__ == "__main__":
    main()
