"""Compiles changed units, puts them into copies of their libraries and links the programs with these.

Everything is made in build/mutate; the tree and build/release are only read. Objects and programs are kept there by a
digest of what they are made of.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import fcntl
import hashlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess

from .rewrite import Rewriter
from .sites import Site, find_sites

RUNTIME = pathlib.Path(__file__).parent / "runtime"
ERROR = re.compile(r"^(/[^:]+):(\d+):\d+: (?:fatal )?error: (.*)$", re.MULTILINE)


@dataclasses.dataclass
class Unit:
    source: str
    flags: list[str]
    compiler: str
    object: str  # from the build folder
    archive: str

    def files(self) -> list[str]:
        return re.findall(r'#include "(/[^"]+\.cpp)"', pathlib.Path(self.source).read_text(encoding="utf8")) or [self.source]


def run(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def must(command: list[str], folder: pathlib.Path) -> str:
    done = run(command, folder)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)[:300]}\n{done.stderr[-3000:]}")
    return done.stdout


class Build:
    def __init__(self, root: pathlib.Path, build: pathlib.Path, folders: list[str], jobs: int) -> None:
        self.root, self.build, self.folders, self.jobs = root, build, folders, jobs
        self.scratch = root / "build/mutate"
        for name in ("sites", "objects", "programs", "sources", "libraries"):
            (self.scratch / name).mkdir(parents=True, exist_ok=True)
        self.lock = (self.scratch / "lock").open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)  # two runs would overwrite each other's programs
        self.headers = self.headers_digest()
        self.pattern = "^" + re.escape(str(root)) + "/(" + "|".join(map(re.escape, folders)) + ")/.*[.]cpp$"
        self.units: list[Unit] = []
        self.links: dict[str, str] = {}

    def headers_digest(self) -> str:
        digest = hashlib.sha256()
        for top in ("sim", "hw", "models", "traces", "policies", "experiments"):
            for header in sorted((self.root / top).rglob("*.hpp")):
                digest.update(header.read_bytes())
        digest.update((RUNTIME / "mutant.hpp").read_bytes())
        return digest.hexdigest()

    def read_commands(self, targets: list[str]) -> None:
        """Units of the folders, and how the targets are linked."""
        lines = must(["ninja", "-t", "commands", *targets], self.build).splitlines()
        archives: dict[str, str] = {}
        for line in lines:
            made = re.search(r"/ar qc (\S+) +(.*?)(?: &&|$)", line)
            if made:
                archives.update({member: made[1] for member in made[2].split() if member.endswith(".o")})
            linked = re.search(r"^: && (\S*c\+\+ .* -o (\S+) .*) && :$", line)
            if linked:
                self.links[pathlib.Path(linked[2]).name] = linked[1]
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            made = words[words.index("-o") + 1]
            if made not in archives or not any(made.startswith(folder + "/CMakeFiles/") for folder in self.folders):
                continue
            flags = [word for word in words[1:words.index("-o")] if not word.startswith("-W")]
            unit = Unit(entry["file"], flags, "/usr/bin/c++", made, archives[made])
            if any(re.search(self.pattern, file) for file in unit.files()):
                self.units.append(unit)

    def all_sites(self) -> list[Site]:
        def of(unit: Unit) -> list[Site]:
            flags = [flag for flag in unit.flags if flag.startswith(("-I", "-D", "-std"))]
            system = [flag for i, word in enumerate(unit.flags) if word == "-isystem" for flag in unit.flags[i:i + 2]]
            return find_sites(self.root, unit.source, flags + system, self.pattern, self.scratch / "sites", self.headers)

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return sorted({site for sites in pool.map(of, self.units) for site in sites})

    # -- compiling ----------------------------------------------------------------------------------------------------

    def compile(self, unit: Unit, sites: dict[int, Site]) -> tuple[pathlib.Path | None, set[int]]:
        """The object of a unit with changes in it; or the changes with which it does not compile."""
        changed: dict[str, tuple[bytes, dict[int, tuple[int, int]]]] = {}
        digest = hashlib.sha256((self.headers + shlex.join(unit.flags)).encode())
        for file in unit.files():
            path = str(pathlib.Path(file).relative_to(self.root))
            mine = {number: site for number, site in sites.items() if site.path == path}
            text = pathlib.Path(file).read_bytes()
            if mine:
                placed = Rewriter(text, mine).all()
                changed[file] = (placed.text, placed.lines)
                text = placed.text
            digest.update(file.encode() + text)
        folder = self.scratch / "objects" / digest.hexdigest()[:24]
        made = folder / pathlib.Path(unit.object).name
        if made.exists():
            return made, set()
        folder.mkdir(exist_ok=True)
        source = pathlib.Path(unit.source)
        text = source.read_text(encoding="utf8")
        copies: dict[str, dict[int, tuple[int, int]]] = {}
        for file, (content, lines) in changed.items():
            copy = folder / "source" / pathlib.Path(file).relative_to(self.root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            copies[str(copy)] = lines
            text = text.replace(f'#include "{file}"', f'#include "{copy}"')
        if unit.source in changed:
            source = folder / "source" / pathlib.Path(unit.source).relative_to(self.root)
        else:
            source = folder / source.name
            source.write_text(text, encoding="utf8")
        done = run(["nice", unit.compiler, *unit.flags, "-O1", "-w", "-D_GLIBCXX_ASSERTIONS", f"-I{RUNTIME}", "-include",
                    "mutant.hpp", "-o", str(made), "-c", str(source)], self.build)
        if done.returncode == 0:
            return made, set()
        bad: set[int] = set()
        for file, row, _ in ERROR.findall(done.stderr):
            here = [(last - first, number) for number, (first, last) in copies.get(file, {}).items()
                    if first <= int(row) <= last]
            bad.update(number for span, number in here if span == min(here)[0])
        if not bad:
            (folder / "errors.txt").write_text(done.stderr)
            bad = {number for lines in copies.values() for number in lines}
            print(f"  {unit.object}: {folder}/errors.txt: all {len(bad)} changes left out")
        return None, bad

    def compile_all(self, sites: dict[int, Site]) -> tuple[dict[str, pathlib.Path], set[int]]:
        """Objects by their place in the build folder, and the changes that do not compile."""
        objects: dict[str, pathlib.Path] = {}
        bad: set[int] = set()

        def one(unit: Unit) -> tuple[Unit, pathlib.Path | None, set[int]]:
            paths = {str(pathlib.Path(file).relative_to(self.root)) for file in unit.files() if file.startswith(str(self.root))}
            mine = {number: site for number, site in sites.items() if site.path in paths}
            return (unit, *self.compile(unit, mine)) if mine else (unit, None, set())

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for unit, made, wrong in pool.map(one, self.units):
                bad |= wrong
                if made:
                    objects[unit.object] = made
        return objects, bad

    # -- linking ------------------------------------------------------------------------------------------------------

    def runtime(self) -> dict[str, pathlib.Path]:
        made = {}
        for name in ("mutant", "listener"):
            digest = hashlib.sha256((RUNTIME / f"{name}.cpp").read_bytes() + (RUNTIME / "mutant.hpp").read_bytes()).hexdigest()
            made[name] = self.scratch / "objects" / f"{name}-{digest[:16]}.o"
            if not made[name].exists():
                must(["c++", "-std=c++20", "-O1", "-w", f"-I{RUNTIME}", "-c", str(RUNTIME / f"{name}.cpp"), "-o",
                      str(made[name])], self.build)
        return made

    def libraries(self, objects: dict[str, pathlib.Path]) -> dict[str, pathlib.Path]:
        """Copies of the libraries that hold changed objects."""
        copies: dict[str, pathlib.Path] = {}
        for unit in self.units:
            if unit.object not in objects:
                continue
            if unit.archive not in copies:
                copies[unit.archive] = self.scratch / "libraries" / pathlib.Path(unit.archive).name
                shutil.copyfile(self.build / unit.archive, copies[unit.archive])
            must(["ar", "r", str(copies[unit.archive]), str(objects[unit.object])], self.build)
        return copies

    def link(self, names: list[str], objects: dict[str, pathlib.Path]) -> dict[str, pathlib.Path]:
        """The programs with the changed objects in them."""
        copies = self.libraries(objects)
        runtime = self.runtime()

        def one(name: str) -> pathlib.Path:
            words = shlex.split(self.links[name])
            made = self.scratch / "programs" / name
            extra = [str(runtime["mutant"]), "-Wl,--wrap=popen", "-Wl,--wrap=system"]
            if name.startswith("test_"):
                extra.append(str(runtime["listener"]))
            at = words.index("-o")
            linked = [str(copies[word]) if word in copies else word for word in words[:at]] + extra + ["-o", str(made)]
            linked += [str(copies[word]) if word in copies else word for word in words[at + 2:]]
            must(linked, self.build)
            return made

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return dict(zip(names, pool.map(one, names)))
