// What replicas have of machine.network: the transfers of each, what these get where nobody else sends, and who may.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "experiments/systems/serving/pricing/picoseconds.hpp"
#include "experiments/systems/serving/setup_state.hpp"

namespace orrery::experiments {
namespace {

/// All ranks of a replica send to all others at once: as many messages as their number squared.
constexpr std::int64_t kMostExchange = 256;

/// What the devices of a replica send each other in a layout. Stage s, or lane s, is the s-th run of tensor_parallel
/// hosts.
LayoutTransfers transfers_of(const ReplicaGroup& group, const LayoutParams& layout, std::int64_t expert_parallel,
                             std::span<const hw::NodeIndex> hosts, std::uint64_t label) {
  LayoutTransfers all;
  const auto tensor = static_cast<std::size_t>(layout.tensor_parallel);
  const auto run = [&](std::size_t i) { return hosts.subspan(i * tensor, tensor); };
  const auto stages = static_cast<std::size_t>(layout.pipeline_parallel);
  const auto lanes = static_cast<std::size_t>(group.params.data_parallel);
  const hw::Transfer none{.messages = {}, .label = label};
  all.exchange = none;
  for (std::size_t s = 0; s < stages; ++s) {
    hw::Transfer& ring = all.rings.emplace_back(none);
    for (std::size_t lane = 0; lane < lanes; ++lane) hw::add_ring(run(s * lanes + lane), ring);
    if (s + 1 < stages) hw::add_pairs(run(s), run(s + 1), all.hops.emplace_back(none));
  }
  if (lanes == 1) return all;
  if (expert_parallel > 1) {
    hw::add_all_pairs(hosts, all.exchange);
    all.each = std::ssize(hosts) - 1;
  } else {
    hw::add_ring(hosts, all.exchange);
  }
  return all;
}

/// The slower of two; a path of no messages is none.
hw::TransferPath slower(const hw::TransferPath& a, const hw::TransferPath& b) {
  const auto key = [](const hw::TransferPath& path) { return std::pair(path.bandwidth, -path.latency_s); };
  if (a.bandwidth == 0 || b.bandwidth == 0) return a.bandwidth == 0 ? b : a;
  return key(b) < key(a) ? b : a;
}

/// A link whose ranks get what a path has, `each` messages at once: the library's rings over it, a step of which waits
/// for the latency of a hop in the mean, its sends and exchanges, which wait for the longest; and no switch adds
/// anything up.
hw::LinkParams on_path(hw::LinkParams link, const hw::TransferPath& path, std::int64_t each = 1) {
  link.bandwidth = path.bandwidth * static_cast<double>(each);
  link.pair_bandwidth = 0;
  link.mesh.clear();
  link.peers = 0;
  link.far = {};
  link.in_switch.ranks = 0;
  for (double* step : {&link.ring.ll_step_s, &link.ring.ll128_step_s, &link.ring.simple_step_s})
    *step += path.mean_latency_s;
  for (double* base : {&link.peer.base_s, &link.peer.send_base_s}) *base += path.latency_s;
  return link;
}

WirePath wire_path(const hw::Transfer& transfer, const hw::TransferPath& path, std::int64_t each = 1) {
  return {.transfer = transfer, .each = each, .bandwidth = path.bandwidth, .latency_ps = picoseconds(path.latency_s)};
}

/// Which links more than one sender has.
class SharedLinks {
 public:
  explicit SharedLinks(std::size_t links) : owner_(links, kNobody), layout_(links, 0) {}
  /// What follows is of a replica, in a layout of its own.
  void begin_layout(std::size_t replica) {
    replica_ = replica;
    ++at_;
    if (replica >= shared_.size()) shared_.resize(replica + 1, false);
  }
  /// Links of a transfer. `one_by_one`: the layout's transfers never meet each other.
  void add(std::span<const hw::LinkIndex> links, bool one_by_one) {
    for (const hw::LinkIndex link : links) {
      if (owner_[link] == kNobody) owner_[link] = replica_;
      if (owner_[link] != replica_) shared_[owner_[link]] = shared_[replica_] = true;
      if (layout_[link] == at_ && !one_by_one) shared_[replica_] = true;
      layout_[link] = at_;
    }
  }
  bool any(std::size_t replica) const { return shared_[replica]; }

 private:
  static constexpr std::size_t kNobody = SIZE_MAX;
  std::vector<std::size_t> owner_;   // the first replica that has a link
  std::vector<std::size_t> layout_;  // the last that had it
  std::vector<bool> shared_;         // a replica
  std::size_t replica_ = 0, at_ = 0;
};

}  // namespace

bool LayoutPaths::like(const LayoutPaths& other) const {
  const auto same = [](const hw::TransferPath& a, const hw::TransferPath& b) {
    return a.bandwidth == b.bandwidth && a.latency_s == b.latency_s && a.mean_latency_s == b.mean_latency_s;
  };
  return each == other.each && same(ring, other.ring) && same(exchange, other.exchange) && same(hop, other.hop);
}

/// Lists what the replicas send; says where that would be too much.
bool ServingSetup::State::list_transfers() {
  for (const ReplicaGroup& group : config.groups) {
    const std::int64_t experts = group.params.expert_parallel.value_or(config.replica.expert_parallel);
    if (group.params.data_parallel > 1 && experts > 1 && group.devices() > kMostExchange) {
      infeasible = Infeasible{
          fmt::format("over machine.network at most {} ranks exchange tokens (expert parallelism), a replica has {}",
                      kMostExchange, group.devices())};
      return false;
    }
    for (std::int64_t i = 0; i < group.params.count; ++i) {
      const std::size_t number = transfers.size();
      const std::vector<hw::NodeIndex> hosts = hosts_of(config, number);
      const std::uint64_t label = sim::hash_text(fmt::format("replica{}", number));
      std::vector<LayoutTransfers>& layouts = transfers.emplace_back();
      for (const LayoutParams& layout : group.layouts)
        layouts.push_back(transfers_of(group, layout, experts, hosts, label));
    }
  }
  return true;
}

bool ServingSetup::State::measure_network() {
  if (!config.fabric) return true;
  if (!list_transfers()) return false;
  const FabricConfig& fabric = *config.fabric;
  std::vector<hw::Transfer> flat;
  for (std::vector<LayoutTransfers>& layouts : transfers)
    for (LayoutTransfers& layout : layouts)
      layout.each_transfer([&](const hw::Transfer& transfer, auto) { flat.push_back(transfer); });
  const std::vector<hw::TransferPath> measured =
      hw::transfer_paths(*fabric.topology, fabric.routing, fabric.network, flat);

  // Transfers of a pipeline's stages are under way together, those of two layouts never.
  SharedLinks shared(fabric.topology->links.size());
  paths.resize(transfers.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    for (LayoutTransfers& layout : transfers[i]) {
      LayoutPaths& own = paths[i].emplace_back();
      own.each = layout.each;
      shared.begin_layout(i);
      bool reached = true;
      layout.each_transfer([&](const hw::Transfer& transfer, hw::TransferPath LayoutPaths::*which) {
        const hw::TransferPath& path = measured[next++];
        reached = reached && (transfer.messages.empty() || path.bandwidth > 0);
        own.*which = slower(own.*which, path);
        shared.add(path.links, layout.hops.empty());
      });
      if (reached) continue;
      infeasible = Infeasible{fmt::format("machine.network has no way between all devices of replica {}", i)};
      return false;
    }
  }
  const bool others =
      !config.network_workload.empty() || config.policies.migration.name != "none" ||
      std::ranges::any_of(config.groups, [](const ReplicaGroup& g) { return g.params.role == Role::prefill; });
  for (std::size_t i = 0; i < transfers.size(); ++i) meets_others.push_back(others || shared.any(i));
  return true;
}

std::vector<LayoutPaths> ServingSetup::State::slowest_paths(std::size_t group) const {
  if (paths.empty()) return {};
  std::size_t first = 0;
  for (std::size_t g = 0; g < group; ++g) first += static_cast<std::size_t>(config.groups[g].params.count);
  const auto all = std::span(paths).subspan(first, static_cast<std::size_t>(config.groups[group].params.count));
  std::vector<LayoutPaths> slowest = all.front();
  for (const std::vector<LayoutPaths>& layouts : all.subspan(1))
    for (std::size_t i = 0; i < layouts.size(); ++i)
      for (const auto which : {&LayoutPaths::ring, &LayoutPaths::exchange, &LayoutPaths::hop})
        slowest[i].*which = slower(slowest[i].*which, layouts[i].*which);
  return slowest;
}

hw::Device ServingSetup::State::on_network(const ReplicaKind& kind, std::size_t layout, hw::Device device) const {
  if (layout < kind.paths.size())
    if (const hw::TransferPath& ring = kind.paths[layout].ring; ring.bandwidth > 0)
      device.link = on_path(device.link, ring);
  return device;
}

std::optional<hw::LinkParams> ServingSetup::State::between_lanes(const ReplicaKind& kind) const {
  if (kind.paths.empty() || kind.paths.front().exchange.bandwidth == 0) return std::nullopt;
  const LayoutPaths& own = kind.paths.front();
  return on_path(part(kind).device.link, own.exchange, own.each);
}

hw::LinkParams ServingSetup::State::between_stages(const ReplicaKind& kind, std::size_t layout) const {
  const hw::LinkParams& link = part(kind).device.link;
  if (layout >= kind.paths.size() || kind.paths[layout].hop.bandwidth == 0) return link;
  return on_path(link, kind.paths[layout].hop);
}

std::shared_ptr<Wire> ServingSetup::State::wire(const ReplicaKind& kind, std::size_t number, sim::Engine& engine,
                                                hw::MessageCarrier& network) const {
  const LayoutTransfers& own = transfers[number].front();
  const LayoutPaths& path = kind.paths.front();
  if (own.rings.front().messages.empty() && own.exchange.messages.empty()) return nullptr;
  return std::make_shared<Wire>(engine, network, wire_path(own.rings.front(), path.ring),
                                wire_path(own.exchange, path.exchange, own.each));
}

std::vector<std::vector<StageWires>> ServingSetup::State::stage_wires(const ReplicaKind& kind, std::size_t number,
                                                                      sim::Engine& engine,
                                                                      hw::MessageCarrier& network) const {
  std::vector<std::vector<StageWires>> modes;
  for (std::size_t i = 0; i < transfers[number].size(); ++i) {
    const LayoutTransfers& own = transfers[number][i];
    std::vector<StageWires>& stages = modes.emplace_back();
    for (std::size_t s = 0; s < own.rings.size(); ++s) {
      StageWires& wires = stages.emplace_back();
      wires.own = std::make_unique<Wire>(engine, network, wire_path(own.rings[s], kind.paths[i].ring));
      if (s < own.hops.size())
        wires.next = std::make_unique<Wire>(engine, network, wire_path(own.hops[s], kind.paths[i].hop));
    }
  }
  return modes;
}

}  // namespace orrery::experiments
