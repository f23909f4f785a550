"""Searches over Python functions: a driver proposes points and is told their results."""

from __future__ import annotations

import collections.abc
import concurrent.futures
import json
import math
import pathlib
import re
import shutil
import tempfile
import threading
import weakref

from orrery import _orrery
from orrery.errors import ConfigError
from orrery.keywords import answered, with_those_of
from orrery.running import teller
from orrery.stored import Stored


class Infeasible(Exception):
    """A design that does not fit. The function of a search returns or raises it, with the reason, as a result."""


class Trial(collections.abc.Mapping):
    """A point to evaluate: `id`, active `parameters` by name, and `fidelity`, the share of a full run."""

    def __init__(self, number: int, parameters: dict, fidelity: float):
        self.id, self.parameters, self.fidelity = number, parameters, fidelity

    def __getitem__(self, name):
        return self.parameters[name]

    def __iter__(self):
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"<Trial {self.id}: {values}>"


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w*\s*\()")  # not the e5 of 1e5


def _parameters(space) -> list:
    """A list as in a study file, or a dict by name; a list of values is short for {"values": …}."""
    if not isinstance(space, collections.abc.Mapping):
        return list(space)
    return [{"name": name, **({"values": list(one)} if isinstance(one, (list, tuple)) else one)}
            for name, one in space.items()]


def _objectives(objectives) -> list:
    """"latency", {"latency": "minimise", "speed": "maximise"}, or a list as in a study file (of names too)."""
    if isinstance(objectives, str):
        objectives = [objectives]
    if isinstance(objectives, collections.abc.Mapping):
        return [{direction: name} for name, direction in objectives.items()]
    return [{"minimise": one} if isinstance(one, str) else dict(one) for one in objectives]


def _measures(document: dict) -> dict:
    """Names in objectives and limits that are not parameters: the measures that a function returns."""
    known = {one.get("name") for one in document["parameters"] if isinstance(one, dict)}
    texts = [one.get("minimise", one.get("maximise")) for one in document["objectives"]]
    texts += [one.get("value") for one in document["limits"] if isinstance(one, dict)]
    found = (name for text in texts if isinstance(text, str) for name in _NAME.findall(_QUOTED.sub("", text)))
    return {name: name for name in found if name not in known}


def _document(space, objectives, driver, evaluations, seed, batch, in_flight, constraints, limits, measures) -> dict:
    if isinstance(driver, str):
        driver = {"policy": driver}
    document = {
        "kind": "study",
        "version": 1,
        "base": {},
        "parameters": _parameters(space),
        "constraints": list(constraints),
        "objectives": _objectives(objectives),
        "limits": list(limits),
        "search": {"driver": driver, "budget": evaluations, "seed": seed, "batch": batch,
                   "in_flight": in_flight},
    }
    found = {name: name for name in measures} if measures else _measures(document)
    document["measures"] = found or {"result": "result"}  # that none is there is for the objectives to say
    return document


def _renamed(error: ConfigError, space) -> ConfigError:
    """The error with pointers into what the caller wrote: parameters by name, the driver, evaluations."""
    names = list(space) if isinstance(space, collections.abc.Mapping) else None
    faults = []
    for fault in error.faults:
        pointer = fault.pointer
        if found := re.match(r"/parameters(?:/(\d+))?(.*)", pointer):
            place = found[1] if names is None or found[1] is None else names[int(found[1])]
            inner = found[2].removesuffix("/name") if names is not None else found[2]
            pointer = "/space" + (f"/{place}" if place is not None else "") + inner
        elif pointer.startswith("/search/budget"):
            pointer = "/evaluations"
        elif pointer.startswith("/search/"):
            pointer = pointer.removeprefix("/search")
        faults.append(fault._replace(pointer=pointer))
    return ConfigError(faults)


@answered
class Search(Stored):
    """Asks any driver of `orrery list driver` for points of a space, and tells it their measures.

        search = orrery.Search({"x": {"range": [0, 4]}, "kind": ["a", "b"]}, "cost", driver="tpe", seed=1)
        for trial in search.ask(8):
            search.tell(trial, {"cost": (trial["x"] - 1) ** 2})

    `space`: parameters by name as in study files ({"range": [1, 64], "type": "integer", "scale": "log"}, a list of
    values, "when"), or a list of them; `constraints` are formulas over parameters. `objectives`: a name or formula to
    minimise, {"latency": "minimise", "speed": "maximise"}, or a list as in study files; `limits` likewise ({"value":
    "latency", "most": 2}). `driver`: a name, or a policy block with parameters. `in_flight`: most points that are out at a
    time; above `batch`, `ask` gives points while others wait for their results. `out` names a
    store, from which an interrupted search continues. Raises ConfigError if any of these is faulty.
    """

    def __init__(self, space, objectives, driver="random", *, evaluations: int = 100, seed: int = 1, batch: int = 8,
                 in_flight: int = 0, constraints=(), limits=(), measures=(), out=None, any_build: bool = False):
        self.store = pathlib.Path(out) if out is not None else None
        if self.store is None:
            folder = tempfile.mkdtemp(prefix="orrery-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.store = pathlib.Path(folder) / "search.sqlite"
        document = _document(space, objectives, driver, evaluations, seed, batch, in_flight, constraints, limits,
                             measures)
        try:
            self._core = _orrery.Search(json.dumps(document), str(self.store), any_build)
        except ConfigError as error:
            raise _renamed(error, space) from None
        self.document = document
        self.batch, self.in_flight = batch, in_flight
        self._lock = threading.Lock()

    @property
    def measures(self) -> list[str]:
        """Names of the measures that a result must have."""
        return self._core.measures()

    def ask(self, n: int | None = None) -> list[Trial]:
        """Points to evaluate next, at most n (default: the batch). Empty once the evaluations or the space are used up.

        `tell` the results in any order: of all points before the next `ask`, or with `in_flight` above `batch` as they
        come. The driver then hears of them in the order of the points and as late as `in_flight` allows: what it
        proposes does not depend on how long an evaluation takes. A RuntimeError names the point that must be told first. Points
        in the store are not repeated.
        """
        with self._lock:
            return [Trial(*one) for one in self._core.ask(self.batch if n is None else n)]

    def can_ask(self, n: int | None = None) -> bool:
        """Whether `ask(n)` (default: the batch) would give points now, as far as results and evaluations decide it."""
        with self._lock:
            return self._core.can_ask(self.batch if n is None else n)

    def tell(self, trial, result) -> None:
        """Takes the result of a trial, or of a list of trials: a dict of measures, an Infeasible or an exception."""
        if isinstance(trial, (list, tuple)):
            for one, of_it in zip(trial, result, strict=True):
                self.tell(one, of_it)
            return
        judged = self._judged(result)
        with self._lock:
            self._core.tell(trial.id, *judged)

    def _judged(self, result) -> tuple[str, str, list[float]]:
        if isinstance(result, Infeasible):
            return "infeasible", str(result) or "infeasible", []
        if isinstance(result, BaseException):
            return "failed", f"{type(result).__name__}: {result}", []
        if not isinstance(result, collections.abc.Mapping):
            raise TypeError(f"expected a dict of measures ({', '.join(self.measures)}), got {result!r}")
        return "ok", "", [_number(result.get(name)) for name in self.measures]

    def _commit(self) -> None:
        self._core.commit()

    def _title(self) -> str:
        return f"Search with {self._core.facts()['driver']}"


def _number(value) -> float:
    return math.nan if value is None else float(value)


def _evaluate(function, trial: Trial):
    try:
        return function(**trial.parameters)
    except Exception as error:  # noqa: BLE001 - an evaluation that fails is a result
        return error


def _until_done(found: Search, function, pool) -> collections.abc.Iterator[Trial]:
    """Evaluates on the pool (None: here) and tells in the order of the points; each trial when it has been told."""
    waiting: collections.deque = collections.deque()
    size, more = max(found.batch, found.in_flight), True
    while more or waiting:
        if more and size - len(waiting) >= found.batch and found.can_ask():
            trials = found.ask()
            waiting += [(trial, pool.submit(_evaluate, function, trial) if pool else None) for trial in trials]
            more = bool(trials or waiting)
            if trials:
                continue
        if not waiting:
            return
        trial, result = waiting.popleft()
        found.tell(trial, result.result() if result else _evaluate(function, trial))
        yield trial


@with_those_of(Search)
def search(function, space, objectives, driver="random", evaluations: int = 100, seed: int = 1, jobs: int = 1, *,
           batch: int = 8, in_flight: int = 0, progress=None, **options) -> Search:
    """Searches a space for the points at which a Python function is best; returns the Search with all its points.

    `function(**parameters)` returns a dict of measures; an `Infeasible` that it returns or raises, and any exception,
    are results too. `jobs` is the number of evaluations at a time, on threads (orrery's runs work in parallel there);
    the points do not depend on it. With `in_flight` above `batch` (twice `jobs` or more), the next batch is asked
    for as soon as the oldest one is done; else one batch waits for the other. `progress` is as in `run`. Options are those of `Search`; with `out`, an interrupted
    search continues.
    """
    found = Search(space, objectives, driver, evaluations=evaluations, seed=seed, batch=batch, in_flight=in_flight,
                   **options)
    tell = teller(progress)
    pool = concurrent.futures.ThreadPoolExecutor(jobs) if jobs > 1 else None
    try:
        for trial in _until_done(found, function, pool):
            if tell is not None:
                tell(trial.id, evaluations, 0.0, "points")
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)
        found._core.commit()
    found._core.finish()
    return found
