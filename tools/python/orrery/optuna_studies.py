"""Stores as Optuna studies, and the best trials of those as first points of a search. Needs the package optuna."""

from __future__ import annotations

import math
import os

from orrery import _orrery
from orrery.errors import ConfigError
from orrery.keywords import answered
from orrery.stored import Stored

_UNITS = "orrery_units"  # attribute of a study: units of ranges by parameter


def _optuna():
    try:
        import optuna
    except ImportError:
        raise ConfigError([("optuna", "", "expected the Python package optuna, found none",
                            "tools/setup optional installs Debian's")]) from None
    return optuna


def _number(value) -> float:
    """A number or quantity in SI."""
    return float(value) if isinstance(value, (int, float)) else _orrery.quantity(value)[0]


def _labels(parameter: dict) -> list:
    return [one["is"] if isinstance(one, dict) else one for one in parameter["values"]]


def _distribution(optuna, parameter: dict):
    """Optuna's distribution of a parameter of a study file: choices as the file states them, ranges in SI."""
    kinds = optuna.distributions
    if "values" in parameter:
        return kinds.CategoricalDistribution(_labels(parameter))
    low, high = (_number(end) for end in parameter["range"])
    log = parameter.get("scale") == "log"
    if parameter.get("type") == "integer":
        return kinds.IntDistribution(int(low), int(high), log=log)
    return kinds.FloatDistribution(low, high, log=log)


def _value(parameter: dict, cell):
    """Optuna's value for a cell of a store; None where the parameter does not count."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if "values" not in parameter:
        return int(cell) if parameter.get("type") == "integer" else float(cell)
    for label in _labels(parameter):
        if label == cell or (not isinstance(cell, str) and _is_number(label) and _number(label) == float(cell)):
            return label
    return None


def _is_number(label) -> bool:
    return isinstance(label, (int, float)) or _orrery.quantity(label) is not None


@answered
def to_optuna(store, storage, name: str | None = None):
    """Writes a store (a file, a study) as an Optuna study into one of Optuna's storages; returns that study.

    `storage` is a URL such as "sqlite:///optuna.db", or a storage object. `name` is the name of the new study (default:
    that of the store's study); it must not exist yet. Points that ran become complete trials, with measures as
    attributes and the excess over limits as constraints. Others become failed trials with the reason. Points that were
    evaluated on part of a run are left out.
    """
    optuna = _optuna()
    told = _orrery.read_store(store._file() if isinstance(store, Stored) else os.fspath(store))
    columns = told["columns"]
    table = {key: list(values) for key, values in told["table"].items()}
    parameters = {}
    for parameter in told["document"]["parameters"]:
        if "formula" not in parameter:
            paths = parameter.get("path", [])
            first = paths if isinstance(paths, str) else (paths or [""])[0]
            parameters[parameter.get("name", first.rpartition(".")[2])] = parameter
    goals = [(column, detail) for column, kind, detail in columns if kind == "objective"]
    limits = [column for column, kind, _ in columns if kind == "limit"]
    measures = [column for column, kind, _ in columns if kind == "measure"]
    study = optuna.create_study(storage=storage, study_name=name or told["study"],
                                directions=[detail.replace("ise", "ize") for _, detail in goals])
    study.set_user_attr(_UNITS, {column: detail for column, kind, detail in columns
                                 if kind == "parameter" and detail and "range" in parameters[column]})
    distributions = {column: _distribution(optuna, parameter) for column, parameter in parameters.items()}
    trials = []
    for row, number in enumerate(table["id"]):
        if table["fidelity"][row] != 1:
            continue
        values = {column: _value(parameter, table[column][row]) for column, parameter in parameters.items()}
        values = {column: value for column, value in values.items() if value is not None}
        ok = table["status"][row] == "ok"
        attributes = {"point": int(number)}
        if ok:
            attributes |= {column: float(table[column][row]) for column in measures}
        else:
            attributes |= {"status": table["status"][row], "reason": table["reason"][row]}
        trials.append(optuna.trial.create_trial(
            state=optuna.trial.TrialState.COMPLETE if ok else optuna.trial.TrialState.FAIL,
            values=[float(table[column][row]) for column, _ in goals] if ok else None,
            params=values,
            distributions={column: distributions[column] for column in values},
            user_attrs=attributes,
            system_attrs={"constraints": [float(table[column][row]) for column in limits]} if ok and limits else {},
        ))
    study.add_trials(trials)
    return study


@answered
def first_from_optuna(storage, name: str, n: int = 10) -> list[dict]:
    """The n best trials of an Optuna study (for several objectives, n of its best trials) as `search.first` of a study.

    Parameters must have the same names. Values are Optuna's, with the unit of the range if `to_optuna` wrote the study.
    """
    optuna = _optuna()
    study = optuna.load_study(storage=storage, study_name=name)
    complete = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    meeting = [trial for trial in complete if all(one <= 0 for one in trial.system_attrs.get("constraints", []))]
    if len(study.directions) > 1:
        best = [trial for trial in study.best_trials if trial in meeting]
    else:
        sign = 1 if study.direction == optuna.study.StudyDirection.MINIMIZE else -1
        best = sorted(meeting, key=lambda trial: sign * trial.value)
    units = study.user_attrs.get(_UNITS, {})

    def stated(column, value):
        return f"{value!r} {units[column]}" if column in units else value

    return [{column: stated(column, value) for column, value in trial.params.items()} for trial in best[:n]]
