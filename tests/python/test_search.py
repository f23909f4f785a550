"""Searches over Python functions, by ask and tell and by themselves."""

import json
import pathlib
import tempfile
import threading
import unittest

import orrery
from support import command, config

SPACE = {"x": {"range": [0, 4]}, "kind": ["a", "b"]}


def bowl(x, kind):
    """Least at x = 1 with kind a."""
    return {"cost": (x - 1) ** 2 + (kind == "b")}


class SearchTest(unittest.TestCase):
    def test_finds_the_best(self):
        for driver in ("tpe", "nsga2", "cma_es", {"policy": "annealing"}):
            found = orrery.search(bowl, SPACE, "cost", driver, evaluations=60, seed=1)
            self.assertEqual(len(found.points), 60)
            best = found.best(1).iloc[0]
            self.assertLess(best["cost"], 0.05, driver)
            self.assertEqual(best["kind"], "a")
            self.assertEqual(list(found.front.index), [found.best(1).index[0]])
        self.assertTrue(found.complete)
        self.assertIn("60 ok", repr(found))
        self.assertIn("<table", found._repr_html_())

    def test_same_for_any_number_of_threads(self):
        rows = [orrery.search(bowl, SPACE, "cost", "tpe", 40, seed=3, jobs=jobs).points for jobs in (1, 3)]
        self.assertTrue(rows[0].equals(rows[1]))

    def test_equals_a_study(self):
        """A driver proposes over a function what it proposes over experiments."""
        study = {
            "kind": "study", "version": 1, "base": config(10),
            "parameters": [{"name": "budget", "path": "policies.batching.sarathi.token_budget", "range": [64, 4096],
                            "type": "integer", "scale": "log"}],
            "measures": {"ttft": "ttft_s.p99"}, "objectives": [{"minimise": "ttft"}],
            "search": {"driver": {"policy": "hill_climbing"}, "budget": 20, "batch": 5, "seed": 7},
        }
        whole = orrery.Study(study).search()

        def run(budget):
            changes = {"policies.batching.sarathi.token_budget": budget}
            return {"ttft": orrery.run(study["base"], changes, tables=False)["ttft_s.p99"]}

        space = {"budget": {"range": [64, 4096], "type": "integer", "scale": "log"}}
        ours = orrery.search(run, space, "ttft", "hill_climbing", 20, seed=7, batch=5)
        self.assertEqual(list(ours.points["budget"]), list(whole.points["budget"]))
        self.assertEqual(list(ours.points["ttft"]), list(whole.points["ttft"]))

    def test_numbers_in_formulas_are_no_measures(self):
        objectives = [{"name": "score", "minimise": "cost + 1e5 * log(gain) + 2.E3 * x"}]
        self.assertEqual(orrery.Search(SPACE, objectives).measures, ["cost", "gain"])

    def test_ask_and_tell(self):
        search = orrery.Search(SPACE, {"cost": "minimise", "gain": "maximise"}, "random", evaluations=6,
                               limits=[{"value": "cost", "most": 2}], constraints=["x < 3"])
        self.assertEqual(search.measures, ["cost", "gain"])
        trials = search.ask(4)
        self.assertEqual([trial.id for trial in trials], [1, 2, 3, 4])
        self.assertLess(max(trial["x"] for trial in trials), 3)
        self.assertEqual(set(dict(trials[0])), {"x", "kind"})
        with self.assertRaisesRegex(RuntimeError, r"tell\(\) the results"):
            search.ask(1)
        search.tell(trials[2], {"cost": 1, "gain": 5})  # in any order
        search.tell(trials[0], {"cost": 3, "gain": 9})
        search.tell(trials[1], orrery.Infeasible("too large"))
        with self.assertRaisesRegex(RuntimeError, "does not wait"):
            search.tell(trials[0], {"cost": 3, "gain": 9})
        with self.assertRaisesRegex(TypeError, r"a dict of measures \(cost, gain\)"):
            search.tell(trials[3], 7)
        search.tell([trials[3]], [{"cost": 1.5}])  # a measure that is not there
        points = search.points
        self.assertEqual(list(points["status"]), ["ok", "infeasible", "ok", "failed"])
        self.assertEqual(points["reason"].iloc[1], "too large")
        self.assertIn("gain", points["reason"].iloc[3])
        self.assertEqual(points["violation"].iloc[0], 0.5)  # 3 against 2: half of the bound
        self.assertEqual(list(search.front.index), [3])  # the first breaks the limit
        last = search.ask(9)
        self.assertEqual(len(last), 2)  # six in all
        for trial in last:
            search.tell(trial, {"cost": 1, "gain": 1})
        self.assertEqual(search.ask(), [])

    def test_ask_while_points_are_out(self):
        """Results come in any order; what is proposed does not depend on it."""
        seen = []
        for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
            search = orrery.Search(SPACE, "cost", "bayesian", evaluations=20, batch=1, in_flight=4)
            out = search.ask(4)
            self.assertFalse(search.can_ask())
            with self.assertRaisesRegex(RuntimeError, "as many points are out as in_flight allows: .*point 1 first"):
                search.ask(1)
            told = 0
            while out:
                for trial in [out[place] for place in order if place < len(out)]:
                    search.tell(trial, bowl(**trial.parameters))
                    out.remove(trial)
                    told += 1
                    search.can_ask(3)  # changes nothing
                    out += search.ask() if search.can_ask() else []
            self.assertEqual(told, 20)
            self.assertEqual(search.ask(), [])
            seen.append(search.points)
        self.assertTrue(seen[0].equals(seen[1]))
        # A generation of two: what comes after it needs its results, in_flight or not.
        search = orrery.Search(SPACE, "cost", {"policy": "cma_es", "cma_es": {"population": 2}}, batch=1, in_flight=9)
        out = search.ask(2)
        with self.assertRaisesRegex(RuntimeError, "the driver 'cma_es' needs more results: .*point 1 first"):
            search.ask(1)
        self.assertFalse(search.can_ask())
        for trial in reversed(out):
            search.tell(trial, bowl(**trial.parameters))
        self.assertEqual(len(search.ask(1)), 1)

    def test_asked_for_by_fours(self):
        """As many as are asked for or none, so that points do not depend on when results are told; nor on a resumption."""
        with tempfile.TemporaryDirectory() as home:
            seen = []
            for step in (1, 4):
                store = pathlib.Path(home) / f"{step}.sqlite"
                for evaluations in (12, 24):  # a store of another budget is another study's
                    search = orrery.Search(SPACE, "cost", "tpe", evaluations=24, batch=1, in_flight=8, out=store)
                    out, told = [], 0
                    while told < evaluations and (out or search.can_ask(4)):
                        out += search.ask(4) if search.can_ask(4) else []
                        for trial in out[:step]:
                            search.tell(trial, bowl(**trial.parameters))
                        told += len(out[:step])
                        del out[:step]
                    search._commit()
                    told = 0
                    del search
                seen.append(orrery.Search(SPACE, "cost", "tpe", evaluations=24, batch=1, in_flight=8, out=store).points)
            self.assertEqual(len(seen[0]), 24)
            self.assertTrue(seen[0].equals(seen[1]))

    def test_small_spaces_end(self):
        """Fewer points than evaluations, some of them out."""
        space = {"a": [1, 2, 3], "b": ["x", "y", "z"]}
        for driver in ("grid", "random", "mcmc", "tpe", "bayesian"):
            found = orrery.search(lambda a, b: {"cost": a}, space, "cost", driver, 30, batch=1, in_flight=5)
            self.assertEqual(len(found.points), 9, driver)
            search = orrery.Search(space, "cost", driver, evaluations=30, batch=1, in_flight=5)
            out = []
            while search.can_ask() or out:
                out += search.ask() if search.can_ask() else []
                if out and not search.can_ask():
                    search.tell(out.pop(), {"cost": 1})
            self.assertEqual(len(search.points), 9, driver)
            self.assertFalse(search.can_ask())
            self.assertEqual(search.ask(), [])

    def test_told_in_any_order(self):
        """Where most proposals are known, the driver is asked again only once it has heard of something."""
        space = {"x": {"range": [0, 17], "type": "integer"}, "kind": ["a", "b"]}
        for driver in ("hill_climbing", "annealing", "mcmc", "genetic", "cma_es"):
            seen = []
            for place in (0, -1):
                search = orrery.Search(space, "cost", driver, evaluations=36, batch=1, in_flight=4)
                out = []
                while out or search.can_ask():
                    while search.can_ask():
                        more = search.ask()
                        out += more
                        if not more:
                            break
                    if out:
                        trial = out.pop(place)
                        search.tell(trial, bowl(**trial.parameters))
                seen.append(search.points)
            self.assertEqual(len(seen[0]), 36, driver)
            self.assertTrue(seen[0].equals(seen[1]), driver)
            self.assertTrue(seen[0].equals(orrery.search(bowl, space, "cost", driver, 36, batch=1, in_flight=4).points))

    def test_reasons_are_the_users(self):
        search = orrery.Search(SPACE, "cost", evaluations=3)
        for trial in search.ask():
            search.tell(trial, orrery.Infeasible("ended: no memory"))
        self.assertEqual(set(search.points["status"]), {"infeasible"})
        self.assertEqual(set(search.points["reason"]), {"ended: no memory"})

    def test_up_to_a_batch_is_a_batch(self):
        """in_flight counts beyond the batch, as in a study."""
        for driver in ("tpe", "annealing"):
            points = [orrery.search(bowl, SPACE, "cost", driver, 30, batch=8, in_flight=n).points for n in (0, 4, 8, 16)]
            self.assertTrue(points[0].equals(points[1]))
            self.assertTrue(points[0].equals(points[2]))
            self.assertFalse(points[0].equals(points[3]))

    def test_points_in_flight(self):
        """Those of the command, whatever the threads, and after an interruption."""
        with tempfile.TemporaryDirectory() as home:
            small = {"x": {"range": [0, 17], "type": "integer"}, "kind": ["a", "b"]}  # most proposals are known soon
            for driver, space in [(driver, space) for space in (SPACE, small) for driver in
                                  ("tpe", "bayesian", "genetic", "successive_halving", "beam", "hill_climbing",
                                   "annealing", "mcmc", "cma_es")]:
                if driver == "successive_halving" and space is small:
                    continue  # shares of a run make more points than the space has
                given = (space, "cost", driver, 30)
                through = orrery.search(bowl, *given, batch=1, in_flight=6)
                self.assertEqual(len(through.points), 30)
                threads = orrery.search(bowl, *given, batch=1, in_flight=6, jobs=3)
                self.assertTrue(threads.points.equals(through.points))
                calls = []

                def some(x, kind):
                    calls.append(x)
                    if len(calls) in (8, 20):
                        raise KeyboardInterrupt
                    return bowl(x, kind)

                store = pathlib.Path(home) / f"{driver}-{len(space['x'])}.sqlite"
                for _ in range(2):
                    with self.assertRaises(KeyboardInterrupt):
                        orrery.search(some, *given, batch=1, in_flight=6, out=store)
                found = orrery.search(some, *given, batch=1, in_flight=6, out=store)
                self.assertEqual(len(calls), 32)  # two of them ended by the interrupts
                self.assertTrue(found.points.equals(through.points), driver)

    def test_exceptions_are_results(self):
        def fails(x):
            if x < 1:
                raise ValueError("x is small")
            if x < 2:
                raise orrery.Infeasible("x is middling")
            return orrery.Infeasible("x is large") if x > 3 else {"cost": x}

        points = orrery.search(fails, {"x": {"range": [0, 4]}}, "cost", "sobol", 32).points
        for low, high, status, reason in ((0, 1, "failed", "ValueError: x is small"),
                                          (1, 2, "infeasible", "x is middling"), (2, 3, "ok", None),
                                          (3, 4, "infeasible", "x is large")):
            part = points[(points["x"] > low) & (points["x"] < high)]
            self.assertGreater(len(part), 2)
            self.assertEqual(set(part["status"]), {status})
            self.assertEqual(set(part["reason"]), {reason})

    def test_goes_on(self):
        """Stopped after any number of evaluations, the store takes it up and none is made twice."""
        with tempfile.TemporaryDirectory() as home:
            store, seen = pathlib.Path(home) / "s.sqlite", []

            def some(x, kind, most):
                if len(seen) == most:
                    raise KeyboardInterrupt
                seen.append(x)
                return bowl(x, kind)

            for most in (5, 13):
                with self.assertRaises(KeyboardInterrupt):
                    orrery.search(lambda x, kind, most=most: some(x, kind, most), SPACE, "cost", "tpe", 30, out=store)
            found = orrery.search(lambda x, kind: some(x, kind, -1), SPACE, "cost", "tpe", 30, out=store)
            self.assertEqual(len(seen), 30)
            through = orrery.search(bowl, SPACE, "cost", "tpe", 30)
            self.assertTrue(found.points.equals(through.points))
            said = command("best", store, "--json")  # a store as any other
            self.assertEqual(json.loads(said.stdout)["best"][0]["id"], found.best(1).index[0])
            self.assertEqual(found.analysis["stores"][0]["driver"], "tpe")

    def test_threads_run_side_by_side(self):
        meet = threading.Barrier(2, timeout=30)

        def together(x):
            meet.wait()
            return {"cost": x}

        found = orrery.search(together, {"x": {"range": [0, 1]}}, "cost", evaluations=8, jobs=2)
        self.assertEqual(len(found.points), 8)

    def test_conditions(self):
        """A parameter that does not count is not given."""
        seen = []

        def function(kind, width=None):
            seen.append((kind, width))
            return {"cost": width or 0}

        space = {"kind": ["plain", "wide"], "width": {"range": [1, 8], "type": "integer", "when": "kind == 'wide'"}}
        orrery.search(function, space, "cost", evaluations=9)
        self.assertTrue(all((width is None) == (kind == "plain") for kind, width in seen))
        self.assertIn(("plain", None), seen)

    def test_faults(self):
        """Pointers into what the caller wrote."""
        given = {"space": {"x": {"range": [0, 4]}}, "objectives": "cost"}
        for change, pointer, text in (
            ({"driver": "tpee"}, "/driver/policy", "did you mean 'tpe'"),
            ({"driver": {"policy": "tpe", "tpe": {"goood": 1}}}, "/driver/tpe/goood", "did you mean 'good'"),
            ({"space": {"x": {"rang": [0, 1]}}}, "/space/x", "'values', 'range'"),
            ({"space": {"x": {"range": [2, 1]}}}, "/space/x", "low <= high"),
            ({"space": [{"name": "x", "range": [0, "y"]}]}, "/space/0/range/1", "expected a number"),
            ({"space": {}}, "/space", "at least one parameter"),
            ({"objectives": []}, "/objectives", "at least one objective"),
            ({"objectives": [{"least": "cost"}]}, "/objectives/0", "'minimise' and 'maximise'"),
            ({"objectives": "cost +"}, "/objectives/0/minimise", "column 7"),
            ({"limits": [{"value": "cost"}]}, "/limits/0", "'most', 'least'"),
            ({"constraints": ["y > 1"]}, "/constraints/0", "y"),
            ({"evaluations": 0}, "/evaluations", "1 to"),
        ):
            with self.subTest(pointer), self.assertRaises(orrery.ConfigError) as caught:
                orrery.Search(**{**given, **change})
            fault = next(f for f in caught.exception.faults if f.pointer == pointer)
            self.assertIn(text, str(fault))


if __name__ == "__main__":
    unittest.main()
