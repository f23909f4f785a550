"""Policies in Python: classes that a serving run asks for decisions.

Give `run` the class (or a function without arguments) and every replica has an object of its own. Give it an object and
all replicas share it; it keeps its state after the run. What a policy sees (views, sequences, replicas) are light
objects over the state of the run, without copies; they are valid during the call only.
"""

from __future__ import annotations

import hashlib
import inspect

from orrery import _orrery

STABLE = _orrery.STABLE
BudgetStep = _orrery.BudgetStep


class Batching:
    """Which sequences a replica advances in its next iteration, and by how much.

    `decide(view, out)` is called once per iteration. It reads the view and fills the decision, which is a change, not a
    state. `BudgetStep` does the bookkeeping of blocks and chunks; `NativeBatching` is a built-in policy to build on.
    See docs/explain/python.md.
    """

    def decide(self, view, out) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no decide(view, out)")


class Router:
    """Which replica a request goes to: `route(view)` returns one of `view.replicas`, or its index there."""

    reads_live = False  # whether it reads `waiting` and `kv_blocks`, which are then brought up to date

    def route(self, view):
        raise NotImplementedError(f"{type(self).__name__} has no route(view)")

    def left(self, request: int) -> None:
        """Called when a request (its id) is no longer at a replica: it ended, moved on, or the replica failed."""


def _name(policy) -> str:
    named = policy if inspect.isclass(policy) or inspect.isroutine(policy) else type(policy)
    return named.__qualname__


def _digest(policy) -> str:
    """A hash of the code, for the config of the run; empty if its text is not available."""
    named = policy if inspect.isclass(policy) or inspect.isroutine(policy) else type(policy)
    try:
        return hashlib.sha256(inspect.getsource(named).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return ""


def source(policy, base: type):
    """A policy, or a class or function that makes one, in the form that the core takes; None stays None."""
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
