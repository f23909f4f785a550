// Expert parallelism: ranks share the experts of a layer out, and rows travel to the ranks that have their experts.
//
// A rank keeps E / ranks of the E experts, whole, and its own tokens. The rows that its router picked are exchanged for
// those that all ranks picked of its experts, sorted by expert, multiplied, sorted back and exchanged again (GShard,
// Lepikhin et al. 2020; the all-to-all dispatcher of Megatron-LM). Experts are taken as chosen alike: a rank receives
// as many rows as it sends. Left out: limits of capacity, experts that are copied.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace orrery::policies {

/// Whether an op multiplies rows by the weights of their experts, which are its second input.
bool multiplies_experts(const models::OpGraph& graph, const models::OpNode& op);

/// Parameters that an op has of every expert: those weights, and biases where it adds any (attribute `bias`).
std::vector<models::TensorId> expert_parameters(const models::OpGraph& graph, const models::OpNode& op);

/// Why ranks cannot share out the experts of a forward graph; nothing if they can.
std::optional<std::string> expert_parallel_obstacle(const models::OpGraph& forward, std::int64_t ranks);

/// What one rank runs of a forward graph; one rank: the graph itself.
models::OpGraph expert_parallel(const models::OpGraph& forward, std::int64_t ranks);

}  // namespace orrery::policies
