#!/usr/bin/python3
"""Mutated inputs, given to the command.

    tests/trust/mutations.py [COUNT] [--seed N] [--only K]      # lists what goes wrong, shrunk; exit code 1 if anything does

Whatever is given, the command ends with 0 or 2 in time and within its memory, says why on stderr if it ends with 2, and then
leaves nothing behind.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from mutants import BASES, FOLDERS, NAMES, ROOT, Mutant, Subject, asks_for_much, draw, subjects, written

sys.path.insert(0, str(ROOT / "tools/python"))

from orrery_properties.command import GIB, Ended, Orrery, cpu_seconds, fault_of  # noqa: E402
from orrery_properties.shrink import shrink  # noqa: E402

SECONDS = 5  # of processor time
# Studies of which a sample of points takes seconds to validate: plans that are searched, networks of thousands of hosts.
SLOW = {"space_gpu.json": 20, "space_npu.json": 20, "space_network.json": 60, "space_schedule.json": 60, "space_training.json": 60}


class Bench:
    """A copy of the tree's shape, in which mutants stand beside what they name."""

    def __init__(self, program: pathlib.Path, scratch: pathlib.Path, seconds: float = SECONDS, memory: int = GIB) -> None:
        self.orrery = Orrery(program, ROOT, seconds, memory)
        self.tree = scratch / "tree"
        for folder in (".", *FOLDERS):
            self.mirror(folder)
        for path in BASES.iterdir():
            (self.tree / path.name).symlink_to(path)
        shared = ROOT.parent / "shared"
        if shared.exists():
            (scratch / "shared").symlink_to(shared)
        kinds: dict[str, list[str]] = {}
        for entry in json.loads(self.orrery.run(["list", "--json"], scratch).out):
            kinds.setdefault(entry["kind"], []).append(entry["name"])
        for names in kinds.values():
            NAMES.update({name: names for name in names})
        self.work = scratch / "work"
        self.work.mkdir()
        self.codes: collections.Counter[str] = collections.Counter()
        self.long: list[str] = []

    def mirror(self, folder: str) -> None:
        """A folder of our own on the way to `folder`, whose entries are links."""
        there, here = ROOT, self.tree
        for part in (".", *pathlib.PurePath(folder).parts):
            there, here = there / part, here / part
            if here.is_symlink():
                here.unlink()
            here.mkdir(parents=True, exist_ok=True)
            for path in there.iterdir():
                if not (here / path.name).exists() and path.name not in (".git", "build", "runs"):
                    (here / path.name).symlink_to(path)

    def faults(self, subject: Subject, content: bytes, much: bool, only: str = "") -> dict[str, str]:
        """What goes wrong, by the command's name; with `only`, of that command."""
        file = self.tree / subject.folder / "mutant.json"
        file.write_bytes(content)
        found = {}
        for command in subject.commands:
            if only not in ("", command[0]):
                continue
            out = self.work / "out"
            names = {"FILE": str(file), "OUT": str(out)}
            ended = self.orrery.run([names.get(word, word) for word in command], self.work, seconds=SLOW.get(subject.name))
            fault = self.fault(command, ended, out, much)
            if fault:
                found[command[0]] = fault
            shutil.rmtree(self.work)
            self.work.mkdir()
        return found

    def fault(self, command: tuple[str, ...], ended: Ended, out: pathlib.Path, much: bool) -> str:
        self.codes[f"{ended.code}" if not ended.late else ended.late] += 1
        fault = fault_of(ended, self.orrery.memory)
        if fault:
            return fault
        left = sorted(path.name for path in self.work.iterdir())
        if ended.late:
            if command[0] != "run" or not much:
                return f"takes longer than {self.orrery.seconds} s"
            self.long.append(" ".join(command[:2]))
            left = [name for name in left if not name.startswith(".out.")]  # the next run there takes it away
        if (ended.code != 0 or "OUT" not in command) and left:
            return f"exit code {ended.code}, and leaves {', '.join(left)}"
        if ended.code == 0 and "OUT" in command and not (out / "summary.json").exists():
            return "exit code 0, and no summary.json"
        return ""


@dataclasses.dataclass
class Found:
    number: int
    subject: Subject
    command: str
    fault: str
    mutation: str
    smallest: bytes

    def shown(self) -> str:
        text = self.smallest.decode(errors="backslashreplace")
        text = text if len(text) <= 600 else f"{text[:600]} … ({len(text)} characters)"
        return f"mutant {self.number}, {self.subject.name}, orrery {self.command}: {self.fault}\n  {self.mutation}\n  {text}"


def shrunk(bench: Bench, number: int, mutant: Mutant, command: str, fault: str, seconds: float) -> Found:
    """As few changes as show the fault, in as little of the document. `seconds` bounds the search."""
    kind = fault.split(":")[0]

    def shows(document: Any) -> bool:
        try:
            content = written(document)
        except (RecursionError, ValueError):
            return False
        return bench.faults(mutant.subject, content, asks_for_much(document), command).get(command, "").split(":")[0] == kind

    if mutant.bytes_of:
        return Found(number, mutant.subject, command, fault, "bytes", mutant.content())
    for i, change in enumerate(mutant.changes):
        alone = Mutant(mutant.subject, [mutant.names[i]], [change])
        if len(mutant.changes) > 1 and seconds > 0 and shows(alone.document()):
            mutant = alone
            break
    smallest = shrink(mutant.document(), shows, 400, seconds)
    return Found(number, mutant.subject, command, fault, "; ".join(mutant.names), written(smallest))


def hunt(bench: Bench, numbers: list[int], seed: int, shrink_seconds: float = 60,
         tell: Callable[[str], None] = lambda text: None) -> list[Found]:
    """Tries mutants and returns what was found; of one fault of one command the first is shrunk."""
    every = subjects()
    found: list[Found] = []
    seen: set[tuple[str, str]] = set()
    for number in numbers:
        mutant = draw(every[number % len(every)], seed, number)
        much = bool(mutant.bytes_of) or asks_for_much(mutant.document())
        commands = mutant.subject.commands
        # Of two commands the second reads all that the first does: the first takes its turn only now and then.
        only = commands[-1][0] if number // len(every) % 3 else ""
        for command, fault in bench.faults(mutant.subject, mutant.content(), much, only).items():
            tell(f"mutant {number}, {mutant.subject.name}, {command}: {fault[:200]} ({'; '.join(mutant.names)})")
            new = (command, fault[:60]) not in seen
            seen.add((command, fault[:60]))
            found.append(shrunk(bench, number, mutant, command, fault, shrink_seconds if new else 0))
            tell(found[-1].shown() if new else "  as before")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/trust/mutations.py", description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=500, metavar="COUNT", help="mutants (default: 500)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, action="append", metavar="K", help="mutant K of the seed alone (may be repeated)")
    parser.add_argument("--orrery", type=pathlib.Path, default=os.environ.get("ORRERY_COMMAND", ROOT / "build/release/orrery"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="orrery-mutants-") as scratch:
        bench = Bench(options.orrery, pathlib.Path(scratch))
        found = hunt(bench, options.only or list(range(options.count)), options.seed, tell=lambda text: print(text, flush=True))
        print(summary(bench, found))
    return 1 if found else 0


def summary(bench: Bench, found: list[Found]) -> str:
    """What was tried, and what it cost."""
    codes = ", ".join(f"{count} x {code}" for code, count in sorted(bench.codes.items()))
    return (f"{bench.orrery.count} commands ended with {codes}; {len(bench.long)} asked for more work than {SECONDS} s take; "
            f"{len(found)} findings; {cpu_seconds():.0f} s of processor time")


if __name__ == "__main__":
    sys.exit(main())
