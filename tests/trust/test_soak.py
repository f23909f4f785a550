"""The soak bench in small (soak.py): an hour of a cluster, 500 runs in one process; and what is doctored is found out.

ORRERY_SOAK_HOURS and ORRERY_SOAK_RUNS make it longer: 24 and 10000 are the whole.
"""

import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest

import ledgers
import soak
import soak_runs
from orrery_properties.checks import Broken, Run

HOURS = float(os.environ.get("ORRERY_SOAK_HOURS", "1"))
RUNS = int(os.environ.get("ORRERY_SOAK_RUNS", "500"))
PROGRAM = pathlib.Path(os.environ.get("ORRERY_COMMAND", ledgers.ROOT / "build/release/orrery"))
MEMORY_RISES = [soak.Sample(i, 1000 + 300 * i, 5, 1) for i in range(20)]
# A package `orrery` that keeps something.
LEAKS = "kept = []\n\ndef run(*_, **__):\n    kept.append({leak})\n    return Result()\n"
PACKAGE = """
class ConfigError(Exception):
    pass

class Result:
    requests = range(8)
    summary = {"requests": {"arrived": 8}}
"""


class SoakTest(unittest.TestCase):
    def test_soak(self):
        bench = soak.soak(PROGRAM, HOURS, RUNS, seed=1)
        self.assertEqual([], bench.wrong)
        if "ORRERY_PACKAGE" in os.environ:  # the build has it: nothing is left out
            self.assertEqual([], bench.left_out)


class DoctoredTest(unittest.TestCase):
    """The bench itself: a ledger that does not balance, and memory that grows, are found out."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="orrery-soak-")
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = pathlib.Path(folder.name)
        cls.bench = soak.Soak(PROGRAM, cls.scratch, seed=1)
        cls.folder = cls.bench.measured("doctored", soak.day("apart", 0.25, 1)).folder
        cls.summary = (cls.folder / "summary.json").read_text()

    def broken(self, change):
        """What the ledgers say of a run in whose summary `change` altered something."""
        summary = json.loads(self.summary)
        change(summary)
        (self.folder / "summary.json").write_text(json.dumps(summary))
        self.addCleanup((self.folder / "summary.json").write_text, self.summary)
        return self.said(self.folder)

    @staticmethod
    def said(folder):
        """What does not hold of a run; a quarter of an hour need not have seen all that can happen."""
        return "\n".join(one for one in ledgers.broken(Run(folder)) if not one.startswith("happens:"))

    def assert_found(self, said, path, more=1):
        """An altered figure breaks a ledger, which says so."""
        def change(summary):
            *way, name = path.split(".")
            for key in way:
                summary = summary[int(key) if key.isdigit() else key]
            summary[name] += more

        with self.subTest(path):
            self.assertRegex(self.broken(change), said)

    def test_ledgers(self):
        self.assertEqual("", self.said(self.folder))
        self.assert_found("replicas were sent", "replicas.0.requests", 100)
        self.assert_found("replicas were sent", "replicas.0.requests", -100)
        self.assert_found("replicas were sent", "cluster.migrations.completed", 100)
        self.assert_found("replicas were sent", "cluster.kv_transfers.count", -100)
        self.assert_found("by reason", "cluster.migrations.aborted")
        self.assert_found("blocks evicted", "kv.evicted_blocks")
        self.assert_found("not whole blocks", "kv_tiers.reused_bytes")
        self.assert_found("blocks evicted", "kv_tiers.prefixes.kept_blocks", -1)
        self.assert_found("more sequences came back", "kv_tiers.swapped_in", 10**6)
        self.assert_found("replica-seconds, the summary tells", "cluster.up_s")
        self.assert_found("add up", "energy_j.compute")
        self.assert_found("arrived", "requests.completed")
        self.assert_found("tiers tell of", "kv_tiers.prefixes.hits.1.tokens")
        self.assert_found("of replicas add up", "replicas.3.processed_tokens")

    def test_nothing_happens(self):
        summary = json.loads(self.summary)
        summary["cluster"]["failures"] = 0
        run = type("Quiet", (), {"summary": summary})()
        with self.assertRaisesRegex(Broken, "has no .*failures"):
            ledgers.happens(run)

    def test_a_block_that_is_lost(self):
        """KV that is in use when nobody is left."""
        folder = self.bench.measured("drained", soak.day("mixed", 0.05, 1)).folder
        self.assertEqual("", self.said(folder))
        lines = (folder / "series.csv").read_text().splitlines()
        cells = lines[-1].split(",")
        cells[4] = "2097152"
        (folder / "series.csv").write_text("\n".join([*lines[:-1], ",".join(cells), ""]))
        self.assertIn("power: nobody is unfinished, but replica 7 ends with", self.said(folder))

    def test_timeline(self):
        """A failure, a start, a move or a stretch of time that is not on both sides."""
        try:
            import pandas
        except ImportError:
            self.skipTest("no pandas")
        summary = {"simulated_s": 100, "requests": {"arrived": 5, "rejected": 1, "unfinished": 0},
                   "replicas": [{"iterations": 2}, {"iterations": 0}],
                   "cluster": {"failures": 2, "rerouted": 1, "cold_starts": {"count": 1}, "up_s": 120.0,
                               "migrations": {"completed": 1}, "kv_transfers": {"count": 0}}}
        rows = [("replica 0", "iterations", "prefill", 0, 1), ("replica 0", "iterations", "decode", 1, 1),
                ("replica 0", "iterations", "decode", 29, 1),  # cut short by the failure
                ("replica 0", "state", "failed", 30, 5),  # on meanwhile, as far as power goes
                ("replica 1", "state", "off", 0, 10), ("replica 1", "state", "failed", 10, 10),  # off meanwhile
                ("replica 1", "state", "off", 20, 30), ("replica 1", "state", "starting", 50, 10),
                ("replica 1", "state", "draining", 70, 0.5), ("replica 1", "state", "failed", 70.5, 9.5),  # it goes
                ("replica 1", "state", "off", 80, 20.5 - 0.5), ("cluster", "migration 0", "migration", 3, 1),
                ("requests", "rejected", "rejected:queue_full", 2, 0),
                *(("cluster", "router", "to replica 0", i, 0) for i in range(5))]
        columns = ["process", "track", "name", "start_s", "duration_s"]
        run = type("Shown", (), {"summary": summary})()
        summary["cluster"]["up_s"] = 200 - (10 + 10 + 30 + 9.5 + 20)
        frame = pandas.DataFrame(rows, columns=columns)
        ledgers.timeline(run, frame)
        for dropped, said in (([0, 2], "iterations and counts"), ([2, 3], "failures are shown"),
                              ([6], "replica-seconds"), ([7], "starts are shown"), ([11], "slices of migration"),
                              ([12], "rejections"),
                              ([13], "the router")):
            with self.subTest(said), self.assertRaisesRegex(Broken, said):
                ledgers.timeline(run, frame.drop(index=dropped))

    def test_growth(self):
        self.assertEqual([], soak.grown([soak.Sample(i, 5000 + i % 3, 7 + i % 2, 1) for i in range(20)], 10))
        self.assertRegex(soak.grown(MEMORY_RISES, 2048)[0], "rss_kib goes from 3700 in the first half to 6700")
        for name in ("files", "threads"):
            samples = [soak.Sample(i, 1000, *((i, 1) if name == "files" else (1, i))) for i in range(20)]
            self.assertRegex(soak.grown(samples, 10)[0], f"{name} goes from 9")
        self.assertIn("only 1 samples", soak.grown(MEMORY_RISES[:1], 1)[0])

    def test_peaks(self):
        days = [soak.Measured(pathlib.Path(), *one, 1) for one in ((1000, 60_000), (100_000, 80_000))]
        self.assertEqual([], soak.risen(days))
        days[1].peak_kib = 120_000
        self.assertRegex(soak.risen(days)[0], "100000 requests peak at 120000")

    def with_package(self, leak):
        """What the bench says of a Python package whose every run keeps something."""
        package = self.scratch / f"leak{len(list(self.scratch.iterdir()))}"
        package.mkdir()
        # The config with a fault is told by what is laid over it.
        refuse = ("_run = run\n\ndef run(config, changes=None, **more):\n    if changes:\n        raise ConfigError\n"
                  "    return _run()\n")
        (package / "orrery.py").write_text(PACKAGE + LEAKS.format(leak=leak) + refuse)
        bench = soak.Soak(PROGRAM, self.scratch, seed=1)
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(package)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                bench.in_python(400)
        finally:
            os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
        return "\n".join(bench.wrong)

    def test_a_package_that_leaks(self):
        self.assertEqual("", self.with_package("None"))
        self.assertIn("rss_kib goes from", self.with_package("b'x' * 40000"))
        self.assertIn("files goes from", self.with_package("open('/dev/null')"))

    def test_a_sweep_that_leaks(self):
        program = self.scratch / "leaking"
        program.write_text("#!/usr/bin/python3\nimport time\nkept = []\n"
                           "for _ in range(20):\n    kept.append(b'x' * 1000000)\n    time.sleep(0.1)\n")
        program.chmod(0o755)
        bench = soak.Soak(program, self.scratch, seed=1)
        with contextlib.redirect_stdout(io.StringIO()):
            bench.in_a_sweep(100)
        self.assertRegex("\n".join(bench.wrong), "sweep --jobs 1: rss_kib goes from")

    def test_state(self):
        own = soak_runs.state()
        with open("/dev/null"):
            self.assertEqual(own["files"] + 1, soak_runs.state()["files"])
        self.assertGreater(own["rss_kib"], 1000)


if __name__ == "__main__":
    unittest.main()
