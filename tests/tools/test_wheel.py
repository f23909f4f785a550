"""A wheel of this build: the same bytes twice, installed into an environment of its own, asked for everything.

    test_wheel.py BUILD_FOLDER SOURCE_FOLDER
"""

import base64
import csv
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

BUILD, SOURCE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "tools/python/orrery_wheel"))

import backend  # noqa: E402

SETTINGS = {"build": str(BUILD)}


def unpacked(wheel, environment):
    """What an installer does: packages into site-packages, data into the prefix, scripts made executable."""
    site = next(environment.glob("lib/python3*/site-packages"))
    data = f"orrery-{backend.version()}.data/"
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            kind, _, rest = name.removeprefix(data).partition("/") if name.startswith(data) else ("", "", name)
            target = {"": site, "data": environment, "scripts": environment / "bin"}[kind] / rest
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
            if kind == "scripts":
                target.chmod(0o755)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="orrery-wheel-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = pathlib.Path(folder.name)
        cls.wheel = cls.scratch / backend.build_wheel(str(cls.scratch), SETTINGS)
        cls.environment = cls.scratch / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", cls.environment], check=True)
        unpacked(cls.wheel, cls.environment)

    def run_in(self, *words, code=0):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("ORRERY_", "PYTHON"))}
        path = f"{self.environment / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run([str(word) for word in words], cwd=self.scratch, env={**kept, "PATH": path}, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def test_the_same_tree_gives_the_same_bytes(self):
        other = self.scratch / "again"
        other.mkdir()
        again = other / backend.build_wheel(str(other), SETTINGS)
        self.assertEqual(again.name, self.wheel.name)
        self.assertEqual(again.read_bytes(), self.wheel.read_bytes())

    def test_its_record_is_of_its_files(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            record = next(name for name in names if name.endswith("RECORD"))
            rows = list(csv.reader(archive.read(record).decode().splitlines()))
            self.assertEqual([row[0] for row in rows], names)
            for name, digest, size in rows[:-1]:
                content = archive.read(name)
                wanted = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, size), (f"sha256={wanted}", str(len(content))), name)

    def test_command_and_package_find_their_data_and_agree(self):
        self.run_in("orrery", "run", "first_light", "--out", "run", "--quiet")
        command = json.loads((self.scratch / "run/summary.json").read_text(encoding="utf-8"))
        told = self.run_in(self.environment / "bin/python", "-c", "import json, orrery; "
                           "assert 'environment' in orrery.__file__; "
                           "print(json.dumps(orrery.run(orrery.home_folder() + '/experiments/studies/first_light.json').summary))")
        self.assertEqual(json.loads(told)["ttft_s"], command["ttft_s"])
        self.assertIn("llama-2-7b", self.run_in("orrery", "list", "model"))
        home = self.run_in(self.environment / "bin/python", "-c", "import orrery; print(orrery.home_folder())").strip()
        self.assertEqual(pathlib.Path(home).resolve(), (self.environment / "share/orrery").resolve())

    def test_a_report_from_it(self):
        self.run_in("orrery", "run", "first_light", "--set", "workload.limit=50", "--out", "small", "--quiet")
        kept = os.environ.pop("ORRERY_PYTHON", None)
        self.run_in("env", f"ORRERY_PYTHON={self.environment / 'bin/python'}", "orrery", "report", "small", "--out", "small.html")
        if kept is not None:
            os.environ["ORRERY_PYTHON"] = kept
        self.assertIn("Orrery report", (self.scratch / "small.html").read_text(encoding="utf-8"))

    def test_an_archive_runs_where_it_is_unpacked(self):
        subprocess.run(["cpack", "-G", "TGZ", "-B", self.scratch / "archive"], cwd=BUILD, check=True, capture_output=True)
        packed = next((self.scratch / "archive").glob("orrery-*.tar.gz"))
        subprocess.run(["tar", "xzf", packed, "-C", self.scratch], check=True)
        command = next(self.scratch.glob("orrery-*/usr/bin/orrery"))
        self.run_in(command, "run", "first_light", "--out", "unpacked", "--quiet")
        self.assertTrue((self.scratch / "unpacked/summary.json").is_file())

    def test_a_build_for_another_interpreter_is_refused(self):
        with self.assertRaises(SystemExit) as refused:
            backend.build_wheel(str(self.scratch), {"build": str(self.scratch)})
        self.assertIn("expected a build for this interpreter", str(refused.exception))

    def test_pip_takes_it(self):
        pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
        if pip.returncode != 0:
            self.skipTest("no pip")
        prefix = self.scratch / "prefix"
        self.run_in(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--prefix", prefix, self.wheel)
        self.assertTrue(shutil.which("orrery", path=str(next(prefix.rglob("bin")))))


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
