"""A scratch folder with a made-up run in it, and the report of it made in this process."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tools" / "python")]

import synthetic_run  # noqa: E402
from orrery_report import cli  # noqa: E402


def run_cli(*arguments: object) -> tuple[int, list[str], str]:
    """(exit code, lines of stdout, stderr) of a report made in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([str(argument) for argument in arguments])
    return code, out.getvalue().splitlines(), err.getvalue()


class Folder(unittest.TestCase):
    """A test with a scratch folder and a run in it."""

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="orrery-report-")
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.run_folder = self.scratch / "run"

    def small(self, **options: object) -> Path:
        return synthetic_run.write_run(self.run_folder, **({"requests": 120, "samples": 40} | options))

    def edit_json(self, name: str, change: dict) -> None:
        file = self.run_folder / name
        file.write_text(json.dumps(json.loads(file.read_text()) | change))

    def html(self) -> str:
        code, _, err = run_cli(self.run_folder, "--png", "no")
        self.assertEqual((code, err), (0, ""))
        return (self.run_folder / "report.html").read_text(encoding="utf-8")

    def figures(self) -> dict:
        found = re.search(r'<script type="application/(json|gzip)"[^>]* id="figures">(.*?)</script>', self.html(), re.DOTALL)
        return json.loads(found[2] if found[1] == "json" else gzip.decompress(base64.b64decode(found[2])))
