"""Runs side by side: every figure of their summaries, and the entries of their configs that differ."""

from __future__ import annotations

from pathlib import Path

from orrery_plot.units import unit_of

from . import facts
from .errors import Refused

SHARES = ("attainment", "mfu", "mbu", "busy")  # figures that are told in percent
MOST = 400  # entries that are told


def flat(document: object, path: str = "") -> dict[str, object]:
    """Leaves by their dotted paths; lists of plain values are leaves."""
    if isinstance(document, dict):
        members = document.items()
    elif isinstance(document, list) and any(isinstance(m, (dict, list)) for m in document):
        members = ((str(i), m) for i, m in enumerate(document))
    else:
        return {path: document}
    leaves: dict[str, object] = {}
    for key, value in members:
        leaves.update(flat(value, f"{path}.{key}" if path else str(key)))
    return leaves


def side_by_side(runs: list[tuple[str, Path]]) -> dict:
    """Figures and differing entries by path, a value a run (None where it has none)."""
    summaries, configs = [], []
    for name, folder in runs:
        try:
            summaries.append(flat(facts.read_json(folder / "summary.json")))
            configs.append(flat(facts.read_json(folder / "manifest.json").get("config", {})))
        except facts.Broken as error:
            raise Refused(422, f"{name}/{error}") from None
    figures = [row | {"unit": "%" if row["path"].rpartition(".")[2] in SHARES else unit_of(row["path"])}
               for row in together(summaries, False)]
    return {"runs": [name for name, _ in runs], "figures": figures,
            "config": together(configs, True)}


def together(documents: list[dict[str, object]], differing: bool) -> list[dict]:
    """Rows {path, values} in the order of the first document that has them."""
    paths = dict.fromkeys(path for document in documents for path in document)
    rows = [{"path": path, "values": [document.get(path) for document in documents]} for path in paths]
    if differing:
        rows = [row for row in rows if any(value != row["values"][0] for value in row["values"])]
    return rows[:MOST]
