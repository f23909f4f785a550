#!/usr/bin/python3
"""Checks that files named in pages and comments are there, and that maps of folders are short and complete.

    tests/docs/names.py        # prints `file:line: what is wrong`; exit code 1 if anything is

A map is the README.md of a folder: at most 30 lines, no name in its tables that is not there. In a folder of sources it
names every one of them, and those of folders below that have no map of their own. `stem` stands for stem.hpp and stem.cpp,
`folder/*` for all files of a folder.
"""

from __future__ import annotations

import fnmatch
import glob
import pathlib
import re
import sys

import blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = "sim hw models traces policies experiments tools tests docs".split()
MAPPED = FOLDERS[:6]  # whose maps name every source
MOST_LINES = 30
PATH = re.compile(rf"(?<![\w./<-])((?:{'|'.join(FOLDERS)})/[\w./*-]*[\w*/])(?![\w<*-])")
SOURCE = re.compile(r"(?<![\w./<*{-])((?:\w+/)*[\w.-]+\.[ch]pp)\b")
# Names that stand for any, and files of other projects.
NOT_OURS = re.compile(r"NAME|FOLDER|TOPIC|gateway_log|mine\b|^(?:flash_api|example)\.cpp$|^docs/pytorch\.md$|^(?:models|hw)/traces")


class Tree:
    """The files of a source tree, found by the end of their path."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.files = sorted(str(path.relative_to(root)) for folder in FOLDERS for path in (root / folder).rglob("*")
                            if path.is_file() and "__pycache__" not in path.parts)
        self.tails = {"/".join(parts[at:]) for parts in (file.split("/") for file in self.files) for at in range(len(parts))}

    def has_path(self, name: str, beside: str) -> bool:
        places = [self.root / name, (self.root / beside).parent / name]
        return any(glob.glob(f"{place}{end}") for place in places for end in ("", ".*"))


def comments(text: str, suffix: str) -> list[tuple[int, str]]:
    """Line and text of what follows `//` in C++, `#` in other sources; whole lines of docstrings count too."""
    mark = "//" if suffix in (".hpp", ".cpp") else "#"
    return [(number, line.partition(mark)[2]) for number, line in enumerate(text.splitlines(), 1)
            if mark in line and not line.startswith("#include")]


def check_text(tree: Tree, file: str, pieces: list[tuple[int, str]]) -> list[str]:
    """Files that the pieces name and that are not there."""
    found = []
    for line, text in pieces:
        named = {name for name in SOURCE.findall(text) if name not in tree.tails}
        named |= {name for name in PATH.findall(text) if not tree.has_path(name, file)}
        found += [f"{file}:{line}: there is no {name}" for name in sorted(named) if not NOT_OURS.search(name)]
    return found


def check_names(tree: Tree) -> list[str]:
    found = []
    for name in blocks.pages(tree.root):
        found += check_text(tree, name, blocks.inline_code(blocks.parse(tree.root, name)))
    for file in tree.files:
        path = tree.root / file
        if path.suffix in (".hpp", ".cpp", ".py", ".cmake") or path.name == "CMakeLists.txt":
            found += check_text(tree, file, comments(path.read_text(encoding="utf-8"), path.suffix))
    return found


def stem(file: str) -> str:
    return re.sub(r"\.[ch]pp$", "", file)


def check_map(tree: Tree, name: str, maps: set[str]) -> list[str]:
    """Length of a map; sources that it leaves out, names of its tables that are nowhere."""
    text = (tree.root / name).read_text(encoding="utf-8")
    folder = name.rpartition("/")[0]
    lines = text.rstrip("\n").count("\n") + 1
    found = [f"{name}:{MOST_LINES + 1}: a map of {lines} lines, more than {MOST_LINES}"] if lines > MOST_LINES else []
    below = [path.removeprefix(folder + "/") for path in tree.files if path.startswith(folder + "/")]
    mapped = [other.removeprefix(folder + "/").rpartition("/")[0] for other in maps if other.startswith(folder + "/") and other != name]
    sources = {stem(file) for file in below if re.search(r"\.[ch]pp$", file) and not any(file.startswith(sub + "/") for sub in mapped)}
    places = {part for file in below for part in (file, stem(file), *(str(p) for p in pathlib.PurePath(file).parents))}
    told: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split(" | ")
        if not line.startswith("| ") or cells[0] in ("| file", "| folder", "| floor", "| room"):
            continue
        for token in re.findall(r"`([^`]+)`", cells[0]):
            token = stem(token.rstrip("/"))
            told.append(token)
            if "NAME" not in token and not any(fnmatch.fnmatchcase(place, token) for place in places):
                found.append(f"{name}:{number}: there is no {token} in {folder}")
    found += [f"{name}: does not name {source}" for source in sorted(sources)
              if folder.split("/")[0] in MAPPED and not any(fnmatch.fnmatchcase(source, token) for token in told)]
    return found


def check_maps(tree: Tree) -> list[str]:
    maps = {file for file in tree.files if file.endswith("/README.md")}
    return [fault for name in sorted(maps) for fault in check_map(tree, name, maps)]


def main() -> int:
    tree = Tree(ROOT)
    faults = check_names(tree) + check_maps(tree)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
