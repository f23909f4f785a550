"""Colours, dashes, markers and hatches of every figure, HTML and PNG.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; the other marks tell the same apart in black and
white. Every list has the same order: the i-th thing has the i-th colour, dash, marker and hatch.
"""

ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
BLUE = "#0072B2"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"

INK = "#1f2933"
MUTED = "#5f6b7a"
GRID = "#e4e8ec"
IDLE = "#b4bcc6"

# Yellow is left out: a thin yellow line on white cannot be read.
SEQUENCE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
DASHES = ("solid", "dashed", "dotted", "dashdot", (0, (6, 1.5)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "D", "^", "v", "P")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----")

METRIC_COLOURS = {"ttft": BLUE, "tbt": ORANGE, "tpot": GREEN, "e2e": VERMILION, "queueing": PURPLE}
# The second mark of each curve, for print without colour: as plotly.js has it, and as matplotlib does.
METRIC_DASHES = {"ttft": "solid", "tbt": "6px,3px", "tpot": "2px,2px", "e2e": "9px,3px,2px,3px", "queueing": "13px,3px"}
METRIC_STYLES = {"ttft": "-", "tbt": "--", "tpot": ":", "e2e": "-.", "queueing": (0, (6, 1.5))}


def colour(i: int) -> str:
    """The colour of the i-th thing; they begin anew after the last."""
    return SEQUENCE[i % len(SEQUENCE)]


def dash(i: int) -> object:
    """The dashes of the i-th line; things of one colour differ in them."""
    return DASHES[(i + i // len(SEQUENCE)) % len(DASHES)]


def marker(i: int) -> str:
    """The marker of the i-th thing; things of one colour differ in it."""
    return MARKERS[(i + i // len(SEQUENCE)) % len(MARKERS)]


def hatch(i: int) -> str:
    """The hatch of the i-th area; areas of one colour differ in it."""
    return HATCHES[(i + i // len(SEQUENCE)) % len(HATCHES)]


def group_colour(label: str) -> str:
    """The colour of a request status."""
    if label == "completed":
        return BLUE
    if label.startswith("completed"):
        return ORANGE
    return VERMILION if label.startswith("rejected") else PURPLE
