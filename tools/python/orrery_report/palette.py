"""Colours, shared by the HTML and the PNG figures: Okabe and Ito's set, which colour-blind readers can tell apart."""

BLACK = "#000000"
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

METRIC_COLOURS = {"ttft": BLUE, "tbt": ORANGE, "tpot": GREEN, "e2e": VERMILION, "queueing": PURPLE}
# The second mark of each curve, for print without colour.
METRIC_DASHES = {"ttft": "solid", "tbt": "6px,3px", "tpot": "2px,2px", "e2e": "9px,3px,2px,3px", "queueing": "13px,3px"}
