"""Stores into Optuna's storages, and its best trials as first guesses."""

import importlib.util
import pathlib
import tempfile
import unittest

import orrery

HERE = importlib.util.find_spec("optuna") is not None


def space(first=()):
    """f1 = 4 x^2 + 4 y^2, f2 = (x - 5)^2 + (y - 5)^2, two limits; a choice of texts and one of quantities that change nothing."""
    return {
        "kind": "study", "version": 1,
        "base": {"system": "function", "workload": {"function": "bnh", "point": {"x": 1, "y": 1}}},
        "parameters": [
            {"name": "x", "path": "workload.point.x", "range": [0, 5]},
            {"name": "y", "path": "workload.point.y", "range": [0, 3]},
            {"name": "size", "path": [], "values": ["1 MiB", "2 MiB"]},
            {"name": "kind", "path": [], "values": ["a", "b"]},
            {"name": "wait", "path": [], "range": ["1 s", "2 s"], "when": "kind == 'a'"},
        ],
        "measures": {"f1": "f1", "f2": "f2", "g1": "limits.g1"},
        "objectives": [{"minimise": "f1"}],
        "limits": [{"name": "far", "value": "f2", "most": 30}],
        "search": {"driver": {"policy": "random"}, "budget": 40, "first": list(first)},
    }


class OptunaTest(unittest.TestCase):
    @unittest.skipUnless(HERE, "the package optuna is not installed (tools/setup optional)")
    def test_there_and_back(self):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with tempfile.TemporaryDirectory() as folder:
            storage = f"sqlite:///{pathlib.Path(folder) / 'optuna.db'}"
            ours = orrery.Study(space()).search(jobs=2)
            theirs = orrery.to_optuna(ours, storage, "bnh")
            self.assertEqual(len(theirs.trials), 40)
            best = ours.best(1).iloc[0]
            # Its best is ours: it knows the limit by the constraints, which it does not count in best_trial.
            meeting = [trial for trial in theirs.trials if trial.system_attrs["constraints"][0] <= 0]
            self.assertEqual(min(trial.value for trial in meeting), best["f1"])
            self.assertLess(len(meeting), 40)
            trial = min(meeting, key=lambda one: one.value)
            self.assertEqual(trial.params["x"], best["x"])
            self.assertEqual(trial.user_attrs["f2"], best["f2"])
            self.assertEqual(trial.user_attrs["point"], ours.best(1).index[0])
            self.assertIn(trial.params["size"], ("1 MiB", "2 MiB"))
            self.assertEqual("wait" in trial.params, trial.params["kind"] == "a")
            # Its samplers go on there.
            again = optuna.load_study(storage=storage, study_name="bnh")
            asked = again.ask({name: dist for one in again.trials for name, dist in one.distributions.items()})
            self.assertTrue(0 <= asked.params["x"] <= 5)
            # Back: the best three are our first points, and the first of them our best so far.
            first = orrery.first_from_optuna(storage, "bnh", 3)
            self.assertEqual(len(first), 3)
            for one in first:
                if "wait" in one:
                    self.assertTrue(one["wait"].endswith(" s"))
            onwards = orrery.Study(space(first)).search(jobs=2)
            self.assertEqual(onwards.points.iloc[0]["x"], best["x"])
            self.assertEqual(onwards.points.iloc[0]["f1"], best["f1"])

    def test_quantities(self):
        self.assertEqual(orrery._orrery.quantity("8 MiB"), (8388608.0, "B"))
        self.assertIsNone(orrery._orrery.quantity("sarathi"))

    @unittest.skipIf(HERE, "the package optuna is installed")
    def test_without_optuna(self):
        with self.assertRaisesRegex(orrery.ConfigError, "tools/setup optional"):
            orrery.first_from_optuna("sqlite:///nowhere.db", "x")


if __name__ == "__main__":
    unittest.main()
