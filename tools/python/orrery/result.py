"""The result of a run."""

from __future__ import annotations

import html
import pathlib

from orrery import _orrery, answers, shown
from orrery.errors import ConfigError
from orrery.keywords import answered
from orrery.timeline import Timeline

_DISTRIBUTION = ("mean", "p50", "p90", "p95", "p99", "max")
_NOTHING = ("infeasible", "unfinished")  # what came out is no figure


@answered
class Result:
    """Summary, tables and facts of a run. A table is read when it is first asked for.

    `result["ttft_s.p99"]` is a figure of the summary, by its dotted path.
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
        """ "ok", "unfinished" (no request was served), "infeasible" or "stalled"."""
        return self.summary.get("status", "ok")

    @property
    def ok(self) -> bool:
        """Whether the design fits and the run ended normally."""
        return self.status == "ok"

    @property
    def reason(self) -> str | None:
        """Why the run is not ok."""
        return self.summary.get("reason")

    @property
    def tables(self) -> list[str]:
        """Names of the tables that the run wrote."""
        return sorted(path.stem for path in self.folder.glob("*.csv")) if self.folder else []

    def columns(self, name: str) -> dict:
        """A table as a dict of numpy arrays by column. Raises ConfigError if the run wrote no such table."""
        if self.folder is None or name not in self.tables:
            hint = _orrery.name_hint(name, self.tables) if self.folder else "the run was told to keep no tables"
            raise ConfigError([("result", "", f"no table '{name}'", hint)])
        return _orrery.read_table(str(self.folder / f"{name}.csv"))

    def table(self, name: str):
        """A table as a pandas frame, the same object each time."""
        if name not in self._frames:
            import pandas

            self._frames[name] = pandas.DataFrame(self.columns(name), copy=False)
        return self._frames[name]

    @property
    def requests(self):
        """One row per request: times in s, tokens, replica, status."""
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
        """The run's timeline.pftrace, with all its frames. Raises ConfigError if the run wrote none."""
        if "timeline.pftrace" not in self._frames:
            path = self.folder / "timeline.pftrace" if self.folder else None
            if path is None or not path.exists():
                hint = "run.timeline.enabled" if self.folder else "the run was told to keep no files"
                raise ConfigError([("result", "", "no timeline", hint)])
            self._frames["timeline.pftrace"] = Timeline(path)
        return self._frames["timeline.pftrace"]

    @property
    def timeline(self):
        """One row per slice of the timeline: process, track, name, start_s, duration_s, depth, id, parent, instant."""
        return self.timeline_file.slices

    @property
    def counters(self):
        """One row per value of the timeline's counters: process, track, unit, time_s, value."""
        return self.timeline_file.counters

    @property
    def flows(self):
        """One row per arrow of the timeline: flow, from, to (ids of slices)."""
        return self.timeline_file.flows

    def __getitem__(self, path: str):
        node = above = self.summary
        for key in path.split("."):
            if node is None:
                break
            if not isinstance(node, dict) or key not in node:
                if not self.ok:
                    raise KeyError(f"no figure '{path}': the run is {self.status}, {self.reason}")
                hint = _orrery.name_hint(key, list(node) if isinstance(node, dict) else [])
                raise KeyError(f"no figure '{path}': '{key}'" + (f" ({hint})" if hint else ""))
            node, above = node[key], node
        # Of a distribution nothing but a value is of use; other figures may be null, which says something.
        if node is None and (not self.ok or "p50" in above):
            raise KeyError(f"nobody has '{path}': {self.reason or 'no request of this run has one'}")
        return node

    def _told(self) -> str:
        """The result in a few words or, if the run is not ok, the reason."""
        words = "" if self.status in _NOTHING else ", ".join(answers.words(self.summary, self.config.get("system", "")))
        return "; ".join(filter(None, (words, self.reason))) or f"{len(self.summary)} figures"

    def __repr__(self) -> str:
        return f"<Result {self.status}: {self._told()}>"

    def _repr_html_(self) -> str:
        title = f"<b>{html.escape(self.status)}</b>: {html.escape(self._told())}"
        if self.status in _NOTHING:
            return title
        spread, rows = [], []
        for name, value in answers.figures(self.summary):
            label = f"<td style='text-align:left'><code>{html.escape(name)}</code></td>"
            if isinstance(value, dict):
                cells = (html.escape(shown.figure(name, value[key])) if key in value else "" for key in _DISTRIBUTION)
                spread.append(f"<tr>{label}" + "".join(f"<td>{cell}</td>" for cell in cells))
            elif name not in ("status", "reason"):
                rows.append(f"<tr>{label}<td>{html.escape(shown.figure(name, value))}</td></tr>")
        head = "<tr><th></th>" + "".join(f"<th>{k}</th>" for k in _DISTRIBUTION) + "</tr>"
        return (f"{title}<table>{head}{'</tr>'.join(spread)}</tr></table>" if spread else title) + (
            f"<details><summary>{len(rows)} figures more</summary><table>{''.join(rows)}</table></details>"
        )
