"""The other commands, one function each: answers of the core as JSON, and runs that answer another question."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile

from orrery import _orrery
from orrery import config as configs
from orrery import programs, shown
from orrery.errors import ConfigError
from orrery.keywords import answered
from orrery.running import teller
from orrery.stored import Stored


def _ask(name: str, params: dict, progress=None) -> dict:
    return _orrery.ask(name, configs.to_json(params), teller(progress))


class Plan:
    """Buffers placed in one arena: `plans` (one row per planner) and the `offsets` (bytes) of the best plan."""

    def __init__(self, told: dict, offsets):
        import pandas

        self.plans = pandas.DataFrame(told["plans"])
        self.offsets = offsets
        self.buffers: int = told["buffers"]
        self.lower_bound_bytes: int = told["lower_bound_bytes"]
        self.capacity_bytes: int | None = told.get("capacity_bytes")
        self.peak_bytes: int = int(self.plans["peak_bytes"].min())

    def __repr__(self) -> str:
        return (f"<Plan of {self.buffers} buffers: {shown.size(self.peak_bytes)}, "
                f"{self.peak_bytes / max(1, self.lower_bound_bytes):.4g} of what lives at once>")

    def _repr_html_(self) -> str:
        return shown.frame(self.plans, index=False)


@answered
def plan(buffers, planner: str = "", capacity: str | int = "", **parameters) -> Plan:
    """Places buffers with known lifetimes in one arena: a CSV file or a frame with id, lower, upper, size (bytes).

    `planner` is one of `orrery.list("memory_planner")`; by default all are tried. `capacity` is in bytes, or a string
    with a unit. `parameters` of planners are given by name: search={"budget": 1000}.
    """
    import pandas

    with tempfile.TemporaryDirectory(prefix="orrery-") as folder:
        out = pathlib.Path(folder) / "offsets.csv"
        if not isinstance(buffers, (str, os.PathLike)):
            file = pathlib.Path(folder) / "buffers.csv"
            pandas.DataFrame(buffers)[["id", "lower", "upper", "size"]].to_csv(file, index=False)
            buffers = file
        bytes_of = f"{capacity} B" if isinstance(capacity, int) else capacity
        told = _ask("plan", {"file": os.fspath(buffers), "planner": planner, "capacity": bytes_of, "out": str(out),
                             "parameters": parameters})
        return Plan(told, pandas.DataFrame(_orrery.read_table(str(out))))


@answered
def fidelity(folder, points=None):
    """Errors of the catalog's parts against measured tables: one row per table, metric and regime (errors as fractions).

    `points` names a CSV file to write, with the measured and predicted value of every row.
    """
    import pandas

    told = _ask("fidelity", {"folder": os.fspath(folder), "points": "" if points is None else os.fspath(points)})
    return pandas.DataFrame(told["tables"])


@answered
def fits(model: str, part: str, *, host: str = "", sockets: int = 1, devices: int = 1, link: str = "pcie4-x16",
         storage: str = "", weights=(), context: int = 4096, batch: int = 1, router=None, engine: str = "kt_kernel"):
    """Whether a model with experts fits a GPU and its host, and its tokens/s: one row per weight format and schedule.

    Column `config` of a row is a config for `orrery.run`.
    """
    import pandas

    return pandas.DataFrame(_ask("fits", {
        "model": model, "part": part, "host": host, "sockets": sockets, "devices": devices, "link": link,
        "storage": storage, "weights": list(weights), "context": context, "batch": batch, "engine": engine,
        "router": "" if router is None else os.fspath(router)})["rows"])


@answered
def progress_fit(table, *, start: float = 0.0, since: float = 0.0, until: float = 0.0, at: float = 0.0, draws: int = 200,
                 seed: int = 1) -> dict:
    """Fits reward over compute to the rows of a table (compute, reward) from `since` to `until`; the rest judge the fit.

    The answer has `ceiling` with its interval, `exponent`, `middle`, `trusted`, and `reward` at compute `at`. A fit
    that is not trusted refuses to predict beyond its points.
    """
    return _ask("progress_fit", {"table": os.fspath(table), "start": start, "from": since, "until": until, "at": at,
                                 "draws": draws, "seed": seed})


@answered
def progress_score(table, *, most: float = 4.0):
    """AlgoPerf's score of each submission, from a table of times to targets: a frame, best first."""
    import pandas

    return pandas.DataFrame(_ask("progress_score", {"table": os.fspath(table), "most": most})["submissions"])


@answered
def calibrate(device: str, data, *, holdout: str = "none", blocks=(), rows: int = 4000, out=None,
              force: bool = False, training: bool = False) -> dict:
    """Fits the constants of a part to measured tables and writes its catalog entry; `file` of the answer is its path.

    With `training`, the time that a training run spends outside its kernels is fitted to tables of measured plans, and
    section `machine` of a config is written instead.
    """
    return _ask("calibrate", {"device": device, "data": os.fspath(data), "holdout": holdout, "blocks": list(blocks),
                              "rows": rows, "out": "" if out is None else os.fspath(out), "force": force,
                              "training": training})


@answered
def evolve(study, overrides=None, *, proposer: str = "", out=None, jobs: int = 0, progress=None, **sections) -> dict:
    """Searches for an expression that decides better than the baselines of a study (a file of kind "evolve")."""
    return _ask("evolve", {"study": os.fspath(study), "proposer": proposer, "jobs": jobs,
                           "out": "" if out is None else os.fspath(out),
                           "set": configs.assignments(overrides, sections)}, progress)


@answered
def play(policy, config=None, overrides=None, *, against=(), seed: int = 1001, seeds: int = 5, episodes: int = 20,
         jobs: int = 0, progress=None, **sections):
    """A policy of `orrery.train` beside rules on the same runs: one row per policy, medians of `seeds` runs.

    `config` is a file (by default the one that it was trained on), `against` rules for the same decision: "hexgen",
    "hexgen:alpha=0.5", or "all" (by default the config's own). Columns are figures of the run, and for each in how many
    of the runs the learned policy is better (`FIGURE.learned_better`). Column `reason` says why a rule could not run.
    A policy that takes no decision of a run plays `episodes` of its environment: one row.
    """
    import pandas

    told = _ask("play", {"policy": os.fspath(policy), "config": "" if config is None else os.fspath(config),
                         "set": configs.assignments(overrides, sections),
                         "against": [against] if isinstance(against, str) else list(against), "seed": seed,
                         "seeds": seeds, "episodes": episodes, "jobs": jobs}, progress)
    if "episodes" in told:
        return pandas.DataFrame([told["episodes"]], index=pandas.Index(["learned"], name="policy"))
    rows = {}
    for row in told["rows"]:
        figures = {path: one.get("p50") for path, one in row["figures"].items()}
        better = {f"{path}.learned_better": one["learned_better"] for path, one in row["figures"].items()
                  if "learned_better" in one}
        rows[row["name"]] = figures | better | ({"reason": row["reason"]} if "reason" in row else {})
    frame = pandas.DataFrame.from_dict(rows, orient="index")
    frame.index.name = "policy"
    return frame


@answered
def looks(policy, logs, *, seed: int = 1001):
    """What a policy of `orrery.train` looks at, over steps that a training logged (`train.log`): a series by entry.

    Values are the share of decisions that change when an entry is replaced by that of another step (permutation
    importance), the largest first. Attribute `agrees` of the series (`.attrs`) is the share of steps at which the policy
    does what the log did.
    """
    import pandas

    files = [logs] if isinstance(logs, (str, os.PathLike)) else list(logs)
    if not files:
        raise ValueError("looks: expected at least one file of logged steps (train.log), got none")
    told = _ask("play", {"policy": os.fspath(policy), "logs": [os.fspath(one) for one in files], "seed": seed})["looks"]
    series = pandas.Series(told["changed"], name="changed", dtype=float)
    series.attrs["agrees"] = told["agrees"]
    return series


class ImportedConfig(dict):
    """A config, with the assumptions made (`notes`) and the arguments that have no counterpart here (`ignored`)."""

    def __init__(self, told: dict):
        super().__init__(told["config"])
        self.notes: list[str] = told["notes"]
        self.ignored: list[str] = told["ignored"]


@answered
def import_config(engine: str = "vllm", arguments=(), *, file=None, part: str | None = None, model: str | None = None,
                  trace=None, devices: int | None = None) -> ImportedConfig:
    """Turns the arguments that an engine or a training run was started with into a config. They are words as on its
    command line, a dict, or a JSON `file`. `trace` is for serving (engine "vllm"), `devices` for training ("megatron",
    "deepspeed", "torchtitan"). Raises ConfigError for an unknown engine.

        orrery.import_config("vllm", {"model": "meta-llama/Llama-2-7b-hf", "max_num_seqs": 64}, part="a100-sxm4-80gb")
    """
    known = ["vllm", "megatron", "deepspeed", "torchtitan"]
    if engine not in known:
        raise ConfigError([("import", "", f"unknown engine '{engine}'", _orrery.name_hint(engine, known))])
    if isinstance(arguments, str):
        arguments = arguments.split()
    if hasattr(arguments, "items"):
        arguments = [f"--{name.replace('_', '-')}={value if isinstance(value, str) else json.dumps(value)}"
                     for name, value in arguments.items()]
    asked = {"file": "" if file is None else os.fspath(file), "words": list(arguments), "part": part, "model": model}
    if engine == "vllm":
        asked["trace"] = None if trace is None else os.fspath(trace)
    else:
        asked["devices"] = devices
    return ImportedConfig(_ask("import_" + engine, asked))


def _folder_of(thing) -> str:
    """The folder or file of a result, a study, or a path."""
    if isinstance(thing, Stored) and thing.store is not None:
        return thing._file()  # with all that is known by now
    place = thing if isinstance(thing, (str, os.PathLike)) else getattr(thing, "folder", None)
    if place is None:
        raise TypeError(f"expected a run folder, a store, a Result or a Study, got {thing!r}")
    return os.fspath(place)


@answered
def report(*what, out=None, png=None) -> pathlib.Path:
    """Writes one HTML file that shows runs (folders, Results) or studies (stores); returns its path.

    `out` defaults to RUN/report.html or STORE.html; for several, to compare.html in the current folder. `png` names a
    folder for plots.
    """
    places = [_folder_of(one) for one in what]
    if not places:
        raise TypeError("expected something to report on: a run folder, a store, a Result or a Study")
    place = pathlib.Path(out) if out is not None else _report_file(places)
    programs.told_by("orrery_report", *places, "--out", place, "--png", "no" if png is None else os.fspath(png))
    return place


def _report_file(places: list[str]) -> pathlib.Path:
    """The default file, as of the command: a comparison does not overwrite the report of a run."""
    place = pathlib.Path(places[0])
    if len(places) > 1:
        return pathlib.Path("compare.html")
    return place / "report.html" if place.is_dir() else place.with_suffix(".html")


@answered
def compare(run, log) -> dict:
    """Compares a run with the request log of a real engine (CSV of a vLLM run, or its benchmark's JSON), and returns
    what `orrery report RUN --against LOG --json` prints."""
    return json.loads(programs.told_by("orrery_report", _folder_of(run), "--against", log, "--json"))
