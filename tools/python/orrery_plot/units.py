"""Numbers as people read them, and the few unit strings of a config that the report needs as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

MISSING = "\N{EN DASH}"
GIB = float(1 << 30)

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
PREFIXES = {
    "s": ((36000.0, 1 / 3600, "h"), (1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs")),
    "J": ((1e9, 1e-9, "GJ"), (1e6, 1e-6, "MJ"), (1e3, 1e-3, "kJ"), (1.0, 1.0, "J"), (0.0, 1e3, "mJ")),
    "W": ((1e6, 1e-6, "MW"), (1e4, 1e-3, "kW"), (0.0, 1.0, "W")),
    "B": ((2.0**40, 2.0**-40, "TiB"), (2.0**30, 2.0**-30, "GiB"), (2.0**20, 2.0**-20, "MiB"),
          (2.0**10, 2.0**-10, "KiB"), (0.0, 1.0, "B")),
    "FLOP": ((1e15, 1e-15, "PFLOP"), (1e12, 1e-12, "TFLOP"), (1e9, 1e-9, "GFLOP"), (1e6, 1e-6, "MFLOP"),
             (0.0, 1.0, "FLOP")),
    "FLOP/s": ((1e15, 1e-15, "PFLOP/s"), (1e12, 1e-12, "TFLOP/s"), (1e9, 1e-9, "GFLOP/s"), (0.0, 1.0, "FLOP/s")),
    "B/s": ((1e12, 1e-12, "TB/s"), (1e9, 1e-9, "GB/s"), (1e6, 1e-6, "MB/s"), (1e3, 1e-3, "kB/s"), (0.0, 1.0, "B/s")),
}
_DURATION = re.compile(r"\s*([0-9.]+(?:[eE][-+]?\d+)?)\s*([a-zµ]+)\s*")


def is_number(value: object) -> bool:
    """True for a finite int or float; a bool is not a number here."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def plain(value: float, digits: int = 3) -> str:
    """`digits` significant digits, no exponent in the usual range, thousands separated by commas."""
    if value == 0:
        return "0"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    size = math.floor(math.log10(abs(value)))
    if size < -4 or size >= 15:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - size)}f}"


def scaled(value: object, unit: str) -> tuple[str, str]:
    """(number, unit) with the prefix that suits the value; units without prefixes here are left as they are."""
    if not is_number(value):
        return MISSING, ""
    x = float(value)  # type: ignore[arg-type]
    if unit not in PREFIXES or x == 0:
        return plain(value if isinstance(value, int) else x), unit
    factor, name = prefix(abs(x), unit)
    return plain(x * factor), name


def prefix(size: float, unit: str) -> tuple[float, str]:
    """(factor, prefixed unit) that suits values as large as `size`."""
    for least, factor, name in PREFIXES[unit]:
        if size >= least:
            return factor, name
    return 1.0, unit


def text(value: object, unit: str) -> str:
    """`scaled`, joined by a no-break space."""
    number, name = scaled(value, unit)
    return f"{number}\N{NO-BREAK SPACE}{name}".rstrip() if name else number


def percent(value: object) -> str:
    """A fraction as a percentage with one decimal, or two below 1 %."""
    if not is_number(value):
        return MISSING
    x = 100.0 * float(value)  # type: ignore[arg-type]
    return f"{x:.{0 if x in (0.0, 100.0) else 1 if abs(x) >= 1 else 2}f}\N{NO-BREAK SPACE}%"


def seconds(value: object) -> float | None:
    """Seconds of a config's duration: `"100 ms"` gives 0.1; what is no duration gives None."""
    if is_number(value):
        return float(value)  # type: ignore[arg-type]
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _SECONDS:
        return None
    try:
        return float(match[1]) * _SECONDS[match[2]]
    except ValueError:
        return None


def duration_unit(largest: float) -> tuple[str, float]:
    """(unit, factor) in which a column of durations up to `largest` seconds reads well."""
    for least, name, factor in ((1.0, "s", 1.0), (1e-3, "ms", 1e3)):
        if largest >= least:
            return name, factor
    return "µs", 1e6


def bar_texts(values: Sequence[float], unit: str) -> list[str]:
    """`12.3 kJ · 4.5 %` for each value, in the unit that suits the largest; shares are of the sum."""
    total, (factor, name) = float(sum(values)), prefix(float(max(values)), unit)
    shares = [percent(float(v) / total if total else None) for v in values]
    return [f"{plain(float(v) * factor)}\N{NO-BREAK SPACE}{name} · {share}" for v, share in zip(values, shares)]
