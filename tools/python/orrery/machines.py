"""Machines: a part of the catalog, its figures, and the cost of kernels on it."""

from __future__ import annotations

import typing

from orrery import _orrery, shown
from orrery import config as configs
from orrery.graphs import Graph, Kernel
from orrery.keywords import answered

_ONE_DEVICE = ("graph", "pim")  # systems whose machine is one device


@answered
class Machine:
    """`count` equal parts of the catalog (or of a file in its form), with the fields of `override` replaced.

        machine = orrery.Machine("a100-sxm4-80gb", 8, override={"power": {"tdp": "300 W"}})
        orrery.run({…, "machine": machine})
        machine.gemm(4096, 4096, 4096).time_s
        machine.kernels(orrery.graph("bert", batch=8, tokens=128))

    `cost` is the cost model of a GPU, a name or a policy block ("tiled", "roofline", "profile").
    """

    def __init__(self, part: str, count: int = 1, override: dict | None = None, cost=None):
        block = {"policy": cost} if isinstance(cost, str) else (cost or {})
        self.part, self.count = str(part), count
        self.override, self.cost = dict(override or {}), block
        self._core = _orrery.Machine(self.part, configs.to_json(self.override), configs.to_json(block))
        facts = self._core.facts()
        self.name: str = facts["name"]
        self.kind: str = facts["kind"]
        self.doc: str = facts["doc"]
        self.file: str = facts["file"]
        self.fields: dict = facts["fields"]  # every parameter, as its file would state it
        self.sources: dict = facts["sources"]
        self.assumptions: dict = facts["assumptions"]
        self._figures: dict = facts["figures"]

    @property
    def figures(self) -> dict:
        """Numbers of one device in SI units: memory_bytes, peak_flops by number format, clock_hz, tdp_w …"""
        return dict(self._figures)

    @property
    def memory_bytes(self) -> int:
        """Memory of one device in bytes."""
        return self._figures["memory_bytes"]

    @property
    def memory_bandwidth_bytes_per_s(self) -> float:
        """Peak memory bandwidth of one device in bytes/s."""
        return self._figures["memory_bandwidth_bytes_per_s"]

    @property
    def peak_flops(self) -> dict[str, float]:
        """Dense peak rates of one device by number format, in FLOP/s."""
        return dict(self._figures["peak_flops"])

    @property
    def link(self) -> dict:
        """The link of one device within the node, as the part's file states it."""
        return self.fields.get("link", {})

    def gemm(self, m: int, n: int, k: int, dtype: str = "fp16", batch: int = 1) -> Kernel:
        """The cost of `batch` products C[m,n] = A[m,k] B[k,n] in one launch."""
        return Kernel(**self._core.gemm(m, n, k, dtype, batch))

    def kernels(self, graph: Graph):
        """One row per kernel of a graph: name, class, kernel, dtype, flops, bytes, time_s, bound_by, energy_j.

        All dimensions of the graph need sizes. Times include the launch; transfers are bound by the network.
        """
        import pandas

        graph.require_sizes()
        return pandas.DataFrame(self._core.kernels(graph._core))

    def to_config(self, system: str = "serving") -> dict:
        """The section `machine` of a config of `system`."""
        device: dict[str, typing.Any] = {"part": self.part}
        if self.override:
            device["override"] = self.override
        config: dict[str, typing.Any]
        if system in _ONE_DEVICE:
            config = {"platform" if self.kind == "platform" else "device": device}
        else:
            config = {"devices": [{**device, "count": self.count}]}
        return {**config, "cost": self.cost} if self.cost else config

    def _rows(self):
        figures = self._figures
        if "peak_flops" in figures:
            yield "peak", ", ".join(f"{k} {shown.number(v, 'FLOP/s')}" for k, v in figures["peak_flops"].items())
            yield "memory", (f"{shown.size(figures['memory_bytes'])} at "
                             f"{shown.number(figures['memory_bandwidth_bytes_per_s'], 'B/s')}")
            yield "cores", f"{figures['cores']} at {shown.number(figures['clock_hz'], 'Hz')}"
        if "link_bandwidth_bytes_per_s" in figures:
            yield "link", shown.number(figures["link_bandwidth_bytes_per_s"], "B/s")
        if "tdp_w" in figures:
            yield "power", f"{figures['idle_w']:g} W idle, {figures['tdp_w']:g} W at most"
        for field, text in self.assumptions.items():
            yield f"assumed: {field}", text

    def _title(self) -> str:
        return f"{self.count} x {self.name}" if self.count != 1 else self.name

    def __repr__(self) -> str:
        facts = [f"{name} {text}" for name, text in self._rows() if not name.startswith("assumed")]
        return f"<Machine {self._title()} ({self.kind}): {'; '.join(facts) or self.doc}>"

    def _repr_html_(self) -> str:
        return shown.table(self._title(), f"({self.kind}) {self.doc}", self._rows())
