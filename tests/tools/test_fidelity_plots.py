"""`orrery fidelity --points` and `--png`: every row in the file, a figure a folder, all points in a panel."""

import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORRERY = sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "tools" / "python"))


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


class FidelityPlots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data, self.out = pathlib.Path(folder.name) / "data", pathlib.Path(folder.name) / "out"
        products = "".join(f"fp16,{m},4096,4096,{20 + m / 8}\n" for m in (1, 16, 128, 1024))
        write(self.data, "gemm/a100.csv", "dtype,m,n,k,time_us\n" + products)
        write(self.data, "npu/tpu_x.csv", "m,n,k,scalesim_cycles,measured_us\n128,128,512,2039,2.4\n")

    def fidelity(self, *arguments):
        return subprocess.run([ORRERY, "fidelity", str(self.data), *arguments], capture_output=True, text=True)

    def test_points_hold_every_row(self):
        points = self.out.with_suffix(".csv")
        self.assertEqual(self.fidelity("--points", str(points)).returncode, 0)
        with open(points, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([r["row"] for r in rows if r["table"] == "gemm/a100.csv"], ["1", "2", "3", "4"])
        self.assertEqual({r["metric"] for r in rows if r["table"] == "npu/tpu_x.csv"}, {"time", "cycles"})
        self.assertTrue(all(float(r["predicted"]) > 0 for r in rows))

    def test_one_figure_a_folder(self):
        done = self.fidelity("--png", str(self.out))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["gemm.png", "npu.png"])
        for path in self.out.iterdir():
            self.assertEqual(path.read_bytes()[:4], b"\x89PNG")
            self.assertGreater(path.stat().st_size, 5000)

    def test_a_panel_shows_all_rows_however_many_regimes_there_are(self):
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        import pandas as pd
        from matplotlib.collections import PathCollection
        from orrery_fidelity.__main__ import panel

        points = pd.DataFrame({"measured": range(1, 21), "predicted": range(1, 21),
                               "regimes": [f"r{i:02d}" for i in range(20)]})
        figure, axes = plt.subplots()
        panel(axes, points, "many")
        dots = [c for c in axes.collections if isinstance(c, PathCollection)]
        self.assertEqual(sum(len(c.get_offsets()) for c in dots), 20)
        self.assertEqual(axes.get_legend().get_texts()[-1].get_text(), "others")
        plt.close(figure)

    def test_a_file_that_cannot_be_written_is_one_line(self):
        done = self.fidelity("--points", str(self.out / "no" / "such" / "points.csv"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main()
