"""Router traces and experts: what Python says is what the command says."""

import json
import pathlib
import tempfile
import unittest

import numpy
import orrery
from support import ROOT, command

SAMPLE = ROOT / "traces/samples/router-1024.csv"


class RouterTraceTest(unittest.TestCase):
    def test_facts(self):
        trace = orrery.RouterTrace(SAMPLE)
        self.assertEqual((len(trace), trace.layers, trace.experts, trace.top_k, trace.context),
                         (1024, [0, 1, 2, 3], 128, 8, 512))
        first = trace.choices(2)[0]
        line = SAMPLE.read_text().splitlines()[2 + 2 * 1024]
        self.assertEqual("2," + "".join(f"{expert:02x}" for expert in first), line)
        self.assertEqual(trace.choices().dtype, numpy.uint16)
        self.assertIn("1024 tokens, 4 layers, 8 of 128", repr(trace))
        told = json.loads(command("trace", "inspect", SAMPLE, "--json").stdout)
        self.assertEqual(trace.profile["srp_m16"].tolist(), [layer["srp_m16"] for layer in told["layers"]])
        # Reuse counted here: the share of a token's experts that the next one has.
        choices = [set(row) for row in trace.choices().tolist()]
        again = sum(len(a & b) for a, b in zip(choices, choices[1:], strict=False)) / (8 * 1023)
        self.assertAlmostEqual(trace.profile.loc[0, "reuse_lag1"], again)

    def test_caches_and_placements(self):
        trace = orrery.RouterTrace(SAMPLE)
        told = json.loads(command("experts", "cache", SAMPLE, "--cache", "lru,segment", "--slots", "16,64", "--set",
                                  "segment.tokens=4", "--look-up", "request", "--json").stdout)
        frame = trace.caches(["lru", "segment"], [16, 64], look_up="request", segment={"tokens": 4})
        self.assertEqual(frame.to_dict("records"), told["caches"])
        told = json.loads(command("experts", "place", SAMPLE, "--gpus", "4", "--json").stdout)
        self.assertEqual(trace.placements(gpus=4).to_dict("records"), told["policies"])
        with self.assertRaisesRegex(orrery.ConfigError, "128 slots do not share out over 7 GPUs"):
            trace.placements(gpus=7)
        with self.assertRaisesRegex(orrery.ConfigError, "needs the router's scores"):
            trace.caches(["mrs"])

    def test_generate(self):
        """What the command draws, choice for choice; gone with the object."""
        sample = json.loads((ROOT / "traces/samples/router-1024.generator.json").read_text())["router"]
        drawn = orrery.RouterTrace.generate(sample)
        self.assertTrue((drawn.choices(3) == orrery.RouterTrace(SAMPLE).choices(3)).all())
        path = drawn.path
        del drawn
        self.assertFalse(path.exists())
        with self.assertRaisesRegex(orrery.ConfigError, "more activated experts than exist: 9 of 8"):
            orrery.RouterTrace.generate(experts=8, top_k=9)
        with self.assertRaisesRegex(orrery.ConfigError, "expected a column 'experts'"):
            orrery.RouterTrace(ROOT / "traces/samples/chat-2000.csv")

    def test_fit(self):
        trace = orrery.RouterTrace.generate(tokens=1500, experts=32, top_k=4)
        fit = trace.fit(popularity="drawn")
        self.assertLess(fit["error_points"], 3)
        self.assertEqual(len(orrery.RouterTrace.generate(fit["router"], tokens=200)), 200)

    def test_in_a_config(self):
        result = orrery.run({"system": "experts", "machine": {"part": "rtx-4090"},
                             "model": {"config": "catalog:qwen3-30b-a3b", "weight_format": "int4"},
                             "workload": {"router": orrery.RouterTrace(SAMPLE), "steps": 50},
                             "policies": {"schedule": {"policy": "fetch"}, "share": 0.5}})
        self.assertEqual(result.summary["steps"], 50)
        self.assertGreater(result.summary["cache"]["hit_rate"], 0.5)


class FitsTest(unittest.TestCase):
    def test_rows(self):
        frame = orrery.fits("qwen3-30b-a3b", "rtx-4090", weights=["fp8"], host="xeon-6454s")
        told = json.loads(command("fits", "qwen3-30b-a3b", "rtx-4090", "--weights", "fp8", "--host", "xeon-6454s",
                                  "--json").stdout)
        self.assertEqual(frame["tokens_per_s"].tolist(), [row["tokens_per_s"] for row in told["rows"]])
        with tempfile.TemporaryDirectory() as home:
            again = orrery.run(frame.loc[0, "config"], out=pathlib.Path(home) / "run")
            self.assertEqual(again.summary["throughput"]["tokens_per_s"], frame.loc[0, "tokens_per_s"])


if __name__ == "__main__":
    unittest.main()
