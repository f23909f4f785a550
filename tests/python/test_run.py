"""Runs from Python: equal to the command's, in frames, with its faults, and without anything left behind."""

import gc
import json
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
import pandas
from support import FIRST_LIGHT, ROOT, command, config


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_equals_the_command(self):
        """Summary and files are byte for byte those of the command; tables are what pandas reads from its files."""
        said = command("run", FIRST_LIGHT, "--set", "workload.limit=300", "--seed", "3", "--out", self.home / "cli")
        self.assertEqual(said.returncode, 0, said.stderr)
        ours = orrery.run(FIRST_LIGHT, {"workload.limit": 300}, seed=3, out=self.home / "py")
        for file in sorted((self.home / "cli").iterdir()):
            if file.name != "manifest.json":
                self.assertEqual(file.read_bytes(), (self.home / "py" / file.name).read_bytes(), file.name)
        manifests = [json.loads((self.home / run / "manifest.json").read_text()) for run in ("cli", "py")]
        self.assertEqual(manifests[0]["config"], manifests[1]["config"])
        self.assertEqual(manifests[0]["config_hash"], manifests[1]["config_hash"])
        in_memory = orrery.run(str(FIRST_LIGHT), workload={"limit": 300}, run={"seed": 3})
        self.assertEqual(in_memory.summary, ours.summary)
        self.assertEqual(in_memory.summary, json.loads((self.home / "cli/summary.json").read_text()))
        for name in ("requests", "series", "energy"):
            read = pandas.read_csv(self.home / f"cli/{name}.csv", keep_default_na=True)
            frame = getattr(in_memory, name)
            self.assertEqual(list(frame.columns), list(read.columns))
            for column in read:
                if read[column].dtype == object:
                    self.assertEqual(list(frame[column]), list(read[column]), column)
                else:
                    numpy.testing.assert_array_equal(frame[column], read[column], column)
        self.assertEqual(orrery.load(self.home / "cli").summary, ours.summary)
        for name, text in (("manifest.json", "{}"), ("manifest.json", "[]"), ("summary.json", "{")):
            (self.home / "cli" / name).write_text(text)
            with self.assertRaises(orrery.ConfigError):
                orrery.load(self.home / "cli")

    def test_result(self):
        result = orrery.run(config())
        self.assertTrue(result.ok)
        self.assertEqual(len(result.requests), 200)
        self.assertEqual(result.requests["prompt_tokens"].dtype, numpy.int64)
        self.assertEqual(result["ttft_s.p99"], result.summary["ttft_s"]["p99"])
        with self.assertRaisesRegex(KeyError, "did you mean 'ttft_s'"):
            result["ttft.p99"]
        with self.assertRaisesRegex(orrery.ConfigError, "no table 'request'.*did you mean 'requests'"):
            result.table("request")
        self.assertIn("P99 TTFT", repr(result))
        self.assertIn("<table>", result._repr_html_())
        self.assertEqual(result.config["policies"]["batching"]["policy"], "sarathi")
        again = orrery.run(result.config)  # a resolved config is a config
        self.assertEqual(again.summary, result.summary)

    def test_nothing_is_left(self):
        result = orrery.run(config(20))
        folder = result.folder
        self.assertEqual(len(result.requests), 20)
        self.assertTrue(folder.is_dir())
        del result
        gc.collect()
        self.assertFalse(folder.exists())
        bare = orrery.run(config(20), tables=False)
        self.assertEqual(bare.tables, [])
        with self.assertRaisesRegex(orrery.ConfigError, "keep no tables"):
            bare.requests

    def test_existing_folder(self):
        orrery.run(config(20), out=self.home / "there")
        with self.assertRaisesRegex(orrery.ConfigError, "does not exist yet"):
            orrery.run(config(20), out=self.home / "there")
        orrery.run(config(30), out=self.home / "there", force=True)
        self.assertEqual(len(orrery.load(self.home / "there").requests), 30)

    def test_infeasible_is_a_result(self):
        result = orrery.run(config(20), model={"config": "catalog:llama-3-70b"})
        self.assertFalse(result.ok)
        self.assertEqual(result.status, "infeasible")
        self.assertIn("infeasible", repr(result))
        self.assertIn("infeasible", result._repr_html_())

    def test_other_systems(self):
        for study in ("ring_all_reduce.json", "first_light.json"):
            with self.subTest(study):
                result = orrery.run(ROOT / "experiments/studies" / study)
                self.assertTrue(result.ok)
                for name in result.tables:
                    self.assertGreater(len(result.table(name).columns), 1)

    def test_base_of_a_dict(self):
        based = orrery.run({"base": str(FIRST_LIGHT), "workload": {"limit": 50}})
        self.assertEqual(len(based.requests), 50)


class FaultTest(unittest.TestCase):
    def test_same_faults_as_the_command(self):
        """Pointer, message and hint are those that the command prints."""
        bad = ["policies.batching.sarathi.token_budgt=5", "workload.rate_scale=-1", "model.dtype=fp17"]
        said = command("validate", FIRST_LIGHT, *[word for one in bad for word in ("--set", one)])
        self.assertEqual(said.returncode, 2)
        changes = {"policies.batching.sarathi.token_budgt": 5, "workload.rate_scale": -1, "model.dtype": "fp17"}
        with self.assertRaises(orrery.ConfigError) as caught:
            orrery.run(FIRST_LIGHT, changes)
        shown = [str(fault) for fault in caught.exception.faults]
        self.assertEqual(shown, [line.replace("=fp17", '="fp17"') for line in said.stderr.splitlines()])
        self.assertEqual(orrery.validate(FIRST_LIGHT, changes), caught.exception.faults)
        self.assertEqual(orrery.validate(FIRST_LIGHT), [])

    def test_fault_of_a_dict(self):
        broken = config()
        broken["machine"]["devices"][0]["part"] = "a100-sxm4-80g"
        (fault,) = orrery.validate(broken)
        self.assertEqual((fault.file, fault.pointer), ("config", "/machine/devices/0/part"))
        self.assertIn("a100-sxm4-80gb", fault.hint)

    def test_no_config(self):
        with self.assertRaisesRegex(orrery.ConfigError, "nowhere.json"):
            orrery.run("nowhere.json")
        with self.assertRaises(TypeError):
            orrery.run(3)
        with self.assertRaisesRegex(orrery.ConfigError, "orrery reproduce"):
            orrery.run(ROOT / "experiments/studies/llumnix.json")


class CatalogTest(unittest.TestCase):
    def test_list_and_describe(self):
        self.assertIn("batching", orrery.list())
        self.assertIn("sarathi", orrery.list("batching"))
        with self.assertRaisesRegex(orrery.ConfigError, "did you mean 'batching'"):
            orrery.list("batchin")
        sarathi = orrery.describe("sarathi")
        said, _ = json.JSONDecoder().raw_decode(command("describe", "sarathi", "--json").stdout)
        self.assertEqual([f["name"] for f in sarathi.fields], [f["name"] for f in said["fields"]])
        self.assertIn("token_budget", str(sarathi))
        self.assertIn("token_budget", sarathi._repr_html_())
        with self.assertRaisesRegex(orrery.ConfigError, "did you mean 'sarathi'"):
            orrery.describe("sarathy")
        self.assertTrue(orrery.schema() == json.loads(command("schema").stdout))  # a difference would be megabytes


LONG = f"""
import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import orrery, os, support
print("begun", flush=True)
try:
    orrery.run(support.config(2_000_000_000), out=sys.argv[1])
except KeyboardInterrupt:
    print("stopped", os.listdir(os.path.dirname(sys.argv[1])), flush=True)
"""


class LongRunTest(unittest.TestCase):
    def test_interrupt(self):
        """Ctrl-C ends a run that would last for hours, and leaves nothing."""
        with tempfile.TemporaryDirectory() as home:
            child = subprocess.Popen([sys.executable, "-c", LONG, home + "/run"], stdout=subprocess.PIPE, text=True)
            self.assertEqual(child.stdout.readline(), "begun\n")
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.communicate(timeout=60)[0], "stopped []\n")
            self.assertEqual(child.returncode, 0)

    def test_lock_is_free(self):
        """Other threads go on while a run is under way; progress is told, and what it raises ends the run."""
        seen, counted = [], [0]
        stop = threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)

        class Enough(Exception):
            pass

        def tell(progress):
            seen.append(progress)
            if counted[0] > 20 and len(seen) > 2:
                raise Enough

        thread = threading.Thread(target=count)
        thread.start()
        try:
            with self.assertRaises(Enough):
                orrery.run(config(2_000_000_000), tables=False, progress=tell)
        finally:
            stop.set()
            thread.join()
        self.assertGreater(seen[-1].simulated_s, seen[0].simulated_s)
        self.assertEqual(seen[0].what, "requests")


if __name__ == "__main__":
    unittest.main()
