// Shares of replicas: the names that an expression over a replica of an expert may use.
#pragma once

#include "policies/base/expression.hpp"

namespace orrery::policies {

struct ReplicaShareFacts {
  double load = 0, mean = 0;  ///< of the expert, of the layer's experts
  double replicas = 1;
  double experts = 1, gpus = 1, slots = 1;
};

template <>
struct ExpressionNames<ReplicaShareFacts> {
  using F = const ReplicaShareFacts&;
  using U = sim::Unit;
  static constexpr std::array names{
      ExpressionName<ReplicaShareFacts>{{"experts", U::count, "Number of experts of the layer."},
                                        [](F f) { return f.experts; }},
      ExpressionName<ReplicaShareFacts>{{"gpus", U::count, "Number of GPUs that hold the experts."},
                                        [](F f) { return f.gpus; }},
      ExpressionName<ReplicaShareFacts>{
          {"load", U::tokens, "Tokens that chose the expert while its load was observed."}, [](F f) { return f.load; }},
      ExpressionName<ReplicaShareFacts>{{"mean", U::tokens, "Mean of `load` over all experts of the layer."},
                                        [](F f) { return f.mean; }},
      ExpressionName<ReplicaShareFacts>{{"replicas", U::count, "Number of replicas that the expert would have."},
                                        [](F f) { return f.replicas; }},
      ExpressionName<ReplicaShareFacts>{{"slots", U::count, "Number of the layer's expert slots on all GPUs."},
                                        [](F f) { return f.slots; }}};
};

using ReplicaShareScore = Expression<ReplicaShareFacts>;

}  // namespace orrery::policies
