"""Traces: requests with their arrivals and lengths, from a file or from a generator."""

from __future__ import annotations

import os
import pathlib
import tempfile
import weakref

from orrery import _orrery, shown
from orrery import config as configs
from orrery.errors import ConfigError
from orrery.keywords import answered

_ALL = 2**62
_ENDINGS = {".csv": "orrery_csv", ".jsonl": "orrery_jsonl"}


def _format_of(path: pathlib.Path, format: str | None) -> str:
    if format is not None:
        return format
    if path.suffix not in _ENDINGS:
        message = "expected a name that ends in .csv or .jsonl"
        raise ConfigError([(str(path), "", message, "or give the format with --to")])
    return _ENDINGS[path.suffix]


@answered
class Trace:
    """A trace file, plain or compressed, in any format of `orrery.list("trace_format")`.

        trace = orrery.Trace("traces/samples/azure_llm_sample.csv")
        trace.requests, trace.summary["rate_per_s"]
        orrery.run({…, "workload": {"trace": trace}})

    The format is recognised by the first line unless given. Other parameters are those of `workload.trace`:
    on_error="skip", failed="send" … Raises ConfigError for a file that cannot be read.
    """

    def __init__(self, path, format: str | None = None, **params):
        self.path = pathlib.Path(path)
        self.format = format
        self._params = params
        self._summary: dict | None = None
        self._frame = None
        _orrery.read_trace(self._text(), 1)  # what cannot be read is told at once

    @classmethod
    def generate(cls, config: dict | None = None, seed: int = 1, **sections) -> Trace:
        """Draws a trace from a generator's config (`workload.generator`): requests, arrivals, lengths, limits."""
        handle, path = tempfile.mkstemp(prefix="orrery-", suffix=".csv")
        os.close(handle)
        try:
            _orrery.generate_trace(configs.to_json({**(config or {}), **sections}), seed, "orrery_csv", path)
            trace = cls(path, "orrery_csv")
        except BaseException:
            pathlib.Path(path).unlink(missing_ok=True)
            raise
        weakref.finalize(trace, pathlib.Path(path).unlink, missing_ok=True)
        return trace

    def _text(self) -> str:
        return configs.to_json(self.to_config())

    @property
    def summary(self) -> dict:
        """What `orrery trace inspect --json` prints: requests, span_s, rate_per_s, gap_cv, percentiles of lengths."""
        if self._summary is None:
            self._summary = _orrery.inspect_trace(self._text())
        return self._summary

    @property
    def requests(self):
        """One row per request: arrived_s, prompt_tokens, output_tokens, and what else the trace has."""
        if self._frame is None:
            self._frame = self.head(_ALL)
        return self._frame

    def head(self, n: int = 5):
        """The first n requests, as a frame like `requests`."""
        import pandas

        return pandas.DataFrame(_orrery.read_trace(self._text(), n))

    def save(self, path, format: str | None = None, force: bool = False) -> Trace:
        """Writes it as orrery_csv or orrery_jsonl (by the ending, or `format`) and returns the new trace."""
        path = pathlib.Path(path)
        if path.exists() and not force:
            raise ConfigError([(str(path), "", "expected a file that does not exist yet",
                                "give --force to replace it")])
        format = _format_of(path, format)
        _orrery.write_trace(self._text(), format, str(path))
        return Trace(path, format)

    def to_config(self, system: str = "serving") -> dict:
        """The entry `workload.trace` of a config."""
        config = {"path": str(self.path), **self._params}
        return config if self.format is None else {**config, "format": self.format}

    def __len__(self) -> int:
        return self.summary["requests"]

    def _rows(self):
        s = self.summary
        yield "requests", s["requests"]
        if s["span_s"]:
            yield "span", f"{s['span_s']:.6g} s"
            yield "rate", f"{s['rate_per_s']:.4g} requests/s, CV of gaps {s['gap_cv']:.3g}"
        for name in ("prompt", "output"):
            lengths = s[f"{name}_tokens"]
            figures = (f"{key} {lengths[key]:.6g}" for key in ("mean", "p50", "p90", "p99", "max"))
            yield f"{name} tokens", ", ".join(figures)
        if s["skipped"]:
            yield "skipped lines", s["skipped"]

    def __repr__(self) -> str:
        s = self.summary
        rate = f", {shown.number(s['rate_per_s'])} a second" if s["span_s"] else ""
        return (f"<Trace {self.path.name}: {s['requests']} requests{rate}, {s['prompt_tokens']['mean']:.4g} prompt and "
                f"{s['output_tokens']['mean']:.4g} output tokens in the mean>")

    def _repr_html_(self) -> str:
        return shown.table(self.path.name, "", self._rows())
