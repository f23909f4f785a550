"""What is made by its name and its parameters. Stubs (named.pyi) are made from the declarations of these, with the
names, types and units of each: orrery_stubs."""

from __future__ import annotations

from orrery import _orrery
from orrery import config as configs
from orrery.env import Env, ParallelEnv
from orrery.keywords import answered
from orrery.policies import Batching
from orrery.vector import AutoresetMode, VectorEnv


@answered
class NativeBatching(Batching):
    """A built-in batching policy (C++) by its name: `NativeBatching("sarathi", token_budget=512)`."""

    def __init__(self, policy: str, **params):
        self._native = _orrery.NativeBatching(policy, configs.to_json(params))

    def decide(self, view, out) -> None:
        self._native.decide(view, out)


@answered
def make_env(name: str, **params):
    """An environment by its name (`orrery.list("env")`) with its parameters (`orrery.describe(name)`).

    It has Gymnasium's API for one agent, PettingZoo's parallel API for several. Raises ConfigError for an unknown name
    or parameter.
    """
    core = _orrery.Env(name, configs.to_json(params))
    spec = core.spec()
    return (Env if len(spec["agents"]) == 1 else ParallelEnv)(name, core, spec)


@answered
def make_vec_env(name: str, num_envs: int, *, autoreset: str = "next_step", threads: int = 1, **params) -> VectorEnv:
    """`num_envs` equal environments on `threads` threads; results do not depend on the number of threads.

    `autoreset` is "next_step" or "same_step". Raises ValueError for an environment of several agents.
    """
    if num_envs < 1:
        raise ValueError(f"expected at least one environment, got {num_envs}")
    core = _orrery.VectorEnv(name, configs.to_json(params), num_envs, autoreset, threads)
    agents = len(core.spec()["agents"])
    if agents > 1:
        raise ValueError(f"{name} has {agents} agents: make_env gives them the parallel API")
    return VectorEnv(name, core, num_envs, AutoresetMode[autoreset.upper()])
