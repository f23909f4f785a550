"""Language models: their figures, and their graphs."""

from __future__ import annotations

from orrery import _orrery, shown
from orrery.graphs import Graph, graph
from orrery.keywords import answered


@answered
class Model:
    """A language model: a name of the catalog, or a config.json of Hugging Face (or the folder that holds one).

        model = orrery.Model("llama-2-7b")
        model.parameters, model.kv_bytes_per_token
        orrery.run({…, "model": model})

    `dtype` is the format of weights and activations (default: as published, else fp16). Sizes in bytes are those of
    one of the `tensor_parallel` ranks.
    """

    def __init__(self, config: str, dtype: str | None = None, tensor_parallel: int = 1):
        from orrery.catalog import list_names

        reference = str(config)
        if reference in list_names("model"):
            reference = f"catalog:{reference}"
        self.reference = reference
        self._facts = _orrery.model_facts(reference, dtype or "", tensor_parallel)
        self.tensor_parallel = tensor_parallel
        self.name: str = self._facts["name"]
        self.architecture: str = self._facts["architecture"]
        self.dtype: str = self._facts["dtype"]
        self.layers: int = self._facts["layers"]
        self.hidden: int = self._facts["hidden"]
        self.heads: int = self._facts["heads"]
        self.kv_heads: int = self._facts["kv_heads"]
        self.head_dim: int = self._facts["head_dim"]
        self.intermediate: int = self._facts["intermediate"]
        self.vocabulary: int = self._facts["vocabulary"]
        self.context: int = self._facts["context"]
        self.experts: int = self._facts["experts"]
        self.parameters: int = self._facts["parameters"]  # of the whole model
        self.active_parameters: int = self._facts["active_parameters"]  # that a token passes
        self.weight_bytes: int = self._facts["weight_bytes"]
        self.kv_bytes_per_token: int = self._facts["kv_bytes_per_token"]

    def graph(self, batch: int | None = None, tokens: int | None = None, past: int | None = None, **params) -> Graph:
        """The operator graph of a forward pass. `past`: cached tokens, with parameter cache=True (builder decoder)."""
        made = graph("decoder", params={"config": self.reference, "dtype": self.dtype, **params})
        sizes = {name: value for name, value in (("batch", batch), ("tokens", tokens), ("past", past))
                 if value is not None}
        return made.bind(**sizes) if sizes else made

    def to_config(self, system: str = "serving") -> dict:
        """The section `model` of a config of `system`."""
        if system == "graph":
            return self.graph().to_config()
        return {"config": self.reference, "dtype": self.dtype}

    def __str__(self) -> str:
        return self._facts["text"]

    def _rows(self):
        yield "architecture", self.architecture
        yield "layers", f"{self.layers} of hidden size {self.hidden}"
        yield "attention", f"{self.heads} heads, {self.kv_heads} of keys and values, {self.head_dim} wide"
        if self.experts:
            yield "experts", f"{self.experts}, {self._facts['experts_per_token']} a token"
        yield "parameters", shown.number(self.parameters) + (
            f", {shown.number(self.active_parameters)} active" if self.experts else "")
        ranks = f" a rank of {self.tensor_parallel}" if self.tensor_parallel > 1 else ""
        yield "weights", f"{shown.size(self.weight_bytes)} in {self.dtype}{ranks}"
        yield "KV cache", f"{shown.size(self.kv_bytes_per_token)} a token{ranks}"

    def __repr__(self) -> str:
        return (f"<Model {self.name}: {self.layers} layers, {shown.number(self.parameters)} parameters, "
                f"{shown.size(self.weight_bytes)} in {self.dtype}, KV {shown.size(self.kv_bytes_per_token)} a token>")

    def _repr_html_(self) -> str:
        return shown.table(self.name, f"from {self._facts['source']}" if self._facts["source"] else "", self._rows())
