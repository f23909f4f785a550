"""Timelines as frames."""

import pathlib
import tempfile
import unittest

import orrery
import pandas
from support import FIRST_LIGHT


class TimelineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        out = pathlib.Path(cls.folder.name) / "run"
        cls.result = orrery.run(FIRST_LIGHT, {"workload.limit": 200}, out=out)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_slices(self):
        """One frame with the columns that plots rely on; what it holds agrees with the summary."""
        frame = self.result.timeline
        self.assertEqual(
            list(frame.columns),
            ["process", "track", "name", "start_s", "duration_s", "depth", "id", "parent", "instant"],
        )
        self.assertEqual(self.result.timeline_file.faults, [])
        self.assertTrue((frame.id == range(len(frame))).all())
        self.assertTrue(frame.start_s.is_monotonic_increasing)
        self.assertTrue((frame.duration_s >= 0).all())
        iterations = frame[(frame.track == "iterations") & (frame.depth == 0)]
        self.assertEqual(len(iterations), self.result["iterations"])
        busy = self.result["utilisation.busy"] * self.result["simulated_s"]
        self.assertAlmostEqual(iterations.duration_s.sum(), busy, delta=1e-9 * len(iterations))
        inner = frame[frame.parent >= 0]
        outer = frame.loc[inner.parent]
        self.assertTrue((inner.depth.to_numpy() == outer.depth.to_numpy() + 1).all())

    def test_counters(self):
        counters = self.result.counters
        self.assertEqual(list(counters.columns), ["process", "track", "unit", "time_s", "value"])
        self.assertEqual(set(counters[counters.track == "power"].unit), {"W"})
        kv = counters[counters.track == "KV cache"].value.max() * 2**30
        self.assertLessEqual(kv, self.result["memory_bytes.kv_peak"])

    def test_flows_and_arguments(self):
        file = self.result.timeline_file
        self.assertEqual(list(self.result.flows.columns), ["flow", "from", "to"])
        starts = file.slices.start_s.to_numpy()
        flows = self.result.flows
        self.assertTrue((starts[flows["from"]] <= starts[flows["to"]]).all())
        arguments = file.arguments
        decodes = arguments[arguments.name == "decodes"]
        self.assertTrue((decodes.value >= 0).all())
        self.assertTrue(set(decodes.id) <= set(file.slices.id))

    def test_frames_are_pandas(self):
        self.assertIsInstance(self.result.timeline, pandas.DataFrame)
        self.assertIs(self.result.timeline, self.result.timeline)
        self.assertIn("slices on", repr(self.result.timeline_file))
        kinds = set(self.result.timeline_file.tracks.kind)
        self.assertEqual(kinds, {"process", "slices", "counter"})

    def test_no_timeline(self):
        out = pathlib.Path(self.folder.name) / "none"
        none = orrery.run(FIRST_LIGHT, {"workload.limit": 5, "run.timeline.enabled": False}, out=out)
        with self.assertRaisesRegex(orrery.ConfigError, "no timeline"):
            _ = none.timeline
        (out / "broken.pftrace").write_text("id,time\n")
        with self.assertRaisesRegex(orrery.ConfigError, "broken.pftrace.*not a whole timeline"):
            orrery.Timeline(out / "broken.pftrace")


if __name__ == "__main__":
    unittest.main()
