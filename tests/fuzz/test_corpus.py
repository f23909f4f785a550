"""Every target reads its seeds, and changed ones for a moment; the replay itself finds a target that breaks."""

import os
import pathlib
import subprocess
import unittest

import seeds

HERE = pathlib.Path(__file__).resolve().parent
REPLAY = os.environ.get("ORRERY_FUZZ_REPLAY", str(seeds.ROOT / "build/release/tests/fuzz/fuzz_replay"))
SECONDS = os.environ.get("ORRERY_FUZZ_SECONDS", "0.1")  # of changed inputs, a target


def replay(*arguments, **options):
    return subprocess.run([REPLAY, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600, **options)


class Corpus(unittest.TestCase):
    def test_every_target_has_seeds_and_every_seed_a_target(self):
        self.assertEqual(sorted(replay().stdout.split()), seeds.targets())

    def test_faults(self):
        self.assertEqual((replay("nothing", HERE).returncode, replay("formula", HERE / "corpus/none").returncode), (2, 2))


def _target(name):
    def test(self):
        done = replay("--seconds", SECONDS, name, *seeds.of(name), cwd=os.environ.get("TMPDIR", "/tmp"))
        self.assertEqual(done.returncode, 0, f"{done.stdout}{done.stderr}")
        self.assertGreater(int(done.stdout.split()[3]), 0, done.stdout)
    return test


for _name in seeds.targets():
    setattr(Corpus, f"test_{_name}", _target(_name))


if __name__ == "__main__":
    unittest.main()
