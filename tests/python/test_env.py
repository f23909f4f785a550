"""Environments from Python: every one that ships keeps Gymnasium's (or PettingZoo's) API."""

import unittest

import numpy
import orrery
from env_double import check_env, check_parallel_env, episode
from orrery import spaces



def parameters(name: str) -> dict:
    """Two replicas, so that routers are asked."""
    if not name.startswith("serving"):
        return {}
    devices = [{"part": "a100-sxm4-80gb", "count": 2}]
    replicas = [{"count": 2, "tensor_parallel": 1}]
    return {"requests": 30, "override": {"machine": {"devices": devices}, "cluster": {"replicas": replicas}}}


class ProtocolTest(unittest.TestCase):
    def test_every_environment(self):
        for name in orrery.list("env"):
            with self.subTest(name):
                env = orrery.make_env(name, **parameters(name))
                if hasattr(env, "possible_agents"):
                    check_parallel_env(env)
                else:
                    check_env(env)

    def test_checker_finds_faults(self):
        """The double is no rubber stamp."""
        for method in ("reset", "step"):
            env = orrery.make_env("cart_pole")
            sound = getattr(env, method)
            setattr(env, method, lambda *a, seed=None, options=None, f=sound, m=method, **k: f(*a, **k)[:-1])
            with self.subTest(method), self.assertRaises(AssertionError):
                check_env(env)
        env = orrery.make_env("cart_pole")
        env.observation_space = spaces.Box(0.0, 0.0, (4,))
        with self.assertRaises(AssertionError):
            check_env(env)

    def test_episodes_follow_from_a_seed(self):
        env = orrery.make_env("cart_pole")
        first = [env.reset(seed=9)[0], env.reset()[0], env.reset()[0]]
        self.assertFalse(numpy.array_equal(first[0], first[1]))
        again = [env.reset(seed=9)[0], env.reset()[0], env.reset()[0]]
        numpy.testing.assert_array_equal(first, again)

    def test_masks(self):
        env = orrery.make_env("job_shop")
        _, info = env.reset(seed=1)
        self.assertEqual(info["action_mask"].shape, (env.action_space.n,))
        log = episode(env, 1)
        self.assertTrue(log[-1][2])
        with self.assertRaisesRegex(RuntimeError, "the episode has ended"):
            env.step(0)
        env.reset(seed=1)
        while True:
            *_, info = env.step(0)
            if not info["action_mask"][0]:
                break
        with self.assertRaisesRegex(ValueError, "not allowed now"):
            env.step(0)

    def test_episode_without_a_decision(self):
        """With one replica no router is asked: the first step ends it."""
        env = orrery.make_env("serving_routing", requests=5)
        env.reset(seed=1)
        _, reward, terminated, truncated, _ = env.step(0)
        self.assertEqual((reward, terminated, truncated), (0.0, True, False))
        with self.assertRaisesRegex(RuntimeError, "the episode has ended"):
            env.step(0)

    def test_faults(self):
        with self.assertRaisesRegex(orrery.ConfigError, "did you mean 'cart_pole'"):
            orrery.make_env("cart_pol")
        with self.assertRaisesRegex(orrery.ConfigError, "/max_step.*did you mean 'max_steps'"):
            orrery.make_env("cart_pole", max_step=3)
        env = orrery.make_env("cart_pole")
        with self.assertRaisesRegex(RuntimeError, "reset"):
            env.step(0)
        env.reset(seed=0)
        for wrong in (7, -1, 0.5, [0, 1]):
            with self.assertRaises(ValueError):
                env.step(wrong)
        for seed in (-1, 2**64, 0.5, True):
            with self.assertRaises(ValueError):
                env.reset(seed=seed)
        two = orrery.make_env("rendezvous")
        two.reset(seed=0)
        with self.assertRaisesRegex(ValueError, "none of agent1"):
            two.step({"agent0": 1, "agent2": 1})


class SpaceTest(unittest.TestCase):
    def test_box(self):
        box = spaces.Box(numpy.array([0.0, -numpy.inf, 0.0]), numpy.array([1.0, 2.0, numpy.inf]))
        for _ in range(50):
            self.assertTrue(box.contains(box.sample()))
        self.assertFalse(box.contains(numpy.array([0.5, 2.1, 0.0])))
        self.assertFalse(box.contains(numpy.array([0.5, 2.0])))

    def test_choices(self):
        one = spaces.Discrete(3)
        self.assertEqual({int(one.sample(mask=numpy.array([0, 1, 0], numpy.int8))) for _ in range(20)}, {1})
        self.assertFalse(one.contains(3) or one.contains(0.5))
        many = spaces.MultiDiscrete([2, 3])
        self.assertTrue(many.contains(many.sample()))
        self.assertFalse(many.contains(numpy.array([2, 0])))
        self.assertNotEqual(one, many)


if __name__ == "__main__":
    unittest.main()
