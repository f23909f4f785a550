"""Any report: `load` what paths name, `render` it as one HTML page. What other programs call.

    from orrery_report import page
    text = page.render([page.load(Path("runs/a"))])            # a run, or a study's store: its report
    text = page.render(page.load_all(paths))                   # several runs, or several studies: side by side
    text = page.render(page.load_all(many))                    # more than MOST runs: a table, any figure against any

Both are pure: nothing is written, nothing is kept. Faults are InputError, which prints as one line.
"""

from __future__ import annotations

from pathlib import Path

from . import compare_page, run_folder, run_page, runs_table, studies_page, study_page, study_store
from .errors import InputError
from .markup import plotly_js
from .run_folder import Run
from .runs_table import Runs
from .study_store import Study

__all__ = ["load", "load_all", "plotly_js", "render"]
MOST = 6  # things side by side: more curves cannot be told apart


def load(path: Path, command: str | None = None) -> Run | Study:
    """What `path` names: the folder of a run, or the store of a study. `command` is the `orrery` to ask about studies
    (default: as orrery_plot.stores.command finds it)."""
    if path.is_file():
        return study_store.load(path, command)
    return run_folder.load(path)


def load_all(paths: list[Path], command: str | None = None) -> list[Run] | list[Study] | Runs:
    """The same of several: all runs or all studies. Of more runs than can be told apart their table."""
    files = [path for path in paths if path.is_file()]
    if files and len(files) < len(paths):
        folder = next(path for path in paths if not path.is_file())
        raise InputError(folder, f"a study's store like {files[0]}", "a run (runs and studies are not compared)")
    if len(paths) > MOST and files:
        raise InputError(paths[MOST], f"at most {MOST} studies side by side", f"{len(paths)}")
    seen: set[Path] = set()
    for i, path in enumerate(path.resolve() for path in paths):
        if path in seen:
            raise InputError(paths[i], "different runs or studies", "the same twice")
        seen.add(path)
    if files and len(files) > 1:
        return study_store.load_several(paths, command)
    if len(paths) > MOST:
        return runs_table.load(paths)
    return [load(path, command) for path in paths]


def render(things: Run | Study | Runs | list[Run] | list[Study], library: str | None = None) -> str:
    """The page: of one thing (alone or in a list) its report, of several their comparison. `library` is an
    address of plotly.js on the page's own host, or None to have it inside."""
    if isinstance(things, Runs):
        return runs_table.render(things, library)
    things = things if isinstance(things, list) else [things]
    first = things[0]
    if isinstance(first, Run):
        return run_page.render(first, library) if len(things) == 1 else compare_page.render(things, library)
    return study_page.render(first, library) if len(things) == 1 else studies_page.render(things, library)
