"""Router traces: which experts each token chose, and how caches and placements fare with them."""

from __future__ import annotations

import os
import pathlib
import tempfile
import weakref

from orrery import _orrery
from orrery import config as configs
from orrery.keywords import answered
from orrery.running import teller


def _ask(name: str, params: dict) -> dict:
    return _orrery.ask(name, configs.to_json(params), teller(None))


@answered
class RouterTrace:
    """A router trace, CSV or binary, plain or compressed.

        trace = orrery.RouterTrace("traces/samples/router-1024.csv")
        trace.profile                                   # reuse, SRP, unions, loads: one row per layer
        trace.caches(["lru", "belady"], slots=[16, 32]) # hit rates by cache and number of slots
        trace.placements(gpus=8, slots=144)             # imbalance: one row per policy
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        told = _orrery.read_router_trace(str(self.path))
        self.experts: int = told["experts"]
        self.top_k: int = told["top_k"]
        self.context: int = told["context"]
        self._layers: dict = told["layers"]

    @classmethod
    def generate(cls, router: dict | None = None, seed: int = 1, **parameters) -> RouterTrace:
        """Draws a trace; `parameters` are those of section `router` of a generator's config."""
        handle, path = tempfile.mkstemp(prefix="orrery-", suffix=".ort")
        os.close(handle)
        try:
            _orrery.generate_router_trace(configs.to_json({"router": {**(router or {}), **parameters}}), seed, path)
            trace = cls(path)
        except BaseException:
            pathlib.Path(path).unlink(missing_ok=True)
            raise
        weakref.finalize(trace, pathlib.Path(path).unlink, missing_ok=True)
        return trace

    @property
    def layers(self) -> list[int]:
        """Numbers of the layers that the trace has."""
        return list(self._layers)

    def choices(self, layer: int | None = None):
        """Experts chosen in a layer (None: the first): an array [tokens, top_k] of uint16, best expert first."""
        return self._layers[self.layers[0] if layer is None else layer]

    def __len__(self) -> int:
        return len(self.choices())

    @property
    def profile(self):
        """The figures of `orrery trace inspect --json`: reuse, SRP, unions and loads; one row per layer."""
        import pandas

        return pandas.DataFrame(_ask("router_profile", {"trace": str(self.path)})["layers"]).set_index("layer")

    def caches(self, cache=(), slots=(), *, model: str = "", look_up: str = "token", batch: int = 1, tokens: str = "",
               layers=(), **parameters):
        """Hit rates of expert caches, by cache and number of slots. `parameters` by cache: segment={"tokens": 64}."""
        import pandas

        told = _ask("expert_cache", {"trace": str(self.path), "cache": list(cache), "slots": list(slots), "model": model,
                                     "look_up": look_up, "batch": batch, "tokens": tokens, "layers": list(layers),
                                     "parameters": parameters})
        return pandas.DataFrame(told["caches"])

    def placements(self, policy=(), *, gpus: int = 8, nodes: int = 1, slots: int = 0, groups: int = 1, batch: int = 0,
                   plan: str = "", judge: str = "", layers=(), out=None, force: bool = False, **parameters):
        """Imbalance of expert placements: one row per policy. `out` names a CSV file for the slots of the best."""
        import pandas

        told = _ask("expert_place", {"trace": str(self.path), "policy": list(policy), "gpus": gpus, "nodes": nodes,
                                     "slots": slots, "groups": groups, "batch": batch, "plan": plan, "judge": judge,
                                     "layers": list(layers), "out": "" if out is None else os.fspath(out),
                                     "force": force, "parameters": parameters})
        return pandas.DataFrame(told["policies"])

    def fit(self, *, layer: int = -1, popularity: str = "own", judge=None) -> dict:
        """Fits a generator to a layer: `router` (for `RouterTrace.generate`) and `figures` of trace and draws."""
        return _ask("router_fit", {"trace": str(self.path), "layer": layer, "popularity": popularity,
                                   "judge": "" if judge is None else os.fspath(judge)})

    def to_config(self, system: str = "experts") -> dict:
        """The entry `workload.router` of a config."""
        return {"trace": str(self.path)}

    def __repr__(self) -> str:
        return (f"<RouterTrace {self.path.name}: {len(self)} tokens, {len(self._layers)} layers, {self.top_k} of "
                f"{self.experts} experts a token>")
