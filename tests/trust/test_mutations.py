"""Mutated inputs: whatever comes in, the command ends in time with 0 or 2 and says why (mutations.py)."""

import json
import os
import pathlib
import tempfile
import unittest

import mutants
import mutations
from orrery_properties.command import GIB, Orrery
from orrery_properties.shrink import shrink

COUNT = int(os.environ.get("ORRERY_MUTANTS", "500"))
SEED = 1
PROGRAM = pathlib.Path(os.environ.get("ORRERY_COMMAND", mutants.ROOT / "build/release/orrery"))

BERT = {"system": "graph", "machine": {"device": {"part": "ascend-910b2"}},
        "model": {"builder": {"policy": "bert", "bert": {"layers": 1}}}}
# Inputs that went wrong once. Each is given to the command that it is of.
KNOWN = {
    # 2^53 draws of one of 496 sizes: it never has so many that differ.
    "more sizes than there are": (("run", "FILE", "--out", "OUT", "--quiet"), {**BERT, "workload": {
        "bind": {"batch": 8}, "requests": 1,
        "vary": {"tokens": {"distribution": "uniform", "low": 17, "high": 512, "distinct": 2**53}}}}),
    # An environment whose episode ends before the steps of its evaluation do.
    "an episode that is over": (("run", "FILE", "--out", "OUT", "--quiet", "--set", "train.steps=64"), {
        "system": "rl", "env": {"policy": "serving_routing"}}),
    "work beyond 64 bits": (("graph", "FILE", "--format", "json"), {
        "graph": "g", "dims": {"n": [1, None]},
        "tensors": [{"name": "x", "role": "input", "type": "fp16", "shape": ["n", 3037000500]},
                    {"name": "w", "role": "parameter", "type": "fp16", "shape": [3037000500, 3037000500]}],
        "ops": [{"name": "m", "op": "matmul", "in": ["x", "w"], "out": [{"name": "y", "type": "fp16"}]}], "outputs": ["y"]}),
}


class MutationTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="orrery-mutants-")
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)

    def test_mutants(self):
        bench = mutations.Bench(PROGRAM, self.scratch)
        found = mutations.hunt(bench, list(range(COUNT)), SEED, shrink_seconds=20)
        print(f"\n{COUNT} mutants of seed {SEED}: {mutations.summary(bench, found)}")
        self.assertEqual([], found, "\n".join(one.shown() for one in found))

    def test_known(self):
        bench = mutations.Bench(PROGRAM, self.scratch)
        for name, (command, document) in KNOWN.items():
            with self.subTest(name):
                subject = mutants.Subject(name, ".", document, (command,))
                self.assertEqual({}, bench.faults(subject, mutants.written(document), False))

    def test_inputs_that_ship(self):
        """Every system takes part, and what is mutated is valid before."""
        every = mutants.subjects()
        bench = mutations.Bench(PROGRAM, self.scratch)
        listed = json.loads(bench.orrery.run(["list", "system", "--json"], self.scratch).out)
        shown = json.dumps([subject.document for subject in every])
        self.assertEqual([], [entry["name"] for entry in listed if f'"system": "{entry["name"]}"' not in shown])
        studies = ("dram_controller", "layered_prefill", "pygim", "search_toy", "slapo_tune", "space_hls", "space_pim", "apex")
        below = [f"{name}.json, its experiment" for name in studies]
        names = {"my.json", "training_step.json", "rl_bandit.json", "my.json, its SLO", "search_toy.json, searched", *below}
        chosen = {subject.name: subject for subject in every if subject.name in names}
        self.assertEqual(names, set(chosen))
        for subject in chosen.values():
            with self.subTest(subject.name):
                bench.codes.clear()
                self.assertEqual({}, bench.faults(subject, mutants.written(subject.document), False))
                self.assertEqual(["0"], list(bench.codes))


class BenchTest(unittest.TestCase):
    """The bench itself: a command that does wrong is found out."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="orrery-mutants-")
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)

    def fault(self, script):
        """What the bench says of a command that is this shell script; $0 is it, $5 and so on its arguments."""
        program = self.scratch / "fake"
        program.write_text(f'#!/bin/bash\nif [ "$1" = list ]; then echo "[]"; exit 0; fi\n{script}\n')
        program.chmod(0o755)
        scratch = self.scratch / str(len(list(self.scratch.iterdir())))
        scratch.mkdir()
        bench = mutations.Bench(program, scratch, seconds=0.5)
        subject = mutants.Subject("fake", ".", {}, (("run", "FILE", "--out", "OUT"),))
        return bench.faults(subject, b"{}", False).get("run", "")

    def test_what_is_right(self):
        self.assertEqual("", self.fault("echo wrong >&2; exit 2"))
        self.assertEqual("", self.fault('mkdir "$4"; echo "{}" > "$4/summary.json"'))

    def test_what_is_wrong(self):
        self.assertIn("without a word", self.fault("exit 2"))
        self.assertIn("internal fault", self.fault("echo internal fault: no >&2; exit 2"))
        self.assertIn("exit code 1", self.fault("echo no >&2; exit 1"))
        self.assertIn("signal 11", self.fault("kill -SEGV $$"))
        self.assertIn("leaves", self.fault('mkdir .out.1; echo no >&2; exit 2'))
        self.assertIn("no summary.json", self.fault('mkdir "$4"'))
        self.assertIn("takes longer", self.fault("while :; do :; done"))
        self.assertIn("hangs", self.fault("trap '' TERM; while :; do :; done"))

    def test_memory(self):
        ended = Orrery(pathlib.Path("/usr/bin/python3"), self.scratch, memory=GIB).run(["-c", "bytearray(2 << 30)"], self.scratch)
        self.assertIn("MemoryError", ended.err)

    def test_shrinks_to_the_smallest(self):
        document = {"a": {"b": [1, 2, {"bad": 512}], "c": "x"}, "d": [3]}
        smallest = shrink(document, lambda doc: '"bad"' in json.dumps(doc))
        self.assertEqual('{"a": {"b": [{"bad": 0}]}}', json.dumps(smallest))

    def test_the_same_seed_gives_the_same_mutants(self):
        every = mutants.subjects()
        mutants.NAMES.clear()
        one, other = ([mutants.draw(every[n % len(every)], 1, n).content() for n in range(60)] for _ in range(2))
        self.assertEqual(one, other)
        self.assertGreater(len(set(one)), 50)


if __name__ == "__main__":
    unittest.main()
