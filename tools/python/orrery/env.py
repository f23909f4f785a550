"""Environments: Gymnasium's API for one agent, PettingZoo's parallel API for several agents.

Neither package is needed; where gymnasium is installed, an environment is a `gymnasium.Env`.
"""

from __future__ import annotations

import secrets

import numpy

from orrery import _orrery, spaces

try:
    from gymnasium import Env as _Base
except ImportError:

    class _Base:  # type: ignore[no-redef]
        """What gymnasium.Env has besides the main methods."""

        metadata: dict = {"render_modes": []}
        render_mode = None
        spec = None
        _np_random = None

        @property
        def unwrapped(self):
            return self

        @property
        def np_random(self):
            if self._np_random is None:
                self._np_random = numpy.random.default_rng()
            return self._np_random

        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self._np_random = numpy.random.default_rng(seed)

        def render(self):
            return None

        def close(self):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.close()
            return False


class Episodes:
    """Seeds of episodes: the given one, then seeds derived from it; a random one if none was given."""

    def __init__(self):
        self._seed = None
        self._episode = 0

    def next(self, seed) -> int:
        if seed is not None:
            if isinstance(seed, bool) or not isinstance(seed, (int, numpy.integer)) or not 0 <= seed < 2**64:
                raise ValueError(f"expected a seed from 0 to 2^64 - 1, got {seed!r}")
            self._seed, self._episode = int(seed), 0
        elif self._seed is None:
            self._seed = secrets.randbits(63)
        else:
            self._episode += 1
        return _orrery.episode_seed(self._seed, self._episode)


def mask_of(agent: dict, row: numpy.ndarray):
    """A mask in the form in which the agent's space samples with it."""
    row = row.astype(numpy.int8)
    if agent["action"] == "multi_discrete":
        return tuple(numpy.split(row, numpy.cumsum(agent["choices"])[:-1]))
    return row


def _figures(names, row) -> dict:
    return {name: float(value) for name, value in zip(names, row) if not numpy.isnan(value)}


class Env(_Base):
    """An environment of one agent. `agent` has the names of the entries of an observation."""

    metadata: dict = {"render_modes": []}

    def __init__(self, name: str, core, spec: dict):
        self.name = name
        self.agent = spec["agents"][0]
        self.observation_space = spaces.observation_space(self.agent)
        self.action_space = spaces.action_space(self.agent)
        self._core, self._spec, self._episodes = core, spec, Episodes()

    def _info(self, mask, figures) -> dict:
        info = _figures(self._spec["info"], figures)
        if self._spec["masked"]:
            info["action_mask"] = mask_of(self.agent, mask)
        return info

    def reset(self, *, seed=None, options=None):
        """Begins an episode: (observation, info). Without a seed, it is the next of the sequence from the last seed."""
        episode = self._episodes.next(seed)
        super().reset(seed=seed)
        observation, _, _, _, mask, figures = self._core.reset(episode)
        return observation, self._info(mask, figures)

    def step(self, action):
        """(observation, reward, terminated, truncated, info). Raises ValueError if the action is not allowed."""
        taken = numpy.asarray(action, dtype=numpy.float64).reshape(-1)
        observation, rewards, terminated, truncated, mask, figures = self._core.step(taken)
        return observation, float(rewards[0]), terminated, truncated, self._info(mask, figures)

    def __repr__(self) -> str:
        return f"<Env {self.name}: {self.action_space}>"


class ParallelEnv:
    """An environment of several agents that act at the same time; all values are dicts by agent."""

    metadata = {"render_modes": [], "is_parallelizable": True}
    render_mode = None

    def __init__(self, name: str, core, spec: dict):
        self.name = name
        self.metadata = {**self.metadata, "name": name}
        self._core, self._spec, self._episodes = core, spec, Episodes()
        self._of = {agent["name"]: agent for agent in spec["agents"]}
        self.possible_agents = list(self._of)
        self.agents: list[str] = []
        self.observation_spaces = {name: spaces.observation_space(agent) for name, agent in self._of.items()}
        self.action_spaces = {name: spaces.action_space(agent) for name, agent in self._of.items()}

    @property
    def unwrapped(self):
        return self

    @property
    def num_agents(self) -> int:
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        return len(self.possible_agents)

    def observation_space(self, agent: str):
        return self.observation_spaces[agent]

    def action_space(self, agent: str):
        return self.action_spaces[agent]

    def _split(self, row, widths) -> dict:
        parts = numpy.split(row, numpy.cumsum(widths)[:-1])
        return dict(zip(self.possible_agents, parts))

    def _observations(self, row) -> dict:
        return self._split(row, [len(agent["observation"]) for agent in self._of.values()])

    def _infos(self, mask, figures) -> dict:
        infos = {name: _figures(self._spec["info"], figures) for name in self.possible_agents}
        if self._spec["masked"]:
            masks = self._split(mask, [sum(agent["choices"]) for agent in self._of.values()])
            for name, agent in self._of.items():
                infos[name]["action_mask"] = mask_of(agent, masks[name])
        return infos

    def reset(self, seed=None, options=None):
        """Begins an episode: (observations, infos)."""
        observation, _, _, _, mask, figures = self._core.reset(self._episodes.next(seed))
        self.agents = list(self.possible_agents)
        return self._observations(observation), self._infos(mask, figures)

    def step(self, actions: dict):
        """(observations, rewards, terminations, truncations, infos). `actions` has one of every agent."""
        missing = [name for name in self.agents if name not in actions]
        if missing:
            raise ValueError(f"expected an action of every agent, got none of {', '.join(missing)}")
        parts = [numpy.asarray(actions[name], dtype=numpy.float64).reshape(-1) for name in self.possible_agents]
        told = self._core.step(numpy.concatenate(parts))
        observation, rewards, terminated, truncated, mask, figures = told
        if terminated or truncated:
            self.agents = []
        names = self.possible_agents
        return (
            self._observations(observation),
            {name: float(reward) for name, reward in zip(names, rewards)},
            dict.fromkeys(names, terminated),
            dict.fromkeys(names, truncated),
            self._infos(mask, figures),
        )

    def render(self):
        return None

    def close(self):
        pass

    def __repr__(self) -> str:
        return f"<ParallelEnv {self.name}: {len(self.possible_agents)} agents>"
