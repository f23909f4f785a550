// Environments by name, and what every one of them must keep.
#pragma once

#include "experiments/rl/core/env.hpp"
#include "sim/base/random.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::rl::test {

inline const sim::Origin kHere{"test", ""};

/// A way to make a shipped environment with parameters as JSON.
inline EnvFactory env_factory(const std::string& name, const std::string& params = "{}") {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = test_systems().registry<EnvRegistry>().prepare(name, &node, kHere, faults);
  faults.throw_if_any();
  return rl::env_factory(choice, test_systems());
}

inline std::unique_ptr<Env> make_env(const std::string& name, const std::string& params = "{}") {
  return env_factory(name, params)();
}

/// An allowed action at random.
inline std::vector<double> random_action(const EnvSpec& spec, const TimeStep& now, sim::RandomStream& random) {
  std::vector<double> action;
  std::size_t place = 0;
  for (const AgentSpec& agent : spec.agents) {
    for (std::size_t part = 0; part < agent.action.parts(); ++part) {
      if (agent.action.kind == ActionKind::box) {
        action.push_back(random.uniform(agent.action.low[part], agent.action.high[part]));
        continue;
      }
      std::vector<double> allowed;
      for (std::int64_t choice = 0; choice < agent.action.choices[part]; ++choice, ++place)
        if (now.mask.empty() || now.mask[place] != 0) allowed.push_back(static_cast<double>(choice));
      action.push_back(allowed[random.below(allowed.size())]);
    }
  }
  return action;
}

}  // namespace orrery::experiments::rl::test
