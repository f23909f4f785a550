"""`orrery analyse --png`: which figures there are, and what they show."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORRERY = sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "tools" / "python"))

from orrery_plot import outcomes, parameters  # noqa: E402
from orrery_plot.studies import names_of  # noqa: E402

TOY = ROOT / "experiments" / "studies" / "search_toy.json"
ALL = ["front", "history", "importance", "interactions", "parallel"]


def trial(x, y, feasible=True, status="ok"):
    return {"search": 0, "status": status, "feasible": feasible and status == "ok", "fidelity": 1, "units": [0.25, None],
            "objectives": [x, y] if status == "ok" else []}


def store(trials, front):
    """A store as the command describes it; `front`: places of trials."""
    rows = [{"trial": k + 1, "objectives": trials[k]["objectives"]} for k in front]
    importance = {"trials": len(trials), "explained": 0.5, "interactions": [{"first": "a", "second": "b", "share": 0.2}],
                  "parameters": [{"parameter": "a", "main_effect": 0.1, "permutation": 0.4},
                                 {"parameter": "b", "main_effect": 0.6, "permutation": 0.9}]}
    ticks = [[0.25, "low"], [0.75, "high"]]
    return {"file": "runs/s.sqlite", "study": "s", "driver": "sweep", "trials": trials,
            "parameters": [{"name": n, "unit": "B", "ticks": ticks} for n in "ab"],
            "searches": [{"hypervolume": [None, 2.0, 3.0], "best_so_far": [[None, 4, 1], [2, 2, 2]]},
                         {"hypervolume": [1.0, 2.0], "best_so_far": [[3, 3], [5, 5]]}],
            "analysis": {"front": rows, "objectives": [{"importance": importance}, {"importance": {"parameters": []}}]}}


OBJECTIVES = [{"name": "f", "label": "f (ttft_s.p99)", "maximise": False}, {"name": "g", "label": "g", "maximise": True}]
TRIALS = [trial(1, 1), trial(2, 3), trial(3, 2), trial(1, 9, feasible=False), trial(0, 0, status="failed")]


class Figures(unittest.TestCase):
    def test_front_shows_every_point_once_and_joins_the_best(self):
        axes = outcomes.front([store(TRIALS, [0, 1])], ["s"], OBJECTIVES).axes[0]
        self.assertEqual({c.get_label(): len(c.get_offsets()) for c in axes.collections},
                         {"over a limit": 1, "feasible": 1, "front, 2 points": 2})
        self.assertEqual(list(axes.lines[0].get_xdata(orig=True)), [1, 2])
        self.assertEqual(axes.lines[0].get_drawstyle(), "steps-post")  # f is minimised: to the right as good as before
        self.assertEqual(axes.get_xlabel(), "f: P99 TTFT (s), minimised")
        self.assertEqual(axes.get_ylabel(), "g, maximised")
        self.assertIsNone(outcomes.front([store(TRIALS, [0])], ["s"], OBJECTIVES[:1]))

    def test_history_is_the_median_over_searches(self):
        figure = outcomes.history([store(TRIALS, [0, 1])], ["s"], {"objectives": OBJECTIVES, "joint_volume": 4.0})
        volume, best = figure.axes[0].lines[0].get_ydata(), figure.axes[1].lines[0].get_ydata()
        self.assertEqual(list(volume[1:]), [50.0, 62.5])  # of 4: medians of 2 and 2, of 3 and the 2 it ended with
        self.assertTrue(volume[0] != volume[0])  # one search has nothing yet
        self.assertEqual(list(best[1:]), [3.5, 2.0])

    def test_bars_and_cells_are_shares(self):
        figure = parameters.importance(store(TRIALS, [0, 1]), OBJECTIVES)
        self.assertEqual([round(bar.get_width()) for bar in figure.axes[0].patches], [10, 60, 40, 90])
        self.assertEqual([t.get_text() for t in figure.axes[0].get_yticklabels()], ["a", "b"])  # most important on top
        heat = parameters.interactions(store(TRIALS, [0, 1]), OBJECTIVES).axes[0]
        self.assertIn("20", [t.get_text() for t in heat.texts])

    def test_a_forest_that_explains_nothing_says_nothing_of_parameters(self):
        known = store(TRIALS, [0, 1])
        for explained, drawn in ((0.5, True), (0.0, False), (-0.3, False), (None, False)):
            known["analysis"]["objectives"][0]["importance"]["explained"] = explained
            self.assertEqual(parameters.importance(known, OBJECTIVES) is not None, drawn)
            self.assertEqual(parameters.interactions(known, OBJECTIVES) is not None, drawn)

    def test_numbers_have_prefixes_and_units(self):
        goals = [{"name": "f", "label": "f (memory_bytes.peak)", "maximise": False}, {"name": "g", "label": "g", "maximise": True}]
        trials = [trial(2**31, 2e6), trial(2**32, 3e6), trial(2**33, 1e6)]
        axes = outcomes.front([store(trials, [0, 1])], ["s"], goals).axes[0]
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("f: memory peak (GiB), minimised", "g (M), maximised"))
        self.assertEqual(list(axes.lines[0].get_xdata(orig=True)), [2, 4])
        progress = outcomes.history([store(trials, [0, 1])], ["s"], {"objectives": goals, "joint_volume": None})
        self.assertEqual([panel.get_ylabel() for panel in progress.axes], ["f: memory peak (B)", "g"])  # 1 to 5, as made up
        known = store(trials, [0, 1])
        known["parameters"] = [{"name": "clock", "unit": "Hz", "ticks": [[0, "1.8e+09"], [1, "2e+09"]]},
                               {"name": "memory", "unit": "", "ticks": [[0, "1200 GB/s"], [1, "os"], [0.5, "250000"]]}]
        texts = {t.get_text().replace("\N{NO-BREAK SPACE}", " ") for t in parameters.parallel(known, goals).axes[0].texts}
        self.assertLessEqual({"1.8 GHz", "2 GHz", "1.2 TB/s", "os", "250 k", "2", "8", "3"}, texts)
        self.assertEqual([t for t in texts if t.replace(",", "").replace(".", "").isdigit() and float(t.replace(",", "")) > 1e5], [])

    def test_parallel_coordinates_have_a_line_a_feasible_point(self):
        axes = parameters.parallel(store(TRIALS, [0, 1]), OBJECTIVES).axes[0]
        lines = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 4]
        self.assertEqual(len(lines), 3)
        self.assertEqual(list(lines[1]), [0.25, parameters.ABSENT, 0.0, 0.0])  # the front comes last, on top
        self.assertIsNone(parameters.parallel(store(TRIALS[3:], []), OBJECTIVES))

    def test_stores_of_one_file_name_keep_apart(self):
        self.assertEqual(names_of([{"file": "a/s.sqlite"}, {"file": "b/s.sqlite"}, {"file": "t.sqlite"}]),
                         ["s-1", "s-2", "t"])


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def orrery(self, *arguments):
        done = subprocess.run([ORRERY, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_all_figures_of_one_store_and_of_two(self):
        one, two = self.folder / "one.sqlite", self.folder / "two.sqlite"
        self.orrery("search", TOY, "--out", one, "--quiet", "--set", "search.budget=60")
        self.orrery("sweep", TOY, "--out", two, "--quiet")
        self.orrery("analyse", one, "--png", self.folder / "a")
        self.assertEqual(sorted(p.name for p in (self.folder / "a").iterdir()), [f"{name}.png" for name in ALL])
        self.orrery("analyse", one, two, "--png", self.folder / "b")
        own = [f"{name}-{store}" for name in ALL[2:] for store in ("one", "two")]
        self.assertEqual(sorted(p.stem for p in (self.folder / "b").iterdir()), sorted(ALL[:2] + own))
        for path in (self.folder / "b").iterdir():
            self.assertEqual(path.read_bytes()[:4], b"\x89PNG")
            self.assertGreater(path.stat().st_size, 5000)

    def test_json_says_what_the_text_says(self):
        one = self.folder / "one.sqlite"
        self.orrery("sweep", TOY, "--out", one, "--quiet")
        found = json.loads(self.orrery("analyse", one, "--json"))
        self.assertEqual([o["name"] for o in found["objectives"]], ["f1", "f2"])
        front = found["stores"][0]["analysis"]["front"]
        self.assertIn(f"front: {len(front)} points", self.orrery("analyse", one))


if __name__ == "__main__":
    unittest.main()
