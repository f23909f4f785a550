"""What Python costs, in CPU time: the figures of docs/python.md. Run by hand, as the tests are."""

import os
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
    environments()
