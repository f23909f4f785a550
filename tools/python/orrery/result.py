"""What a run gives back."""

from __future__ import annotations

import html
import pathlib

from orrery import _orrery
from orrery.errors import ConfigError
from orrery.timeline import Timeline

_DISTRIBUTION = ("mean", "p50", "p90", "p95", "p99", "max")


def _figures(node: dict, path: str = ""):
    """Scalars of a summary by dotted path; distributions stay together."""
    for key, value in node.items():
        name = f"{path}{key}"
        if isinstance(value, dict) and "p50" not in value:
            yield from _figures(value, name + ".")
        elif not isinstance(value, list):
            yield name, value


def _text(value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Result:
    """Summary, tables and facts of a run. Tables are read when they are first asked for.

    `result["ttft_s.p99"]` is a figure of the summary by its dotted path.
    """

    def __init__(self, told: dict, config: dict, folder: pathlib.Path | None):
        self.summary: dict = told["summary"]
        self.config: dict = config
        self.events: int = told["events"]
        self.notes: list[str] = told["notes"]
        self.wall_s: float = told["wall_s"]
        self.folder = folder
        self._frames: dict = {}

    @property
    def status(self) -> str:
        """ "ok", or what went otherwise: "infeasible", "stalled"."""
        return self.summary.get("status", "ok")

    @property
    def ok(self) -> bool:
        """Whether the design fits and the run came to its end."""
        return self.status == "ok"

    @property
    def reason(self) -> str | None:
        """Why not."""
        return self.summary.get("reason")

    @property
    def tables(self) -> list[str]:
        """Names of the tables that the run wrote."""
        return sorted(path.stem for path in self.folder.glob("*.csv")) if self.folder else []

    def columns(self, name: str) -> dict:
        """A table as arrays of numpy by column. ConfigError for one that there is not."""
        if self.folder is None or name not in self.tables:
            hint = _orrery.name_hint(name, self.tables) if self.folder else "the run was told to keep no tables"
            raise ConfigError([("result", "", f"no table '{name}'", hint)])
        return _orrery.read_table(str(self.folder / f"{name}.csv"))

    def table(self, name: str):
        """A table as a pandas frame, the same one each time."""
        if name not in self._frames:
            import pandas

            self._frames[name] = pandas.DataFrame(self.columns(name), copy=False)
        return self._frames[name]

    @property
    def requests(self):
        """A row a request: times in s, tokens, replica, status."""
        return self.table("requests")

    @property
    def series(self):
        """Queues, KV cache and power over time."""
        return self.table("series")

    @property
    def energy(self):
        """Joules and busy seconds by device and class of operator."""
        return self.table("energy")

    @property
    def timeline_file(self) -> Timeline:
        """The run's timeline.pftrace, with all its frames. ConfigError where the run wrote none."""
        if "timeline.pftrace" not in self._frames:
            path = self.folder / "timeline.pftrace" if self.folder else None
            if path is None or not path.exists():
                hint = "run.timeline.enabled" if self.folder else "the run was told to keep no files"
                raise ConfigError([("result", "", "no timeline", hint)])
            self._frames["timeline.pftrace"] = Timeline(path)
        return self._frames["timeline.pftrace"]

    @property
    def timeline(self):
        """A row a slice of the timeline: process, track, name, start_s, duration_s, depth, id, parent, instant."""
        return self.timeline_file.slices

    @property
    def counters(self):
        """A row a value of the timeline's counters: process, track, unit, time_s, value."""
        return self.timeline_file.counters

    @property
    def flows(self):
        """A row an arrow of the timeline: flow, from, to (ids of slices)."""
        return self.timeline_file.flows

    def __getitem__(self, path: str):
        node = self.summary
        for key in path.split("."):
            if not isinstance(node, dict) or key not in node:
                known = list(node) if isinstance(node, dict) else []
                raise KeyError(f"no figure '{path}': '{key}' ({_orrery.name_hint(key, known)})")
            node = node[key]
        return node

    def __repr__(self) -> str:
        if not self.ok:
            return f"<Result {self.status}: {self.reason}>"
        shown = [f"{self.summary.get('simulated_s', 0):.6g} s simulated"] if "simulated_s" in self.summary else []
        for name, unit in (("ttft_s", "TTFT"), ("tbt_s", "TBT"), ("e2e_s", "E2E")):
            if isinstance(self.summary.get(name), dict) and "p99" in self.summary[name]:
                shown.append(f"P99 {unit} {_text(self.summary[name]['p99'])} s")
        return f"<Result ok: {', '.join(shown) or f'{len(self.summary)} figures'}>"

    def _repr_html_(self) -> str:
        title = f"<b>{html.escape(self.status)}</b>"
        if not self.ok:
            return f"{title}: {html.escape(str(self.reason))}"
        spread, rows = [], []
        for name, value in _figures(self.summary):
            label = f"<td style='text-align:left'><code>{html.escape(name)}</code></td>"
            if isinstance(value, dict):
                spread.append(f"<tr>{label}" + "".join(f"<td>{_text(value.get(k, ''))}</td>" for k in _DISTRIBUTION))
            else:
                rows.append(f"<tr>{label}<td>{html.escape(_text(value))}</td></tr>")
        head = "<tr><th></th>" + "".join(f"<th>{k}</th>" for k in _DISTRIBUTION) + "</tr>"
        return (f"{title}<table>{head}{'</tr>'.join(spread)}</tr></table>" if spread else title) + (
            f"<details><summary>{len(rows)} figures more</summary><table>{''.join(rows)}</table></details>"
        )
