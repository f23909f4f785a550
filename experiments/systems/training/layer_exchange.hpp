// What ranks that share a layer's tokens wait for: keys and values of context parallelism, and how much of tensor
// parallelism's gathers and scatters products hide.
#pragma once

#include "experiments/systems/training/layer_graph.hpp"
#include "experiments/systems/training/machine.hpp"
#include "experiments/systems/training/plan.hpp"

namespace orrery::experiments::training {

/// An attention op of a rank whose share of its work takes `attention_s`: what its exchange adds to that. `backward`:
/// the gradients of keys and values travel too. Bytes are of the rank's own tokens.
hw::GroupCost attention_exchange(const TrainingMachine& machine, const LayerShare& share, std::int64_t query_bytes,
                                 std::int64_t key_value_bytes, double attention_s, bool backward);

/// Of a gather's or scatter's time, what is not hidden by the products beside it (`product_s`), cut into a piece a
/// rank: the first piece travels alone, the others while a piece is multiplied, and both slow down as `overlap` says.
double exposed_beside(const Overlap& overlap, double collective_s, double product_s, std::int64_t ranks);

/// The products that read what a gather brings, or the one that makes what a scatter sums; casts and views
/// between are looked through. Empty for another op.
std::vector<models::OpId> products_beside(const models::OpGraph& graph, models::OpId collective);

}  // namespace orrery::experiments::training
