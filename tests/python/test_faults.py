"""Faulty input: what Python raises is what the command prints, for every command: file, pointer, message and hint."""

import json
import pathlib
import tempfile
import unittest

import orrery
from support import FIRST_LIGHT, ROOT, command, config
from test_study import study

STUDIES = ROOT / "experiments/studies"
CLAIM = json.loads((STUDIES / "tempo.json").read_text())
EVOLVE = json.loads((STUDIES / "evolve_queue.json").read_text())


def changed(document: dict, path: str, value) -> dict:
    """A copy with the value at a dotted path; None takes it away."""
    copy = json.loads(json.dumps(document))
    node, keys = copy, path.split(".")
    for key in keys[:-1]:
        node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
    if value is None:
        node.pop(keys[-1])
    else:
        node[keys[-1]] = value
    return copy


CONFIGS = {  # name: (document, pointer of the first fault)
    "key": (changed(config(), "policies.batching.sarathi.token_budgt", 5), "/policies/batching/sarathi/token_budgt"),
    "policy": (changed(config(), "policies.batching.policy", "sarathy"), "/policies/batching/policy"),
    "unit": (changed(config(), "slo.ttft", "3 kg"), "/slo/ttft"),
    "no_unit": (changed(config(), "slo.ttft", 3), "/slo/ttft"),
    "range": (changed(config(), "replica.memory_margin", 2), "/replica/memory_margin"),
    "type": (changed(config(), "workload.rate_scale", "fast"), "/workload/rate_scale"),
    "part": (changed(config(), "machine.devices.0.part", "a100-sxm4-80g"), "/machine/devices/0/part"),
    "model": (changed(config(), "model.config", "catalog:llama-2-7"), "/model/config"),
    "trace": (changed(config(), "workload", {"trace": {"path": "nowhere.csv"}}), "/workload/trace/path"),
    "system": (changed(config(), "system", "servng"), "/system"),
    "section": (changed(config(), "modl", {}), "/modl"),
    "missing": (changed(config(), "machine.devices", None), "/machine/devices"),
    "base": (changed(config(), "base", "nowhere.json"), "/base"),
    "graph_pass": ({"system": "graph", "machine": {"device": {"part": "a100-sxm4-80gb"}},
                    "model": {"builder": {"policy": "bert"}}, "workload": {"bind": {"batch": 1, "tokens": 8}},
                    "policies": {"passes": {"order": ["loop_fuson"]}}}, "/policies/passes/order/0"),
    "graph_size": ({"system": "graph", "machine": {"device": {"part": "a100-sxm4-80gb"}},
                    "model": {"builder": {"policy": "bert"}}, "workload": {"bind": {"batch": 1}}}, "/workload/bind"),
    "network": ({"system": "network", "machine": {"network": {}}}, None),
}
STUDY_FILES = {
    "objective": changed(study(), "objectives.0.minimise", "ttf"),
    "driver": changed(study(), "search", {"driver": {"policy": "tpee"}}),
    "parameter": changed(study(), "parameters.0.values", []),
    "point": changed(study(), "parameters.0.path", "policies.batching.sarathi.token_budgt"),
    "experiment": changed(study(), "base.model.dtype", "fp17"),
    "constraint": changed(study(), "constraints", ["budget > 5000"]),
    "measure": changed(study(), "measures.ttft", "ttft.p99"),
}


class ParityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, name: str, document) -> pathlib.Path:
        file = self.home / f"{name}.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return file

    def same(self, words, ask):
        """The command's lines are the faults that Python raises; gives these."""
        said = command(*words)
        self.assertEqual(said.returncode, 2, said.stderr)
        with self.assertRaises(orrery.ConfigError) as caught:
            ask()
        self.assertEqual([str(fault) for fault in caught.exception.faults], said.stderr.splitlines())
        for fault in caught.exception.faults:
            self.assertTrue(fault.message)
            text = fault.file + (":" if fault.file and fault.pointer else "") + fault.pointer
            self.assertEqual(str(fault), (f"{text}: " if text else "") + fault.message + (
                f" ({fault.hint})" if fault.hint else ""))
        return caught.exception.faults

    def test_configs(self):
        for name, (document, pointer) in CONFIGS.items():
            with self.subTest(name):
                file = self.write(name, document)
                faults = self.same(["run", file, "--out", self.home / "out"], lambda file=file: orrery.run(file))
                self.assertEqual(orrery.validate(file), faults)
                if pointer is not None:
                    self.assertEqual(faults[0].pointer, pointer)
                self.assertFalse((self.home / "out").exists())

    def test_validate(self):
        """Whatever a file is; what it says of each is what `validate` of Python gives."""
        part = json.loads((ROOT / "hw/catalog/a100-sxm4-80gb.json").read_text())
        for name, document in (*((f"s_{k}", v) for k, v in STUDY_FILES.items()), ("part", {**part, "smss": 3}),
                               ("claims", changed(CLAIM, "measures.extra", 3)),
                               ("evolve", changed(EVOLVE, "objectiv", 3))):
            with self.subTest(name):
                file = self.write("validate_" + name, document)
                said = command("validate", file)
                self.assertEqual([str(fault) for fault in orrery.validate(file)], said.stderr.splitlines())
                self.assertEqual(said.returncode, 2 if said.stderr else 0)
        faults = orrery.validate(STUDY_FILES["experiment"])
        self.assertEqual((faults[0].file, faults[0].pointer), ("study", "/base/model/dtype"))

    def test_text(self):
        """What is no JSON, or no config."""
        for name, text in (("empty", ""), ("cut", '{"system": '), ("twice", '{"a": 1, "a": 2}'), ("list", "[]"),
                           ("number", "3")):
            with self.subTest(name):
                file = self.write(name, text)
                self.same(["run", file], lambda file=file: orrery.run(file))
        self.same(["run", self.home / "nowhere.json"], lambda: orrery.run(self.home / "nowhere.json"))

    def test_dicts(self):
        """A dict has the pointers of its file, and "config" for a name."""
        for name, (document, _) in CONFIGS.items():
            if name in ("base", "trace"):  # relative to the file's folder there
                continue
            with self.subTest(name):
                of_file = orrery.validate(self.write(name, document))
                of_dict = orrery.validate(document)
                self.assertEqual([f[1:] for f in of_dict], [f[1:] for f in of_file])
                self.assertEqual({f.file for f in of_dict if f.file not in {g.file for g in of_file}}, {"config"})

    def test_assignments(self):
        for change, value in (("workload.rate_scale", -1), ("policies.batching.polcy", 3), ("run.seed", -4)):
            with self.subTest(change):
                self.same(["run", FIRST_LIGHT, "--set", f"{change}={value}"],
                          lambda change=change, value=value: orrery.run(FIRST_LIGHT, {change: value}))

    def test_studies(self):
        for name, document in STUDY_FILES.items():
            with self.subTest(name):
                file = self.write("study_" + name, document)
                self.same(["sweep", file, "--out", self.home / f"{name}_cli.sqlite", "--quiet"],
                          lambda file=file, name=name: orrery.Study(file, out=self.home / f"{name}_py.sqlite").sweep())
        file = self.write("study_search", changed(study(), "objectives", None))
        self.same(["search", file], lambda: orrery.Study(file).search())
        self.same(["best", file], lambda: orrery.Study.load(file))
        self.same(["analyse", self.home / "nowhere.sqlite"], lambda: orrery.analyse(self.home / "nowhere.sqlite"))

    def test_claims(self):
        file = self.write("claim", changed(CLAIM, "claims.0.value", "nothing.at_all"))
        self.same(["reproduce", file], lambda: orrery.reproduce(file))
        self.same(["reproduce", "temppo"], lambda: orrery.reproduce("temppo"))
        self.same(["reproduce", "tempo", "--set", "base.modl=3"], lambda: orrery.reproduce("tempo", {"base.modl": 3}))

    def test_questions(self):
        for name, words, keywords in (
            ("capacity", ["--limit", "tbt"], {"limit": "tbt"}),
            ("capacity", ["--slo-ttft", "2 kg"], {"slo_ttft": "2 kg"}),
            ("slo", ["--slo-ttft", "1s", "--rates", "0"], {"slo_ttft": "1s", "rates": [0]}),
            ("plans", ["--batching", "sarathy"], {"batching": ["sarathy"]}),
            ("train", ["--steps", "0"], {"steps": 0}),
        ):
            with self.subTest(name):
                self.same([name, FIRST_LIGHT, *words],
                          lambda name=name, keywords=keywords: getattr(orrery, name)(FIRST_LIGHT, **keywords))

    def test_graphs(self):
        self.same(["graph", "brt"], lambda: orrery.graph("brt"))
        self.same(["graph", "bert", "--set", "layer=2"], lambda: orrery.graph("bert", params={"layer": 2}))
        self.same(["graph", "bert", "--bind", "batch=1"], lambda: orrery.graph("bert", batch=1))
        self.same(["graph", "bert", "--bind", "batch=1,token=2"], lambda: orrery.graph("bert", batch=1, token=2))
        self.same(["graph", "nowhere.onnx"], lambda: orrery.graph("nowhere.onnx"))
        self.same(["graph", "bert", "--bind", "batch=x,tokens=2"], lambda: orrery.graph("bert", batch="x", tokens=2))

    def test_traces(self):
        self.same(["trace", "inspect", "nowhere.csv"], lambda: orrery.Trace("nowhere.csv"))
        bad = self.home / "bad.csv"
        bad.write_text("arrived_s,prompt_tokens,output_tokens\n0,10,10\n1,-5,10\n")
        self.same(["trace", "inspect", bad], lambda: orrery.Trace(bad).summary)
        sample = ROOT / "traces/samples/chat-2000.csv"
        self.same(["trace", "convert", sample, bad], lambda: orrery.Trace(sample).save(bad))
        text = self.home / "x.txt"
        self.same(["trace", "convert", sample, text], lambda: orrery.Trace(sample).save(text))

    def test_planning_and_fitting(self):
        buffers = self.home / "buffers.csv"
        buffers.write_text("id,lower,upper,size\na,0,4,16\n")
        self.same(["plan", "nowhere.csv"], lambda: orrery.plan("nowhere.csv"))
        self.same(["plan", buffers, "--planner", "bestfit"], lambda: orrery.plan(buffers, planner="bestfit"))
        self.same(["plan", buffers, "--capacity", "3 s"], lambda: orrery.plan(buffers, capacity="3 s"))
        broken = self.home / "broken.csv"
        broken.write_text("id,lower,upper,size\na,4,0,16\nb,0,1,x\n")
        self.same(["plan", broken], lambda: orrery.plan(broken))
        self.same(["fidelity", self.home / "nowhere"], lambda: orrery.fidelity(self.home / "nowhere"))
        self.same(["calibrate", "a100-sxm4-80gb", "--data", self.home, "--holdout", "shape"],
                  lambda: orrery.calibrate("a100-sxm4-80gb", self.home, holdout="shape"))

    def test_the_rest(self):
        self.same(["evolve", FIRST_LIGHT], lambda: orrery.evolve(FIRST_LIGHT))
        self.same(["import", "vllm", "--file", "nowhere.json"], lambda: orrery.import_config(file="nowhere.json"))
        self.same(["import", "vllm", "--", "--model", "x", "y"], lambda: orrery.import_config("vllm", "--model x y"))
        self.same(["list", "batchin"], lambda: orrery.list("batchin"))
        self.same(["play", "nowhere.policy"], lambda: orrery.play("nowhere.policy"))
        self.same(["play", "nowhere.policy", "--log", "x.steps"], lambda: orrery.looks("nowhere.policy", "x.steps"))


if __name__ == "__main__":
    unittest.main()
