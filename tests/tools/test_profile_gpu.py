"""tools/profile_gpu.py on a double of PyTorch: what it measures, how it times, what it writes, how it fails.

The double keeps a clock that every call advances by a known time, so that the numbers in the tables can be told
beforehand; nothing of PyTorch is needed.
"""

import contextlib
import csv
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORRERY = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None

spec = importlib.util.spec_from_file_location("profile_gpu", ROOT / "tools" / "profile_gpu.py")
profile_gpu = importlib.util.module_from_spec(spec)
spec.loader.exec_module(profile_gpu)


class Tensor:
    def __init__(self, *shape):
        self.shape = shape

    def zero_(self):
        CLOCK.tick(100.0)

    def transpose(self, a, b):
        shape = list(self.shape)
        shape[a], shape[b] = shape[b], shape[a]
        return Tensor(*shape)

    def requires_grad_(self):
        return self

    def float(self):
        CLOCK.tick(3.0)
        return Tensor(*self.shape)

    bfloat16 = float

    def view(self, *shape):
        return Tensor(*shape)

    def __mul__(self, other):
        return self


class Clock:
    """Microseconds; what passes between two events is what was called between them."""

    def __init__(self):
        self.now, self.calls = 0.0, 0

    def tick(self, us):
        self.now += us
        self.calls += 1


CLOCK = Clock()


class OutOfMemoryError(Exception):
    pass


class CUDAGraph:
    """Calls that are captured take no time until they are replayed, and then no time to launch."""

    @contextlib.contextmanager
    def capture(self, stream):
        assert stream == "stream"
        begin = CLOCK.now
        yield
        self.us, CLOCK.now = CLOCK.now - begin, begin

    def replay(self):
        CLOCK.tick(self.us)


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = CLOCK.now

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e-3  # ms, as PyTorch says it


def fake_torch(available=True, memory=1 << 62):
    torch = types.ModuleType("torch")
    torch.bfloat16, torch.int8, torch.__version__ = "bf16", "int8", "9.9"
    torch.version = types.SimpleNamespace(cuda="99.0")
    torch.manual_seed = lambda seed: None

    def make(*shape, dtype=None, device=None):
        size = 1
        for n in shape:
            size *= n
        if size > memory:
            raise OutOfMemoryError
        return Tensor(*shape)

    torch.randn = torch.empty = torch.ones = make
    torch.randn_like = torch.ones_like = lambda x: Tensor(*x.shape)
    step = types.SimpleNamespace(step=lambda: CLOCK.tick(11.0))
    torch.optim = types.SimpleNamespace(AdamW=lambda params, fused, capturable: step)
    one = lambda *args, **kwargs: CLOCK.tick(7.0)
    torch.add = torch.mul = torch.softmax = torch.log_softmax = one

    def linear(a, b):
        assert a.shape[1] == b.shape[1]
        CLOCK.tick(5.0 + a.shape[0] * b.shape[0] * b.shape[1] * 1e-6)

    def attend(q, k, v, is_causal=False, enable_gqa=False):
        assert q.shape[1] % k.shape[1] == 0 and enable_gqa == (q.shape[1] != k.shape[1])
        assert is_causal == (q.shape[2] > 1)
        CLOCK.tick(6.0 if torch.attention == "flash" else 4.0)
        return q

    torch.compile = lambda f, dynamic: one
    torch._dynamo = types.SimpleNamespace(reset=lambda: None)
    torch.autograd = types.SimpleNamespace(grad=lambda out, of, slope, retain_graph: CLOCK.tick(9.0))
    torch.int32, torch.arange = "int32", lambda *args, **kwargs: 1

    def grouped(a, b, offs):
        assert a.shape[1] == b.shape[1] and a.shape[0] % b.shape[0] == 0
        CLOCK.tick(a.shape[0] * b.shape[1] * b.shape[2] * 1e-6)

    torch._grouped_mm = grouped
    torch.nn = types.SimpleNamespace(
        functional=types.SimpleNamespace(
            linear=linear, scaled_dot_product_attention=attend, layer_norm=one, silu=one
        )
    )
    torch.attention = None

    @contextlib.contextmanager
    def kernels(library):
        torch.attention = library
        yield
        torch.attention = None

    backends = types.SimpleNamespace(FLASH_ATTENTION="flash", CUDNN_ATTENTION="cudnn")
    attention = types.ModuleType("torch.nn.attention")
    attention.SDPBackend, attention.sdpa_kernel = backends, kernels
    torch.nn.attention = attention
    torch.cuda = types.SimpleNamespace(
        Stream=lambda: "stream",
        stream=lambda stream: contextlib.nullcontext(),
        CUDAGraph=CUDAGraph,
        graph=lambda graph, stream: graph.capture(stream),
        is_available=lambda: available,
        Event=Event,
        synchronize=lambda: None,
        empty_cache=lambda: None,
        OutOfMemoryError=OutOfMemoryError,
        get_device_name=lambda i: "Double 1",
        get_device_properties=lambda i: types.SimpleNamespace(multi_processor_count=3, total_memory=5 << 20),
    )
    return torch


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    return [l for l in lines if l.startswith("#")], list(csv.DictReader(l for l in lines if not l.startswith("#")))


class ProfileTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        for module in ("torch", "torch.nn", "torch.nn.attention"):
            self.addCleanup(sys.modules.pop, module, None)

    def profile(self, *arguments, **torch):
        sys.modules["torch"] = fake_torch(**torch)
        sys.modules["torch.nn"] = sys.modules["torch"].nn
        sys.modules["torch.nn.attention"] = sys.modules["torch"].nn.attention
        return profile_gpu.main(["--name", "double", "--out", str(self.out), *arguments])

    def test_tables_hold_the_times_of_the_calls(self):
        self.assertEqual(self.profile("--tables", "gemm,attention,stream", "--repeats", "3"), 0)
        notes, rows = rows_of(self.out / "gemm" / "double.csv")
        self.assertEqual(len(notes), 3)
        self.assertIn("Double 1, 3 SMs, 5 MiB", notes[0])
        self.assertEqual(len(rows), len(profile_gpu.gemm_cases()))
        for row in rows:  # 5 us and a picosecond a multiply-add
            expected = 5 + int(row["m"]) * int(row["n"]) * int(row["k"]) * 1e-6
            self.assertAlmostEqual(float(row["time_us"]) / expected, 1, places=4)
        prompts, decodes = profile_gpu.context_cases(), profile_gpu.generation_cases()
        for file, cases, us in (("context", prompts, "6"), ("backward", prompts, "9"), ("generation", decodes, "6")):
            notes, rows = rows_of(self.out / "attention" / f"double.{file}.csv")
            self.assertIn("attention: flash", notes[3])
            self.assertEqual(len(rows), len(cases))
            self.assertEqual({row["time_us"] for row in rows}, {us})
        _, rows = rows_of(self.out / "stream" / "double.csv")
        self.assertEqual({row["op"] for row in rows}, set(profile_gpu.STREAM_OPS))
        norm = next(r for r in rows if r["op"] == "norm" and r["tokens"] == "4" and r["width"] == "1024")
        self.assertEqual(norm["bytes"], str(2 * 2 * 4 * 1024))  # read and written once, 2 bytes an element
        self.assertEqual(norm["time_us"], "7")
        adam = next(r for r in rows if r["op"] == "adam" and r["tokens"] == "4" and r["width"] == "1024")
        self.assertEqual(adam["bytes"], str(28 * 4 * 1024))  # four fp32 numbers read, three written
        self.assertEqual(adam["time_us"], "11")

    def test_attention_is_of_the_library_that_is_asked_for(self):
        self.assertEqual(self.profile("--tables", "attention", "--repeats", "1", "--attention", "cudnn"), 0)
        _, rows = rows_of(self.out / "attention" / "double.context.csv")
        self.assertEqual({row["time_us"] for row in rows}, {"4"})

    def test_products_of_experts(self):
        self.assertEqual(self.profile("--tables", "grouped", "--repeats", "1"), 0)
        _, rows = rows_of(self.out / "grouped" / "double.csv")
        self.assertEqual(len(rows), len(profile_gpu.grouped_cases()))
        for row in rows:
            work = int(row["experts"]) * int(row["rows"]) * int(row["n"]) * int(row["k"])
            self.assertAlmostEqual(float(row["time_us"]) / (work * 1e-6), 1, places=4)

    def test_steps_of_training_are_a_table_of_their_own(self):
        sys.path.insert(0, str(ROOT / "tools"))
        self.addCleanup(sys.path.remove, str(ROOT / "tools"))
        import profile_training as steps

        def measure(torch, case):
            self.assertEqual(torch.attention, "cudnn")
            if case[2] == 16:
                raise OutOfMemoryError
            if case[4] == "by_op":
                raise RuntimeError("no such op\nmore")
            return (0.5, 0.1, 0.3, 0.1, 2.0, 2.5)

        whole = steps.measure
        steps.measure = measure
        self.addCleanup(setattr, steps, "measure", whole)
        self.assertEqual(self.profile("--tables", "training", "--attention", "cudnn"), 0)
        notes, rows = rows_of(self.out / "training" / "double.steps.csv")
        self.assertIn("attention: cudnn", notes[3])
        wanted = [c for c in steps.cases() if c[2] != 16 and c[4] != "by_op"]
        self.assertEqual(len(rows), len(wanted))
        for row, (sizes, sequence, micro_batch, micro_batches, recompute, compiled) in zip(rows, wanted):
            self.assertEqual(row["hidden"], str(sizes[0]))
            self.assertEqual(row["global_batch"], str(micro_batch * micro_batches))
            self.assertEqual((row["recompute"], row["compiled"]), (recompute, str(int(compiled))))
            self.assertEqual((row["iter_s"], row["reserved_gib"]), ("0.5", "2.5"))

    def test_what_a_kernel_cannot_do_leaves_the_others(self):
        torch = fake_torch()

        class Timer:
            stream = "stream"

            def seconds(self, case):
                if case == 2:
                    raise RuntimeError("no such kernel\nmore")
                return case * 1e-6

        log = []
        rows = list(profile_gpu.measured([(1,), (2,), (3,)], lambda case: case, Timer(), torch, log.append))
        self.assertEqual([case for case, _ in rows], [(1,), (3,)])
        self.assertIn("  (2,): no such kernel", log)

    def test_cold_flushes_before_every_call_and_does_not_time_it(self):
        self.assertEqual(self.profile("--tables", "gemm", "--repeats", "3", "--cold"), 0)
        _, rows = rows_of(self.out / "gemm" / "double.csv")
        small = next(r for r in rows if r["m"] == "1" and r["n"] == "2048" and r["k"] == "2048")
        self.assertAlmostEqual(float(small["time_us"]), 5 + 2048 * 2048 * 1e-6, places=3)

    def test_what_does_not_fit_is_left_out(self):
        self.assertEqual(self.profile("--tables", "gemm", "--repeats", "1", memory=20_000_000), 0)
        _, rows = rows_of(self.out / "gemm" / "double.csv")
        self.assertTrue(rows)
        self.assertTrue(all(int(r["n"]) * int(r["k"]) <= 20_000_000 for r in rows))

    def test_no_gpu_is_one_line_and_exit_code_2(self):
        self.assertEqual(self.profile("--tables", "gemm", available=False), 2)
        with self.assertRaises(SystemExit) as stopped:
            profile_gpu.main(["--name", "x", "--out", "y", "--tables", "gem"])
        self.assertEqual(stopped.exception.code, 2)

    @unittest.skipIf(ORRERY is None, "no orrery command given")
    def test_orrery_reads_what_it_writes(self):
        self.profile("--tables", "gemm", "--repeats", "1")
        (self.out / "gemm" / "double.csv").rename(self.out / "gemm" / "a100.csv")
        done = subprocess.run([ORRERY, "fidelity", str(self.out), "--json"], capture_output=True, text=True, check=True)
        line = json.loads(done.stdout)["tables"][0]
        self.assertEqual((line["table"], line["regime"]), ("gemm/a100.csv", "all"))
        self.assertEqual(line["rows"], len(profile_gpu.gemm_cases()))
        self.assertEqual(line["covered"], line["rows"])


if __name__ == "__main__":
    unittest.main()
