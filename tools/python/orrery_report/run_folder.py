"""Reads a run folder (docs/explain/report.md lists its files) and checks what it reads.

A fault raises `InputError` with the file's name. manifest.json and summary.json must be there; a table that a system
does not write leaves its part of the report empty, with a note that says so. Tables are streamed where they can hold
millions of rows.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from orrery_plot import formats, units
from orrery_plot.digest import (EnergyDigest, RequestDigest, RequestDigester, SeriesDigest, digest_energy, digest_series,
                                with_idle_times)
from orrery_plot.names import METRICS

from .errors import InputError
from .tables import MOST_ROWS, Table, from_frame

CHUNK_ROWS = 200_000
MAX_QUANTILES = 4000

DISTRIBUTION_COLUMNS = ("metric", "quantile", "value_s")
SERIES_COLUMNS = ("time_s", "replica", "running", "waiting", "kv_used_bytes", "batch_tokens", "power_w")
ENERGY_COLUMNS = ("device", "class", "energy_j", "busy_s")
REQUEST_COLUMNS = ("id", "arrived_s", "admitted_s", "first_token_s", "finished_s", "prompt_tokens", "output_tokens",
                   "cached_tokens", "preemptions", "replica", "status")
TEXT_COLUMNS = {"metric", "device", "class", "status", "id", "replica"}


@dataclass(frozen=True)
class Cdf:
    """One metric's distribution: `value_s[i]` is its quantile `quantile[i]`."""

    quantile: np.ndarray
    value_s: np.ndarray


@dataclass(frozen=True)
class Run:
    """All that the report shows of one run."""

    folder: Path
    manifest: dict
    summary: dict
    cdfs: dict[str, Cdf]
    series: SeriesDigest | None
    energy: EnergyDigest | None
    requests: RequestDigest | None
    absent: tuple[str, ...]
    tables: tuple[Table, ...] = ()  # what only other systems write
    timeline_bytes: int = 0

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def infeasible(self) -> bool:
        return self.summary["status"] == "infeasible"

    @property
    def serving(self) -> bool:
        """Whether it should have the tables of a serving run."""
        return self.config.get("system", "serving") == "serving"

    @property
    def device_time(self) -> tuple[float, float] | None:
        """(busy, all) of the devices' time in seconds, as the summary tells it."""
        span, share = self.summary.get("simulated_s"), self.summary.get("utilisation")
        share = share.get("busy") if isinstance(share, dict) else None
        if self.energy is None or not (units.is_number(span) and units.is_number(share)):
            return None
        whole = span * max(1, len(self.energy.busy_by_device))
        return share * whole, whole

    @property
    def config(self) -> dict:
        return self.manifest["config"]


def heads(folder: Path) -> tuple[dict, dict]:
    """Manifest, with its config, and summary, with its status, of the run in `folder`; raises InputError if it is none."""
    if not folder.is_dir():
        raise InputError(folder, "a run folder or a study's store", "a file" if folder.exists() else "nothing of that name")
    manifest = _json_object(folder / "manifest.json")
    if not isinstance(manifest.get("config"), dict):
        raise InputError(folder / "manifest.json", 'an object under "config"', _got(manifest, "config"))
    if other := formats.unreadable(manifest):
        raise InputError(folder / "manifest.json", f"a run of format '{formats.RUN_FORMAT}'", other)
    summary = _json_object(folder / "summary.json")
    if not isinstance(summary.get("status"), str):
        raise InputError(folder / "summary.json", 'a text under "status"', _got(summary, "status"))
    return manifest, summary


def load(folder: Path) -> Run:
    """The run in `folder`; raises InputError if it is none."""
    manifest, summary = heads(folder)
    if summary["status"] == "infeasible":
        return Run(folder, manifest, summary, {}, None, None, None, ())
    serving = manifest["config"].get("system", "serving") == "serving"
    known = {name: read(folder / name) for name, (columns, read) in READERS.items()
             if (folder / name).is_file() and (serving or _has(folder / name, columns))}
    others = sorted(file for file in folder.glob("*.csv") if file.is_file() and file.name not in known)
    timeline = folder / "timeline.pftrace"
    ledger = known.get("energy.csv")
    energy = None if ledger is None else digest_energy(with_idle_times(ledger, summary.get("simulated_s")))
    return Run(folder, manifest, summary, known.get("distributions.csv", {}), known.get("series.csv"),
               energy, known.get("requests.csv"),
               tuple(name for name in READERS if name not in known) if serving else (),
               tuple(_table(file) for file in others), timeline.stat().st_size if timeline.is_file() else 0)


def _got(document: dict, key: str) -> str:
    return f"{json.dumps(document[key])[:60]}" if key in document else "none"


def _json_object(file: Path) -> dict:
    """The JSON object in `file`."""
    if file.exists() and not file.is_file():  # a pipe would make us wait for ever
        raise InputError(file, "a file", "something else")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(file, "a file", "none") from None
    except OSError as error:
        raise InputError(file, "a readable file", str(error.strerror)) from None
    except UnicodeDecodeError as error:
        raise InputError(file, "UTF-8 text", f"byte {error.start} that is not") from None
    except json.JSONDecodeError as error:
        raise InputError(file, "JSON", f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    if not isinstance(document, dict):
        raise InputError(file, "a JSON object", type(document).__name__)
    return document


def _has(file: Path, columns: tuple[str, ...]) -> bool:
    """Whether a CSV file has these columns: another system may write one of the same name with others."""
    with _faults(file, "a CSV table"):
        header = list(pd.read_csv(file, nrows=0).columns)
    return all(name in header for name in columns)


def _table(file: Path) -> Table:
    """Any CSV file; of many rows every k-th, k a power of two."""
    kept, total, stride = [], 0, 1
    with _faults(file, "a CSV table"):
        with pd.read_csv(file, dtype=str, chunksize=CHUNK_ROWS, keep_default_na=False) as chunks:
            for chunk in chunks:
                if len(chunk) and not isinstance(chunk.index, pd.RangeIndex):
                    raise InputError(file, f"{len(chunk.columns)} fields a row", "more")
                place = np.arange(total, total + len(chunk))
                total += len(chunk)
                kept.append(chunk[place % stride == 0].fillna("").set_axis(place[place % stride == 0]))
                while sum(map(len, kept)) > MOST_ROWS:
                    stride *= 2
                    kept = [rows[rows.index % stride == 0] for rows in kept]
    return from_frame(file.stem, pd.concat(kept), total)


def _chunks(file: Path, columns: tuple[str, ...]) -> Iterator[pd.DataFrame]:
    """The rows of a CSV file in pieces, its columns checked by name and its numbers parsed as numbers."""
    dtype = {name: "string" for name in columns if name in TEXT_COLUMNS}
    line = 2
    with _faults(file, f"columns {','.join(columns)}"):
        header = list(pd.read_csv(file, nrows=0).columns)
        if any(name not in header for name in columns):
            raise InputError(file, f"columns {','.join(columns)}", ",".join(header))
        with pd.read_csv(file, dtype=dtype, chunksize=CHUNK_ROWS, keep_default_na=False, na_values=[""],
                         low_memory=False) as chunks:
            for chunk in chunks:
                if len(chunk) and not isinstance(chunk.index, pd.RangeIndex):
                    # pandas takes a surplus field in the first row for an index.
                    raise InputError(f"{file}:{line}", f"{len(header)} fields", str(len(header) + chunk.index.nlevels))
                chunk = chunk[list(columns)].copy()
                for name in columns:
                    if name not in TEXT_COLUMNS:
                        chunk[name] = _numbers(file, chunk[name], line)
                yield chunk
                line += len(chunk)


@contextlib.contextmanager
def _faults(file: Path, expected: str) -> Iterator[None]:
    """What reading a CSV file may raise, as InputError."""
    try:
        yield
    except pd.errors.EmptyDataError:
        raise InputError(file, expected, "an empty file") from None
    except pd.errors.ParserError as error:
        surplus = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if surplus:
            raise InputError(f"{file}:{surplus[2]}", f"{surplus[1]} fields", surplus[3]) from None
        raise InputError(file, "a CSV table", str(error)) from None
    except UnicodeDecodeError as error:
        raise InputError(file, "UTF-8 text", f"byte {error.start} that is not") from None
    except OSError as error:
        raise InputError(file, "a readable file", str(error.strerror)) from None


def _numbers(file: Path, column: pd.Series, first_line: int) -> pd.Series:
    """`column` as floats; an empty field is NaN, a text or an infinity a fault."""
    values = pd.to_numeric(column, errors="coerce").astype("float64")
    bad = (values.isna() & column.notna()) | np.isinf(values)
    if bad.any():
        at = int(np.flatnonzero(bad.to_numpy())[0])
        raise InputError(f"{file}:{first_line + at}", f"a number under {column.name}", repr(str(column.iloc[at])))
    return values


def _whole(file: Path, columns: tuple[str, ...], required: tuple[str, ...]) -> pd.DataFrame:
    """A table at once; a field under `required` may not be empty."""
    table = pd.concat(list(_chunks(file, columns)), ignore_index=True)
    for name in required:
        empty = np.flatnonzero(table[name].isna().to_numpy())
        if len(empty):
            raise InputError(f"{file}:{int(empty[0]) + 2}", f"a value under {name}", "an empty field")
    return table


def _distributions(file: Path) -> dict[str, Cdf]:
    """The CDFs by metric, in the order of METRICS; a metric without rows is left out."""
    table = _whole(file, DISTRIBUTION_COLUMNS, ("metric", "quantile"))
    cdfs = {}
    for metric in METRICS:
        rows = table[(table["metric"] == metric) & table["value_s"].notna()]
        quantile, value = rows["quantile"].to_numpy(), rows["value_s"].to_numpy()
        if not len(rows):
            continue
        if quantile.min() < 0 or quantile.max() > 1 or (np.diff(quantile) < 0).any():
            raise InputError(file, f"quantiles of {metric} that ascend from 0 to 1", "others")
        if (np.diff(value) < 0).any():
            raise InputError(file, f"values of {metric} that ascend", "a smaller one after a larger one")
        if len(rows) > MAX_QUANTILES:
            keep = np.unique(np.linspace(0, len(rows) - 1, MAX_QUANTILES).round().astype(int))
            quantile, value = quantile[keep], value[keep]
        cdfs[metric] = Cdf(quantile, value)
    return cdfs


def _series(file: Path) -> SeriesDigest:
    return digest_series(_whole(file, SERIES_COLUMNS, ("time_s", "replica")))


def _energy(file: Path) -> pd.DataFrame:
    return _whole(file, ENERGY_COLUMNS, ENERGY_COLUMNS)


def _requests(file: Path) -> RequestDigest:
    digester = RequestDigester()
    for chunk in _chunks(file, REQUEST_COLUMNS):
        digester.add(chunk)
    return digester.finish()


READERS = {"distributions.csv": (DISTRIBUTION_COLUMNS, _distributions), "series.csv": (SERIES_COLUMNS, _series),
           "energy.csv": (ENERGY_COLUMNS, _energy), "requests.csv": (REQUEST_COLUMNS, _requests)}
