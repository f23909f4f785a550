// The largest flow from a source to a sink, and the smallest cut between them (push-relabel, by Boost).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery::sim {

struct FlowEdge {
  std::size_t from = 0, to = 0;  ///< vertices, by number
  std::int64_t capacity = 0;
};

struct MaxFlow {
  std::int64_t flow = 0;
  std::vector<bool> source_side;  ///< vertices that the source still reaches: edges that leave them are a smallest cut
};

/// Capacities are integers: rounding could keep the algorithm busy for ever. Their sum, over all edges that leave one
/// vertex, must fit 63 bits.
MaxFlow max_flow(std::size_t vertices, std::span<const FlowEdge> edges, std::size_t source, std::size_t sink);

}  // namespace orrery::sim
