"""Running and checking experiments."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import tempfile
import typing
import weakref

from orrery import _orrery
from orrery import config as configs
from orrery import policies
from orrery.errors import ConfigError, Fault
from orrery.result import Result


class Progress(typing.NamedTuple):
    """How far a run has come."""

    done: int
    total: int | None
    simulated_s: float
    what: str  # that `done` counts


def teller(progress):
    """What the core calls with the fields of Progress, a few times a second."""
    if progress is None or progress is False:
        return None
    if progress is True:

        def show(at: Progress) -> None:
            of = f"/{at.total}" if at.total is not None else ""
            print(f"{at.done}{of} {at.what}, {at.simulated_s:.1f} s simulated", file=sys.stderr)

        progress = show
    return lambda *fields: progress(Progress(*fields))


def read(config, overrides=None, *, batching=None, routing=None, decode_routing=None, **sections):
    """Reads and validates a config; what comes back runs as often as wanted (`run` does both). ConfigError."""
    path, text = configs.source(config)
    return _orrery.Experiment(
        path,
        text,
        configs.assignments(overrides, sections, config),
        batching=policies.source(batching, policies.Batching),
        routing=policies.source(routing, policies.Router),
        decode_routing=policies.source(decode_routing, policies.Router),
    )


def run(
    config,
    overrides=None,
    *,
    seed: int | None = None,
    out=None,
    force: bool = False,
    tables: bool = True,
    progress=None,
    batching=None,
    routing=None,
    decode_routing=None,
    **sections,
) -> Result:
    """Runs an experiment: a path or a dict, changed by `overrides` (dotted paths) and by sections.

        orrery.run("first_light.json", {"workload.rate_scale": 2}, replica={"memory_margin": 0.2}, seed=3)

    `out` names a run folder to write, as the command does (`force` replaces one); otherwise tables live as long as the
    result. `tables=False` keeps none, the quickest. `progress` is True or a function of a Progress. Policies may be
    Python classes: see `orrery.Batching` and `orrery.Router`. The interpreter's lock is free while it runs, and Ctrl-C
    stops it. Raises ConfigError for faulty input, PolicyError where a policy in Python fails; nothing half-written is
    left.
    """
    changes = dict(overrides or {})
    if seed is not None:
        changes["run.seed"] = seed
    experiment = read(
        config, changes, batching=batching, routing=routing, decode_routing=decode_routing, **sections
    )
    return finish(experiment, out, force, tables, progress)


def finish(experiment, out=None, force: bool = False, tables: bool = True, progress=None) -> Result:
    """Runs what `read` gave, as `run` does."""
    tell = teller(progress)
    if out is not None:
        told = experiment.run_into(str(out), force, tell)
        return Result(told, experiment.resolved(), pathlib.Path(out))
    if not tables:
        return Result(experiment.run(None, tell), experiment.resolved(), None)
    folder = tempfile.mkdtemp(prefix="orrery-")
    try:
        result = Result(experiment.run(folder, tell), experiment.resolved(), pathlib.Path(folder))
    except BaseException:
        shutil.rmtree(folder)
        raise
    weakref.finalize(result, shutil.rmtree, folder)
    return result


def load(folder) -> Result:
    """The result in a run folder. ConfigError if there is none."""
    folder = pathlib.Path(folder)
    try:
        summary = json.loads((folder / "summary.json").read_text())
        manifest = json.loads((folder / "manifest.json").read_text())
    except OSError as error:
        raise ConfigError([(str(folder), "", "expected the folder of a run", str(error.strerror))]) from None
    told = {"summary": summary, **{key: manifest[key] for key in ("events", "notes", "wall_s")}}
    return Result(told, manifest["config"], folder)


def validate(config, overrides=None, **sections) -> list[Fault]:
    """The faults of a config (an experiment, or the file of a claim study): none if it is valid."""
    path, text = configs.source(config)
    changes = configs.assignments(overrides, sections, config)
    try:
        if path is None or not _orrery.check_claim(path, changes):
            _orrery.Experiment(path, text, changes)
    except ConfigError as error:
        return error.faults
    return []
