#include "hw/network/ring_path.hpp"

#include <algorithm>

namespace orrery::hw {
namespace {

class LastArrival final : public sim::EventHandler {
 public:
  explicit LastArrival(const sim::Engine& engine) : engine_(engine) {}
  void on_event(std::uint64_t) override {
    at = engine_.now();
    ++count;
  }
  sim::Time at;
  std::size_t count = 0;

 private:
  const sim::Engine& engine_;
};

}  // namespace

RingPath ring_path(const Topology& topology, const RoutingRegistry::Choice& routing, NetworkParams params,
                   std::span<const NodeIndex> hosts, std::uint64_t label) {
  RingPath ring;
  if (hosts.size() < 2) return ring;
  sim::Engine engine;
  Network network(engine, topology, routing.make(topology), params);
  LastArrival last(engine);
  double fastest = 0;
  for (const NetworkLink& link : topology.links) fastest = std::max(fastest, link.bandwidth);
  // Some milliseconds over the fastest link: the tick's rounding is far below what matters, and the slowest end in
  // time.
  const auto bytes = static_cast<std::int64_t>(std::max(1.0, fastest * 1e-2));
  std::vector<LinkIndex> links;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const NodeIndex to = hosts[(i + 1) % hosts.size()];
    sim::Duration latency;
    if (!network.path(hosts[i], to, label, links, latency)) return ring;
    ring.links.insert(ring.links.end(), links.begin(), links.end());
    ring.latency_s = std::max(ring.latency_s, engine.scale().seconds(latency) + params.message_overhead_s);
    network.send(hosts[i], to, bytes, label, last, i);
  }
  std::ranges::sort(ring.links);
  ring.links.erase(std::unique(ring.links.begin(), ring.links.end()), ring.links.end());
  engine.run();
  if (last.count == hosts.size())
    ring.bandwidth = static_cast<double>(bytes) / (engine.scale().seconds(last.at) - ring.latency_s);
  return ring;
}

}  // namespace orrery::hw
