// Experts placed by what some tokens chose, judged on what others do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/expert_placement/expert_placement.hpp"
#include "traces/router/router_trace.hpp"

namespace orrery::experiments {

/// Tokens [first, last) of a trace.
struct TokenRange {
  std::int64_t first = 0, last = 0;
};

/// How unevenly the GPUs are loaded: (most - mean) / mean of the rows that they get.
struct PlacementJudgement {
  std::vector<double> layers;  ///< mean over the batches of each layer
  /// Rows that the busiest pair of GPUs exchanges between two layers over what a pair has in the mean, mean over
  /// layers; 0 for a single layer or GPU.
  double exchange = 0;
  double mean() const;
  double worst() const;
};

/// What a policy decides by: how often tokens of the range chose each expert, layer by layer. The machine is the
/// caller's to fill in.
policies::ExpertPlacementView placement_view(const traces::RouterTrace& trace, TokenRange range);
/// The same of tokens that count so many times each.
policies::ExpertPlacementView placement_view(const traces::RouterTrace& trace, std::span<const double> times);

/// (most - mean) / mean of the rows that GPUs get, of each layer; batches as judge_placement has them.
std::vector<double> layer_imbalances(const traces::RouterTrace& trace, TokenRange range, std::int64_t batch,
                                     const std::vector<policies::LayerPlacement>& placement, std::int64_t gpus);

/// Batches of `batch` tokens of the range, what is left over at the end dropped; 0: all of it is one batch.
PlacementJudgement judge_placement(const traces::RouterTrace& trace, TokenRange range, std::int64_t batch,
                                   const std::vector<policies::LayerPlacement>& placement, std::int64_t gpus);

}  // namespace orrery::experiments
