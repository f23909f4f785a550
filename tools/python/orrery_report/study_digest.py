"""What a study's pages show of its points: one table for all scripts, reduced by rules without chance.

- Standing: `front` (of several objectives; of one `best`, its ten best), `feasible`, `over a limit`, `infeasible`,
  `failed`, `shorter run`; without objectives `ok`.
- Plots draw every point of the front, and an even pick of the others (MOST_DRAWN feasible ones, a third of that over a
  limit). The table of points holds up to MOST_ROWS rows: beyond, the front and an even pick.
- Settings are kept of every row up to MOST_SETTINGS rows; beyond, of what is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from orrery_plot import units

from . import tables
from .study_store import Column, Study

MOST_DRAWN = 3000
MOST_ROWS = 100_000
MOST_SETTINGS = 20_000
BEST = 10
ORDER = ("feasible", "ok", "over a limit", "shorter run", "infeasible", "failed", "best", "front")
STYLES = {
    "front": {"color": "#0072B2", "symbol": "diamond", "size": 9, "opacity": 1, "line": 0.8},
    "best": {"color": "#0072B2", "symbol": "diamond", "size": 9, "opacity": 1, "line": 0.8},
    "feasible": {"color": "#56B4E9", "symbol": "circle", "size": 5, "opacity": 0.55},
    "ok": {"color": "#0072B2", "symbol": "circle", "size": 5, "opacity": 0.7},
    "over a limit": {"color": "#7c8794", "symbol": "x", "size": 5, "opacity": 0.6},
    "shorter run": {"color": "#CC79A7", "symbol": "square-open", "size": 5, "opacity": 0.6},
}


@dataclass(frozen=True)
class Shown:
    """A column of the table: what it is called there, where its values come from, in which unit."""

    name: str
    column: Column
    unit: str


@dataclass(frozen=True)
class Points:
    """All points by name of column, with their standing; `kept` are the rows of the table, `drawn` places among these."""

    frame: pd.DataFrame
    standing: np.ndarray
    shown: tuple[Shown, ...]
    kept: np.ndarray
    drawn: np.ndarray

    def of_kind(self, *kinds: str) -> list[Shown]:
        return [one for one in self.shown if one.column.kind in kinds]


def even(rows: np.ndarray, most: int) -> np.ndarray:
    """Every k-th, with the smallest k that leaves no more than `most`."""
    return rows[:: max(1, -(-len(rows) // most))]


def digest(study: Study) -> Points:
    """The points of a study, and which of them are shown where."""
    frame, standing = study.points, _standing(study)
    chief = np.isin(standing, ("front", "best"))
    rows = np.arange(len(frame))
    kept = rows
    if len(rows) > MOST_ROWS:
        kept = np.union1d(rows[chief], even(rows[~chief], max(1, MOST_ROWS - int(chief.sum()))))
    of_kept = standing[kept]
    parts = [np.flatnonzero(np.isin(of_kept, ("front", "best")))]
    parts += [even(np.flatnonzero(np.isin(of_kept, names)), most) for names, most in (
        (("feasible", "ok"), MOST_DRAWN), (("over a limit",), MOST_DRAWN // 3), (("shorter run",), MOST_DRAWN // 3))]
    return Points(frame, standing, _shown(study), kept, np.sort(np.concatenate(parts)))


def _standing(study: Study) -> np.ndarray:
    frame = study.points
    standing = np.where(frame["status"] != "ok", frame["status"],
                        np.where(frame["fidelity"] < 1, "shorter run",
                                 np.where(frame["violation"] > 0, "over a limit",
                                          "feasible" if study.objectives else "ok"))).astype(object)
    if study.analysis and len(study.objectives) > 1:
        standing[[row["trial"] - 1 for row in study.analysis["analysis"]["front"]]] = "front"
    elif study.analysis:
        standing[best_rows(study, standing == "feasible")] = "best"
    return standing


def best_rows(study: Study, among: np.ndarray) -> np.ndarray:
    """The best points of a single objective, best first."""
    name = study.of_kind("objective")[0].name
    rows = np.flatnonzero(among)
    values = study.points[name].to_numpy(dtype=float)[rows]
    return rows[np.argsort(-values if study.objectives[0]["maximise"] else values, kind="stable")[:BEST]]


def _shown(study: Study) -> tuple[Shown, ...]:
    """Parameters first, objectives, then measures that are no objective by themselves, then limits."""
    formulas = units.formulas_of(study.document)
    unit_of = study.units
    taken, shown = {"point", "standing", "search", "share of a run"}, []
    for column in study.of_kind("parameter", "derived") + study.of_kind("objective") + study.of_kind("measure", "limit"):
        if column.kind == "measure" and formulas.get(column.name) == column.name:
            continue
        name = f"limit {column.heading}" if column.kind == "limit" else column.heading
        while name in taken:
            name = f"{column.kind} {name}"
        taken.add(name)
        shown.append(Shown(name, column, unit_of[column.name]))
    return tuple(shown)


def table(study: Study, points: Points) -> dict:
    """The points as scripts read them."""
    frame = points.frame.iloc[points.kept]
    columns = {"point": frame["id"].to_numpy(dtype=float), "standing": points.standing[points.kept]}
    for one in points.shown:
        values = frame[one.column.name]
        if values.map(lambda v: isinstance(v, str)).any():
            columns[one.name] = values.map(lambda v: "" if v is None or v != v else str(v)).to_numpy(dtype=object)
        else:
            columns[one.name] = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float)
    if study.points["repeat"].max() > 0:
        columns["search"] = frame["repeat"].to_numpy(dtype=float) + 1
    if (study.points["fidelity"] < 1).any():
        columns["share of a run"] = frame["fidelity"].to_numpy(dtype=float)
    packed = tables.packed(columns, 8 if len(frame) <= MOST_SETTINGS else 6, {one.name: one.unit for one in points.shown})
    for column in packed["columns"]:
        if column["name"] == "standing":
            column["order"] = list(ORDER)
    ways = {o["name"]: "maximise" if o["maximise"] else "minimise" for o in study.objectives}
    packed |= {"drawn": points.drawn.tolist(), "styles": {"standing": STYLES}, "fixed": True,
               "objectives": {one.name: ways[one.column.heading] for one in points.of_kind("objective")}}
    return packed


def settings(study: Study, points: Points) -> dict:
    """What rows of the table set: each text once, and its places by row; only rows whose settings are kept."""
    if not study.analysis:
        return {"texts": [], "rows": {}}
    found = study.analysis["settings"]
    rows = range(len(points.kept)) if len(points.kept) <= MOST_SETTINGS else points.drawn.tolist()
    place: dict[int, int] = {}
    by_row = {row: [place.setdefault(i, len(place)) for i in found["trials"][int(points.kept[row])]] for row in rows}
    return {"texts": [found["texts"][i] for i in place], "rows": by_row}


def rule(points: Points) -> str:
    """Which points are drawn, in words."""
    chief = int(np.isin(points.standing, ("front", "best")).sum())
    could = int(np.isin(points.standing, ("feasible", "ok", "over a limit", "shorter run")).sum()) + chief
    if len(points.drawn) == could:
        return f"All {units.count(could)} points with a result are drawn."
    return (f"{units.count(len(points.drawn))} of {units.count(could)} points with a result are drawn: the whole front, "
            "and an even sample of the others.")
