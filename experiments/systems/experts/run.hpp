// A router trace played step by step over the layers of a model (experiments/experts/expert_layers.hpp has what a layer
// does). Dense time is the same in each layer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/experts/expert_layers.hpp"
#include "experiments/systems/experts/config.hpp"
#include "experiments/systems/experts/prices.hpp"
#include "policies/experts/residency.hpp"
#include "sim/statistics.hpp"

namespace orrery::experiments::experts {

/// Times in ps, sums over all steps that count.
struct RunTotals : ExpertTotals {
  std::int64_t steps = 0, time_ps = 0, dense_ps = 0;
  sim::SampleStats token_gap = sim::SampleStats();  ///< ps between two tokens of a text, the ends of their steps
  std::vector<double> layer_hit_rate;
};

/// Hits as published figures of caches count them: every expert by itself, loaded at once whoever computes it. Over all
/// layers with slots, from empty caches; no machine has a part in it. Nothing where experts are copied ahead or all
/// layers share a cache.
std::optional<policies::ExpertCounts> one_by_one(const Config& config, const std::vector<std::int64_t>& slots);

/// When tokens of the same text are done.
class TokenGaps {
 public:
  explicit TokenGaps(const Config& config)
      : texts_(config.texts), last_ps_(static_cast<std::size_t>(config.texts_underway()), -1) {}
  /// Tokens [first, first + count) are done at a time.
  void done(std::int64_t first, std::int64_t count, std::int64_t now_ps, sim::SampleStats& gaps);

 private:
  const std::vector<std::int64_t>& texts_;  ///< by token; empty: texts take turns
  std::vector<std::int64_t> last_ps_;       ///< by text; -1: none yet
};

/// `host_slots`: experts of all layers that the host's memory keeps, where there is a drive.
RunTotals play(const Config& config, const Prices& prices, const std::vector<std::int64_t>& slots,
               std::int64_t host_slots = 0);

}  // namespace orrery::experiments::experts
