"""Tests of what answers open on: the knee of a capacity, the front of plans."""

from __future__ import annotations

import unittest

from made_up import RunFolderTest

from orrery_plot import palette
from orrery_report import answers, run_folder, run_page

PROBES = """rate_per_s,rate_scale,meets,certain,replications,requests,load,spans,figure,mean,half_width,bound
2,1,1,1,2,100,steady,10,ttft_s.p99,0.3,0.05,1
2,1,1,1,2,100,steady,10,attainment,1,0,0.99
4,2,1,1,1,100,steady,10,ttft_s.p99,0.9,,1
4,2,1,1,1,100,steady,10,attainment,0.995,,0.99
5,2.5,0,1,1,100,steady,10,ttft_s.p99,1.2,,1
5,2.5,0,1,1,100,steady,10,attainment,0.98,,0.99
6,3,1,1,1,100,overloaded,10,ttft_s.p99,0.8,,1
6,3,1,1,1,100,overloaded,10,attainment,1,,0.99
"""
CAPACITY = {"status": "ok", "capacity_per_s": 4, "bracket_per_s": {"meets": 4, "fails": 5},
            "binds": {"text": "the queue grows"}}
# Of five plans one is infeasible; b is beaten by a in both, and c and d are the front's other points.
PLANS = """part,devices,tensor_parallel,status,e2e_s,energy_per_output_token_j,cost_per_million_tokens
x,1,1,ok,4,1,1
x,2,1,ok,5,1,2
y,2,2,ok,2,1,3
y,4,4,ok,1,1,8
y,8,8,infeasible,,,
"""


class AnswersReportTest(RunFolderTest):
    def opened(self, summary: dict, **files: str) -> tuple[str, dict]:
        """(HTML, figures) that the run opens on."""
        self.write({"system": "capacity"}, summary, **files)
        return self.drawn(answers.first)

    def test_a_capacity_opens_on_its_knee(self):
        html, figures = self.opened(CAPACITY, probes=PROBES)
        self.assertIn("4 requests/s meet the targets; 5 do not.</p><p>The queue grows.</p>", html)
        figure = figures["knee"]
        self.assertEqual(figure["layout"]["shapes"][0]["x0"], 4)
        self.assertEqual((figure["layout"]["shapes"][1]["x0"], figure["layout"]["shapes"][1]["x1"]), (4, 5))
        targets = [s["y0"] for s in figure["layout"]["shapes"] if s.get("xref") == "paper"]
        self.assertEqual(targets, [1, 0.99])
        self.assertEqual(figure["layout"]["yaxis"]["title"]["text"], "TTFT p99 (s)")
        self.assertEqual(figure["layout"]["yaxis2"]["title"]["text"], "attainment")

    def test_a_probe_has_one_verdict_and_overload_comes_first(self):
        _, figures = self.opened(CAPACITY, probes=PROBES)
        marks = {t["name"]: t for t in figures["knee"]["data"] if t["mode"] == "markers" and t["yaxis"] == "y"}
        self.assertEqual({name: t["x"] for name, t in marks.items()},
                         {"meets the targets": [2.0, 4.0], "overloaded: the queue grows": [6.0], "misses a target": [5.0]})
        self.assertEqual(marks["misses a target"]["marker"]["color"], palette.VERMILION)
        self.assertEqual(marks["meets the targets"]["error_y"]["array"], [0.05, 0.0])

    def test_no_rate_that_fails_is_said(self):
        html, figures = self.opened({**CAPACITY, "bracket_per_s": {"meets": 4, "fails": None}, "binds": None}, probes=PROBES)
        self.assertIn("4 requests/s meet the targets; every rate tried meets them.", html)
        self.assertEqual([s["type"] for s in figures["knee"]["layout"]["shapes"]], ["line", "line", "line"])

    def test_plans_open_on_the_front(self):
        html, figures = self.opened({"status": "ok", "currency": "USD"}, plans=PLANS)
        self.assertIn("4 of 5 plans are feasible.", html)
        front, first, second = figures["front"]["data"]
        self.assertEqual(list(zip(front["x"], front["y"])), [(1, 8), (2, 3), (4, 1)])
        self.assertEqual((first["name"], first["x"], second["name"], second["x"]), ("x", [4, 5], "y", [2, 1]))
        self.assertEqual(second["text"][0], "devices 2, tensor parallel 2")
        self.assertEqual(figures["front"]["layout"]["yaxis"]["title"]["text"], "cost per million tokens (USD)")

    def test_a_cost_that_is_the_same_for_all_is_not_drawn(self):
        same = PLANS.replace(",1\n", ",7\n").replace(",2\n", ",7\n").replace(",3\n", ",7\n").replace(",8\n", ",7\n")
        _, figures = self.opened({"status": "ok"}, plans=same)
        self.assertEqual(figures["front"]["layout"]["yaxis"]["title"]["text"], "devices")

    def test_memory_is_in_its_unit(self):
        plans = "devices,iteration_s,memory_bytes\n8,2,21474836480\n8,3,10737418240\n"
        _, figures = self.opened({"status": "ok"}, plans=plans)
        self.assertEqual(figures["front"]["layout"]["yaxis"]["title"]["text"], "memory per device (GiB)")
        self.assertEqual(figures["front"]["data"][0]["y"], [20, 10])

    def test_other_runs_open_as_before(self):
        html, figures = self.opened({"status": "ok"}, other="a,b\n1,2\n")
        self.assertEqual((html, figures), ("", {}))
        page = run_page.render(run_folder.load(self.folder), "plotly.js")
        self.assertNotIn('"knee"', page)

    def test_a_table_that_is_none_is_one_line(self):
        with self.assertRaisesRegex(Exception, "plans.csv"):
            self.opened({"status": "ok"}, plans="")


if __name__ == "__main__":
    unittest.main()
