"""What Python costs, in CPU time: the figures of docs/explain/python.md. Run by hand, as the tests are."""

import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time

os.environ.setdefault("ORRERY_COMMAND", "")

import numpy  # noqa: E402
import orrery  # noqa: E402
import pandas  # noqa: E402, F401 - its import is not measured
from support import config  # noqa: E402
from test_policies import Budget  # noqa: E402


class Counted(Budget):
    asked = 0

    def decide(self, view, out):
        self.asked += 1
        super().decide(view, out)


def cpu_s(work) -> float:
    """The least of three."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def policies():
    load = config(20_000, rate="10 1/s")
    ours = Counted()
    core = cpu_s(lambda: orrery.run(load, {"policies.batching.policy": "vllm_v1"}, tables=False))
    python = cpu_s(lambda: orrery.run(load, batching=ours, tables=False))
    print(f"policy: {ours.asked / 3 / (python - core):.3g} decisions/s ({python:.3f} s against {core:.3f} s)")


def frames():
    result = orrery.run(config(10_000))
    columns = cpu_s(lambda: pandas.DataFrame(result.columns("requests"), copy=False))
    print(f"10,000 requests to a frame: {1e3 * columns:.1f} ms")
    print(f"run of one request, config read and files written: {1e3 * cpu_s(lambda: orrery.run(config(1))):.1f} ms")


def over_the_command():
    """CPU time of `run` with a run folder against that of the command, whose process starts anew."""
    command = os.environ["ORRERY_COMMAND"]
    if not command:
        return
    with tempfile.TemporaryDirectory() as home:
        for requests in (1, 10_000):
            file = pathlib.Path(home) / "config.json"
            file.write_text(json.dumps(config(requests)))

            def of_children():
                used = resource.getrusage(resource.RUSAGE_CHILDREN)
                return used.ru_utime + used.ru_stime

            theirs = []
            for _ in range(5):
                begun = of_children()
                subprocess.run([command, "run", file, "--force", "--quiet", "--out", home + "/cli"],
                               stdout=subprocess.DEVNULL, check=True)
                theirs.append(of_children() - begun)
            ours = cpu_s(lambda file=file: orrery.run(file, out=home + "/py", force=True))
            over = 1e3 * (ours - min(theirs))
            said = f"{1e3 * ours:.1f} ms, {over:+.1f} ms over the command's {1e3 * min(theirs):.1f}"
            print(f"run of {requests} requests: {said}")


def searches():
    """Ask and tell of a function that does nothing, into a store."""
    space = {"x": {"range": [0, 4]}, "y": {"range": [0, 4]}}
    points = 2_000
    spent = cpu_s(lambda: orrery.search(lambda x, y: {"cost": x * x + y}, space, "cost", "nsga2", points))
    print(f"search over a Python function: {1e6 * spent / points:.0f} us a point")


def environments():
    env, steps = orrery.make_env("cart_pole"), 20_000

    def one():
        env.reset(seed=1)
        for i in range(steps):
            _, _, terminated, truncated, _ = env.step(i & 1)
            if terminated or truncated:
                env.reset()

    vector = orrery.make_vec_env("cart_pole", 64)
    actions = numpy.zeros(64)

    def many():
        vector.reset(seed=1)
        for _ in range(steps // 10):
            vector.step(actions)

    print(f"cart_pole: {steps / cpu_s(one):.3g} steps/s; 64 of them: {64 * steps // 10 / cpu_s(many):.3g} steps/s")


if __name__ == "__main__":
    policies()
    frames()
    over_the_command()
    searches()
    environments()
