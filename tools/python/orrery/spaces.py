"""Spaces of observations and actions: gymnasium's if that package is installed, else small equivalents."""

from __future__ import annotations

import numpy

try:
    from gymnasium.spaces import Box, Discrete, MultiDiscrete
except ImportError:

    class Space:
        """Values of one shape and type; `sample` draws from the space's own generator."""

        def __init__(self, shape, dtype, seed=None):
            self.shape = tuple(shape)
            self.dtype = numpy.dtype(dtype)
            self.seed(seed)

        def seed(self, seed=None):
            """Restarts the draws from a seed."""
            self._random = numpy.random.default_rng(seed)
            return seed

        @property
        def np_random(self):
            return self._random

        def contains(self, x) -> bool:
            raise NotImplementedError

        def __contains__(self, x) -> bool:
            return self.contains(x)

        def __eq__(self, other) -> bool:
            return type(self) is type(other) and repr(self) == repr(other)

        __hash__ = None  # type: ignore[assignment]

    class Box(Space):  # type: ignore[no-redef]
        """Numbers within bounds, which may be infinite."""

        def __init__(self, low, high, shape=None, dtype=numpy.float64, seed=None):
            if shape is None:
                shape = numpy.broadcast(low, high).shape
            super().__init__(shape, dtype, seed)
            self.low = numpy.broadcast_to(numpy.asarray(low, self.dtype), self.shape).copy()
            self.high = numpy.broadcast_to(numpy.asarray(high, self.dtype), self.shape).copy()

        def sample(self, mask=None):
            """A draw: uniform between two bounds, exponential from a single one, normal without any."""
            low, high = numpy.isfinite(self.low), numpy.isfinite(self.high)
            draw = self._random.normal(size=self.shape)
            draw[low & high] = self._random.uniform(self.low[low & high], self.high[low & high])
            draw[low & ~high] = self.low[low & ~high] + self._random.exponential(size=(low & ~high).sum())
            draw[~low & high] = self.high[~low & high] - self._random.exponential(size=(~low & high).sum())
            return draw.astype(self.dtype)

        def contains(self, x) -> bool:
            x = numpy.asarray(x)
            fits = numpy.can_cast(x.dtype, self.dtype) and x.shape == self.shape
            return bool(fits and numpy.all(x >= self.low) and numpy.all(x <= self.high))

        def __repr__(self) -> str:
            return f"Box({self.low.tolist()}, {self.high.tolist()}, {self.shape}, {self.dtype})"

    class Discrete(Space):  # type: ignore[no-redef]
        """One of n integers, from `start` on."""

        def __init__(self, n: int, seed=None, start: int = 0):
            super().__init__((), numpy.int64, seed)
            self.n = int(n)
            self.start = int(start)

        def sample(self, mask=None):
            """A random choice; with a mask, one whose entry is 1."""
            choices = numpy.arange(self.n) if mask is None else numpy.flatnonzero(mask)
            return self.start + self._random.choice(choices)

        def contains(self, x) -> bool:
            whole = isinstance(x, (int, numpy.integer)) or (
                isinstance(x, numpy.ndarray) and x.shape == () and numpy.issubdtype(x.dtype, numpy.integer)
            )
            return bool(whole and self.start <= x < self.start + self.n)

        def __repr__(self) -> str:
            return f"Discrete({self.n})"

    class MultiDiscrete(Space):  # type: ignore[no-redef]
        """One of n_i choices for each part i."""

        def __init__(self, nvec, dtype=numpy.int64, seed=None):
            self.nvec = numpy.asarray(nvec, dtype=numpy.int64)
            super().__init__(self.nvec.shape, dtype, seed)

        def sample(self, mask=None):
            """A random choice for each part; with a mask (one array per part), choices whose entries are 1."""
            if mask is None:
                return self._random.integers(0, self.nvec).astype(self.dtype)
            return numpy.array([self._random.choice(numpy.flatnonzero(m)) for m in mask], self.dtype)

        def contains(self, x) -> bool:
            x = numpy.asarray(x)
            fits = x.shape == self.shape and numpy.issubdtype(x.dtype, numpy.integer)
            return bool(fits and numpy.all(x >= 0) and numpy.all(x < self.nvec))

        def __repr__(self) -> str:
            return f"MultiDiscrete({self.nvec.tolist()})"


def observation_space(agent: dict) -> Box:
    """The space of what an agent observes."""
    return Box(agent["observation_low"], agent["observation_high"], dtype=numpy.float64)


def action_space(agent: dict):
    """The space of what an agent may do."""
    if agent["action"] == "discrete":
        return Discrete(agent["choices"][0])
    if agent["action"] == "multi_discrete":
        return MultiDiscrete(agent["choices"])
    return Box(numpy.array(agent["action_low"]), numpy.array(agent["action_high"]), dtype=numpy.float64)


def batch_space(space, n: int):
    """The space of n values, batched as in gymnasium."""
    if isinstance(space, Discrete):
        return MultiDiscrete(numpy.full(n, space.n))
    if isinstance(space, MultiDiscrete):
        high = numpy.tile(space.nvec - 1, (n, 1))
        return Box(numpy.zeros_like(high), high, dtype=space.dtype)
    return Box(numpy.tile(space.low, (n, 1)), numpy.tile(space.high, (n, 1)), dtype=space.dtype)
