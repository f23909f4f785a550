"""The pages and the data behind them: what each address answers."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from urllib.parse import quote

from orrery_plot import units

from . import compare, reports, stores
from .errors import Refused
from .folder import Folder
from .guard import Guard
from .index import Index
from .jobs import Runner, Study
from .starts import Starts
from .watch import Watch
from .web import Answer, Request, as_json

ASSETS = Path(__file__).resolve().parent / "static"
COLOURS = Path(__file__).resolve().parents[1] / "orrery_report/colours.css"
KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
TEXTS = (".json", ".csv", ".txt", ".log", ".jsonl", ".md")
# Prefixes of every unit that pages show, for their scripts.
UNITS = {unit: units.steps(unit) for unit in sorted({*units.PREFIXES, *(unit for _, unit in units.ENDINGS), "/s"})}
MOST_SHOWN = 4 << 20  # of a file that is shown as text
MOST_COMPARED = 12
MOST_DRAWN = 6  # side by side in a report: more curves cannot be told apart


class Site:
    """One folder's explorer. `runner` is None where runs may not be started."""

    def __init__(self, folder: Folder, starts: Starts, runner: Runner | None, guard: Guard) -> None:
        self.folder, self.starts, self.runner, self.guard = folder, starts, runner, guard
        self.watch = Watch(folder.root)
        self.index = Index(folder.root, self.watch)
        self.pages = reports.Pages()
        self.static = {p.name: p.read_bytes() for p in (*ASSETS.iterdir(), COLOURS) if p.suffix in KINDS}
        self.gets = {"": self._home, "run": self._run, "study": self._study, "compare": self._compare, "plot": self._plot, "new": self._new,
                     "sweep": self._sweep,
                     "job": self._job, "files": self._file, "report": self._report, "static": self._static}
        self.data = {"index": self._index, "study": self._study_state, "files": self._files, "starts": self._starts,
                     "schema": self._schema, "config": self._config, "jobs": self._jobs, "compare": self._compared,
                     "asked": self._asked}
        self.posts = {"validate": self._validate, "jobs": self._begin, "cancel": self._cancel, "count": self._count,
                      "studies": self._begin_study, "resume": self._resume}

    def get(self, request: Request) -> Answer:
        """The page or the data of an address. Refused(404) where there is none."""
        area, _, rest = request.path[1:].partition("/")
        if area == "api" and rest in self.data:
            return as_json(self.data[rest](request))
        if area not in self.gets:
            raise Refused(404, "no such page")
        return self.gets[area](request, rest)

    def post(self, request: Request) -> Answer:
        """Does what is asked for. Refused(404) for what there is not, 403 where nothing may be started."""
        name = request.path.removeprefix("/api/")
        if not request.path.startswith("/api/") or name not in self.posts:
            raise Refused(404, "no such action")
        if self.runner is None:
            raise Refused(403, "this server shows only (--read-only)")
        return as_json(self.posts[name](request.body))

    def failure(self, status: int, reason: str) -> bytes:
        """A page that says why there is none."""
        body = f'<main class="lone"><h1>{status}</h1><p>{html.escape(reason)}</p><p><a href="/">All runs</a></p></main>'
        return self._shell("Not shown", body, "")

    def _shell(self, title: str, body: str, script: str, **facts: object) -> bytes:
        """A page of ours: the bar, a body, one script, and the facts that it needs."""
        facts.update(units=UNITS, token=self.guard.token, folder=str(self.folder.root), readonly=self.runner is None)
        if not script:
            facts = {}
        names = ("common", *script.split()) if script else ()
        scripts = "".join(f'<script src="/static/{name}.js" defer></script>' for name in names)
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} · Orrery</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/colours.css">
<link rel="stylesheet" href="/static/explorer.css">
<meta name="facts" content="{html.escape(json.dumps(facts))}">
{scripts}
</head>
<body>
{body}
</body>
</html>
""".encode()

    def _bar(self, crumbs: str, tools: str = "") -> str:
        return (f'<header class="bar"><a class="product" href="/">Orrery</a><span class="crumbs">{crumbs}</span>'
                f'<span class="tools">{tools}</span></header>')

    def _home(self, request: Request, rest: str) -> Answer:
        if rest:
            raise Refused(404, "no such page")
        new = '<a class="button" href="/plot">Plot</a>' + (
            "" if self.runner is None else '<a class="button" href="/new">New run</a>')
        body = self._bar(f'<span class="folder" title="{html.escape(str(self.folder.root))}">'
                         f'{html.escape(self.folder.root.name or "/")}</span>', f'<span id="fresh"></span>{new}')
        return Answer(self._shell(self.folder.root.name, body + (ASSETS / "home.html").read_text(), "table home"))

    def _run(self, request: Request, name: str) -> Answer:
        path = self.folder.path(name)
        if not path.is_dir():
            raise Refused(404, "no such run in this folder")
        what_if = "" if self.runner is None else \
            f'<a class="button" href="/new?from={quote("run:" + name, safe="")}">What if …</a>'
        tools = f'<button id="files" aria-expanded="false">Files</button>{what_if}'
        body = (self._bar(crumbs(name), tools) + '<section id="drawer" hidden></section>'
                f'<iframe title="Report of {html.escape(name)}" src="/report/{quote(name)}"></iframe>')
        # The window of Perfetto's viewer, which the page opens, is told what to show.
        return Answer(self._shell(name, body, "run", name=name), opener="same-origin-allow-popups")

    def _study(self, request: Request, name: str) -> Answer:
        if not self.folder.path(name).is_file():
            raise Refused(404, "no such study in this folder")
        tools = f'<a class="button" href="/files/{quote(name)}" download>Download</a>'
        frame = (f'<iframe class="below" title="Report of {html.escape(name)}" data-src="/report/{quote(name)}" hidden>'
                 "</iframe>")
        body = self._bar(crumbs(name), tools) + (ASSETS / "study.html").read_text() + frame
        return Answer(self._shell(name, body, "study", name=name))

    def _compare(self, request: Request, rest: str) -> Answer:
        runs, studies = request.every.get("run", []), request.every.get("study", [])
        query = "&".join(f"run={quote(n, safe='')}" for n in runs)
        of = "&".join(f"of={quote(n, safe='')}" for n in runs or studies)
        frame = (f'<iframe class="{"below" if runs else "alone"}" title="Report of all" src="/report/?{html.escape(of)}">'
                 "</iframe>") if len(runs or studies) <= MOST_DRAWN else ""
        body = self._bar("comparison") + ('<main id="compare" class="page"></main>' if runs else "") + frame
        return Answer(self._shell("Comparison", body, "compare" if runs else "", query=query, more=not frame))

    def _plot(self, request: Request, rest: str) -> Answer:
        if rest:
            raise Refused(404, "no such page")
        body = self._bar("all runs, any figure against any") + '<iframe title="All runs" src="/report/?all=1"></iframe>'
        return Answer(self._shell("All runs", body, ""))

    def _new(self, request: Request, rest: str) -> Answer:
        if self.runner is None:
            raise Refused(403, "this server shows only (--read-only)")
        body = self._bar("what if") + (ASSETS / "form.html").read_text()
        return Answer(self._shell("What if", body, "fields form", start=request.query.get("from", "")))

    def _sweep(self, request: Request, rest: str) -> Answer:
        """The page on which a study is started."""
        if self.runner is None:
            raise Refused(403, "this server shows only (--read-only)")
        body = self._bar("run a study") + (ASSETS / "sweep.html").read_text()
        return Answer(self._shell("Run a study", body, "sweep", start=request.query.get("from", "")))

    def _job(self, request: Request, rest: str) -> Answer:
        job = self._runner().get(number(rest))
        body = self._bar(f"{html.escape(job.name)}") + '<main id="job" class="page narrow"></main>'
        return Answer(self._shell(job.name, body, "job", id=job.number))

    def _runner(self) -> Runner:
        if self.runner is None:
            raise Refused(404, "this server shows only (--read-only)")
        return self.runner

    def _static(self, request: Request, name: str) -> Answer:
        if name == "plotly.js":
            script = self.pages.get(("plotly",), lambda: reports.plotly().decode())
            return Answer(script, KINDS[".js"], headers={"Cache-Control": "max-age=3600"})
        if name not in self.static:
            raise Refused(404, "no such page")
        return Answer(self.static[name], KINDS[Path(name).suffix])

    def _report(self, request: Request, name: str) -> Answer:
        """A page of `orrery report`, apart from ours: it may run its scripts, and reaches nothing of ours."""
        library = f"http://{request.host}/static/plotly.js"
        policy = ("default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'self'; "
                  f"script-src 'unsafe-inline' {library}; sandbox allow-scripts allow-downloads")
        if not name and "all" in request.query:
            try:
                return Answer(reports.all_runs(self.pages, self.folder.root, *self.index.runs(), library), policy=policy)
            except Refused as refused:
                return Answer(reports.reason_page(refused.reason), policy=policy)
        names = [name] if name else request.every.get("of", [])
        if not names or len(names) > MOST_COMPARED:
            raise Refused(404, "no such page")
        paths = [self.folder.path(n) for n in names]
        if not all(p.is_dir() or p.is_file() for p in paths):
            raise Refused(404, "no such run or study in this folder")
        try:
            page = reports.report(self.pages, paths, library, self.starts.command)
        except Refused as refused:
            if refused.status == 404:
                raise
            page = reports.reason_page(refused.reason)
        return Answer(page, policy=policy)

    def _file(self, request: Request, name: str) -> Answer:
        """A file as it is, to be kept; with `view` as plain text."""
        descriptor, state = self.folder.open(name)
        answer = Answer(kind="application/octet-stream", policy="default-src 'none'; sandbox", file=descriptor,
                        length=state.st_size)
        if "view" in request.query and name.endswith(TEXTS) and state.st_size <= MOST_SHOWN:
            answer.kind = "text/plain; charset=utf-8"
        else:
            answer.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name.rsplit('/', 1)[-1])}"
        return answer

    def _index(self, request: Request) -> object:
        self.index.look()
        answer = self.index.since(number(request.query.get("since", "0")))
        answer["jobs"] = [j.shown() for j in self.runner.jobs.values()] if self.runner else []
        return answer

    def _study_state(self, request: Request) -> object:
        name = request.query.get("path", "")
        path = self.folder.path(name)
        try:
            return self.watch.state(str(path.relative_to(self.folder.root)), self.starts.points(name))
        except stores.BrokenStore as error:
            raise Refused(422, str(error)) from None

    def _files(self, request: Request) -> object:
        name = request.query.get("path", "")
        return {"files": self.folder.files(name), "texts": TEXTS, "most": MOST_SHOWN}

    def _starts(self, request: Request) -> object:
        return {"starts": self.starts.list()}

    def _schema(self, request: Request) -> object:
        return self.starts.schema(request.query.get("system", ""))

    def _config(self, request: Request) -> object:
        config = self.starts.config(request.query.get("from", ""))
        return {"config": config, "name": self._free_name(request.query["from"].partition(":")[2].split("/")[-1], "run")}

    def _asked(self, request: Request) -> object:
        study = self.starts.study(request.query.get("from", ""))
        return {**study, "name": self._free_name(str(study["name"]), "study")}

    def _free_name(self, name: str, otherwise: str) -> str:
        """A name below runs/ that is not taken, made of another."""
        taken = {p.stem if p.suffix == ".sqlite" else p.name for p in (self.folder.root / "runs").glob("*")}
        stem = re.sub(r"[^A-Za-z0-9_+=-]+", "-", name).strip("-")[:50] or otherwise
        return next(f"{stem}-{i}" for i in range(1, len(taken) + 2) if f"{stem}-{i}" not in taken)

    def _jobs(self, request: Request) -> object:
        runner = self._runner()
        if "id" in request.query:
            job = runner.get(number(request.query["id"]))
            return {**job.shown(), "there": (self.folder.root / job.out).exists()}
        return {"jobs": [job.shown() for job in runner.jobs.values()]}

    def _compared(self, request: Request) -> object:
        names = request.every.get("run", [])
        if not 1 < len(names) <= MOST_COMPARED:
            raise Refused(422, f"expected two to {MOST_COMPARED} runs")
        return compare.side_by_side([(name, self.folder.path(name)) for name in names])

    def _validate(self, body: dict) -> object:
        return {"faults": self.starts.faults(config_of(body))}

    def _begin(self, body: dict) -> object:
        """Checks the config and puts it into the queue; its faults where it is not right."""
        config = config_of(body)
        faults = self.starts.faults(config)
        if faults:
            return {"faults": faults}
        base = body.get("base") if isinstance(body.get("base"), str) else ""
        job = self._runner().start(str(body.get("name", "")), config, base)
        return {"faults": [], "job": job.shown()}

    def _count(self, body: dict) -> object:
        faults, points = self.starts.study_faults(self.starts.asked(body))
        return {"faults": faults, "points": points}

    def _begin_study(self, body: dict) -> object:
        """Checks a study and puts it into the queue; its faults where it is not right."""
        study = self.starts.asked(body)
        faults, _ = self.starts.study_faults(study)
        if faults:
            return {"faults": faults}
        return {"faults": [], "job": self._runner().start(str(body.get("name", "")), study).shown()}

    def _resume(self, body: dict) -> object:
        store = str(body.get("path", ""))
        out = str(self.folder.path(store).relative_to(self.folder.root))
        before = self._runner().last(out)
        study = self.starts.to_go_on(store, before.work.threads if before is not None and isinstance(before.work, Study) else 1)
        return {"job": self._runner().go_on(out, study).shown()}

    def _cancel(self, body: dict) -> object:
        return self._runner().cancel(number(body.get("id"))).shown()


def config_of(body: dict) -> dict:
    config = body.get("config")
    if not isinstance(config, dict):
        raise Refused(400, "expected a config")
    return config


def number(value: object) -> int:
    """A whole number of at most nine digits; Refused(404) for all else."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused(404, "no such number")
    return int(text)


def crumbs(name: str) -> str:
    """A run's name, its folders paler."""
    folder, slash, last = name.rpartition("/")
    return f"<i>{html.escape(folder + slash)}</i><b>{html.escape(last)}</b>"
