"""The command line: `orrery_report RUN [--out FILE] [--png DIR|no]`, or `orrery_report RUN --against LOG [--json]`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .errors import InputError


def main(arguments: list[str]) -> int:
    """Writes the report and prints the paths of what it wrote; 0, or 2 if the input is at fault."""
    parser = argparse.ArgumentParser(prog="orrery report", description="Turn a run folder into an HTML report and "
                                     "PNG figures; prints the path of every file written.")
    parser.add_argument("run", metavar="RUN", type=Path, help="a folder that `orrery run` wrote")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the HTML file (default: RUN/report.html)")
    parser.add_argument("--png", metavar="DIR|no", nargs="?", help="folder of the PNG figures (default: RUN/png), or "
                        "`no` for none")
    parser.add_argument("--against", metavar="LOG", type=Path, help="print the run beside this request log instead")
    parser.add_argument("--json", action="store_true", help="with --against: as JSON")
    options = parser.parse_args(arguments)
    try:
        if options.against:
            print(comparison(options.run, options.against, options.json))
            return 0
        for path in report(options.run, options.out, options.png):
            print(path)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def comparison(folder: Path, log: Path, as_json: bool) -> str:
    """The run in `folder` beside a request log, as a table or as JSON."""
    import json

    from . import against

    result = against.compare(against.of_run(folder), against.of_log(log))
    return json.dumps(result, indent=2) if as_json else against.text(result)


def report(folder: Path, out: Path | None = None, png: str | None = None) -> list[Path]:
    """Writes the report of the run in `folder`; the paths of its files."""
    # Imported here, so that --help and usage errors do not wait for pandas.
    from . import page, run_folder

    run = run_folder.load(folder)
    html_file = out or folder / "report.html"
    try:
        html_file.parent.mkdir(parents=True, exist_ok=True)
        _write(html_file, page.render(run))
        written = [html_file]
        if png != "no":
            from . import png as figures

            written += figures.write(run, Path(png) if png else folder / "png")
    except OSError as error:
        raise InputError(error.filename or html_file, "a path that can be written", str(error.strerror)) from None
    return written


def _write(file: Path, text: str) -> None:
    """Writes under a temporary name first: a report that exists is whole."""
    temporary = file.with_name(file.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)
