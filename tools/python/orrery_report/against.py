"""A run beside the user's own request log: the same latencies of both, and request by request where they match.

Logs: a CSV with a line a request (`arrived_at` and `first_token_at`, `last_token_at` in seconds, token counts under any of
the names of trace format `vllm_log`), or the JSON that vLLM's serving benchmark saves with detailed results (`ttfts`,
`itls`, `input_lens`, `output_lens`, and `start_times` where it has them).

The k-th request of the log by arrival is the request k of the run, which replays a log in that order; they match if
prompt and output have the same numbers of tokens. Percentiles interpolate linearly, as the simulator's do.

What kind of difference it is (`difference`) is told from the requests that match, by ratios run / log of TTFT and of TPOT
(E2E follows from the two), in logarithms, so that twice and half are equally far:

- P50 is off if it differs by more than the tolerance and by more than noise. The tolerance of TPOT is 10 %: that is how
  well the time of a kernel is predicted (docs/fidelity.md), so less says nothing of the config. That of TTFT is 15 %,
  since a queue amplifies the device's error: waiting grows as 1 / (1 - load). Noise is two standard errors of a median,
  2 x 1.25 s / sqrt(n), where n requests match and s is how their own ratios spread (half of the middle 68 %).
- P99 is off beside P50 if their ratios differ by more than 20 % and by more than noise, (2.33 + 2 / sqrt(n / 100)) s: if
  every request only jitters by s, P99 moves by at most 2.33 s, and it rests on a hundredth of the requests, one at least.

| P50 of TPOT | P50 of TTFT | P99 | kind | likely cause |
| --- | --- | --- | --- | --- |
| off | off by about the same factor | follows P50 | `device` | device or dtype: everything is slower alike |
| - | off | follows P50 | `ttft` | queue or prefill; which, if the log tells when a request was scheduled |
| off | not half as far | follows P50 | `decode` | decode steps: batch, host time, context |
| - | - | off for TPOT or E2E | `tail` | preemption: few requests lose much, the others nothing |
| - | - | - | `none` | none to speak of |

"About the same" is within the tolerance, or a third of the factor's logarithm. P99 of TTFT alone is `ttft` too: a burst
waits. Several at once are `mixed`, with the kinds under `parts`; fewer than ten requests that match are `unknown`.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path

from .errors import InputError
from .markup import Sheet, document, escape, note, table

METRICS = ("ttft_s", "tpot_s", "e2e_s", "queueing_s")
STATISTICS = ("mean", "p50", "p90", "p99")
LEAST = 10  # requests that match, to say anything
OFF = {"ttft": math.log(1.15), "tpot": math.log(1.10)}  # P50
TAIL_OFF = math.log(1.20)  # P99 beside P50
CAUSES = {"device": "device or dtype", "ttft": "queue or prefill", "decode": "decode steps (batch, host time, context)",
          "tail": "preemption"}
NONE = "none to speak of: no more than 10 % (TPOT), 15 % (TTFT), 20 % (P99 beside P50), or than noise"
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


@dataclass
class Shift:
    """How far one latency of the run is from the log's, as logarithms of run / log, over requests that match."""

    p50: float
    p99: float
    spread: float  # of the requests' own ratios: half of the middle 68 %
    count: int

    @classmethod
    def of(cls, pairs: list[tuple[float, float]]) -> Shift | None:
        """None where nothing can be said of a ratio."""
        pairs = [(ours, theirs) for ours, theirs in pairs if ours > 0 and theirs > 0]
        if not pairs:
            return None
        ours, theirs = (sorted(side) for side in zip(*pairs))
        each = sorted(math.log(a / b) for a, b in pairs)
        at = {q: math.log(quantile(ours, q) / quantile(theirs, q)) for q in (0.5, 0.99)}
        return cls(at[0.5], at[0.99], (quantile(each, 0.84) - quantile(each, 0.16)) / 2, len(pairs))

    def off(self, tolerance: float, beside: float = 0.0) -> bool:
        """Whether P50 is further from `beside` than tolerance and noise."""
        return abs(self.p50 - beside) > max(tolerance, 2.5 * self.spread / math.sqrt(self.count))

    @property
    def tail_off(self) -> bool:
        """Whether P99 moved otherwise than P50 did."""
        noise = (2.33 + 2 / math.sqrt(max(1.0, self.count / 100))) * self.spread
        return abs(self.p99 - self.p50) > max(TAIL_OFF, noise)


def _times(logarithm: float) -> str:
    ratio = math.exp(logarithm)
    return f"{ratio:.2f} times" if ratio >= 0.1 else f"{ratio:.2g} times"


def _waiting_or_prefill(pairs: list[tuple[Served, Served]]) -> str:
    """Which part of TTFT differs, where the log tells when requests were scheduled."""
    told = [(ours, theirs) for ours, theirs in pairs if ours.queueing_s is not None and theirs.queueing_s is not None]
    whole = math.fsum(ours.ttft_s - theirs.ttft_s for ours, theirs in told)
    if not told or whole == 0:
        return CAUSES["ttft"]
    share = math.fsum(ours.queueing_s - theirs.queueing_s for ours, theirs in told) / whole
    return "queue" if share > 2 / 3 else "prefill" if share < 1 / 3 else CAUSES["ttft"]


def difference(pairs: list[tuple[Served, Served]]) -> dict:
    """What kind of difference there is between requests that match: `kind`, `parts` (the kinds that are mixed) and a
    line of `text`. The head of this file has the rule."""
    if len(pairs) < LEAST:
        return {"kind": "unknown", "parts": [], "text": f"cannot be told: {len(pairs)} requests match, it takes {LEAST}"}

    def shift(value) -> Shift | None:
        return Shift.of([(a, b) for x, y in pairs if (a := value(x)) is not None and (b := value(y)) is not None])

    nothing = Shift(0.0, 0.0, 0.0, len(pairs))
    ttft = shift(lambda one: one.ttft_s) or nothing
    tpot = shift(lambda one: one.tpot_s) or nothing
    e2e = shift(lambda one: one.e2e_s) or nothing
    # The tail of E2E is judged without TTFT, whose own tail would else count twice.
    after = shift(lambda one: one.e2e_s - one.ttft_s if one.e2e_s is not None and one.ttft_s is not None else None) or nothing

    found: dict[str, str] = {}
    decodes = tpot.off(OFF["tpot"])
    device = decodes and ttft.p50 / tpot.p50 >= 0.5  # TTFT went the same way, at least half as far
    if device:
        found["device"] = f"TTFT, TPOT and E2E are all about {_times(tpot.p50)} the log's"
    elif decodes:
        found["decode"] = f"P50 of TPOT is {_times(tpot.p50)} the log's, that of TTFT {_times(ttft.p50)}"
    tail = tpot.tail_off or after.tail_off
    late = ttft.tail_off and not tail
    beside, tolerance = (tpot.p50, max(OFF["ttft"], abs(tpot.p50) / 3)) if device else (0.0, OFF["ttft"])
    if ttft.off(tolerance, beside):
        beyond = ", not the device's factor" if device else "" if decodes else f", that of TPOT {_times(tpot.p50)}"
        found["ttft"] = f"P50 of TTFT is {_times(ttft.p50)} the log's{beyond}"
    elif late:
        found["ttft"] = f"P99 of TTFT is {_times(ttft.p99)} the log's, its P50 {_times(ttft.p50)}"
    if tail:
        name, of = ("E2E", e2e) if abs(e2e.p99 - e2e.p50) > abs(tpot.p99 - tpot.p50) else ("TPOT", tpot)
        found["tail"] = f"P99 of {name} is {_times(of.p99)} the log's, its P50 {_times(of.p50)}"
    if not found:
        return {"kind": "none", "parts": [], "text": NONE}
    causes = {**CAUSES, "ttft": _waiting_or_prefill(pairs)}
    told = [f"{causes[kind]} ({why})" for kind, why in found.items()]
    if len(found) == 1:
        kind, why = next(iter(found.items()))
        return {"kind": kind, "parts": [kind], "text": f"{causes[kind]}: {why}"}
    return {"kind": "mixed", "parts": list(found), "text": f"mixed: {' and '.join(told)}"}


def matching(run: list[Served | None], log: list[Served]) -> list[tuple[Served, Served]]:
    """Requests of the run with those of the log that stand at the same place and have the same tokens."""
    return [(ours, theirs) for ours, theirs in zip(run, log)
            if ours and ours.prompt == theirs.prompt and ours.output == theirs.output]


def compare(run: list[Served | None], log: list[Served]) -> dict:
    """Everything the report says, as data; differences are (run - log) / log."""
    pairs = matching(run, log)
    result = {"run_requests": sum(1 for request in run if request), "log_requests": len(log), "matched": len(pairs),
              "difference": difference(pairs), "metrics": {}}
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


def _counts(result: dict) -> str:
    return (f"{result['log_requests']} in the log, {result['run_requests']} in the run, {result['matched']} match by place "
            "and tokens")


def _rows(result: dict) -> list[list[str]]:
    """Metric, statistic, log, run, difference; the metric stands in its first row."""
    rows = []
    for metric, entry in result["metrics"].items():
        for key in STATISTICS:
            share = entry["difference"][key]
            rows.append([metric[:-2] if key == "mean" else "", key, f"{entry['log'][key]:.4g} s", f"{entry['run'][key]:.4g} s",
                         "-" if share is None else f"{100 * share:+.1f} %"])
    return rows


def _each(result: dict) -> list[tuple[str, str]]:
    """What is said of a metric request by request."""
    return [(metric[:-2], f"median error {100 * each['median_error']:.1f} %, P90 {100 * each['p90_error']:.1f} %, "
             f"within 10 %: {100 * each['within_10_percent']:.0f} %")
            for metric, entry in result["metrics"].items() if (each := entry.get("per_request")) is not None]


def text(result: dict) -> str:
    """The comparison as a table."""
    lines = [f"requests     {_counts(result)}", f"difference   {result['difference']['text']}", "",
             f"{'':<10} {'':<5} {'log':>12} {'run':>12} {'difference':>11}"]
    lines += [f"{metric:<10} {key:<5} {log:>12} {run:>12} {share:>11}" for metric, key, log, run, share in _rows(result)]
    lines.append("")
    lines += [f"{metric:<10} request by request: {said}" for metric, said in _each(result)]
    return "\n".join(lines)


def page(result: dict, run: tuple[str, list[Served | None]], log: tuple[str, list[Served]]) -> str:
    """The comparison as an HTML page; `run` and `log`: what they are called, and their requests."""
    from . import against_figures  # a table alone needs no numpy

    sheet = Sheet()
    heads = ("metric", "statistic", f"log ({log[0]})", f"run ({run[0]})", "difference")
    rows = _rows(result)
    named = [[row[0] or rows[i - i % len(STATISTICS)][0], *row[1:]] for i, row in enumerate(rows)]
    plots = ""
    if (drawn := against_figures.distributions(run[1], log[1])) is not None:
        plots += sheet.figure("distributions", "Latencies of run and log", f"Solid = the run {escape(run[0])}, dashed = the log {escape(log[0])}.", drawn)
    if (drawn := against_figures.request_by_request(matching(run[1], log[1]))) is not None:
        plots += sheet.figure("requests", "Request by request", "Above the line, the run takes longer than the log. Only matching "
                              "requests are shown.", drawn)
    sheet.tab("against", "Against the log", note(f"Requests: {_counts(result)}.") + plots + "<h3>Statistics</h3>" + table(heads, named) +
              "<h3>Errors per request</h3>" + table((), [list(row) for row in _each(result)], "plain pairs"))
    kind = result["difference"]["kind"]
    return document(sheet, f"{run[0]} against {log[0]}", f"Difference: {result['difference']['text']}",
                    (kind, "good" if kind == "none" else "odd"))
