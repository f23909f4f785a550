"""The report of a network run: its jobs, its flows, the busiest links, and how many links were how busy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from orrery_plot import palette, units

from . import topology
from .errors import InputError
from .markup import Sheet, escape, table
from .run_folder import Run

BUSIEST = 20
BINS = 10
LINK_COLUMNS = ("link", "from", "to", "bandwidth_bytes_per_s", "carried_bytes", "utilisation")


def is_network(run: Run) -> bool:
    return run.config.get("system") == "network"


def headline(run: Run) -> str:
    """Topology, routing and workload in one line."""
    machine = _object(_object(run.config, "machine"), "network")
    workload = _object(run.config, "workload")
    parts = [str(_object(machine, "topology").get("policy", "")), str(_object(machine, "routing").get("policy", ""))]
    for key, name in (("jobs", "jobs"), ("flows", "flows"), ("events", "events")):
        if isinstance(workload.get(key), list) and workload[key]:
            parts.append(f"{len(workload[key])} {name if len(workload[key]) > 1 else name[:-1]}")
    if isinstance(workload.get("traffic"), dict):
        parts.append(f"{workload['traffic'].get('pattern')} traffic")
    return " · ".join(part.replace("_", " ") for part in parts if part)


def overview(run: Run, sheet: Sheet) -> str:
    """The one page of the run, as HTML: its network first."""
    s = run.summary
    links = _read_links(run.folder / "links.csv")
    reason = f'<p class="lead">{escape(s["reason"])}</p>' if isinstance(s.get("reason"), str) else ""
    facts = [["simulated", units.text(s.get("simulated_s"), "s")], ["makespan", units.text(s.get("makespan_s"), "s")],
             ["rerouted messages", units.text(s.get("rerouted"), "")],
             ["messages without a path", units.text(s.get("without_path"), "")]]
    return reason + _picture(run, links, sheet) + _table("Run", (), facts) + _jobs(s) + _flows(s) + _links(links)


def _picture(run: Run, links: pd.DataFrame | None, sheet: Sheet) -> str:
    drawn = topology.topology(links, run.config) if links is not None and len(links) else None
    if drawn is None:
        return ""
    caption = "Each cable shows its busier direction, averaged over the run. Hover over a cable or a node for its name."
    return sheet.figure("topology", "Network and link utilisation", caption, drawn)


def _table(title: str, head: tuple[str, ...], rows: list[list[str]]) -> str:
    return f"<h3>{escape(title)}</h3>{table(head, rows)}"


def _object(document: object, key: str) -> dict:
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def _jobs(summary: dict) -> str:
    rows = []
    for name, job in _object(_object(summary, "jobs"), "by_name").items():
        times = _object(job, "time_s")
        rows.append([name, str(job.get("collective")), str(job.get("algorithm")), str(job.get("mode")),
                     units.text(job.get("ranks"), ""), units.text(job.get("bytes"), "B"),
                     units.text(job.get("repetitions"), "")]
                    + [units.text(times.get(q), "s") for q in ("mean", "p50", "p99", "max")]
                    + [units.text(job.get(f"{kind}bw_bytes_per_s"), "B/s") for kind in ("alg", "bus")])
    head = ("job", "collective", "algorithm", "mode", "ranks", "bytes", "repetitions", "mean", "p50", "p99", "max",
            "algbw", "busbw")
    return _table("Collectives", head, rows) if rows else ""


def _flows(summary: dict) -> str:
    flows = _object(summary, "flows")
    if not flows:
        return ""
    rows = [[label] + [units.text(_object(flows, key).get(q), unit) for q in ("mean", "p50", "p90", "p99", "max")]
            for label, key, unit in (("time", "time_s", "s"), ("slowdown", "slowdown", ""))]
    arrived = f"{units.text(flows.get('completed'), '')} of {units.text(flows.get('count'), '')} arrived"
    return _table(f"Flows: {arrived}", ("", "mean", "p50", "p90", "p99", "max"), rows)


def _read_links(file: Path) -> pd.DataFrame | None:
    """links.csv; nothing where the run has none."""
    if not file.exists():
        return None
    try:
        links = pd.read_csv(file, usecols=list(LINK_COLUMNS), keep_default_na=False,
                            dtype={"link": "string", "from": "string", "to": "string"})
        links["utilisation"] = links["utilisation"].astype("float64")
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(file, f"columns {','.join(LINK_COLUMNS)}", str(error)) from None
    return links


def _links(links: pd.DataFrame | None) -> str:
    if links is None:
        return ""
    if not len(links):
        return '<p class="note">The time comes from a closed form, so there are no figures for links.</p>'
    busiest = links[links["utilisation"] > 0].sort_values("utilisation", ascending=False, kind="stable").head(BUSIEST)
    rows = [[row.link, units.percent(float(row.utilisation)), units.text(float(row.carried_bytes), "B"),
             units.text(float(row.bandwidth_bytes_per_s), "B/s")] for row in busiest.itertuples()]
    out = _table(f"Busiest links of {units.count(len(links))}", ("link", "utilisation", "carried", "bandwidth"), rows)
    return out + _histogram(links["utilisation"].to_numpy())


def _histogram(share: np.ndarray) -> str:
    """How many links were how busy, as bars of text."""
    used = share > 0
    counts = np.histogram(np.clip(share[used], 0, 1), bins=BINS, range=(0, 1))[0]
    labels = ["unused"] + [f"{100 * i // BINS}–{100 * (i + 1) // BINS}\N{NO-BREAK SPACE}%" for i in range(BINS)]
    values = [int((~used).sum()), *(int(c) for c in counts)]
    most = max(values)
    bars = "".join(f'<div class="measure"><span>{escape(label)}</span><div class="stack"><span style="width:'
                   f'{100 * value / most:.4g}%;background:{palette.BLUE}"></span></div><b>{units.count(value)}</b></div>'
                   for label, value in zip(labels, values))
    return f"<h3>Link utilisation</h3>{bars}"
