"""Running and checking experiments."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import tempfile
import time
import typing
import weakref

from orrery import _orrery
from orrery import config as configs
from orrery import policies
from orrery.errors import ConfigError, Fault
from orrery.keywords import answered
from orrery.result import Result


_CHECKED = 1000  # points of a study that are read


class Progress(typing.NamedTuple):
    """The progress of a run."""

    done: int
    total: int | None
    simulated_s: float
    what: str  # that `done` counts


def _shown():
    """Writes progress to stderr: one line that is updated on a terminal, else a line every ten seconds."""
    terminal, last = sys.stderr.isatty(), [time.monotonic()]

    def show(at: Progress) -> None:
        now = time.monotonic()
        if not terminal and now - last[0] < 10:
            return
        last[0] = now
        of = f"/{at.total}" if at.total is not None else ""
        simulated = f", {at.simulated_s:.1f} s simulated" if at.simulated_s else ""
        ended = at.total is not None and at.done >= at.total
        line = f"{at.done}{of} {at.what}{simulated}"
        print(f"\r\x1b[K{line}" if terminal else line, file=sys.stderr, end="" if terminal and not ended else "\n")

    return show


def teller(progress):
    """The function that the core calls with the fields of Progress, a few times per second."""
    if progress is None or progress is False:
        return None
    if progress is True:

        progress = _shown()
    return lambda *fields: progress(Progress(*fields))


@answered
def read(config, overrides=None, *, batching=None, routing=None, decode_routing=None, **sections):
    """Reads and validates a config; the result can be run any number of times. Raises ConfigError."""
    path, text = configs.source(config)
    return _orrery.Experiment(
        path,
        text,
        configs.assignments(overrides, sections, config),
        batching=policies.source(batching, policies.Batching),
        routing=policies.source(routing, policies.Router),
        decode_routing=policies.source(decode_routing, policies.Router),
    )


@answered
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
    """Runs an experiment, a path or a dict, changed by `overrides` (dotted paths) and by `sections`.

        orrery.run("first_light.json", {"workload.rate_scale": 2}, replica={"memory_margin": 0.2}, seed=3)

    `out` names a run folder to write, as the command does (`force` replaces one); without it, tables last as long as
    the result. `tables=False` keeps none and is the fastest. `progress` is True, or a function of a Progress. Policies
    may be Python classes: see `orrery.Batching` and `orrery.Router`. The interpreter's lock is released during the run,
    and Ctrl-C stops it. Raises ConfigError for faulty input and PolicyError if a Python policy fails; no half-written
    files remain.
    """
    changes = dict(overrides or {})
    if seed is not None:
        changes["run.seed"] = seed
    experiment = read(
        config, changes, batching=batching, routing=routing, decode_routing=decode_routing, **sections
    )
    return finish(experiment, out, force, tables, progress)


def finish(experiment, out=None, force: bool = False, tables: bool = True, progress=None) -> Result:
    """Runs what `read` returned, as `run` does."""
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
    weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


@answered
def load(folder) -> Result:
    """The result in a run folder. Raises ConfigError if there is none."""
    folder = pathlib.Path(folder)
    try:
        summary = json.loads((folder / "summary.json").read_text())
        manifest = json.loads((folder / "manifest.json").read_text())
    except OSError as error:
        raise ConfigError([(str(folder), "", "expected the folder of a run", str(error.strerror))]) from None
    except ValueError as error:
        raise ConfigError([(str(folder), "", "expected the folder of a run", str(error))]) from None
    try:
        told = {"summary": summary, **{key: manifest[key] for key in ("events", "notes", "wall_s")}}
        return Result(told, manifest["config"], folder)
    except (KeyError, TypeError) as error:
        raise ConfigError([(str(folder / "manifest.json"), "", "expected the manifest of a run", f"no {error}")]) from None


@answered
def validate(config, overrides=None, **sections) -> list[Fault]:
    """The faults of a config, study, claim study or part, as in `orrery validate`; an empty list if it is valid."""
    path, text = configs.source(config)
    changes = configs.assignments(overrides, sections, config)
    try:
        if path is not None:
            _orrery.validate_file(path, changes)
        elif config.get("kind") == "study":
            _orrery.Study(path, text, changes).check(_CHECKED)
        else:
            _orrery.Experiment(path, text, changes)
    except ConfigError as error:
        return error.faults
    return []
