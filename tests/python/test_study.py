"""Studies from Python: the rows of the command, interrupted and gone on with, with policies as classes."""

import csv
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy
import orrery
from support import ROOT, command, config

SWEEP = ROOT / "experiments/studies/sweep_serving.json"


def study(**sections) -> dict:
    """Six points of a small serving experiment."""
    return {
        "kind": "study",
        "version": 1,
        "title": "Budgets and rates",
        "base": config(40),
        "parameters": [
            {"name": "budget", "path": "policies.batching.sarathi.token_budget", "values": [256, 512, 1024]},
            {"name": "rate", "path": "workload.rate_scale", "values": [1, 4]},
        ],
        "measures": {"ttft": "ttft_s.p99", "speed": "throughput.output_tokens_per_s"},
        "objectives": [{"minimise": "ttft"}, {"maximise": "speed"}],
        **sections,
    }


def long() -> dict:
    """One that takes minutes, a second a run."""
    return study(base=config(200_000, rate="8 1/s"), seeds={"count": 10})


def without_store(answer: dict) -> dict:
    """An analysis without the names of files and studies."""
    text = json.dumps(answer)
    for one in answer.get("stores", []):
        text = text.replace(one.get("file", "?"), "F").replace(f'"{one.get("study", "?")}"', '"S"')
    return json.loads(text)


class StudyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_search_begins_with_what_another_has(self):
        document = study() | {"search": {"driver": {"policy": "random"}, "budget": 2, "batch": 1}}
        swept = orrery.Study(document).sweep(jobs=2)
        more = orrery.Study(document).search(jobs=2, earlier=[swept])
        self.assertEqual(more.last["earlier"], len(swept.points))
        self.assertEqual(more.last["runs"], more.last["points"] - more.last["earlier"])

    def test_equals_the_command(self):
        """Rows, best points and analysis are those of `orrery sweep`, `best` and `analyse`, from file and from dict."""
        file = self.home / "study.json"
        file.write_text(json.dumps(study()))
        said = command("sweep", file, "--out", self.home / "cli.sqlite", "--quiet", "--json")
        self.assertEqual(said.returncode, 0, said.stderr)
        exported = command("export", self.home / "cli.sqlite").stdout
        ours = orrery.Study(file, out=self.home / "py.sqlite").run(jobs=2)
        self.assertEqual(ours.export(self.home / "py.csv").read_text(), exported)
        of_dict = orrery.Study(study()).run(jobs=1)
        self.assertEqual(of_dict.name, "study")
        self.assertEqual(of_dict.export(self.home / "dict.csv").read_text(), exported)
        rows = list(csv.DictReader(io.StringIO(exported)))
        self.assertEqual(list(ours.points["ttft"]), [float(row["ttft"]) for row in rows])
        self.assertEqual(ours.points["budget"].dtype, numpy.int64)
        best = json.loads(said.stdout)["best"]
        self.assertEqual(list(ours.front.index), [row["id"] for row in best])
        told = json.loads(command("analyse", self.home / "cli.sqlite", "--json").stdout)
        self.assertEqual(without_store(ours.analysis), without_store(told))
        lines = ours.export(self.home / "py.jsonl").read_text()
        self.assertEqual(lines, command("export", self.home / "cli.sqlite", "--format", "jsonl").stdout)

    def test_what_it_holds(self):
        ours = orrery.Study(study(), search={"budget": 4}, base={"workload": {"generator": {"requests": 20}}})
        self.assertEqual((repr(ours), ours.mode), ("<Study study: not run yet>", "search"))
        with self.assertRaisesRegex(RuntimeError, "nothing has run yet"):
            ours.points
        self.assertEqual(ours.sweep().last["points"], 6)
        self.assertTrue(ours.complete)
        kinds = {column.name: column.kind for column in ours.columns}
        self.assertEqual((kinds["budget"], kinds["ttft"], kinds["objective_speed"]),
                         ("parameter", "measure", "objective"))
        self.assertTrue((ours.points["status"] == "ok").all())
        self.assertIsNone(ours.points["reason"].iloc[0])
        self.assertIn("6 ok", repr(ours))
        self.assertIn("<table", ours._repr_html_())
        loaded = orrery.Study.load(ours.store)
        self.assertTrue(loaded.points.equals(ours.points))
        self.assertEqual(loaded.title, "Budgets and rates")
        with self.assertRaisesRegex(orrery.ConfigError, "was loaded from its store"):
            loaded.run()
        store = ours.store
        del ours, loaded
        self.assertFalse(store.exists())

    def test_best_of_one_objective(self):
        ours = orrery.Study(study(objectives=[{"minimise": "ttft"}])).run()
        best = ours.best(3)
        self.assertEqual(list(best["ttft"]), sorted(ours.points["ttft"])[:3])
        self.assertEqual(list(ours.front.index), [best.index[0]])

    def test_config_of_a_point(self):
        """Run again, a point gives the figures of its row; its config needs no file of the study's."""
        ours = orrery.Study(SWEEP, base={"workload": {"limit": 30}}, search={"budget": 4}).search()
        for point in (1, 4):
            again = orrery.run(ours.config(point), tables=False)
            self.assertEqual(again["ttft_s.p99"], ours.points["ttft"][point])
        with self.assertRaisesRegex(orrery.ConfigError, "a point from 1 to 4, got 5"):
            ours.config(5)

    def test_infeasible_is_a_row(self):
        models = {"name": "model", "path": "model.config", "values": ["catalog:llama-2-7b", "catalog:llama-3-70b"]}
        points = orrery.Study(study(parameters=[models])).run().points
        self.assertEqual(list(points["status"]), ["ok", "infeasible"])
        self.assertIn("GiB", points["reason"].iloc[1])

    def test_faults(self):
        """Those of the command, in the study and in its experiments."""
        file = self.home / "faulty.json"
        faulty = study(objectives=[{"minimise": "ttf"}], search={"driver": {"policy": "tpee"}})
        faulty["parameters"][0]["values"] = []
        file.write_text(json.dumps(faulty))
        said = command("sweep", file)
        self.assertEqual(said.returncode, 2)
        with self.assertRaises(orrery.ConfigError) as caught:
            orrery.Study(file)
        self.assertEqual([str(fault) for fault in caught.exception.faults], said.stderr.splitlines())
        with self.assertRaisesRegex(orrery.ConfigError, "study:/parameters/0/values"):
            orrery.Study(faulty)
        broken = orrery.Study(study(), base={"model": {"dtype": "fp17"}})
        with self.assertRaisesRegex(orrery.ConfigError, "/model/dtype"):
            broken.run()
        self.assertEqual(broken.validate()[0].pointer, "/model/dtype")
        self.assertEqual(orrery.Study(study()).validate(), [])
        with self.assertRaisesRegex(orrery.ConfigError, "unknown mode 'seach'.*did you mean 'search'"):
            orrery.Study(study()).run(mode="seach")

    def test_another_study(self):
        """A store of another study is refused; `force` begins anew."""
        out = self.home / "other.sqlite"
        orrery.Study(study(), out=out).run()
        other = study()
        other["parameters"].pop()
        with self.assertRaises(orrery.ConfigError):
            orrery.Study(other, out=out).run()
        self.assertEqual(len(orrery.Study(other, out=out).run(force=True).points), 3)


class Everything(orrery.Batching):
    """Whoever waits is admitted, whole."""

    def decide(self, view, out):
        step = orrery.BudgetStep(view, out, tokens=4096)
        step.run_running()
        for sequence in view.waiting:
            if not step.admit(sequence):
                break
        step.settle()


class Broken(Everything):
    def decide(self, view, out):
        if view.now_s > 2:
            raise ValueError("no idea")
        super().decide(view, out)


class PolicyTest(unittest.TestCase):
    def chosen(self, **options):
        """A policy in Python beside two of C++."""
        policies = {"name": "policy", "path": "policies.batching.policy", "values": ["python", "sarathi", "vllm_v1"]}
        return orrery.Study(study(parameters=[policies]), **options)

    def test_beside_others(self):
        points = self.chosen(batching=Everything).run(jobs=2).points
        self.assertEqual(list(points["status"]), ["ok"] * 3)
        alone = orrery.run(config(40), batching=Everything, tables=False)
        self.assertEqual(points["ttft"].iloc[0], alone["ttft_s.p99"])
        sarathi = orrery.run(config(40), {"policies.batching.policy": "sarathi"}, tables=False)
        self.assertEqual(points["ttft"].iloc[1], sarathi["ttft_s.p99"])

    def test_everywhere(self):
        points = orrery.Study(study(), batching=Everything).run(jobs=2).points
        self.assertEqual(points["ttft"].iloc[0], points["ttft"].iloc[2])  # the budget is another policy's

    def test_a_crash_is_a_failed_point(self):
        points = self.chosen(batching=Broken).run().points
        self.assertEqual(list(points["status"]), ["failed", "ok", "ok"])
        self.assertRegex(points["reason"].iloc[0], "policy Broken at 2.* s of simulated time: ValueError: no idea")

    def test_objects_are_refused(self):
        with self.assertRaisesRegex(TypeError, "every run has its own"):
            self.chosen(batching=Everything())
        with self.assertRaisesRegex(orrery.ConfigError, 'expected "serving"'):
            orrery.Study(ROOT / "experiments/studies/dram_controller.json", batching=Everything).sweep()


CHILD = f"""
import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import orrery, test_study
big = test_study.long()
study = orrery.Study(big, out=sys.argv[1])
print("begun", flush=True)
try:
    study.run(jobs=2)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


class InterruptTest(unittest.TestCase):
    def test_ctrl_c(self):
        """A study that would last for minutes stops within seconds, and leaves a store."""
        with tempfile.TemporaryDirectory() as home:
            store = home + "/long.sqlite"
            child = subprocess.Popen([sys.executable, "-c", CHILD, store], stdout=subprocess.PIPE, text=True)
            self.assertEqual(child.stdout.readline(), "begun\n")
            while not os.path.exists(store):
                time.sleep(0.05)
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.communicate(timeout=60)[0], "stopped\n")
            self.assertEqual(child.returncode, 0)
            self.assertFalse(orrery.Study.load(store).complete)

    def test_goes_on(self):
        """Stopped again and again by what a signal's handler raises, it gives the rows of one that ran through."""

        class Enough(Exception):
            pass

        def stop(*_):
            raise Enough

        document = study(base=config(1500), seeds={"count": 2})
        through = orrery.Study(document).run(jobs=2)
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, stop))
        with tempfile.TemporaryDirectory() as home:
            ours, stops = orrery.Study(document, out=home + "/s.sqlite"), 0
            while stops < 3:
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                try:
                    ours.run(jobs=2)
                    break
                except Enough:
                    stops += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            ours.run(jobs=2)
            self.assertTrue(ours.complete)
            self.assertTrue(ours.points.equals(through.points))

    def test_confirm(self):
        """The best points again, with seeds of their own, until it is known which is best."""
        document = {
            "kind": "study", "version": 1,
            "base": {
                "system": "serving",
                "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
                "model": {"config": "catalog:llama-2-7b"},
                "workload": {"generator": {"requests": 20, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
                                           "lengths": {"policy": "fixed", "fixed": {"prompt": 2000, "output": 8}}}},
                "policies": {"batching": {"policy": "sarathi"}},
                "run": {"timeline": {"enabled": False}},
            },
            "parameters": [{"name": "budget", "path": "policies.batching.sarathi.token_budget", "values": [128, 2048]}],
            "measures": {"ttft": "ttft_s.mean"},
            "objectives": [{"minimise": "ttft"}],
        }
        ours = orrery.Study(document).sweep(jobs=2)
        self.assertIn("best", ours.verdict)  # of a sweep: its best points
        confirmed = ours.confirm(2, confidence=0.9, jobs=2)
        verdict = confirmed.verdict
        self.assertTrue(verdict["decided"])
        self.assertEqual(verdict["confidence"], 0.9)
        self.assertEqual([one["standing"] for one in verdict["candidates"]], ["best", "worse"])
        self.assertEqual(verdict["candidates"][0]["parameters"], {"budget": 2048})
        self.assertEqual(verdict["runs"], len(confirmed.points))

    def test_lock_is_free(self):
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        try:
            orrery.Study(study(base=config(2000))).run(jobs=2)
        finally:
            stop.set()
            thread.join()
        self.assertGreater(counted[0], 20)


if __name__ == "__main__":
    unittest.main()
