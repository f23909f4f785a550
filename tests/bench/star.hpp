// The star scenarios of the flow-level network: hosts with a private up and down link each.
//
// every link 12.5e9 B/s and 1 us; mix64(x) is the first output of splitmix64 seeded with x.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/mix.hpp"
#include "sim/flow_network.hpp"

namespace orrery::bench {

using sim::mix64;

class Star {
 public:
  Star(sim::Engine& engine, std::uint32_t hosts, sim::Duration latency)
      : network(engine), hosts_(hosts), latency_(latency), paths_(std::size_t{hosts} * hosts, kNone) {
    for (std::uint32_t host = 0; host < 2 * hosts; ++host) network.add_link(12.5e9);
  }
  /// The path from host to host: its up link, then the other's down link.
  sim::FlowNetwork::Path path(std::uint32_t from, std::uint32_t to) {
    sim::FlowNetwork::Path& path = paths_[std::size_t{from} * hosts_ + to];
    if (path == kNone) path = network.add_path(std::array{from, hosts_ + to}, latency_ * 2);
    return path;
  }

  sim::FlowNetwork network;

 private:
  static constexpr std::uint32_t kNone = ~0U;
  std::uint32_t hosts_;
  sim::Duration latency_;
  std::vector<sim::FlowNetwork::Path> paths_;
};

/// Counts ends.
class Count final : public sim::EventHandler {
 public:
  std::int64_t ended = 0;
  void on_event(std::uint64_t) override { ++ended; }
};

/// H(H-1) flows at t = 0, i -> j of 1e6 + mix64(i H + j) % 1e6 bytes, or all of 1e6. Simulated seconds.
inline double star_all_to_all(std::uint32_t hosts, bool same) {
  sim::Engine engine;
  Star star(engine, hosts, sim::Duration{1'000'000});
  Count count;
  for (std::uint32_t i = 0; i < hosts; ++i)
    for (std::uint32_t j = 0; j < hosts; ++j)
      if (i != j)
        star.network.start(star.path(i, j),
                           1'000'000 + (same ? 0 : static_cast<std::int64_t>(mix64(i * hosts + j) % 1'000'000)), count);
  engine.run();
  return engine.scale().seconds(engine.now());
}

/// `total` flows, `window` in flight: flow k goes from mix64(3k) % H to (from + 1 + mix64(3k+1) % (H-1)) % H and has
/// 1e6 + mix64(3k+2) % 9e6 bytes.
class Closed final : public sim::EventHandler {
 public:
  Closed(sim::Engine& engine, std::uint32_t hosts, std::uint64_t total, sim::Duration latency)
      : star(engine, hosts, latency), hosts_(hosts), total_(total) {}
  void next() {
    if (started_ == total_) return;
    const std::uint64_t k = started_++;
    const auto from = static_cast<std::uint32_t>(mix64(3 * k) % hosts_);
    const auto to = static_cast<std::uint32_t>((from + 1 + mix64(3 * k + 1) % (hosts_ - 1)) % hosts_);
    star.network.start(star.path(from, to), static_cast<std::int64_t>(1'000'000 + mix64(3 * k + 2) % 9'000'000), *this);
  }
  void on_event(std::uint64_t) override { next(); }

  Star star;

 private:
  std::uint32_t hosts_;
  std::uint64_t total_;
  std::uint64_t started_ = 0;
};

inline double star_closed(std::uint32_t hosts, std::uint64_t window, sim::Duration latency) {
  sim::Engine engine;
  Closed closed(engine, hosts, 5'000, latency);
  for (std::uint64_t i = 0; i < window; ++i) closed.next();
  engine.run();
  return engine.scale().seconds(engine.now());
}

}  // namespace orrery::bench
