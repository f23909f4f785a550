"""Tests of the report of graph runs, on made-up run folders."""

from __future__ import annotations

import json
import unittest

from made_up import RunFolderTest

from orrery_plot import units
from orrery_report import kernels

# Two equal products of 4 us each (peak 100 TFLOP/s, 1 TB/s), a pass of 1 us, a copy of 1 us: 10 us in all.
KERNELS = """id,op,class,device,call_s,start_s,end_s,flops,bytes,bound,peak_flops,bandwidth
0,"a,b",ffn_up,gpu,0,0.000001,0.000005,2e8,1e6,compute,1e14,1e12
1,c,ffn_up,gpu,0.000001,0.000005,0.000009,2e8,1e6,compute,1e14,1e12
2,<n>,norm,gpu,0.000002,0.000009,0.00001,0,5e5,memory,1e13,1e12
3,t,transfer,gpu,0.000003,0.00001,0.000011,0,0,,,
"""
SUMMARY = {"status": "ok", "simulated_s": 1.1e-5, "requests": {"completed": 1}, "energy_j": {"total": 1, "idle": 0.5}}


class KernelsReportTest(RunFolderTest):
    def setUp(self):
        super().setUp()
        self.write({"system": "graph"}, SUMMARY, kernels=KERNELS)

    def panel(self) -> tuple[str, dict]:
        return self.drawn(kernels.panel)

    def test_equal_kernels_are_one_mark_under_their_roofs(self):
        _, figures = self.panel()
        traces = {trace["name"]: trace for trace in figures["roofline"]["data"]}
        mark = traces["bound by compute"]
        self.assertEqual(mark["x"], [200.0])  # 2e8 FLOP of 1e6 B
        self.assertEqual(mark["y"], [50.0])  # in 4 us: 50 TFLOP/s
        self.assertEqual(mark["marker"]["size"], [round(7 + 40 * 0.8 ** 0.5, 1)])  # 8 of 10 us
        self.assertNotIn("bound by memory", traces)  # no FLOPs, no place
        roof = figures["roofline"]["data"][0]
        self.assertEqual((roof["x"][1], roof["y"][1:]), (100.0, [100.0, 100.0]))  # bends at 1e14 / 1e12 FLOP/B

    def test_the_table_says_what_takes_the_time_and_what_is_attained(self):
        page, _ = self.panel()
        # Products: 2 us each would do at the peak, of 4 (50 %). The pass: 0.5 us at 1 TB/s of 1 us (50 %). Copies have no roof.
        rows = [row.split("<td>") for row in page.split("<tbody>")[1].split("<tr>")[1:]]
        told = [[cell.split("<")[0] for cell in row[1:]] for row in rows]
        self.assertEqual([row[0] for row in told], ["2", "1", "1"])
        self.assertTrue(told[0][2].startswith("80") and told[0][3].startswith("50"), told[0])
        self.assertTrue(told[1][3].startswith("50"), told[1])
        self.assertEqual(told[2][3], units.MISSING)
        self.assertIn("20", page.split("<figcaption>")[1].split("</figcaption>")[0])  # 2 of 10 us have no place in the roofline

    def test_launches_wait_and_run(self):
        _, figures = self.panel()
        waits, products = figures["launches"]["data"][:2]
        self.assertEqual(waits["x"], [1.0, 4.0, 7.0, 7.0])  # us from call to start
        self.assertEqual((products["base"], products["x"]), ([1.0, 5.0], [4.0, 4.0]))
        self.assertIn("a,b", products["text"][0])
        self.assertIn("&lt;n&gt;", figures["launches"]["data"][2]["text"][0])

    def test_page_opens_on_launches_and_roofline(self):
        code, page, _ = self.report()
        self.assertEqual(code, 0)
        self.assertIn('data-figure="small-launches"', page)
        self.assertIn('data-figure="small-roofline"', page)
        self.assertTrue((self.folder / "png" / "roofline.png").is_file())

    def test_a_device_that_only_copies_has_no_roofline(self):
        # Copies take longest, over the link of another device than that which computes.
        (self.folder / "kernels.csv").write_text(KERNELS.replace("3,t,transfer,gpu,0.000003,0.00001,0.000011", "3,t,transfer,npu,0,0,1"))
        code, page, err = self.report()
        self.assertEqual((code, err), (0, ""))
        self.assertTrue((self.folder / "png" / "roofline.png").is_file())
        self.assertIn('data-figure="roofline"', page)
        only = KERNELS.split("\n")
        (self.folder / "kernels.csv").write_text("\n".join([only[0], only[4], ""]))
        (self.folder / "png" / "roofline.png").unlink()
        code, page, _ = self.report()
        self.assertEqual(code, 0)
        self.assertNotIn('data-figure="roofline"', page)
        self.assertFalse((self.folder / "png" / "roofline.png").exists())

    def test_another_system_has_no_such_tab(self):
        (self.folder / "manifest.json").write_text(json.dumps({"config": {"system": "launch"}}))
        self.assertEqual(self.panel()[0], "")

    def test_faults_are_one_line(self):
        for text in ("", "id\n0\n", KERNELS.replace("2e8", "much")):
            (self.folder / "kernels.csv").write_text(text)
            code, _, err = self.report()
            self.assertEqual((code, err.count("\n")), (2, 1), err)
            self.assertIn("kernels.csv: expected ", err)
        (self.folder / "kernels.csv").write_text(KERNELS.split("\n")[0] + "\n")
        self.assertIn("No kernels", self.report()[1])


if __name__ == "__main__":
    unittest.main()
