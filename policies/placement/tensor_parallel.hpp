// Tensor parallelism of a transformer's graph as Megatron-LM has it, read off what its ops are for.
//
// Of a product with a weight, the class says which axis is divided: the weights of q, k, v and of what widens the
// feed-forward by columns (and their biases with them), those that come back to the model's width by rows, embedding
// and head by the vocabulary. Products into a latent stay whole on every rank, as Megatron-LM duplicates them; so
// does the one that joins a further token with what came before, which Megatron-LM divides and gathers. Gradients of
// whole weights are summed where they are made, in every micro-batch. Everything else follows (slapo_shard.cpp).
// Source: Shoeybi et al. 2019; `sequence`: Korthikanti et al. 2022.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/graph/op_graph.hpp"

namespace orrery::policies {

struct TensorParallel {
  std::int64_t ranks = 1;
  bool sequence = false;   ///< tokens are divided between the products of a layer
  bool vocabulary = true;  ///< embedding and head are divided too
};

/// Why the graph cannot be divided so: a size that the ranks do not divide. Nothing if it can.
std::optional<std::string> tensor_parallel_obstacle(const models::OpGraph& graph, const TensorParallel& how);

/// What one rank runs. A graph that no rule covers throws models::GraphError. One rank: the graph itself.
models::OpGraph tensor_parallel(const models::OpGraph& graph, const TensorParallel& how);

}  // namespace orrery::policies
