"""Tests of many runs as one table."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools" / "python"))

from orrery_report import cli, page, runs_table  # noqa: E402
from orrery_report.errors import InputError  # noqa: E402


class RunsTableTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def runs(self, count: int = 8, **more) -> list[Path]:
        folders = []
        for i in range(count):
            folder = self.root / "deep" / f"r{i}" if i else self.root / "r0"
            folder.mkdir(parents=True)
            config = {"system": "serving", "machine": {"devices": [{"part": "x" if i % 2 else "y", "clock": f"{1 + i} GHz"}]},
                      "run": {"seed": 1}, **more}
            (folder / "manifest.json").write_text(json.dumps({"config": config}))
            summary = {"status": "ok", "ttft_s": {"p99": 0.1 * i}, "throughput": {"output_tokens_per_s": 100 + i, "fixed": 3},
                       "leap": i % 2 == 0, "only_last": 5} if i == count - 1 else \
                {"status": "ok", "ttft_s": {"p99": 0.1 * i}, "throughput": {"output_tokens_per_s": 100 + i, "fixed": 3}, "leap": i % 2 == 0}
            (folder / "summary.json").write_text(json.dumps(summary))
            folders.append(folder)
        return folders

    def test_a_row_a_run_and_a_column_a_figure_or_setting_that_differs(self):
        columns = page.load_all(self.runs()).table.columns
        self.assertEqual(columns["run"].tolist()[:2], ["r0", "deep/r1"])
        np.testing.assert_allclose(columns["ttft_s.p99"], [0.1 * i for i in range(8)])
        self.assertEqual(columns["config.machine.devices.0.part"].tolist(), ["y", "x"] * 4)
        np.testing.assert_allclose(columns["config.machine.devices.0.clock"], [1e9 * (1 + i) for i in range(8)])  # quantities are SI
        self.assertEqual(columns["leap"].tolist()[:2], ["yes", "no"])
        self.assertTrue(np.isnan(columns["only_last"][:7]).all() and columns["only_last"][7] == 5)
        for same in ("throughput.fixed", "config.run.seed", "system"):
            self.assertNotIn(same, columns)

    def test_it_opens_on_throughput_against_latency_coloured_by_what_differs(self):
        html = page.render(page.load_all(self.runs()), "plotly.js")
        self.assertIn('data-x="throughput.output_tokens_per_s" data-y="ttft_s.p99" data-by="config.machine.devices.0.part"', html)
        self.assertIn("8 runs", html)

    def test_the_newest_of_many(self):
        folders = self.runs()
        before = runs_table.MOST_ROWS
        try:
            runs_table.MOST_ROWS = 3
            table = runs_table.load(folders).table
        finally:
            runs_table.MOST_ROWS = before
        self.assertEqual((table.kept, table.total), (3, 8))

    def test_the_command_takes_more_than_six(self):
        folders = self.runs()
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(cli.main([*map(str, folders), "--out", str(self.root / "t.html")]), 0)
            self.assertEqual(cli.main([*map(str, folders), "--out", str(self.root / "u.html"), "--png", str(self.root / "p")]), 2)
        self.assertIn("no pictures of a table of runs", err.getvalue())
        self.assertTrue((self.root / "t.html").stat().st_size > 1_000_000)  # plotly.js is inside

    def test_a_folder_that_is_no_run_is_one_line(self):
        folders = self.runs()
        (folders[3] / "summary.json").unlink()
        with self.assertRaisesRegex(InputError, "r3/summary.json: expected a file, got none"):
            page.load_all(folders)
        self.assertEqual(runs_table.load(folders, skip=True).table.kept, 7)


if __name__ == "__main__":
    unittest.main()
