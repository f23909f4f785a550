// The same environment for another number of agents: one that does everything, or one for each part of an action.
#pragma once

#include "experiments/rl/core/env.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments::rl {

enum class Agents : std::uint8_t {
  as_is,
  joint,  ///< one agent sees everything and chooses for all; its reward is the mean of theirs
  split   ///< an agent for each part of the one agent's choices; all see what it sees, and get its reward
};
constexpr auto enum_names(Agents) {
  using enum Agents;
  return sim::names<Agents>({{"as_is", as_is}, {"joint", joint}, {"split", split}});
}

/// Throws std::invalid_argument where that is not possible: boxes mixed with choices (joint), several agents or a box
/// (split).
std::unique_ptr<Env> regroup(std::unique_ptr<Env> env, Agents agents);

}  // namespace orrery::experiments::rl
