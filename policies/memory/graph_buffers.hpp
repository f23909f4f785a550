// From a graph's liveness to buffers for a planner, and the two peaks by which memory passes are judged.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/liveness.hpp"
#include "policies/memory/planner.hpp"

namespace orrery::policies {

/// The lifetimes of what a graph makes, in their order; every offset a multiple of `alignment`.
std::vector<Buffer> buffers_of(const models::Liveness& liveness, std::int64_t alignment = 1);

/// Bytes that a graph needs for what it makes.
struct GraphPeak {
  std::int64_t live = 0;     ///< most bytes live at once
  std::int64_t planned = 0;  ///< arena of best_fit, which stands for a run-time allocator
  /// Whether it needs no more by either measure.
  bool never_above(const GraphPeak& other) const { return live <= other.live && planned <= other.planned; }
};
GraphPeak graph_peak(const models::OpGraph& graph, const models::Bindings& bindings);

}  // namespace orrery::policies
