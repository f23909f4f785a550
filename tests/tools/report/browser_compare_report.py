"""Several runs and several studies side by side, and the runs of every system, from the built command, in a browser."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from pages import STUDIES, Pages, orrery
from orrery_report import figure_ways

FAST = {"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
        "model": {"config": "catalog:llama-2-7b"},
        "workload": {"limit": 60, "trace": {"path": str(STUDIES.parents[1] / "traces/samples/chat-2000.csv"), "format": "orrery_csv"}},
        "slo": {"ttft": "2 s", "tbt": "100 ms"}}


def base_of(name: str) -> dict:
    """What a study or an experiment that ships runs; files that it names are found from anywhere."""
    document = json.loads((STUDIES / f"{name}.json").read_text())
    config = document if document["kind"] == "experiment" else document["base"]
    if isinstance(config, str):
        config = {"base": config}
    if isinstance(config.get("base"), str):
        config["base"] = str(STUDIES / config["base"])
    return config


class Compared(Pages):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.scratch = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="orrery-report-")))
        (cls.scratch / "fast.json").write_text(json.dumps(FAST))
        for name, change in (("a", "run.seed=1"), ("b", "workload.rate_scale=8"), ("c", "model.config=catalog:llama-2-70b")):
            orrery("run", "fast.json", "--set", change, "--out", name, "--quiet", cwd=cls.scratch)
        for name, driver in (("x", "nsga2"), ("y", "random")):
            orrery("search", STUDIES / "search_toy.json", "--set", f"search.driver.policy={driver}", "--set", "search.budget=60",
                   "--set", "search.repeats=2", "--out", f"{name}.sqlite", "--quiet", cwd=cls.scratch)

    def test_runs_side_by_side(self) -> None:
        done = orrery("report", "a", "b", cwd=self.scratch)
        self.assertEqual(done.stdout, "compare.html\n")
        found = self.tour(self.scratch / "compare.html")
        self.assertEqual(list(found), ["overview", "latency", "time", "energy", "config"])
        self.assertGreaterEqual(found["latency"]["latency"], 2 * 5)  # a curve a run and metric
        self.assertGreaterEqual(found["time"]["time"], 2 * 5)
        first, second = (json.loads((self.scratch / name / "summary.json").read_text()) for name in "ab")
        row = self.page.run("""return [...document.querySelectorAll('#figures-table tbody tr')]
            .filter(r => r.cells[0].textContent === arguments[0]).map(r => [r.cells[2].textContent, r.cells[2].innerHTML])[0]""",
                            "ttft_s.p99")
        share = 100 * (second["ttft_s"]["p99"] / first["ttft_s"]["p99"] - 1)
        self.assertGreater(share, 0)  # eight times the load
        self.assertIn(f"+{share:.0f}", row[0].replace(",", "").replace(f"+{share:.1f}", f"+{share:.0f}"))
        self.assertIn('class="delta worse"', row[1])
        differs = self.page.run("return [...document.querySelectorAll('#config table:not(details table) tbody tr')].map(r => r.innerText)")
        self.assertEqual(differs, ["workload.rate_scale\t1\t8"])
        self.page.click("#tab-overview")
        # What is 0 in both is counted below the table and not in it.
        both = figure_ways.figures(first).keys() | figure_ways.figures(second).keys()
        rows = self.page.run("return [...document.querySelectorAll('#figures-table tbody th[scope=row]')].map(h => h.textContent)")
        values = [[figure_ways.figures(run).get(path) for run in (first, second)] for path in both]
        zeros = sum(0 in pair and not any(pair) for pair in values)
        self.assertIn(f"{zeros} figures are left out here", self.page.run("return document.getElementById('overview').innerText"))
        self.assertNotIn("kv.evicted_blocks", rows)
        shown = "return [...document.querySelectorAll('#figures-table tbody tr')].filter(r => r.offsetHeight).length"
        before = self.page.run(shown)
        self.page.click("[data-only]")
        self.assertLess(self.page.run(shown), before)
        self.quiet()

    def test_figures_of_a_run_stay_in_their_box_without_scrolling(self) -> None:
        orrery("report", "a", cwd=self.scratch)
        self.tour(self.scratch / "a" / "report.html")
        for width in (1400, 420):
            self.page.resize(width, 900)
            self.page.open((self.scratch / "a" / "report.html").as_uri())
            over = self.page.run("return [...document.querySelectorAll('table.figures')].map(t => t.parentElement.scrollWidth - t.parentElement.clientWidth)")
            self.assertEqual(over, [0], width)

    def test_every_panel_of_latencies_has_labels(self) -> None:
        """The TPOT of a run spans so little that 1, 2 and 5 lie outside."""
        orrery("report", "a", "b", "--out", "ticks.html", cwd=self.scratch)
        self.page.open((self.scratch / "ticks.html").as_uri() + "#latency")
        self.page.wait(self.DRAWN)
        labels = self.page.run("""const plot = document.getElementById('plot-latency');
            return ['', 2, 3, 4, 5].map(n => plot.querySelectorAll(`.x${n}tick`).length)""")
        self.assertTrue(all(n >= 3 for n in labels), labels)

    def test_an_infeasible_run_beside_others(self) -> None:
        orrery("report", "a", "c", "b", "--out", "three.html", cwd=self.scratch)
        self.tour(self.scratch / "three.html", (1366,))
        self.page.click("#tab-overview")
        self.assertIn("config llama-2-70b, rate scale 1 is infeasible", self.page.run("return document.getElementById('overview').innerText"))
        self.page.click("#tab-latency")
        self.assertIn("No such data in config llama-2-70b, rate scale 1.", self.page.run("return document.getElementById('latency').innerText"))

    def test_studies_side_by_side(self) -> None:
        orrery("report", "x.sqlite", "y.sqlite", "--out", "studies.html", cwd=self.scratch)
        found = self.tour(self.scratch / "studies.html")
        self.assertEqual(list(found), ["overview", "front", "progress", "study"])
        self.assertGreater(found["front"]["front-0-1"], 30)
        analysis = json.loads(orrery("analyse", "x.sqlite", "y.sqlite", "--json", cwd=self.scratch).stdout)
        text = self.page.run("return document.getElementById('overview').textContent")
        for store in analysis["stores"]:
            self.assertIn(f"{store['of_joint_front']} of {analysis['joint_front']}", text)
        # The last search that reached half of the joint volume says so in the table of attainment.
        self.assertIn("(2 of 2)", self.page.run("return document.getElementById('progress').textContent"))

    def test_every_system_has_a_page_that_says_something(self) -> None:
        expected = {"dram_controller": [], "space_hls": [], "space_pim": [], "search_toy": [],
                    "ring_all_reduce": ["table-flows", "table-jobs", "table-links"], "apex": ["table-plans"],
                    "skip_batch_sweep": ["energy", "table-points", "table-series"], "space_npu": ["kernels", "energy", "table-kernels", "table-requests"]}
        for name, tabs in expected.items():
            (self.scratch / f"{name}.json").write_text(json.dumps(base_of(name)))
            orrery("run", f"{name}.json", "--out", name, "--quiet", cwd=self.scratch)
            orrery("report", name, "--png", "no", cwd=self.scratch)
            found = self.tour(self.scratch / name / "report.html")  # nothing is cut or outside its box, on a telephone too
            self.assertEqual(list(found), ["overview", *tabs, "config"], name)
            for tab in tabs:
                if tab not in ("table-flows", "table-jobs"):  # no flows there, one job
                    self.assertGreater(sum(found[tab].values()), 0, (name, tab))
            summary = json.loads((self.scratch / name / "summary.json").read_text())
            figures = [path for path, value in figure_ways.figures(summary).items() if path != "status"]
            self.assertGreater(len(figures), 0)
        self.page.open((self.scratch / "ring_all_reduce" / "report.html").as_uri())
        self.assertIn("ui.perfetto.dev", self.page.run("return document.getElementById('overview').innerText"))

    def test_many_runs_grouped_by_a_setting(self) -> None:
        names = []
        for part in ("a100-sxm4-80gb", "h100-sxm5-80gb"):
            for seed in range(1, 5):
                names.append(f"m-{part[:4]}-{seed}")
                orrery("run", "fast.json", "--set", f"machine.devices.0.part={part}", "--set", f"run.seed={seed}",
                       "--set", "workload.limit=20", "--out", names[-1], "--quiet", cwd=self.scratch)
        orrery("report", *names, "--out", "many.html", cwd=self.scratch)
        self.page.open((self.scratch / "many.html").as_uri())
        drawn = "return document.querySelector('[data-explorer] .js-plotly-plot') !== null"
        self.page.wait(drawn, limit_s=20)
        self.page.run("""const at = (name) => [...document.querySelectorAll('.explorer label')].find((l) => l.textContent.startsWith(name)).querySelector('select');
            at('y').value = 'ttft_s.p99'; at('colour by').value = ''; at('group by').value = 'config.machine.devices.0.part';
            at('group by').dispatchEvent(new Event('change'))""")
        self.page.wait("return document.querySelectorAll('.grouped tbody tr').length === 2", limit_s=20)
        rows = self.page.run("return [...document.querySelectorAll('.grouped tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
        self.assertEqual([row[:2] for row in rows], [["catalog:a100-sxm4-80gb", "4"], ["catalog:h100-sxm5-80gb", "4"]])
        marks = self.page.run("return document.querySelector('[data-explorer] .js-plotly-plot').data.map((t) => [t.x.length, t.y])")
        self.assertEqual((len(marks), marks[0][0]), (1, 2))
        self.assertGreater(marks[0][1][0], marks[0][1][1])  # the A100 takes longer
        values = [json.loads((self.scratch / name / "summary.json").read_text())["ttft_s"]["p99"] for name in names[:4]]
        unit = 1000 if marks[0][1][0] > 1 else 1  # drawn in ms
        self.assertAlmostEqual(marks[0][1][0], unit * sum(values) / 4, delta=1e-4 * marks[0][1][0])
        self.page.resize(420, 900)
        self.fits("runs in groups on a telephone")
        self.quiet()

    def test_a_broken_table_of_another_system_is_one_line(self) -> None:
        (self.scratch / "dram.json").write_text(json.dumps(base_of("dram_controller")))
        orrery("run", "dram.json", "--out", "dram", "--quiet", cwd=self.scratch)
        (self.scratch / "dram" / "odd.csv").write_text("a,b\n1,2\n1,2,3\n")
        done = orrery("report", "dram", cwd=self.scratch, code=2)
        self.assertEqual(done.stderr, "dram/odd.csv:3: expected 2 fields, got 3\n")
        self.assertFalse((self.scratch / "dram" / "report.html").exists())


class Ways(unittest.TestCase):
    def test_which_way_is_better(self) -> None:
        for path, way in (("ttft_s.p99", -1), ("slo.attainment", 1), ("slo.goodput_per_s", 1), ("energy_j.total", -1),
                          ("throughput.output_tokens_per_s", 1), ("requests.rejected", -1), ("requests.arrived", 0),
                          ("simulated_s", 0), ("memory_bytes.peak", -1), ("memory_bytes.weights", 0), ("utilisation.mfu", 1),
                          ("events", 0), ("eval_return.p50", 1), ("makespan_s", -1), ("latency_s.mean", -1), ("cycles", -1),
                          ("capacity_per_s", 1), ("kv.hit_rate", 1), ("row_hit_rate", 1), ("gain", 1), ("commands.reads", 0)):
            self.assertEqual(figure_ways.direction(path), way, path)


if __name__ == "__main__":
    unittest.main()
