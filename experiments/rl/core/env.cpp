#include "experiments/rl/core/env.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace orrery::experiments::rl {
namespace {

/// The part of one agent in the flat rows.
struct Place {
  std::size_t observation = 0, action = 0, mask = 0;
};

template <class Visit>
void for_each_agent(const EnvSpec& spec, Visit visit) {
  Place place;
  for (const AgentSpec& agent : spec.agents) {
    visit(agent, place);
    place.observation += agent.observation.size();
    place.action += agent.action.parts();
    place.mask += agent.action.all_choices();
  }
}

std::string part_name(const AgentSpec& agent, std::size_t part) {
  if (part < agent.action.names.size()) return fmt::format("{}: {}", agent.name, agent.action.names[part]);
  return fmt::format("{}: part {}", agent.name, part);
}

void check_choice(const AgentSpec& agent, std::size_t part, std::span<const std::uint8_t> allowed, double value) {
  const auto n = static_cast<double>(agent.action.choices[part]);
  if (!(value >= 0 && value < n) || value != std::floor(value))
    throw std::invalid_argument(
        fmt::format("{}: expected the index of one of {} choices, got {}", part_name(agent, part), n, value));
  if (!allowed.empty() && allowed[static_cast<std::size_t>(value)] == 0)
    throw std::invalid_argument(fmt::format("{}: choice {} is not allowed now", part_name(agent, part), value));
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error("environment: " + what);
}

}  // namespace

std::size_t ActionSpace::all_choices() const {
  return static_cast<std::size_t>(std::accumulate(choices.begin(), choices.end(), std::int64_t{0}));
}

std::size_t EnvSpec::observation_size() const {
  std::size_t size = 0;
  for (const AgentSpec& agent : agents) size += agent.observation.size();
  return size;
}

std::size_t EnvSpec::action_size() const {
  std::size_t size = 0;
  for (const AgentSpec& agent : agents) size += agent.action.parts();
  return size;
}

std::size_t EnvSpec::mask_size() const {
  std::size_t size = 0;
  for (const AgentSpec& agent : agents) size += agent.action.all_choices();
  return size;
}

void check_action(const EnvSpec& spec, std::span<const std::uint8_t> mask, std::span<const double> action) {
  if (action.size() != spec.action_size())
    throw std::invalid_argument(
        fmt::format("expected an action of {} numbers, got {}", spec.action_size(), action.size()));
  for_each_agent(spec, [&](const AgentSpec& agent, Place place) {
    for (std::size_t part = 0; part < agent.action.parts(); ++part) {
      const double value = action[place.action + part];
      if (agent.action.kind != ActionKind::box) {
        const auto n = static_cast<std::size_t>(agent.action.choices[part]);
        check_choice(agent, part, mask.empty() ? mask : mask.subspan(place.mask, n), value);
        place.mask += n;
      } else if (!(value >= agent.action.low[part] && value <= agent.action.high[part])) {
        throw std::invalid_argument(fmt::format("{}: expected a number in [{}, {}], got {}", part_name(agent, part),
                                                agent.action.low[part], agent.action.high[part], value));
      }
    }
  });
}

void check_step(const EnvSpec& spec, const TimeStep& step) {
  require(!spec.agents.empty(), "no agent");
  require(step.observation.size() == spec.observation_size(), "wrong length of an observation");
  require(step.rewards.size() == spec.agents.size(), "expected a reward an agent");
  require(step.mask.size() == (spec.masked ? spec.mask_size() : 0), "wrong length of a mask");
  require(step.advice.size() == (spec.rule.empty() ? 0 : spec.action_size()), "wrong length of an advice");
  require(step.info.size() == spec.info.size(), "wrong number of figures");
  for (const double reward : step.rewards) require(std::isfinite(reward), "a reward is not finite");
  if (spec.shared_reward)
    for (const double reward : step.rewards) require(reward == step.rewards[0], "shared rewards differ");
  for_each_agent(spec, [&](const AgentSpec& agent, Place place) {
    for (std::size_t i = 0; i < agent.observation.size(); ++i) {
      const ObservationEntry& entry = agent.observation[i];
      const double value = step.observation[place.observation + i];
      require(std::isfinite(value) && value >= entry.low && value <= entry.high,
              fmt::format("{} of {} is {}, outside [{}, {}]", entry.name, agent.name, value, entry.low, entry.high));
    }
    if (!spec.masked || step.ended()) return;
    for (std::size_t part = 0; part < agent.action.choices.size(); ++part) {
      int allowed = 0;
      for (std::int64_t choice = 0; choice < agent.action.choices[part]; ++choice) allowed += step.mask[place.mask++];
      require(allowed > 0, part_name(agent, part) + " has no allowed choice");
    }
  });
}

void clear_step(const EnvSpec& spec, TimeStep& out) {
  out.observation.assign(spec.observation_size(), 0.0);
  out.rewards.assign(spec.agents.size(), 0.0);
  out.mask.assign(spec.masked ? spec.mask_size() : 0, 1);
  out.advice.assign(spec.rule.empty() ? 0 : spec.action_size(), 0.0);
  out.terminated = out.truncated = false;
  out.info.assign(spec.info.size(), std::numeric_limits<double>::quiet_NaN());
}

EnvFactory env_factory(const EnvRegistry::Choice& choice, const Systems& systems) {
  return [make = choice.make, systems] { return make(systems); };
}

}  // namespace orrery::experiments::rl
