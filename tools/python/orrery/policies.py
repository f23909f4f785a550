"""Policies in Python: classes that a serving run asks as it goes.

Hand `run` the class (or a function without arguments): every replica then has an object of its own. An object is asked
by all replicas, and keeps what it learnt when the run is over. What a policy sees (views, sequences, replicas) are
light objects over the state of the run, without copies; they end with the call.
"""

from __future__ import annotations

import hashlib
import inspect

from orrery import _orrery

STABLE = _orrery.STABLE
BudgetStep = _orrery.BudgetStep


class Batching:
    """Which sequences a replica advances in its next iteration, and by how much.

    `decide(view, out)` is called once an iteration: it reads the view and fills the decision, a change and not a state.
    `BudgetStep` does the bookkeeping of blocks and chunks; `NativeBatching` is a policy of C++ to build upon. See
    docs/explain/python.md.
    """

    def decide(self, view, out) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no decide(view, out)")


class Router:
    """Which replica a request goes to: `route(view)` gives the place of one of `view.replicas`, or the replica."""

    reads_live = False  # whether it reads `waiting` and `kv_blocks`, which are then brought up to date

    def route(self, view):
        raise NotImplementedError(f"{type(self).__name__} has no route(view)")

    def left(self, request: int) -> None:
        """A request is no longer at a replica."""


def _name(policy) -> str:
    named = policy if inspect.isclass(policy) or inspect.isroutine(policy) else type(policy)
    return named.__qualname__


def _digest(policy) -> str:
    """Stands for the code in the config of the run; empty where its text is not at hand."""
    named = policy if inspect.isclass(policy) or inspect.isroutine(policy) else type(policy)
    try:
        return hashlib.sha256(inspect.getsource(named).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return ""


def source(policy, base: type):
    """A policy, a class or a function that makes one, as the core wants it; None stays None."""
    if policy is None:
        return None
    if isinstance(policy, base):
        return _orrery.PolicySource(lambda: policy, _name(policy), _digest(policy))
    if not callable(policy) or (inspect.isclass(policy) and not issubclass(policy, base)):
        raise TypeError(f"expected a {base.__name__}, its class or a function that makes one, got {policy!r}")

    def make():
        made = policy()
        if not isinstance(made, base):
            raise TypeError(f"expected a {base.__name__}, got {made!r}")
        return made

    return _orrery.PolicySource(make, _name(policy), _digest(policy))
