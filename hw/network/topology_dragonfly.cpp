// `dragonfly`: routers of p hosts; a routers, fully connected, make a group; every router has h global cables, over
// which every two groups are joined (Kim, Dally, Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly
// Topology", ISCA 2008, section 3).
//
//   g groups, 2 <= g <= a h + 1 (or one): hosts p a g, routers a g, cables p a g + g a (a-1)/2 + q g (g-1)/2, where
//   q = floor(a h / (g-1)) global cables join every two groups; ports that do not make up a whole round stay empty.
//   Global port q of group i (router q / h) leads to group i + 1 + q mod (g-1), counted round.
//   The shortest way is local, global, local at most: 5 links with those of the hosts.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "hw/network/topology_build.hpp"

namespace orrery::hw {
namespace {

struct DragonflyParams {
  std::int64_t hosts_per_router = 2;
  std::int64_t routers_per_group = 4;
  std::int64_t global_per_router = 2;
  std::optional<std::int64_t> groups;
  double host_bandwidth = 0;
  double host_latency_s = 0;
  double local_bandwidth = 0;
  double local_latency_s = 0;
  double global_bandwidth = 0;
  double global_latency_s = 0;
  static constexpr auto fields() {
    using sim::Unit;
    using P = DragonflyParams;
    return sim::FieldTable{
        sim::required(sim::field("hosts_per_router", &P::hosts_per_router, Unit::count, sim::at_least(1),
                                 "p: number of hosts per router.")),
        sim::required(sim::field("routers_per_group", &P::routers_per_group, Unit::count, sim::at_least(1),
                                 "a: number of routers per group, every two of them joined.")),
        sim::required(sim::field("global_per_router", &P::global_per_router, Unit::count, sim::at_least(1),
                                 "h: number of cables per router to other groups.")),
        sim::field("groups", &P::groups, Unit::count, sim::at_least(1),
                   "g: number of groups; null: as many as possible, a h + 1."),
        sim::required(sim::field("host_bandwidth", &P::host_bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a host's cable, each way.")),
        sim::required(sim::field("host_latency", &P::host_latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of the link between host and router.")),
        sim::required(sim::field("local_bandwidth", &P::local_bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a cable inside a group, each way.")),
        sim::required(sim::field("local_latency", &P::local_latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of a link inside a group.")),
        sim::required(sim::field("global_bandwidth", &P::global_bandwidth, Unit::bytes_per_s, sim::positive(),
                                 "Bandwidth of a cable between groups, each way.")),
        sim::required(sim::field("global_latency", &P::global_latency_s, Unit::seconds, sim::between(0, 1),
                                 "Latency of a link between groups.")),
    };
  }
};

void add_global_cables(Topology& topology, const DragonflyParams& params, std::int64_t groups) {
  const std::int64_t others = groups - 1;
  if (others == 0) return;
  const std::int64_t a = params.routers_per_group;
  const std::int64_t h = params.global_per_router;
  const auto router = [&](std::int64_t group, std::int64_t port) {
    return static_cast<NodeIndex>(topology.hosts + group * a + port / h);
  };
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::int64_t port = 0; port < a * h / others * others; ++port) {
      const std::int64_t other = (group + 1 + port % others) % groups;
      // The other end's port of the same round leads back: offsets there and back add up to a whole turn.
      const std::int64_t back = port / others * others + (others - 1 - port % others);
      if (other > group)
        add_cable(topology, router(group, port), router(other, back),
                  {params.global_bandwidth, params.global_latency_s});
    }
  }
}

std::unique_ptr<Topology> build_dragonfly(const DragonflyParams& params, const sim::Origin& where,
                                          sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "dragonfly";
  const double p = static_cast<double>(params.hosts_per_router);
  const double a = static_cast<double>(params.routers_per_group);
  const double h = static_cast<double>(params.global_per_router);
  const double g = params.groups ? static_cast<double>(*params.groups) : a * h + 1;
  const std::size_t before = faults.size();
  (void)has_bandwidth(params.host_bandwidth, "host_bandwidth", where, faults);
  (void)has_bandwidth(params.local_bandwidth, "local_bandwidth", where, faults);
  (void)has_bandwidth(params.global_bandwidth, "global_bandwidth", where, faults);
  if (g > a * h + 1)
    faults.add(below(where, "groups"), fmt::format("expected at most {:.0f} (a h + 1), got {:.0f}", a * h + 1, g));
  if (p * a * g < 2) faults.add(below(where, "groups"), "expected at least two hosts, got one");
  if (faults.size() != before) return nullptr;
  const double global = g > 1 ? a * h * g / 2 : 0;
  if (!fits(*topology, {p * a * g, a * g, p * a * g + g * a * (a - 1) / 2 + global}, where, faults)) return nullptr;
  const std::int64_t groups = static_cast<std::int64_t>(g);
  const std::int64_t per_router = params.hosts_per_router;
  const std::int64_t per_group = params.routers_per_group;
  add_hosts(*topology, per_router * per_group * groups);
  for (std::int64_t r = 0; r < per_group * groups; ++r)
    add_node(*topology, fmt::format("r{}.{}", r / per_group, r % per_group));
  const auto router = [&](std::int64_t r) { return static_cast<NodeIndex>(topology->hosts + r); };
  for (std::int64_t host = 0; host < topology->hosts; ++host)
    add_cable(*topology, static_cast<NodeIndex>(host), router(host / per_router),
              {params.host_bandwidth, params.host_latency_s});
  for (std::int64_t group = 0; group < groups; ++group)
    for (std::int64_t i = 0; i < per_group; ++i)
      for (std::int64_t j = i + 1; j < per_group; ++j)
        add_cable(*topology, router(group * per_group + i), router(group * per_group + j),
                  {params.local_bandwidth, params.local_latency_s});
  add_global_cables(*topology, params, groups);
  for (std::int64_t host = 0; host < topology->hosts; ++host)
    topology->shape.groups.push_back(static_cast<std::uint32_t>(host / per_router / per_group));
  for (std::int64_t r = 0; r < per_group * groups; ++r)
    topology->shape.groups.push_back(static_cast<std::uint32_t>(r / per_group));
  return topology;
}

}  // namespace

void register_dragonfly(TopologyRegistry& registry) {
  registry.add<DragonflyParams>("dragonfly", "Fully connected groups of routers, joined by global cables.",
                                build_dragonfly);
}

}  // namespace orrery::hw
