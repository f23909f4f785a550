"""Plots of studies, from what `orrery analyse` knows of their stores.

    python3 orrery_study ANALYSIS.json --png FOLDER

Of all stores together front.png (two objectives or more) and history.png; of each store importance.png, interactions.png
and parallel.png, with the store's name before the dot where there are several. Prints the path of every file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orrery_plot import outcomes, parameters  # noqa: E402
from orrery_plot.style import save  # noqa: E402


def names_of(stores: list[dict]) -> list[str]:
    """What each store is called in legends and file names: what its file is called, if that says which one it is."""
    stems = [Path(store["file"]).stem for store in stores]
    return [stem if Counter(stems)[stem] == 1 else f"{stem}-{i + 1}" for i, stem in enumerate(stems)]


def write(analysis: dict, folder: Path) -> list[Path]:
    """Writes every figure whose data is there; their paths."""
    stores, objectives = analysis["stores"], analysis["objectives"]
    names = names_of(stores)
    figures = {"front": outcomes.front(stores, names, objectives), "history": outcomes.history(stores, names, analysis)}
    for store, name in zip(stores, names):
        end = f"-{name}" if len(stores) > 1 else ""
        figures["importance" + end] = parameters.importance(store, objectives)
        figures["interactions" + end] = parameters.interactions(store, objectives)
        figures["parallel" + end] = parameters.parallel(store, objectives)
    return [save(figure, folder / f"{name}.png") for name, figure in figures.items() if figure is not None]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="orrery_study", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("analysis", type=Path)
    parser.add_argument("--png", type=Path, required=True)
    options = parser.parse_args(arguments)
    analysis = json.loads(options.analysis.read_text(encoding="utf-8"))
    for path in write(analysis, options.png):
        print(path, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
