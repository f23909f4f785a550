"""tools/profile_gpu.py on a double of PyTorch: what it measures, how it times, what it writes, how it fails.

The double keeps a clock that every call advances by a known time, so that the numbers in the tables can be told
beforehand; nothing of PyTorch is needed.
"""

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
    torch.randn_like = lambda x: Tensor(*x.shape)
    one = lambda *args, **kwargs: CLOCK.tick(7.0)
    torch.add = torch.mul = torch.softmax = torch.roll = one

    def linear(a, b):
        assert a.shape[1] == b.shape[1]
        CLOCK.tick(5.0 + a.shape[0] * b.shape[0] * b.shape[1] * 1e-6)

    def attend(q, k, v, is_causal=False, enable_gqa=False):
        assert q.shape[1] % k.shape[1] == 0 and enable_gqa == (q.shape[1] != k.shape[1])
        assert is_causal == (q.shape[2] > 1)
        CLOCK.tick(6.0)

    torch.compile = lambda f: one
    torch.nn = types.SimpleNamespace(
        functional=types.SimpleNamespace(
            linear=linear, scaled_dot_product_attention=attend, layer_norm=one, silu=one
        )
    )
    torch.cuda = types.SimpleNamespace(
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
        self.addCleanup(sys.modules.pop, "torch", None)

    def profile(self, *arguments, **torch):
        sys.modules["torch"] = fake_torch(**torch)
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
        for file, count in (("context", profile_gpu.context_cases()), ("generation", profile_gpu.generation_cases())):
            _, rows = rows_of(self.out / "attention" / f"double.{file}.csv")
            self.assertEqual(len(rows), len(count))
            self.assertEqual({row["time_us"] for row in rows}, {"6"})
        _, rows = rows_of(self.out / "stream" / "double.csv")
        self.assertEqual({row["op"] for row in rows}, set(profile_gpu.STREAM_OPS))
        norm = next(r for r in rows if r["op"] == "norm" and r["tokens"] == "4" and r["width"] == "1024")
        self.assertEqual(norm["bytes"], str(2 * 2 * 4 * 1024))  # read and written once, 2 bytes an element
        self.assertEqual(norm["time_us"], "7")

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
