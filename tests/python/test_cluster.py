"""Sweeps on a Dask cluster of two workers: the store that one machine makes, also when a worker is killed."""

import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

from support import COMMAND, ROOT, command, config

try:
    import distributed
except ImportError:
    distributed = None
try:
    import orrery
except ImportError:
    orrery = None


def study(points: int, requests: int) -> dict:
    """A sweep over arrival rates."""
    base = config(requests)
    return {
        "kind": "study",
        "version": 1,
        "base": base,
        "parameters": [
            {"name": "scale", "path": "workload.rate_scale", "values": [1 + i / points for i in range(points)]}
        ],
        "measures": {"ttft": "ttft_s.p99", "e2e": "e2e_s.mean", "done": "requests.completed"},
        "objectives": [{"minimise": "ttft"}],
    }


def content(store) -> list:
    """Every row of every table."""
    with sqlite3.connect(store) as open_store:
        names = [row[0] for row in open_store.execute("select name from sqlite_master where type = 'table' order by 1")]
        return [(name, sorted(map(repr, open_store.execute(f"select * from {name}")))) for name in names]


def runs_of(store) -> int:
    """Runs that a growing store has committed."""
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as growing:
            return growing.execute("select count(*) from runs").fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # not there yet


def helpers_of(workers) -> list[int]:
    """Processes that workers started, as far as they live."""
    parents = {worker.pid for worker in workers}
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has just ended
        if int(parent) in parents and state != "Z":
            found.append(int(stat.parent.name))
    return found


class Cluster:
    """A scheduler and workers without nannies, as processes of their own."""

    def __init__(self, folder: str, workers: int):
        file = folder + "/scheduler.json"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        local = ["--host", "127.0.0.1"]
        start = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        self.processes = [
            subprocess.Popen([*start, *local, "--port", "0", "--no-dashboard", "--scheduler-file", file], **quiet)
        ]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", file, "--no-nanny"]
        for _ in range(workers):
            self.processes.append(subprocess.Popen([*worker, *local, "--nthreads", "1", "--no-dashboard"], **quiet))
        for _ in range(600):
            if os.path.exists(file) and os.path.getsize(file):
                break
            time.sleep(0.1)
        self.address = json.loads(pathlib.Path(file).read_text())["address"]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@unittest.skipIf(distributed is None, "Dask is not installed (tools/setup cluster)")
class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name)
        cls.cluster = Cluster(cls.folder.name, 2)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()
        cls.folder.cleanup()

    def write(self, name: str, **how) -> pathlib.Path:
        path = self.home / f"{name}.json"
        path.write_text(json.dumps(study(**how)))
        return path

    def local(self, path: pathlib.Path):
        said = command("sweep", path, "--out", path.with_suffix(".local"), "--quiet", "--jobs", 2)
        self.assertEqual(said.returncode, 0, said.stderr)
        return content(path.with_suffix(".local"))

    def test_1_same_store(self):
        path = self.write("plain", points=12, requests=50)
        said = command("sweep", path, "--out", path.with_suffix(".remote"), "--cluster", self.cluster.address)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(content(path.with_suffix(".remote")), self.local(path))

    @unittest.skipIf(orrery is None, "the Python package is not built")
    def test_1_from_python(self):
        path = self.write("python", points=8, requests=50)
        ours = orrery.Study(path).sweep(cluster=self.cluster.address)
        points = orrery.Study(path).sweep(jobs=2).points
        self.assertTrue(ours.points.equals(points))
        with self.assertRaisesRegex(orrery.ConfigError, "workers have no Python classes"):
            orrery.Study(path, batching=orrery.Batching).sweep(cluster=self.cluster.address)
        with self.assertRaisesRegex(orrery.ConfigError, "a cluster that answers"):
            orrery.Study(path).sweep(cluster="tcp://127.0.0.1:9")

    def test_2_a_worker_is_killed(self):
        path = self.write("killed", points=16, requests=60000)
        out = path.with_suffix(".remote")
        head = subprocess.Popen(
            [COMMAND, "sweep", path, "--out", out, "--cluster", self.cluster.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while runs_of(out) == 0 and head.poll() is None:
            time.sleep(0.05)
        self.cluster.processes[1].send_signal(signal.SIGKILL)
        self.assertLess(runs_of(out), 24, "the worker was killed too late to matter")
        _, said = head.communicate(timeout=200)
        self.assertEqual(head.returncode, 0, said)
        self.assertEqual(content(out), self.local(path))

    def test_3_blocks_of_cheap_runs(self):
        """A helper that is killed amid a block: what it had not answered is done by the next."""
        path = self.home / "cheap.json"
        axis = {"range": [0, 5], "steps": 120}
        path.write_text(json.dumps({
            "kind": "study",
            "version": 1,
            "base": {"system": "function", "workload": {"function": "bnh", "point": {"x": 1, "y": 1}}},
            "parameters": [
                {"name": "x", "path": "workload.point.x", **axis},
                {"name": "y", "path": "workload.point.y", "range": [0, 3], "steps": 120},
            ],
            "measures": {"f1": "f1"},
            "objectives": [{"minimise": "f1"}],
        }))
        out = path.with_suffix(".remote")
        head = subprocess.Popen([COMMAND, "sweep", path, "--out", out, "--cluster", self.cluster.address, "--quiet"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while runs_of(out) == 0 and head.poll() is None:
            time.sleep(0.01)
        os.kill(helpers_of(self.cluster.processes[1:])[0], signal.SIGKILL)
        _, said = head.communicate(timeout=200)
        self.assertEqual(head.returncode, 0, said)
        self.assertEqual(content(out), self.local(path))

    def test_what_ends_a_helper_twice_has_failed(self):
        """A helper in Python that ends at "bad" and answers all else with the line's number."""
        script = self.home / "helper"
        script.write_text("#!/usr/bin/python3\nimport json, sys\nfor line in sys.stdin:\n"
                          "    if 'bad' in line: sys.exit(3)\n"
                          "    print(json.dumps({'id': json.loads(line).get('id'), 'status': 'ok'}), flush=True)\n")
        script.chmod(0o755)
        sys.path.insert(0, str(ROOT / "tools" / "python"))
        from orrery_cluster import __main__ as cluster

        lines = [json.dumps({"id": i, "what": "bad" if i in (2, 3) else "good"}) for i in range(6)]
        block = "".join(line + "\n" for line in lines).encode()
        with mock.patch.object(distributed, "get_worker", return_value=types.SimpleNamespace()), \
                mock.patch.dict(os.environ):
            os.environ.pop("ORRERY_COMMAND", None)
            found = cluster.evaluate(block, 6, b'{"protocol": 1}\n', str(script), "", str(self.home))
            for helper in distributed.get_worker().orrery_helpers:
                helper.close()
        answers = [json.loads(line) for line in found["answers"].splitlines()]
        self.assertEqual([a["id"] for a in answers], list(range(6)))
        self.assertEqual([a["status"] for a in answers], ["ok", "ok", "failed", "failed", "ok", "ok"])
        self.assertIn("exit code 3", answers[2]["reason"])

    def test_no_scheduler(self):
        path = self.write("nobody", points=2, requests=10)
        said = command("sweep", path, "--out", self.home / "nobody", "--cluster", "tcp://127.0.0.1:9")
        self.assertEqual(said.returncode, 2)
        self.assertIn("no scheduler answers at 'tcp://127.0.0.1:9'", said.stderr)


if __name__ == "__main__":
    unittest.main()
