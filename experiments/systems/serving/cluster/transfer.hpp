// KV caches on their way from one replica to another.
//
// Every replica has a link each way (its network interfaces together); links are joined by a network that never
// saturates, and what shares a link shares its bandwidth max-min fairly (sim::FlowNetwork). A transfer takes
//     fixed cost + latency + bytes / its share of the bandwidth.
// Left out: sending layer by layer while the prefill still runs.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/serving/config/cluster_config.hpp"
#include "sim/flow_network.hpp"

namespace orrery::experiments {

/// What was moved over a run.
struct TransferTotals {
  std::int64_t count = 0, bytes = 0;
  __int128 ps = 0;  ///< summed over transfers that arrived
};

class KvTransfers {
 public:
  /// For `replicas` replicas; `engine` must outlive it.
  KvTransfers(sim::Engine& engine, const TransferParams& params, std::size_t replicas);
  /// Tells `done.on_event(payload)` when `bytes` have come from one replica to the other.
  sim::FlowId start(std::size_t from, std::size_t to, std::int64_t bytes, sim::EventHandler& done,
                    std::uint64_t payload);
  void cancel(sim::FlowId flow) { network_.cancel(flow); }

 private:
  sim::FlowNetwork network_;
  sim::Duration latency_, fixed_;
  std::size_t replicas_;
  std::vector<sim::FlowNetwork::Link> out_, in_;
  std::vector<sim::FlowNetwork::Path> paths_;  // by sender and receiver, made when first used
};

}  // namespace orrery::experiments
