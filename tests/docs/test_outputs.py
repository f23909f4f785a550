"""Declared outputs against runs of every system: what is written is declared, and what is declared is written."""

import csv
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import output_runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python/orrery_reference"))

from outputs import declared_outputs  # noqa: E402

COMMAND = os.environ["ORRERY_COMMAND"]
SYSTEMS = json.loads(subprocess.run([COMMAND, "list", "system", "--json"], capture_output=True, check=True).stdout)
DECLARED = declared_outputs(SYSTEMS, ROOT)


def paths(value: object, path: str = "") -> Iterator[str]:
    """Dotted paths of all figures; '*' for places in a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, f"{path}\0{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        for inner in value:
            yield from paths(inner, path + "\0*")
    else:
        yield path


def expanded(pattern: str) -> list[str]:
    """'a.{b,c}' as 'a.b' and 'a.c'."""
    parts = re.split(r"\{([^}]*)\}", pattern)
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def matches(pattern: str, path: str) -> bool:
    parts = [re.escape(part).replace(r"\*\*", "\1").replace(r"\*", "[^\0]+").replace("\1", ".+") for part in pattern.split(".")]
    # A name in a path may hold dots (replications."ttft_s.mean"): one dot of a pattern may be one of those.
    return re.fullmatch("\0".join(parts), path) is not None or re.fullmatch(r"[\0.]".join(parts), path) is not None


class Outputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        shutil.copytree(ROOT / "experiments/studies", cls.folder / "experiments/studies")
        shutil.copytree(ROOT / "traces/samples", cls.folder / "traces/samples")
        (cls.folder / "experiments/studies/tune.csv").write_text(output_runs.TUNE_TABLE, encoding="utf-8")
        with ThreadPoolExecutor(2) as pool:
            cls.runs = list(pool.map(cls.run_one, enumerate(output_runs.all_runs())))

    @classmethod
    def run_one(cls, numbered: tuple[int, dict]) -> tuple[dict, pathlib.Path, subprocess.CompletedProcess]:
        number, config = numbered
        file = cls.folder / f"experiments/studies/config_{number}.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        out = cls.folder / f"run_{number}"
        return config, out, subprocess.run([COMMAND, "run", file, "--out", out, "--quiet"], capture_output=True, text=True,
                                           check=False)

    def written(self) -> dict[str, dict[str, set[str]]]:
        """What there is, by system and file."""
        found: dict[str, dict[str, set[str]]] = {}
        for config, out, done in self.runs:
            self.assertEqual(done.returncode, 0, f"{config}: {done.stderr}")
            system = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["config"]["system"]
            files = found.setdefault(system, {})
            files.setdefault("summary.json", set()).update(paths(json.loads((out / "summary.json").read_text(encoding="utf-8"))))
            for table in out.glob("*.csv"):
                with table.open(encoding="utf-8") as lines:
                    files.setdefault(table.name, set()).update(next(csv.reader(lines)))
        return found

    def test_both_ways(self):
        found = self.written()
        self.assertEqual(set(found), set(DECLARED))
        for system, files in found.items():
            self.assertEqual(set(files), set(DECLARED[system]), system)
            for name, there in files.items():
                patterns = [one for pattern in DECLARED[system][name] for one in expanded(pattern)]
                for path in sorted(there):
                    with self.subTest("written, not declared", system=system, file=name, figure=path.replace("\0", ".")):
                        self.assertTrue(any(matches(pattern, path) for pattern in patterns))
                for pattern in patterns:
                    with self.subTest("declared, not written", system=system, file=name, figure=pattern):
                        self.assertTrue(any(matches(pattern, path) for path in there))

    def test_all_is_said(self):
        for system, files in DECLARED.items():
            for name, figures in files.items():
                for figure, (unit, doc) in figures.items():
                    with self.subTest(system=system, file=name, figure=figure):
                        self.assertTrue(doc.endswith((".", "…)", "…", "md")) and isinstance(unit, str))

    def test_a_missing_figure_is_found(self):
        self.assertFalse(matches("ttft_s.mean", "ttft_s\0p50"))
        self.assertTrue(matches("passes.*.**", "passes\0amp\0casts"))
        self.assertFalse(matches("requests.*", "requests\0a\0b"))


if __name__ == "__main__":
    unittest.main()
