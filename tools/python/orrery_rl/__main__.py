"""Learning curves from runs of `orrery train`: median and quartiles over the seeds, against environment steps.

    python3 orrery_rl --png FILE.png TITLE:COLUMN:LABEL=RUN[,LABEL=RUN ...] ...

A panel an argument; RUN is a folder that holds curve.csv, COLUMN one of its columns (eval_return, makespan, …).
`--table` prints the last row of every run as a Markdown table instead: median (quartiles) of the column.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

from orrery_plot import palette  # noqa: E402
from orrery_plot.style import Picture, panels_of, save, small_panels  # noqa: E402


def quartiles(run: str, column: str) -> pd.DataFrame:
    """Quartiles of a column over the seeds, a row an evaluation."""
    curve = pd.read_csv(Path(run) / "curve.csv")
    if column not in curve:
        sys.exit(f"{run}/curve.csv has no column {column}; it has {', '.join(curve.columns)}")
    return curve.groupby("steps")[column].quantile([0.25, 0.5, 0.75]).unstack()


def parse(panel: str) -> tuple[str, str, list[tuple[str, str]]]:
    title, column, runs = panel.split(":", 2)
    return title, column, [tuple(run.split("=", 1)) for run in runs.split(",")]


@small_panels
def draw(panels: list[str]) -> Picture:
    figure, grid = panels_of(len(panels), 2, (3.3, 2.2))
    for axes, panel in zip(grid, panels):
        title, column, runs = parse(panel)
        for i, (label, run) in enumerate(runs):
            spread = quartiles(run, column)
            axes.fill_between(spread.index, spread[0.25], spread[0.75], color=palette.colour(i), alpha=0.25, linewidth=0)
            axes.plot(spread.index, spread[0.5], color=palette.colour(i), linestyle=palette.dash(i), linewidth=1, label=label)
        axes.set(title=title, xlabel="thousand environment steps", ylabel=column)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / 1000:g}"))
        axes.legend(fontsize=6)
    return figure


def table(panels: list[str]) -> None:
    print("| task | learner | steps | figure | untrained | trained: median (quartiles) |")
    print("| --- | --- | --: | --- | --: | --: |")
    for panel in panels:
        title, column, runs = parse(panel)
        for label, run in runs:
            spread = quartiles(run, column)
            first, last = spread.iloc[0], spread.iloc[-1]
            print(f"| {title} | {label} | {spread.index[-1]:,} | {column} | {first[0.5]:.4g} "
                  f"| {last[0.5]:.4g} ({last[0.25]:.4g} to {last[0.75]:.4g}) |")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="orrery_rl", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("panels", nargs="+", metavar="TITLE:COLUMN:LABEL=RUN,…")
    parser.add_argument("--png", type=Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    if options.table:
        table(options.panels)
    if options.png:
        print(save(draw(options.panels), options.png, dpi=160), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
