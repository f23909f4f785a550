"""Writes or checks the SPDX document of a build."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    __package__ = "orrery_sbom"  # run as a folder

from orrery_sbom.document import document, faults, table  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/sbom", description="Writes what the command and the Python package are made of, with licences, as "
        "SPDX 2.3 in JSON. The same build on the same Debian packages gives the same bytes.")
    parser.add_argument("--orrery", type=pathlib.Path,
                        default=os.environ.get("ORRERY_COMMAND", ROOT / "build/release/orrery"),
                        help="the command (default: build/release/orrery)")
    parser.add_argument("--module", type=pathlib.Path, action="append", default=[],
                        help="further binaries: the Python module")
    parser.add_argument("--out", type=pathlib.Path, help="the document's file (default: stdout)")
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE",
                        help="tell what is wrong with a document; writes none")
    parser.add_argument("--table", action="store_true", help="print a table of packages by licence in its place")
    return parser.parse_args()


def main() -> int:
    options = parse()
    place = options.orrery.resolve().parent  # what it loads when it is asked for lies beside it, or is installed with it
    loaded = sorted([*place.glob("orrery_*.so"), *(place.parent / "lib/orrery").glob("orrery_*.so")])
    binaries = [options.orrery, *loaded, *options.module]
    try:
        if options.check:
            wrong = faults(json.loads(options.check.read_text(encoding="utf8")), ROOT, binaries)
            print("\n".join(wrong) or f"{options.check}: whole")
            return 1 if wrong else 0
        found = document(ROOT, binaries)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    text = table(found) if options.table else json.dumps(found, indent=1, ensure_ascii=False)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
