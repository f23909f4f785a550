"""A double of gymnasium's check_env: asks of an environment what that checker asks, without the package."""

import inspect

import numpy


def equal(a, b) -> bool:
    """Whether two values of observations or infos are the same, however deep."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return numpy.array_equal(a, b)


def check_space(space) -> None:
    for _ in range(5):
        assert space.contains(space.sample()), f"{space} draws what it does not contain"
    space.seed(7)
    first = space.sample()
    space.seed(7)
    assert numpy.array_equal(first, space.sample()), f"{space} is not seeded"
    assert space == space and space.shape == numpy.shape(first) and space.dtype == numpy.asarray(first).dtype


def sample(env, info):
    """An allowed action."""
    mask = info.get("action_mask")
    return env.action_space.sample() if mask is None else env.action_space.sample(mask=mask)


def check_reset(env) -> None:
    parameters = inspect.signature(env.reset).parameters
    assert "seed" in parameters and parameters["seed"].default is None
    assert "options" in parameters
    made = env.reset(seed=123)
    assert isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], dict)
    first, state = made[0], env.unwrapped.np_random.bit_generator.state
    assert env.observation_space.contains(first), f"{first} is outside {env.observation_space}"
    second, _ = env.reset(seed=123)
    assert equal(first, second) and env.unwrapped.np_random.bit_generator.state == state
    env.reset(seed=456)
    assert env.unwrapped.np_random.bit_generator.state != state
    env.reset(options={})
    env.reset()


def episode(env, seed, steps=200) -> list:
    """The steps of an episode under random allowed actions."""
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed)
    log = [(observation, info)]
    for _ in range(steps):
        step = env.step(sample(env, info))
        assert isinstance(step, tuple) and len(step) == 5
        observation, reward, terminated, truncated, info = step
        assert env.observation_space.contains(observation), f"{observation} is outside {env.observation_space}"
        assert isinstance(reward, float) and numpy.isfinite(reward)
        assert isinstance(terminated, bool) and isinstance(truncated, bool) and isinstance(info, dict)
        log.append(step)
        if terminated or truncated:
            break
    return log


def check_env(env) -> None:
    """Raises AssertionError for what gymnasium's checker would not accept."""
    assert env.unwrapped is env and "render_modes" in env.metadata and env.render_mode is None
    check_space(env.observation_space)
    check_space(env.action_space)
    check_reset(env)
    assert equal(episode(env, 5), episode(env, 5)), "an episode is no function of its seed and actions"
    env.close()


def check_parallel_env(env, seed=3) -> None:
    """What PettingZoo's parallel_api_test asks."""
    observations, infos = env.reset(seed=seed)
    names = set(env.possible_agents)
    assert set(env.agents) == names == set(observations) == set(infos) and env.num_agents == env.max_num_agents
    for name in names:
        assert env.observation_space(name) is env.observation_space(name)
        check_space(env.observation_space(name))
        check_space(env.action_space(name))
    for _ in range(1000):
        for name in env.agents:
            assert env.observation_space(name).contains(observations[name])
        observations, *rest, infos = env.step({name: env.action_space(name).sample() for name in env.agents})
        for told in (observations, *rest, infos):
            assert set(told) == names
        if any(rest[1].values()) or any(rest[2].values()):
            break
    assert env.agents == [], "agents are gone when the episode is over"
    again, _ = env.reset(seed=seed)
    assert set(env.agents) == names and equal(again, env.reset(seed=seed)[0])
