"""tools/properties itself: configs are the same for a seed, most are valid, and a run that breaks a property is found out."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

from orrery_properties import checks  # noqa: E402
from orrery_properties.command import Orrery  # noqa: E402
from orrery_properties.configs import WITH_FILES, Names, draw, within  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("ORRERY_COMMAND", ROOT / "build/release/orrery"))
CONFIG = {"system": "serving", "machine": {"devices": [{"part": "l40s", "count": 2}]}, "model": {"config": "catalog:llama-3.1-8b"},
          "workload": {"generator": {"requests": 30, "arrivals": {"policy": "fixed", "fixed": {"rate": "4 req/s"}},
                                     "lengths": {"policy": "uniform"}}}, "policies": {"admission": {"policy": "token_bucket",
                                     "token_bucket": {"rate": 2, "burst": 1}}}, "replica": {"max_context": 4096}}


class PropertiesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="orrery-properties-")
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = pathlib.Path(folder.name)
        cls.orrery = Orrery(PROGRAM, ROOT)
        cls.names = Names(cls.orrery, cls.scratch)
        cls.bench = checks.Bench(cls.orrery, cls.scratch / "runs", {"TZ": "Pacific/Chatham"})

    def run_of(self, config=CONFIG):
        ended, run = self.bench.once(self.bench.fresh("doctored"), config)
        self.assertIsNotNone(run, ended.err)
        return run

    def broken(self, check, file, old, new):
        """What a check says of a run in whose file a text was replaced."""
        run = self.run_of()
        path = run.folder / file
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1))
        with self.assertRaises(checks.Broken) as caught:
            checks.OF_ONE_RUN[check](checks.Run(run.folder))
        return str(caught.exception)

    def test_a_run_holds(self):
        config = {name: section for name, section in CONFIG.items() if name != "policies"}
        self.assertEqual([], self.bench.findings(config, checks.CHECKS))

    def test_what_is_doctored_is_found(self):
        rows = [row for row in self.run_of().requests if row["status"] == "completed"]
        row, first, second = rows[0], ",".join(rows[0].values()), ",".join(rows[1].values())
        late, long = {**row, "first_token_s": "0"}, {**row, "prompt_tokens": "1000000"}
        moved = {**row, "replica": "1"}
        self.assertIn("rows are", self.broken("conservation", "requests.csv", first + "\n", ""))
        self.assertIn("two rows", self.broken("conservation", "requests.csv", second, first))
        self.assertIn("arrived", self.broken("conservation", "summary.json", '"arrived": 30', '"arrived": 31'))
        self.assertIn("prompt tokens", self.broken("tokens", "requests.csv", first, ",".join(long.values())))
        self.assertIn("first_token", self.broken("order", "requests.csv", first, ",".join(late.values())))
        self.assertIn("KV peaks", self.broken("capacity", "summary.json", '"kv_peak": ', '"kv_peak": 9999'))
        self.assertIn("add up", self.broken("energy", "energy.csv", "l40s[1],norm,", "l40s[1],norm,1"))
        self.assertIn("of replicas", self.broken("replicas", "summary.json", '"iterations": ', '"iterations": 9'))
        self.assertIn("rows ended in replica", self.broken("replicas", "requests.csv", first, ",".join(moved.values())))
        self.assertIn("series.csv comes to", self.broken("power", "summary.json", '"total": ', '"total": 1'))
        self.assertIn("cached", self.broken("caches", "summary.json", '"cached_tokens": 0', '"cached_tokens": 1'))
        self.assertIn("without a reason", self.broken("reason", "summary.json", '"status": "ok"', '"status": "infeasible"'))

    def test_other_bytes_are_found(self):
        one = self.run_of()
        with self.assertRaisesRegex(checks.Broken, "csv differs, line"):
            self.bench.same("place", one, self.run_of({**CONFIG, "run": {"tick": "1 ms"}}), CONFIG)

    def test_a_seed_gives_the_same_configs(self):
        drawn = [[draw(self.names, 5, number) for number in range(40)] for _ in range(2)]
        self.assertEqual(*drawn)
        self.assertGreater(len({json.dumps(config) for config in drawn[0]}), 38)

    def test_most_configs_are_valid(self):
        self.bench.refused.clear()
        for number in range(25):
            self.assertEqual([], self.bench.findings(draw(self.names, 5, number), ["ends", "reason"]))
        self.assertLessEqual(sum(self.bench.refused.values()), 3, self.bench.refused)

    def test_everything_is_drawn(self):
        """Every policy that serving takes turns up in some config, but for those that want a file."""
        shown = json.dumps([draw(self.names, 6, number) for number in range(1500)])
        for kind, allowed in self.names.policies.values():
            for name in allowed:
                if (kind, name) not in WITH_FILES:
                    self.assertIn(f'"policy": "{name}"', shown, kind)
        for kind in ("arrivals", "host", "program", "lengths"):
            missing = [name for name in self.names.of_kind[kind] if f'"policy": "{name}"' not in shown]
            self.assertLessEqual(set(missing), {"empirical", "workflow_trace"})

    def test_ranges(self):
        self.assertTrue(within(3, "1 to 64") and within(0, ">= 0") and within(5, "any value") and within(5, "1 us to 3600 s"))
        self.assertFalse(within(0, "1 to 64") or within(0, "> 0"))


if __name__ == "__main__":
    unittest.main()
