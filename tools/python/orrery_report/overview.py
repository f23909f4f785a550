"""What the Overview and Latency tabs say in words and numbers: key figures, configuration in brief, percentiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orrery_plot import units
from orrery_plot.names import METRICS

from .run_folder import Run

MEMORY_SHOWN = ("peak", "weights", "kv_peak", "kv_capacity", "parameters", "state", "inputs", "activations")
QUANTILES = ("mean", "p50", "p90", "p95", "p99", "max")
POLICY_NAMES = {"kvcache": "KV cache", "dag": "Task graph"}


@dataclass(frozen=True)
class Card:
    """One key figure: `value unit` large, `detail` small below."""

    label: str
    value: str
    unit: str = ""
    detail: str = ""
    title: str = ""


def pick(document: object, *path: str) -> object:
    """The value at `path` in nested objects, None where there is none."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def cards(run: Run) -> list[tuple[str, list[Card]]]:
    """Groups of cards; a figure that summary.json does not hold at all is left out, a null one shows a dash."""
    s = run.summary
    groups = [("Step", _step_cards(s)), ("Requests", _request_cards(s)), ("Latency", _latency_cards(s)), ("Throughput", _throughput_cards(s)),
              ("Utilisation", _utilisation_cards(s)), ("Energy and memory", _energy_cards(s) + _memory_cards(s)),
              ("Simulation", _simulation_cards(run))]
    return [(name, members) for name, members in groups if members]


def _card(label: str, value: object, unit: str, detail: str = "", title: str = "") -> Card:
    number, name = units.scaled(value, unit)
    return Card(label, number, name, detail, title)


def _request_cards(s: dict) -> list[Card]:
    counts = pick(s, "requests")
    if not isinstance(counts, dict):
        return []
    arrived, completed = counts.get("arrived"), counts.get("completed")
    share = units.percent(completed / arrived if units.is_number(completed) and units.is_number(arrived) and arrived else None)
    reasons = counts.get("rejected_by_reason")
    reasons = reasons if isinstance(reasons, dict) else {}
    why = ", ".join(f"{name.replace('_', ' ')} {units.text(n, '')}" for name, n in reasons.items() if n)
    found = [("completed", _card("Completed", completed, "", f"{share} of {units.text(arrived, '')} arrived"
                                 if "arrived" in counts else "")),
             ("rejected", _card("Rejected", counts.get("rejected"), "", why or "no reason given"
                                if counts.get("rejected") else "none rejected")),
             ("preempted", _card("Preemptions", counts.get("preempted"), "", "requests sent back to the queue"))]
    return [card for key, card in found if key in counts]


def _latency_cards(s: dict) -> list[Card]:
    found = []
    for metric, label, meaning in (("latency", "Latency", "of a request"), ("ttft", "TTFT", "time to first token"),
                                   ("tbt", "TBT", "time between tokens"),
                                   ("tpot", "TPOT", "time per output token"), ("e2e", "E2E", "end to end"),
                                   ("queueing", "Queueing", "arrival to admission")):
        values = s.get(metric + "_s")
        if isinstance(values, dict):
            p99 = units.text(values.get("p99"), "s")
            found.append(_card(f"{label} p50", values.get("p50"), "s", f"p99 {p99}", meaning))
    return found


def _step_cards(s: dict) -> list[Card]:
    """Of a training run."""
    parts = pick(s, "breakdown_s")
    step = s.get("iteration_s")
    if not isinstance(parts, dict) or not units.is_number(step) or not step:
        return []
    closed = s.get("closed_form_s")
    detail = f"closed form {units.text(closed, 's')}" if units.is_number(closed) else ""
    found = [_card("Step", step, "s", detail), _card("Tokens", s.get("tokens_per_s"), "/s", "of all devices")]
    for key, label, meaning in (("bubble", "Bubble", "waiting for other stages"), ("collectives", "Collectives", "exposed")):
        if units.is_number(parts.get(key)):
            found.append(Card(label, *units.percent(parts[key] / step).split("\N{NO-BREAK SPACE}"), meaning))
    return found


def _throughput_cards(s: dict) -> list[Card]:
    rates = pick(s, "throughput")
    if not isinstance(rates, dict):
        return []
    names = {"requests_per_s": ("Requests", ""), "samples_per_s": ("Samples", "of the requests' batches"),
             "output_tokens_per_s": ("Output tokens", ""), "total_tokens_per_s": ("All tokens", "prompt and output")}
    found = [_card(label, rates[key], "/s", detail) for key, (label, detail) in names.items() if key in rates]
    if pick(s, "slo", "goodput_per_s") is not None:
        found.insert(1, _card("Goodput", pick(s, "slo", "goodput_per_s"), "/s", "requests that attain the SLO"))
    return found


def _utilisation_cards(s: dict) -> list[Card]:
    names = {"mfu": ("MFU", "of peak FLOP/s"), "mbu": ("MBU", "of peak memory bandwidth"),
             "busy": ("Busy", "of the simulated time")}
    found = pick(s, "utilisation")
    if not isinstance(found, dict):
        return []
    values = [(names[key], found[key]) for key in names if key in found]
    return [Card(label, *_percent(value), detail) for (label, detail), value in values]


def _percent(value: object) -> tuple[str, str]:
    return (units.percent(value)[:-2], "%") if units.is_number(value) else (units.MISSING, "")  # type: ignore[operator]


def _energy_cards(s: dict) -> list[Card]:
    total = pick(s, "energy_j", "total")
    found = []
    if units.is_number(total):
        idle = pick(s, "energy_j", "idle")
        share = f"{units.percent(idle / total)} idle" if units.is_number(idle) and total else ""
        found.append(_card("Energy", total, "J", share))
        span = s.get("simulated_s")
        if units.is_number(span) and span:
            found.append(_card("Mean power", total / span, "W", "all devices"))
    if "energy_per_output_token_j" in s:
        found.append(_card("Energy/token", s["energy_per_output_token_j"], "J", "output tokens"))
    return found


def _memory_cards(s: dict) -> list[Card]:
    memory = pick(s, "memory_bytes")
    if not isinstance(memory, dict):
        return []
    names = (("weights", "weights"), ("kv_peak", "peak KV"))
    parts = [f"{name} {units.text(memory[key], 'B')}" for key, name in names if memory.get(key) is not None]
    return [_card("Peak memory", memory.get("peak"), "B", ", ".join(parts))]


def _simulation_cards(run: Run) -> list[Card]:
    span, wall = run.summary.get("simulated_s"), run.manifest.get("wall_s")
    found = [_card("Simulated time", span, "s")] if span is not None else []
    if units.is_number(wall):
        speed = f"{units.count(round(span / wall))} × real time" if units.is_number(span) and wall else ""
        found.append(_card("Wall time", wall, "s", speed))
    events = run.summary.get("events", run.manifest.get("events"))
    if units.is_number(events):
        rate = f"{units.count(round(events / wall))} per second" if units.is_number(wall) and wall else ""
        found.append(_card("Events", events, "", rate))
    return found


def percentile_rows(run: Run) -> list[tuple[str, str, list[str]]]:
    """(metric, unit, values under QUANTILES); one unit a row, so that its numbers compare."""
    rows = []
    for metric in METRICS:
        values = run.summary.get(metric + "_s")
        if not isinstance(values, dict):
            continue
        known = [values.get(q) for q in QUANTILES]
        typical = values.get("p50") if units.is_number(values.get("p50")) and values.get("p50") else values.get("max")
        unit, factor = units.duration_unit(typical if units.is_number(typical) else 1.0)
        rows.append((metric, unit, [units.plain(v * factor, 4) if units.is_number(v) else units.MISSING
                                    for v in known]))
    return rows


def slo_targets(config: dict) -> dict[str, float]:
    """The SLO's targets in seconds by metric."""
    found = {metric: units.seconds(pick(config, "slo", metric)) for metric in METRICS}
    return {metric: value for metric, value in found.items() if value}


def highlights(run: Run) -> list[tuple[str, str]]:
    """(aspect, short text) rows that say what was simulated."""
    config = run.config
    rows = [("System", brief(config.get("system"))), ("Machine", _machine(config.get("machine"))),
            ("Model", _model(config.get("model"))), ("Workload", _workload(config.get("workload")))]
    policies = config.get("policies")
    if isinstance(policies, dict):
        rows += [(POLICY_NAMES.get(name, name.replace("_", " ").capitalize()), _policy(value))
                 for name, value in policies.items() if pick(value, "policy") != "none"]  # not decided, so nothing to tell
    if pick(config, "slo") and isinstance(config["slo"], dict):
        rows.append(("SLO", ", ".join(f"{name.upper() if len(name) < 5 else name} ≤ {_bound(value)}" for name, value
                                      in config["slo"].items() if value is not None)))
    rows.append(("Seed", brief(run.manifest.get("seed", pick(config, "run", "seed")))))
    return [(name, value) for name, value in rows if value]


def headline(run: Run) -> str:
    """Model, machine and trace in one line."""
    config = run.config
    workload = config.get("workload")
    return " · ".join(part for part in (_model(config.get("model")), _machine(config.get("machine")),
                                        _workload(workload).split(", ")[0]) if part)


def _bound(value: object) -> str:
    """A target as people write it: 100 ms, not 0.1 s."""
    seconds = units.seconds(value)
    return brief(value) if seconds is None else units.setting(seconds, "s")


def brief(value: object) -> str:
    """A value in a few words: texts as they are (a catalog name without its prefix), objects as `key value`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value.removeprefix("catalog:")
    if isinstance(value, list):
        return ", ".join(brief(item) for item in value[:4]) + (", …" if len(value) > 4 else "")
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')} {brief(item)}" for key, item in list(value.items())[:6]
                         if not isinstance(item, (dict, list)) and item is not None)
    return units.setting(value, "") if units.is_number(value) else str(value)


def _machine(machine: object) -> str:
    """The parts by name: of a list of devices or platforms, of one device, or what else the machine is called."""
    several = next((pick(machine, key) for key in ("devices", "platforms") if isinstance(pick(machine, key), list)), None)
    if several is not None:
        return " + ".join(map(_part, several))
    for key in ("device", "platform", "part", "name"):
        if pick(machine, key):
            return _part(pick(machine, key))
    return brief(machine)


def _part(device: object) -> str:
    """`2 × a100-sxm4-80gb`, with a word where fields of the part are changed."""
    if not isinstance(device, dict):
        return brief(device)
    part, count = device.get("part", device.get("name")), device.get("count", 1)
    name = brief(pick(part, "name") or part) + (", changed" if device.get("override") else "")
    return f"{count} × {name}" if count != 1 else name


def _model(model: object) -> str:
    """The model by name: its config, what builds its graph, or the file that the graph is read from."""
    if not isinstance(model, dict):
        return brief(model)
    dtype, builder = model.get("dtype"), pick(model, "builder", "policy")
    source = model.get("config", model.get("name")) or pick(model, "import", "path")
    if isinstance(builder, str):
        built = pick(model, "builder", builder)
        source, dtype = source or pick(built, "config") or builder, dtype or pick(built, "dtype")
    name = brief(pick(source, "name") or pick(source, "_name_or_path") or source).rsplit("/", 1)[-1]
    name = name.removesuffix(".json")
    return f"{name} ({dtype})" if isinstance(dtype, str) else name


def _workload(workload: object) -> str:
    trace = pick(workload, "trace")
    if not isinstance(workload, dict) or trace is None:
        return ", ".join(filter(None, (brief(pick(workload, "models")), brief(pick(workload, "bind")), brief(workload))))
    path = pick(trace, "path")
    parts = [path.rsplit("/", 1)[-1] if isinstance(path, str) else brief(trace)]
    if isinstance(pick(trace, "format"), str):
        parts.append(f"format {trace['format']}")
    parts += [f"{key.replace('_', ' ')} {brief(value)}" for key, value in workload.items()
              if key != "trace" and not isinstance(value, (dict, list)) and value is not None]
    return ", ".join(parts)


def _policy(value: object) -> str:
    if not isinstance(value, dict) or not isinstance(value.get("policy"), str):
        return brief(value)
    name = value["policy"]
    parameters = brief(value.get(name))
    return f"{name} ({parameters})" if parameters else name


@dataclass(frozen=True)
class Further:
    """Figures of summary.json that no card, bar or table shows: distributions as (path, values under QUANTILES), the others as
    (path, text); and how many are left out because they are 0 or have no value, as those of a feature that is off."""

    distributions: list[tuple[str, list[str]]]
    figures: list[tuple[str, str]]
    left_out: int


def further_results(summary: dict) -> Further:
    """What other systems and options add to the summary."""
    shown = {"status", "simulated_s", "requests", "slo", "utilisation", "energy_per_output_token_j", "events", "reason",
             "needed_bytes", "available_bytes", *(m + "_s" for m in METRICS)}
    if _step_cards(summary):
        shown |= {"iteration_s", "closed_form_s", "tokens_per_s", "breakdown_s"}
    shown_in = {"energy_j": {"total", "idle", "compute", "memory", "network"}, "memory_bytes": set(MEMORY_SHOWN),
                "throughput": {"requests_per_s", "samples_per_s", "output_tokens_per_s", "total_tokens_per_s"}}
    found = {path: value for path, value in flat(summary, "") if path.split(".")[0] not in shown
             and path.split(".")[-1] not in shown_in.get(path.split(".")[0], ())}
    homes = {path.removesuffix(".p50") for path in found if path.endswith(".p50")}
    spread = {home: [found.pop(f"{home}.{q}", None) for q in QUANTILES] for home in homes}
    kept = {home: values for home, values in spread.items() if any(values)}
    distributions = [(home, [figure_text(home, value) for value in kept[home]]) for home in sorted(kept)]
    figures = [(path, figure_text(path, value)) for path, value in found.items() if value]
    left_out = len(found) - len(figures) + len(QUANTILES) * (len(spread) - len(kept))
    return Further(distributions, figures, left_out)


def flat(value: object, path: str) -> Iterator[tuple[str, object]]:
    """(dotted path, value) of everything in nested objects that is neither an object nor a list."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else key)
    elif not isinstance(value, list):
        yield path, value


def figure_text(path: str, value: object) -> str:
    """A figure of summary.json with the unit that its path names."""
    return units.text(value, units.unit_of(path)) if units.is_number(value) else brief(value) or units.MISSING
