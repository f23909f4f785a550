// What the devices of a replica send each other in an iteration, as flows over the machine's network.
//
// Collectives of a rank come to so many bytes, which are sent when all else of the iteration is over: those of tensor
// parallelism round the rings of its ranks, and after them those that all lanes of the replica exchange. So an
// iteration lasts
//     devices and host + latency of a message + bytes / the share of the slowest message, for either
// which is the closed form where nobody else sends. Left out: that collectives of an iteration come one by one between
// its kernels, so that others meet them spread over it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiments/systems/serving/load/request.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "hw/network/message_carrier.hpp"
#include "hw/network/transfer_path.hpp"
#include "sim/engine.hpp"

namespace orrery::experiments {

/// Messages of a replica, and what one of them gets where nobody else sends.
struct WirePath {
  hw::Transfer transfer;
  std::int64_t each = 1;        ///< messages that a rank has
  double bandwidth = 0;         ///< bytes/s of a message
  std::int64_t latency_ps = 0;  ///< of a message
};

class Wire final : private sim::EventHandler {
 public:
  /// Whoever waits for it.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// The last byte is there.
    virtual void sent(ExactTime end) = 0;
  };

  /// `engine` and the network must outlive it.
  Wire(sim::Engine& engine, hw::MessageCarrier& network, WirePath ring, WirePath exchange = {})
      : engine_(engine), network_(network), paths_{std::move(ring), std::move(exchange)} {}
  /// Time that these bytes of each rank take where nobody else sends, ps.
  std::int64_t alone_ps(SentBytes bytes) const;
  /// Sends so many of each rank from a time on, which is not past; one transfer at a time. Lanes in lock step ask for
  /// the same transfer each, and each of them is told.
  void send(ExactTime from, SentBytes bytes, Listener& listener);
  /// Nobody waits for it any longer; what is on its way stays there.
  void forget();

 private:
  void on_event(std::uint64_t turn) override;
  void send_next();

  sim::Engine& engine_;
  hw::MessageCarrier& network_;
  std::array<WirePath, 2> paths_;  // of the ring, and of the exchange
  std::vector<Listener*> listeners_;
  ExactTime from_;
  SentBytes bytes_;
  std::uint64_t turn_ = 0;  // of the transfer
  std::size_t next_ = 0;    // path
  std::size_t left_ = 0;    // messages under way
};

}  // namespace orrery::experiments
