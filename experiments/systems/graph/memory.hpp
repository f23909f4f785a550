// Device memory of a run: what stays, and what activations need at their peak.
#pragma once

#include <cstdint>

#include "models/graph/op_graph.hpp"
#include "policies/memory/planner.hpp"

namespace orrery::experiments::graph {

/// Bytes. `peak` is parameters, state, inputs and the planned arena together.
struct MemoryFigures {
  std::int64_t parameters = 0, state = 0, inputs = 0;
  std::int64_t live = 0;     ///< largest sum of live activations: no plan is smaller
  std::int64_t planned = 0;  ///< arena that the planner needs for them
  std::int64_t peak() const { return parameters + state + inputs + planned; }
};

MemoryFigures memory_of(const models::OpGraph& graph, const models::Bindings& bindings,
                        const policies::MemoryPlanner& planner);

}  // namespace orrery::experiments::graph
