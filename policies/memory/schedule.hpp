// Orders of execution by memory: a list scheduler that always runs the ready op with the smallest impact.
//
// The impact of an op is the bytes of what it makes less those of what it reads for the last time; it is a SymExpr, and
// sizes need not be known. Of two impacts the smaller is found by proof (models::compare under the graph's facts);
// where nothing can be proven, or they are equal, the op goes first that frees what has lived longest, then the one
// that stood first. Views run as soon as they can. An op that overwrites a tensor (an optimizer step) waits for all its
// readers. Source: BladeDISC++ (card 15): ready queue, comparison of symbolic impacts, tie-break.
#pragma once

#include <cstdint>
#include <vector>

#include "models/graph/liveness.hpp"

namespace orrery::policies {

struct MemoryOrder {
  std::vector<models::OpId> ops;
  std::int64_t proven = 0;   ///< comparisons of unequal impacts that a proof decided
  std::int64_t unknown = 0;  ///< those that nothing could be proven of
};

/// With `bindings`, impacts are numbers (every comparison is decided); without, expressions.
MemoryOrder order_by_memory(const models::Storages& storages, const models::Bindings* bindings);

/// The graph with its ops in another order of execution, which may name ops again: then what they make is made anew,
/// and ops after that read the new one.
models::OpGraph reordered(const models::OpGraph& graph, const std::vector<models::OpId>& ops);

}  // namespace orrery::policies
