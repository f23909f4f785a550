// Builders: counts, degrees and distances by formula; closed forms against what the graph says; queries; faults.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "hw/network/topology_graph.hpp"
#include "hw/network/topology_query.hpp"
#include "tests/hw/networks.hpp"

namespace test_topology {

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

constexpr double kGB = 1e9;

struct Expected {
  std::string kind;
  std::string params;
  std::int64_t hosts;
  std::int64_t switches;
  std::int64_t cables;
  std::int64_t diameter;
  double latency_us;
  double bisection_gb;
};

const std::string kCable = R"("bandwidth": "1 GB/s", "latency": "1 us")";
const std::string kDragonfly = R"("host_bandwidth": "1 GB/s", "host_latency": "1 us", "local_bandwidth": "2 GB/s",
  "local_latency": "2 us", "global_bandwidth": "3 GB/s", "global_latency": "10 us")";
const std::string kRail = R"("nvlink_bandwidth": "10 GB/s", "nvlink_latency": "1 us", "nic_bandwidth": "2 GB/s",
  "nic_latency": "3 us")";
const std::string kSpine = R"(, "spine_bandwidth": "1 GB/s", "spine_latency": "5 us")";

/// Parameters of a torus whose dimensions are alike.
std::string grid(const std::vector<std::int64_t>& extents, const std::string& more = "") {
  std::string text;
  for (const std::int64_t extent : extents)
    text += (text.empty() ? "" : ", ") + (R"({"extent": )" + std::to_string(extent) + ", " + more + kCable + "}");
  return R"({"dimensions": [)" + text + "]}";
}

const std::vector<Expected> kNetworks{
    // Ring: n cables, floor(n/2) apart, two cables cross the middle.
    {"ring", R"({"hosts": 6, )" + kCable + "}", 6, 0, 6, 3, 3, 2},
    {"ring", R"({"hosts": 7, )" + kCable + "}", 7, 0, 7, 3, 3, 2},
    {"ring", R"({"hosts": 2, )" + kCable + "}", 2, 0, 1, 1, 1, 1},
    // One-way: the farthest is the host just behind, n - 1; one link crosses the middle each way.
    {"ring", R"({"hosts": 6, "bidirectional": false, )" + kCable + "}", 6, 0, 6, 5, 5, 1},
    // Torus 4x4x4: 3 * 64 cables; 2 + 2 + 2; 2 * 64/4.
    {"torus", grid({4, 4, 4}), 64, 0, 192, 6, 6, 32},
    // 3x2x5: 30 hosts; cables 30 + 15 (extent 2 has one) + 30; 1 + 1 + 2; cuts 2*10, 15, 2*6: 12.
    {"torus", grid({3, 2, 5}), 30, 0, 75, 4, 4, 12},
    // Mesh 4x3: 3*3 + 4*2 = 17 cables; 3 + 2; cuts 3 and 4: 3.
    {"torus", grid({4, 3}, R"("wrap": false, )"), 12, 0, 17, 5, 5, 3},
    // Cylinder, its own bandwidth and latency a dimension: cables 12 + 4*2; 2*1 + 2*5 us; cuts 2*3*1 and 4*8: 6.
    {"torus", R"({"dimensions": [{"extent": 4, "bandwidth": "1 GB/s", "latency": "1 us"},
       {"extent": 3, "wrap": false, "bandwidth": "8 GB/s", "latency": "5 us"}]})",
     12, 0, 20, 4, 12, 6},
    {"torus", grid({1, 5, 1}), 5, 0, 5, 2, 2, 2},
    // 5 * 4 / 2 cables; 2 * 3 cross.
    {"fully_connected", R"({"hosts": 5, )" + kCable + "}", 5, 0, 10, 1, 1, 6},
    {"star", R"({"hosts": 5, )" + kCable + "}", 5, 1, 5, 2, 2, 2},
    // 4*2*2 hosts; switches 4 + 2 + 1; cables 16 + 4*2 + 2*1. A level-0 switch sends up 2 of its 4 GB/s, a level-1
    // switch
    // 3 of 4; one child of two on each side: 3. 2 * (1 + 1 + 2) us.
    {"switch_hierarchy",
     R"({"levels": [{"radix": 4, )" + kCable + R"(}, {"radix": 2, "uplinks": 2, )" + kCable +
         R"(}, {"radix": 2, "bandwidth": "3 GB/s", "latency": "2 us"}]})",
     16, 7, 26, 6, 8, 3},
    // Three children at the top: hosts 0..2 against 3..5. The middle child has one of its hosts (2) on the first side
    // and one on the second. First side sends 3, second side takes 3.
    {"switch_hierarchy", R"({"levels": [{"radix": 2, )" + kCable + R"(}, {"radix": 3, "uplinks": 2, )" + kCable + "}]}",
     6, 4, 12, 4, 4, 3},
    // A top with one child: no message comes there.
    {"switch_hierarchy", R"({"levels": [{"radix": 3, )" + kCable + R"(}, {"radix": 1, )" + kCable + "}]}", 3, 2, 4, 2,
     2, 1},
    // k = 2: 2 hosts, 5 switches, 6 cables. k = 4: 16, 20, 48; 8 GB/s. k = 6: 54, 45, 162; 27 GB/s.
    {"fat_tree", R"({"k": 2, )" + kCable + "}", 2, 5, 6, 6, 6, 1},
    {"fat_tree", R"({"k": 4, )" + kCable + "}", 16, 20, 48, 6, 6, 8},
    {"fat_tree", R"({"k": 6, )" + kCable + "}", 54, 45, 162, 6, 6, 27},
    {"fat_tree", R"({"k": 4, "oversubscription": 2, )" + kCable + "}", 16, 20, 48, 6, 6, 4},
    // 4 machines of 3: 12 GPUs; 4 NVSwitches, 3 rails; 24 cables. Other rail: NVLink and rail, 2*1 + 2*3 us; 6 NICs.
    {"rail_optimised", R"({"machines": 4, "gpus": 3, )" + kRail + "}", 12, 7, 24, 4, 8, 12},
    // With 2 spines: 2 more switches, 3*2 more cables; other rail over a spine 2*3 + 2*5.
    {"rail_optimised", R"({"machines": 4, "gpus": 3, "spines": 2, )" + kRail + kSpine + "}", 12, 9, 30, 4, 16, 12},
    // Two pods of two machines: 6 rail switches, each with 2 spines of 2 cables: 24 + 24; across: 3 rails * 4 GB/s
    // against 6 NICs of 2: 12. With one cable each 6.
    {"rail_optimised",
     R"({"machines": 4, "gpus": 3, "pod_machines": 2, "spines": 2, "spine_cables": 2, )" + kRail + kSpine + "}", 12, 12,
     48, 4, 16, 12},
    {"rail_optimised", R"({"machines": 4, "gpus": 3, "pod_machines": 2, "spines": 2, )" + kRail + kSpine + "}", 12, 12,
     36, 4, 16, 6},
    // One machine: NVLink; the halves are GPU 0 against 1 and 2: one GPU's NVLink, its NIC has nobody to reach.
    {"rail_optimised", R"({"machines": 1, "gpus": 3, )" + kRail + "}", 3, 4, 6, 2, 2, 10},
    // One GPU a machine: one rail, a star beside the NVSwitches.
    {"rail_optimised", R"({"machines": 4, "gpus": 1, )" + kRail + "}", 4, 5, 8, 2, 6, 4},
    // p = a = h = 2: 5 groups of 4 hosts; 10 routers; cables 20 + 5 + 10. local, global, local: 1 + 2 + 10 + 2 + 1.
    // Hosts 0..9 against 10..19: group 2 is split between its two routers, whose cable (2 GB/s) helps. 10 GB/s is what
    // the hosts send at most; every group of the first side (0, 1, 2a) has cables enough (3 GB/s each).
    {"dragonfly", R"({"hosts_per_router": 2, "routers_per_group": 2, "global_per_router": 2, )" + kDragonfly + "}", 20,
     10, 35, 5, 16, 10},
    // Four of the nine groups that p, a, h = 1, 4, 2 allow: two cables between every two groups and two ports a group
    // left: 16 hosts; 16 + 4*6 + 2*6 cables; 8 hosts send 8 GB/s, 2*2*2 global cables carry 24.
    {"dragonfly",
     R"({"hosts_per_router": 1, "routers_per_group": 4, "global_per_router": 2, "groups": 4, )" + kDragonfly + "}", 16,
     16, 52, 5, 16, 8},
    // One group: no global cables.
    {"dragonfly",
     R"({"hosts_per_router": 2, "routers_per_group": 3, "global_per_router": 1, "groups": 1, )" + kDragonfly + "}", 6,
     3, 9, 3, 4, 3},
};

/// Cables at every node.
std::vector<int> degrees(const Topology& topology) {
  std::vector<int> count(topology.nodes.size(), 0);
  for (const NetworkLink& link : topology.links) ++count[link.from];
  return count;
}

}  // namespace

TEST_CASE("counts, distances and bisection are those of the formulas", "[unit]") {
  for (const Expected& expected : kNetworks) {
    INFO(expected.kind << " " << expected.params);
    const auto topology = network(expected.kind, expected.params);
    CHECK(topology->kind == expected.kind);
    CHECK(topology->hosts == expected.hosts);
    CHECK(static_cast<std::int64_t>(topology->nodes.size()) == expected.hosts + expected.switches);
    CHECK(static_cast<std::int64_t>(topology->links.size()) == 2 * expected.cables);
    const HostDistance distance = host_distance(*topology);
    CHECK(distance.diameter == expected.diameter);
    CHECK(distance.longest_latency_s == Approx(expected.latency_us * 1e-6).epsilon(1e-12));
    CHECK(bisection_bandwidth(*topology) == Approx(expected.bisection_gb * kGB).epsilon(1e-12));
  }
}

TEST_CASE("closed forms are what the graph says", "[unit]") {
  for (const Expected& expected : kNetworks) {
    INFO(expected.kind << " " << expected.params);
    const auto topology = network(expected.kind, expected.params);
    const HostDistance closed = host_distance(*topology);
    const HostDistance measured = measured_host_distance(*topology);
    CHECK(measured.diameter == closed.diameter);
    CHECK(measured.longest_latency_s == Approx(closed.longest_latency_s).epsilon(1e-12));
    CHECK(max_flow(*topology, halves(*topology)) == Approx(bisection_bandwidth(*topology)).epsilon(1e-12));
  }
}

TEST_CASE("every builder makes whole cables, unique names and a way between all hosts", "[unit]") {
  for (const Expected& expected : kNetworks) {
    INFO(expected.kind << " " << expected.params);
    const auto topology = network(expected.kind, expected.params);
    CHECK(std::set<std::string>(topology->nodes.begin(), topology->nodes.end()).size() == topology->nodes.size());
    for (std::size_t l = 0; l < topology->links.size(); l += 2) {
      const NetworkLink& there = topology->links[l];
      const NetworkLink& back = topology->links[l + 1];
      REQUIRE((there.from == back.to && there.to == back.from && there.from != there.to));
      REQUIRE(there.bandwidth > 0);
      REQUIRE(there.latency_s == back.latency_s);
    }
    CHECK_FALSE(hosts_without_path(*topology));
    const std::vector<int> distance = distances(*topology, 0, all_up(*topology), topology->hosts_forward);
    for (NodeIndex h = 0; h < topology->hosts; ++h) CHECK(distance[h] >= 0);
  }
}

TEST_CASE("degrees are regular", "[unit]") {
  const auto tree = network("fat_tree", R"({"k": 6, )" + kCable + "}");
  for (NodeIndex n = 0; n < tree->nodes.size(); ++n) CHECK(degrees(*tree)[n] == (n < tree->hosts ? 1 : 6));
  const auto torus = network("torus", grid({3, 4, 5}));
  for (const int degree : degrees(*torus)) CHECK(degree == 6);
  // Dragonfly with every port in use: p + (a - 1) + h = 2 + 3 + 2.
  const auto fly = network(
      "dragonfly", R"({"hosts_per_router": 2, "routers_per_group": 4, "global_per_router": 2, )" + kDragonfly + "}");
  for (NodeIndex n = 0; n < fly->nodes.size(); ++n) CHECK(degrees(*fly)[n] == (n < fly->hosts ? 1 : 7));
  const auto rail = network("rail_optimised", R"({"machines": 4, "gpus": 3, )" + kRail + "}");
  for (NodeIndex h = 0; h < rail->hosts; ++h) CHECK(degrees(*rail)[h] == 2);
}

TEST_CASE("every two groups of a dragonfly are joined by as many cables", "[unit]") {
  // a h = 8 ports a group: 9 groups take one cable each, 5 groups two, 4 groups two (and two ports stay empty).
  for (const auto& [groups, cables] : std::vector<std::pair<int, int>>{{9, 1}, {5, 2}, {4, 2}, {3, 4}, {2, 8}}) {
    const auto fly = network("dragonfly", R"({"hosts_per_router": 1, "routers_per_group": 4, "global_per_router": 2,
      "groups": )" + std::to_string(groups) + ", " +
                                              kDragonfly + "}");
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> joined;
    for (const NetworkLink& link : fly->links)
      if (fly->shape.groups[link.from] < fly->shape.groups[link.to])
        ++joined[{fly->shape.groups[link.from], fly->shape.groups[link.to]}];
    CHECK(joined.size() == static_cast<std::size_t>(groups * (groups - 1) / 2));
    for (const auto& [pair, count] : joined) CHECK(count == cables);
  }
}

TEST_CASE("nodes are named by their place", "[unit]") {
  const auto tree = network("fat_tree", R"({"k": 4, )" + kCable + "}");
  CHECK(tree->nodes[0] == "h0");
  CHECK(tree->nodes[16] == "edge0.0");
  CHECK(tree->nodes[24] == "agg0.0");
  CHECK(tree->nodes[35] == "core1.1");
  CHECK(network("torus", grid({2, 3}))->nodes[3] == "h1.1");
  const auto rail = network("rail_optimised", R"({"machines": 2, "gpus": 2, "spines": 1, )" + kRail + kSpine + "}");
  CHECK(rail->nodes == std::vector<std::string>{"m0.g0", "m0.g1", "m1.g0", "m1.g1", "m0.nvswitch", "m1.nvswitch",
                                                "p0.rail0", "p0.rail1", "spine0"});
}

TEST_CASE("links have names", "[unit]") {
  const auto topology = network("switch_hierarchy", R"({"levels": [{"radix": 2, )" + kCable +
                                                        R"(}, {"radix": 2, "uplinks": 3, )" + kCable + "}]}");
  const TopologyNames names(*topology);
  for (LinkIndex l = 0; l < topology->links.size(); ++l) {
    sim::Faults faults;
    CHECK(names.link(names.link_name(l), {}, faults) == l);
    CHECK(faults.empty());
  }
  CHECK(names.link_name(0) == "h0->s0.0");
  // The cables of hosts are links 0 to 7; then three side by side from s0.0 to s1.0.
  CHECK(names.link_name(10) == "s0.0->s1.0#2");
  CHECK(names.link_name(13) == "s1.0->s0.0#3");
  CHECK(names.node("h3") == NodeIndex{3});
  CHECK_FALSE(names.node("h4"));

  const auto fault = [&](const std::string& name) {
    sim::Faults faults;
    CHECK_FALSE(names.link(name, {"c.json", "/failures/0/link"}, faults));
    REQUIRE(faults.size() == 1);
    return faults.all()[0].text();
  };
  CHECK(fault("h0") == "c.json:/failures/0/link: expected a link such as \"a->b\" or \"a->b#2\", got \"h0\"");
  CHECK(fault("h0->s0") == "c.json:/failures/0/link: unknown node 's0' (did you mean 'h0'?)");
  CHECK(fault("h0->h1") == "c.json:/failures/0/link: no link leads from 'h0' to 'h1'");
  CHECK(fault("s0.0->s1.0#4") == "c.json:/failures/0/link: only 3 links lead from 's0.0' to 's1.0'");
  CHECK(fault("s0.0->s1.0#0") ==
        "c.json:/failures/0/link: expected the number of a cable (1, 2 …) after '#', got \"0\"");
  const auto ring = network("ring", R"({"hosts": 3, "bidirectional": false, )" + kCable + "}");
  sim::Faults faults;
  CHECK(TopologyNames(*ring).link("h0->h1", {}, faults) == LinkIndex{0});
  CHECK_FALSE(TopologyNames(*ring).link("h1->h0", {}, faults));
}

TEST_CASE("a topology describes itself, as the docs show", "[unit]") {
  // k = 16: 1,024 hosts, 320 switches, 3,072 cables; 512 * 50 GB/s cross; 6 * 500 ns.
  const std::string text = describe(*network("fat_tree", R"({"k": 16, "bandwidth": "50 GB/s", "latency": "500 ns"})"));
  CHECK(text ==
        "kind             fat_tree\nhosts            1024\nswitches         320\ncables           3072\n"
        "bisection        25.6 TB/s\ndiameter         6 links\nlongest latency  3 us\n");
  std::ifstream file(std::string(ORRERY_SOURCE_DIR) + "/docs/explain/network.md");
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}).find(text) != std::string::npos);
}

TEST_CASE("faults of a topology name their place", "[unit]") {
  CHECK(network_faults("fat_tree", R"({"k": 5, )" + kCable + "}") ==
        "t:/fat_tree/k: expected an even number of ports, got 5");
  CHECK(network_faults("fat_tree", R"({"k": 76, )" + kCable + "}") == "");  // 76^3 / 4 = 109,744 hosts
  CHECK(network_faults("fat_tree", R"({"k": 90, )" + kCable + "}") ==
        "t:/fat_tree: fat_tree of 182250 hosts: a network holds at most 131072");
  CHECK(network_faults("fully_connected", R"({"hosts": 4000, )" + kCable + "}") ==
        "t:/fully_connected: fully_connected of 7998000 cables: a network holds at most 2097152");
  CHECK_THAT(network_faults("torus", grid({100000, 100000, 100000})),
             Catch::Contains("t:/torus: torus of 1000000000000000 hosts"));
  CHECK_THAT(network_faults("ring", R"({"hosts": 9000000000000000000, )" + kCable + "}"), Catch::Contains("t:/ring"));
  CHECK(network_faults("star", R"({"hosts": 4, "bandwidth": "0 GB/s", "latency": "1 us"})") ==
        "t:/star/bandwidth: expected > 0 B/s, got \"0 GB/s\"");
  CHECK_THAT(network_faults("star", "{}"), Catch::Contains("t:/star/hosts: missing") &&
                                               Catch::Contains("t:/star/bandwidth: missing") &&
                                               Catch::Contains("t:/star/latency: missing"));
  CHECK(network_faults("torus", R"({"dimensions": [{"extent": 0, )" + kCable + R"(}, {"extent": 2}]})") ==
        "t:/torus/dimensions/0/extent: expected >= 1, got 0\n"
        "t:/torus/dimensions/1/bandwidth: missing: expected a quantity in B/s such as \"900 GB/s\"\n"
        "t:/torus/dimensions/1/latency: missing: expected a quantity in s such as \"1 s\"");
  CHECK(network_faults("torus", grid({})) == "t:/torus/dimensions: expected at least one dimension, got none");
  CHECK(network_faults("torus", grid({1, 1})) == "t:/torus/dimensions: expected at least two hosts, got one");
  CHECK(network_faults("switch_hierarchy", R"({"levels": []})") ==
        "t:/switch_hierarchy/levels: expected at least one level, got none");
  CHECK(network_faults("switch_hierarchy", R"({"levels": [{"radix": 1, )" + kCable + "}]}") ==
        "t:/switch_hierarchy/levels: expected at least two hosts, got one");
  CHECK(network_faults("dragonfly", R"({"hosts_per_router": 1, "routers_per_group": 2, "global_per_router": 2,
          "groups": 6, )" + kDragonfly + "}") == "t:/dragonfly/groups: expected at most 5 (a h + 1), got 6");
  CHECK(network_faults("dragonfly", R"({"hosts_per_router": 1, "routers_per_group": 1, "global_per_router": 1,
          "groups": 1, )" + kDragonfly + "}") == "t:/dragonfly/groups: expected at least two hosts, got one");
  CHECK(network_faults("rail_optimised", R"({"machines": 4, "gpus": 2, "pod_machines": 2, )" + kRail + "}") ==
        "t:/rail_optimised/spines: expected at least 1: nothing joins 2 pods of 2 machines");
  CHECK(network_faults("rail_optimised", R"({"machines": 4, "gpus": 2, "spines": 2, )" + kRail + "}") ==
        "t:/rail_optimised/spine_bandwidth: missing: spines need the bandwidth of their cables\n"
        "t:/rail_optimised/spine_latency: missing: spines need the latency of their cables");
  CHECK(network_faults("rail_optimised", R"({"machines": 1, "gpus": 1, )" + kRail + "}") ==
        "t:/rail_optimised/machines: expected at least two GPUs, got one");
  CHECK_THAT(network_faults("fattree", "{}"), Catch::Contains("t:/policy: unknown topology policy 'fattree'") &&
                                                  Catch::Contains("did you mean 'fat_tree'?"));
}

TEST_CASE("a block that names no topology, or gives no parameters, is a fault", "[unit]") {
  sim::Faults faults;
  CHECK(make_topology(sim::parse_json("{}", "t"), faults) == nullptr);
  CHECK(make_topology(sim::parse_json(R"({"policy": "star"})", "t"), faults) == nullptr);
  CHECK(make_topology(sim::parse_json("3", "t"), faults) == nullptr);
  REQUIRE(faults.size() == 5);
  CHECK_THAT(faults.all()[0].text(), Catch::Contains("t:/policy: missing") && Catch::Contains("fat_tree"));
  CHECK_THAT(faults.all()[1].text(), Catch::Contains("t:/star/hosts: missing"));
  CHECK_THAT(faults.all()[3].text(), Catch::Contains("t:/star/latency: missing"));
  CHECK_THAT(faults.all()[4].text(), Catch::Contains("expected an object, got 3"));
}

TEST_CASE("a network of a hundred thousand hosts can be had", "[unit]") {
  // k = 74: 74^3 / 4 = 101,306 hosts, 5 * 74^2 / 4 = 6,845 switches, 3 * 101,306 cables.
  const auto tree = network("fat_tree", R"({"k": 74, )" + kCable + "}");
  CHECK(tree->hosts == 101306);
  CHECK(tree->nodes.size() == 101306 + 6845);
  CHECK(tree->links.size() == 2 * 3 * 101306);
  CHECK(describe(*tree).find("bisection        50.65 TB/s") != std::string::npos);  // 50,653 GB/s
}

}  // namespace test_topology
