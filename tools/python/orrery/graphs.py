"""Operator graphs: what a model computes, before and after passes."""

from __future__ import annotations

import typing

from orrery import _orrery, shown
from orrery import config as configs
from orrery.errors import ConfigError
from orrery.keywords import answered


class Kernel(typing.NamedTuple):
    """The cost of one launch: exact FLOPs, bytes of device memory, time (s, with the launch), bound, energy (J)."""

    flops: float
    bytes: float
    time_s: float
    bound_by: str
    energy_j: float

    def __repr__(self) -> str:
        return (f"<Kernel {shown.figure('time_s', self.time_s)}, bound by {self.bound_by}: "
                f"{shown.number(self.flops, 'FLOP')}, {shown.size(self.bytes)}, {shown.figure('energy_j', self.energy_j)}>")


def _sizes(sizes: dict) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in sizes.items()]


@answered
class Graph:
    """An operator graph and the sizes of its dimensions, as far as they are given; made by `orrery.graph`."""

    def __init__(self, core, config: dict, report: dict | None = None):
        self._core, self._config = core, config
        self.report = report or {}  # what the pass that made it tells of itself

    @property
    def name(self) -> str:
        return self._core.name()

    @property
    def dimensions(self) -> list[str]:
        """Names of the dimensions whose sizes the graph leaves open."""
        return self._core.dimensions()

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes given so far, by dimension."""
        return self._core.sizes()

    @property
    def notes(self) -> list[str]:
        """Notes of the importer."""
        return self._core.notes()

    @property
    def unmapped(self) -> dict[str, int]:
        """How many of each foreign op the importer kept as custom ops."""
        return dict(self._core.unmapped())

    def bind(self, **sizes: int) -> Graph:
        """The same graph with other sizes. Raises ConfigError for a dimension that it does not have."""
        return Graph(self._core.bind(_sizes({**self.sizes, **sizes})), self._config, self.report)

    def require_sizes(self) -> None:
        """Raises ConfigError if a dimension has no size."""
        missing = [name for name in self.dimensions if name not in self.sizes]
        if missing:
            raise ConfigError([("--bind", "", f"no value for dimension '{name}'", "") for name in missing])

    @property
    def operators(self):
        """Operators, in order: name, op, class, scope, phase, output, flops, read_bytes, write_bytes, bytes."""
        import pandas

        return pandas.DataFrame(self._core.operators())

    @property
    def totals(self) -> dict:
        """Totals of the graph at its sizes: ops, kernels, parameters, parameter_bytes, flops, read_bytes …"""
        return self._core.totals()

    @property
    def formulas(self) -> dict[str, str]:
        """The totals as formulas over the dimensions."""
        return self._core.formulas()

    def apply(self, pass_: str, machine=None, **params) -> Graph:
        """The graph after a pass (`orrery.list("pass")`); its `report` holds the figures of the pass.

        `machine` gives costs and memory sizes to passes that need them.
        """
        core, figures, notes = self._core.apply(
            pass_, configs.to_json(params), machine._core if machine is not None else None
        )
        config = {**self._config, "passes": [*self._config.get("passes", ()), (pass_, params)]}
        return Graph(core, config, {**figures, "notes": notes} if notes else figures)

    def fuse(self, policy: str = "loop_fusion", machine=None, **params) -> Graph:
        """The graph after a fusion pass: `loop_fusion`, `greedy_fusion`, `dp_fusion`, `pattern_fusion` …"""
        return self.apply(policy, machine, **params)

    def dot(self, path=None) -> str:
        """The graph as Graphviz text, also written to `path` if one is given."""
        return _written(self._core.dot(), path)

    def json(self, path=None) -> str:
        """The graph as JSON that `orrery.graph` reads, also written to `path` if one is given."""
        return _written(self._core.json(), path)

    def to_config(self, system: str = "graph") -> dict:
        """The section `model` of a graph experiment, without passes."""
        return self._config["model"]

    def text(self) -> str:
        """One line per tensor that exists before the run, and one per operator."""
        return self._core.text()

    def _rows(self):
        yield "operators", self._core.op_count()
        yield "sizes", ", ".join(f"{name} = {self.sizes.get(name, '?')}" for name in self.dimensions) or "none"
        if len(self.sizes) == len(self.dimensions):
            totals = self.totals
            yield "parameters", shown.number(totals["parameters"])
            yield "FLOPs", shown.number(totals["flops"], "FLOP")
            yield "bytes", f"{shown.size(totals['read_bytes'])} read, {shown.size(totals['write_bytes'])} written"
            yield "kernels", totals["kernels"]

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {'; '.join(f'{name} {text}' for name, text in self._rows())}>"

    def _repr_html_(self) -> str:
        return shown.table(self.name, "", self._rows())


def _written(text: str, path) -> str:
    if path is not None:
        with open(path, "w") as file:
            file.write(text)
    return text


@answered
def graph(source, format: str = "", params: dict | None = None, **sizes: int) -> Graph:
    """The graph of a builder (`orrery.list("builder")`) with its `params`, or of a file (ONNX, Chakra, a profiler's
    trace, config.json, JSON). Keywords are sizes of its dimensions.

        orrery.graph("bert", batch=8, tokens=128).operators

    Raises ConfigError for a source that is neither, and for unknown parameters or dimensions.
    """
    source, params = str(source), dict(params or {})
    core = _orrery.Graph(source, format, configs.to_json(params), _sizes(sizes))
    if source in _builders():
        model: dict = {"builder": {"policy": source, source: params}}
    else:
        model = {"import": {"path": source, "format": format}}
    return Graph(core, {"model": model})


def _builders() -> list[str]:
    from orrery.catalog import list_names

    return list_names("builder")
