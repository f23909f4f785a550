"""Makes, saves and runs the notebooks; `tools/notebook` calls it. Data goes to stdout, logs to stderr."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys
import time

from orrery_notebooks import FOLDER, convert, names, running

ROOT = FOLDER.parents[1]


def _path(name: str) -> pathlib.Path:
    """The .ipynb of a shipped notebook by its name or number, or the file that is named."""
    if pathlib.Path(name).suffix == ".ipynb":
        if pathlib.Path(name).is_file():
            return pathlib.Path(name)
    else:
        for known in names():
            if name in (known, known.split("_")[0]):
                return FOLDER / f"{known}.ipynb"
    raise SystemExit(f"tools/notebook: no notebook '{name}' (there are: {', '.join(names())})")


def _build() -> None:
    for name in names():
        notebook = convert.to_notebook((FOLDER / f"{name}.py").read_text())
        (FOLDER / f"{name}.ipynb").write_text(convert.to_json(notebook))
    print(f"made {len(names())} notebooks in {FOLDER}", file=sys.stderr)


def _save(name: str) -> None:
    path = _path(name)
    text = convert.to_text(json.loads(path.read_text()))
    (FOLDER / f"{path.stem}.py").write_text(text)
    path.write_text(convert.to_json(convert.to_notebook(text)))
    print(FOLDER / f"{path.stem}.py")


def _html(notebook: dict, out: pathlib.Path) -> None:
    from nbconvert import HTMLExporter

    out.write_text(HTMLExporter(template_name="classic").from_notebook_node(notebook)[0])


def _run(name: str, html: str | None, out: str | None) -> int:
    import nbformat
    from nbclient.exceptions import CellExecutionError

    path = _path(name)
    began = time.time()
    try:
        notebook = running.execute(convert.to_notebook(convert.to_text(json.loads(path.read_text()))))
    except CellExecutionError as error:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        print(f"tools/notebook: {path.stem} failed\n{plain}", file=sys.stderr)
        return 1
    place = pathlib.Path(out) if out else ROOT / "runs/notebooks" / f"{path.stem}.ipynb"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(nbformat.writes(notebook) + "\n")
    print(f"{path.stem}: {time.time() - began:.1f} s, {len(running.images(notebook))} figures", file=sys.stderr)
    print(place)
    if html:
        _html(notebook, pathlib.Path(html))
        print(html)
    return 0


def _images(out: str) -> None:
    """The last figure of every notebook, as docs/learn/notebooks.md shows it."""
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        notebook = running.execute(convert.to_notebook((FOLDER / f"{name}.py").read_text()))
        place = folder / f"{name}.png"
        place.write_bytes(running.images(notebook)[-1])
        print(place)


def _jupyter() -> None:
    folder = running.kernel_folder(ROOT / "build/notebook")
    here = os.environ.get("JUPYTER_PATH")
    os.environ["JUPYTER_PATH"] = f"{folder}{os.pathsep}{here}" if here else str(folder)
    root = ["--allow-root"] if os.geteuid() == 0 else []
    os.execv(sys.executable, [sys.executable, "-m", "notebook", f"--notebook-dir={FOLDER}", "--ip=127.0.0.1", *root])


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/notebook", description="Opens the notebooks in Jupyter, or runs one.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="names of the notebooks")
    what.add_argument("--run", metavar="NAME", help="run one without a browser: its name, its number or a file")
    what.add_argument("--build", action="store_true", help="make each .ipynb from its .py")
    what.add_argument("--save", metavar="NAME", help="make the .py of an .ipynb that was edited, and drop its outputs")
    what.add_argument("--images", metavar="DIR", help="write the last figure of each (docs/notebooks)")
    parser.add_argument("--html", metavar="OUT", help="with --run: also a page to read")
    parser.add_argument("--out", metavar="IPYNB", help="with --run: where it goes (default runs/notebooks)")
    given = parser.parse_args()
    if given.list:
        print("\n".join(names()))
    elif given.run:
        return _run(given.run, given.html, given.out)
    elif given.build:
        _build()
    elif given.save:
        _save(given.save)
    elif given.images:
        _images(given.images)
    else:
        _jupyter()
    return 0


if __name__ == "__main__":
    sys.exit(main())
