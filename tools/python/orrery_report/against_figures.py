"""What a run's latencies look like beside a log's: distributions over each other, and request by request."""

from __future__ import annotations

import numpy as np

from orrery_plot import palette
from orrery_plot.names import METRIC_NAMES

from .figures import Figure, _axis, _layout, log_axis, numbers

METRICS = ("ttft", "tpot", "e2e")
MOST_STEPS = 600  # of a curve
MOST_PAIRS = 3_000  # of a metric, an even pick


def _values(requests: list, metric: str) -> np.ndarray:
    found = [value for one in requests if one is not None and (value := getattr(one, metric + "_s")) is not None and value > 0]
    return np.sort(np.asarray(found, dtype=float))


def _curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and the share of requests at or below them; an even pick of ranks, the first and the last among them."""
    ranks = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_STEPS)).round().astype(int))
    return values[ranks], (ranks + 1) / len(values)


def distributions(run: list, log: list) -> Figure | None:
    """CDFs of each latency: of the run a solid line, of the log a dashed one of the same colour. None: nothing to draw."""
    data, drawn = [], []
    for metric in METRICS:
        for requests, of, dash, width in ((run, "run", "solid", 2.2), (log, "log", "6px,3px", 1.8)):
            values = _values(requests, metric)
            if not len(values):
                continue
            short, meaning = METRIC_NAMES[metric]
            time, share = _curve(values)
            drawn.append(values)
            data.append({"type": "scatter", "mode": "lines", "name": f"{short}, {of}", "x": numbers(time), "y": numbers(share, 6),
                         "line": {"color": palette.METRIC_COLOURS[metric], "dash": dash, "width": width, "shape": "hv"},
                         "hovertemplate": f"<b>{short} of the {of}</b> %{{x:.4~g}} s<br>share %{{y:.3~g}}<extra>{meaning}</extra>"})
    if not data:
        return None
    layout = _layout(460, xaxis=_axis("time (s)", **log_axis(drawn)),
                     yaxis=_axis("fraction of requests at or below", range=[0, 1.005], dtick=0.2, exponentformat="none"))
    return {"data": data, "layout": layout}


def request_by_request(pairs: list[tuple]) -> Figure | None:
    """The run's latency of each request over the log's, with the line on which they are equal. None: no request matches."""
    data, drawn = [], []
    for metric in METRICS:
        both = np.asarray([(theirs, ours) for x, y in pairs if (ours := getattr(x, metric + "_s")) and
                           (theirs := getattr(y, metric + "_s")) and ours > 0 and theirs > 0], dtype=float)
        if not len(both):
            continue
        both = both[np.unique(np.linspace(0, len(both) - 1, min(len(both), MOST_PAIRS)).round().astype(int))]
        short, meaning = METRIC_NAMES[metric]
        drawn.append(both.ravel())
        data.append({"type": "scatter", "mode": "markers", "name": short, "x": numbers(both[:, 0]), "y": numbers(both[:, 1]),
                     "marker": {"color": palette.METRIC_COLOURS[metric], "size": 6, "opacity": 0.6},
                     "hovertemplate": f"<b>{short}</b> log %{{x:.4~g}} s, run %{{y:.4~g}} s<extra>{meaning}</extra>"})
    if not data:
        return None
    every = np.concatenate(drawn)
    ends = np.array([every.min() / 1.3, every.max() * 1.3])
    for name, factor, dash in (("equal", 1.0, "solid"), ("10 % more or less", 1.1, "dot"), ("", 0.9, "dot")):
        data.append({"type": "scatter", "mode": "lines", "name": name, "x": numbers(ends), "y": numbers(ends * factor), "hoverinfo": "skip",
                     "line": {"color": palette.MUTED, "width": 1.2, "dash": dash}, "showlegend": bool(name)})
    span = numbers(np.log10(ends))
    layout = _layout(520, xaxis=_axis("log (s)", **log_axis([ends]), range=span), yaxis=_axis("run (s)", **log_axis([ends]), range=span))
    return {"data": data, "layout": layout}
