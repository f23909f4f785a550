// Networks and routes that the tests of routing share.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/hw/networks.hpp"

namespace orrery::hw::test {

inline const std::string kCable = R"("bandwidth": "1 GB/s", "latency": "1 us")";
inline const std::string kDragonfly =
    R"("host_bandwidth": "1 GB/s", "host_latency": "1 us", "local_bandwidth": "2 GB/s",
  "local_latency": "2 us", "global_bandwidth": "3 GB/s", "global_latency": "10 us")";
inline const std::string kRail = R"("nvlink_bandwidth": "10 GB/s", "nvlink_latency": "1 us", "nic_bandwidth": "2 GB/s",
  "nic_latency": "3 us")";
inline const std::string kSpine = R"(, "spines": 2, "spine_bandwidth": "1 GB/s", "spine_latency": "5 us")";

inline std::string cube(int a, int b, int c, const std::string& more = "") {
  std::string text;
  for (const int extent : {a, b, c})
    text += (text.empty() ? "" : ", ") + (R"({"extent": )" + std::to_string(extent) + ", " + more + kCable + "}");
  return R"({"dimensions": [)" + text + "]}";
}

inline const std::vector<std::pair<std::string, std::string>> kNetworks{
    {"ring", R"({"hosts": 2, )" + kCable + "}"},
    {"ring", R"({"hosts": 7, )" + kCable + "}"},
    {"ring", R"({"hosts": 6, "bidirectional": false, )" + kCable + "}"},
    {"torus", cube(4, 3, 2)},
    {"torus", cube(3, 3, 3, R"("wrap": false, )")},
    {"star", R"({"hosts": 5, )" + kCable + "}"},
    {"fully_connected", R"({"hosts": 5, )" + kCable + "}"},
    {"switch_hierarchy",
     R"({"levels": [{"radix": 4, )" + kCable + R"(}, {"radix": 3, "uplinks": 2, )" + kCable + "}]}"},
    {"fat_tree", R"({"k": 4, )" + kCable + "}"},
    {"rail_optimised", R"({"machines": 3, "gpus": 4, )" + kRail + "}"},
    {"rail_optimised", R"({"machines": 4, "gpus": 3, "pod_machines": 2, )" + kRail + kSpine + "}"},
    {"dragonfly", R"({"hosts_per_router": 2, "routers_per_group": 2, "global_per_router": 2, )" + kDragonfly + "}"},
};

/// A network of random cables, some side by side, some one-way, on hosts and switches; it may fall apart.
inline Topology random_network(sim::RandomStream& random) {
  Topology topology;
  topology.kind = "random";
  topology.hosts = static_cast<std::int64_t>(2 + random.below(8));
  const std::uint64_t nodes = static_cast<std::uint64_t>(topology.hosts) + random.below(7);
  for (std::uint64_t n = 0; n < nodes; ++n) topology.nodes.push_back("n" + std::to_string(n));
  const std::uint64_t cables = nodes + random.below(2 * nodes);
  for (std::uint64_t c = 0; c < cables; ++c) {
    const auto a = static_cast<NodeIndex>(random.below(nodes));
    const auto b = static_cast<NodeIndex>(random.below(nodes));
    if (a == b) continue;
    const double latency_s = 1e-6 * static_cast<double>(random.below(4));  // 0 too, and ties
    for (std::uint64_t i = 0; i <= random.below(3) / 2; ++i) {
      topology.links.push_back({a, b, 1e9, latency_s});
      topology.links.push_back({b, a, random.below(5) == 0 ? 0 : 1e9, latency_s});
    }
  }
  topology.hosts_forward = random.below(2) == 0;
  return topology;
}

inline std::vector<bool> random_failures(const Topology& topology, sim::RandomStream& random) {
  std::vector<bool> up = all_up(topology);
  for (std::size_t l = 0; l < up.size(); ++l) up[l] = random.below(4) != 0;
  return up;
}

/// The path of a message that has one.
inline std::vector<LinkIndex> route(Routing& routing, NodeIndex from, NodeIndex to, std::uint64_t label) {
  std::vector<LinkIndex> path;
  REQUIRE(routing.route(from, to, label, path));
  return path;
}

}  // namespace orrery::hw::test
