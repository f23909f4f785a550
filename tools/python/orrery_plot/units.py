"""Numbers as people read them, and the few unit strings of a config that the report needs as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

MISSING = "\N{EN DASH}"
GIB = float(1 << 30)

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
# By unit: from which size on, the factor, and the unit with its prefix. The pages' scripts have this table too.
PREFIXES = {
    "s": ((36000.0, 1 / 3600, "h"), (1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (1e-7, 1e6, "µs"), (0.0, 1e9, "ns")),
    "J": ((1e9, 1e-9, "GJ"), (1e6, 1e-6, "MJ"), (1e3, 1e-3, "kJ"), (1.0, 1.0, "J"), (1e-4, 1e3, "mJ"), (1e-7, 1e6, "µJ"),
          (1e-10, 1e9, "nJ"), (0.0, 1e12, "pJ")),
    "W": ((1e6, 1e-6, "MW"), (1e4, 1e-3, "kW"), (0.1, 1.0, "W"), (0.0, 1e3, "mW")),
    "B": ((2.0**40, 2.0**-40, "TiB"), (2.0**30, 2.0**-30, "GiB"), (2.0**20, 2.0**-20, "MiB"),
          (2.0**10, 2.0**-10, "KiB"), (0.0, 1.0, "B")),
    "FLOP": ((1e15, 1e-15, "PFLOP"), (1e12, 1e-12, "TFLOP"), (1e9, 1e-9, "GFLOP"), (1e6, 1e-6, "MFLOP"),
             (0.0, 1.0, "FLOP")),
    "FLOP/s": ((1e15, 1e-15, "PFLOP/s"), (1e12, 1e-12, "TFLOP/s"), (1e9, 1e-9, "GFLOP/s"), (1e6, 1e-6, "MFLOP/s"),
               (0.0, 1.0, "FLOP/s")),
    "B/s": ((1e12, 1e-12, "TB/s"), (1e9, 1e-9, "GB/s"), (1e6, 1e-6, "MB/s"), (1e3, 1e-3, "kB/s"), (0.0, 1.0, "B/s")),
    "Hz": ((1e9, 1e-9, "GHz"), (1e6, 1e-6, "MHz"), (1e3, 1e-3, "kHz"), (0.0, 1.0, "Hz")),
    # Whatever has no prefixes of its own: 1.2 M, 1.2 M tokens.
    "": ((1e12, 1e-12, "T"), (1e9, 1e-9, "G"), (1e6, 1e-6, "M"), (1e5, 1e-3, "k"), (0.0, 1.0, "")),
}
# Endings of the names of figures and columns, the longest first, and the unit that they say.
ENDINGS = (("_bytes_per_s", "B/s"), ("_tokens_per_s", "tokens/s"), ("_flops_per_s", "FLOP/s"), ("_per_s", "1/s"),
           ("_bytes", "B"), ("_flops", "FLOP"), ("_tokens", "tokens"), ("_mm2", "mm²"), ("_usd", "USD"), ("_hz", "Hz"),
           ("_s", "s"), ("_j", "J"), ("_w", "W"))
_SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12,
       "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_WHOLE = {"bytes": "B", "flops": "FLOP", "usd": "USD", "per_s": "1/s"}  # names that say nothing but their unit
_BARE = re.compile(r"count|fragmentation|ratio|share|.*_(count|ratio|share)|cost_per_.*")  # have none, whatever stands before
_EACH = re.compile(r"_(a_[a-z]+|per_token)$")  # what a figure is of one of: the unit stands before
_QUANTITY = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-zµ/][A-Za-z/]*|1/s)")


def is_number(value: object) -> bool:
    """True for a finite int or float; a bool is not a number here."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def plain(value: float, digits: int = 3) -> str:
    """`digits` significant digits, no exponent in the usual range, thousands separated by commas."""
    if value == 0:
        return "0"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    size = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))  # as it is written: 99.99 has as many digits as 100
    if size < -4 or size >= 15:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - size)}f}"


def unit_of(name: str) -> str:
    """The unit that a column or a dotted path of a summary says by its name: `ttft_s.p99` gives "s", else ""."""
    pieces = name.split(".")
    if _BARE.fullmatch(pieces[-1]):
        return ""
    for piece in reversed(pieces):
        piece = _EACH.sub("", piece)
        known = _WHOLE.get(piece) or ("B" if piece.startswith("bytes_") else "")
        known = known or next((unit for ending, unit in ENDINGS if piece.endswith(ending)), "")
        if known:
            return known
    return ""


def quantity_of(text: object) -> tuple[float, str] | None:
    """(value in SI, unit) of a quantity as configs write it: "4 MiB" gives 4194304 and "B"; None for anything else."""
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    number, name = float(match[1]), match[2]
    if name in _SECONDS:
        return number * _SECONDS[name], "s"
    if name in ("1/s", "/s", "req/s"):
        return number, "1/s"
    for unit in sorted(PREFIXES, key=len, reverse=True):
        if unit and name.endswith(unit) and name[: -len(unit)] in _SI:
            return number * _SI[name[: -len(unit)]], unit
    return None


def formulas_of(document: dict) -> dict[str, str]:
    """What is minimised or maximised, by the names of a study's objectives."""
    stated = document.get("objectives")
    pairs = [(o.get("name", o.get("minimise", o.get("maximise"))), o.get("minimise", o.get("maximise")))
             for o in (stated if isinstance(stated, list) else []) if isinstance(o, dict)]
    return {name: formula for name, formula in pairs if isinstance(name, str) and isinstance(formula, str)}


def of_columns(columns: Iterable[tuple[str, str, str]], document: dict) -> dict[str, str]:
    """Units of the columns (name, kind, detail) of a study's store by their names: a parameter brings its own or has it in the
    values that the study lists, of a measure the path says it, of an objective the measure behind it."""
    known = list(columns)
    paths = {name: detail for name, kind, detail in known if kind == "measure"}
    formulas, listed, found = formulas_of(document), _listed_units(document), {}
    for name, kind, detail in known:
        heading = name.partition("_")[2] if kind == "objective" else name
        path = {"measure": detail, "objective": paths.get(formulas.get(heading, heading), heading), "limit": ""}.get(kind)
        found[name] = detail or listed.get(name, "") if path is None else unit_of(path)
    return found


def _listed_units(document: dict) -> dict[str, str]:
    """By name, the unit of parameters whose values the study lists as quantities."""
    stated, found = document.get("parameters"), {}
    for parameter in stated if isinstance(stated, list) else []:
        values = parameter.get("values") if isinstance(parameter, dict) else None
        known = [quantity_of(value) for value in values] if isinstance(values, list) else []
        if known and None not in known and len({unit for _, unit in known}) == 1:
            path = parameter.get("path")
            path = path[0] if isinstance(path, list) and path else path
            found[str(parameter.get("name", str(path).rpartition(".")[2]))] = known[0][1]
    return found


def scaled(value: object, unit: str, digits: int = 3) -> tuple[str, str]:
    """(number, unit) with the prefix that suits the value: ("1.8", "GHz"), ("1.2", "M tokens"), ("12,345", "tokens")."""
    if not is_number(value):
        return MISSING, ""
    x = float(value)  # type: ignore[arg-type]
    # By the size as it is written: 999,999 is 1 M, not 1,000 k.
    factor, name = prefix(float(f"{abs(x):.{digits}g}"), unit) if x else (1.0, unit)
    return plain(value if factor == 1.0 and isinstance(value, int) else x * factor, digits), name


def prefix(size: float, unit: str) -> tuple[float, str]:
    """(factor, prefixed unit) that suits values as large as `size`."""
    return next(((factor, name) for least, factor, name in steps(unit) if size >= least), (1.0, unit))


def steps(unit: str) -> list[tuple[float, float, str]]:
    """(least size, factor, unit with its prefix), largest first; of a unit without prefixes "M tokens", of a rate "M/s"."""
    if unit in PREFIXES:
        return list(PREFIXES[unit])
    rate = unit.removeprefix("1") if unit.startswith("1/") else unit if unit.startswith("/") else ""
    return [(least, factor, unit if not name else name + rate if rate else f"{name} {unit}")
            for least, factor, name in PREFIXES[""]]


def scale_of(values: Iterable[float], unit: str) -> tuple[float, str]:
    """(factor, unit) in which the largest of the values reads well."""
    sizes = [abs(v) for v in values if is_number(v)]
    return prefix(max(sizes), unit) if sizes and max(sizes) > 0 else (1.0, unit)


def text(value: object, unit: str, digits: int = 3) -> str:
    """`scaled`, joined by a no-break space."""
    number, name = scaled(value, unit, digits)
    return f"{number}\N{NO-BREAK SPACE}{name}".rstrip() if name else number


def count(value: object) -> str:
    """How many: 98,765, 1.23 M."""
    return text(value, "")


def setting(value: object, unit: str) -> str:
    """A value that somebody chose, or that is compared with such: five digits at most, none that says nothing: "1.8 GHz"."""
    number, name = scaled(value, unit, 5)
    number = number.rstrip("0").rstrip(".") if "." in number and "e" not in number else number
    return f"{number}\N{NO-BREAK SPACE}{name}" if name else number


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
    known = quantity_of(value)
    return known[0] if known and known[1] == "s" else None


def duration_unit(largest: float) -> tuple[str, float]:
    """(unit, factor) in which a column of durations up to `largest` seconds reads well."""
    for least, name, factor in ((1.0, "s", 1.0), (1e-3, "ms", 1e3)):
        if largest >= least:
            return name, factor
    return "µs", 1e6


def log_ticks(low: float, high: float, dense: float, least: int = 4) -> list[float]:
    """Labels of a logarithmic axis from `low` to `high`: powers of ten, with 2 and 5 between them where the ends are less
    than a factor `dense` apart; on a short axis as many more as it takes for `least`, and even steps on the shortest."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    for parts in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        ticks = [float(f"{part}e{decade}") for decade in decades for part in parts]
        if high / low >= dense or (len(parts) > 1 and (high / low > 30 or sum(low <= tick <= high for tick in ticks) >= least)):
            return ticks
    low, high = 0.9 * low, 1.1 * high  # an axis is a little longer than its values
    rough = (high - low) / 7
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(part * decade for part in (1, 2, 5, 10) if part * decade >= 0.999 * rough)
    return [float(f"{k * step:.6g}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def bar_texts(values: Sequence[float], unit: str) -> list[str]:
    """`12.3 kJ · 4.5 %` for each value, in the unit that suits the largest; shares are of the sum."""
    total, (factor, name) = float(sum(values)), prefix(float(max(values)), unit)
    shares = [percent(float(v) / total if total else None) for v in values]
    return [f"{plain(float(v) * factor)}\N{NO-BREAK SPACE}{name} · {share}" for v, share in zip(values, shares)]
