// Cutting a graph into parts that can be optimised by somebody who sees none of the rest, and putting it together
// again.
//
// Randomised contraction: every op begins as a group; a pair of groups with uses between them is drawn with weight
// 1 / (size_a + size_b), or 1e-5 once both have at least 2 n / N ops, and becomes one group, until N are left. Of
// several tries the most balanced one (least variance of sizes) is kept. A use between two groups is weighted by that
// over the number of uses between them, so a pair's weight does not depend on how many there are. A pair whose
// contraction would close a cycle among groups is not drawn: only then can a part be run as a whole, whatever its
// optimiser fuses. Source: Proteus (Gao et al., MLSys 2024), random_contraction.py of its artifact; the test for cycles
// is ours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/graph_rewrite.hpp"
#include "sim/base/random.hpp"

namespace orrery::policies::proteus {

/// Part of each op, by index; parts are numbered by their first op. More than `parts` where the graph falls into more
/// pieces. `tries` >= 1. About tries * n * uses operations.
std::vector<std::int32_t> partition(const models::OpGraph& graph, std::int64_t parts, std::int64_t tries,
                                    const sim::RandomStream& random);

/// Each part as a graph of its own, in the order of parts; parameters and constants stay what they are.
std::vector<models::Subgraph> cut(const models::OpGraph& graph, std::span<const std::int32_t> part_of);

/// Puts optimised parts together: `optimised[p]` must take and give, by name and in order, what `parts[p]` does. Ops
/// stand in the order of the earliest op of `graph` that went into each, where uses allow it; so parts that come back
/// as they were give the graph as it was. Throws GraphError for a part that lacks a tensor, or parts that wait for each
/// other.
models::OpGraph assemble(const models::OpGraph& graph, std::span<const models::Subgraph> parts,
                         std::span<const models::OpGraph> optimised);

}  // namespace orrery::policies::proteus
