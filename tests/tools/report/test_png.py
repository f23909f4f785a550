"""The PNG figures of the report: of a network run, of runs beside each other, and of studies."""

import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tools" / "python")]

import synthetic_run  # noqa: E402
from orrery_report import png, run_folder  # noqa: E402


def trial(x: float, y: float) -> dict:
    return {"search": 0, "status": "ok", "feasible": True, "fidelity": 1, "units": [x / 4], "objectives": [x, y]}


ANALYSIS = {
    "objectives": [{"name": n, "label": n, "maximise": False} for n in ("f", "g")], "joint_volume": 4.0,
    "stores": [{"file": f"{name}.sqlite", "driver": "sweep", "trials": [trial(1, 3), trial(3, 1)],
                "parameters": [{"name": "a", "unit": "", "ticks": [[0, "0"], [1, "4"]]}],
                "searches": [{"hypervolume": [1.0, 4.0], "best_so_far": [[1, 1], [3, 1]]}],
                "analysis": {"front": [{"trial": k + 1, "objectives": o} for k, o in enumerate(([1, 3], [3, 1]))],
                             "objectives": [{"importance": {"parameters": []}}] * 2}} for name in ("one", "two")]}


class Png(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def names(self, written: list[Path]) -> list[str]:
        for path in written:
            self.assertEqual(path.read_bytes()[:4], b"\x89PNG", path)
        self.assertEqual({path.parent for path in written} - {self.folder / "png"}, set())
        return sorted(path.name for path in written)

    def test_runs_beside_each_other(self):
        runs = [synthetic_run.write_run(self.folder / name, requests=60, samples=30) for name in ("a", "b")]
        self.assertEqual(self.names(png.write_several(runs, self.folder / "png")),
                         ["energy_time.png", "latency_cdf.png", "over_time.png"])

    def test_what_one_of_them_lacks_is_not_drawn(self):
        runs = [synthetic_run.write_run(self.folder / name, requests=60, samples=30) for name in ("a", "b")]
        (runs[1] / "energy.csv").unlink()
        self.assertEqual(self.names(png.write_several(runs, self.folder / "png")), ["latency_cdf.png", "over_time.png"])

    def test_studies(self):
        self.assertEqual(self.names(png.write_studies(ANALYSIS, self.folder / "png")),
                         ["front.png", "history.png", "parallel-one.png", "parallel-two.png"])

    def test_a_network_run_has_its_topology(self):
        run = synthetic_run.write_run(self.folder / "net", requests=20, samples=10)
        for table in ("distributions", "series", "energy", "requests"):
            (run / f"{table}.csv").unlink()
        links = run / "links.csv"
        links.write_text("link,from,to,utilisation\n", encoding="utf-8")
        self.assertEqual(png.write(run_folder.load(run), self.folder / "png"), [])  # a closed form knows of no link
        links.write_text("link,from,to,utilisation\na->b,a,b,0.5\nb->a,b,a,0.1\n", encoding="utf-8")
        self.assertEqual(self.names(png.write(run_folder.load(run), self.folder / "png")), ["topology.png"])


if __name__ == "__main__":
    unittest.main()
