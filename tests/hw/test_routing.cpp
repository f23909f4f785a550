// Shortest routes: every one is a shortest path, they spread, and go round failures.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "hw/network/cheapest_paths.hpp"
#include "tests/hw/routes.hpp"

namespace test_routing {

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

/// Checks every pair of nodes, two labels each, against breadth-first search.
void check_shortest(const Topology& topology, Routing& routing, const std::vector<bool>& up) {
  std::vector<LinkIndex> path;
  for (NodeIndex from = 0; from < topology.nodes.size(); ++from) {
    const std::vector<int> distance = distances(topology, from, up, topology.hosts_forward);
    for (NodeIndex to = 0; to < topology.nodes.size(); ++to) {
      for (std::uint64_t label = 0; label < 2; ++label) {
        path.assign(1, 77);  // what stands in the path stays
        const bool found = routing.route(from, to, label, path);
        INFO(topology.kind << " " << topology.nodes[from] << " to " << topology.nodes[to]);
        REQUIRE(found == (distance[to] >= 0));
        REQUIRE(path.front() == 77);
        path.erase(path.begin());
        REQUIRE(path.size() == static_cast<std::size_t>(found ? distance[to] : 0));
        if (found) REQUIRE(flaw(topology, from, to, path, up).empty());
      }
    }
  }
}

/// Messages over every link when every pair of hosts sends one.
std::vector<int> loads(const Topology& topology, Routing& routing, int labels = 1) {
  std::vector<int> load(topology.links.size(), 0);
  for (NodeIndex from = 0; from < topology.hosts; ++from)
    for (NodeIndex to = 0; to < topology.hosts; ++to)
      for (int label = 0; label < labels; ++label)
        for (const LinkIndex l : route(routing, from, to, static_cast<std::uint64_t>(label))) ++load[l];
  return load;
}

}  // namespace

TEST_CASE("shortest routes are shortest paths", "[unit]") {
  for (const auto& [kind, params] : kNetworks) {
    const auto topology = network(kind, params);
    check_shortest(*topology, *router("shortest", *topology, R"({"fewest_global": false})"), all_up(*topology));
  }
}

TEST_CASE("distances are those of the network's arithmetic", "[theory]") {
  std::vector<LinkIndex> path;
  // Fat tree of k = 4: hosts 0, 1 share an edge switch, 0 and 2 a pod.
  const auto tree = network("fat_tree", R"({"k": 4, )" + kCable + "}");
  const auto by_tree = router("shortest", *tree);
  CHECK(route(*by_tree, 0, 1, 5).size() == 2);
  CHECK(route(*by_tree, 0, 2, 5).size() == 4);
  CHECK(route(*by_tree, 0, 4, 5).size() == 6);
  // Torus: the sum of the ring distances.
  const auto torus = network("torus", cube(5, 4, 3));
  const auto by_torus = router("shortest", *torus);
  const auto ring = [](NodeIndex a, NodeIndex b, NodeIndex k) {
    const NodeIndex d = (b + k - a) % k;
    return std::min(d, k - d);
  };
  for (NodeIndex a = 0; a < 60; ++a)
    for (NodeIndex b = 0; b < 60; ++b)
      REQUIRE(route(*by_torus, a, b, 1).size() ==
              ring(a % 5, b % 5, 5) + ring(a / 5 % 4, b / 5 % 4, 4) + ring(a / 20, b / 20, 3));
  // Dragonfly: host, at most local, global, local, host; in a group at most one local link.
  const auto fly = network(
      "dragonfly", R"({"hosts_per_router": 2, "routers_per_group": 4, "global_per_router": 2, )" + kDragonfly + "}");
  const auto by_fly = router("shortest", *fly);
  for (NodeIndex a = 0; a < fly->hosts; ++a) {
    for (NodeIndex b = 0; b < fly->hosts; ++b) {
      const auto links = route(*by_fly, a, b, 1);
      const bool inside = fly->shape.groups[a] == fly->shape.groups[b];
      REQUIRE(links.size() <= (inside ? 3 : 5));
      int global = 0;
      for (const LinkIndex l : links)
        if (fly->shape.groups[fly->links[l].from] != fly->shape.groups[fly->links[l].to]) ++global;
      REQUIRE(global == (inside ? 0 : 1));
    }
  }
}

TEST_CASE("a route depends on its label and on nothing that was asked before", "[unit]") {
  for (const auto& [kind, params] : kNetworks) {
    const auto topology = network(kind, params);
    for (const char* policy : {"shortest", "lowest_latency", "valiant"}) {
      INFO(kind << " " << policy);
      const auto first = router(policy, *topology);
      const auto second = router(policy, *topology);
      const auto hosts = static_cast<NodeIndex>(topology->hosts);
      for (NodeIndex i = hosts; i-- > 0;)
        for (NodeIndex j = 0; j < hosts; ++j) (void)route(*second, i, j, 9);
      for (NodeIndex i = 0; i < hosts; ++i)
        for (NodeIndex j = 0; j < hosts; ++j) REQUIRE(route(*first, i, j, 3) == route(*second, i, j, 3));
    }
  }
}

TEST_CASE("equally good links carry equal shares", "[prop]") {
  // Two switches with 16 cables between them, 16 hosts each: 1,000 random pairs a link on average; labels too.
  const auto topology = network("switch_hierarchy", R"({"levels": [{"radix": 64, )" + kCable +
                                                        R"(}, {"radix": 2, "uplinks": 16, )" + kCable + "}]}");
  for (const bool by_label : {false, true}) {
    const auto routing = router("shortest", *topology);
    sim::RandomStream random(1, "pairs");
    std::map<LinkIndex, int> uplinks;
    constexpr int kMessages = 64'000;
    for (int m = 0; m < kMessages; ++m) {
      const auto from = by_label ? NodeIndex{0} : static_cast<NodeIndex>(random.below(64));
      const auto to = by_label ? NodeIndex{64} : static_cast<NodeIndex>(64 + random.below(64));
      ++uplinks[route(*routing, from, to, static_cast<std::uint64_t>(m))[1]];
    }
    // 4,000 a link; the binomial's deviation is sqrt(64000 / 16 * 15 / 16) = 61, 1.5 %: 10 % is six of them.
    CHECK(uplinks.size() == 16);
    for (const auto& [link, count] : uplinks) CHECK(std::abs(count - kMessages / 16) < kMessages / 16 / 10);
  }
}

TEST_CASE("choices at one level leave those of the next free", "[prop]") {
  // k = 8: 4 x 4 core switches; a pair in different pods chooses the aggregation switch, then the core switch.
  const auto tree = network("fat_tree", R"({"k": 8, )" + kCable + "}");
  const auto routing = router("shortest", *tree);
  std::map<NodeIndex, int> cores;
  for (std::uint64_t label = 0; label < 16'000; ++label) ++cores[tree->links[route(*routing, 0, 100, label)[2]].to];
  CHECK(cores.size() == 16);
  for (const auto& [core, count] : cores) CHECK(std::abs(count - 1000) < 150);  // deviation 31
}

TEST_CASE("routes go round links that are down, or say that there is no way", "[prop]") {
  sim::RandomStream random(7, "failures");
  for (int round = 0; round < 300; ++round) {
    const Topology topology = random_network(random);
    const auto routing = router("shortest", topology);
    INFO("round " << round);
    check_shortest(topology, *routing, all_up(topology));
    for (int change = 0; change < 2; ++change) {
      const std::vector<bool> up = random_failures(topology, random);
      routing->links_changed(up);
      check_shortest(topology, *routing, up);
    }
    routing->links_changed(all_up(topology));
    check_shortest(topology, *routing, all_up(topology));
  }
}

TEST_CASE("what comes back up is used as before", "[unit]") {
  const auto tree = network("fat_tree", R"({"k": 4, )" + kCable + "}");
  const auto routing = router("shortest", *tree);
  const auto before = route(*routing, 0, 15, 1);
  std::vector<bool> up = all_up(*tree);
  up[before[2]] = false;
  routing->links_changed(up);
  const auto round = route(*routing, 0, 15, 1);
  CHECK(round != before);
  CHECK(flaw(*tree, 0, 15, round, up).empty());
  CHECK(round.size() == 6);
  routing->links_changed(all_up(*tree));
  CHECK(route(*routing, 0, 15, 1) == before);
  // A host whose only cable is down cannot be reached, nor reach.
  up[0] = up[1] = false;
  routing->links_changed(up);
  std::vector<LinkIndex> path;
  CHECK_FALSE(routing->route(0, 15, 1, path));
  CHECK_FALSE(routing->route(15, 0, 1, path));
  CHECK(routing->route(0, 0, 1, path));
  CHECK(path.empty());
}

TEST_CASE("uniform traffic loads a symmetric network evenly", "[theory]") {
  // All pairs on a 4-cube torus of 4: 64 * 63 messages of 192/63 links on average over 384 links: 32 a link and label.
  const auto torus = network("torus", cube(4, 4, 4));
  for (const char* policy : {"shortest", "dimension_order"}) {
    const auto routing = router(policy, *torus);
    for (const int load : loads(*torus, *routing, 8)) CHECK(std::abs(load - 32 * 8) < 32 * 8 / 3);
  }
}

TEST_CASE("tables of a large fat tree are small", "[unit]") {
  // k = 36: 11,664 hosts on 648 edge switches of 1,620: 648 tables of 1,620 four-byte costs, 4.2 MB.
  const auto tree = network("fat_tree", R"({"k": 36, )" + kCable + "}");
  CheapestPaths<Hops> paths(*tree, false);
  std::vector<LinkIndex> path;
  for (NodeIndex to = 0; to < tree->hosts; to += 5) {
    path.clear();
    REQUIRE(paths.append((to + 4999) % 11664, to, route_hash(1, to, 2), path));
  }
  CHECK(paths.table_bytes() == 648 * 1620 * 4);
}

}  // namespace test_routing
