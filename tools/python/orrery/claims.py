"""Claim studies: what papers say about a system, and what the simulator gives (docs/papers/index.md)."""

from __future__ import annotations

import html
import json
import os
import pathlib
import tempfile

from orrery import _orrery
from orrery import config as configs
from orrery.keywords import answered
from orrery.running import teller


class Claims:
    """Claims and simulated values. `claims` has one row per claim, `points` all figures of every point."""

    def __init__(self, told: dict, points):
        import pandas

        rows = [{**{k: v for k, v in one.items() if k != "expected"}, "expected_low": one["expected"][0],
                 "expected_high": one["expected"][1]} for one in told["claims"]]
        order = ("study", "system", "claim", "expected_low", "expected_high", "simulated", "holds", "note", "source")
        self.claims = pandas.DataFrame(rows, columns=list(order))
        for name in ("expected_low", "expected_high", "simulated"):
            self.claims[name] = self.claims[name].astype(float)
        self.points = points
        self.document: dict = told  # as `orrery reproduce --json` prints it

    @property
    def held(self) -> int:
        """How many claims hold."""
        return int(self.claims["holds"].sum())

    @property
    def missed(self):
        """The claims that do not hold, with their notes."""
        return self.claims[~self.claims["holds"].astype(bool)]

    def __len__(self) -> int:
        return len(self.claims)

    def __repr__(self) -> str:
        return f"<Claims of {', '.join(self.claims['study'].unique())}: {self.held} of {len(self)} hold>"

    def _repr_html_(self) -> str:
        rows = []
        for one in self.claims.itertuples():
            mark = "<td style='color:#0a7d33'>holds</td>" if one.holds else "<td style='color:#b3261e'>missed</td>"
            texts = (one.study, one.claim, f"{_band(one.expected_low)} to {_band(one.expected_high)}",
                     _band(one.simulated))
            cells = "".join(f"<td style='text-align:left'>{html.escape(text)}</td>" for text in texts)
            rows.append(f"<tr title='{html.escape(str(one.note or one.source), quote=True)}'>{cells}{mark}</tr>")
        head = "<tr><th>study</th><th>claim</th><th>expected</th><th>simulated</th><th></th></tr>"
        return f"<b>{self.held} of {len(self)} claims hold</b><table>{head}{''.join(rows)}</table>"


def _band(value: float) -> str:
    return "…" if value != value else f"{value:.4g}"


@answered
def reproduce(studies=(), overrides=None, *, jobs: int = 0, progress=None, **sections) -> Claims:
    """Runs claim studies (names of shipped ones, or files; all that ship by default) and judges their claims.

        orrery.reproduce("tempo").claims

    `jobs` is the number of runs at a time (0: one per core); it does not change results. Ctrl-C stops it.
    """
    import pandas

    named = [studies] if isinstance(studies, (str, os.PathLike)) else list(studies)
    with tempfile.TemporaryDirectory(prefix="orrery-") as folder:
        points = str(pathlib.Path(folder) / "points.csv")
        asked = {"studies": [os.fspath(one) for one in named], "jobs": jobs, "points": points,
                 "set": configs.assignments(overrides, sections)}
        told = _orrery.ask("reproduce", json.dumps(asked), teller(progress))
        return Claims(told, pandas.DataFrame(_orrery.read_table(points)))
