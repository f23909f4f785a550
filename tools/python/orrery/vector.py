"""Several environments stepped together on threads: Gymnasium's vector API with explicit autoreset."""

from __future__ import annotations

import enum
import secrets

import numpy

from orrery import _orrery, spaces

try:
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector import VectorEnv as _Base
except ImportError:

    class AutoresetMode(enum.Enum):  # type: ignore[no-redef]
        """When an environment whose episode has ended is reset, by gymnasium's names."""

        NEXT_STEP = "NextStep"
        SAME_STEP = "SameStep"

    class _Base:  # type: ignore[no-redef]
        """What gymnasium.vector.VectorEnv has besides the main methods."""

        spec = None
        render_mode = None
        closed = False

        @property
        def unwrapped(self):
            return self

        def close(self, **_):
            self.closed = True


class VectorEnv(_Base):
    """Several equal environments; every array has one row per environment (`num_envs`).

    `metadata["autoreset_mode"]` says what happens when an episode ends. NEXT_STEP: the step returns the last
    observation; the next step ignores the action and returns the first one of a new episode. SAME_STEP: the step
    returns the first observation of the next episode; the last one is in `infos["final_obs"]`, where
    `infos["_final_obs"]` is true.
    """

    def __init__(self, name: str, core, num_envs: int, autoreset: AutoresetMode):
        self.name, self.num_envs, self._core = name, num_envs, core
        self._spec = core.spec()
        self._agent = self._spec["agents"][0]
        self.metadata = {"render_modes": [], "autoreset_mode": autoreset}
        self.single_observation_space = spaces.observation_space(self._agent)
        self.single_action_space = spaces.action_space(self._agent)
        self.observation_space = spaces.batch_space(self.single_observation_space, num_envs)
        self.action_space = spaces.batch_space(self.single_action_space, num_envs)
        self._resets = 0
        self._seed: int | None = None

    def _infos(self, told: dict) -> dict:
        infos = {}
        for i, name in enumerate(self._spec["info"]):
            infos[name], infos["_" + name] = told["info"][:, i], ~numpy.isnan(told["info"][:, i])
        if self._spec["masked"]:
            infos["action_mask"] = told["masks"].astype(numpy.int8)
            infos["_action_mask"] = numpy.ones(self.num_envs, bool)
        ended = told["ended"].astype(bool)
        if ended.any():
            infos["final_obs"], infos["_final_obs"] = told["final_observations"], ended
            final = {name: told["final_info"][:, i] for i, name in enumerate(self._spec["info"])}
            infos["final_info"], infos["_final_info"] = final, ended
        return infos

    def _seeds(self, seed) -> list[int]:
        if seed is not None and not isinstance(seed, (int, numpy.integer)):
            seeds = [int(one) for one in seed]
            if len(seeds) != self.num_envs:
                raise ValueError(f"expected {self.num_envs} seeds, got {len(seeds)}")
            return seeds
        if seed is not None:
            self._seed, self._resets = int(seed), 0
        elif self._seed is None:
            self._seed = secrets.randbits(63)
        else:
            self._resets += 1
        base = _orrery.episode_seed(self._seed, self._resets)
        return [_orrery.env_seed(base, i) for i in range(self.num_envs)]

    def reset(self, *, seed=None, options=None):
        """Begins an episode in each environment: (observations, infos). `seed`: one for all, or a list of one each."""
        told = self._core.reset(self._seeds(seed))
        return told["observations"], self._infos(told)

    def step(self, actions):
        """(observations, rewards, terminations, truncations, infos)."""
        told = self._core.step(numpy.asarray(actions, dtype=numpy.float64).reshape(-1))
        flags = told["terminated"].astype(bool), told["truncated"].astype(bool)
        return told["observations"], told["rewards"][:, 0], *flags, self._infos(told)

    def __repr__(self) -> str:
        return f"<VectorEnv {self.name}: {self.num_envs} x {self.single_action_space}>"
