"""Vectors of environments: rows that equal single environments, both kinds of autoreset, any number of threads."""

import unittest

import numpy
import orrery
from orrery.vector import AutoresetMode


def rollout(env, steps: int, seed: int) -> list:
    env.action_space.seed(4)
    log = [env.reset(seed=seed)]
    for _ in range(steps):
        log.append(env.step(env.action_space.sample()))
    return log


class VectorTest(unittest.TestCase):
    def test_rows_are_single_environments(self):
        vector = orrery.make_vec_env("cart_pole", 3)
        single = orrery.make_env("cart_pole")
        seeds = [11, 12, 13]
        rows, _ = vector.reset(seed=seeds)
        self.assertTrue(vector.observation_space.contains(rows))
        for i, seed in enumerate(seeds):
            observation, _ = single.reset(seed=seed)
            numpy.testing.assert_array_equal(observation, rows[i])

    def test_next_step(self):
        """After an episode's end an action is ignored, the reward 0 and the observation a first one."""
        env = orrery.make_vec_env("cart_pole", 2)
        self.assertEqual(env.metadata["autoreset_mode"], AutoresetMode.NEXT_STEP)
        env.reset(seed=1)
        for _ in range(600):
            observations, rewards, terminated, truncated, infos = env.step([0, 1])
            self.assertNotIn("final_obs", infos)
            if (terminated | truncated)[0]:
                break
        self.assertTrue(terminated[0])
        next_observations, rewards, terminated, truncated, _ = env.step([0, 0])
        self.assertEqual(rewards[0], 0)
        self.assertFalse(terminated[0] or truncated[0])
        self.assertLess(abs(next_observations[0]).max(), abs(observations[0]).max())

    def test_same_step(self):
        env = orrery.make_vec_env("cart_pole", 2, autoreset="same_step")
        env.reset(seed=1)
        for _ in range(600):
            observations, _, terminated, truncated, infos = env.step([0, 1])
            if terminated[0]:
                break
        self.assertTrue(infos["_final_obs"][0])
        self.assertGreater(abs(infos["final_obs"][0]).max(), abs(observations[0]).max())

    def test_threads_change_nothing(self):
        logs = [rollout(orrery.make_vec_env("cart_pole", 8, threads=n), 300, 5) for n in (1, 2)]
        for a, b in zip(*logs):
            for x, y in zip(a[:-1], b[:-1]):
                numpy.testing.assert_array_equal(x, y)

    def test_masks_and_figures(self):
        env = orrery.make_vec_env("job_shop", 2)
        _, infos = env.reset(seed=1)
        self.assertEqual(infos["action_mask"].shape, (2, env.single_action_space.n))
        self.assertTrue(infos["_action_mask"].all())

    def test_resets_follow_from_a_seed(self):
        env = orrery.make_vec_env("cart_pole", 2)
        first = [env.reset(seed=3)[0], env.reset()[0]]
        self.assertFalse(numpy.array_equal(*first))
        numpy.testing.assert_array_equal(first, [env.reset(seed=3)[0], env.reset()[0]])

    def test_faults(self):
        for arguments in ({"num_envs": 0}, {"num_envs": 2, "autoreset": "never"}):
            with self.assertRaises(ValueError):
                orrery.make_vec_env("cart_pole", **arguments)
        with self.assertRaisesRegex(ValueError, "3 agents"):
            orrery.make_vec_env("rendezvous", 2)
        env = orrery.make_vec_env("cart_pole", 2)
        env.reset(seed=0)
        with self.assertRaises(ValueError):
            env.step([0])
        with self.assertRaises(ValueError):
            env.reset(seed=[1, 2, 3])


if __name__ == "__main__":
    unittest.main()
