"""All figures of studies as PNG files, from what `orrery analyse --json --points` says of their stores."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from . import outcomes, parameters
from .style import Picture, save


def names_of(stores: list[dict]) -> list[str]:
    """What each store is called in legends and file names: what its file is called, if that says which one it is."""
    stems = [Path(store["file"]).stem for store in stores]
    return [stem if Counter(stems)[stem] == 1 else f"{stem}-{i + 1}" for i, stem in enumerate(stems)]


def figures(analysis: dict) -> dict[str, Picture]:
    """By name: of all stores together front (two objectives or more) and history; of each importance, interactions and
    parallel, with the store's name behind where there are several. What the data does not give is left out."""
    stores, objectives = analysis["stores"], analysis["objectives"]
    names = names_of(stores)
    drawn = {"front": outcomes.front(stores, names, objectives), "history": outcomes.history(stores, names, analysis)}
    for store, name in zip(stores, names):
        end = f"-{name}" if len(stores) > 1 else ""
        drawn["importance" + end] = parameters.importance(store, objectives)
        drawn["interactions" + end] = parameters.interactions(store, objectives)
        drawn["parallel" + end] = parameters.parallel(store, objectives)
    return {name: figure for name, figure in drawn.items() if figure is not None}


def write(analysis: dict, folder: Path) -> list[Path]:
    """Writes every figure whose data is there; their paths."""
    return [save(figure, folder / f"{name}.png") for name, figure in figures(analysis).items()]
