"""Reads a page of the docs: its code blocks with what is to be done with each, its inline code and its links.

A comment right before a block says where a block differs from what its language asks for (tests/docs/README.md):

    <!-- test: skip because it installs packages -->
    <!-- test: output -->
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

DIRECTIVE = re.compile(r"^\s*<!-- test: (.*?) -->\s*$")
FENCE = re.compile(r"^(\s*)(```+)\s*(\w*)\s*$")
COMMAND = re.compile(r"^(\$ )?(orrery|build/release/\S+|tools/\w+(\.py)?|dask-\w+|sqlite3|python3|/usr/bin/python3|cmake|mkdir)\b")


@dataclasses.dataclass
class Block:
    """A code block. `line` and `last` are those of its text in the page, from 1; `indent` is what stood before it."""

    page: str
    line: int
    last: int
    language: str
    text: str
    directives: list[str]
    indent: str = ""

    def told(self, word: str) -> str | None:
        """What follows a directive's first word, "" if nothing does, None if there is no such directive."""
        for directive in self.directives:
            if directive == word or directive.startswith(word + " "):
                return directive[len(word) :].strip()
        return None

    def lines(self) -> list[tuple[int, str]]:
        return list(enumerate(self.text.splitlines(), self.line))


@dataclasses.dataclass
class Page:
    """A page: its blocks in order, and its text with the blocks blanked, so that line numbers stay."""

    path: str
    blocks: list[Block]
    prose: str


def language_of_indented(text: str) -> str:
    """An indented block has no language: commands, JSON and Python are told by how they begin, the rest is formulas."""
    first = text.lstrip().splitlines()[0]
    if COMMAND.match(first):
        return "console" if first.startswith("$ ") else "sh"
    if re.match(r'^(\{|"[\w.]+": )', first):
        return "json"
    if re.match(r"^(from \S+ )?import ", first):
        return "python"
    return "text"


def dedent(lines: list[str], indent: str) -> str:
    return "".join((line[len(indent) :] if line.startswith(indent) else line.lstrip()) + "\n" for line in lines)


def parse(root: pathlib.Path, path: str) -> Page:
    """The page at `path` (relative to `root`)."""
    lines = (root / path).read_text(encoding="utf-8").split("\n")
    blocks: list[Block] = []
    prose: list[str] = []
    waiting: list[str] = []  # directives that wait for their block

    def add(first: int, last: int, language: str, indent: str) -> None:
        blocks.append(Block(path, first + 1, last, language, dedent(lines[first:last], indent), list(waiting), indent))
        waiting.clear()

    at = 0
    while at < len(lines):
        line = lines[at]
        directive, fence = DIRECTIVE.match(line), FENCE.match(line)
        if directive:
            waiting.append(directive[1])
        elif fence:
            end = at + 1
            while end < len(lines) and lines[end].strip() != fence[2]:
                end += 1
            add(at + 1, end, fence[3], fence[1])
            prose.extend([""] * (end - at))
            at = end
        elif line.startswith("    ") and line.strip() and (at == 0 or not lines[at - 1].strip() or DIRECTIVE.match(lines[at - 1])):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            text = dedent(lines[at:end], "    ")
            add(at, end, language_of_indented(text), "    ")
            prose.extend([""] * (end - at - 1))
            at = end - 1
        elif line.strip():
            waiting.clear()
        prose.append("" if fence or directive or (blocks and blocks[-1].last == at + 1) else line)
        at += 1
    return Page(path, blocks, "\n".join(prose))


def inline_code(page: Page) -> list[tuple[int, str]]:
    """Line and text of each piece of `code` in the prose."""
    return [
        (page.prose[: found.start()].count("\n") + 1, " ".join(found[1].split()))
        for found in re.finditer(r"(?<!`)`([^`]+)`(?!`)", page.prose)
        if "\n\n" not in found[1]
    ]


def links(page: Page) -> list[tuple[int, str]]:
    """Line and target of each link and image."""
    return [
        (page.prose[: found.start()].count("\n") + 1, found[1])
        for found in re.finditer(r"\]\(([^()\s]+)\)", page.prose)
    ]


def anchors(text: str) -> set[str]:
    """What links may name behind the '#': the headings, as web pages of repositories spell them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def pages(root: pathlib.Path) -> list[str]:
    """All pages of the tree, in order."""
    found = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    for folder in "sim hw models traces policies experiments tools tests".split():
        found += (root / folder).glob("**/*.md")
    return sorted(str(path.relative_to(root)) for path in found)
