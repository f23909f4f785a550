"""Tests of the report of training runs, on made-up run folders."""

from __future__ import annotations

import unittest

import pandas as pd

from made_up import RunFolderTest

from orrery_plot import training as plots
from orrery_report import training

PASSES = """stage,chunk,micro_batch,kind,start_s,end_s
0,0,0,forward,0,1
1,0,0,forward,1,2
1,0,0,backward,2,4
0,0,0,backward,4,6
"""
STAGES = """stage,weight_bytes,gradient_bytes,optimizer_bytes,activation_bytes,working_bytes,buffer_bytes,passes_end_s,gradients_end_s,end_s
0,1073741824,1073741824,6442450944,2147483648,0,0,6,6.5,7.5
1,1073741824,1073741824,6442450944,1073741824,0,0,4,4,7
"""
KEPT = "stage,time_s,kept_bytes\n0,0,2147483648\n0,6,0\n1,1,1073741824\n1,4,0\n"
SUMMARY = {"status": "ok", "iteration_s": 7.5, "closed_form_s": 7.4, "tokens_per_s": 1000,
           "breakdown_s": {"compute": 3, "recompute": 0, "collectives": 1.5, "bubble": 1.5, "gradients": 0.5, "optimizer": 1},
           "energy_j": {"total": 100, "idle": 25}, "memory_bytes": {"peak": 10 << 30, "available": 80 << 30}}


class TrainingReportTest(RunFolderTest):
    def setUp(self):
        super().setUp()
        self.write({"system": "training"}, SUMMARY, passes=PASSES, stages=STAGES, activations=KEPT)

    def panel(self) -> tuple[str, dict]:
        return self.drawn(training.panel)

    def test_says_where_the_step_goes(self):
        code, page, _ = self.report()
        self.assertEqual(code, 0)
        for text in ("Where the step time goes", "bubble: waiting for other stages <b>1.50\N{NO-BREAK SPACE}s</b> 20.0\N{NO-BREAK SPACE}%",
                     "kernels and transfers <b>75\N{NO-BREAK SPACE}J</b>", "closed form 7.40\N{NO-BREAK SPACE}s"):
            self.assertTrue(text in page, text)  # the page is long
        self.assertNotIn("breakdown_s.compute", page[:page.index("Resolved configuration")])  # told once
        self.assertTrue((self.folder / "png" / "pipeline.png").stat().st_size > 5000)

    def test_draws_passes_at_their_time_and_what_follows_them(self):
        _, figures = self.panel()
        bars = {bar["name"]: bar for bar in figures["pipeline"]["data"]}
        self.assertEqual(list(bars), ["forward", "backward", "gradient reduction", "optimizer"])
        self.assertEqual((bars["backward"]["y"], bars["backward"]["base"], bars["backward"]["x"]), (["1", "0"], [2, 4], [2, 2]))
        self.assertEqual((bars["gradient reduction"]["base"], bars["gradient reduction"]["x"]), ([6, 4], [0.5, 0]))
        # The optimizer's step of every stage begins when the last sum ends.
        self.assertEqual((bars["optimizer"]["base"], bars["optimizer"]["x"]), ([6.5, 6.5], [1, 0.5]))

    def test_stacks_memory_up_to_what_a_device_has(self):
        _, figures = self.panel()
        parts = {bar["name"]: bar["x"] for bar in figures["memory"]["data"]}
        self.assertEqual(parts, {"weights": [1, 1], "gradients": [1, 1], "optimizer states": [6, 6], "activations": [2, 1]})
        self.assertEqual(figures["memory"]["layout"]["shapes"][0]["x0"], 80)
        kept = figures["activations"]["data"]
        self.assertEqual([(line["name"], line["y"]) for line in kept], [("stage 0", [2, 0]), ("stage 1", [1, 0])])

    def test_many_passes_are_drawn_at_both_ends(self):
        rows = [f"0,0,{i},forward,{i},{i + 1}" for i in range(training.MOST_PASSES + 100)]
        (self.folder / "passes.csv").write_text("stage,chunk,micro_batch,kind,start_s,end_s\n" + "\n".join(rows) + "\n")
        page, figures = self.panel()
        base = figures["pipeline"]["data"][0]["base"]
        self.assertEqual((len(base), base[0], base[-1]), (training.MOST_PASSES, 0, training.MOST_PASSES + 99))
        self.assertIn("The first and the last 3,000 of 6,100 passes", page)

    def test_thinning_keeps_the_highest(self):
        kept = pd.DataFrame({"time_s": range(1000), "kept_bytes": [i % 97 for i in range(1000)]}, index=range(5000, 6000))
        few = plots.thinned(kept, 50)
        self.assertEqual(len(few), 50)
        self.assertEqual(few["kept_bytes"].max(), 96)
        self.assertIs(plots.thinned(kept, 1000), kept)

    def test_a_run_without_them_says_so_and_a_fault_names_the_file(self):
        (self.folder / "stages.csv").unlink()
        self.assertIn("absent or empty", self.panel()[0])
        (self.folder / "passes.csv").write_text("stage\n0\n")
        code, _, err = self.report()
        self.assertEqual(code, 2)
        self.assertIn("passes.csv: expected columns stage,chunk,micro_batch,kind,start_s,end_s", err)


if __name__ == "__main__":
    unittest.main()
