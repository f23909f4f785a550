"""What every plot asks of its data: columns that are there, something to draw, labels with units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from . import units
from .style import PlotError

_WORDS = {"ttft": "TTFT", "tbt": "TBT", "tpot": "TPOT", "e2e": "E2E", "kv": "KV", "slo": "SLO", "mfu": "MFU",
          "mbu": "MBU", "p50": "P50", "p90": "P90", "p95": "P95", "p99": "P99"}


def need(frame: pd.DataFrame, columns: Iterable[str], what: str) -> pd.DataFrame:
    """The frame, if it has the columns and a row; PlotError says which are missing of what there is."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise PlotError(f"{what}: expected the columns {', '.join(columns)}, found no {', '.join(missing)} among "
                        f"{', '.join(map(str, frame.columns)) or 'none'}")
    if len(frame) == 0:
        raise PlotError(f"{what}: there is nothing to draw, the table is empty")
    return frame


def finite(values: Sequence[float], what: str) -> np.ndarray:
    """The values as floats; PlotError where none of them is a number."""
    array = np.asarray(values, dtype=float)
    if not np.isfinite(array).any():
        raise PlotError(f"{what}: there is nothing to draw, no value is a number")
    return array


def words_of(name: str) -> str:
    """A column or a path as words, without its unit: `ttft_s.p99` gives "P99 TTFT"."""
    pieces = name.split(".")
    for ending, _ in units.ENDINGS:
        cut = [re.sub(re.escape(ending) + "$", "", piece) for piece in pieces]
        if cut != pieces:
            pieces = cut
            break
    if len(pieces) > 1 and pieces[0] == "throughput":
        pieces = [*pieces[1:], "throughput"]
    if len(pieces) > 1 and re.fullmatch(r"p\d+|mean|max", pieces[-1]):
        pieces = [pieces[-1], *pieces[:-1]]
    words = [_WORDS.get(word, word) for piece in pieces for word in piece.split("_") if word]
    return " ".join(words)


def label_of(name: str, unit: str | None = None) -> str:
    """An axis label: words and the unit in brackets."""
    unit = units.unit_of(name) if unit is None else unit
    return f"{words_of(name)} ({unit})" if unit else words_of(name)


def natural(name: str) -> list:
    """A key that sorts h2 before h10."""
    return [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in re.findall(r"\d+|\D+", name)]
