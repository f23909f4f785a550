"""Writes docs/reference, or with --check says which pages differ (exit code 1)."""

from __future__ import annotations

import argparse
import pathlib
import sys

import pages

ROOT = pathlib.Path(__file__).resolve().parents[3]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/make_reference", description=__doc__)
    parser.add_argument("--command", default=str(ROOT / "build/release/orrery"), help="the command that is described")
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    made = pages.make(arguments.command, ROOT)
    folder = ROOT / "docs/reference"
    folder.mkdir(exist_ok=True)
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    differ = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    if arguments.check:
        for name in differ:
            print(f"docs/reference/{name} is not what the command declares: run tools/make_reference", file=sys.stderr)
        return 1 if differ else 0
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in there.keys() - made.keys():
        (folder / name).unlink()
    print(f"{len(made)} pages in docs/reference, {len(differ)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
