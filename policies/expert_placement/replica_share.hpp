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
      ExpressionName<ReplicaShareFacts>{{"experts", U::count, "Of the layer."}, [](F f) { return f.experts; }},
      ExpressionName<ReplicaShareFacts>{{"gpus", U::count, "That hold them."}, [](F f) { return f.gpus; }},
      ExpressionName<ReplicaShareFacts>{{"load", U::tokens, "That chose the expert while it was watched."},
                                        [](F f) { return f.load; }},
      ExpressionName<ReplicaShareFacts>{{"mean", U::tokens, "`load` over all experts of the layer, on average."},
                                        [](F f) { return f.mean; }},
      ExpressionName<ReplicaShareFacts>{{"replicas", U::count, "That the expert would have."},
                                        [](F f) { return f.replicas; }},
      ExpressionName<ReplicaShareFacts>{{"slots", U::count, "Of the layer, over all GPUs."},
                                        [](F f) { return f.slots; }}};
};

using ReplicaShareScore = Expression<ReplicaShareFacts>;

}  // namespace orrery::policies
