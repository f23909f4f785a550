// Token groups: which of the tokens that wait share a step of a mixture-of-experts model.
//
// Tokens that use the same experts make a step cheaper: fewer experts are read, or loaded. Asked whenever the groups
// that were named last are done. Contract: a pure function of the view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/registry.hpp"

namespace orrery::policies {

/// Experts that a token uses, a bit each, layer after layer: as a router that runs ahead says.
using ExpertPath = std::vector<std::uint64_t>;

struct TokenGroupView {
  std::span<const ExpertPath> paths;     ///< of the tokens that wait, who came first first
  std::span<const std::uint16_t> first;  ///< the first layer's best expert of each
  std::size_t size = 1;                  ///< tokens of a step; at most as many as wait
  std::uint64_t asked = 0;               ///< how often it was asked before, for rules that draw
};

class TokenGroups {
 public:
  virtual ~TokenGroups() = default;
  /// Groups of `view.size` tokens each, no token twice, at least one group. Who is in none goes on waiting.
  virtual std::vector<std::vector<std::size_t>> groups(const TokenGroupView& view) const = 0;
};

using TokenGroupsRegistry = sim::Registry<TokenGroups>;

/// Adds every policy of this folder (register.cpp: one line a policy).
void register_token_groups(TokenGroupsRegistry& registry);

}  // namespace orrery::policies
