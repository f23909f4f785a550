"""Commands that are stopped, killed, or have no place for their answer (crashes.py)."""

import os
import pathlib
import signal
import tempfile
import unittest

import crashes
from orrery_properties.command import cpu_seconds

PROGRAM = pathlib.Path(os.environ.get("ORRERY_COMMAND", crashes.ROOT / "build/release/orrery"))


class MatrixTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="orrery-crashes-")
        cls.addClassCleanup(folder.cleanup)
        cls.bench = crashes.Bench(PROGRAM, pathlib.Path(folder.name))
        cls.addClassCleanup(lambda: print(f"\n{cls.bench.orrery.count} commands, {cpu_seconds():.0f} s of processor time"))

    def check(self, name):
        job = next(job for job in crashes.JOBS if job.name == name)
        for case, found in self.bench.cases(job):
            with self.subTest(case):
                self.assertEqual([], found)

    def test_in_the_middle_of_one_long_simulation(self):
        for job in crashes.LONG_JOBS:
            with self.subTest(job.name):
                self.assertEqual([], self.bench.in_the_middle(job))


for _job in crashes.JOBS:
    setattr(MatrixTest, f"test_{_job.name}", lambda self, name=_job.name: self.check(name))


class NohupTest(unittest.TestCase):
    def test_a_hangup_that_is_ignored_stays_so(self):
        """As nohup starts a command: the terminal is gone, the run goes on."""
        with tempfile.TemporaryDirectory(prefix="orrery-crashes-") as folder:
            bench = crashes.Bench(PROGRAM, pathlib.Path(folder))
            job = crashes.JOBS[0]
            whole, seconds = bench.undisturbed(job)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self.addCleanup(signal.signal, signal.SIGHUP, signal.SIG_DFL)
            folder = bench.folder("nohup")
            ended, _ = bench.stop(job, folder, signal.SIGHUP, seconds / 3)
            self.assertEqual((ended.code, ended.late), (0, ""))
            self.assertEqual(bench.answer(job, folder), whole)


class BenchTest(unittest.TestCase):
    """The bench itself: a command that does wrong is found out."""

    def bench(self, script):
        """A bench whose command is a shell script; $2 is the place of its answer."""
        folder = tempfile.TemporaryDirectory(prefix="orrery-crashes-")
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name) / "fake"
        program.write_text(f'#!/bin/bash\nif [ "$2" = few.json ]; then mkdir few; exit 0; fi\n{script}\n')
        program.chmod(0o755)
        return crashes.Bench(program, pathlib.Path(folder.name)), crashes.Job("fake", ("fake", "OUT"), "answer")

    # Half a second of work, an answer, and a word about it.
    WORK = "for ((i = 0; i < 150000; ++i)); do :; done; mkdir \"$2\" || exit 2; echo 1 > \"$2/summary.json\"; echo done"

    def test_stopped_as_it_should_be(self):
        clear = "rm -rf .temporary"
        bench, job = self.bench(f"{clear}; trap '{clear}; exit 130' TERM; mkdir .temporary; {self.WORK}; {clear}")
        self.assertEqual([], bench.after_signal(job, signal.SIGTERM, True))
        self.assertEqual([], bench.after_signal(job, signal.SIGKILL, True))

    def test_stopped_wrongly(self):
        bench, job = self.bench(f"mkdir .temporary$$; {self.WORK}; rm -r .temporary$$")
        self.assertIn("exit code -15", "; ".join(bench.after_signal(job, signal.SIGTERM, False)))
        self.assertIn("leaves .temporary", "; ".join(bench.after_signal(job, signal.SIGTERM, False)))
        self.assertIn("does not clear up .temporary", "; ".join(bench.after_signal(job, signal.SIGKILL, True)))
        bench, job = self.bench(f"trap '' TERM; {self.WORK}")
        self.assertIn("does not heed it", "; ".join(bench.after_signal(job, signal.SIGTERM, False)))

    def test_half_an_answer(self):
        bench, job = self.bench('mkdir -p "$2"; echo "$$" > "$2/summary.json"; for ((i = 0; i < 150000; ++i)); do :; done')
        self.assertIn("part of an answer", "; ".join(bench.after_signal(job, signal.SIGKILL, False)))
        self.assertIn("not as undisturbed", "; ".join(bench.after_signal(job, signal.SIGKILL, True)))

    def test_places(self):
        bench, job = self.bench(self.WORK)  # a shell's echo onto a full disk fails, but the script's end is another's
        self.assertEqual([], [what for what in bench.bad_place(job) if "exit code" in what])
        bench, job = self.bench("echo done 2> /dev/null; exit 0")
        self.assertIn("what it printed is lost", "; ".join(bench.broken_stdout(job, pipe=False)))
        self.assertIn("exit code 0", "; ".join(bench.bad_place(job)))
        self.assertIn("exit code 0", "; ".join(bench.full_disk(job)))


if __name__ == "__main__":
    unittest.main()
