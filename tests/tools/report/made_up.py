"""A made-up run folder for tests of reports: its files, the report of it, and what a tab of it holds."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "python"))

from orrery_report import cli, run_folder  # noqa: E402
from orrery_report.markup import Sheet  # noqa: E402


class RunFolderTest(unittest.TestCase):
    """`self.folder` is an empty folder, which goes with the test."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, config: dict, summary: dict, **tables: str) -> None:
        """Makes it a run of the config; `tables`: texts of CSV files by name."""
        (self.folder / "manifest.json").write_text(json.dumps({"config": config}))
        (self.folder / "summary.json").write_text(json.dumps(summary))
        for name, text in tables.items():
            (self.folder / f"{name}.csv").write_text(text)

    def report(self) -> tuple[int, str, str]:
        """(exit code, page, stderr) of `orrery report`."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([str(self.folder)])
        page = self.folder / "report.html"
        return code, page.read_text(encoding="utf-8") if page.exists() else "", err.getvalue()

    def drawn(self, panel: Callable) -> tuple[str, dict]:
        """(HTML, figures) that `panel(run, sheet)` makes."""
        sheet = Sheet()
        return panel(run_folder.load(self.folder), sheet), sheet.figures
