"""Where energy and device time go, by class of operator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from . import frames, palette, units
from .digest import digest_energy
from .style import COMMAS, SMALL, WIDTH, Picture, PlotError, grid_of, legend_below, styled

COLUMNS = {"time": ("busy_s", "s", "Device time", palette.BLUE), "energy": ("energy_j", "J", "Energy", palette.ORANGE)}
MOST_CLASSES = 6  # of a stacked bar that have a colour of their own
OTHERS = "all others"


@styled
def breakdown(runs: Mapping[str, pd.DataFrame], what: str = "energy") -> Picture:
    """Energy, device time ("time") or "both", by class. `runs`: tables (device, class, energy_j, busy_s) by label.

    One run: a bar a class, with its share. Several: a bar a run, stacked by the classes that take most, idle last. Where
    classes draw at the same time (EnergyDigest.overlapping), "both" is energy alone.
    """
    if what not in (*COLUMNS, "both"):
        raise PlotError(f"breakdown: expected what to be 'energy', 'time' or 'both', got {what!r}")
    if not runs:
        raise PlotError("breakdown: there is nothing to draw, no run was given")
    tables, overlapping = {}, []
    for label, frame in runs.items():
        frames.need(frame, ("device", "class", "energy_j", "busy_s"), f"breakdown of {label}")
        digest = digest_energy(frame)
        tables[label] = digest.by_class
        overlapping += [label] if digest.overlapping else []
    if overlapping and what == "time":
        raise PlotError(f"breakdown of {overlapping[0]}: its classes draw at the same time, so that their times are no parts "
                        "of a whole; \"energy\" can be drawn")
    parts = [part for part in COLUMNS if part != "time" or not overlapping] if what == "both" else [what]
    if len(tables) == 1:
        return bars(next(iter(tables.values())), parts)
    return _stacks(tables, parts)


@styled
def bars(table: pd.DataFrame, parts: list[str] = list(COLUMNS)) -> Picture:  # noqa: B006 - read only
    """A bar a class (the index), with its share; a panel a part."""
    figure, (panels,) = grid_of(1, len(parts), (WIDTH if len(parts) > 1 else 4.8, 1.1 + 0.22 * len(table)), sharey=True)
    for axes, part in zip(panels, parts):
        column, unit, label, colour = COLUMNS[part]
        values = table[column].to_numpy()
        factor, name = units.prefix(float(values.max()), unit)
        at = np.arange(len(table))
        axes.barh(at, values * factor, height=0.7, color=[palette.IDLE if c == "idle" else colour for c in table.index])
        for y, value, text in zip(at, values, units.bar_texts(values, unit)):
            axes.annotate(text, (value * factor, y), xytext=(3, 0), fontsize=SMALL, textcoords="offset points",
                          va="center")
        axes.set_yticks(at, [str(c) for c in table.index])
        axes.set_xlim(0, (values.max() * factor or 1.0) * 1.42)
        axes.set(title=f"{label}, {units.text(float(values.sum()), unit)} in total", xlabel=f"{label.lower()} ({name})")
        _horizontal(axes)
    panels[0].invert_yaxis()
    return figure


def _horizontal(axes) -> None:
    axes.xaxis.set_major_formatter(COMMAS)
    axes.grid(axis="y", visible=False)
    axes.margins(y=0.02)
    axes.tick_params(axis="y", length=0)


def _stacks(tables: dict[str, pd.DataFrame], parts: list[str]) -> Picture:
    figure, (panels,) = grid_of(1, len(parts), (WIDTH, 1.5 + 0.36 * len(tables)), sharey=True)
    named, rest = _order(tables, COLUMNS[parts[0]][0])
    for axes, part in zip(panels, parts):
        column, unit, label, _ = COLUMNS[part]
        grid = pd.DataFrame({name: table[column] for name, table in tables.items()}).fillna(0.0)
        stacks = [(c, grid.loc[c], palette.colour(i), palette.hatch(i)) for i, c in enumerate(named)]
        if rest:
            stacks.append((OTHERS, grid.loc[rest].sum(), palette.colour(len(named)), palette.hatch(len(named))))
        if "idle" in grid.index:
            stacks.append(("idle", grid.loc["idle"], palette.IDLE, ""))
        factor, name = units.prefix(float(grid.sum().max()), unit)
        left = np.zeros(len(tables))
        for text, values, colour, hatch in stacks:
            width = values.to_numpy() * factor
            axes.barh(np.arange(len(tables)), width, left=left, height=0.7, color=colour, hatch=hatch,
                      edgecolor="white", linewidth=0.5, label=text)
            left = left + width
        for y, total in enumerate(left):
            axes.annotate(f"{units.plain(float(total))} {name}", (total, y), xytext=(3, 0), fontsize=SMALL, va="center",
                          textcoords="offset points")
        axes.set_yticks(np.arange(len(tables)), list(tables))
        axes.set_xlim(0, (left.max() or 1.0) * 1.2)
        axes.set(title=label, xlabel=f"{label.lower()} ({name})")
        _horizontal(axes)
    panels[0].invert_yaxis()
    legend_below(figure, 4)
    return figure


def _order(tables: dict[str, pd.DataFrame], column: str) -> tuple[list, list]:
    """Classes that have a colour, those that take most first, and the others; the same for all panels."""
    sums = pd.concat([table[column] for table in tables.values()]).groupby(level=0).sum().drop("idle", errors="ignore")
    order = list(sums.sort_values(ascending=False, kind="stable").index)
    return (order, []) if len(order) <= MOST_CLASSES else (order[: MOST_CLASSES - 1], order[MOST_CLASSES - 1:])
