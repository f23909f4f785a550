// Orders of expert loads: which missing weights of a layer come over the link first.
//
// Asked once a layer, when its router has chosen. An expert's weights may be nested: a base of few bits, and levels
// that add bits to those below them. Contract: a pure function of the view; levels of an expert come in ascending
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// A level of an expert that is missing; level 0 where weights are not nested.
struct ExpertLoad {
  std::uint16_t expert = 0;
  std::uint8_t level = 0;
  std::int64_t tokens = 0;  ///< that are computed with just this level; 0: only levels above it need it
};

class ExpertOrder {
 public:
  virtual ~ExpertOrder() = default;
  /// The places of all `loads`, the first to come first. `loads` are by expert, in the order in which tokens chose
  /// them, and of an expert by level.
  virtual std::vector<std::size_t> order(std::span<const ExpertLoad> loads) const = 0;
};

using ExpertOrderRegistry = sim::Registry<ExpertOrder>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_expert_orders(ExpertOrderRegistry& registry);

}  // namespace orrery::policies
