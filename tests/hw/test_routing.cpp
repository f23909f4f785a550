// Routes: every one is a path, a shortest one where that is the policy, and spreads; failures are gone round.
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "hw/network/cheapest_paths.hpp"
#include "hw/network/topology_query.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/networks.hpp"

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

const std::string kCable = R"("bandwidth": "1 GB/s", "latency": "1 us")";
const std::string kDragonfly = R"("host_bandwidth": "1 GB/s", "host_latency": "1 us", "local_bandwidth": "2 GB/s",
  "local_latency": "2 us", "global_bandwidth": "3 GB/s", "global_latency": "10 us")";
const std::string kRail = R"("nvlink_bandwidth": "10 GB/s", "nvlink_latency": "1 us", "nic_bandwidth": "2 GB/s",
  "nic_latency": "3 us")";
const std::string kSpine = R"(, "spines": 2, "spine_bandwidth": "1 GB/s", "spine_latency": "5 us")";

std::string cube(int a, int b, int c, const std::string& more = "") {
  std::string text;
  for (const int extent : {a, b, c})
    text += (text.empty() ? "" : ", ") + (R"({"extent": )" + std::to_string(extent) + ", " + more + kCable + "}");
  return R"({"dimensions": [)" + text + "]}";
}

const std::vector<std::pair<std::string, std::string>> kNetworks{
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
Topology random_network(sim::RandomStream& random) {
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

std::vector<bool> random_failures(const Topology& topology, sim::RandomStream& random) {
  std::vector<bool> up = all_up(topology);
  for (std::size_t l = 0; l < up.size(); ++l) up[l] = random.below(4) != 0;
  return up;
}

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

std::vector<LinkIndex> route(Routing& routing, NodeIndex from, NodeIndex to, std::uint64_t label) {
  std::vector<LinkIndex> path;
  REQUIRE(routing.route(from, to, label, path));
  return path;
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
