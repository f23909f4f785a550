#include "experiments/systems/serving/observe/kv_outcome.hpp"

#include "experiments/base/figures.hpp"

namespace orrery::experiments {

void KvOutcome::add(const policies::KvCounters& other) {
  counters.evicted_blocks += other.evicted_blocks;
  counters.moved_tokens += other.moved_tokens;
  counters.shared_steps += other.shared_steps;
  counters.unshared_steps += other.unshared_steps;
}

sim::Node summarise(const KvOutcome& outcome, std::int64_t prompt_tokens) {
  using sim::Node;
  Node kv = Node::object();
  kv.set("hit_rate", ratio(static_cast<double>(outcome.cached_tokens), static_cast<double>(prompt_tokens)));
  kv.set("cached_tokens", Node::integer(outcome.cached_tokens));
  kv.set("evicted_blocks", Node::integer(outcome.counters.evicted_blocks));
  kv.set("moved_tokens", Node::integer(outcome.counters.moved_tokens));
  kv.set("block_saving", ratio(static_cast<double>(outcome.counters.unshared_steps - outcome.counters.shared_steps),
                               static_cast<double>(outcome.counters.unshared_steps)));
  if (outcome.split.total > 0) {
    const auto total = static_cast<double>(outcome.split.total);
    const auto share = [&](__int128 part) { return Node::real(static_cast<double>(part) / total); };
    Node split = Node::object();
    split.set("token", share(outcome.split.token));
    split.set("reserved", share(outcome.split.reserved));
    split.set("internal", share(outcome.split.internal));
    split.set("external",
              share(outcome.split.total - outcome.split.token - outcome.split.reserved - outcome.split.internal));
    kv.set("split", std::move(split));
  }
  return kv;
}

}  // namespace orrery::experiments
