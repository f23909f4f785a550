"""Inputs that ship, and changes to them: values, keys, arrays, nesting or bytes."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pathlib
import random
import re
import sys
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

from orrery_properties.shrink import Path, at, changed, paths, put, without  # noqa: E402

FOLDERS = ["experiments/studies", "docs/how-to", "."]  # where inputs stand, which name others by relative paths
BASES = ROOT / "tests/docs/bases"  # those of the documentation stand in the folder that the commands are run in

# What keeps a valid mutant short, by system. A system without a row is quick as it is.
SMALL = {
    "serving": ["workload.limit=20"],
    "capacity": ["capacity.requests=20", "capacity.max_requests=40", "capacity.replications=1", "capacity.suggest=false"],
    "slo_sweep": ["slo_sweep.requests=20", "slo_sweep.max_requests=40", "slo_sweep.replications=1", "slo_sweep.points=2"],
    "plans": ["workload.limit=10"],
    "rl": ["train.steps=64", "train.envs=2", "train.eval_every=64", "train.eval_episodes=1", "train.eval_steps=20",
           "run.seeds=1"],
    "dram": ["workload.accesses=500"],
    "graph": ["workload.requests=1"],
    "launch": ["workload.batches=[1]", "workload.models=[\"gpt2\"]"],
}


@dataclasses.dataclass(frozen=True)
class Subject:
    """An input, and how it is tried."""

    name: str
    folder: str
    document: Any
    commands: tuple[tuple[str, ...], ...]  # FILE stands for the input, OUT for a folder of results


def run_command(system: str) -> tuple[str, ...]:
    return ("run", "FILE", "--out", "OUT", "--quiet", *(word for text in SMALL.get(system, []) for word in ("--set", text)))


def subject(name: str, folder: str, document: Any, system: str) -> Subject:
    """By what kind of file it is: experiments are run, studies tell their points, claims are validated, graphs are shown."""
    validate = ("validate", "FILE")
    if "graph" in document and "ops" in document:
        return Subject(name, folder, document, (("graph", "FILE", "--format", "json"),))
    if "engine_kwargs" in document:
        return Subject(name, folder, document, (("import", "vllm", "FILE"),))
    kind = document.get("kind", "experiment")
    if kind == "study":
        return Subject(name, folder, document, (validate, ("sweep", "FILE", "--dry-run", "--quiet")))
    if kind in ("claim", "evolve"):
        return Subject(name, folder, document, (validate,))
    return Subject(name, folder, document, (validate, run_command(system)))


def system_of(document: dict[str, Any], folder: pathlib.Path) -> str:
    """The system of a config, which may stand in the file that it builds on."""
    while "system" not in document and isinstance(document.get("base"), str):
        path = folder / document["base"]
        document = json.loads((path if path.exists() else BASES / document["base"]).read_text())
    return document.get("system", "")


def subjects() -> list[Subject]:
    """The shipped inputs, and the experiments below studies and claims; `slo_sweep` and `search` are made up."""
    found: list[Subject] = []
    for folder in FOLDERS:
        for path in sorted((BASES if folder == "." else ROOT / folder).glob("*.json")):
            document = json.loads(path.read_text())
            if not isinstance(document, dict) or path.stem == "prices":
                continue
            base = document.get("base")
            if isinstance(base, dict) and "system" in base:
                found.append(subject(f"{path.name}, its experiment", folder, base, base["system"]))
            found.append(subject(path.name, folder, document, system_of(document, ROOT / folder)))
    mine = json.loads((ROOT / "docs/how-to/my.json").read_text())
    toy = {"system": "search", "study": {"file": "search_toy.json", "set": ["search.budget=20"]}}
    return found + [subject("my.json, its SLO", "docs/how-to", {**mine, "system": "slo_sweep"}, "slo_sweep"),
                    subject("search_toy.json, searched", "experiments/studies", toy, "search")]


# -- mutations --------------------------------------------------------------------------------------------------------

# Text stands for them in a document until it is written, since json can write neither.
TWICE, DEEP = "\ue000twice", "\ue000deep"
DEPTH = 100_000
LONGEST = 300  # elements of an array
VALUES: list[Any] = [0, -1, 1, 2**53, 2**63, -2**63, 1e308, -1e308, 1e-300, 0.5, math.nan, math.inf, "NaN", "inf", "-1 s",
                     "5 parsecs", "3 GB/s", "1e400 s", "0 s", "9007199254740992", "", " ", "../../../../etc/passwd", "catalog:",
                     "\u0000", None, True, [], {}, [None], [[]], {"policy": "none"}, DEEP]
HUGE = 1e9  # a number from here on may ask for more work than there is time for


def misspelt(key: str, stream: random.Random) -> str:
    place = stream.randrange(max(1, len(key)))
    return stream.choice([key[:place] + key[place + 1:], key[:place] + "x" + key[place:], key.upper(), key + " ", ""])


Change = Callable[[Any], Any]
SIZES: list[Any] = [0, 1, 2, 3, 7, 1000, 2**31, 2**40, 2**53]
QUANTITIES = ["0", "1e-12", "0.001", "1", "3", "1e6", "1e15"]
NAMES: dict[str, list[str]] = {}  # of everything that has a name, all of its kind; filled by the bench


def change_value(document: Any, path: Path, stream: random.Random) -> Change:
    value = stream.choice(VALUES)
    return lambda doc: put(doc, path, value)


def change_number(document: Any, path: Path, stream: random.Random) -> Change:
    """A number times a power of ten, or a text's number with another unit."""
    value = at(document, path)
    factor = stream.choice([-1, 0, 1e-9, 1e-3, 1e3, 1e9, 1e18])
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return change_value(document, path, stream)
    if isinstance(value, str):
        number, _, unit = value.partition(" ")
        made: Any = stream.choice([number, f"{number} {unit}{unit}", f"-{value}", f"{number}e30 {unit}", f"{number} kg",
                                   value + " x"])
    else:
        made = int(value * factor) if isinstance(value, int) else value * factor
    return lambda doc: put(doc, path, made)


def change_size(document: Any, path: Path, stream: random.Random) -> Change:
    """Another value of the same kind, which more often than not is a valid one: a number, a quantity of that unit, a name."""
    value = at(document, path)
    if isinstance(value, bool):
        made: Any = not value
    elif isinstance(value, int):
        made = stream.choice([value + 1, 2 * value, value // 2, stream.choice(SIZES)])
    elif isinstance(value, float):
        made = stream.choice([2 * value, value / 2, 1 - value, stream.choice(SIZES)])
    elif isinstance(value, str) and value in NAMES:
        made = stream.choice(NAMES[value])
    elif isinstance(value, str) and value[:1].isdigit() and " " in value:
        made = f"{stream.choice(QUANTITIES)} {value.partition(' ')[2]}"
    else:
        return change_value(document, path, stream)
    return lambda doc: put(doc, path, made)


def leaves(document: Any) -> list[Path]:
    return [path for path in paths(document) if not isinstance(at(document, path), (dict, list))]


def change_type(document: Any, path: Path, stream: random.Random) -> Change:
    value = at(document, path)
    made = stream.choice([[value], {"value": value}, json.dumps(value), [value, value]])
    return lambda doc: put(doc, path, made)


def drop(document: Any, path: Path, stream: random.Random) -> Change:
    return lambda doc: without(doc, path)


def twice(document: Any, path: Path, stream: random.Random) -> Change:
    if isinstance(path[-1], int):
        return lambda doc: changed(doc, path, lambda parent, key: parent.insert(key, parent[key]))
    value = stream.choice([at(document, path), None, 0])
    return lambda doc: changed(doc, path, lambda parent, key: parent.__setitem__(key + TWICE, value))


def misspell(document: Any, path: Path, stream: random.Random) -> Change:
    if isinstance(path[-1], int):
        return change_value(document, path, stream)
    name = misspelt(path[-1], stream)
    return lambda doc: changed(doc, path, lambda parent, key: parent.__setitem__(name, parent.pop(key)))


def move(document: Any, path: Path, stream: random.Random) -> Change:
    """Into another object of the document, under the same name."""
    objects = [(), *(p for p in paths(document) if isinstance(at(document, p), dict) and p[:len(path)] != path)]
    goal, name, value = stream.choice(objects), str(path[-1]), copy.deepcopy(at(document, path))

    def moved(doc: Any) -> Any:
        doc = put(doc, (*goal, name), value)  # first, while the way to it is what it was
        return doc if goal == path[:-1] else without(doc, path)

    return moved


def change_array(document: Any, path: Path, stream: random.Random) -> Change:
    """Empty, or so long that it is felt."""
    arrays = [p for p in paths(document) if isinstance(at(document, p), list)]
    if not arrays:
        return change_type(document, path, stream)
    chosen = stream.choice(arrays)
    count = stream.choice([0, 0, 3, LONGEST])
    made = (at(document, chosen) * count)[:LONGEST]
    return lambda doc: put(doc, chosen, made)


CHANGES = [change_value, change_value, change_number, change_type, drop, twice, misspell, move, change_array]


def written(document: Any) -> bytes:
    """A document as it is given to the command, with what json cannot write in place of what stands for it."""
    text = json.dumps(document).replace(json.dumps(TWICE)[1:], '"')
    return text.replace(json.dumps(DEEP), "[" * DEPTH + "]" * DEPTH).encode()


def changed_bytes(content: bytes, stream: random.Random) -> bytes:
    place = stream.randrange(max(1, len(content)))
    junk = stream.choice([b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"//", b"/*", b"}", b"]", b",", b'"', b"\\", b"\\ud800",
                          b"1e999", b"-", b"\xc3\x28", b"\r"])
    before, after = content[:place], content[place:]
    return stream.choice([before + junk + after, before, after, before + after[1:], before + junk + after[1:], b"",
                          content + content])


@dataclasses.dataclass
class Mutant:
    """An input with some changes."""

    subject: Subject
    names: list[str]
    changes: list[Change]
    bytes_of: Callable[[bytes], bytes] | None = None

    def document(self) -> Any:
        made = self.subject.document
        for change in self.changes:
            try:
                made = change(made)
            except (LookupError, TypeError, AttributeError):
                pass  # an earlier change took away what this one is about
        return made

    def content(self) -> bytes:
        content = written(self.document())
        return self.bytes_of(content) if self.bytes_of else content


def draw(subject: Subject, seed: int, number: int) -> Mutant:
    """Mutant `number` of a seed: one change, sometimes two or three; or other bytes."""
    stream = random.Random(f"{seed}/{number}")
    if stream.random() < 0.12:
        state = stream.random()
        return Mutant(subject, ["bytes"], [], lambda content: changed_bytes(content, random.Random(state)))
    ways = list(paths(subject.document))
    names, changes = [], []
    sizes = leaves(subject.document)
    for _ in range(stream.choice([1, 1, 1, 2, 3])):
        # Most changes give what is valid at the first look: only that gets past the reading of a config.
        plain = stream.random() < 0.65
        path, change = (stream.choice(sizes), change_size) if plain else (stream.choice(ways), stream.choice(CHANGES))
        names.append(f"{change.__name__} /{'/'.join(map(str, path))}")
        changes.append(change(subject.document, path, stream))
    return Mutant(subject, names, changes)


def asks_for_much(document: Any) -> bool:
    """Whether a document has a number or an array from which a run may rightly be long."""
    for path in paths(document):
        value = at(document, path)
        if isinstance(value, list) and len(value) > 100:
            return True
        if path[-2:] == ("fat_tree", "k") and isinstance(value, int) and value > 24:
            return True  # k^3 / 4 devices; a ring over 8,192 of them sends the square of that: 64 s
        if isinstance(value, str):
            value = next((float(word) for word in value.split()[:1] if re.fullmatch(r"\d+(\.\d*)?(e\d+)?", word)), 0)
        if isinstance(value, (int, float)) and (abs(value) >= HUGE or 0 < abs(value) < 1 / HUGE):
            return True
    return False
