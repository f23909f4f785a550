"""The command line: `orrery_report RUN|STORE… [--out FILE] [--png DIR|no]`, or `orrery_report RUN --against LOG`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import interrupt
from .errors import InputError


def main(arguments: list[str]) -> int:
    """Writes the report and prints the paths of what it wrote; 0, or 2 if the input is at fault."""
    parser = argparse.ArgumentParser(prog="orrery report", description="Turn runs or studies into one HTML report; prints "
                                     "the path of every file written.")
    parser.add_argument("things", metavar="RUN|STORE", type=Path, nargs="+",
                        help="folders that `orrery run` wrote, or stores of studies; several are compared; for more "
                        "than six runs, any figure can be plotted against any other")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the HTML file (default: RUN/report.html, STORE.html beside "
                        "the store, compare.html for several, RUN/against.html with --against)")
    parser.add_argument("--png", metavar="DIR|no", nargs="?", help="folder for PNG figures (default for one run: RUN/png), or "
                        "`no` for none")
    parser.add_argument("--against", metavar="LOG", type=Path, help="compare the run with this request log instead: print the "
                        "comparison and write it as a page")
    parser.add_argument("--json", action="store_true", help="with --against: print JSON, and write no page without --out")
    parser.add_argument("--command", metavar="ORRERY", help="the program to ask about studies (default: $ORRERY_COMMAND, "
                        "or orrery on PATH)")
    options = parser.parse_args(arguments)
    try:
        if options.against:
            if len(options.things) > 1:
                raise InputError(options.things[1], "one run with --against", f"{len(options.things)}")
            compare(options.things[0], options.against, options.out, options.json)
            return 0
        for path in report(options.things, options.out, options.png, options.command):
            print(path)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def compare(folder: Path, log: Path, out: Path | None, as_json: bool) -> None:
    """Prints the run in `folder` beside a request log, as a table or as JSON, and writes the page of it."""
    import json

    from . import against

    ours, theirs = against.of_run(folder), against.of_log(log)
    result = against.compare(ours, theirs)
    print(json.dumps(result, indent=2) if as_json else against.text(result))
    file = out or (None if as_json else folder / "against.html")
    if file is not None:
        _write(file, against.page(result, (folder.resolve().name, ours), (log.name, theirs)))
        if not as_json:
            print(f"\n{file}")


def report(paths: list[Path], out: Path | None = None, png: str | None = None, command: str | None = None) -> list[Path]:
    """Writes the report of what `paths` name; the paths of its files."""
    # Imported here, so that --help and usage errors do not wait for pandas.
    from . import page

    things = page.load_all(paths, command)
    html_file = out or default_file(paths)
    _write(html_file, page.render(things))
    try:
        return [html_file, *_pictures(things, paths, png)]
    except OSError as error:
        raise InputError(error.filename or png, "a path that can be written", str(error.strerror)) from None


def _pictures(things: list, paths: list[Path], png: str | None) -> list[Path]:
    """The PNG figures: of a run unless told otherwise, of studies and of several where a folder is named."""
    if not isinstance(things, list):
        if png and png != "no":
            raise InputError(png, "no pictures of a table of runs", f"{len(paths)} runs")
        return []
    alone = len(things) == 1 and hasattr(things[0], "folder")
    if png == "no" or (png is None and not alone):
        return []
    from . import png as figures

    if alone:
        return figures.write(things[0], Path(png) if png else paths[0] / "png")
    if hasattr(things[0], "folder"):
        return figures.write_several(paths, Path(png))
    if not things[0].analysis:
        return []
    whole = {"objectives": list(things[0].objectives), **things[0].joint, "stores": [thing.analysis for thing in things]}
    return figures.write_studies(whole, Path(png))


def default_file(paths: list[Path]) -> Path:
    """Where the report goes if nobody says: into the run's folder, beside the store; of several, here."""
    if len(paths) > 1:
        return Path("compare.html")
    return paths[0].with_suffix(".html") if paths[0].is_file() else paths[0] / "report.html"


def _write(file: Path, text: str) -> None:
    """Writes under a temporary name first: a report that exists is whole. Throws InputError for a path that cannot be."""
    if file.is_dir():
        raise InputError(file, "a file to write", "a folder")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(file.name + ".part")
        with interrupt.raised():
            try:
                temporary.write_text(text, encoding="utf-8")
                temporary.replace(file)
            finally:
                temporary.unlink(missing_ok=True)  # of a page that could not be written, or is not wanted any more
    except OSError as error:
        raise InputError(error.filename or file, "a path that can be written", str(error.strerror)) from None
