"""Overloads of what is made by its name: an overload an environment, a batching policy.

A name that only the run knows takes no parameters: else a checker would let any pass, whatever the name.
"""

from __future__ import annotations

import json
import keyword

HEAD = '''# Made by orrery_stubs from the declarations of parameters.
from typing import Any, Literal, Mapping, Optional, Sequence, Union, overload

from orrery import params as _p
from orrery.env import Env, ParallelEnv
from orrery.policies import Batching
from orrery.vector import VectorEnv
'''


def _usable(fields: list[dict]) -> list[dict]:
    return [f for f in fields if f["name"].isidentifier() and not keyword.iskeyword(f["name"])]


def _qualified(text: str, declared) -> str:
    """Types of params by their full name."""
    import re

    own = {"Quantity"} | set(declared._taken)
    return re.sub(r'"[^"]*"|\b[A-Z]\w*\b', lambda m: f"_p.{m[0]}" if m[0] in own else m[0], text)


def keywords(declared, kind: str, name: str) -> list[str]:
    """Parameters of a component as keyword arguments."""
    one = next(c for c in declared.components if (c["kind"], c["name"]) == (kind, name))
    owner = declared.of[kind, name]
    return [f"{f['name']}: {_qualified(declared.type_of(f, owner), declared)} = ..." for f in _usable(one["fields"])]


def _agents(core, name: str) -> str:
    try:
        return "Env" if len(core.Env(name, "{}").spec()["agents"]) == 1 else "ParallelEnv"
    except Exception:  # noqa: BLE001 - it needs parameters, or a config
        return "Union[Env, ParallelEnv]"


def text(declared, core) -> str:
    """The stub of orrery.named."""
    lines = [HEAD]
    for name in declared.names["env"]:
        given = ", ".join([f"name: Literal[{json.dumps(name)}]", "*", *keywords(declared, "env", name)])
        given = given.removesuffix(", *")
        lines += ["@overload", f"def make_env({given}) -> {_agents(core, name)}: ..."]
    lines += ["@overload", "def make_env(name: str) -> Union[Env, ParallelEnv]: ..."]
    autoreset = 'autoreset: Literal["next_step", "same_step"] = ...'
    for name in declared.names["env"]:
        own = [k for k in keywords(declared, "env", name) if not k.startswith(("threads:", "autoreset:"))]
        given = [f"name: Literal[{json.dumps(name)}]", "num_envs: int", "*", autoreset, "threads: int = ...", *own]
        lines += ["@overload", f"def make_vec_env({', '.join(given)}) -> VectorEnv: ..."]
    lines += ["@overload", f"def make_vec_env(name: str, num_envs: int, *, {autoreset}, threads: int = ...) "
              "-> VectorEnv: ..."]
    lines += ["", "class NativeBatching(Batching):"]
    for name in declared.names["batching"]:
        given = ["self", f"policy: Literal[{json.dumps(name)}]", "*", *keywords(declared, "batching", name)]
        lines += ["    @overload", f"    def __init__({', '.join(given).removesuffix(', *')}) -> None: ..."]
    lines += ["    @overload", "    def __init__(self, policy: str) -> None: ...",
              "    def decide(self, view: Any, out: Any) -> None: ...", ""]
    return "\n".join(lines)
