"""What becomes of a policy that fails: the error names it and the simulated time, and nothing half-written is left."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import orrery
from support import config, fleet
from test_policies import Budget


class CrashTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def crashes(self, error, pattern, base=None, **policies):
        """The run raises, with and without a folder, and leaves neither folder nor temporary files."""
        temporary = self.home / "tmp"
        temporary.mkdir(exist_ok=True)
        before, tempfile.tempdir = tempfile.tempdir, str(temporary)
        self.addCleanup(setattr, tempfile, "tempdir", before)
        for out in (None, self.home / "deep/run"):
            with self.subTest(out=out), self.assertRaisesRegex(error, pattern) as caught:
                orrery.run(base or config(50), out=out, **policies)
            self.assertEqual(os.listdir(temporary), [])
            self.assertEqual(os.listdir(self.home), ["tmp"])
        return caught.exception

    def test_while_it_decides(self):
        class Late(Budget):
            def decide(self, view, out):
                if view.now_s > 5:
                    raise ZeroDivisionError("at last")
                super().decide(view, out)

        pattern = r"policy .*Late at [56]\.\d+ s of simulated time: ZeroDivisionError: at last"
        error = self.crashes(orrery.PolicyError, pattern, batching=Late)
        self.assertIsInstance(error.__cause__, ZeroDivisionError)

    def test_while_it_is_made(self):
        class Unmade(Budget):
            def __init__(self):
                raise LookupError("no table")

        self.crashes(orrery.PolicyError, "policy .*Unmade at 0 s of simulated time: LookupError: no table",
                     batching=Unmade)

    def test_router(self):
        class Lost(orrery.Router):
            def route(self, view):
                if view.now_s > 1:
                    raise RuntimeError("no way")
                return 0

        error = self.crashes(orrery.PolicyError, r"policy .*Lost at \d.* s of simulated time: RuntimeError: no way",
                             fleet(requests=60), routing=Lost)
        self.assertIsInstance(error.__cause__, RuntimeError)

        class Unmade(orrery.Router):
            def __init__(self):
                raise RuntimeError("no map")

        self.crashes(orrery.PolicyError, "Unmade at 0 s of simulated time: RuntimeError: no map", fleet(requests=60),
                     routing=Unmade)

    def test_router_that_forgets(self):
        class Forgets(orrery.Router):
            def route(self, view):
                return 0

            def left(self, request):
                raise KeyError(request)

        self.crashes(orrery.PolicyError, "Forgets at .* s of simulated time: KeyError", fleet(requests=20),
                     routing=Forgets)

    def test_interrupt_inside(self):
        for raised in (KeyboardInterrupt, SystemExit):

            class Stop(Budget):
                def decide(self, view, out, raised=raised):
                    if view.now_s > 2:
                        raise raised
                    super().decide(view, out)

            with self.subTest(raised):
                for out in (None, self.home / "run"):
                    with self.assertRaises(raised):
                        orrery.run(config(50), batching=Stop, out=out)
                    self.assertEqual(os.listdir(self.home), [])

    def test_a_folder_that_was_there_stays(self):
        """A crash over a run with `force` leaves the run."""
        class Fails(Budget):
            def decide(self, view, out):
                raise ValueError("no")

        orrery.run(config(20), out=self.home / "run")
        before = {file.name: file.read_bytes() for file in (self.home / "run").iterdir()}
        with self.assertRaises(orrery.PolicyError):
            orrery.run(config(20), out=self.home / "run", force=True, batching=Fails)
        self.assertEqual({file.name: file.read_bytes() for file in (self.home / "run").iterdir()}, before)
        self.assertEqual(os.listdir(self.home), ["run"])

    def test_the_next_run_is_sound(self):
        class Fails(Budget):
            def decide(self, view, out):
                raise ValueError("no")

        sound = orrery.run(config(30), batching=Budget, tables=False).summary
        with self.assertRaises(orrery.PolicyError):
            orrery.run(config(30), batching=Fails, tables=False)
        self.assertEqual(orrery.run(config(30), batching=Budget, tables=False).summary, sound)

    def test_ctrl_c_inside_a_policy(self):
        """A signal that comes while Python code of the policy runs ends the run as one that comes outside."""
        text = f"""
import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import os, signal, orrery, support, test_policies
class Stop(test_policies.Budget):
    def decide(self, view, out):
        if view.now_s > 1:
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(10**6))
        super().decide(view, out)
try:
    orrery.run(support.config(2_000_000), batching=Stop, out=sys.argv[1])
except KeyboardInterrupt:
    print("stopped", os.listdir(os.path.dirname(sys.argv[1])))
"""
        told = subprocess.run([sys.executable, "-c", text, str(self.home / "run")], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(told.stdout, "stopped []\n", told.stderr)


if __name__ == "__main__":
    unittest.main()
