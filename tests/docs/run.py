#!/usr/bin/python3
"""Runs every command and snippet of the documentation, and checks its inline commands and links.

    ORRERY_COMMAND=build/release/orrery tests/docs/run.py [--slow] [--update] [--jobs N] [PAGE…]

`--slow` takes the pages that have slow blocks; `--update` writes into the pages what the commands print now. The
comments that say what to do with a block: tests/docs/README.md. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import re
import sys
import time

import blocks
import commands
from session import Session, Tally

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_SKIPPED = 40  # of all pages
MOST_BYTES = 40_000  # of a page of docs


def check_inline(page: blocks.Page) -> list[str]:
    """Commands in the text that are not there. Files: names.py."""
    found = []
    for line, text in blocks.inline_code(page):
        if re.match(r"^(\$ )?(build/release/)?orrery ", text):
            found += [f"{page.path}:{line}: {fault}: {text}" for fault in commands.faults(text.removeprefix("$ "))]
    return found


def check_links(page: blocks.Page) -> list[str]:
    """Links to files and headings that are not there."""
    found = []
    for line, target in blocks.links(page):
        if re.match(r"^(\w+:|//)", target):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page.path).parent / name if name else ROOT / page.path
        if not path.exists():
            found.append(f"{page.path}:{line}: link to {target}, which is not there")
        elif anchor and path.suffix == ".md" and anchor not in blocks.anchors(path.read_text(encoding="utf-8")):
            found.append(f"{page.path}:{line}: {name or 'the page'} has no heading #{anchor}")
    return found


def check_reached() -> list[str]:
    """Every page of docs is two clicks from docs/index.md at most."""
    def linked(name: pathlib.Path) -> set[pathlib.Path]:
        page = blocks.parse(ROOT, str(name.relative_to(ROOT)))
        targets = {(name.parent / target.partition("#")[0]).resolve() for _, target in blocks.links(page) if "://" not in target}
        return {target for target in targets if target.suffix == ".md" and target.is_relative_to(ROOT / "docs") and target.is_file()}

    start = ROOT / "docs/index.md"
    reached = linked(start) | {start}
    reached |= {page for name in reached.copy() for page in linked(name)}
    return [f"docs/index.md: {path.relative_to(ROOT)} is not within two clicks"
            for path in sorted((ROOT / "docs").glob("**/*.md")) if path not in reached]


def check_sizes() -> list[str]:
    """No page of docs is so long that nobody reads it."""
    return [f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}"
            for path in sorted((ROOT / "docs").glob("**/*.md")) if path.stat().st_size > MOST_BYTES]


def check_page(name: str, slow: bool, update: bool) -> Tally:
    page = blocks.parse(ROOT, name)
    if slow and not any(block.told("slow") is not None or block.told("slow from here") is not None for block in page.blocks):
        return Tally()
    tally = Session(ROOT, page, slow, update).run()
    if not slow:
        tally.faults += check_inline(page) + check_links(page)
    if tally.edits:
        rewrite(name, tally)
    return tally


def rewrite(name: str, tally: Tally) -> None:
    """Puts new outputs into the page, from the last to the first so that line numbers hold."""
    path = ROOT / name
    lines = path.read_text(encoding="utf-8").split("\n")
    for block, text in reversed(tally.edits):
        lines[block.line - 1 : block.last] = [(block.indent + line).rstrip() for line in text.rstrip("\n").split("\n")]
    path.write_text("\n".join(lines), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="default: all")
    parser.add_argument("--slow", action="store_true", help="pages with slow blocks, all of each")
    parser.add_argument("--update", action="store_true", help="write what commands print into the pages")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--times", action="store_true", help="say how long each page takes")
    arguments = parser.parse_args()
    names = arguments.pages or blocks.pages(ROOT)

    def one(name: str) -> tuple[str, Tally, float]:
        start = time.monotonic()
        return name, check_page(name, arguments.slow, arguments.update), time.monotonic() - start

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(one, names))
    skipped = [reason for _, tally, _ in results for reason in tally.skipped]
    faults = [fault for _, tally, _ in results for fault in tally.faults]
    if not arguments.pages and not arguments.slow:
        faults += check_reached() + check_sizes()
    if not arguments.pages and len(skipped) > MOST_SKIPPED:
        faults.append(f"{len(skipped)} blocks are skipped, more than {MOST_SKIPPED}")
    if arguments.times:
        for name, _, seconds in sorted(results, key=lambda result: -result[2])[:25]:
            print(f"{seconds:6.1f} s  {name}")
    for reason in skipped:
        print(f"skipped {reason}")
    for fault in faults:
        print(fault)
    ran, later = (sum(getattr(tally, field) for _, tally, _ in results) for field in ("ran", "later"))
    print(f"{len(results)} pages: {ran} blocks run, {later} slow ones left, {len(skipped)} skipped, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
