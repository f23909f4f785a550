"""A served folder for tests: made-up runs and a real command, over http.client.

    ORRERY_COMMAND=build/release/orrery /usr/bin/python3 -m unittest discover -s tests/tools/serve
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
COMMAND = os.environ.get("ORRERY_COMMAND", str(ROOT / "build/release/orrery"))
sys.path[:0] = [str(HERE.parent), str(ROOT / "tools/python")]
sys.dont_write_bytecode = True

SMALL = {"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
         "model": {"config": "catalog:llama-2-7b"},
         "workload": {"generator": {"requests": 40, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
                                    "lengths": {"policy": "fixed", "fixed": {"prompt": 200, "output": 20}}}},
         "slo": {"ttft": "2 s", "tbt": "100 ms"}, "kind": "experiment", "version": 1}


def put(document: object, keys: list[str], value: object) -> None:
    """Sets a member; objects that are not there are made."""
    for key in keys[:-1]:
        document = document[int(key)] if isinstance(document, list) else document.setdefault(key, {})
    document[keys[-1]] = value


def orrery(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def made_up(folder: Path, ttft: float = 0.1, policy: str = "sarathi", **summary: object) -> Path:
    """A run folder with the least that a row needs."""
    folder.mkdir(parents=True)
    config = {"system": "serving", "model": {"config": "catalog:llama-2-7b"},
              "machine": {"devices": [{"part": "catalog:l4", "count": 2}]}, "policies": {"batching": {"policy": policy}}}
    told = {"status": "ok", "ttft_s": {"p99": ttft}, "tbt_s": {"p99": 0.02}, "slo": {"attainment": 0.5},
            "throughput": {"output_tokens_per_s": 100 / ttft}, "energy_j": {"total": 1000.0}}
    (folder / "manifest.json").write_text(json.dumps({"config": config, "wall_s": 1.5}))
    (folder / "summary.json").write_text(json.dumps({**told, **summary}))
    return folder


class Served:
    """`orrery serve` on a free port, ended by Ctrl-C at the end."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.process = subprocess.Popen([COMMAND, "serve", str(folder), "--port", "0", "--json", *flags], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.told = json.loads(line)
        self.port, self.url = self.told["port"], self.told["url"].rstrip("/")
        self.token = ""

    def ask(self, target: str, method: str = "GET", body: bytes | None = None, host: str | None = None,
            **headers: str) -> tuple[int, dict, bytes]:
        """(status, headers, body) of a request as it stands: nothing is encoded on the way."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host if host is not None else f"127.0.0.1:{self.port}")
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            if body is not None and "Content_Length" not in headers and "Transfer_Encoding" not in headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> dict:
        """Data of an address; AssertionError if it is refused."""
        status, _, body = self.ask("/api/" + path)
        if status != 200:
            raise AssertionError(f"{path}: {status} {body!r}")
        return json.loads(body)

    def post(self, path: str, document: object, **headers: str) -> tuple[int, dict]:
        """A change, as a page of ours asks for it."""
        if not self.token:
            page = self.ask("/")[2].decode()
            self.token = re.search(r"token&quot;: &quot;([\w-]+)&quot;", page)[1]
        headers = {"Content_Type": "application/json", "X_Orrery_Token": self.token, **headers}
        status, _, body = self.ask("/api/" + path, "POST", json.dumps(document).encode(), **headers)
        return status, json.loads(body)

    def until(self, path: str, good, limit_s: float = 30.0) -> dict:
        """The data of an address once they are `good`."""
        end = time.monotonic() + limit_s
        while True:
            answer = self.get(path)
            if good(answer):
                return answer
            if time.monotonic() > end:
                raise AssertionError(f"{path}: {answer}")
            time.sleep(0.05)

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Exit code and stderr."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            _, errors = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, errors


class ServedTest(unittest.TestCase):
    """A test over one served folder, `cls.folder`; a class fills it in `fill`."""

    flags: tuple[str, ...] = ()

    @classmethod
    def fill(cls, folder: Path) -> None:
        """Puts things into the folder before it is served."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.top = Path(tempfile.mkdtemp(prefix="orrery-serve-"))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.folder = cls.top / "served"
        cls.folder.mkdir()
        cls.fill(cls.folder)
        cls.server = Served(cls.folder, *cls.flags)
        cls.addClassCleanup(cls.server.end)

    def rows(self) -> dict[str, dict]:
        """Rows of runs by name, once the folder was read."""
        answer = self.server.until("index?since=0", lambda a: not a["reading"])
        return {row[0]: dict(zip(answer["columns"], row)) for row in answer["runs"]}
