// How unevenly the ranks that share experts are loaded in training: a router's choices under a placement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"
#include "policies/expert_placement/expert_placement.hpp"
#include "traces/router/router_trace.hpp"

namespace orrery::experiments::training {

/// Experts on ranks, or why they cannot be.
struct PlacedExperts {
  std::optional<std::string> obstacle;
  std::vector<policies::LayerPlacement> layers;
};

/// A router's choices. The first `planned` tokens show the placement what to expect, the others are what ranks are
/// judged on.
class ExpertLoad {
 public:
  ExpertLoad(traces::RouterTrace trace, std::int64_t planned, policies::ExpertPlacementRegistry::Choice placement);
  PlacedExperts place(std::int64_t ranks, std::int64_t nodes) const;
  /// Rows of the busiest of `ranks` over the mean of all, mean over layers and batches of so many tokens; at least 1. A
  /// batch beyond the trace is all of it.
  double busiest(const PlacedExperts& placed, std::int64_t ranks, std::int64_t tokens) const;

 private:
  traces::RouterTrace trace_;
  std::int64_t planned_ = 0;
  policies::ExpertPlacementRegistry::Choice placement_;
  policies::ExpertPlacementView seen_;
};

/// Tensors whose rows are those of a rank's experts: from where they arrive until they leave, in both passes.
std::vector<bool> rows_of_experts(const models::OpGraph& graph);

}  // namespace orrery::experiments::training
