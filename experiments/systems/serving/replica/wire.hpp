// What the devices of a replica send each other in an iteration, as flows over the machine's network.
//
// Collectives of a rank come to so many bytes, which go round the ring of the replica's hosts: a message a hop, all at
// once, when all else of the iteration is over. So an iteration lasts
//     devices and host + latency of a hop + bytes / the share of the slowest hop
// which is the closed form where nobody else sends. Left out: that collectives of an iteration come one by one between
// its kernels, so that others meet them spread over it.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/network/message_carrier.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

/// Where a replica's devices stand in the network, and what is theirs where nobody else sends.
struct WireParts {
  hw::MessageCarrier* network = nullptr;
  std::vector<hw::NodeIndex> hosts;
  std::uint64_t label = 0;
  double bandwidth = 0;         ///< bytes/s of a hop
  std::int64_t latency_ps = 0;  ///< of a hop
};

class Wire final : private sim::EventHandler {
 public:
  /// Whoever waits for it.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// The last byte is there.
    virtual void sent() = 0;
  };

  /// `engine` and the network must outlive it.
  Wire(sim::Engine& engine, WireParts parts) : engine_(engine), parts_(std::move(parts)) {}
  /// Time that `bytes` of each rank take where nobody else sends, ps.
  std::int64_t alone_ps(std::int64_t bytes) const;
  /// Sends so many of each rank from a time on, which is not past; one transfer at a time.
  void send(sim::Time at, std::int64_t bytes, Listener& listener);
  /// Nobody waits for it any longer; what is on its way stays there.
  void forget() { ++turn_; }

 private:
  void on_event(std::uint64_t turn) override;

  sim::Engine& engine_;
  WireParts parts_;
  Listener* listener_ = nullptr;
  std::int64_t bytes_ = 0;
  std::uint64_t turn_ = 0;  // of the transfer
  std::size_t left_ = 0;    // messages under way; none: it has yet to begin
};

}  // namespace orrery::experiments
