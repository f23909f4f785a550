"""Where a what-if run or a study begins, and whether it is right: both asked of the `orrery` command.

A start is named by a text: `run:NAME` (a run folder), `file:NAME` (a config or a study below the served folder),
`shipped:NAME` (a study that comes with Orrery), `point:STORE#ID` (a point of a store).
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from . import facts, stores
from .errors import Refused
from .folder import Folder
from .jobs import Study

LIMIT_S = 60.0  # of one call of the command
AT_ONCE = 4  # calls
MOST_FILES = 500
MODES = ("sweep", "search")
MOST_LINES = 10_000_000  # of points that are counted
MOST_SET = 50  # changes of a study
CHANGE = re.compile(r"[A-Za-z_][\w.*-]{0,300}=[^\0\r\n]{0,2000}")


class Starts:
    """Configs to begin with, the schema, and the check of a config."""

    def __init__(self, command: Path, folder: Folder, studies: Path) -> None:
        self.command, self.folder, self.studies = command, folder, studies
        self.slots = threading.BoundedSemaphore(AT_ONCE)
        self.lock = threading.Lock()
        self.systems: dict[str, dict] | None = None
        self.counted: dict[tuple, int | None] = {}
        self.number = 0

    def call(self, *arguments: str) -> subprocess.CompletedProcess:
        """Runs the command in the served folder. Refused(503) if it takes too long."""
        with self.slots:
            try:
                return subprocess.run([str(self.command), *arguments], cwd=self.folder.root, capture_output=True,
                                      text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                                      check=False)
            except subprocess.TimeoutExpired:
                raise Refused(503, f"`orrery {arguments[0]}` took more than {LIMIT_S:.0f} s") from None
            except OSError as error:
                raise Refused(500, f"`orrery` cannot be started: {error.strerror}") from None

    def count(self, *arguments: str) -> tuple[int, int, str]:
        """Runs the command for the lines that it prints: exit code, how many there are, stderr. Lines beyond MOST_LINES are not
        waited for. Refused as call()."""
        with self.slots, tempfile.TemporaryFile() as told:
            try:
                process = subprocess.Popen([str(self.command), *arguments], cwd=self.folder.root, stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=told)
            except OSError as error:
                raise Refused(500, f"`orrery` cannot be started: {error.strerror}") from None
            late = threading.Timer(LIMIT_S, process.kill)
            late.start()
            lines = 0
            with process:
                while (piece := process.stdout.read1(1 << 16)) and lines <= MOST_LINES:
                    lines += piece.count(b"\n")
                late.cancel()
                if lines > MOST_LINES:
                    process.kill()
            if lines <= MOST_LINES and process.returncode < 0:
                raise Refused(503, f"`orrery {arguments[0]}` took more than {LIMIT_S:.0f} s")
            told.seek(0)
            return (0 if lines > MOST_LINES else process.returncode), lines, told.read(1 << 16).decode("utf-8", "replace")

    def schema(self, system: str) -> dict:
        """The JSON Schema of a system's configs."""
        with self.lock:
            if self.systems is None:
                answer = self.call("schema")
                if answer.returncode != 0:
                    raise Refused(500, "`orrery schema` failed: " + answer.stderr[:300])
                branches = [b for b in json.loads(answer.stdout)["anyOf"] if "system" in b["properties"]]
                self.systems = {b["properties"]["system"].get("const"): b for b in branches}
        if system not in self.systems:
            raise Refused(404, f"no system '{system}'")
        return self.systems[system]

    def list(self) -> list[dict]:
        """Files to begin with: of the served folder first, then those that ship."""
        found = []
        for folder, folders, files in os.walk(self.folder.root):
            folders[:] = sorted(f for f in folders if not f.startswith("."))
            if "manifest.json" in files:
                folders.clear()
                continue
            for file in sorted(files):
                if file.endswith(".json") and not file.startswith(".") and len(found) < MOST_FILES:
                    path = Path(folder) / file
                    found.append(_start(f"file:{path.relative_to(self.folder.root)}", path))
        found += [_start(f"shipped:{p.stem}", p) for p in sorted(self.studies.glob("*.json"))]
        return [start for start in found if start]

    def config(self, name: str) -> dict:
        """The config that a start stands for, every default filled in. Refused(404, 422) with the reason."""
        kind, _, rest = name.partition(":")
        if kind == "run":
            return self._of_run(rest)
        if kind == "point":
            store, _, point = rest.rpartition("#")
            return self._of_point(store, point)
        if kind == "shipped" and rest in {p.stem for p in self.studies.glob("*.json")}:
            return self._of_file(self.studies / f"{rest}.json")
        if kind == "file":
            return self._of_file(self.folder.path(rest))
        raise Refused(404, "no such start")

    def study(self, name: str) -> dict:
        """What the page of a study that is to be run asks for. Refused(404, 422) for what is no study."""
        path = self.study_path(name)
        document = facts.read_json(path)
        parameters = document.get("parameters")
        search = document.get("search")
        search = search if isinstance(search, dict) else {}
        driver = search.get("driver")
        return {"title": str(document.get("title") or path.stem), "name": path.stem,
                "parameters": [str(p.get("name")) for p in parameters if isinstance(p, dict)] if isinstance(parameters, list) else [],
                "mode": "search" if search else "sweep", "budget": search.get("budget"),
                "driver": driver.get("policy") if isinstance(driver, dict) else None, "drivers": self._drivers()}

    def _drivers(self) -> list[dict]:
        """Names of the search drivers, and what each is."""
        answer = self.call("list", "driver", "--json")
        if answer.returncode != 0:
            raise Refused(500, "`orrery list driver` failed: " + answer.stderr[:300])
        return [{"name": one["name"], "doc": one["doc"]} for one in json.loads(answer.stdout)]

    def study_path(self, name: str) -> Path:
        """The file of a study: `file:NAME` or `shipped:NAME`. Refused(404, 422) for what is none."""
        kind, _, rest = name.partition(":")
        if kind == "shipped" and rest in {p.stem for p in self.studies.glob("*.json")}:
            path = self.studies / f"{rest}.json"
        elif kind == "file":
            path = self.folder.path(rest)
        else:
            raise Refused(404, "no such study")
        try:
            document = facts.read_json(path)
        except facts.Broken as error:
            raise Refused(422, str(error)) from None
        if document.get("kind") != "study":
            raise Refused(422, f'{path.name}: expected "kind": "study", which sweep and search run')
        return path

    def asked(self, body: dict) -> Study:
        """The study that a page asks for: {from, mode, set: ["path=value"], jobs}. Refused(404, 422) where it is none."""
        mode, changes, jobs = body.get("mode"), body.get("set", []), body.get("jobs", 1)
        if mode not in MODES:
            raise Refused(422, "expected a mode: sweep or search")
        if not isinstance(changes, list) or len(changes) > MOST_SET:
            raise Refused(422, f"expected at most {MOST_SET} changes")
        for change in changes:
            if not isinstance(change, str) or not CHANGE.fullmatch(change):
                raise Refused(422, f"expected path=value, got {str(change)[:200]!r}")
        if not isinstance(jobs, int) or isinstance(jobs, bool) or not 1 <= jobs <= 1024:
            raise Refused(422, "expected 1 to 1024 threads")
        arguments = (*(f"--set={change}" for change in changes), "--jobs", str(jobs))
        return Study(self.study_path(str(body.get("from", ""))), mode, arguments)

    def study_faults(self, study: Study) -> tuple[list[dict], str]:
        """What is wrong with a study as it would be run (none if it is right), and how many points it would look at."""
        try:
            code, points, errors = self.count(study.mode, str(study.file), "--dry-run", *study.arguments)
        except Refused as refused:
            if refused.status != 503:
                raise
            return [], "too many points to count here"
        if points > MOST_LINES:
            return [{"pointer": "", "message": f"more than {MOST_LINES:,} points: start it from the command line"}], ""
        told = [line.replace(str(study.file), study.file.name) for line in errors.splitlines() if line.strip()]
        if code != 0:
            return [{"pointer": "", "message": line[:600]} for line in told[:200]] or [{"pointer": "", "message": "no answer"}], ""
        if study.mode == "search":
            return [], next((line.partition("; ")[2] for line in told if "would look at" in line), "")
        return [], f"{points:,} {'point' if points == 1 else 'points'}"

    def to_go_on(self, store: str, threads: int) -> Study:
        """The study of a store that has stopped. Refused(404, 422) where its study's file is not found."""
        path = self.folder.path(store)
        try:
            with stores.reading(path) as connection:
                known = stores.facts(connection)
        except stores.BrokenStore as error:
            raise Refused(422, str(error)) from None
        file = self.study_file(known, path)
        if file is None or known.get("mode") not in MODES:
            raise Refused(422, f"the file of its study ({known.get('study', 'unknown')}) is not found as it was")
        try:
            changes = json.loads(known.get("set") or "[]")
        except ValueError:
            changes = None
        if not isinstance(changes, list) or not all(isinstance(c, str) and CHANGE.fullmatch(c) for c in changes):
            raise Refused(422, f"{path.name}: what it was begun with cannot be read")
        return Study(file, known["mode"], (*(f"--set={change}" for change in changes), "--jobs", str(threads), "--resume"))

    def _of_run(self, name: str) -> dict:
        try:
            manifest = facts.read_json(self.folder.path(name) / "manifest.json")
        except facts.Broken as error:
            raise Refused(422, f"{name}/{error}") from None
        config = manifest.get("config")
        if not isinstance(config, dict):
            raise Refused(422, f"{name}/manifest.json: has no config")
        told = manifest.get("inputs")
        inputs = [i.get("path") for i in told if isinstance(i, dict)] if isinstance(told, list) else []
        places = [self.folder.root, *self.folder.root.parents, self.studies, self.studies.parent.parent]
        found = {}
        for path in inputs:  # relative to the folder where the run was started, which nobody wrote down
            if isinstance(path, str) and not os.path.isabs(path):
                found[path] = next((str(p / path) for p in places if os.path.isfile(p / path)), path)
        return replaced(config, found)

    def _of_file(self, path: Path) -> dict:
        try:
            document = facts.read_json(path)
        except facts.Broken as error:
            raise Refused(422, str(error)) from None
        if document.get("kind") == "study":
            return self._of_study(path)
        return self._resolved(str(path), path.name)

    def _resolved(self, file: str, name: str, *changes: str) -> dict:
        answer = self.call("run", file, "--dry-run", "--quiet", *changes)
        if answer.returncode != 0:
            raise Refused(422, answer.stderr.replace(file, name).strip()[:1000])
        return json.loads(answer.stdout)

    def _of_study(self, path: Path) -> dict:
        """The config of a study's first point."""
        for command in ("sweep", "search"):
            answer = self.call(command, str(path), "--dry-run", "--json", "--quiet")
            lines = answer.stdout.splitlines()
            if answer.returncode == 0 and len(lines) > 1:
                return json.loads(lines[1])["config"]
        raise Refused(422, answer.stderr.strip().replace(str(path), path.name)[:1000] or "the study has no points")

    def study_file(self, known: dict[str, str], store: Path) -> Path | None:
        """The study that a store is of, where the store says that it was, beside it, or where studies ship."""
        name = known.get("study", "")
        if not re.fullmatch(r"[\w.+=-]+", name):
            return None
        places = [store.parent / f"{name}.json", self.folder.root / f"{name}.json", self.studies / f"{name}.json"]
        if "source" in known:
            places.insert(0, store.parent / known["source"])
        for file in places:
            try:
                if facts.read_json(file).get("parameters") == stores.document(known).get("parameters"):
                    return file
            except facts.Broken:
                continue
        return None

    def points(self, store: str) -> int | None:
        """How many points a sweep has, asked once of the command; None where its study is not found."""
        path = self.folder.path(store)
        with stores.reading(path) as connection:
            known = stores.facts(connection)
        key = (known.get("study"), known.get("hash"))
        if known.get("mode") != "sweep":
            return None
        if key not in self.counted:
            file = self.study_file(known, path)
            try:
                code, lines, _ = self.count("sweep", str(file), "--dry-run", "--quiet") if file else (1, 0, "")
            except Refused:  # too many to count: asked again at every look, the page would never come
                code, lines = 1, 0
            self.counted[key] = lines if code == 0 and lines <= MOST_LINES else None
        return self.counted[key]

    def _of_point(self, store: str, point: str) -> dict:
        """The experiment of a point of a store."""
        if not (point.isascii() and point.isdigit() and len(point) < 10):
            raise Refused(404, "no such point")
        path = self.folder.path(store)
        try:
            with stores.reading(path) as connection:
                file = self.study_file(stores.facts(connection), path)
        except stores.BrokenStore as error:
            raise Refused(422, str(error)) from None
        study = ("--study", str(file)) if file else ()
        return self._resolved(str(path), path.name, "--point", point, *study)

    def faults(self, config: dict) -> list[dict]:
        """What is wrong with a config: JSON pointer and message of each fault; none if it is right."""
        with self._written(config) as file:
            answer = self.call("validate", "--quiet", file)
        if answer.returncode == 0:
            return []
        return [fault(line, file) for line in answer.stderr.splitlines() if line.strip()][:200]

    @contextmanager
    def _written(self, config: dict) -> Iterator[str]:
        """A config as a file in the served folder, so that paths in it are relative to there."""
        with self.lock:
            self.number += 1
            file = self.folder.root / f".check-{os.getpid()}-{self.number}.json"
        try:
            file.write_text(json.dumps(config))
            yield str(file)
        except OSError as error:
            raise Refused(422, f"{self.folder.root} cannot be written: {error.strerror}") from None
        finally:
            file.unlink(missing_ok=True)


def fault(line: str, file: str) -> dict:
    """A line `FILE:/pointer: message` in its parts."""
    found = re.match(r"(?P<pointer>(/[^:]*)?): (?P<message>.*)", line.removeprefix(file + ":"), re.DOTALL)
    if line.startswith(file + ":") and found:
        return {"pointer": found["pointer"], "message": found["message"][:600]}
    return {"pointer": "", "message": line.replace(file, "config")[:600]}


def replaced(value: object, by: dict[str, str]) -> object:
    """A document with some of its texts exchanged."""
    if isinstance(value, dict):
        return {k: replaced(v, by) for k, v in value.items()}
    if isinstance(value, list):
        return [replaced(v, by) for v in value]
    return by.get(value, value) if isinstance(value, str) else value


def _start(name: str, path: Path) -> dict | None:
    """What the list shows of a file; None where it is nothing to begin with."""
    try:
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode) or state.st_size > 1 << 20:  # a link may lead anywhere, a pipe has no end
            return None
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in ("experiment", "study"):
        return None
    return {"from": name, "kind": kind, "system": str(document.get("system") or ""),
            "title": str(document.get("title") or "")}
