// The same environment for another number of agents: one that does everything, or one for each part of an action.
#pragma once

#include "experiments/rl/core/env.hpp"

namespace orrery::experiments::rl {

enum class Agents : std::uint8_t {
  as_is,
  joint,  ///< one agent sees everything and chooses for all; its reward is the mean of theirs
  split   ///< an agent for each part of the one agent's choices; all see what it sees, and get its reward
};

/// Throws std::invalid_argument where that is not possible: boxes mixed with choices (joint), several agents or a box
/// (split).
std::unique_ptr<Env> regroup(std::unique_ptr<Env> env, Agents agents);

}  // namespace orrery::experiments::rl

template <>
struct orrery::sim::EnumNames<orrery::experiments::rl::Agents> {
  using E = orrery::experiments::rl::Agents;
  static constexpr std::array<std::pair<std::string_view, E>, 3> names{
      {{"as_is", E::as_is}, {"joint", E::joint}, {"split", E::split}}};
};
