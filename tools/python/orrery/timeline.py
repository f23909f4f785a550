"""Timelines as frames: what `timeline.pftrace` holds, read as Perfetto's viewer reads it (docs/explain/timeline.md)."""

from __future__ import annotations

import os

from orrery import _orrery
from orrery.errors import ConfigError
from orrery.keywords import answered


@answered
class Timeline:
    """A .pftrace file. Frames are made when they are first asked for; slices have an `id`, in order of time.

    `faults` lists what the viewer would misread; it is empty for files that runs write.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        try:
            self._read = _orrery.read_timeline(self.path)
        except RuntimeError as error:
            raise ConfigError([(self.path, "", str(error).removeprefix(f"{self.path}: "), "")]) from None
        self.faults: list[str] = self._read["faults"]
        self._frames: dict = {}

    def _frame(self, name: str, make):
        if name not in self._frames:
            self._frames[name] = make()
        return self._frames[name]

    def _categories(self, codes, texts: list[str]):
        """Texts by number as a pandas column that stores each text once; several numbers may have the same text."""
        import numpy
        import pandas

        known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        places = numpy.array([known[text] for text in texts], dtype="int32")
        return pandas.Categorical.from_codes(places[codes] if len(places) else codes, categories=list(known))

    def _track_columns(self, codes) -> dict:
        tracks = self._read["tracks"]
        return {
            "process": self._categories(codes, [track[0] for track in tracks]),
            "track": self._categories(codes, [track[1] for track in tracks]),
        }

    @property
    def tracks(self):
        """One row per track: process, track (empty for the process itself), kind, unit."""
        import pandas

        columns = ["process", "track", "kind", "unit"]
        return self._frame("tracks", lambda: pandas.DataFrame(self._read["tracks"], columns=columns))

    @property
    def slices(self):
        """One row per slice: process, track, name, start_s, duration_s, depth, id, parent (id; -1: none), instant."""
        return self._frame("slices", self._make_slices)

    def _make_slices(self):
        import numpy
        import pandas

        read = self._read["slices"]
        columns = self._track_columns(read["track"])
        columns["name"] = self._categories(read["name"], self._read["names"])
        for name in ("start_s", "duration_s", "depth"):
            columns[name] = read[name]
        columns["id"] = numpy.arange(len(read["depth"]))
        for name in ("parent", "instant"):
            columns[name] = read[name]
        return pandas.DataFrame(columns, copy=False)

    @property
    def counters(self):
        """One row per value of a counter: process, track, unit, time_s, value (until the counter's next row)."""
        return self._frame("counters", self._make_counters)

    def _make_counters(self):
        import pandas

        read = self._read["counters"]
        columns = self._track_columns(read["track"])
        columns["unit"] = self._categories(read["track"], [track[3] for track in self._read["tracks"]])
        return pandas.DataFrame({**columns, "time_s": read["time_s"], "value": read["value"]}, copy=False)

    @property
    def flows(self):
        """One row per arrow: flow, from, to (ids of slices). The arrows of one flow follow one request."""
        import pandas

        return self._frame("flows", lambda: pandas.DataFrame(self._read["flows"], copy=False))

    @property
    def arguments(self):
        """One row per argument of a slice: id of the slice, name, value."""
        return self._frame("arguments", self._make_arguments)

    def _make_arguments(self):
        import pandas

        read = self._read["arguments"]
        name = self._categories(read["name"], self._read["names"])
        return pandas.DataFrame({"id": read["id"], "name": name, "value": read["value"]}, copy=False)

    def __repr__(self) -> str:
        slices, counters = len(self._read["slices"]["depth"]), len(self._read["counters"]["value"])
        return f"<Timeline of {slices} slices on {len(self._read['tracks'])} tracks, {counters} values of counters>"
