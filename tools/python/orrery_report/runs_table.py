"""Many runs as one table: any figure against any, coloured by a third; settings that differ are columns too."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orrery_plot import units

from .errors import InputError
from .markup import Sheet, document, note
from .run_folder import heads
from .tables import MOST_ROWS, Table, explorer, grid, packed

MOST_COLUMNS = 400
DEEPEST = 8
MOST_ITEMS = 16  # of a list
MOST_GROUPS = 12  # colours at first sight
# What is drawn first: the first pair that runs have.
FIRST = (("throughput.output_tokens_per_s", "ttft_s.p99"), ("throughput.tokens_per_s", "energy_per_token_j"),
         ("tokens_per_s", "iteration_s"), ("simulated_s", "energy_j.total"))


@dataclass(frozen=True)
class Runs:
    """Runs by name, each a row."""

    title: str
    table: Table


def load(folders: list[Path], skip: bool = False) -> Runs:
    """The table of these run folders, the newest MOST_ROWS of more. One that is none: InputError, or left out with `skip`."""
    kept = folders if len(folders) <= MOST_ROWS else sorted(folders, key=lambda f: f.stat().st_mtime)[-MOST_ROWS:]
    root = Path(os.path.commonpath([folder.resolve() for folder in kept]))
    rows = []
    for folder in kept:
        try:
            manifest, summary = heads(folder)
        except InputError:
            if skip:
                continue
            raise
        config = manifest["config"]
        rows.append({"run": str(folder.resolve().relative_to(root)), "system": str(config.get("system", "serving")),
                     **dict(_leaves("", summary)), **dict(_leaves("config", config))})
    return Runs(root.name or "/", _table(rows, len(folders)))


def _leaves(path: str, node: object, depth: int = 0):
    """Numbers, texts and truths below a node, by dotted path."""
    if isinstance(node, bool):
        yield path, "yes" if node else "no"
    elif units.is_number(node):
        yield path, float(node)  # type: ignore[arg-type]
    elif isinstance(node, str):
        quantity = units.quantity_of(node) if path.startswith("config.") else None
        yield path, quantity[0] if quantity else node[:200]
    elif depth < DEEPEST:
        members = node.items() if isinstance(node, dict) else enumerate(node[:MOST_ITEMS]) if isinstance(node, list) else ()
        for key, value in members:
            yield from _leaves(f"{path}.{key}" if path else str(key), value, depth + 1)


def _table(rows: list[dict], total: int) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, np.ndarray] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        known = [value for value in values if value is not None]
        if name not in ("run", "status") and len(set(known)) < 2 and len(known) == len(rows):
            continue  # the same in all runs
        if all(isinstance(value, float) for value in known):
            columns[name] = np.array([np.nan if value is None else value for value in values], dtype=float)
        else:
            columns[name] = np.array(["" if value is None else f"{value:g}" if isinstance(value, float) else value
                                      for value in values], dtype=object)
        if len(columns) == MOST_COLUMNS:
            break
    return Table("runs", columns, total)


def render(runs: Runs, library: str | None = None) -> str:
    """The page: a plot of any two columns, and the table."""
    sheet = Sheet()
    table = runs.table
    if not table.kept:
        return document(sheet, runs.title, "no runs", None, library)
    sheet.tables["runs"] = packed(table.columns)
    told = f"{units.count(table.kept)} runs" + ("" if table.kept == table.total else f" of {units.count(table.total)}, the newest")
    x, y = next(((a, b) for a, b in FIRST if _numbers(table, a) and _numbers(table, b)), (None, None))
    plot = explorer(table, "", "figures and settings of the runs", (x, y, _colour(table), "points"))
    sheet.tab("plot", "Plot", plot + note("Settings are below “config.”; a figure that is the same in all runs is left out."))
    sheet.tab("table", "Runs", grid("runs", "Runs"))
    return document(sheet, runs.title, told, None, library)


def _colour(table: Table) -> str | None:
    """What tells runs apart at first sight: their system, else the first setting with a few names."""
    names = [name for name in ("system", *table.columns) if name == "system" or name.startswith("config.")]
    return next((name for name in names if name in table.columns and table.columns[name].dtype == object
                 and 1 < len(set(table.columns[name].tolist())) <= MOST_GROUPS), None)


def _numbers(table: Table, name: str) -> bool:
    column = table.columns.get(name)
    return column is not None and column.dtype != object and bool(np.isfinite(column).any())

