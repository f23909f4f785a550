"""Clang's syntax tree of a compilation unit, read from what clang-query prints."""

from __future__ import annotations

import dataclasses
import pathlib
import re

LOCATION = r"(?:<invalid sloc>|<scratch space>:\d+:\d+|<built-in>:\d+:\d+|line:\d+:\d+|col:\d+|[^<>,\s]+:\d+:\d+)"
LINE = re.compile(r"^(?P<prefix>[| `-]*?)(?P<kind>[A-Z]\w+)(?P<rest> .*|)$")
RANGE = re.compile(rf"(?: <(?P<first>{LOCATION})(?:, (?P<last>{LOCATION}))?>)(?: (?P<name>{LOCATION})(?= |$))?")
TOKEN = re.compile(rb"""[A-Za-z_]\w*|(?:\.?\d)(?:[eEpP][+-]|'\w|[\w.])*|"(?:\\.|[^"\\])*"\w*|'(?:\\.|[^'\\])*'|\+\+|--|.""",
                   re.DOTALL)


@dataclasses.dataclass
class Node:
    kind: str
    rest: str
    begin: int = -1  # offsets in the file; -1: not in the file looked at
    end: int = -1
    path: str = ""
    children: list[Node] = dataclasses.field(default_factory=list)

    @property
    def type(self) -> str:
        """Of an expression: its type without names for it."""
        found = re.match(r"\s*'((?:[^'])*)'(?::'([^']*)')?", self.rest)
        return (found.group(2) or found.group(1)) if found else ""

    @property
    def operator(self) -> str:
        found = re.search(r"'([^'A-Za-z0-9_ ]{1,3})'", self.rest[len(self.type):] if self.rest else "")
        return found.group(1) if found else ""


class Files:
    """Sources as bytes, and the offsets of their lines."""

    def __init__(self) -> None:
        self.text: dict[str, bytes] = {}
        self.starts: dict[str, list[int]] = {}

    def get(self, path: str) -> bytes:
        if path not in self.text:
            text = pathlib.Path(path).read_bytes()
            self.text[path] = text
            starts = [0]
            for i, byte in enumerate(text):
                if byte == 10:
                    starts.append(i + 1)
            self.starts[path] = starts
        return self.text[path]

    def offset(self, path: str, line: int, column: int) -> int:
        self.get(path)
        return self.starts[path][line - 1] + column - 1

    def line(self, path: str, offset: int) -> int:
        return self.get(path).count(b"\n", 0, offset) + 1

    def token_end(self, path: str, offset: int) -> int:
        found = TOKEN.match(self.get(path), offset)
        return found.end() if found else offset + 1


class Tree:
    """Reads what clang-query prints; a location leaves out what is as in the one printed before it."""

    def __init__(self, files: Files, wanted: re.Pattern[str]) -> None:
        self.files, self.wanted = files, wanted
        self.path, self.row = "", 0

    def place(self, text: str) -> tuple[str, int, int] | None:
        if "sloc>" in text:
            return None
        head, row, column = ("", "", text[4:]) if text.startswith("col:") else text.rsplit(":", 2)
        if head and head != "line":
            self.path = head
        if row:
            self.row = int(row)
        return self.path, self.row, int(column)

    def roots(self, output: str) -> list[Node]:
        roots: list[Node] = []
        stack: list[tuple[int, Node]] = []
        for line in output.splitlines():
            if line.startswith("Binding for"):
                stack = []
                continue
            found = LINE.match(line)
            if not found or " 0x" not in line and "<" not in line:
                if line.rstrip().endswith("<<<NULL>>>") and stack:
                    depth = line.index("<<<NULL") // 2
                    while stack and stack[-1][0] >= depth:
                        stack.pop()
                    if stack:
                        stack[-1][1].children.append(Node("Null", ""))
                continue
            depth = len(found["prefix"]) // 2
            node = self.node(found["kind"], found["rest"])
            while stack and stack[-1][0] >= depth:
                stack.pop()
            if stack:
                stack[-1][1].children.append(node)
            elif depth == 0 and "Decl" in node.kind:
                roots.append(node)
            stack.append((depth, node))
        return roots

    def node(self, kind: str, rest: str) -> Node:
        found = RANGE.search(rest)
        if not found or "'" in rest[:found.start()]:
            return Node(kind, rest)
        first = self.place(found["first"])
        last = self.place(found["last"]) if found["last"] else first
        if found["name"]:
            self.place(found["name"])
        node = Node(kind, rest[found.end():])
        if first and last and first[0] == last[0] and self.wanted.search(first[0]):
            node.path = first[0]
            node.begin = self.files.offset(*first)
            node.end = self.files.token_end(last[0], self.files.offset(*last))
        return node
