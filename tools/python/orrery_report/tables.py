"""Tables that no part of the report knows: each gets a tab with a plot of any two columns, and its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from orrery_plot import units

from .markup import Sheet, escape, note

MOST_ROWS = 5000
NAMES = ("id", "point", "seed")  # columns of numbers that name something
TITLES = {"curve": "Learning curve", "probes": "Probes", "plans": "Plans", "programs": "Programs", "points": "Points",
          "flows": "Flows", "kernels": "All kernels", "jobs": "Jobs", "links": "Links", "requests": "Requests", "series": "Over time"}
# What a table's plot shows first: x, y, what tells points apart, how it is drawn.
FIRST = {"curve": ("steps", "eval_return", "seed", "lines"), "series": ("time_s", None, "device", "lines"),
         "points": ("batch", "il_s", "platform", "points"), "probes": ("rate_per_s", "mean", "figure", "points"),
         "plans": ("e2e_s", "output_tokens_per_s", "pareto", "points"), "requests": ("arrived_s", "finished_s", None, "points"),
         "programs": ("started_s", "critical_path_s", "status", "points"), "flows": ("bytes", "slowdown", None, "points"),
         "kernels": ("start_s", "flops", "bound", "points"),
         "jobs": ("started_s", "finished_s", "collective", "points"), "links": ("utilisation", None, None, "distribution")}


@dataclass(frozen=True)
class Table:
    """A CSV file of a run: its columns (numbers as floats, texts as texts), of many rows an even pick."""

    key: str
    columns: dict[str, np.ndarray]
    total: int

    @property
    def title(self) -> str:
        return TITLES.get(self.key, self.key.replace("_", " ").replace("-", " ").capitalize())

    @property
    def kept(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def from_frame(key: str, frame: pd.DataFrame, total: int) -> Table:
    """Columns that hold nothing but numbers and empty fields are numbers, all others texts."""
    columns: dict[str, np.ndarray] = {}
    for name in frame.columns:
        values = pd.to_numeric(frame[name].where(frame[name] != ""), errors="coerce")
        if (values.isna() & (frame[name] != "")).any() or (frame[name] == "").all():
            columns[str(name)] = frame[name].to_numpy(dtype=object)
        else:
            columns[str(name)] = values.to_numpy(dtype=float)
    return Table(key, columns, total)


def packed(columns: dict[str, np.ndarray], digits: int = 7, units_of: dict[str, str] | None = None) -> dict:
    """Columns as scripts read them: numbers rounded to so many digits, texts as places in a list of each once. `units_of`:
    units by name, where names do not say them; numbers that name something (NAMES) have neither unit nor prefix.
    """
    described, values = [], []
    for name, column in columns.items():
        if column.dtype == object:
            levels = list(dict.fromkeys(column.tolist()))
            place = {level: i for i, level in enumerate(levels)}
            described.append({"name": name, "levels": [str(level) for level in levels]})
            values.append([place[value] for value in column.tolist()])
        else:
            unit = units_of.get(name, "") if units_of is not None else units.unit_of(name)
            described.append({"name": name} if name in NAMES else {"name": name, "unit": unit, "steps": units.steps(unit)})
            values.append(rounded(column, digits))
    return {"columns": described, "values": values, "rows": len(values[0]) if values else 0}


def rounded(values: np.ndarray, digits: int = 7) -> list[float | int | None]:
    """Numbers of so many significant digits, whole ones as integers; None for what is not there."""
    out: list[float | int | None] = []
    for value in values.tolist():
        if value is None or not math.isfinite(value):
            out.append(None)
        elif value == int(value) and abs(value) < 1e15:
            out.append(int(value))
        else:
            out.append(float(f"{value:.{digits}g}"))
    return out


def panel(sheet: Sheet, table: Table) -> str:
    """The tab of a table, as HTML; its data goes into the sheet."""
    if not table.columns or not table.kept:
        return note(f"{table.key}.csv has no rows.")
    sheet.tables[table.key] = packed(table.columns)
    every = "" if table.kept == table.total else f" {units.count(table.kept)} of {units.count(table.total)} rows are shown, an even sample."
    return explorer(table, every) + grid(table.key, table.title)


def explorer(table: Table, remark: str, of: str | None = None, first: tuple | None = None) -> str:
    """A plot of any two columns; nothing for a table without numbers. `of`: what the columns are, if not of a file; `first`:
    what it shows first, as FIRST has it."""
    numeric = [name for name, column in table.columns.items() if column.dtype != object and np.isfinite(column).any()]
    if not numeric:
        return note(f"Nothing to plot: no column of {table.key}.csv holds numbers.{remark}")
    x, y, by, kind = first or FIRST.get(table.key, (None, None, None, "points"))
    moving = [name for name in numeric if np.nanmax(table.columns[name]) > np.nanmin(table.columns[name])] or numeric
    x = x if x in numeric else moving[0]
    y = y if y in numeric else next((name for name in moving if name != x), x)
    by = by if by in table.columns else ""
    return (f'<figure class="explorer" data-explorer="{escape(table.key)}" data-x="{escape(x)}" data-y="{escape(y)}" '
            f'data-by="{escape(by)}" data-kind="{kind}"></figure>'
            f"<p class=\"caption\">Any two {escape(of or f'columns of {table.key}.csv')}.{escape(remark)}</p>")


def grid(key: str, title: str, pick: bool = False) -> str:
    """A table with filter, sort and pages; `pick`: a row may be chosen, which shows it elsewhere."""
    return f'<div class="grid" data-grid="{escape(key)}" data-title="{escape(title)}"{" data-pick" if pick else ""}></div>'
