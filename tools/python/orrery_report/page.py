"""Any report: `load` what paths name, `render` it as one HTML page. What other programs call.

    from orrery_report import page
    text = page.render([page.load(Path("runs/a"))])            # a run, or a study's store: its report
    text = page.render([page.load(p) for p in paths])          # several runs, or several studies: side by side

Both are pure: nothing is written, nothing is kept. Faults are InputError, which prints as one line.
"""

from __future__ import annotations

from pathlib import Path

from . import compare_page, run_folder, run_page, studies_page, study_page, study_store
from .errors import InputError
from .markup import plotly_js
from .run_folder import Run
from .study_store import Study

__all__ = ["load", "load_all", "plotly_js", "render"]
MOST = 6  # things side by side: more curves cannot be told apart


def load(path: Path, command: str | None = None) -> Run | Study:
    """What `path` names: the folder of a run, or the store of a study. `command` is the `orrery` to ask about studies
    (default: as orrery_plot.stores.command finds it)."""
    if path.is_file():
        return study_store.load(path, command)
    return run_folder.load(path)


def load_all(paths: list[Path], command: str | None = None) -> list[Run] | list[Study]:
    """The same of several: all runs or all studies, not more than can be told apart."""
    files = [path for path in paths if path.is_file()]
    if files and len(files) < len(paths):
        folder = next(path for path in paths if not path.is_file())
        raise InputError(folder, f"a study's store like {files[0]}", "a run (runs and studies are not compared)")
    if len(paths) > MOST:
        raise InputError(paths[MOST], f"at most {MOST} runs or studies side by side", f"{len(paths)}")
    resolved = [path.resolve() for path in paths]
    for i, path in enumerate(resolved):
        if path in resolved[:i]:
            raise InputError(paths[i], "different runs or studies", "the same twice")
    if files and len(files) > 1:
        return study_store.load_several(paths, command)
    return [load(path, command) for path in paths]


def render(things: Run | Study | list[Run] | list[Study], library: str | None = None) -> str:
    """The page: of one thing (alone or in a list) its report, of several their comparison. `library` is an
    address of plotly.js on the page's own host, or None to have it inside."""
    things = things if isinstance(things, list) else [things]
    first = things[0]
    if isinstance(first, Run):
        return run_page.render(first, library) if len(things) == 1 else compare_page.render(things, library)
    return study_page.render(first, library) if len(things) == 1 else studies_page.render(things, library)
