"""What the parts of a build are, and how the project is related to each."""

from __future__ import annotations

import dataclasses
import pathlib
import re

from . import debian, elf

# Groups of tools/packages.txt whose programs make or test the project, or stand beside it: what they are to it.
TOOLS = {"build": "BUILD_TOOL_OF", "package": "BUILD_TOOL_OF", "python": "RUNTIME_DEPENDENCY_OF",
         "report": "OPTIONAL_DEPENDENCY_OF", "cluster": "OPTIONAL_DEPENDENCY_OF", "optional": "OPTIONAL_DEPENDENCY_OF",
         "notebook": "OPTIONAL_DEPENDENCY_OF", "test": "TEST_TOOL_OF", "lint": "DEV_TOOL_OF", "site": "DEV_TOOL_OF", "fuzz": "DEV_TOOL_OF"}
COMPILED = {"build", "python"}  # groups whose headers are compiled into it
LINKED, INSIDE = "DYNAMIC_LINK", "STATIC_LINK"
# What a package is to the project if it is several things: the first of these.
RANK = [LINKED, INSIDE, "RUNTIME_DEPENDENCY_OF", "OPTIONAL_DEPENDENCY_OF", "BUILD_TOOL_OF", "TEST_TOOL_OF",
        "DEV_TOOL_OF"]
SHIPPED = RANK[:4]  # what runs with it; the others make and test it


@dataclasses.dataclass
class Part:
    """A Debian package, and what it is to the project."""

    package: debian.Package
    relation: str
    libraries: list[str] = dataclasses.field(default_factory=list)  # by which the project asks for it


def groups(file: pathlib.Path) -> dict[str, list[str]]:
    """Of tools/packages.txt: names of packages by group."""
    found: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf8").splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            found.setdefault(words[0], []).extend(words[1:])
    return found


def recommended(file: pathlib.Path) -> list[str]:
    """Packages that ours recommends or suggests (cmake/debian.cmake)."""
    text = file.read_text(encoding="utf8")
    found = re.findall(r"CPACK_DEBIAN_RUNTIME_PACKAGE_(?:RECOMMENDS|SUGGESTS) \"([^\"]*)\"", text)
    return [name.split()[0] for names in found for name in names.split(",") if not name.split()[0].startswith("orrery")]


def libraries(binaries: list[pathlib.Path]) -> dict[str, str]:
    """Each library that the binaries need, with its package. Raises ValueError for one that is no package's."""
    paths = debian.library_paths()
    found = {}
    for name in sorted({name for binary in binaries for name in elf.needed(binary)}):
        found[name] = debian.owner(paths[name]) if name in paths else ""
        if not found[name]:
            raise ValueError(f"{name}: no Debian package has this library")
    return found


def parts(root: pathlib.Path, binaries: list[pathlib.Path]) -> list[Part]:
    """All of a build, by name; what is not installed is no part of it."""
    found: dict[str, Part] = {}

    def add(package: debian.Package | None, relation: str, library: str = "") -> None:
        if package is None:
            return
        part = found.setdefault(package.name, Part(package, relation))
        part.relation = min(part.relation, relation, key=RANK.index)
        if library:
            part.libraries.append(library)

    for library, name in libraries(binaries).items():
        add(debian.package(name), LINKED, library)
    for group, names in groups(root / "tools/packages.txt").items():
        for name in names:
            package = debian.package(name)
            header = group in COMPILED and name.endswith("-dev")
            add(package and debian.real(package), INSIDE if header else TOOLS[group])
    for name in recommended(root / "cmake/debian.cmake"):
        package = debian.package(name)
        add(package and debian.real(package), "OPTIONAL_DEPENDENCY_OF")
    return [found[name] for name in sorted(found)]
