"""Plots of predicted against measured times, from the points that `orrery fidelity --points` writes.

    python3 orrery_fidelity POINTS.csv --png FOLDER

One PNG a folder of tables (gemm.png, attention.png …), one panel a table and metric: both axes logarithmic and in the
unit of the table, the diagonal is a perfect prediction, the band 10 % to either side. Prints the path of every file.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from matplotlib.ticker import LogLocator, NullFormatter  # noqa: E402

from orrery_plot import palette  # noqa: E402
from orrery_plot.style import COMMAS, Picture, panels_of, save, small_panels, wrapped  # noqa: E402

COLUMNS = 4
PANEL = 2.1  # inches
MOST_POINTS = 4000  # of a panel: more only make it darker


def panel(axes, points: pd.DataFrame, title: str) -> None:
    """One table: a dot a row, coloured by the first regime it belongs to."""
    shown = points.iloc[:: max(1, math.ceil(len(points) / MOST_POINTS))]
    regimes = shown["regimes"].fillna("").str.split(";").str[0]
    named = sorted(regimes.unique())
    if len(named) > len(palette.SEQUENCE):  # more than there are colours: the rest in one
        regimes = regimes.where(regimes.isin(named[: len(palette.SEQUENCE) - 1]), "others")
        named = [*named[: len(palette.SEQUENCE) - 1], "others"]
    low = float(min(points["measured"].min(), points["predicted"].min())) / 1.5
    high = float(max(points["measured"].max(), points["predicted"].max())) * 1.5
    line = np.array([low, high])
    axes.fill_between(line, line * 0.9, line * 1.1, color=palette.IDLE, alpha=0.45, linewidth=0)
    axes.plot(line, line, color=palette.MUTED, linewidth=0.7)
    for i, regime in enumerate(named):
        rows = shown[regimes == regime]
        axes.scatter(rows["measured"], rows["predicted"], s=2.4, linewidths=0, color=palette.colour(i), alpha=0.7,
                     marker=palette.marker(i), label=regime or None)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.set_aspect("equal")
    narrow = high / low < 100  # powers of ten alone would leave such an axis without a label
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=5, subs=(1, 2, 5) if narrow else (1,)))
        axis.set_major_formatter(COMMAS)
        axis.set_minor_formatter(NullFormatter())
    error = (points["predicted"] / points["measured"] - 1).abs().mean()
    axes.set_title(f"{wrapped(title, 30)}\nMAPE {100 * error:.1f} %, {len(points):,} rows")
    if any(regimes):
        axes.legend(fontsize=5, markerscale=3, frameon=False, loc="upper left", handletextpad=0.1, borderpad=0.1)


@small_panels
def draw(folder: str, tables: pd.DataFrame) -> Picture:
    """The figure of one folder of tables."""
    groups = list(tables.groupby(["table", "metric"], sort=True))
    figure, grid = panels_of(len(groups), COLUMNS, (PANEL, PANEL + 0.35))
    for axes, ((table, metric), points) in zip(grid, groups):
        name = table.removeprefix(folder + "/").removesuffix(".csv")
        panel(axes, points, name if metric == "time" else f"{name}, {metric}")
    figure.supxlabel("measured, in the unit of the table", fontsize=7)
    figure.supylabel("predicted, in the unit of the table", fontsize=7)
    return figure


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="orrery_fidelity", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path)
    parser.add_argument("--png", type=Path, required=True)
    options = parser.parse_args(arguments)
    points = pd.read_csv(options.points)
    points = points[(points["measured"] > 0) & (points["predicted"] > 0)]
    if points.empty:
        print(f"{options.points}: no row is covered, nothing to draw", file=sys.stderr)
        return 0
    for folder, tables in points.groupby(points["table"].str.split("/").str[0], sort=True):
        print(save(draw(folder, tables), options.png / f"{folder}.png", dpi=160, shades=160), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
