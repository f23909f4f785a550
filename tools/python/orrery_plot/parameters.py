"""Figures of what parameters do: importance, interactions, parallel coordinates."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from . import palette, units
from .outcomes import axis_label, scale_of
from .style import SMALL, WIDTH, Picture, every, grid_of, legend_below, panels_of, short, styled, wrapped

LEAST_EXPLAINED = 0.01  # share of the variance of unseen points; below, a forest says nothing of parameters
MOST_BARS = 15  # parameters of importance.png, the most important ones
MOST_CELLS = 12  # parameters of interactions.png
WRITTEN_CELLS = 8  # up to so many, shares are written into the cells
MOST_LINES = 400  # of parallel.png, that are not highlighted
BEST = 10  # points highlighted where there is one objective
ABSENT = -0.09  # where a parameter that does not count is drawn


def _label(objective: dict, unit: str = "") -> str:
    return axis_label({**objective, "maximise": None}, unit)


def explains(importance: dict) -> bool:
    """Whether there is anything in what a forest says of importance: it predicts points that it has not seen better than
    their mean does. Else its bars are noise that looks like a finding."""
    return bool(importance["parameters"]) and (importance["explained"] or 0) >= LEAST_EXPLAINED


def _known(store: dict, objectives: list[dict]) -> list[tuple[dict, dict]]:
    """Objectives of which a forest explains something, with what it says of them."""
    pairs = zip(objectives, store["analysis"]["objectives"])
    return [(o, found["importance"]) for o, found in pairs if explains(found["importance"])]


@styled
def importance(store: dict, objectives: list[dict]) -> Picture | None:
    """Two bars a parameter: its main effect and its permutation importance."""
    known = _known(store, objectives)
    if not known:
        return None
    bars = min(MOST_BARS, len(known[0][1]["parameters"]))
    figure, grid = panels_of(len(known), 2, (3.6, 0.9 + 0.34 * bars), 0.35)
    for axes, (objective, found) in zip(grid, known):
        shown = sorted(found["parameters"], key=lambda p: p["permutation"] or 0)[-bars:]
        at = np.arange(len(shown))
        for key, label, offset, style in (
                ("main_effect", "main effect: variance it explains by itself", 0.19, {"color": palette.BLUE}),
                ("permutation", "permutation importance: error when its values are shuffled", -0.19,
                 {"color": palette.ORANGE, "hatch": "////", "edgecolor": "white", "linewidth": 0})):
            axes.barh(at + offset, [100 * max(0.0, p[key] or 0) for p in shown], height=0.36, label=label, **style)
        axes.set_yticks(at, [short(p["parameter"]) for p in shown])
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("% of the objective's variance")
        explained = max(0.0, found["explained"] or 0)
        axes.set_title(f"{wrapped(_label(objective), 40)}\nmodel explains {100 * explained:.0f} % of unseen variance, "
                       f"{found['trials']} trials", fontweight="normal")
    legend_below(figure, min(2, len(known)))
    return figure


@styled
def interactions(store: dict, objectives: list[dict]) -> Picture | None:
    """A cell a pair: share of variance that both explain together beyond each alone; on the diagonal each alone."""
    known = [(o, found) for o, found in _known(store, objectives) if len(found["parameters"]) > 1]
    if not known:
        return None
    cells = min(MOST_CELLS, len(known[0][1]["parameters"]))
    side = max(2.2, 0.36 * cells + 0.6)
    figure, grid = panels_of(len(known), 2 if side < 3.4 else 1, (side + 1.4, side + 0.5))
    for axes, (objective, found) in zip(grid, known):
        _heat_map(figure, axes, found, cells)
        axes.set_title(wrapped(f"{_label(objective)}, % of variance", 34), fontweight="normal")
    return figure


def _heat_map(figure: Picture, axes, found: dict, cells: int) -> None:
    shown = sorted(found["parameters"], key=lambda p: -(p["permutation"] or 0))[:cells]
    names = [p["parameter"] for p in shown]
    table = np.full((cells, cells), np.nan)
    for i, parameter in enumerate(shown):
        table[i, i] = 100 * max(0.0, parameter["main_effect"] or 0)
    for pair in found["interactions"]:
        if pair["first"] in names and pair["second"] in names:
            i, j = sorted((names.index(pair["first"]), names.index(pair["second"])), reverse=True)
            table[i, j] = 100 * max(0.0, pair["share"] or 0)  # below the diagonal: each pair once
    most = max(1.0, float(np.nanmax(table)))
    image = axes.imshow(table, cmap="Blues", vmin=0, vmax=most)
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 4 else {}
    axes.set_xticks(range(cells), [short(n) for n in names], **turned)
    axes.set_yticks(range(cells), [short(n) for n in names])
    if cells <= WRITTEN_CELLS:
        for i in range(cells):
            for j in range(i + 1):
                value = table[i, j]
                axes.text(j, i, f"{value:.1f}" if value < 10 else f"{value:.0f}", ha="center", va="center", fontsize=SMALL,
                          color="white" if value > 0.6 * most else palette.INK,
                          fontweight="bold" if i == j else "normal")
    axes.text(0.98, 0.97, "diagonal: alone\nbelow: together", transform=axes.transAxes, ha="right", va="top",
              fontsize=SMALL, color=palette.MUTED)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=18, pad=0.03)
    bar.outline.set_visible(False)


def _highlighted(store: dict, objectives: list[dict]) -> list[dict]:
    """The front; of one objective the best points."""
    trials = store["trials"]
    if len(objectives) > 1:
        return [trials[row["trial"] - 1] for row in store["analysis"]["front"]]
    full = [t for t in trials if t["feasible"] and t["fidelity"] == 1]
    return sorted(full, key=lambda t: t["objectives"][0], reverse=objectives[0]["maximise"])[:BEST]


@styled
def parallel(store: dict, objectives: list[dict]) -> Picture | None:
    """An axis a parameter and an objective, a line a point; those of the front in colour, by the first objective."""
    best = _highlighted(store, objectives)
    if not best:
        return None
    chosen = {id(trial) for trial in best}
    rest = every([t for t in store["trials"] if t["feasible"] and t["fidelity"] == 1 and id(t) not in chosen],
                 MOST_LINES)
    values = np.array([t["objectives"] for t in best + rest], dtype=float)
    low, high = values.min(axis=0), values.max(axis=0)
    span = np.where(high > low, high - low, 1)

    def places(trial: dict) -> list[float]:
        parameters = [ABSENT if u is None else u for u in trial["units"]]
        return parameters + list((np.array(trial["objectives"]) - low) / span)

    axes_count = len(store["parameters"]) + len(objectives)
    figure, ((axes,),) = grid_of(1, 1, (max(WIDTH, 0.9 * axes_count), 3.7))
    x = np.arange(axes_count)
    for trial in rest:
        axes.plot(x, places(trial), color=palette.IDLE, alpha=0.35, linewidth=0.6, zorder=1)
    factor, unit = scale_of(objectives[0], values[:, 0])
    first = np.array([t["objectives"][0] * factor for t in best])
    norm = Normalize(first.min(), first.max() if first.max() > first.min() else first.min() + 1)
    colours = matplotlib.colormaps["viridis"]
    for trial in best:
        axes.plot(x, places(trial), color=colours(0.92 * norm(trial["objectives"][0] * factor)), linewidth=1.1, alpha=0.9,
                  zorder=3)
    _parallel_axes(axes, store, objectives, low, high)
    what = f"front, {len(best)} points" if len(objectives) > 1 else f"best {len(best)} points"
    scale = ScalarMappable(norm=Normalize(norm.vmin, norm.vmin + (norm.vmax - norm.vmin) / 0.92), cmap=colours)
    bar = figure.colorbar(scale, ax=axes, shrink=0.8, aspect=25, pad=0.09,
                          label=wrapped(f"{_label(objectives[0], unit)} of the {what}", 40))
    bar.ax.set_ylim(norm.vmin, norm.vmax)
    bar.outline.set_visible(False)
    return figure


def _with_unit(text: str, unit: str) -> str:
    """The label of a tick: a number or a quantity with the prefix that suits it, any other choice as it is called."""
    try:
        return units.setting(float(text), unit)
    except ValueError:
        known = units.quantity_of(text)
        return units.setting(*known) if known else text


def _parallel_axes(axes, store: dict, objectives: list[dict], low: np.ndarray, high: np.ndarray) -> None:
    count = len(store["parameters"]) + len(objectives)
    absent = any(u is None for t in store["trials"] for u in t["units"])
    axes.set(xlim=(-0.75 if absent else -0.3, count - 0.5), ylim=(-0.13 if absent else -0.03, 1.03))
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_yticks([])
    scales = [scale_of(o, (low[k], high[k])) for k, o in enumerate(objectives)]
    labels = [wrapped(p["name"], 12) for p in store["parameters"]]
    labels += [wrapped(axis_label(o, unit), 14) for o, (_, unit) in zip(objectives, scales)]
    axes.set_xticks(range(count), labels)
    axes.tick_params(axis="x", length=0)
    ticks = [[(place, _with_unit(text, p["unit"])) for place, text in p["ticks"]] for p in store["parameters"]]
    for o, (factor, _) in enumerate(scales):
        ticks.append([(s, f"{(low[o] + s * (high[o] - low[o])) * factor:.4g}") for s in (0, 0.25, 0.5, 0.75, 1)])
    for k, marks in enumerate(ticks):
        axes.axvline(k, color=palette.INK if k < len(store["parameters"]) else palette.BLUE, linewidth=0.9, zorder=2)
        for place, text in every(marks, 12):
            axes.text(k + 0.03, place, short(text, 14), fontsize=SMALL, va="center", zorder=5,
                      bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.6})
    if absent:
        axes.text(-0.1, ABSENT, "not\nactive", fontsize=SMALL, va="center", ha="right", color=palette.MUTED)
