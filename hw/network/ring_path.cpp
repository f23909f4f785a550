#include "hw/network/ring_path.hpp"

#include <algorithm>

namespace orrery::hw {
namespace {

/// Hears of the messages of a ring: how long the slowest of them moved, its latency left out.
class Arrivals final : public sim::EventHandler {
 public:
  explicit Arrivals(const sim::Engine& engine) : engine_(engine), begun_(engine.now()) {}
  void expect(sim::Duration latency) { latency_.push_back(latency); }
  void on_event(std::uint64_t hop) override {
    moved_ = std::max(moved_, engine_.now() - begun_ - latency_[hop]);
    ++count_;
  }
  /// 0 where some did not arrive.
  double moved_s() const { return count_ == latency_.size() ? engine_.scale().seconds(moved_) : 0; }

 private:
  const sim::Engine& engine_;
  sim::Time begun_;
  sim::Duration moved_;
  std::size_t count_ = 0;
  std::vector<sim::Duration> latency_;  // by hop
};

/// Seconds that a message takes over the slowest link of a ring: long beside a tick.
constexpr double kLong_s = 1e-2;

RingPath measured(sim::Engine& engine, Network& network, double overhead_s, const HostRing& ring) {
  RingPath path;
  if (ring.hosts.size() < 2) return path;
  Arrivals arrivals(engine);
  std::vector<LinkIndex> links;
  for (std::size_t i = 0; i < ring.hosts.size(); ++i) {
    sim::Duration latency;
    if (!network.path(ring.hosts[i], ring.hosts[(i + 1) % ring.hosts.size()], ring.label, links, latency)) return path;
    path.links.insert(path.links.end(), links.begin(), links.end());
    arrivals.expect(latency + engine.scale().duration(overhead_s));
    path.latency_s = std::max(path.latency_s, engine.scale().seconds(latency) + overhead_s);
  }
  std::ranges::sort(path.links);
  path.links.erase(std::unique(path.links.begin(), path.links.end()), path.links.end());
  double slowest = 0;
  for (const LinkIndex link : path.links) {
    const double bandwidth = network.topology().links[link].bandwidth;
    slowest = slowest > 0 ? std::min(slowest, bandwidth) : bandwidth;
  }
  const auto bytes = static_cast<std::int64_t>(std::max(1.0, slowest * kLong_s));
  for (std::size_t i = 0; i < ring.hosts.size(); ++i)
    network.send(ring.hosts[i], ring.hosts[(i + 1) % ring.hosts.size()], bytes, ring.label, arrivals, i);
  engine.run();
  if (const double moved_s = arrivals.moved_s(); moved_s > 0) path.bandwidth = static_cast<double>(bytes) / moved_s;
  return path;
}

}  // namespace

std::vector<RingPath> ring_paths(const Topology& topology, const RoutingRegistry::Choice& routing, NetworkParams params,
                                 std::span<const HostRing> rings) {
  sim::Engine engine;
  Network network(engine, topology, routing.make(topology), params);
  std::vector<RingPath> paths;
  for (const HostRing& ring : rings) paths.push_back(measured(engine, network, params.message_overhead_s, ring));
  return paths;
}

}  // namespace orrery::hw
