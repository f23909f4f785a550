#!/usr/bin/python3
"""Checks the words of pages: long sentences, and words that the field has a better one for.

    tests/docs/words.py [PAGE…]   # prints `file:line: what is wrong`; exit code 1 if anything is

Pages that somebody new reads first (README, learn, how-to) have shorter sentences than those that explain how a part
works, and what the program says of itself has the shortest: docs/reference is made of its help texts and of what fields
and figures say. Code is a word, a cell is a sentence of its own, and a link in a page that is made is a word. Without
pages, what the program prints is checked for words too: the string literals of its sources.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST_ROOMS = ("README.md", "docs/index.md", "docs/learn/", "docs/how-to/")
MADE = ("docs/reference/", "docs/papers/")
# Words of a sentence at most, by room.
MOST_WORDS = {"docs/reference/": 32, "docs/papers/": 42, **dict.fromkeys(FIRST_ROOMS, 42), "": 52}
SOURCES = ("sim", "hw", "models", "traces", "policies", "experiments", "tools")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# What is written, and what the field says.
WORDS = {
    r"\bkicked out\b|\bthrown out\b|\bput back in the queue\b": "preempted",
    r"\border of admission\b": "admission order",
    r"\bblocks (?:are )?lack(?:ing)?\b|\black of blocks\b|\bblocks that are free\b": "free KV blocks, too few KV blocks",
    r"\bshare of requests that (?:meet|met) (?:their|the) targets?\b": "attainment",
    r"\bvalues are exchanged\b|\bexchanged importance\b": "permutation importance",
    r"\bexplains alone\b": "main effect",
    r"\bstanding for (?:a )?checkpoints?\b": "waiting for checkpoints",
    r"\bnought\b": "zero",
    r"\bwhilst\b": "while",
    r"\baffair\b": "a plain word",
    r"\bhereby\b|\bthereof\b|\btherein\b|\bwherein\b": "a plain word",
    r"\bturns? round\b": "reverses",
    r"\bforetells?\b|\bforetold\b": "predicts",
    r"\bstopped sequence\b|\bsequence is stopped\b": "preempted sequence",
}


def stripped(text: str) -> str:
    """The text with fenced blocks, comments and indented blocks blanked, line for line."""
    def blank(match: re.Match) -> str:
        return re.sub(r"[^\n]", "", match.group(0))

    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    text = re.sub(r"^(```|~~~).*?^\1", blank, text, flags=re.M | re.S)
    return re.sub(r"^    .*$", "", text, flags=re.M)


def pieces(text: str) -> list[tuple[int, str]]:
    """Line and text of every paragraph, item, heading and cell."""
    found: list[tuple[int, str]] = []
    running: list[str] = []
    start = 0
    for number, line in enumerate([*stripped(text).split("\n"), ""], 1):
        begins = bool(re.match(r"\s*([-*]|\d+\.)\s|#", line))
        if running and (not line.strip() or begins or line.startswith("|")):
            found.append((start, " ".join(running)))
            running = []
        if line.startswith("|"):
            found += [(number, cell.strip()) for cell in line.strip("|").split(" | ")]
        elif line.strip():
            if not running:
                start = number
            running.append(line.strip())
    return found


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`*\"(\[])", text)


def count(sentence: str, made: bool = False) -> int:
    """Words of a sentence; code is one, and a link where the page is made."""
    sentence = re.sub(r"`[^`]*`", "code", sentence)
    sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", "link" if made else r"\1", sentence)
    return len(re.findall(r"[A-Za-z][\w'-]*", sentence))


def check(name: str, text: str) -> list[str]:
    """Faults of one page."""
    most = next(words for room, words in MOST_WORDS.items() if name.startswith(room))
    made = name.startswith(MADE)
    found = []
    for line, piece in pieces(text):
        plain = re.sub(r"`[^`]*`", "", piece)
        found += words_of(name, line, plain)
        found += [f"{name}:{line}: a sentence of {count(one, made)} words, more than {most}: {one[:60]} …"
                  for one in sentences(piece) if count(one, made) > most]
    return found


def words_of(name: str, line: int, text: str) -> list[str]:
    """Words that the field has a better one for."""
    hits = ((re.search(pattern, text, re.I), better) for pattern, better in WORDS.items())
    return [f"{name}:{line}: '{hit.group(0)}': better {better}" for hit, better in hits if hit]


def check_literals(name: str, text: str) -> list[str]:
    """Faults of what a source has the program print."""
    return [fault for number, line in enumerate(text.split("\n"), 1) for literal in LITERAL.findall(line)
            for fault in words_of(name, number, literal)]


def sources() -> list[str]:
    found = [path for folder in SOURCES for ending in ("cpp", "hpp", "py") for path in (ROOT / folder).glob(f"**/*.{ending}")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def pages() -> list[str]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def main(arguments: list[str]) -> int:
    faults = [fault for name in arguments or pages() for fault in check(name, (ROOT / name).read_text(encoding="utf-8"))]
    if not arguments:
        faults += [fault for name in sources() for fault in check_literals(name, (ROOT / name).read_text(encoding="utf-8"))]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
