"""Studies: every point of a sweep, or the points that a driver asks for, of one experiment (docs/explain/studies.md)."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
import weakref

from orrery import _orrery
from orrery import config as configs
from orrery import policies, programs
from orrery.errors import ConfigError, Fault
from orrery.keywords import answered
from orrery.running import teller
from orrery.stored import Stored


def _factory(policy, base):
    """Points run in parallel, each with its own policy."""
    if isinstance(policy, base):
        raise TypeError(f"expected the class of a {base.__name__} or a function that makes one: every run has its own")
    return policies.source(policy, base)


@answered
class Study(Stored):
    """A study, a file or a dict of the same form, changed by `overrides` (dotted paths) and by sections.

        study = orrery.Study("experiments/studies/sweep_serving.json", search={"budget": 20}).run()
        study.points, study.front, study.best(5), study.analysis

    `out` names the store (SQLite); without it, the store is a temporary file, deleted with the study. A Python policy
    (a class) is called "python" in the study, so that a parameter can choose between it and others.
    """

    def __init__(
        self,
        config,
        overrides=None,
        *,
        out=None,
        batching=None,
        routing=None,
        decode_routing=None,
        **sections,
    ):
        path, text = configs.source(config)
        self._core = _orrery.Study(
            path,
            text,
            configs.assignments(overrides, sections, config),
            batching=_factory(batching, policies.Batching),
            routing=_factory(routing, policies.Router),
            decode_routing=_factory(decode_routing, policies.Router),
        )
        self._policies = any(one is not None for one in (batching, routing, decode_routing))
        self._take_facts(out)

    def _take_facts(self, out) -> None:
        facts = self._core.facts()
        self.name: str = facts["name"]
        self.title: str = facts["title"]
        self.document: dict = facts["document"]
        self.store = pathlib.Path(out) if out is not None else None
        self.last: dict = {}  # how the last exploration went: points, known, runs, notes

    @classmethod
    def load(cls, store) -> Study:
        """The study in a store that a command or an earlier session wrote. It shows points and cannot run."""
        study = cls.__new__(cls)
        study._core, study.store, study.last = None, pathlib.Path(store), {}
        told = _orrery.read_store(os.fspath(store))
        study.name, study.document = told["study"], told["document"]
        study.title = study.document.get("title", "")
        return study

    def _runnable(self):
        if self._core is None:
            raise ConfigError([(str(self.store), "", "expected a study to run, this one was loaded from its store",
                                "orrery.Study(FILE, out=STORE) goes on with it")])
        return self._core

    @property
    def mode(self) -> str:
        """What `run` does: "sweep", or "search" if the study states a search and no sweep (or cannot be swept)."""
        facts = self._runnable().facts()
        stated = "search" in self.document and "sweep" not in self.document
        return "search" if facts["objectives"] and (stated or not facts["sweeps"]) else "sweep"

    def run(self, jobs: int | None = None, progress=None, *, mode: str | None = None, force: bool = False,
            any_build: bool = False, cluster: str | None = None, earlier=()) -> Study:
        """Runs the study to its end and returns it; continues where an interrupted one stopped.

        `jobs` is the number of threads (default: one per core); rows do not depend on it. `progress` is as in
        `orrery.run`. Ctrl-C stops the current runs; finished ones are in the store, and the next call continues.
        `force` starts again from nothing; `any_build` continues a store that another build (or the command) began.
        `cluster` is the address of a Dask scheduler whose workers do the runs (docs/explain/clusters.md). A search
        starts from the points of `earlier` studies or stores, as `orrery search --from` (docs/explain/studies.md).
        """
        core = self._runnable()
        search = (mode or self.mode) == "search"
        if mode is not None and mode not in ("sweep", "search"):
            raise ConfigError([("mode", "", f"unknown mode '{mode}'", _orrery.name_hint(mode, ["sweep", "search"]))])
        if self.store is None:
            folder = tempfile.mkdtemp(prefix="orrery-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.store = pathlib.Path(folder) / f"{self.name}.sqlite"
        if force:
            _orrery.remove_store(str(self.store))
        jobs = (os.cpu_count() or 1) if jobs is None else jobs
        handing = [] if cluster is None else self._cluster(cluster)
        before = [str(one._file()) if isinstance(one, Stored) else os.fspath(one) for one in earlier]
        self.last = core.explore(search, str(self.store), jobs, any_build, teller(progress), handing, cluster or "", before)
        return self

    def _cluster(self, address: str) -> list[str]:
        """The process that hands out runs; workers run the command."""
        if self._policies:
            raise ConfigError([("cluster", "", "expected policies of C++: workers have no Python classes", "")])
        return programs.package("orrery_cluster", address, "--command", programs.command(), "--build", "")

    def sweep(self, jobs: int | None = None, progress=None, **options) -> Study:
        """Runs every point of the sweep; arguments as in `run`."""
        return self.run(jobs, progress, mode="sweep", **options)

    def search(self, jobs: int | None = None, progress=None, **options) -> Study:
        """Runs the points that the search driver asks for; arguments as in `run`."""
        return self.run(jobs, progress, mode="search", **options)

    def confirm(self, n: int = 10, *, within: float = 0.01, confidence: float = 0.95, runs: int = 1000, out=None,
                jobs: int | None = None, progress=None) -> Study:
        """Runs the n best points again, with fresh seeds, until the best is known, as `orrery best --confirm`.

        Returns the study of these runs; its `verdict` has the standing of every candidate. `within` is the share of the
        best mean that does not matter, `runs` the largest number of runs.
        """
        study = Study.__new__(Study)
        study._core = self._runnable().confirming(self._file(), n, within, confidence, runs)
        study._policies = self._policies
        study._take_facts(out)
        return study.search(jobs, progress)

    @property
    def verdict(self) -> dict:
        """The standing of every candidate of a search with driver `select`, as `orrery best --json` prints it."""
        return best(self)

    def config(self, point: int) -> dict:
        """The config of a point by its id, with all defaults; `orrery.run` runs it again (its first seed)."""
        return self._runnable().config(self._file(), int(point))

    def validate(self, most: int = 1000) -> list[Fault]:
        """The faults of its experiments, at up to `most` points; an empty list if they are valid."""
        try:
            self._runnable().check(most)
        except ConfigError as error:
            return error.faults
        return []

    def _title(self) -> str:
        return f"Study {self.name}"


@answered
def analyse(*stores, objectives=()) -> dict:
    """Analyses stores (files, studies) together, as `orrery analyse --json`: one reference, one joint front."""
    files = [store._file() if isinstance(store, Stored) else os.fspath(store) for store in stores]
    return _orrery.ask("analyse", json.dumps({"stores": files, "objectives": list(objectives)}), None)


@answered
def best(*stores, n: int = 10) -> dict:
    """The n best points, or the joint front, of several stores (files, studies), as `orrery best --json`."""
    files = [store._file() if isinstance(store, Stored) else os.fspath(store) for store in stores]
    return _orrery.ask("best", json.dumps({"stores": files, "top": n}), None)
