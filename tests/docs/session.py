"""Runs the blocks of one page, in order, in a scratch copy of the tree."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile

import commands
import output
from blocks import Block, Page

HERE = pathlib.Path(__file__).resolve().parent
COPIED = ["experiments/studies", "traces/samples", "tests/docs/bases"]  # commands may write beside these
BASE = "experiments/studies/first_light.json"  # what a fragment of a config is merged into


class Wrong(Exception):
    """What a reader would stumble over: (line of the page, message)."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclasses.dataclass
class Tally:
    """What became of a page: blocks run, left out with their reasons, and faults, each as 'page:line: …'."""

    ran: int = 0
    skipped: list[str] = dataclasses.field(default_factory=list)
    later: int = 0  # slow ones, left to the slow test
    faults: list[str] = dataclasses.field(default_factory=list)
    edits: list[tuple[Block, str]] = dataclasses.field(default_factory=list)


class Session:
    """A page's scratch folder: the tree as links, `orrery` on PATH and as build/release/orrery, one Python namespace."""

    def __init__(self, root: pathlib.Path, page: Page, slow: bool, update: bool) -> None:
        self.root, self.page, self.slow, self.update = root, page, slow, update
        self.tally = Tally()
        self.printed = ""  # by the last block that ran
        self.worker: subprocess.Popen | None = None

    # ---- the folder

    def make_folder(self, scratch: pathlib.Path) -> None:
        self.folder = scratch / "orrery"
        for name in COPIED:
            shutil.copytree(self.root / name, self.folder / name)
        for path in self.root.iterdir():
            if not path.name.startswith(".") and path.name not in ("build", "runs"):
                self.link(path, self.folder / path.name)
        if (self.root / "../shared").is_dir():
            (scratch / "shared").symlink_to((self.root / "../shared").resolve())
        command = pathlib.Path(commands.COMMAND).resolve()
        for place in ("bin/orrery", "build/release/orrery"):
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / place).symlink_to(command)
        self.environment = {
            **os.environ,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "ORRERY_HOME": os.environ.get("ORRERY_HOME", str(self.root)),
            "MPLBACKEND": "Agg",
            "COLUMNS": "120",
        }

    def link(self, path: pathlib.Path, place: pathlib.Path) -> None:
        """A link, or a folder of links where parts of it are copied."""
        if place.is_dir():
            for part in path.iterdir():
                self.link(part, place / part.name)
        elif not place.exists():
            place.symlink_to(path)

    # ---- all blocks

    def run(self) -> Tally:
        with tempfile.TemporaryDirectory(prefix="orrery-docs-") as scratch:
            self.make_folder(pathlib.Path(scratch).resolve())
            try:
                self.run_blocks()
            finally:
                if self.worker:
                    self.worker.stdin.close()
                    self.worker.wait()
        return self.tally

    def run_blocks(self) -> None:
        left_out = whole_slow = False
        for block in self.page.blocks:
            whole_slow |= block.told("slow from here") is not None
            is_output = block.told("output") is not None
            if not is_output:
                left_out = not self.slow and (whole_slow or block.told("slow") is not None)
            try:
                reason, needed = block.told("skip"), block.told("needs")
                if needed is not None and not (self.folder / needed).exists():
                    self.tally.skipped.append(f"{block.page}:{block.line}: there is no {needed} here")
                elif reason is not None:
                    if not re.match(r"because \w", reason):
                        raise Wrong(block.line, "expected '<!-- test: skip because … -->' with a reason")
                    self.tally.skipped.append(f"{block.page}:{block.line}: {reason[8:]}")
                elif left_out:
                    self.tally.later += 1
                elif self.run_block(block):
                    self.tally.ran += 1
            except Wrong as wrong:
                self.tally.faults.append(f"{block.page}:{wrong.line}: {wrong}")

    def run_block(self, block: Block) -> bool:
        """True if there was something to run or compare."""
        if block.told("before") is not None:
            self.beside(block, "before")
        if block.told("output") is not None:
            command = re.match(r"of (.*)$", block.told("output") or "")
            if command:
                done = self.shell(command[1])
                self.printed = done.stderr if done.returncode else done.stdout
            self.check_output(block)
            return True
        name = block.told("file")
        if name is not None:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(block.text, encoding="utf-8")
            if block.language != "json":
                return True
        runner = {"sh": self.run_sh, "console": self.run_console, "python": self.run_python, "json": self.run_json,
                  "cpp": self.check_source, "cmake": self.check_source}.get(block.language)
        if block.told("in") is not None:
            runner = self.check_source
        if runner:
            runner(block)
            if block.told("then") is not None:
                self.printed = self.beside(block, "then")
        elif block.language != "text":
            raise Wrong(block.line - 1, f"a block of '{block.language}' needs a comment that says what to do with it "
                                        "(or the language text, if it is a drawing): tests/docs/README.md")
        return runner is not None

    def beside(self, block: Block, word: str) -> str:
        """Runs the command of a comment; what it prints."""
        done = self.shell(block.told(word) or "false")
        if done.returncode != 0:
            raise Wrong(block.line, f"'{block.told(word)}' ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    # ---- commands

    def shell(self, text: str) -> subprocess.CompletedProcess:
        try:
            return subprocess.run(["bash", "-c", text], cwd=self.folder, env=self.environment, capture_output=True,
                                  text=True, check=False, stdin=subprocess.DEVNULL, timeout=self.seconds())
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(late.cmd, 124, "", f"not done after {late.timeout:.0f} s")

    def seconds(self) -> int:
        """The longest that a statement may take."""
        return 600 if self.slow else 120

    def run_sh(self, block: Block) -> None:
        self.printed = ""
        if block.told("synopsis") is not None:
            return self.check_synopsis(block)
        for line, text in statements(block):
            self.run_line(block, line, text)

    def run_line(self, block: Block, line: int, text: str) -> None:
        """One statement; what it prints is added to `printed` (its faults where it should end with one)."""
        extra = block.told("with")
        for directive in block.directives:
            other = re.match(r'for "(.+)" run "(.*)"$', directive)
            if other:
                text = text.replace(other[1], other[2])
        done = self.shell(with_arguments(text, extra) if extra else text)
        expected = int(block.told("exit") or 0)
        if done.returncode != expected:
            said = (done.stderr or done.stdout).strip()[-1500:]
            raise Wrong(line, f"'{text}' ended with {done.returncode}, not {expected}: {said}")
        self.printed += done.stderr if expected else done.stdout

    def check_synopsis(self, block: Block) -> None:
        for line, text in statements(block):
            found = commands.faults(re.sub(r"^\$ ", "", text))
            if found:
                raise Wrong(line, found[0])

    def run_console(self, block: Block) -> None:
        """Lines after '$ ' are commands; what follows each is what it prints."""
        parts: list[tuple[int, str, list[str]]] = []
        for line, text in block.lines():
            if text.startswith("$ "):
                parts.append((line, text[2:], []))
            elif parts and parts[-1][1].endswith("\\"):
                parts[-1] = (parts[-1][0], parts[-1][1][:-1] + text, [])
            elif parts:
                parts[-1][2].append(text)
        for line, text, shown in parts:
            self.printed = ""
            self.run_line(block, line, text)
            if shown and not output.matches("\n".join(shown), self.printed, str(self.folder)):
                raise Wrong(line, "prints something else:\n    "
                            + output.difference("\n".join(shown), self.printed, str(self.folder)))

    def check_output(self, block: Block) -> None:
        if output.matches(block.text, self.printed, str(self.folder)):
            return
        if self.update:
            head = re.match(r"head (\d+)$", block.told("output") or "")
            text = output.to_show(self.printed, str(self.folder), int(head[1]) if head else None)
            self.tally.edits.append((block, text))
            return
        raise Wrong(block.line, "the command before prints something else:\n    "
                    + output.difference(block.text, self.printed, str(self.folder)))

    # ---- languages

    def run_python(self, block: Block) -> None:
        if not has_package():
            self.tally.skipped.append(f"{block.page}:{block.line}: the Python package is not built")
            return
        if not self.worker:
            self.worker = subprocess.Popen([sys.executable, "-u", str(HERE / "python_worker.py")], cwd=self.folder,
                                           env=self.environment, text=True, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        request = {"page": block.page, "line": block.line, "text": block.text}
        print(json.dumps(request), file=self.worker.stdin, flush=True)
        late = self.seconds()
        if not select.select([self.worker.stdout], [], [], late)[0]:
            self.worker.kill()
        answer = self.worker.stdout.readline()
        if not answer:
            self.worker = None
            raise Wrong(block.line, f"Python ended, or was not done after {late} s")
        result = json.loads(answer)
        self.printed = result["printed"]
        if result["error"]:
            raise Wrong(block.line, result["error"].strip()[-1500:])

    def run_json(self, block: Block) -> None:
        """A config of its own is validated; a fragment is merged into a config, and that is validated."""
        values = json_values(block)
        if block.told("parse") is not None:
            if not re.match(r"because \w", block.told("parse")):
                raise Wrong(block.line, "expected '<!-- test: parse because … -->' with a reason")
            return
        whole = len(values) == 1 and isinstance(values[0], dict) and {"kind", "system", "base"} & values[0].keys()
        told = block.told("merge")
        if told is None and (whole or block.told("file") is not None):
            name = block.told("file") or f"experiments/studies/page_{block.line}.json"  # beside those that it may name
            (self.folder / name).write_text(json.dumps(values[0]), encoding="utf-8")
            return self.validate(block, name) if whole else None
        found = re.match(r"^(?:into (\S+))?\s*(?:at (\S+))?$", told or "")
        if not found:
            raise Wrong(block.line, "expected '<!-- test: merge into FILE at a.b.c -->'")
        base = found[1] or BASE
        if "/" not in base and not base.endswith(".json"):
            base = f"tests/docs/bases/{base}.json"
        for number, value in enumerate(values):
            for key in reversed(found[2].split(".") if found[2] else []):
                value = [value] if key == "0" else {key: value}
            name = str(pathlib.Path(base).with_name(f"page_{block.line}_{number}.json"))
            (self.folder / name).write_text(json.dumps({"base": pathlib.Path(base).name, **value}), encoding="utf-8")
            self.validate(block, name)

    def validate(self, block: Block, name: str) -> None:
        done = self.shell(f"orrery validate --quiet '{name}'")
        expected = int(block.told("exit") or 0)
        self.printed = done.stderr
        if done.returncode != expected:
            raise Wrong(block.line, f"validate ends with {done.returncode}, not {expected}: {done.stderr.strip()}")

    def check_source(self, block: Block) -> None:
        """Every line stands in the files that the comment names, which a build compiles or a test runs."""
        files = (block.told("in") or "").split()
        if not files:
            raise Wrong(block.line, "code needs '<!-- test: in FILE -->', a file of the tree that is compiled or run")
        missing = [name for name in files if not (self.root / name).is_file()]
        if missing:
            raise Wrong(block.line, f"there is no file {missing[0]}")
        there = {bare(line) for name in files for line in (self.root / name).read_text(encoding="utf-8").splitlines()}
        for line, text in block.lines():
            if bare(text) and text.strip() not in ("…", "// …") and bare(text) not in there:
                raise Wrong(line, f"not in {' '.join(files)}: {text.strip()}")


@functools.cache
def has_package() -> bool:
    return importlib.util.find_spec("orrery") is not None


def bare(line: str) -> str:
    """A line of code without its place and its closing comment."""
    return re.sub(r"\s*(//|  #) .*$", "", line).strip()


def statements(block: Block) -> list[tuple[int, str]]:
    """Commands with the lines they begin at; lines that end in a backslash, or stand within a here-document, go on."""
    if "<<" in block.text:
        return [(block.line, block.text)]
    found: list[tuple[int, str]] = []
    goes_on = False
    for line, text in block.lines():
        text = re.sub(r"^\$ ", "", text)
        if goes_on:
            found[-1] = (found[-1][0], found[-1][1] + " " + text.strip().rstrip("\\"))
        elif text.strip() and not text.lstrip().startswith("#"):
            found.append((line, text.strip().rstrip("\\")))
        goes_on = text.endswith("\\")
    return found


def with_arguments(text: str, extra: str) -> str:
    """Arguments after those of the command, before a comment, a pipe or a redirection."""
    found = re.search(r"\s+(#|\||>|&&|;|-- )", text)
    end = found.start() if found else len(text)
    return f"{text[:end]} {extra}{text[end:]}"


def json_values(block: Block) -> list:
    """The values of a block: one, several side by side, or the members of an object without its braces."""
    text = block.text.strip()
    if text.startswith('"'):
        text = "{" + text + "}"
    decoder, values = json.JSONDecoder(), []
    while text:
        try:
            value, end = decoder.raw_decode(text)
        except json.JSONDecodeError as error:
            raise Wrong(block.line, f"no JSON: {error}") from None
        values.append(value)
        text = text[end:].lstrip()
    return values
