#!/usr/bin/python3
"""Mutated requests, given to what `orrery serve` reads and answers them with.

    tests/trust/requests.py [COUNT] [--seed N] [--only K]    # lists what goes wrong, shrunk; exit code 1 then

In this process, without a socket and without starting runs. Whatever is said:

- every answer is whole and has a status from 200 to 499;
- none takes longer than a second;
- nothing outside the folder is opened;
- what is kept of a request is bounded;
- nothing is taken for a request that another reader would take for part of one;
- how the bytes are cut changes nothing.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import faulthandler
import io
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator

from request_mutants import CONFIG, PORT, TOKEN, draw

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

from orrery_properties.command import cpu_seconds  # noqa: E402
from orrery_serve import reports, site, stores, wire  # noqa: E402
from orrery_serve.folder import Folder  # noqa: E402
from orrery_serve.guard import Guard  # noqa: E402
from orrery_serve.jobs import Runner  # noqa: E402
from orrery_serve.server import PIECE  # noqa: E402
from orrery_serve.starts import Starts  # noqa: E402
from orrery_serve.web import Answer, Desk, Request, Talk, written  # noqa: E402

SECONDS = 1.0  # of processor time for one input
WAITS = 30.0  # of any time: for what waits and does nothing
LONGEST = wire.LARGEST_HEAD + 4  # bytes of a head
GROWTH = 64 << 20  # of this process, after the first inputs
WARM = 2000
SECRET = b"what nobody may read"
TABLES = """
create table facts (name, value);
create table columns (place, name, kind, detail);
create table points (id integer primary key, key, status, fidelity, violation, reason, ttft, objective_x);
create table runs (id integer primary key);
insert into points values (1, 'k', 'ok', 1, 0, null, 0.5, 2.5), (2, 'l', 'ok', 1, 0, null, 'x', 1.5);
insert into columns values (1, 'ttft', 'parameter', ''), (2, 'objective_x', 'objective', 'minimise');
"""


def write(path: pathlib.Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def fill(top: pathlib.Path) -> pathlib.Path:
    """A folder with runs and stores, whole and odd ones, and with ways out of it."""
    folder = top / "served"
    for name, summary, manifest in (("a", {"status": "ok", "ttft_s": {"p99": 0.1}}, {"config": CONFIG, "wall_s": 1}),
                                    ("deep/b", {"status": "ok"}, {"config": CONFIG, "inputs": [{"path": "x.json"}]}),
                                    ("odd", {"status": [1], "ttft_s": 7, "e2e_s": {"p99": "x"}},
                                     {"config": {"machine": [7]}, "inputs": 5}),
                                    ("odder", {"a": {"": [{}]}}, {"config": {"a": [[{}]], "b": "\ud800"}, "inputs": [
                                        {"path": "x" * 5000}, {"path": "\0"}, {"path": "../outside.json"},
                                        {"path": "\ud800"}, 7]})):
        write(folder / name / "summary.json", summary)
        write(folder / name / "manifest.json", manifest)
    write(folder / "small.json", {**CONFIG, "kind": "experiment", "version": 1})
    write(folder / "empty" / "summary.json", b"")
    write(folder / ".hidden", SECRET)
    write(top / "outside.json", SECRET)
    write(top / "outside" / "summary.json", SECRET)
    write(top / "served-twin" / "x.json", SECRET)
    for link, goal in (("a/link.json", "outside.json"), ("linked", "outside"), ("loop", "served"),
                       ("pulled.json", "outside.json")):
        (folder / link).symlink_to(top / goal)
    for pipe in ("a/pipe.csv", "pipe.json", "pipe.sqlite", "piped.sqlite-wal"):  # who opens one waits for ever
        os.mkfifo(folder / pipe)
    study = [("format", "orrery study 1"), ("mode", "sweep"), ("study", "x"), ("document", "{}")]
    odd = [("format", "orrery study 1"), ("mode", "search"), ("document", '{"search": {"budget": "x"}}')]
    for name, rows in (("s.sqlite", study), ("odd.sqlite", odd), ("piped.sqlite", study)):
        with contextlib.closing(sqlite3.connect(folder / name)) as store, store:
            store.executescript(TABLES)
            store.executemany("insert into facts values (?, ?)", rows)
    return folder


class Command(Starts):
    """Answers of a command that is never started."""

    def call(self, *arguments: str) -> subprocess.CompletedProcess:
        schema = {"anyOf": [{"properties": {"system": {"const": "serving"}}}]}
        said = json.dumps(schema if arguments[0] == "schema" else CONFIG)
        return subprocess.CompletedProcess(arguments, 0, f"{said}\n{json.dumps({'config': CONFIG})}\n"
                                           if "--json" in arguments else said, "")


class Late(BaseException):
    """An input that takes too long. No Exception, which the server would answer with 500."""


WATCHES: list[Watch] = []  # who is told of what Python opens; a hook of Python's cannot be taken away again


def told(event: str, arguments: tuple) -> None:
    for watch in WATCHES:
        watch.told(event, arguments)


sys.addaudithook(told)


class Watch:
    """Notes what is opened, listed or started outside of some folders while it is on."""

    STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.bind")
    PATHS = ("open", "os.listdir", "os.scandir", "sqlite3.connect", "os.remove", "os.rename", "os.mkdir", "os.rmdir",
             "os.symlink", "os.link",
             "os.truncate", "os.chmod", "shutil.rmtree")

    def __init__(self, folder: pathlib.Path, known: list[pathlib.Path]) -> None:
        self.folder, self.known = folder, [str(path) + "/" for path in (folder, *known)]
        self.checked: dict[str, bool] = {}
        self.outside: list[str] = []

    def told(self, event: str, arguments: tuple) -> None:
        if event in self.STARTS:
            self.outside.append(f"{event} {arguments[0]!r}")
        elif event in self.PATHS and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = os.fsdecode(arguments[0])
            if path.startswith("file:"):
                path = urllib.parse.unquote(path[5:].partition("?")[0])
            if path not in self.checked:
                if len(self.checked) > 20_000:
                    self.checked.clear()
                self.checked[path] = self.inside(path)
            if not self.checked[path]:
                self.outside.append(f"{event} {path}")

    def inside(self, path: str) -> bool:
        return path.startswith("/proc/self/fd/") or (os.path.realpath(path) + "/").startswith(tuple(self.known))

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        WATCHES.append(self)
        try:
            yield
        finally:
            WATCHES.remove(self)


@dataclasses.dataclass
class Told:
    """What was made of an input: the requests that were let through, and what was answered."""

    requests: list[Request]
    answers: list[tuple[Answer, bool, bytes]]  # with whether the connection ends, and the body
    fault: str = ""

    def outline(self) -> list[object]:
        """What does not change with the time or with how the bytes are cut."""
        return [*((r.method, r.path, r.heard) for r in self.requests),
                *((answer.status, close) for answer, close, _ in self.answers)]


class Bench:
    """Three servers without sockets: one that starts runs, one that only shows, one that asks for the token."""

    def __init__(self, scratch: pathlib.Path) -> None:
        self.folder = fill(scratch.resolve())
        self.desks, self.runners = [], []
        # the real ones take seconds, and have their own tests
        reports.made = lambda paths, library, command: f"<html>{len(paths)}</html>"
        reports.plotly = lambda: b"plotly"
        stores.written_now = lambda file: False  # /proc/locks makes its reader wait for every other processor
        for beyond, shows in ((False, False), (False, True), (True, False)):
            served = Folder(self.folder)
            guard = Guard(PORT, (), beyond, TOKEN)
            starts = Command(pathlib.Path("orrery"), served, ROOT / "experiments/studies")
            runner = None if shows else Runner(pathlib.Path("orrery"), served, 0)  # nothing ever leaves its queue
            made = site.Site(served, starts, runner, guard)
            made.index.look(wait=True)
            self.desks.append(Desk(made, guard))
            self.runners.append(runner)
        libraries = [pathlib.Path(os.__file__).parent, pathlib.Path(json.__file__).parents[1], ROOT / "tools/python"]
        self.watch = Watch(self.folder, [*libraries, ROOT / "experiments/studies"])
        self.statuses: collections.Counter[int] = collections.Counter()
        self.count, self.said, self.slowest, self.longest = 0, 0, 0.0, 0
        self.present: tuple[int, bytes, float] | None = None  # the input that is being tried, and since when
        self.warm = 0  # bytes of this process after the first inputs

    def converse(self, desk: Desk, said: bytes, cuts: list[int]) -> Told:
        """Gives the bytes in pieces, as the server does, and takes what is answered."""
        talk, told = Talk(desk), Told([], [])
        places = [*cuts, len(said)]
        begin = 0
        for end in places:
            talk.take(said[begin:end])
            begin = end
            while not talk.close:
                step = talk.next()
                if step is None:
                    break
                if isinstance(step, Request):
                    told.requests.append(step)
                    step = desk.answer(step)
                told.answers.append((step, talk.close, body_of(step)))
                talk.done()
            if talk.close:
                break
            most = PIECE + (talk.request.length if talk.request else LONGEST)
            self.longest = max(self.longest, len(talk.heard))
            if len(talk.heard) > most:
                told.fault = f"keeps more of a request than {most} bytes"
        return told

    def given(self, number: int, said: bytes, cuts: list[int]) -> Told:
        """What one of the servers makes of an input, within the limit of time."""
        which = (0, 0, 1, 2)[number % 4]
        if self.runners[which]:
            self.runners[which].jobs.clear()
            self.runners[which].start("first", {}, "")
        return self.converse(self.desks[which], said, cuts)

    def fault(self, number: int, said: bytes, cuts: list[int]) -> str:
        """What is wrong with what is made of an input; empty if nothing is."""
        pieces = list(range(PIECE, len(said), PIECE))
        begin = time.process_time()
        errors = io.StringIO()
        self.watch.outside.clear()
        self.present = number, said, time.monotonic()
        try:
            with self.watch.on(), contextlib.redirect_stderr(errors):
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                signal.setitimer(signal.ITIMER_REAL, WAITS)
                try:
                    told = self.given(number, said, pieces)
                    cut = self.given(number, said, cuts) if cuts else None
                    wrong = told.fault or next((w for w in (wrong_answer(*answer) for answer in told.answers) if w), "")
                finally:
                    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    self.present = None
        except Late:
            return f"hangs: more than {SECONDS} s of processor time, or {WAITS} s in all"
        except Exception as error:
            return f"raises {type(error).__name__}: {error}"
        self.count, self.said = self.count + 1 + bool(cuts), self.said + len(said)
        self.slowest = max(self.slowest, time.process_time() - begin)
        self.statuses.update(answer.status for answer, _, _ in told.answers)
        if self.watch.outside:
            return f"reaches outside the folder: {self.watch.outside[0].replace(str(self.folder.parent), '')}"
        if errors.getvalue():
            return f"says {errors.getvalue().strip().splitlines()[0]}"
        wrong = wrong or misread(said, told)
        if not wrong and cut is not None and cut.outline() != told.outline():
            wrong = f"cut otherwise, it is answered otherwise: {cut.outline()} and {told.outline()}"[:400]
        return wrong

    def grown(self) -> str:
        """Whether this process has grown since the first inputs."""
        now = resident()
        if not self.warm and self.count >= WARM:
            self.warm = now
        return f"memory grows: {(now - self.warm) >> 20} MiB" if self.warm and now - self.warm > GROWTH else ""


def resident() -> int:
    """Bytes of memory of this process."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def body_of(answer: Answer) -> bytes:
    """The body of an answer; a file is read and closed."""
    if answer.file is None:
        return answer.body
    with open(answer.file, "rb") as file:
        return file.read(answer.length)


LINE = re.compile(rb"[A-Za-z][A-Za-z-]*: [\x20-\x7e]*")


def wrong_answer(answer: Answer, close: bool, body: bytes) -> str:
    """What is wrong with one answer."""
    if not 200 <= answer.status <= 499:
        return f"status {answer.status}: {body[-300:].decode(errors='replace')}"
    head = written(answer, close)
    first, *lines = head[:-4].split(b"\r\n")
    bad = [line for line in lines if not LINE.fullmatch(line)]
    if not head.endswith(b"\r\n\r\n") or not re.fullmatch(rb"HTTP/1\.1 \d{3} [\x20-\x7e]+", first) or bad:
        return f"a broken head: {bad or first!r}"
    names = [line.partition(b":")[0].lower() for line in lines]
    if len(set(names)) < len(names):
        return "a header twice"
    if f"\r\nContent-Length: {len(body)}\r\n".encode() not in head:
        return "Content-Length is not that of the body"
    refused = answer.status >= 400 and answer.kind == "application/json"
    if refused and not isinstance(json.loads(body).get("error"), str):
        return "a refusal without a reason"
    return "tells what nobody may read" if SECRET in body else ""


def misread(said: bytes, told: Told) -> str:
    """Whether a request was let through of which another reader might see other bounds.

    This one takes any end of a line, spaces before a colon and continued lines, as many programs do.
    """
    place = 0
    for request in told.requests:
        while said[place:place + 2] == b"\r\n":
            place += 2
        end = said.find(b"\r\n\r\n", place)
        head = said[place:end]
        lines = re.split(rb"\r\n|\r|\n", re.sub(rb"\r\n[ \t]+", b" ", head))
        pairs = [line.partition(b":") for line in lines[1:]]
        fields = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
        lengths = [value for name, value in fields if name == b"content-length"]
        codings = [value for name, value in fields if name == b"transfer-encoding"]
        hosts = [value for name, value in fields if name == b"host"]
        if b"" in [name for name, _ in fields] or len(hosts) != 1 or codings or len(lengths) > 1:
            return f"lets through a head that can be read in two ways: {fields[:20]}"
        if lengths and not re.fullmatch(rb"[0-9]{1,18}", lengths[0]):
            return f"lets through a request with Content-Length {lengths[0]!r}"
        length = int(lengths[0]) if lengths else 0
        if lines[0].split(None)[0] != request.method.encode() or request.heard != said[end + 4:end + 4 + length]:
            return "takes a request's bounds for others than they are"
        place = end + 4 + length
    answered = len(told.answers)
    if any(close for _, close, _ in told.answers[:-1]) or not len(told.requests) <= answered <= len(told.requests) + 1:
        return "goes on after an answer that ends the connection"
    return ""


@dataclasses.dataclass
class Found:
    """An input that goes wrong, and the smallest one that does in the same way."""

    number: int
    fault: str
    smallest: bytes

    def shown(self) -> str:
        text = repr(self.smallest)[1:]
        text = text if len(text) <= 600 else f"{text[:600]} … ({len(self.smallest)} bytes)"
        return f"input {self.number}: {self.fault}\n  {text}"


def kind_of(fault: str) -> str:
    return re.sub(r"[\d\[{(].*", "", fault.partition("\n")[0])[:90]


def shrunk(said: bytes, holds: Callable[[bytes], bool], seconds: float) -> bytes:
    """Leaves out pieces, large ones first, as long as `holds` does."""
    end, size = time.monotonic() + seconds, max(1, len(said) // 2)
    while time.monotonic() < end:
        place, smaller = 0, False
        while place < len(said) and time.monotonic() < end:
            candidate = said[:place] + said[place + size:]
            if holds(candidate):
                said, smaller = candidate, True
            else:
                place += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return said


def end_what_never_returns(bench: Bench, over: threading.Event) -> None:
    """Ends this process where an input waits within a library, where no signal is heard."""
    while not over.wait(1.0):
        present = bench.present
        if present and time.monotonic() - present[2] > WAITS + 10:
            print(Found(present[0], "hangs for good", present[1]).shown(), flush=True)
            faulthandler.dump_traceback()
            os._exit(1)


def hunt(bench: Bench, numbers: range | list[int], seed: int, shrink_seconds: float = 20,
         tell: Callable[[str], None] = lambda text: None, most: int = 20) -> list[Found]:
    """Tries inputs and returns what was found, one of each kind; ends after `most` kinds."""
    found: dict[str, Found] = {}

    def late(*_: object) -> None:
        raise Late

    over = threading.Event()
    threading.Thread(target=end_what_never_returns, args=(bench, over), daemon=True).start()
    before = {number: signal.signal(number, late) for number in (signal.SIGVTALRM, signal.SIGALRM)}
    try:
        for number in numbers:
            said, stream = draw(seed, number)
            # Every fourth is given a second time, in other pieces.
            places = {stream.randrange(len(said)) for _ in range(stream.choice([1, 3, 8]))} if said else set()
            cuts = sorted(places) if stream.random() < 0.25 else []
            fault = bench.fault(number, said, cuts)
            if not fault and number % 500 == 0:
                fault = bench.grown()
            if not fault or kind_of(fault) in found:
                continue
            kind = kind_of(fault)
            tell(f"input {number}: {fault[:300]}")

            def holds(candidate: bytes, of: int = number, cut: bool = bool(cuts), want: str = kind) -> bool:
                return kind_of(bench.fault(of, candidate, list(range(1, len(candidate))) if cut else [])) == want

            smallest = said if kind.startswith(("hangs", "memory")) else shrunk(said, holds, shrink_seconds)
            found[kind] = Found(number, fault, smallest)
            tell(found[kind].shown())
            if len(found) >= most:
                break
    finally:
        over.set()
        for number, handler in before.items():
            signal.signal(number, handler)
    return list(found.values())


def summary(bench: Bench, found: list[Found], seconds: float) -> str:
    """What was tried, and what it cost."""
    statuses = ", ".join(f"{count} x {status}" for status, count in sorted(bench.statuses.items()))
    return (f"{bench.count} executions, {bench.count / max(seconds, 1e-9):.0f} a second; {bench.said / 1e6:.0f} MB; "
            f"answers {statuses}; slowest {bench.slowest * 1e3:.0f} ms; "
            f"at most {bench.longest} bytes kept of a request; "
            f"{resident() >> 20} MiB; {len(found)} findings; {seconds:.1f} s of processor time")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/trust/requests.py", description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=20_000, metavar="COUNT", help="inputs (default: 20000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, action="append", metavar="K",
                        help="input K of the seed alone (may be repeated)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="orrery-requests-") as scratch:
        bench = Bench(pathlib.Path(scratch))
        begin = cpu_seconds()
        found = hunt(bench, options.only or range(options.count), options.seed,
                     tell=lambda text: print(text, flush=True))
        print(summary(bench, found, cpu_seconds() - begin))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
