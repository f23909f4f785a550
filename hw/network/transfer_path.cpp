#include "hw/network/transfer_path.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::hw {
namespace {

/// Hears of the messages of a transfer: how long the slowest of them moved, its latency left out.
class Arrivals final : public sim::EventHandler {
 public:
  explicit Arrivals(const sim::Engine& engine) : engine_(engine), begun_(engine.now()) {}
  void expect(sim::Duration latency) { latency_.push_back(latency); }
  void on_event(std::uint64_t message) override {
    moved_ = std::max(moved_, engine_.now() - begun_ - latency_[message]);
    ++count_;
  }
  /// 0 where some did not arrive.
  double moved_s() const { return count_ == latency_.size() ? engine_.scale().seconds(moved_) : 0; }

 private:
  const sim::Engine& engine_;
  sim::Time begun_;
  sim::Duration moved_;
  std::size_t count_ = 0;
  std::vector<sim::Duration> latency_;  // by message
};

/// Seconds that a message takes over the slowest link of a transfer: long beside a tick.
constexpr double kLong_s = 1e-2;

TransferPath measured(sim::Engine& engine, Network& network, double overhead_s, const Transfer& transfer) {
  TransferPath path;
  Arrivals arrivals(engine);
  std::vector<LinkIndex> links;
  for (const auto& [from, to] : transfer.messages) {
    sim::Duration latency;
    if (!network.path(from, to, transfer.label, links, latency)) return path;
    path.links.insert(path.links.end(), links.begin(), links.end());
    arrivals.expect(latency + engine.scale().duration(overhead_s));
    const double latency_s = engine.scale().seconds(latency) + overhead_s;
    path.latency_s = std::max(path.latency_s, latency_s);
    path.mean_latency_s += latency_s / static_cast<double>(transfer.messages.size());
  }
  if (path.links.empty()) return path;
  std::ranges::sort(path.links);
  path.links.erase(std::unique(path.links.begin(), path.links.end()), path.links.end());
  double slowest = 0;
  for (const LinkIndex link : path.links) {
    const double bandwidth = network.topology().links[link].bandwidth;
    slowest = slowest > 0 ? std::min(slowest, bandwidth) : bandwidth;
  }
  const auto bytes = static_cast<std::int64_t>(std::max(1.0, slowest * kLong_s));
  std::uint64_t number = 0;
  for (const auto& [from, to] : transfer.messages) network.send(from, to, bytes, transfer.label, arrivals, number++);
  engine.run();
  if (const double moved_s = arrivals.moved_s(); moved_s > 0) path.bandwidth = static_cast<double>(bytes) / moved_s;
  return path;
}

}  // namespace

void add_ring(std::span<const NodeIndex> hosts, Transfer& transfer) {
  if (hosts.size() < 2) return;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    transfer.messages.emplace_back(hosts[i], hosts[(i + 1) % hosts.size()]);
}

void add_all_pairs(std::span<const NodeIndex> hosts, Transfer& transfer) {
  for (const NodeIndex from : hosts)
    for (const NodeIndex to : hosts)
      if (from != to) transfer.messages.emplace_back(from, to);
}

void add_pairs(std::span<const NodeIndex> from, std::span<const NodeIndex> to, Transfer& transfer) {
  if (from.size() != to.size()) throw std::invalid_argument("two sides of unlike sizes");
  for (std::size_t i = 0; i < from.size(); ++i) transfer.messages.emplace_back(from[i], to[i]);
}

std::vector<TransferPath> transfer_paths(const Topology& topology, const RoutingRegistry::Choice& routing,
                                         NetworkParams params, std::span<const Transfer> transfers) {
  sim::Engine engine;
  Network network(engine, topology, routing.make(topology), params);
  std::vector<TransferPath> paths;
  for (const Transfer& transfer : transfers)
    paths.push_back(measured(engine, network, params.message_overhead_s, transfer));
  return paths;
}

}  // namespace orrery::hw
