"""Points of a study or a search: the contents of its store, as frames."""

from __future__ import annotations

import html
import json
import os
import pathlib
import typing

from orrery import _orrery, shown
from orrery.keywords import answered

_SHOWN = 10


class Column(typing.NamedTuple):
    """A column of `points`. Its kind is parameter, derived, measure, objective or limit."""

    name: str
    kind: str
    detail: str  # path of a measure, minimise or maximise, unit of a parameter


@answered
class Stored:
    """Has a store: `points`, `front`, `best`, `analysis`, `export`. Frames are read again when the store grows."""

    store: pathlib.Path | None = None

    def _commit(self) -> None:
        """Writes what is known to the store; for subclasses that write one."""

    def _file(self) -> str:
        if self.store is None or not self.store.exists():
            raise RuntimeError("nothing has run yet: there are no points")
        self._commit()
        return str(self.store)

    def _read(self) -> dict:
        return _orrery.read_store(self._file())

    @property
    def columns(self) -> list[Column]:
        """What the columns of `points` mean."""
        return [Column(*column) for column in self._read()["columns"]]

    @property
    def points(self):
        """One row per point, as proposed: id, parameters, measures, objectives, limits, status, reason."""
        import pandas

        return pandas.DataFrame(self._read()["table"]).set_index("id")

    def _rows(self, most: int):
        points = self.points
        ids = [point for _, point in _orrery.best_ids([self._file()], most)]
        return points.loc[ids]

    @property
    def front(self):
        """The Pareto front: points that meet the limits and that no other dominates (one objective: the best)."""
        return self._rows(1)

    def best(self, n: int = 10):
        """The n best points of a study of one objective; the whole front of a study of several."""
        return self._rows(n)

    @property
    def analysis(self) -> dict:
        """What `orrery analyse --json` prints: hypervolume over time, importance of parameters, the front."""
        return _orrery.ask("analyse", json.dumps({"stores": [self._file()]}), None)

    @property
    def complete(self) -> bool:
        """Whether the study or search is finished."""
        return self._read()["complete"]

    def export(self, path) -> pathlib.Path:
        """Writes all points as `orrery export` does: CSV, or JSON lines if the name ends in .jsonl."""
        path = pathlib.Path(path)
        _orrery.export_points([self._file()], os.fspath(path), path.suffix == ".jsonl")
        return path

    def _state(self) -> str:
        if self.store is None or not self.store.exists():
            return "not run yet"
        counts = self.points["status"].value_counts()
        return ", ".join(f"{counts.get(one, 0)} {one}" for one in ("ok", "infeasible", "failed"))

    def _title(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self._title()}: {self._state()}>"

    def _repr_html_(self) -> str:
        head = f"<b>{html.escape(self._title())}</b>: {html.escape(self._state())}"
        if self.store is None or not self.store.exists():
            return head
        best = self.best(_SHOWN)
        named = {c.name for c in self.columns if c.kind in ("parameter", "derived", "measure", "objective")}
        return head + shown.frame(best[[c for c in best.columns if c in named]].head(_SHOWN))
