"""A run beside the user's own request log: the same latencies of both, and request by request where they match.

Logs: a CSV with a line a request (`arrived_at` and `first_token_at`, `last_token_at` in seconds, token counts under any of
the names of trace format `vllm_log`), or the JSON that vLLM's serving benchmark saves with detailed results (`ttfts`,
`itls`, `input_lens`, `output_lens`, and `start_times` where it has them).

The k-th request of the log by arrival is the request k of the run, which replays a log in that order; they match if
prompt and output have the same numbers of tokens. Percentiles interpolate linearly, as the simulator's do.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path

from .errors import InputError

METRICS = ("ttft_s", "tpot_s", "e2e_s", "queueing_s")
STATISTICS = ("mean", "p50", "p90", "p99")
_NAMES = {
    "arrived": ("arrived_at", "arrival_time", "arrival", "start_time"),
    "prompt": ("num_prefill_tokens", "num_prompt_tokens", "prompt_tokens", "prompt_len", "input_len", "input_tokens"),
    "output": ("num_decode_tokens", "num_generation_tokens", "generation_tokens", "completion_tokens", "output_tokens",
               "output_len"),
    "scheduled": ("scheduled_at", "first_scheduled_time"),
    "first": ("first_token_at", "first_token_time"),
    "last": ("last_token_at", "last_token_time", "finished_at", "finished_time"),
}


@dataclass
class Served:
    """One request that was completed; what a log does not tell is None."""

    prompt: int
    output: int
    arrived_s: float | None
    ttft_s: float | None
    e2e_s: float | None
    queueing_s: float | None = None

    @property
    def tpot_s(self) -> float | None:
        if self.output < 2 or self.ttft_s is None or self.e2e_s is None:
            return None
        return (self.e2e_s - self.ttft_s) / (self.output - 1)


def of_run(folder: Path) -> list[Served | None]:
    """The requests of a run by id; None for those that were not completed."""
    file = folder / "requests.csv"
    if not file.is_file():
        raise InputError(folder, "the folder of a serving run, with requests.csv", "none")
    requests: dict[int, Served | None] = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            if row["status"] != "completed":
                requests[int(row["id"])] = None
                continue
            arrived = float(row["arrived_s"])
            requests[int(row["id"])] = Served(int(row["prompt_tokens"]), int(row["output_tokens"]), arrived,
                                              float(row["first_token_s"]) - arrived, float(row["finished_s"]) - arrived,
                                              float(row["admitted_s"]) - arrived)
    return [requests[i] for i in sorted(requests)]


def of_log(file: Path) -> list[Served]:
    """The completed requests of a log, by arrival. Throws InputError for what is no log."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(file, "a request log", str(error)) from None
    requests = _of_json(file, text) if text.lstrip().startswith("{") else _of_csv(file, text)
    if not requests:
        raise InputError(file, "at least one completed request", "none")
    if all(request.arrived_s is not None for request in requests):
        requests.sort(key=lambda request: request.arrived_s)  # stable: ties as they stand
    return requests


def _of_csv(file: Path, text: str) -> list[Served]:
    reader = csv.DictReader(text.splitlines())
    columns = reader.fieldnames or []
    found = {key: next((name for name in names if name in columns), None) for key, names in _NAMES.items()}
    for key in ("arrived", "prompt", "output", "first", "last"):
        if found[key] is None:
            raise InputError(file, f"a column {' or '.join(_NAMES[key][:3])}", f"columns {', '.join(columns)}")
    requests = []
    for number, row in enumerate(reader, start=2):
        try:
            output = int(float(row[found["output"]]))
            if output < 1 or not row[found["first"]]:
                continue  # failed where it was recorded
            arrived = float(row[found["arrived"]])
            scheduled = row[found["scheduled"]] if found["scheduled"] else None
            requests.append(Served(int(float(row[found["prompt"]])), output, arrived,
                                   float(row[found["first"]]) - arrived, float(row[found["last"]]) - arrived,
                                   float(scheduled) - arrived if scheduled else None))
        except (TypeError, ValueError):
            raise InputError(f"{file}:{number}", "numbers", str(dict(row))) from None
    return requests


def _of_json(file: Path, text: str) -> list[Served]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(file, "JSON", str(error)) from None
    for key in ("ttfts", "itls", "input_lens", "output_lens"):
        if not isinstance(data.get(key), list):
            raise InputError(file, "the detailed results of vLLM's serving benchmark (--save-detailed)", f"no '{key}'")
    lists = [data[key] for key in ("input_lens", "output_lens", "ttfts", "itls")]
    if len({len(each) for each in lists}) != 1:
        raise InputError(file, "lists of one length", ", ".join(str(len(each)) for each in lists))
    starts = data.get("start_times")
    requests = []
    for i, (prompt, output, ttft, gaps) in enumerate(zip(*lists)):
        if output < 1:
            continue
        requests.append(Served(prompt, output, starts[i] if starts else None, ttft, ttft + math.fsum(gaps)))
    return requests


def quantile(values: list[float], q: float) -> float:
    """Linear between ranks of sorted values."""
    place = q * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def _figures(requests: list[Served | None], metric: str) -> dict | None:
    values = sorted(value for request in requests if request and (value := getattr(request, metric)) is not None)
    if not values:
        return None
    return {"mean": math.fsum(values) / len(values), "p50": quantile(values, 0.5), "p90": quantile(values, 0.9),
            "p99": quantile(values, 0.99)}


def compare(run: list[Served | None], log: list[Served]) -> dict:
    """Everything the report says, as data; differences are (run - log) / log."""
    pairs = [(ours, theirs) for ours, theirs in zip(run, log)
             if ours and ours.prompt == theirs.prompt and ours.output == theirs.output]
    result = {"run_requests": sum(1 for request in run if request), "log_requests": len(log), "matched": len(pairs),
              "metrics": {}}
    for metric in METRICS:
        ours, theirs = _figures(run, metric), _figures(log, metric)
        if ours is None or theirs is None:
            continue
        entry = {"log": theirs, "run": ours,
                 "difference": {key: (ours[key] - theirs[key]) / theirs[key] if theirs[key] else None
                                for key in STATISTICS}}
        errors = sorted(abs(a - b) / b for x, y in pairs
                        if (a := getattr(x, metric)) is not None and (b := getattr(y, metric)))
        if errors:
            entry["per_request"] = {"count": len(errors), "median_error": quantile(errors, 0.5),
                                    "p90_error": quantile(errors, 0.9),
                                    "within_10_percent": sum(error <= 0.1 for error in errors) / len(errors)}
        result["metrics"][metric] = entry
    return result


def text(result: dict) -> str:
    """The comparison as a table."""
    lines = [f"requests     {result['log_requests']} in the log, {result['run_requests']} in the run, "
             f"{result['matched']} match by place and tokens", "",
             f"{'':<10} {'':<5} {'log':>12} {'run':>12} {'difference':>11}"]
    for metric, entry in result["metrics"].items():
        for key in STATISTICS:
            difference = entry["difference"][key]
            lines.append(f"{metric[:-2] if key == 'mean' else '':<10} {key:<5} {entry['log'][key]:>10.4g} s "
                         f"{entry['run'][key]:>10.4g} s {'-' if difference is None else f'{100 * difference:+.1f} %':>11}")
    lines.append("")
    for metric, entry in result["metrics"].items():
        if (each := entry.get("per_request")) is not None:
            lines.append(f"{metric[:-2]:<10} request by request: median error {100 * each['median_error']:.1f} %, "
                         f"P90 {100 * each['p90_error']:.1f} %, within 10 %: {100 * each['within_10_percent']:.0f} %")
    return "\n".join(lines)
