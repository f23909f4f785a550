// Requests that were prefilled here and are decoded there: their KV caches on the way.
//
// A router has chosen who decodes; the cache goes there over the network (KvTransfers), and the blocks of the sender
// stay until it has arrived.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "experiments/systems/serving/cluster/fleet.hpp"
#include "experiments/systems/serving/cluster/transfer.hpp"

namespace orrery::experiments {

class Cluster;

class HandOvers final : public sim::EventHandler {
 public:
  /// What arrives is booked in `totals`.
  HandOvers(sim::Engine& engine, Cluster& cluster, Fleet& fleet, const TransferParams& params, TransferTotals& totals,
            KvWires wires = {})
      : engine_(engine),
        cluster_(cluster),
        fleet_(fleet),
        transfers_(engine, params, fleet.size(), std::move(wires)),
        totals_(totals) {}

  /// Sends the KV cache of a request, whose sequence is `seq`, to a replica that decodes it; there is one.
  void send(Request& request, policies::SeqId seq);
  /// One arrived.
  void on_event(std::uint64_t slot) override;
  /// Those from or to a replica are lost.
  void cancel(std::size_t replica);
  /// The run is over: they are unfinished.
  void finish();

 private:
  struct Moving {
    Request* request = nullptr;  // null: free
    std::size_t from = 0;
    Replica* lane = nullptr;
    policies::SeqId seq;
    sim::FlowId flow;
    sim::Time since;
    std::int64_t bytes = 0;
  };

  sim::Engine& engine_;
  Cluster& cluster_;
  Fleet& fleet_;
  KvTransfers transfers_;
  TransferTotals& totals_;
  std::vector<Moving> moving_;
  std::vector<std::size_t> free_;
};

}  // namespace orrery::experiments
