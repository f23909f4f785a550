"""Tests of what runs of training jobs open on: a history with failures, intervals of checkpoints, calls on devices."""

from __future__ import annotations

import unittest

from made_up import RunFolderTest

from orrery_report import jobs, run_folder, run_page

# Ten steps of 10 s stay after a checkpoint; a failure at 150 s takes five more away.
EVENTS = """event,begin_s,end_s,node,component,steps,step_s,share
checkpoint,100,110,,,10,10,1
failure,160,160,3,GPU,10,10,1
recovery,160,200,3,GPU,10,10,1
end,300,300,,,20,10,1
"""
JOB = {"status": "ok", "job": {"step_s": 10, "wall_s": 300}, "ettr": {"mean": 0.6667}, "failures": {"all": 1},
       "time_share": {"productive": 0.6667, "slower": 0, "lost": 0.1667, "checkpoints": 0.0333, "recovery": 0.1333, "waiting": 0}}
INTERVALS = """interval_s,ettr,closed_form,published,lost,checkpoints,recovery
600,0.94,0.941,0.94,0.02,0.01,0.03
60,0.90,0.901,0.90,0.002,0.06,0.03
240,0.95,0.951,0.95,0.01,0.01,0.03
"""
CALLS = """iteration,call,what,begin_s,end_s,first,devices,critical
0,write,weights,0,1,0,4,1
0,write,generate,1,3,0,4,1
0,learn,train,3,8,0,2,1
0,judge,infer,3,4,2,2,0
"""


class JobsReportTest(RunFolderTest):
    def opened(self, summary: dict, **files: str) -> tuple[str, dict]:
        """(HTML, figures) that the run opens on."""
        self.write({"system": "training_job"}, summary, **files)
        return self.drawn(jobs.first)

    def test_a_job_opens_on_what_failures_leave(self):
        html, figures = self.opened(JOB, events=EVENTS)
        self.assertIn("66.7\N{NO-BREAK SPACE}% of 300 s went into productive steps; 1 failure.", html)
        ratio, speed, failed = figures["job"]["data"]
        # 100 s of steps by 110 s, by 160 s, by 200 s; 200 s of 300.
        self.assertEqual((ratio["x"], ratio["y"]), ([110, 160, 200, 300], [0.909091, 0.625, 0.5, 0.666667]))
        self.assertEqual((speed["x"], speed["y"]), ([0, 160, 200], [1, 0, 1]))
        self.assertEqual((failed["x"], failed["text"]), ([160], ["GPU"]))

    def test_its_shares_of_time_stand_beside(self):
        self.assertEqual([value for _, value, _ in jobs.time_parts(JOB)], [0.6667, 0, 0.1667, 0.0333, 0.1333, 0])
        self.assertEqual(jobs.time_parts({"status": "ok", "time_share": {"lost": 1}}), [])
        self.opened(JOB, events=EVENTS)
        self.assertIn("Where the time goes", run_page.render(run_folder.load(self.folder), "plotly.js"))

    def test_goodput_opens_on_intervals(self):
        html, figures = self.opened({"status": "ok", "ettr": {"mean": 0.95}}, intervals=INTERVALS)
        self.assertIn("A checkpoint every 4 min gives the most effective training time: 95.0\N{NO-BREAK SPACE}%.", html)
        line, points, lost, checkpoints, recovery = figures["intervals"]["data"]
        self.assertEqual((points["x"], points["y"]), ([1, 4, 10], [0.9, 0.95, 0.94]))
        self.assertEqual(line["y"], [0.901, 0.951, 0.941])
        self.assertEqual((lost["y"], checkpoints["y"], recovery["yaxis"]), ([0.002, 0.01, 0.02], [0.06, 0.01, 0.01], "y2"))

    def test_feedback_opens_on_its_devices(self):
        html, figures = self.opened({"status": "ok", "iteration_s": 8}, calls=CALLS)
        self.assertIn("An iteration takes 8", html)
        write, learn, judge, weights = figures["calls"]["data"]
        self.assertEqual((write["base"], write["x"], write["y"], write["width"]), ([1], [2], [2], [4]))
        self.assertEqual((learn["y"], judge["y"], judge["width"]), ([1], [3], [2]))
        self.assertEqual((weights["name"], weights["base"], weights["x"]), ("weight transfers", [0], [1]))
        self.assertEqual(judge["text"], ["judge, iteration 0, devices 2 to 3"])
        self.assertEqual(figures["calls"]["layout"]["yaxis"]["range"], [4, 0])

    def test_other_runs_open_as_before(self):
        self.assertEqual(self.opened({"status": "ok"}, events=EVENTS), ("", {}))

    def test_a_table_that_lacks_a_column_is_one_line(self):
        with self.assertRaisesRegex(Exception, "calls.csv"):
            self.opened({"status": "ok"}, calls="iteration,call\n0,write\n")


if __name__ == "__main__":
    unittest.main()
