// Routes: every one is a path, a shortest one where that is the policy, and spreads; failures are gone round.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/hw/networks.hpp"

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

/// Checks every pair of hosts, two labels each, against the oracle.
void check_shortest(const Topology& topology, Routing& routing, const std::vector<bool>& up) {
  std::vector<LinkIndex> path;
  for (NodeIndex from = 0; from < topology.hosts; ++from) {
    const std::vector<int> distance = distances(topology, from, up, topology.hosts_forward);
    for (NodeIndex to = 0; to < topology.hosts; ++to) {
      for (std::uint64_t label = 0; label < 2; ++label) {
        path.clear();
        const bool found = routing.route(from, to, label, path);
        INFO(topology.kind << " " << topology.nodes[from] << " to " << topology.nodes[to]);
        REQUIRE(found == (distance[to] >= 0));
        if (!found) {
          REQUIRE(path.empty());
          continue;
        }
        REQUIRE(path.size() == static_cast<std::size_t>(distance[to]));
        REQUIRE(flaw(topology, from, to, path, up).empty());
      }
    }
  }
}

}  // namespace

TEST_CASE("shortest routes are shortest", "[unit]") {
  for (const auto& [kind, params] : std::vector<std::pair<std::string, std::string>>{
           {"ring", R"({"hosts": 2, "bandwidth": "1 GB/s", "latency": "1 us"})"},
           {"ring", R"({"hosts": 7, "bandwidth": "1 GB/s", "latency": "1 us"})"},
           {"ring", R"({"hosts": 6, "bidirectional": false, "bandwidth": "1 GB/s", "latency": "1 us"})"},
           {"star", R"({"hosts": 5, "bandwidth": "1 GB/s", "latency": "1 us"})"},
           {"fully_connected", R"({"hosts": 5, "bandwidth": "1 GB/s", "latency": "1 us"})"},
           {"fat_tree", R"({"k": 4, "bandwidth": "1 GB/s", "latency": "1 us"})"}}) {
    const auto topology = network(kind, params);
    check_shortest(*topology, *router("shortest", *topology), all_up(*topology));
  }
}
