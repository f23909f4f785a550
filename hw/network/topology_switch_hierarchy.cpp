// `switch_hierarchy`: a tree of switches. Level 0 gathers `radix` hosts to a switch, level 1 `radix` of these, and so
// on up to one switch. Every host or switch has `uplinks` cables side by side to the switch above.
//
//   hosts = product of the radices; cables of level l = hosts or switches below it times uplinks.
//   What a switch of level l can send up is at most min(uplinks bandwidth of level l+1, radix times what a child can
//   send): oversubscription is the second over the first. Bisection, top radix R even: R/2 times what a child of the
//   top can send. Diameter 2 levels.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {
namespace {

struct LevelParams {
  std::int64_t radix = 2;
  std::int64_t uplinks = 1;
  double bandwidth = 0;
  double latency_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("radix", &LevelParams::radix, Unit::count, sim::at_least(1),
                                 "Number of hosts, or of switches of the level below, at each switch.")),
        sim::field("uplinks", &LevelParams::uplinks, Unit::count, sim::at_least(1),
                   "Number of parallel cables from each of them up to the switch."),
        sim::required(sim::field("bandwidth", &LevelParams::bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of one of these cables, each way.")),
        sim::required(
            sim::field("latency", &LevelParams::latency_s, Unit::seconds, sim::between(0, 1), "Latency of one link.")),
    };
  }
};

struct HierarchyParams {
  std::vector<LevelParams> levels;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::required(sim::field("levels", &HierarchyParams::levels, "Levels of switches, that of the hosts first."))};
  }
};

NetworkSize size_of(const std::vector<LevelParams>& levels) {
  NetworkSize size;
  double above = 1;  // switches of the level
  for (std::size_t l = levels.size(); l-- > 0;) {
    size.switches += above;
    above *= static_cast<double>(levels[l].radix);
    size.cables += above * static_cast<double>(levels[l].uplinks);
  }
  size.hosts = above;
  return size;
}

TopologyShape shape_of(const std::vector<LevelParams>& levels) {
  TopologyShape shape;
  double up = 0;         // what one child of the level can send
  double latency_s = 0;  // from a host to the level's switch
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const double below_it = l == 0 ? 0 : static_cast<double>(levels[l - 1].radix) * up;
    const double cables = static_cast<double>(levels[l].uplinks) * levels[l].bandwidth;
    up = l == 0 ? cables : std::min(cables, below_it);
    latency_s += levels[l].latency_s;
  }
  const LevelParams& top = levels.back();
  if (top.radix % 2 == 0) shape.bisection_bytes_per_s = static_cast<double>(top.radix / 2) * up;
  if (top.radix > 1) {
    shape.diameter = 2 * static_cast<std::int64_t>(levels.size());
    shape.longest_latency_s = 2 * latency_s;
  }
  return shape;
}

std::unique_ptr<Topology> build_switch_hierarchy(const HierarchyParams& params, const sim::Origin& where,
                                                 sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "switch_hierarchy";
  if (params.levels.empty()) {
    faults.add(below(where, "levels"), "expected at least one level, got none");
    return nullptr;
  }
  const NetworkSize size = size_of(params.levels);
  if (size.hosts < 2) {
    faults.add(below(where, "levels"), "expected at least two hosts, got one");
    return nullptr;
  }
  if (!fits(*topology, size, where, faults)) return nullptr;
  add_hosts(*topology, static_cast<std::int64_t>(size.hosts));
  std::int64_t first = 0;  // of the level below
  std::int64_t count = topology->hosts;
  for (std::size_t l = 0; l < params.levels.size(); ++l) {
    const LevelParams& level = params.levels[l];
    const std::int64_t switches = count / level.radix;
    const std::int64_t base = first + count;
    for (std::int64_t s = 0; s < switches; ++s) add_node(*topology, fmt::format("s{}.{}", l, s));
    for (std::int64_t child = 0; child < count; ++child)
      for (std::int64_t u = 0; u < level.uplinks; ++u)
        add_cable(*topology, static_cast<NodeIndex>(first + child), static_cast<NodeIndex>(base + child / level.radix),
                  {level.bandwidth, level.latency_s});
    first = base;
    count = switches;
  }
  topology->shape = shape_of(params.levels);
  return topology;
}

}  // namespace

void register_switch_hierarchy(TopologyRegistry& registry) {
  registry.add<HierarchyParams>(
      "switch_hierarchy",
      "A tree of switches with its own radix, uplinks and bandwidth at each level (NVSwitch, leaf, spine).",
      build_switch_hierarchy);
}

}  // namespace orrery::hw
