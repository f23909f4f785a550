"""Reduces tables to what a plot can show, by rules that do not depend on chance.

- A series longer than its budget is cut into equal time buckets; each keeps its mean and, where a band can be read,
  its range.
- Of many requests every k-th is kept, k a power of two, plus the slowest ones, so that the tail stays in sight.
- Token histograms count every request.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from .units import is_number

SERIES_FIELDS = ("running", "waiting", "kv_used_bytes", "batch_tokens", "power_w")
MAX_LINES = 6  # replicas drawn one by one; more are drawn as their mean and range
RAW_POINTS = 3000  # of one panel, over all its lines
BUCKETS = 1000  # of one panel, over all its lines
BUSY = 400  # samples from which on a line needs its trend to be read
TREND_BUCKETS = 120

MAX_COMPLETED = 4000
MAX_OTHER = 1000  # of each other status
SLOWEST = 150  # by TTFT and by E2E each


@dataclass(frozen=True)
class Line:
    """One replica (or all of them) over time.

    `low` and `high` are there where samples were merged and a band is drawn; `trend`, the mean over longer spans, where
    many samples are drawn one by one.
    """

    label: str
    time_s: np.ndarray
    mean: dict[str, np.ndarray]
    low: dict[str, np.ndarray] | None = None
    high: dict[str, np.ndarray] | None = None
    trend: Line | None = None
    steps: bool = False  # samples hold until the next one


@dataclass(frozen=True)
class SeriesDigest:
    """Lines to draw; `note` says how they were reduced, if they were."""

    lines: tuple[Line, ...]
    replicas: int
    note: str = ""


def digest_series(table: pd.DataFrame) -> SeriesDigest:
    """The lines of series.csv."""
    # Replica ids are numbers as a rule; sort them as such, then any names.
    replicas = sorted(table["replica"].unique(), key=lambda r: (not r.isdigit(), int(r) if r.isdigit() else 0, r))
    if not replicas:
        return SeriesDigest((), 0)
    if len(replicas) > MAX_LINES:
        line, width = _bucketed("mean of all replicas", table, BUCKETS, (0.1, 0.9))
        return SeriesDigest((line,), len(replicas), f"{len(replicas)} replicas: line = mean over replicas and over "
                            f"{width:.3g} s, band = their 10th to 90th percentile.")
    if len(replicas) == 1:
        return _one_replica(f"replica {replicas[0]}", table)
    lines, widths = [], []
    for replica in replicas:
        rows = table[table["replica"] == replica]
        if len(rows) <= BUSY:
            lines.append(_raw(f"replica {replica}", rows))
        else:
            # Bands of several replicas would hide each other.
            line, width = _bucketed(f"replica {replica}", rows, BUCKETS // len(replicas))
            lines.append(Line(line.label, line.time_s, line.mean))
            widths.append(width)
    note = f"Lines = means over {max(widths):.3g} s." if widths else ""
    return SeriesDigest(tuple(lines), len(replicas), note)


def smoothed(label: str, table: pd.DataFrame) -> Line:
    """One line of a run that is laid beside others: means over `TREND_BUCKETS` equal spans, and over its replicas."""
    if table["replica"].nunique() == 1 and len(table) <= TREND_BUCKETS:
        return _raw(label, table)
    line, _ = _bucketed(label, table, TREND_BUCKETS)
    return Line(label, line.time_s, line.mean)


def _one_replica(label: str, rows: pd.DataFrame) -> SeriesDigest:
    if len(rows) <= BUSY:
        return SeriesDigest((_raw(label, rows),), 1)
    if len(rows) <= RAW_POINTS:
        trend, width = _bucketed(label, rows, TREND_BUCKETS)
        line = replace(_raw(label, rows), trend=trend)
        return SeriesDigest((line,), 1, f"Light line = samples, dark line = their mean over {width:.3g} s.")
    line, width = _bucketed(label, rows, BUCKETS)
    return SeriesDigest((line,), 1, f"Line = mean over {width:.3g} s, band = smallest to largest sample.")


def _raw(label: str, rows: pd.DataFrame) -> Line:
    rows = rows.sort_values("time_s", kind="stable")
    return Line(label, rows["time_s"].to_numpy(), {f: rows[f].to_numpy() for f in SERIES_FIELDS}, steps=True)


def _bucketed(label: str, rows: pd.DataFrame, buckets: int,
              band: tuple[float, float] = (0.0, 1.0)) -> tuple[Line, float]:
    """Mean and two quantiles in equal time buckets, and the buckets' width; empty buckets are left out."""
    time = rows["time_s"].to_numpy()
    first, span = time.min(), max(time.max() - time.min(), 1e-12)
    index = np.minimum((time - first) / span * buckets, buckets - 1).astype(np.int64)
    groups = rows[list(SERIES_FIELDS)].groupby(index, sort=True)
    mean, low, high = groups.mean(), groups.quantile(band[0]), groups.quantile(band[1])
    centre = first + (mean.index.to_numpy() + 0.5) * span / buckets

    def arrays(frame: pd.DataFrame) -> dict[str, np.ndarray]:
        return {f: frame[f].to_numpy() for f in SERIES_FIELDS}
    return Line(label, centre, arrays(mean), arrays(low), arrays(high)), span / buckets


@dataclass(frozen=True)
class Histogram:
    """Counts between `edges` (one more than counts); `log` where the edges grow by a factor."""

    edges: np.ndarray
    counts: np.ndarray
    log: bool
    mean: float
    median: float


@dataclass(frozen=True)
class Group:
    """Requests of one status. `ttft_s` and `e2e_s` are NaN where the request has none."""

    label: str
    total: int
    arrived_s: np.ndarray
    ttft_s: np.ndarray
    e2e_s: np.ndarray
    id: np.ndarray


@dataclass(frozen=True)
class RequestDigest:
    """What the Requests tab shows."""

    total: int
    groups: tuple[Group, ...]
    prompt: Histogram | None
    output: Histogram | None

    @property
    def sampled(self) -> bool:
        return any(len(group.id) < group.total for group in self.groups)


@dataclass
class _Sample:
    """Every k-th row of a stream, k doubling whenever more than `limit` rows are kept."""

    limit: int
    seen: int = 0
    stride: int = 1
    rows: pd.DataFrame | None = None

    def add(self, rows: pd.DataFrame) -> None:
        position = np.arange(self.seen, self.seen + len(rows))
        self.seen += len(rows)
        fresh = rows.assign(position=position)[position % self.stride == 0]
        self.rows = fresh if self.rows is None else pd.concat([self.rows, fresh])
        while len(self.rows) > self.limit:
            self.stride *= 2
            self.rows = self.rows[self.rows["position"] % self.stride == 0]


@dataclass
class RequestDigester:
    """Takes requests.csv piece by piece."""

    samples: dict[str, _Sample] = field(default_factory=dict)
    slowest: dict[str, pd.DataFrame] = field(default_factory=dict)
    prompt: pd.Series | None = None
    output: pd.Series | None = None
    total: int = 0

    def add(self, chunk: pd.DataFrame) -> None:
        rows = pd.DataFrame({
            "id": chunk["id"].fillna(""), "arrived_s": chunk["arrived_s"],
            "ttft_s": chunk["first_token_s"] - chunk["arrived_s"], "e2e_s": chunk["finished_s"] - chunk["arrived_s"],
        })
        status = chunk["status"].fillna("unknown")
        label = status.where(~((status == "completed") & (chunk["preemptions"] > 0)), "completed, was preempted")
        rows["label"] = label
        self.total += len(rows)
        for name in sorted(label.unique()):
            limit = MAX_COMPLETED if name == "completed" else MAX_OTHER
            self.samples.setdefault(name, _Sample(limit)).add(rows[label == name])
        for by in ("ttft_s", "e2e_s"):
            known = pd.concat([self.slowest[by], rows]) if by in self.slowest else rows
            self.slowest[by] = known.nlargest(SLOWEST, by, keep="first")
        self.prompt = _count(self.prompt, chunk["prompt_tokens"])
        self.output = _count(self.output, chunk["output_tokens"][status == "completed"])

    def finish(self) -> RequestDigest:
        slow = pd.concat(list(self.slowest.values())) if self.slowest else None
        groups = []
        # Completed ones first: they lie below the rest in the plot.
        for name in sorted(self.samples, key=lambda n: (not n.startswith("completed"), n)):
            sample = self.samples[name]
            rows = pd.concat([sample.rows.drop(columns="position"), slow[slow["label"] == name]])
            rows = rows.drop_duplicates("id").sort_values("arrived_s", kind="stable")
            groups.append(Group(name, sample.seen, rows["arrived_s"].to_numpy(), rows["ttft_s"].to_numpy(),
                                rows["e2e_s"].to_numpy(), rows["id"].to_numpy(dtype=object)))
        return RequestDigest(self.total, tuple(groups), _histogram(self.prompt), _histogram(self.output))


def _count(known: pd.Series | None, tokens: pd.Series) -> pd.Series:
    fresh = tokens.dropna().value_counts()
    return fresh if known is None else known.add(fresh, fill_value=0)


def _histogram(counts: pd.Series | None) -> Histogram | None:
    """About 40 bins; logarithmic where the largest value is far from the median."""
    if counts is None or counts.empty:
        return None
    counts = counts.sort_index()
    values, weight = counts.index.to_numpy(dtype=float), counts.to_numpy(dtype=float)
    median = values[np.searchsorted(np.cumsum(weight), weight.sum() / 2)]
    mean = float((values * weight).sum() / weight.sum())
    low, high = values[0], values[-1]
    log = bool(low > 0 and high > 6 * median)
    if log:
        edges = np.unique(np.ceil(np.geomspace(low, high + 1, 41)))
    else:
        step = _nice_step((high + 1 - low) / 40)
        edges = np.arange(np.floor(low / step) * step, high + step * 1.5, step)
        edges = edges[: np.searchsorted(edges, high, side="right") + 1]
    return Histogram(edges, np.histogram(values, bins=edges, weights=weight)[0], log, mean, float(median))


def _nice_step(width: float) -> float:
    """The least of 1, 2, 5, 10, 20, … that is no smaller than `width`."""
    power = 10.0 ** np.floor(np.log10(max(width, 1.0)))
    return float(next(power * m for m in (1, 2, 5, 10) if power * m >= width or m == 10))


@dataclass(frozen=True)
class EnergyDigest:
    """Busy time and energy by operator class (index: class) and by device (index: device, columns: class)."""

    by_class: pd.DataFrame
    busy_by_device: pd.DataFrame
    energy_by_device: pd.DataFrame

    @property
    def overlapping(self) -> bool:
        """Whether classes are what draws (compute, memory, idle), not what runs: these draw at the same time, so that their
        times are no parts of the device's. Energies always add up."""
        return {"compute", "memory"} <= set(self.by_class.index)


def with_idle_times(table: pd.DataFrame, span_s: object) -> pd.DataFrame:
    """energy.csv with the time of each device's idle row: what its other classes leave of the run. The file tells the energy
    of that row alone, which is what the device draws always."""
    idle = table["class"] == "idle"
    if not is_number(span_s) or not idle.any():
        return table
    busy = table[~idle].groupby("device")["busy_s"].sum()
    left = span_s - table["device"].map(busy).fillna(0.0)
    return table.assign(busy_s=table["busy_s"].where(~idle, left.clip(lower=0.0)))


def digest_energy(table: pd.DataFrame) -> EnergyDigest:
    """Sums of energy.csv: classes from the busiest down, idle last; devices in the order of the file."""
    by_class = table.groupby("class", sort=True)[["busy_s", "energy_j"]].sum()
    by_class = by_class.sort_values(["busy_s", "energy_j"], ascending=False, kind="stable")
    order = [c for c in by_class.index if c != "idle"] + [c for c in by_class.index if c == "idle"]
    devices = list(dict.fromkeys(table["device"]))

    def grid(column: str) -> pd.DataFrame:
        cells = table.pivot_table(index="device", columns="class", values=column, aggfunc="sum", fill_value=0.0)
        return cells.reindex(index=devices, columns=order, fill_value=0.0)

    if table.empty:
        return EnergyDigest(by_class, pd.DataFrame(), pd.DataFrame())
    return EnergyDigest(by_class.loc[order], grid("busy_s"), grid("energy_j"))


def is_skewed(values: np.ndarray) -> bool:
    """True where a logarithmic axis serves better."""
    values = values[np.isfinite(values) & (values > 0)]
    return bool(len(values) and values.max() > 20 * np.median(values))
