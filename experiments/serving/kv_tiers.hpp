// The config section `kv_tiers`: memories behind a device that swapped sequences go to, and what was copied there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policies/kvcache/tiered_store.hpp"
#include "sim/base/document.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct KvTierParams {
  std::string name = "host";
  double capacity = 0;
  double bandwidth = 25e9;
  double copy_s = 5e-6;

  static constexpr auto fields() {
    return std::tuple{sim::field("name", &KvTierParams::name, sim::Unit::none, sim::any_value(), "What it is called."),
                      sim::required(sim::field("capacity", &KvTierParams::capacity, sim::Unit::bytes,
                                               sim::between(0, 1e18), "Memory for swapped KV, a device.")),
                      sim::field("bandwidth", &KvTierParams::bandwidth, sim::Unit::bytes_per_s, sim::at_least(1e4),
                                 "Between it and one device, each way."),
                      sim::field("copy", &KvTierParams::copy_s, sim::Unit::seconds, sim::between(0, 1),
                                 "Fixed cost of a copy, before its first byte moves.")};
  }
};

struct KvTiersParams {
  std::vector<KvTierParams> tiers;
  bool overlap = false;
  bool reuse = false;

  static constexpr auto fields() {
    return std::tuple{
        sim::field("tiers", &KvTiersParams::tiers,
                   "Fastest first; what was used longest ago moves on to the next. None: preempted sequences are "
                   "computed again."),
        sim::field("overlap", &KvTiersParams::overlap,
                   "Whether copies run beside iterations: a sequence goes on at the end of the iteration in which its "
                   "copy ends. Off: the next iteration waits for all copies of a decision."),
        sim::field("reuse", &KvTiersParams::reuse,
                   "Whether a copy is kept when its sequence goes back, so that only what has been added is copied out "
                   "the next time.")};
  }
};

/// The tiers of one replica. `block_bytes`: of a block of KV on one device; `layers` on that device.
inline std::unique_ptr<policies::TieredStore> make_tiers(const KvTiersParams& params, std::int64_t block_bytes,
                                                         std::int64_t layers) {
  std::vector<policies::TierFacts> facts;
  for (const KvTierParams& tier : params.tiers)
    facts.push_back({.capacity_bytes = static_cast<std::int64_t>(tier.capacity),
                     .bandwidth = tier.bandwidth,
                     .copy_ps = static_cast<std::int64_t>(tier.copy_s * 1e12 + 0.5)});
  return std::make_unique<policies::TieredStore>(
      std::move(facts),
      policies::TieredStoreOptions{
          .block_bytes = block_bytes, .copies_per_run = 2 * layers, .overlap = params.overlap, .reuse = params.reuse});
}

/// Member `kv_tiers` of summary.json; bytes are those of one device of each replica, summed over replicas.
struct TierOutcome {
  policies::TierCounters counters;
  __int128 stall_ps = 0;  ///< that iterations waited for copies

  void add(const policies::TierCounters& other) {
    counters.out_bytes += other.out_bytes;
    counters.in_bytes += other.in_bytes;
    counters.outs += other.outs;
    counters.ins += other.ins;
    counters.copies += other.copies;
    counters.demoted_bytes += other.demoted_bytes;
    counters.dropped += other.dropped;
    counters.refused += other.refused;
    counters.reused_bytes += other.reused_bytes;
  }
};

inline sim::Node summarise(const TierOutcome& outcome) {
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
  return node;
}

}  // namespace orrery::experiments
