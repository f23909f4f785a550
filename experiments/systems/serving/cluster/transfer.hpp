// KV caches on their way from one replica to another.
//
// Every replica has a link each way (its network interfaces together); links are joined by a network that never
// saturates, and what shares a link shares its bandwidth max-min fairly (sim::FlowNetwork). A transfer takes
//     fixed cost + latency + bytes / its share of the bandwidth.
// Where the machine names a network they go over that: each device of the larger side has a message of its own, from or
// to the device of the other side that holds the same share.
// Left out: sending layer by layer while the prefill still runs.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/serving/config/cluster_config.hpp"
#include "hw/network/message_carrier.hpp"
#include "sim/flow_network.hpp"

namespace orrery::experiments {

/// What was moved over a run.
struct TransferTotals {
  std::int64_t count = 0, bytes = 0;
  __int128 ps = 0;  ///< summed over transfers that arrived
};

/// The machine's network, and the hosts of each replica; none: every replica has links of its own.
struct KvWires {
  hw::MessageCarrier* network = nullptr;
  std::vector<std::vector<hw::NodeIndex>> hosts;
};

class KvTransfers : private sim::EventHandler {
 public:
  /// For `replicas` replicas; `engine` and the network must outlive it.
  KvTransfers(sim::Engine& engine, const TransferParams& params, std::size_t replicas, KvWires wires = {});
  /// Tells `done.on_event(payload)` when `bytes` have come from one replica to the other.
  sim::FlowId start(std::size_t from, std::size_t to, std::int64_t bytes, sim::EventHandler& done,
                    std::uint64_t payload);
  /// Nobody is told. Over the machine's network what is on its way stays there.
  void cancel(sim::FlowId flow);

 private:
  /// One over the machine's network.
  struct Sent {
    sim::EventHandler* done = nullptr;  // null: cancelled
    std::uint64_t payload = 0;
    std::size_t left = 0;  // messages; none: free
  };
  void on_event(std::uint64_t slot) override;
  sim::FlowId send(std::size_t from, std::size_t to, std::int64_t bytes, Sent sent);

  KvWires wires_;
  std::vector<Sent> sent_;
  sim::FlowNetwork network_;
  sim::Duration latency_, fixed_;
  std::size_t replicas_;
  std::vector<sim::FlowNetwork::Link> out_, in_;
  std::vector<sim::FlowNetwork::Path> paths_;  // by sender and receiver, made when first used
};

}  // namespace orrery::experiments
