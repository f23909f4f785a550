// Environment steps a second on one core: one environment, and a vector of them.
#include <benchmark/benchmark.h>

#include "experiments/rl/core/vector_env.hpp"
#include "tests/systems.hpp"

namespace {

using namespace orrery;
using namespace orrery::experiments::rl;

EnvFactory factory(const char* name) {
  sim::Faults faults;
  const sim::Node params = sim::Node::object();
  auto choice = test_systems().registry<EnvRegistry>().prepare(name, &params, {"bench", ""}, faults);
  faults.throw_if_any();
  return env_factory(choice, test_systems());
}

/// An allowed action of an environment whose agents choose: of each part the k-th allowed choice, k moving on.
void next_action(const EnvSpec& spec, std::span<const std::uint8_t> mask, std::size_t k, std::span<double> out) {
  std::size_t place = 0, part = 0;
  for (const AgentSpec& agent : spec.agents)
    for (const std::int64_t n : agent.action.choices) {
      const auto size = static_cast<std::size_t>(n);
      std::size_t choice = k % size;
      while (!mask.empty() && mask[place + choice] == 0) choice = (choice + 1) % size;
      out[part++] = static_cast<double>(choice);
      place += size;
    }
}

void step_through(benchmark::State& state, const EnvFactory& make) {
  const auto env = make();
  TimeStep now;
  std::uint64_t seed = 1;
  env->reset(seed, now);
  std::vector<double> action(env->spec().action_size());
  std::size_t k = 0;
  for (auto _ : state) {
    if (now.ended()) env->reset(++seed, now);
    next_action(env->spec(), now.mask, k++, action);
    check_action(env->spec(), now.mask, action);
    env->step(action, now);
  }
  state.SetItemsProcessed(state.iterations());
}

void env_steps(benchmark::State& state, const char* name) {
  step_through(state, factory(name));
}

void vector_env_steps(benchmark::State& state, const char* name) {
  std::vector<std::unique_ptr<Env>> envs;
  for (int i = 0; i < 16; ++i) envs.push_back(factory(name)());
  VectorEnv vector(std::move(envs), Autoreset::same_step);
  vector.reset(1);
  const std::size_t width = vector.spec().action_size(), mask = vector.now().masks.size() / 16;
  std::vector<double> actions(16 * width);
  std::size_t k = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < 16; ++i)
      next_action(vector.spec(), std::span(vector.now().masks).subspan(i * mask, mask), k++,
                  std::span(actions).subspan(i * width, width));
    vector.step(actions);
  }
  state.SetItemsProcessed(16 * state.iterations());
}

/// The environment of a study that ships.
EnvFactory factory_of_study(const char* study) {
  const sim::Node root = sim::read_config(std::filesystem::path(ORRERY_SOURCE_DIR) / "experiments/studies" /
                                          (std::string(study) + ".json"));
  sim::Faults faults;
  auto choice = test_systems().registry<EnvRegistry>().parse_block(*root.find("env"), "", faults);
  faults.throw_if_any();
  return env_factory(choice, test_systems());
}

void study_env_steps(benchmark::State& state, const char* study) {
  step_through(state, factory_of_study(study));
}

BENCHMARK_CAPTURE(study_env_steps, serving_routing, "rl_routing");
BENCHMARK_CAPTURE(study_env_steps, serving_batching, "rl_batching");
BENCHMARK_CAPTURE(env_steps, contextual_bandit, "contextual_bandit");
BENCHMARK_CAPTURE(env_steps, cart_pole, "cart_pole");
BENCHMARK_CAPTURE(env_steps, job_shop_5x5, "job_shop");
BENCHMARK_CAPTURE(env_steps, matrix_game, "matrix_game");
BENCHMARK_CAPTURE(env_steps, rendezvous, "rendezvous");
BENCHMARK_CAPTURE(vector_env_steps, cart_pole, "cart_pole");
BENCHMARK_CAPTURE(vector_env_steps, job_shop_5x5, "job_shop");

}  // namespace
