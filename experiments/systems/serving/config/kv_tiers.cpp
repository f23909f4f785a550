#include "experiments/systems/serving/config/kv_tiers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/figures.hpp"
#include "experiments/systems/serving/config/config.hpp"

namespace orrery::experiments {
namespace {

/// Who had what of prompts at their first admission, nearest first.
sim::Node summarise_prefixes(const TierOutcome& outcome) {
  using sim::Node;
  Node node = Node::object();
  node.set("kept_blocks", Node::integer(outcome.counters.kept_blocks));
  node.set("loaded_blocks", Node::integer(outcome.counters.loaded_blocks));
  node.set("prompt_tokens", Node::integer(outcome.prompt_tokens));
  Node& hits = node.set("hits", Node::array());
  const auto add = [&](const std::string& name, std::int64_t tokens) {
    Node one = Node::object();
    one.set("tier", Node::string(name));
    one.set("tokens", Node::integer(tokens));
    one.set("hit_rate", ratio(static_cast<double>(tokens), static_cast<double>(outcome.prompt_tokens)));
    hits.push(std::move(one));
  };
  add("device", outcome.device_tokens);
  for (std::size_t i = 0; i < outcome.prefix_tiers.size() && i < outcome.counters.hit_tokens.size(); ++i)
    add(outcome.prefix_tiers[i], outcome.counters.hit_tokens[i]);
  return node;
}

}  // namespace

void check_tiers(const sim::Node& section, const ServingConfig& config, sim::Faults& faults) {
  const KvTiersParams& params = config.kv_tiers;
  if (!params.tiers.empty() && !config.layouts.modes.empty())
    faults.add(section.origin(), "expected no 'kv_tiers' beside 'layouts'", "layouts have a store of their own");
  if (!params.prefixes || !faults.empty()) return;
  policies::TieredStore none({}, {});
  for (const ReplicaGroup& group : config.groups)
    if (!group.kvcache.make({.bytes_per_token = 1, .bytes_available = 0})->hand_on_to(none))
      return faults.add(section.find("prefixes")->origin(),
                        fmt::format("expected a cache that hands prefixes on, got '{}'", group.kvcache.name),
                        "policies.kvcache.policy: block_hash does");
}

bool swaps_without_swapping(const sim::Node& policies, sim::Faults& faults) {
  const sim::Node* asked = policies.at("batching.vllm_v1.preemption");
  if (asked == nullptr) return false;
  faults.add(asked->origin(), "vLLM V1 computes preempted sequences again: it has no choice of preemption",
             "vllm_v0, sarathi and fairness_priority take 'preemption': 'swap'");
  return true;
}

std::unique_ptr<policies::TieredStore> make_tiers(const KvTiersParams& params, std::int64_t block_bytes,
                                                  std::int64_t block_tokens, std::int64_t layers) {
  std::vector<policies::TierFacts> facts;
  for (const KvTierParams& tier : params.tiers)
    facts.push_back({.capacity_bytes = static_cast<std::int64_t>(tier.capacity),
                     .bandwidth = tier.bandwidth,
                     .copy_ps = static_cast<std::int64_t>(tier.copy_s * 1e12 + 0.5)});
  return std::make_unique<policies::TieredStore>(std::move(facts),
                                                 policies::TieredStoreOptions{.block_bytes = block_bytes,
                                                                              .block_tokens = block_tokens,
                                                                              .copies_per_run = 2 * layers,
                                                                              .overlap = params.overlap,
                                                                              .reuse = params.reuse,
                                                                              .turns = params.turns,
                                                                              .prefixes = params.prefixes});
}

void TierOutcome::add(const policies::TierCounters& other) {
  counters.out_bytes += other.out_bytes;
  counters.in_bytes += other.in_bytes;
  counters.outs += other.outs;
  counters.ins += other.ins;
  counters.copies += other.copies;
  counters.demoted_bytes += other.demoted_bytes;
  counters.dropped += other.dropped;
  counters.refused += other.refused;
  counters.reused_bytes += other.reused_bytes;
  counters.turns += other.turns;
  counters.turn_tokens += other.turn_tokens;
  counters.kept_blocks += other.kept_blocks;
  counters.loaded_blocks += other.loaded_blocks;
  counters.hit_tokens.resize(std::max(counters.hit_tokens.size(), other.hit_tokens.size()), 0);
  for (std::size_t i = 0; i < other.hit_tokens.size(); ++i) counters.hit_tokens[i] += other.hit_tokens[i];
}

sim::Node summarise(const TierOutcome& outcome) {
  using sim::Node;
  Node node = Node::object();
  node.set("swapped_out", Node::integer(outcome.counters.outs));
  node.set("swapped_in", Node::integer(outcome.counters.ins));
  node.set("out_bytes", Node::integer(outcome.counters.out_bytes));
  node.set("in_bytes", Node::integer(outcome.counters.in_bytes));
  node.set("reused_bytes", Node::integer(outcome.counters.reused_bytes));
  node.set("copies", Node::integer(outcome.counters.copies));
  node.set("demoted_bytes", Node::integer(outcome.counters.demoted_bytes));
  node.set("dropped", Node::integer(outcome.counters.dropped));
  node.set("refused", Node::integer(outcome.counters.refused));
  node.set("stall_s", Node::real(static_cast<double>(outcome.stall_ps) * 1e-12));
  if (outcome.turns) {
    node.set("turns", Node::integer(outcome.counters.turns));
    node.set("turn_tokens", Node::integer(outcome.counters.turn_tokens));
  }
  if (!outcome.prefix_tiers.empty()) node.set("prefixes", summarise_prefixes(outcome));
  return node;
}

}  // namespace orrery::experiments
