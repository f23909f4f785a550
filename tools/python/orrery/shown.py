"""How objects print themselves: short texts and small tables."""

from __future__ import annotations

import html
import importlib
import typing

_STEPS = (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")
_BINARY = (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")
_SMALL = (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")


def number(value: float, unit: str = "") -> str:
    """3.12e14 FLOP/s as "312 TFLOP/s"."""
    size, prefix = next((step for step in _STEPS if abs(value) >= step[0]), (1.0, ""))
    return f"{value / size:.4g} {prefix}{unit}".strip()


def size(value: float) -> str:
    """Bytes in powers of 1024."""
    step, unit = next((step for step in _BINARY if abs(value) >= step[0]), (1, "B"))
    return f"{value / step:.4g} {unit}"


def time(seconds: float) -> str:
    """0.0012 as "1.2 ms"."""
    step, unit = next((step for step in _SMALL if abs(seconds) >= step[0]), (1e-9, "ns"))
    return f"{seconds / step:.4g} {unit}"


def _units() -> typing.Any:
    return importlib.import_module("orrery_plot.units")  # those of pages and plots, loaded when something is shown


def unit(name: str) -> str:
    """The unit that a name says: `ttft_s.p99` "s", `requests` ""."""
    return _units().unit_of(name)


def figure(name: str, value) -> str:
    """A figure of a summary, or a cell of a column, in the unit that its name says: `ttft_s.p99` "12.3 ms"."""
    units = _units()
    if value is None or (isinstance(value, float) and value != value):
        return units.MISSING
    if isinstance(value, bool) or not hasattr(value, "__float__") or not units.is_number(float(value)):
        return str(value)
    plain = value.item() if hasattr(value, "item") else value
    return units.text(plain, unit(name)).replace("\N{NO-BREAK SPACE}", " ")


def frame(rows, index: bool = True) -> str:
    """HTML of a pandas frame, numbers in units."""
    readable = rows.copy()
    for name in readable.columns:
        readable[name] = [figure(str(name), value) for value in readable[name]]
    return readable.to_html(border=0, index=index)


def table(title: str, doc: str, rows) -> str:
    """HTML of a title, a line, and rows of two cells."""
    cells = "".join(
        f"<tr><td style='text-align:left'>{html.escape(str(name))}</td>"
        f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<b>{html.escape(title)}</b> {html.escape(doc)}<table>{cells}</table>"
