"""Machines, models, traces and graphs: they print themselves, price kernels, and stand in configs."""

import json
import pathlib
import re
import tempfile
import unittest

import orrery
from support import ROOT, command, config

SAMPLE = ROOT / "traces/samples/chat-2000.csv"


class MachineTest(unittest.TestCase):
    def test_facts(self):
        machine = orrery.Machine("a100-sxm4-80gb", 2)
        self.assertEqual((machine.kind, machine.memory_bytes), ("gpu", 80 * 2**30))
        self.assertEqual(machine.peak_flops["fp16"], 312e12)  # data sheet, dense
        self.assertNotIn("fp8", machine.peak_flops)  # the part has no such units
        self.assertEqual(machine.memory_bandwidth_bytes_per_s, machine.figures["memory_bandwidth_bytes_per_s"])
        self.assertIn("bandwidth", machine.link)
        self.assertIn("2 x a100-sxm4-80gb", repr(machine))
        self.assertIn("fp16 312 TFLOP/s", repr(machine))
        self.assertRegex(repr(machine.gemm(4096, 4096, 4096)),
                         r"^<Kernel \d+ µs, bound by compute: 137\.4 GFLOP, [\d.]+ MiB, \d+ mJ>$")
        self.assertIn("<table>", machine._repr_html_())
        self.assertIn("peak", machine.sources)

    def test_every_part(self):
        """All parts of the catalog print themselves; those that run no kernels say so."""
        for part in orrery.list("part"):
            with self.subTest(part):
                machine = orrery.Machine(part)
                self.assertIn(machine.name, repr(machine))
                if machine.kind in ("gpu", "npu", "platform"):
                    self.assertGreater(machine.gemm(128, 128, 128).time_s, 0)
                else:
                    with self.assertRaisesRegex(orrery.ConfigError, "a part that runs kernels"):
                        machine.gemm(128, 128, 128)

    def test_gemm(self):
        machine = orrery.Machine("a100-sxm4-80gb", cost="roofline")
        big = machine.gemm(8192, 8192, 8192)
        self.assertEqual(big.flops, 2 * 8192**3)
        # Roofline: FLOPs over the peak and a launch; 2 * 8192^3 / 312e12 = 3.524 ms.
        self.assertAlmostEqual(big.time_s, 2 * 8192**3 / 312e12 + machine.figures["launch_s"], delta=1e-5)
        self.assertEqual(big.bound_by, "compute")
        small = machine.gemm(1, 8192, 8192)
        self.assertEqual(small.bound_by, "memory")
        self.assertGreater(machine.gemm(8192, 8192, 8192, "fp32").time_s, big.time_s)
        half = orrery.Machine("a100-sxm4-80gb", override={"memory_bandwidth": "1 TB/s"}, cost="roofline")
        self.assertGreater(half.gemm(1, 8192, 8192).time_s, 1.9 * small.time_s)
        with self.assertRaisesRegex(orrery.ConfigError, "did you mean 'fp16'"):
            machine.gemm(1, 1, 1, "fp17")
        with self.assertRaisesRegex(orrery.ConfigError, "gemm:/m: expected >= 1"):
            machine.gemm(0, 1, 1)

    def test_faults(self):
        with self.assertRaisesRegex(orrery.ConfigError, "did you mean 'a100-sxm4-80gb'"):
            orrery.Machine("a100-sxm4-80g")
        with self.assertRaisesRegex(orrery.ConfigError, "/sms: expected"):
            orrery.Machine("a100-sxm4-80gb", override={"sms": -1})
        with self.assertRaisesRegex(orrery.ConfigError, "unknown cost_model policy 'tile'.*did you mean 'tiled'"):
            orrery.Machine("a100-sxm4-80gb", cost="tile")

    def test_kernels(self):
        machine, graph = orrery.Machine("a100-sxm4-80gb"), orrery.graph("bert", batch=8, tokens=128)
        kernels = machine.kernels(graph)
        self.assertEqual(len(kernels), graph.totals["kernels"])
        work = graph.totals["flops"]  # passes count by convention of their kernels, products alike
        self.assertAlmostEqual(kernels["flops"].sum(), work, delta=1e-3 * work)
        self.assertTrue(set(kernels["bound_by"]) <= {"compute", "memory", "launch", "network"})
        with self.assertRaisesRegex(orrery.ConfigError, "no value for dimension 'tokens'"):
            machine.kernels(orrery.graph("bert"))


class ConfigTest(unittest.TestCase):
    def test_in_a_config(self):
        """Objects give the run that the words for them give."""
        words = orrery.run(config(50), tables=False)
        machine, model = orrery.Machine("a100-sxm4-80gb"), orrery.Model("llama-2-7b")
        objects = orrery.run({**config(50), "machine": machine, "model": model}, tables=False)
        self.assertEqual(objects.summary, words.summary)
        sections = orrery.run(config(50), machine=machine, model=model, tables=False)
        self.assertEqual(sections.summary, words.summary)
        overridden = orrery.run(config(50), {"machine": orrery.Machine("h100-sxm5-80gb")}, tables=False)
        self.assertLess(overridden["e2e_s.mean"], words["e2e_s.mean"])
        trace = orrery.Trace(SAMPLE)
        replayed = orrery.run({**config(), "workload": {"trace": trace, "limit": 30}}, tables=False)
        self.assertEqual(replayed["requests.completed"], 30)

    def test_in_a_graph_experiment(self):
        """A machine and a model are what the system of the config calls them."""
        graph = orrery.graph("bert", batch=8, tokens=128)
        base = {"system": "graph", "workload": {"bind": graph.sizes}}
        machine = orrery.Machine("a100-sxm4-80gb")
        result = orrery.run({**base, "machine": machine, "model": graph}, tables=False)
        self.assertEqual(result["kernels"], graph.totals["kernels"])
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "graph.json"
            file.write_text(json.dumps({**base, "model": graph.to_config(), "machine": machine.to_config("graph")}))
            again = orrery.run(file, machine=orrery.Machine("h100-sxm5-80gb"), tables=False)
            self.assertLess(again["latency_s.mean"], result["latency_s.mean"] * 1.01)
            based = {"base": str(file), "model": orrery.Model("llama-2-7b"),
                     "workload": {"bind": {"batch": 1, "tokens": 64}}}
            self.assertTrue(orrery.run(based, tables=False).ok)

    def test_what_has_no_place(self):
        with self.assertRaisesRegex(TypeError, "set has no place in a config"):
            orrery.run({**config(), "machine": {1, 2}})


class ModelTest(unittest.TestCase):
    def test_facts(self):
        model = orrery.Model("llama-2-7b")
        self.assertEqual((model.layers, model.hidden, model.heads), (32, 4096, 32))
        self.assertEqual(model.parameters, 6738415616)  # as published
        self.assertEqual(model.weight_bytes, 2 * model.parameters)  # fp16
        self.assertEqual(model.kv_bytes_per_token, 2 * 32 * 4096 * 2)  # keys and values, layers, width, bytes
        self.assertEqual(orrery.Model("llama-2-7b", tensor_parallel=2).kv_bytes_per_token, 32 * 4096 * 2)
        self.assertIn("6.738 G", repr(model))
        self.assertIn("512 KiB a token", model._repr_html_())
        self.assertIn(str(model).splitlines()[0], command("describe", "llama-2-7b").stdout)
        sparse = orrery.Model("mixtral-8x7b")
        self.assertLess(sparse.active_parameters, sparse.parameters)

    def test_graph(self):
        model = orrery.Model("llama-2-7b")
        graph = model.graph(batch=1, tokens=64)
        self.assertEqual(graph.totals["parameters"], model.parameters)

    def test_faults(self):
        with self.assertRaisesRegex(orrery.ConfigError, "llama-2-7b"):
            orrery.Model("catalog:llama-2-7")
        with self.assertRaisesRegex(orrery.ConfigError, "3"):
            orrery.Model("llama-2-7b", tensor_parallel=3)


class TraceTest(unittest.TestCase):
    def test_facts(self):
        trace = orrery.Trace(SAMPLE)
        self.assertEqual(len(trace), 2000)
        self.assertEqual(list(trace.requests.columns)[:3], ["arrived_s", "prompt_tokens", "output_tokens"])
        self.assertEqual(trace.summary, json.loads(command("trace", "inspect", SAMPLE, "--json").stdout))
        self.assertEqual(trace.requests["prompt_tokens"].mean(), trace.summary["prompt_tokens"]["mean"])
        self.assertEqual(len(trace.head(3)), 3)
        self.assertIn("2000 requests", repr(trace))
        self.assertIn("<table>", trace._repr_html_())

    def test_generate_and_save(self):
        """What the command draws and writes, byte for byte."""
        generator = ROOT / "traces/samples/chat-2000.generator.json"
        drawn = orrery.Trace.generate(json.loads(generator.read_text()), seed=5, requests=100)
        self.assertEqual(len(drawn), 100)
        with tempfile.TemporaryDirectory() as home:
            home = pathlib.Path(home)
            few = {**json.loads(generator.read_text()), "requests": 100}
            (home / "generator.json").write_text(json.dumps(few))
            self.assertEqual(command("trace", "generate", home / "generator.json", home / "cli.csv",
                                     "--seed", 5).returncode, 0)
            self.assertEqual(drawn.save(home / "py.csv").path.read_bytes(), (home / "cli.csv").read_bytes())
            lines = drawn.save(home / "py.jsonl")
            self.assertTrue(lines.requests[list(drawn.requests)].equals(drawn.requests))
            with self.assertRaisesRegex(orrery.ConfigError, "does not exist yet"):
                drawn.save(home / "py.csv")
            with self.assertRaisesRegex(orrery.ConfigError, "ends in .csv or .jsonl"):
                drawn.save(home / "py.txt")
        file = drawn.path
        del drawn
        self.assertFalse(file.exists())

    def test_faults(self):
        with self.assertRaisesRegex(orrery.ConfigError, "nowhere.csv"):
            orrery.Trace("nowhere.csv")
        with self.assertRaisesRegex(orrery.ConfigError, "orrery_csv"):
            orrery.Trace(SAMPLE, format="orrery_cvs")
        with self.assertRaisesRegex(orrery.ConfigError, "/request"):
            orrery.Trace.generate({"request": 5})


class GraphTest(unittest.TestCase):
    def test_equals_the_command(self):
        """Work and kernels are those of `orrery graph`."""
        graph = orrery.graph("bert", batch=8, tokens=128)
        said = command("graph", "bert", "--bind", "batch=8,tokens=128").stdout
        work = re.search(r"= 128: (\S+) FLOPs \((\S+) of products\), (\S+) bytes read, (\S+) written, (\d+)", said)
        totals = graph.totals
        names = ("flops", "matrix_flops", "read_bytes", "write_bytes", "kernels")
        self.assertEqual([f"{totals[name]:.6g}" for name in names], list(work.groups()))
        self.assertIn(graph.formulas["flops"][:100], said)
        self.assertEqual(f"{graph.operators['flops'].sum():.9g}", f"{totals['flops']:.9g}")
        self.assertEqual(len(graph.operators), totals["ops"])

    def test_sizes(self):
        graph = orrery.graph("bert")
        self.assertEqual((graph.dimensions, graph.sizes), (["batch", "tokens"], {}))
        self.assertIn("batch = ?", repr(graph))
        small, large = graph.bind(batch=1, tokens=16), graph.bind(batch=2, tokens=16)
        self.assertLess(small.totals["flops"], large.totals["flops"])
        with self.assertRaisesRegex(orrery.ConfigError, "no dimension 'token'.*did you mean 'tokens'"):
            graph.bind(token=3)
        with self.assertRaisesRegex(orrery.ConfigError, "no value for dimension 'tokens'"):
            graph.bind(batch=3)
        with self.assertRaisesRegex(orrery.ConfigError, "no value for dimension"):
            graph.operators
        with self.assertRaisesRegex(orrery.ConfigError, "no builder is called 'brt'.*did you mean"):
            orrery.graph("brt")
        with self.assertRaisesRegex(orrery.ConfigError, "did you mean 'layers'"):
            orrery.graph("bert", params={"layer": 2})

    def test_passes(self):
        graph = orrery.graph("bert", params={"layers": 2}, batch=8, tokens=128)
        fused = graph.fuse("loop_fusion", orrery.Machine("a100-sxm4-80gb"))
        self.assertLess(fused.totals["kernels"], graph.totals["kernels"])
        self.assertEqual(fused.totals["flops"], graph.totals["flops"])
        self.assertTrue(fused.report)
        trained = graph.apply("autodiff")
        self.assertGreater(trained.totals["flops"], 2.5 * graph.totals["flops"])
        with self.assertRaisesRegex(orrery.ConfigError, "unknown pass policy 'fuse'"):
            graph.apply("fuse")

    def test_texts(self):
        graph = orrery.graph("mlp", batch=4)
        self.assertIn("digraph", graph.dot())
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mlp.json"
            graph.json(file)
            again = orrery.graph(file, batch=4)
            self.assertEqual(again.totals, graph.totals)
            self.assertEqual(again.to_config()["import"]["path"], str(file))
        self.assertIn("matmul", graph.text())
        self.assertIn("<table>", graph._repr_html_())


if __name__ == "__main__":
    unittest.main()
