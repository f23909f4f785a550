// The other routing policies: what each promises, on its topologies and round failures.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "hw/network/topology_query.hpp"
#include "tests/hw/routes.hpp"

namespace test_routing_policies {

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

/// Least latency in ps and, of those paths, least links, from `from` to every node: Bellman and Ford's way.
std::vector<std::pair<double, int>> latencies(const Topology& topology, NodeIndex from, const std::vector<bool>& up) {
  const std::pair<double, int> far{std::numeric_limits<double>::infinity(), 0};
  std::vector<std::pair<double, int>> best(topology.nodes.size(), far);
  best[from] = {0, 0};
  for (std::size_t round = 0; round < topology.nodes.size(); ++round) {
    for (std::size_t l = 0; l < topology.links.size(); ++l) {
      const NetworkLink& link = topology.links[l];
      if (!up[l] || link.bandwidth <= 0 || best[link.from] == far) continue;
      if (link.from != from && link.from < topology.hosts && !topology.hosts_forward) continue;
      const std::pair<double, int> through{best[link.from].first + std::round(link.latency_s * 1e12),
                                           best[link.from].second + 1};
      best[link.to] = std::min(best[link.to], through);
    }
  }
  return best;
}

}  // namespace

TEST_CASE("lowest latency is lowest, then fewest links", "[prop]") {
  sim::RandomStream random(11, "latency");
  for (int round = 0; round < 150; ++round) {
    const Topology topology = random_network(random);
    const auto routing = router("lowest_latency", topology);
    const std::vector<bool> up = round % 2 == 0 ? all_up(topology) : random_failures(topology, random);
    routing->links_changed(up);
    std::vector<LinkIndex> path;
    for (NodeIndex from = 0; from < topology.nodes.size(); ++from) {
      const auto best = latencies(topology, from, up);
      for (NodeIndex to = 0; to < topology.nodes.size(); ++to) {
        path.clear();
        const bool found = routing->route(from, to, 1, path);
        INFO("round " << round << ": " << from << " to " << to);
        REQUIRE(found == std::isfinite(best[to].first));
        if (!found) continue;
        REQUIRE(flaw(topology, from, to, path, up).empty());
        double latency_ps = 0;
        for (const LinkIndex l : path) latency_ps += std::round(topology.links[l].latency_s * 1e12);
        REQUIRE(latency_ps == best[to].first);
        REQUIRE(static_cast<int>(path.size()) == best[to].second);
      }
    }
  }
}

TEST_CASE("dimension order goes along one dimension after the other, the short way", "[unit]") {
  const auto torus = network("torus", cube(5, 4, 3));
  const auto routing = router("dimension_order", *torus);
  const auto shortest = router("shortest", *torus);
  const auto dimension = [&](LinkIndex l) {
    const NetworkLink& link = torus->links[l];
    if (link.from / 20 != link.to / 20) return 2;
    return link.from / 5 != link.to / 5 ? 1 : 0;
  };
  for (NodeIndex a = 0; a < 60; ++a) {
    for (NodeIndex b = 0; b < 60; ++b) {
      const auto path = route(*routing, a, b, 1);
      REQUIRE(path.size() == route(*shortest, a, b, 1).size());
      REQUIRE(flaw(*torus, a, b, path, all_up(*torus)).empty());
      for (std::size_t i = 1; i < path.size(); ++i) REQUIRE(dimension(path[i - 1]) <= dimension(path[i]));
    }
  }
  // Half way round a ring of four both ways serve, by label.
  const auto ring = network("ring", R"({"hosts": 4, )" + kCable + "}");
  const auto by_ring = router("dimension_order", *ring);
  int over_one = 0;
  for (std::uint64_t label = 0; label < 1000; ++label)
    if (ring->links[route(*by_ring, 0, 2, label)[0]].to == 1) ++over_one;
  CHECK(std::abs(over_one - 500) < 100);  // deviation 16
  // One way only, and without wrapping.
  const auto one_way = network("ring", R"({"hosts": 6, "bidirectional": false, )" + kCable + "}");
  CHECK(route(*router("dimension_order", *one_way), 1, 0, 1).size() == 5);
  const auto mesh = network("torus", cube(4, 1, 4, R"("wrap": false, )"));
  CHECK(route(*router("dimension_order", *mesh), 0, 15, 1).size() == 6);
}

TEST_CASE("dimension order leaves its order to go round a failure", "[unit]") {
  const auto torus = network("torus", cube(4, 4, 1));
  const auto routing = router("dimension_order", *torus);
  const auto before = route(*routing, 0, 1, 1);
  REQUIRE(before.size() == 1);
  std::vector<bool> up = all_up(*torus);
  up[before[0]] = false;
  routing->links_changed(up);
  // From (0, 0) to (1, 0) without the link between: three round the ring of four, or three over a neighbouring row.
  const auto round = route(*routing, 0, 1, 1);
  CHECK(round.size() == 3);
  CHECK(flaw(*torus, 0, 1, round, up).empty());
  std::vector<LinkIndex> path;
  routing->links_changed(std::vector<bool>(torus->links.size(), false));
  CHECK_FALSE(routing->route(0, 1, 1, path));
  CHECK(path.empty());
}

TEST_CASE("valiant routes are paths, through a third group of a dragonfly", "[unit]") {
  for (const auto& [kind, params] : kNetworks) {
    const auto topology = network(kind, params);
    const auto routing = router("valiant", *topology);
    for (NodeIndex a = 0; a < topology->hosts; ++a)
      for (NodeIndex b = 0; b < topology->hosts; ++b)
        for (std::uint64_t label = 0; label < 4; ++label) {
          INFO(kind << " " << a << " to " << b);
          REQUIRE(flaw(*topology, a, b, route(*routing, a, b, label), all_up(*topology)).empty());
        }
  }
  const auto fly = network(
      "dragonfly", R"({"hosts_per_router": 2, "routers_per_group": 4, "global_per_router": 2, )" + kDragonfly + "}");
  const auto routing = router("valiant", *fly);
  std::set<std::uint32_t> between;
  for (std::uint64_t label = 0; label < 400; ++label) {
    std::vector<std::uint32_t> groups{0};
    for (const LinkIndex l : route(*routing, 0, 8, label))
      if (const std::uint32_t group = fly->shape.groups[fly->links[l].to]; group != groups.back())
        groups.push_back(group);
    REQUIRE(groups.size() == 3);
    CHECK(groups.back() == 1);
    between.insert(groups[1]);
  }
  CHECK(between.size() == 7);                   // every group but the two
  CHECK(route(*routing, 0, 2, 1).size() == 3);  // inside a group: no detour
}

TEST_CASE("valiant spreads what shortest paths pile up", "[theory]") {
  // Every host sends to the next group: shortest paths have one global cable for the 8 hosts of a group (8 messages a
  // label); over the other 7 groups a global cable gets 8 * 2 / 8 = 2 a label on average.
  const auto fly = network(
      "dragonfly", R"({"hosts_per_router": 2, "routers_per_group": 4, "global_per_router": 2, )" + kDragonfly + "}");
  const auto most_loaded = [&](const char* policy) {
    const auto routing = router(policy, *fly);
    std::vector<int> load(fly->links.size(), 0);
    for (NodeIndex h = 0; h < 72; ++h)
      for (std::uint64_t label = 0; label < 50; ++label)
        for (const LinkIndex l : route(*routing, h, (h + 8) % 72, label)) ++load[l];
    int most = 0;
    for (std::size_t l = 0; l < load.size(); ++l)
      if (fly->links[l].bandwidth == 3e9) most = std::max(most, load[l]);
    return most;
  };
  CHECK(most_loaded("shortest") == 8 * 50);
  CHECK(most_loaded("valiant") < 3 * 50);
}

TEST_CASE("valiant finds a way while there is one", "[prop]") {
  sim::RandomStream random(13, "valiant");
  for (int round = 0; round < 150; ++round) {
    const Topology topology = random_network(random);
    const auto routing = router("valiant", topology);
    const std::vector<bool> up = random_failures(topology, random);
    routing->links_changed(up);
    for (NodeIndex from = 0; from < topology.nodes.size(); ++from) {
      const std::vector<int> distance = distances(topology, from, up, topology.hosts_forward);
      for (NodeIndex to = 0; to < topology.nodes.size(); ++to) {
        std::vector<LinkIndex> path;
        REQUIRE(routing->route(from, to, 1, path) == (distance[to] >= 0));
        if (distance[to] >= 0) REQUIRE(flaw(topology, from, to, path, up).empty());
      }
    }
  }
}

TEST_CASE("rail routes take NVLink to the destination's rail", "[unit]") {
  for (const std::string& more : {std::string{}, kSpine}) {
    const auto topology = network("rail_optimised", R"({"machines": 3, "gpus": 4, )" + kRail + more + "}");
    const auto routing = router("rail", *topology);
    const TopologyNames names(*topology);
    const auto shown = [&](NodeIndex from, NodeIndex to, std::uint64_t label) {
      std::string text;
      for (const LinkIndex l : route(*routing, from, to, label)) text += topology->nodes[topology->links[l].to] + " ";
      return text;
    };
    // m0.g1 is host 1, m2.g3 host 11.
    for (std::uint64_t label = 0; label < 20; ++label) {
      CHECK(shown(1, 11, label) == "m0.nvswitch m0.g3 p0.rail3 m2.g3 ");
      CHECK(shown(1, 9, label) == "p0.rail1 m2.g1 ");
      CHECK(shown(1, 3, label) == "m0.nvswitch m0.g3 ");
      CHECK(shown(1, 1, label).empty());
    }
    // The relay's NIC fails: another way, of which there is always one.
    std::vector<bool> up = all_up(*topology);
    sim::Faults faults;
    const auto nic = names.link("m0.g3->p0.rail3", {}, faults);
    REQUIRE(nic);
    up[*nic] = false;
    routing->links_changed(up);
    const auto round = route(*routing, 1, 11, 1);
    CHECK(flaw(*topology, 1, 11, round, up).empty());
    CHECK(round.size() == 4);
    // GPU 3's own messages: its NIC is gone, its NVLink is not.
    CHECK(flaw(*topology, 3, 11, route(*routing, 3, 11, 1), up).empty());
    // Its NVLink too: it is cut off.
    const auto nvlink = names.link("m0.g3->m0.nvswitch", {}, faults);
    REQUIRE(nvlink);
    up[*nvlink] = false;
    routing->links_changed(up);
    std::vector<LinkIndex> path;
    CHECK_FALSE(routing->route(3, 11, 1, path));
    CHECK(path.empty());
  }
}

TEST_CASE("hosts pass on where the policy is told so", "[unit]") {
  // GPU 0 of machine 0 without its NIC: with spines, shortest paths do not lead through other GPUs unless asked to.
  const auto topology = network("rail_optimised", R"({"machines": 2, "gpus": 2, )" + kRail + kSpine + "}");
  std::vector<bool> up = all_up(*topology);
  sim::Faults faults;
  up[*TopologyNames(*topology).link("m0.g0->p0.rail0", {}, faults)] = false;
  std::vector<LinkIndex> path;
  const auto strict = router("shortest", *topology);
  strict->links_changed(up);
  CHECK_FALSE(strict->route(0, 2, 1, path));
  for (const char* policy : {"shortest", "lowest_latency"}) {
    const auto through = router(policy, *topology, R"({"hosts_forward": true})");
    through->links_changed(up);
    path.clear();
    CHECK(through->route(0, 2, 1, path));
    CHECK(flaw(*topology, 0, 2, path, up).empty());
  }
}

TEST_CASE("a policy that cannot serve a topology says so where it was chosen", "[unit]") {
  const auto star = network("star", R"({"hosts": 4, )" + kCable + "}");
  const auto fault = [&](const std::string& block) {
    sim::Faults faults;
    CHECK(make_routing(sim::parse_json(block, "c.json"), *star, faults) == nullptr);
    REQUIRE(faults.size() == 1);
    return faults.all()[0].text();
  };
  CHECK(fault(R"({"policy": "dimension_order"})") ==
        "c.json:/policy: dimension_order needs a ring or a torus, got a star topology");
  CHECK(fault(R"({"policy": "rail"})") == "c.json:/policy: rail needs a rail_optimised topology, got a star topology");
  CHECK_THAT(fault(R"({"policy": "shortets"})"), Catch::Contains("did you mean 'shortest'?"));
  CHECK_THAT(fault(R"({"shortest": {"hosts": true}})"), Catch::Contains("c.json:/shortest/hosts: unknown key"));
  sim::Faults faults;
  CHECK(make_routing(sim::parse_json("{}", "c.json"), *star, faults) != nullptr);  // shortest
  CHECK(faults.empty());
}

}  // namespace test_routing_policies
