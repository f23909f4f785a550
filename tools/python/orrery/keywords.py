"""For a keyword that a function does not have, the error names the nearest one that it has."""

from __future__ import annotations

import functools
import inspect
import typing

from orrery import _orrery
from orrery.errors import ConfigError, Fault

_Thing = typing.TypeVar("_Thing", bound=typing.Callable)
_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _own(function) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())
    return [one.name for one in parameters if one.kind in _KINDS and one.name not in ("self", "cls")]


def _open(function) -> bool:
    """Whether it takes any keyword: sections of a config, parameters, sizes."""
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in inspect.signature(function).parameters.values())


def _nearer(fault: Fault, given, own: list[str]) -> Fault:
    """A fault of the core that names a keyword: it knows the names of configs, and not those of the function."""
    word = next((one for one in given if one not in own and f"'{one}'" in fault.message), None)
    if word is None:
        return fault
    quoted = fault.hint.split("'")
    hint = _orrery.name_hint(word, [*own, *quoted[1:2]] if fault.hint.startswith("did you mean") else own)
    return fault._replace(hint=hint) if hint.startswith("did you mean") else fault


def _wrapped(function, name: str, own: list[str], is_open: bool):
    @functools.wraps(function)
    def call(*args, **given):
        if not is_open:
            for word in given:
                if word not in own:
                    hint = _orrery.name_hint(word, own)
                    raise TypeError(f"{name}() has no keyword '{word}'" + (f" ({hint})" if hint else ""))
            return function(*args, **given)
        try:
            told = function(*args, **given)
        except ConfigError as error:
            raise ConfigError([_nearer(fault, given, own) for fault in error.faults]) from None
        if isinstance(told, list) and told and isinstance(told[0], Fault):  # validate gives them
            return [_nearer(fault, given, own) for fault in told]
        return told

    return call


def _class(made: type) -> None:
    for name, member in list(vars(made).items()):
        inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not inspect.isfunction(inner) or (name.startswith("_") and name != "__init__"):
            continue
        if not _own(inner):
            continue
        shown = made.__name__ if name == "__init__" else f"{made.__name__}.{name}"
        call = _wrapped(inner, shown, _own(inner), _open(inner))
        setattr(made, name, type(member)(call) if inner is not member else call)


def answered(thing: _Thing) -> _Thing:
    """A function, or the constructor and the public methods of a class: a keyword that it does not have is a TypeError
    with the nearest name; where keywords are sections or parameters too, the core's ConfigError knows its own names."""
    if inspect.isclass(thing):
        _class(thing)
        return typing.cast(_Thing, thing)
    return typing.cast(_Thing, _wrapped(thing, thing.__name__, _own(thing), _open(thing)))


def with_those_of(other):
    """For a function that hands its `**options` on to `other`: the same, with the keywords of both."""

    def decorate(thing: _Thing) -> _Thing:
        own = list(dict.fromkeys([*_own(thing), *_own(other)]))
        return typing.cast(_Thing, _wrapped(thing, thing.__name__, own, False))

    return decorate
