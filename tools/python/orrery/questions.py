"""Runs that ask another question: `orrery capacity`, `goodput`, `slo`, `plans`, `train`. Stubs (questions.pyi) are made from the
tables of their options: orrery_stubs."""

from __future__ import annotations

import inspect

from orrery import _orrery
from orrery import config as configs
from orrery.keywords import answered
from orrery.result import Result
from orrery.running import finish


def _texts(value) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [text for one in value for text in _texts(one)]
    return [str(value).lower() if isinstance(value, bool) else str(value)]  # JSON's true


def _question(table: dict):
    """A function for a command that runs another system; its keywords are the command's options."""
    options = {one["name"].replace("-", "_"): one for one in table["options"]}

    def ask(config, overrides=None, *, seed=None, out=None, force=False, tables=True, progress=None, **given) -> Result:
        before = [f"system={table['system']}"]
        for keyword in [k for k in given if k in options and given[k] is not None]:
            value, option = given.pop(keyword), options[keyword]
            if option["form"] == "enabled" and not value:
                continue
            before.append(_orrery.option_assignment(table["name"], option["name"], _texts(value)))
        changes = {**(overrides or {}), **({} if seed is None else {"run.seed": seed})}
        path, text = configs.source(config)
        experiment = _orrery.Experiment(path, text, before + configs.assignments(changes, given, config))
        return finish(experiment, out, force, tables, progress)

    own = inspect.signature(ask).parameters
    keywords = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in options]
    parameters = [p for name, p in own.items() if name != "given"]
    ask.__signature__ = inspect.Signature([*parameters, *keywords, own["given"]], return_annotation=Result)
    ask.__name__ = ask.__qualname__ = table["name"]
    lines = [f"    {name}: {one['doc']}" for name, one in options.items()]
    head = f"{table['doc']}; as `orrery {table['name']}`. It takes the keywords of `run` too."
    ask.__doc__ = "\n".join([head, "", *lines])
    return answered(ask)


_QUESTIONS = {table["name"]: _question(table) for table in _orrery.questions()}
capacity, slo = _QUESTIONS["capacity"], _QUESTIONS["slo"]
plans, train = _QUESTIONS["plans"], _QUESTIONS["train"]
goodput = _QUESTIONS["goodput"]
