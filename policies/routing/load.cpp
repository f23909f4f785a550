#include "policies/routing/load.hpp"

#include <algorithm>

namespace orrery::policies {

double load_of(const ReplicaFacts& facts, LoadOf what) {
  double load = 0;
  switch (what) {
    case LoadOf::requests:
      load = static_cast<double>(facts.requests);
      break;
    case LoadOf::waiting:
      load = static_cast<double>(facts.waiting);
      break;
    case LoadOf::queued_tokens:
      load = static_cast<double>(facts.queued_tokens);
      break;
    case LoadOf::tokens:
      load = static_cast<double>(facts.tokens);
      break;
    case LoadOf::kv:
      load = static_cast<double>(facts.kv_blocks) / static_cast<double>(std::max<std::int64_t>(1, facts.kv_total));
      break;
  }
  return load / facts.weight;
}

std::size_t least_loaded(std::span<const ReplicaFacts> replicas, LoadOf what) {
  std::size_t best = 0;
  double least = load_of(replicas[0], what);
  for (std::size_t i = 1; i < replicas.size(); ++i) {
    const double load = load_of(replicas[i], what);
    if (load < least) {
      least = load;
      best = i;
    }
  }
  return best;
}

}  // namespace orrery::policies
