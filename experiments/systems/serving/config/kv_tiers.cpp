#include "experiments/systems/serving/config/kv_tiers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/figures.hpp"
#include "experiments/systems/serving/config/config.hpp"

namespace orrery::experiments {

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

namespace {

/// Tokens of prompts found in one place at first admission.
struct PrefixHits {
  std::string tier;
  std::int64_t tokens, prompt_tokens;
};

const FigureTable<PrefixHits>& prefix_hits_table() {
  static const FigureTable<PrefixHits> table{
      {"tier", "", "Where the tokens were found: `device`, or the name of a tier.", &PrefixHits::tier},
      {"tokens", "tokens", "Prompt tokens found there at first admission.", &PrefixHits::tokens},
      {"hit_rate", "ratio", "Share of all prompt tokens that were found there.", [](const PrefixHits& hits) {
         return ratio(static_cast<double>(hits.tokens), static_cast<double>(hits.prompt_tokens));
       }}};
  return table;
}

/// Nearest first.
sim::Node prefix_hits(const TierOutcome& outcome) {
  sim::Node all = sim::Node::array();
  all.push(prefix_hits_table().written({"device", outcome.device_tokens, outcome.prompt_tokens}));
  const std::vector<std::int64_t>& tokens = outcome.counters.hit_tokens;
  for (std::size_t i = 0; i < outcome.prefix_tiers.size() && i < tokens.size(); ++i)
    all.push(prefix_hits_table().written({outcome.prefix_tiers[i], tokens[i], outcome.prompt_tokens}));
  return all;
}

const FigureTable<TierOutcome>& prefixes_table() {
  static const FigureTable<TierOutcome> table{
      {"{kept_blocks,loaded_blocks}", "blocks",
       "Prefix blocks that tiers received from a cache; prefix blocks loaded back into one.",
       [](const TierOutcome& tiers) { return tiers.counters.kept_blocks; },
       [](const TierOutcome& tiers) { return tiers.counters.loaded_blocks; }},
      {"prompt_tokens", "tokens", "Prompt tokens of first admissions.", &TierOutcome::prompt_tokens},
      {"hits.*", prefix_hits_table().infos(), prefix_hits}};
  return table;
}

const FigureTable<TierOutcome>& tiers_table() {
  using Tiers = TierOutcome;
  static const FigureTable<Tiers> table{
      {"{swapped_out,swapped_in}", "count", "Sequences copied to a tier; sequences copied back.",
       [](const Tiers& tiers) { return tiers.counters.outs; }, [](const Tiers& tiers) { return tiers.counters.ins; }},
      {"{out_bytes,in_bytes,reused_bytes}", "B",
       "Bytes copied out; copied in; not copied because the tier still had them.",
       [](const Tiers& tiers) { return tiers.counters.out_bytes; },
       [](const Tiers& tiers) { return tiers.counters.in_bytes; },
       [](const Tiers& tiers) { return tiers.counters.reused_bytes; }},
      {"copies", "count", "Number of copies over the link.", [](const Tiers& tiers) { return tiers.counters.copies; }},
      {"demoted_bytes", "B", "Bytes moved on to a lower tier.",
       [](const Tiers& tiers) { return tiers.counters.demoted_bytes; }},
      {"{dropped,refused}", "count",
       "Kept copies that were dropped; swaps that found no room, whose sequences were recomputed.",
       [](const Tiers& tiers) { return tiers.counters.dropped; },
       [](const Tiers& tiers) { return tiers.counters.refused; }},
      {"stall_s", "s", "Time that iterations waited for copies, summed.",
       [](const Tiers& tiers) { return static_cast<double>(tiers.stall_ps) * 1e-12; }},
      {"turns", "count", "With kv_tiers.turns: conversation turns that began from a copy.",
       [](const Tiers& tiers) { return tiers.turns ? FigureValue(tiers.counters.turns) : std::nullopt; }},
      {"turn_tokens", "tokens", "With kv_tiers.turns: tokens of these turns that needed no prefill.",
       [](const Tiers& tiers) { return tiers.turns ? FigureValue(tiers.counters.turn_tokens) : std::nullopt; }},
      {"prefixes", prefixes_table().infos(), [](const Tiers& tiers) {
         return tiers.prefix_tiers.empty() ? std::nullopt : FigureValue(prefixes_table().written(tiers));
       }}};
  return table;
}

}  // namespace

sim::Node summarise(const TierOutcome& outcome) {
  return tiers_table().written(outcome);
}

std::vector<FigureInfo> tier_figures() {
  return tiers_table().infos();
}

sim::FieldRows<KvTierParams> KvTierParams::fields() {
  static const sim::FieldTable table{
      sim::field("name", &KvTierParams::name, sim::Unit::none, sim::any_value(), "Name of the tier."),
      sim::required(sim::field("capacity", &KvTierParams::capacity, sim::Unit::bytes, sim::between(0, 1e18),
                               "Memory for KV in this tier, per device.")),
      sim::field("bandwidth", &KvTierParams::bandwidth, sim::Unit::bytes_per_s, sim::at_least(1e4),
                 "Bandwidth between the tier and one device, each way."),
      sim::field("copy", &KvTierParams::copy_s, sim::Unit::seconds, sim::between(0, 1),
                 "Fixed cost of a copy, before its first byte moves.")};
  return table;
}

sim::FieldRows<KvTiersParams> KvTiersParams::fields() {
  static const sim::FieldTable table{
      sim::field("tiers", &KvTiersParams::tiers,
                 "Memory tiers, fastest first; what was least recently used moves on to the next. Empty: preempted "
                 "sequences are recomputed."),
      sim::field("overlap", &KvTiersParams::overlap,
                 "Whether copies overlap with iterations: a sequence resumes at the end of the iteration in which its "
                 "copy ends. If not, the next iteration waits for all copies."),
      sim::field("reuse", &KvTiersParams::reuse,
                 "Whether a copy is kept when its sequence returns to the device, so that next time only what was "
                 "added is copied out."),
      sim::field("turns", &KvTiersParams::turns,
                 "Whether the KV of a conversation is copied out when a turn ends. The next turn on the same replica "
                 "then loads that copy in place of a prefill."),
      sim::field("prefixes", &KvTiersParams::prefixes,
                 "Whether blocks that a prefix cache (block_hash) evicts are copied out, and loaded again in place of "
                 "recomputing them when a prompt matches.")};
  return table;
}

}  // namespace orrery::experiments
