// Networks given as data: what they become, and every fault of one at once.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "hw/network/topology_graph.hpp"
#include "hw/network/topology_query.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/networks.hpp"

namespace test_topology_graph {

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

const std::string kCable = R"("bandwidth": "1 GB/s", "latency": "1 us")";
const std::string kStar = R"({"nodes": [{"name": "hub", "kind": "switch"}, {"name": "a", "kind": "host"},
  {"name": "b", "kind": "host"}], "cables": [{"from": "a", "to": "hub", )" +
                          kCable + R"(}, {"from": "hub", "to": "b", "count": 2, )" + kCable + "}]}";

std::unique_ptr<Topology> graph(const std::string& body) {
  return network("graph", R"({"network": )" + body + "}");
}

std::string graph_faults(const std::string& body) {
  return network_faults("graph", R"({"network": )" + body + "}");
}

std::string catalog_file(const std::string& name) {
  return std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/networks/" + name + ".json";
}

}  // namespace

TEST_CASE("a graph holds what it was given, hosts first", "[unit]") {
  const auto star = graph(kStar);
  CHECK(star->kind == "graph");
  CHECK(star->hosts == 2);
  CHECK(star->nodes == std::vector<std::string>{"a", "b", "hub"});
  REQUIRE(star->links.size() == 6);  // one cable and two side by side
  CHECK((star->links[2].from == 2 && star->links[2].to == 1 && star->links[3].from == 1));
  CHECK(star->links[5].bandwidth == 1e9);
  CHECK(star->links[0].latency_s == 1e-6);
  CHECK_FALSE(star->hosts_forward);
  CHECK(bisection_bandwidth(*star) == 1e9);  // a's cable
  CHECK(host_distance(*star).diameter == 2);
}

TEST_CASE("hosts of a graph forward if cables join them, or as it says", "[unit]") {
  const std::string line = R"("nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"},
    {"name": "c", "kind": "host"}], "cables": [{"from": "a", "to": "b", )" +
                           kCable + R"(}, {"from": "b", "to": "c", )" + kCable + "}]";
  CHECK(graph("{" + line + "}")->hosts_forward);
  CHECK(host_distance(*graph("{" + line + "}")).diameter == 2);
  CHECK(graph_faults(R"({"hosts_forward": false, )" + line + "}") ==
        "t:/graph/network/cables: no path from 'a' to 'c' (there is one through hosts: set hosts_forward)");
}

TEST_CASE("one-way cables lead one way", "[unit]") {
  const std::string nodes = R"("nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"},
    {"name": "s", "kind": "switch"}], )";
  const std::string there =
      R"({"from": "a", "to": "s", )" + kCable + R"(}, {"from": "s", "to": "b", "one_way": true, )";
  CHECK(graph_faults("{" + nodes + R"("cables": [)" + there + kCable + "}]}") ==
        "t:/graph/network/cables: no path from 'b' to 'a'");
  const auto both = graph("{" + nodes + R"("cables": [)" + there + kCable + R"(}, {"from": "b", "to": "s", )" +
                          R"("one_way": true, "bandwidth": "2 GB/s", "latency": "1 us"}]})");
  CHECK(both->links[3].bandwidth == 0);
  CHECK(both->links[4].bandwidth == 2e9);
  CHECK(both->links[5].bandwidth == 0);
  const auto routing = router("shortest", *both);
  std::vector<LinkIndex> path;
  CHECK(routing->route(1, 0, 0, path));
  CHECK(path == std::vector<LinkIndex>{4, 1});
}

TEST_CASE("two planes that only meet in hosts are a network", "[unit]") {
  // Every host has a cable to each of two switches, which are not joined: connected, though no component has all.
  const std::string nodes = R"("nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"},
    {"name": "p", "kind": "switch"}, {"name": "q", "kind": "switch"}], )";
  const auto cable = [](const char* from, const char* to) {
    return std::string(R"({"from": ")") + from + R"(", "to": ")" + to + R"(", )" + kCable + "}";
  };
  const auto planes = graph("{" + nodes + R"("cables": [)" + cable("a", "p") + "," + cable("b", "p") + "," +
                            cable("a", "q") + "," + cable("b", "q") + "]}");
  CHECK(bisection_bandwidth(*planes) == 2e9);
  CHECK(graph_faults("{" + nodes + R"("cables": [)" + cable("a", "p") + "," + cable("b", "q") + "]}") ==
        "t:/graph/network/cables: no path from 'a' to 'b'");
}

TEST_CASE("all faults of a graph are reported at once", "[unit]") {
  const std::string faults = graph_faults(R"({"nodes": [{"name": "gpu0", "kind": "host"},
      {"name": "gpu0", "kind": "host"}, {"name": "a->b", "kind": "switch"}, {"name": "leaf", "kind": "switch"}],
    "cables": [{"from": "gpu0", "to": "laef", )" +
                                          kCable + R"(}, {"from": "leaf", "to": "leaf", )" + kCable +
                                          R"(}, {"from": "nowhere", "to": "leaf", )" + kCable + "}]}");
  CHECK(faults ==
        "t:/graph/network/nodes/1/name: 'gpu0' is the name of node 0 already\n"
        "t:/graph/network/nodes/2/name: expected a name without \"->\" and '#', which name links, got \"a->b\"\n"
        "t:/graph/network/cables/0/to: unknown node 'laef' (did you mean 'leaf'?)\n"
        "t:/graph/network/cables/1: a cable from 'leaf' to itself\n"
        "t:/graph/network/cables/2/from: unknown node 'nowhere' (known: a->b, gpu0, leaf)");
  CHECK(graph_faults(R"({"nodes": [{"name": "s", "kind": "switch"}]})") ==
        "t:/graph/network/nodes: expected at least one node of kind host, got none");
  CHECK(graph_faults(R"({"nodes": [{"name": "s", "kind": "router"}]})") ==
        "t:/graph/network/nodes/0/kind: expected one of host, switch, got \"router\"");
  // Faults of numbers and of names together; what is missing is not unknown too.
  const std::string mixed = R"({"nodes": [{"name": "a", "kind": "host"}, {"kind": "host"}],
    "cables": [{"from": "a", "to": "b", "bandwidth": "0 GB/s", "latency": "-1 us", "count": 0, "colour": "red"},
               {"to": "a", "bandwidth": "1 GB/s", "latency": "1 us"}]})";
  const std::string expected =
      "/cables/0/colour: unknown key 'colour' (known: bandwidth, count, from, latency, one_way, to)\n"
      "/cables/0/bandwidth: expected > 0 B/s, got \"0 GB/s\"\n"
      "/cables/0/latency: expected 0 s to 1 s, got \"-1 us\"\n"
      "/cables/0/count: expected >= 1, got 0\n"
      "/cables/1/from: missing: expected a string\n"
      "/cables/0/to: unknown node 'b' (known: a)";
  std::string inlined = graph_faults(mixed);
  for (const std::string prefix = "t:/graph/network"; inlined.find(prefix) != std::string::npos;)
    inlined.erase(inlined.find(prefix), prefix.size());
  CHECK(inlined == "/nodes/1/name: missing: expected a string\n" + expected);
  CHECK(graph_faults(R"({"nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
    "cables": [{"from": "a", "to": "b", "count": 3000000, )" +
                     kCable + "}]}") == "t:/graph/network: graph of 3000000 cables: a network holds at most 2097152");
}

TEST_CASE("hints stay short in a large network", "[unit]") {
  std::string nodes;
  for (int n = 0; n < 500; ++n)
    nodes += (n == 0 ? "" : ",") + (R"({"name": "host)" + std::to_string(n) + R"(", "kind": "host"})");
  CHECK(graph_faults(R"({"nodes": [)" + nodes + R"(], "cables": [{"from": "zzzzzzzzzz", "to": "host1", )" + kCable +
                     "}]}") ==
        "t:/graph/network/cables/0/from: unknown node 'zzzzzzzzzz' (known: host0, host1, host2, host3, host4, host5, "
        "host6, host7, and 492 more)");
}

TEST_CASE("the DGX H100 of the catalog is what NVIDIA says", "[unit]") {
  const auto dgx = network("graph", R"({"file": ")" + catalog_file("dgx-h100") + R"("})");
  CHECK(dgx->hosts == 8);
  CHECK(dgx->nodes.size() == 12);
  CHECK(dgx->links.size() == 2 * 8 * 18);
  CHECK(bisection_bandwidth(*dgx) == 4 * 450e9);
  CHECK(host_distance(*dgx).diameter == 2);
  for (NodeIndex gpu = 0; gpu < 8; ++gpu) {
    double out = 0;
    for (const NetworkLink& link : dgx->links)
      if (link.from == gpu) out += link.bandwidth;
    CHECK(out == 450e9);
  }
}

TEST_CASE("the pod of the catalog joins 1,024 GPUs without a thin place", "[unit]") {
  sim::Faults faults;
  const sim::Node file = sim::read_json(catalog_file("dgx-h100-pod"));
  const auto pod = make_topology(*file.find("topology"), faults);
  faults.throw_if_any();
  CHECK(pod->hosts == 1024);
  CHECK(pod->nodes.size() == 1024 + 128 + 32 + 16);
  CHECK(bisection_bandwidth(*pod) == 512 * 50e9);
  CHECK(max_flow(*pod, halves(*pod)) == 512 * 50e9);
}

TEST_CASE("the examples of the docs can be built", "[unit]") {
  std::ifstream file(std::string(ORRERY_SOURCE_DIR) + "/docs/explain/network.md");
  int built = 0;
  std::string object;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = line == "```json";
      object.clear();
      continue;
    }
    object += line + "\n";
    const bool whole = std::count(object.begin(), object.end(), '{') == std::count(object.begin(), object.end(), '}');
    if (!inside || !whole) continue;
    // Relative files are the catalog's.
    const sim::Node node = sim::parse_json(object, std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/example.json");
    object.clear();
    const sim::Node* block = node.find("topology") != nullptr ? node.find("topology") : &node;
    TopologyRegistry registry("topology");
    register_topologies(registry);
    const auto names = registry.names();
    const sim::Node* policy = block->find("policy");
    if (policy == nullptr || std::find(names.begin(), names.end(), policy->as_string()) == names.end()) continue;
    sim::Faults faults;
    const auto topology = make_topology(registry, *block, faults);
    INFO(block->dump());
    faults.throw_if_any();
    REQUIRE(topology != nullptr);
    ++built;
  }
  CHECK(built >= 10);
}

TEST_CASE("faults of a network's file name the file", "[unit]") {
  const auto folder = std::filesystem::temp_directory_path() / "orrery_test_topology_graph";
  std::filesystem::create_directories(folder);
  const auto faults_of = [&](const std::string& text) {
    const std::string path = (folder / "net.json").string();
    std::ofstream(path) << text;
    std::string faults = network_faults("graph", R"({"file": ")" + path + R"("})");
    for (auto at = faults.find(path); at != std::string::npos; at = faults.find(path))
      faults.replace(at, path.size(), "F");
    return faults;
  };
  CHECK(faults_of(R"({"kind": "network", "version": 1, "name": "x", )" + kStar.substr(1)).empty());
  CHECK(faults_of(kStar) == "F:/kind: expected \"network\", got nothing");
  CHECK(faults_of(R"({"kind": "network", "version": 2, )" + kStar.substr(1)) ==
        "F:/version: expected version 1, got 2");
  CHECK(faults_of(R"({"kind": "network", "nodes": [{"name": "a", "kind": "switch"}], "cabels": []})") ==
        "F:/cabels: unknown key 'cabels' (did you mean 'cables'?)\n"
        "F:/nodes: expected at least one node of kind host, got none");
  CHECK(faults_of(R"({"kind": "network", "nodes": [{"name": "a", "kind": "host"}, {"name": "a", "kind": "host"}]})") ==
        "F:/nodes/1/name: 'a' is the name of node 0 already");
  CHECK(faults_of("[]") == "F: expected an object, got an array");
  CHECK_THAT(faults_of("{"), Catch::Contains("F:1:2: expected valid JSON"));
  CHECK_THAT(network_faults("graph", R"({"file": "nowhere.json"})"),
             Catch::Contains("t:/graph/file: expected the file of a network, found none at '"));
  CHECK(network_faults("graph", R"({"file": "x.json", "network": )" + kStar + "}") ==
        "t:/graph/network: expected a file or a network, got both");
  CHECK(network_faults("graph", "{}") == "t:/graph/network/nodes: expected at least one node of kind host, got none");
  std::filesystem::remove_all(folder);
}

TEST_CASE("whether a graph is connected is what a search from every host finds", "[prop]") {
  sim::RandomStream random(5, "connected");
  int joined = 0;
  for (int round = 0; round < 600; ++round) {
    Topology topology;
    topology.hosts = static_cast<std::int64_t>(2 + random.below(5));
    const std::uint64_t nodes = static_cast<std::uint64_t>(topology.hosts) + random.below(5);
    topology.nodes.resize(nodes);
    topology.hosts_forward = random.below(2) == 0;
    for (std::uint64_t c = 0; c < 2 * nodes; ++c) {
      const auto a = static_cast<NodeIndex>(random.below(nodes));
      const auto b = static_cast<NodeIndex>(random.below(nodes));
      if (a == b) continue;
      topology.links.push_back({a, b, 1e9, 0});
      topology.links.push_back({b, a, random.below(4) == 0 ? 0 : 1e9, 0});
    }
    std::optional<std::pair<NodeIndex, NodeIndex>> gap;
    for (NodeIndex from = 0; from < topology.hosts && !gap; ++from) {
      const auto distance = distances(topology, from, all_up(topology), topology.hosts_forward);
      for (NodeIndex to = 0; to < topology.hosts && !gap; ++to)
        if (distance[to] < 0) gap = std::pair(from, to);
    }
    INFO("round " << round);
    REQUIRE(hosts_without_path(topology) == gap);
    if (gap) continue;
    ++joined;
    // While it is at hand: distances against the search.
    int most = 0;
    for (NodeIndex from = 0; from < topology.hosts; ++from) {
      const auto distance = distances(topology, from, all_up(topology), topology.hosts_forward);
      for (NodeIndex to = 0; to < topology.hosts; ++to) most = std::max(most, distance[to]);
    }
    REQUIRE(measured_host_distance(topology).diameter == most);
  }
  CHECK(joined > 100);
  CHECK(joined < 550);
}

TEST_CASE("the largest flow is what the smallest cut lets through", "[prop]") {
  // Over all ways to put the switches on one side or the other.
  sim::RandomStream random(6, "flow");
  for (int round = 0; round < 200; ++round) {
    Topology topology;
    topology.hosts = static_cast<std::int64_t>(2 + random.below(4));
    const auto hosts = static_cast<std::uint64_t>(topology.hosts);
    const std::uint64_t switches = 1 + random.below(5);
    topology.nodes.resize(hosts + switches);
    for (int c = 0; c < 16; ++c) {
      const auto a = static_cast<NodeIndex>(random.below(hosts + switches));
      const auto b = static_cast<NodeIndex>(random.below(hosts + switches));
      if (a == b) continue;
      topology.links.push_back({a, b, static_cast<double>(1 + random.below(9)), 0});
      topology.links.push_back({b, a, static_cast<double>(random.below(9)), 0});
    }
    const std::vector<bool> second = halves(topology);
    double least = 1e300;
    for (std::uint64_t sides = 0; sides < (1ULL << switches); ++sides) {
      const auto right = [&](NodeIndex n) { return n < hosts ? bool(second[n]) : ((sides >> (n - hosts)) & 1) != 0; };
      double cut = 0;
      for (const NetworkLink& link : topology.links)
        if (!right(link.from) && right(link.to)) cut += link.bandwidth;
      least = std::min(least, cut);
    }
    REQUIRE(max_flow(topology, second) == least);
  }
}

}  // namespace test_topology_graph
