#!/usr/bin/python3
"""Headers that neither the command nor the Python module comes to: code that nobody can run.

    reach.py [TREE]     prints them, with their lines; exit code 1 if there are any but those of KNOWN

From the sources of tools/ (the example of a plug-in too, which --plugin loads) one follows includes. A source beside a header (the same name) comes with it; another one
comes with the header that declares what it defines (a function, or a class by its methods), so that registers and
systems are found. Who includes a header is taken to use it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOTS = ("sim/", "hw/", "models/", "traces/", "policies/", "experiments/", "tools/")
KNOWN: dict[str, str] = {}  # header: why nothing comes to it

DEFINED = re.compile(r"^(?!namespace|using|static|return|if|for|while|struct|class|template|#|\}|constexpr|inline)"
                     r"[A-Za-z_][\w:<>,&*\s\[\]]*?\b((?:\w+::)*~?\w+)\(", re.M)
CLASS = re.compile(r"\b(?:class|struct)\s+(\w+)")
CALL = re.compile(r"\b(\w+)\(")


class Tree:
    """The sources of a tree: texts without comments, what they include, define and declare."""

    def __init__(self, root: Path) -> None:
        listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.cpp", "*.hpp"],
                                capture_output=True, text=True, check=True).stdout.split()
        self.text = {}
        for name in listed:
            if name.startswith(ROOTS) and (root / name).is_file():
                self.text[name] = re.sub(r"//[^\n]*", "", (root / name).read_text(encoding="utf-8"))
        self.includes = {name: self._includes(name) for name in self.text}

    def _includes(self, name: str) -> list[str]:
        found = re.findall(r'#include "([^"]+)"', self.text[name])
        beside = [str(Path(name).parent / file) for file in found]
        return [file for file in found + beside if file in self.text]

    def lines(self, name: str) -> int:
        return self.text[name].count("\n")

    def reached(self) -> set[str]:
        """Files that the sources of tools/ come to."""
        defines = {}
        for name in self.text:
            if name.endswith(".cpp"):
                defines[name] = {tuple(found.split("::")) for found in DEFINED.findall(self.text[name])}
        seen: set[str] = set()
        classes: set[str] = set()
        functions: set[str] = set()

        def visit(name: str) -> None:
            stack = [name]
            while stack:
                file = stack.pop()
                if file in seen:
                    continue
                seen.add(file)
                if file.endswith(".hpp"):
                    classes.update(CLASS.findall(self.text[file]))
                    functions.update(CALL.findall(self.text[file]))
                    source = file.removesuffix(".hpp") + ".cpp"
                    if source in self.text:
                        stack.append(source)
                elif file.endswith("/register.cpp") or "register" in Path(file).stem:
                    functions.update(CALL.findall(self.text[file]))  # it declares what it calls
                stack.extend(self.includes[file])

        for name in self.text:
            if name.startswith("tools/") and name.endswith(".cpp"):
                visit(name)
        while True:
            more = [name for name, found in defines.items() if name not in seen and any(
                (path[-2] in classes) if len(path) > 1 else path[0] in functions for path in found)
                    and (any(path[-1].startswith(("add_", "register_")) for path in found if len(path) == 1 and path[0] in functions)
                         or not self._own_header_unreached(name, seen))]
            if not more:
                return seen
            for name in more:
                visit(name)

    def _own_header_unreached(self, source: str, seen: set[str]) -> bool:
        header = source.removesuffix(".cpp") + ".hpp"
        return header in self.text and header not in seen


def unreached(root: Path) -> dict[str, int]:
    """Headers that nothing comes to, with their lines and those of their sources."""
    tree = Tree(root)
    seen = tree.reached()
    found = {}
    for name in sorted(tree.text):
        if name.endswith(".hpp") and name not in seen:
            source = name.removesuffix(".hpp") + ".cpp"
            found[name] = tree.lines(name) + (tree.lines(source) if source in tree.text else 0)
    return found


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = unreached(root)
    for name, lines in found.items():
        print(f"{lines:6} {name}" + (f": {KNOWN[name]}" if name in KNOWN else ""))
    print(f"{sum(found.values())} lines in {len(found)} headers and their sources")
    return 1 if found.keys() - KNOWN.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
