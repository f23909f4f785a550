#!/usr/bin/python3
"""Checks the words of pages: long sentences, and words that the field has a better one for.

    tests/docs/words.py [PAGE…]   # prints `file:line: what is wrong`; exit code 1 if anything is

Pages that somebody new reads first (README, learn, how-to) have shorter sentences than those that explain how a part
works. Code, links' targets, tables' cells and pages that are made from the program or from studies count differently:
code is a word, a cell is a sentence of its own, and made pages are checked for words alone.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST_ROOMS = ("README.md", "docs/index.md", "docs/learn/", "docs/how-to/")
MADE = ("docs/reference/", "docs/papers/")
MOST_WORDS = {True: 42, False: 52}  # of a sentence, by whether it is in the first rooms
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


def count(sentence: str) -> int:
    """Words of a sentence; code is one."""
    sentence = re.sub(r"`[^`]*`", "code", sentence)
    sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    return len(re.findall(r"[A-Za-z][\w'-]*", sentence))


def check(name: str, text: str) -> list[str]:
    """Faults of one page."""
    most = MOST_WORDS[name.startswith(FIRST_ROOMS)]
    found = []
    for line, piece in pieces(text):
        plain = re.sub(r"`[^`]*`", "", piece)
        for pattern, better in WORDS.items():
            hit = re.search(pattern, plain, re.I)
            if hit:
                found.append(f"{name}:{line}: '{hit.group(0)}': better {better}")
        if name.startswith(MADE):
            continue
        found += [f"{name}:{line}: a sentence of {count(one)} words, more than {most}: {one[:60]} …"
                  for one in sentences(piece) if count(one) > most]
    return found


def pages() -> list[str]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def main(arguments: list[str]) -> int:
    faults = [fault for name in arguments or pages() for fault in check(name, (ROOT / name).read_text(encoding="utf-8"))]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
