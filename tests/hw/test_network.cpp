// Messages over routed, shared links: by hand, with failures, and collectives against their closed forms.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "hw/network/network.hpp"
#include "hw/network/network_transport.hpp"
#include "hw/network/topology_query.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/collective_carriers.hpp"
#include "tests/hw/networks.hpp"

namespace test_network {

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

class Arrivals final : public sim::EventHandler {
 public:
  explicit Arrivals(sim::Engine& engine) : engine_(engine) {}
  std::map<std::uint64_t, std::int64_t> at;
  void on_event(std::uint64_t payload) override { at[payload] = engine_.now().ticks; }

 private:
  sim::Engine& engine_;
};

/// Engine, topology, network and what arrives.
struct Rig {
  sim::Engine engine;
  std::unique_ptr<Topology> topology;
  Network network;
  Arrivals arrivals;
  Rig(const std::string& kind, const std::string& params, NetworkParams costs = {},
      const std::string& routing = "shortest")
      : topology(hw::test::network(kind, params)),
        network(engine, *topology, router(routing, *topology), costs),
        arrivals(engine) {}
  LinkIndex link(const std::string& name) const {
    sim::Faults faults;
    const auto index = TopologyNames(*topology).link(name, {}, faults);
    faults.throw_if_any();
    return *index;
  }
};

// Two ways from a to b: over x at 1 GB/s a link, over y at 0.5 GB/s with more hops.
constexpr const char* kTwoWays = R"({"network": {"nodes": [
  {"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}, {"name": "x", "kind": "switch"},
  {"name": "y", "kind": "switch"}, {"name": "z", "kind": "switch"}], "cables": [
  {"from": "a", "to": "x", "bandwidth": "1 GB/s", "latency": "1 us"},
  {"from": "x", "to": "b", "bandwidth": "1 GB/s", "latency": "1 us"},
  {"from": "a", "to": "y", "bandwidth": "500 MB/s", "latency": "1 us"},
  {"from": "y", "to": "z", "bandwidth": "500 MB/s", "latency": "1 us"},
  {"from": "z", "to": "b", "bandwidth": "500 MB/s", "latency": "1 us"}]}})";

}  // namespace

TEST_CASE("a message costs overhead, latency and bytes", "[unit]") {
  // 3 us of overhead, two links of 1 us, 1e6 bytes at 1 GB/s: 3 + 2 + 1000 us.
  Rig rig("star", R"({"hosts": 4, "bandwidth": "1 GB/s", "latency": "1 us"})", {.message_overhead_s = 3e-6});
  rig.network.send(0, 1, 1'000'000, 0, rig.arrivals, 1);
  rig.network.send(2, 2, 1'000'000, 0, rig.arrivals, 2);  // to oneself: the overhead alone
  rig.engine.run();
  CHECK(rig.arrivals.at[1] == 1'005'000'000);
  CHECK(rig.arrivals.at[2] == 3'000'000);
}

TEST_CASE("messages to one host share its link", "[unit]") {
  // Three senders of 1e6 bytes into one down link of 1 GB/s: a third each, 3 ms + 2 us.
  Rig rig("star", R"({"hosts": 4, "bandwidth": "1 GB/s", "latency": "1 us"})");
  for (NodeIndex host = 1; host < 4; ++host) rig.network.send(host, 0, 1'000'000, 0, rig.arrivals, host);
  rig.engine.run();
  for (NodeIndex host = 1; host < 4; ++host) CHECK(std::abs(rig.arrivals.at[host] - 3'002'000'000) <= 3);
  CHECK(rig.network.flows().carried()[rig.link("switch->h0")] == Approx(3e6));
}

TEST_CASE("what is on a link that fails takes another way", "[unit]") {
  Rig rig("graph", kTwoWays);
  rig.network.send(0, 1, 1'000'000, 0, rig.arrivals, 1);
  rig.engine.schedule_at(sim::Time{502'000'000}, rig.arrivals, 9);
  rig.engine.run(sim::Time{502'000'000});  // 2 us of latency and 500 us: half of it is over
  rig.network.set_link(rig.link("x->b"), 0);
  rig.engine.run();
  // The other half over y: 3 us of latency, 500,000 bytes at 0.5 GB/s: 1000 us.
  CHECK(std::abs(rig.arrivals.at[1] - 1'505'000'000) <= 3);
  CHECK(rig.network.rerouted() == 1);
  CHECK(rig.network.flows().carried()[rig.link("a->x")] == Approx(500'000).epsilon(1e-6));
  CHECK(rig.network.flows().carried()[rig.link("y->z")] == Approx(500'000).epsilon(1e-6));
}

TEST_CASE("a message without a path waits until a link comes up", "[unit]") {
  Rig rig("graph", kTwoWays);
  const LinkIndex x = rig.link("a->x"), y = rig.link("a->y");
  rig.network.set_link(x, 0);
  rig.network.set_link(y, 0);
  rig.network.send(0, 1, 1'000'000, 0, rig.arrivals, 1);  // never started
  rig.engine.run();
  CHECK(rig.arrivals.at.empty());
  CHECK(rig.network.without_path() == 1);
  rig.network.set_link(x, 0.5);  // degraded: 2 us + 1e6 bytes at 0.5 GB/s
  const std::int64_t up_at = rig.engine.now().ticks;
  rig.engine.run();
  CHECK(std::abs(rig.arrivals.at[1] - up_at - 2'002'000'000) <= 1);
  // Under way when its last link fails, and going on when that link is back.
  rig.network.send(0, 1, 1'000'000, 0, rig.arrivals, 2);
  const std::int64_t sent_at = rig.engine.now().ticks;
  const auto at = [&](std::int64_t ticks) {
    rig.engine.schedule_at(sim::Time{sent_at + ticks}, rig.arrivals, 9);
    rig.engine.run(sim::Time{sent_at + ticks});
  };
  at(1'002'000'000);  // half
  rig.network.set_link(x, 0);
  at(5'000'000'000);
  CHECK(rig.network.without_path() == 1);
  rig.network.set_link(x, 1);
  rig.engine.run();
  CHECK(std::abs(rig.arrivals.at[2] - sent_at - 5'500'000'000) <= 3);  // the other half at 1 GB/s
  CHECK(rig.network.without_path() == 0);
}

TEST_CASE("network: bad arguments", "[unit]") {
  Rig rig("star", R"({"hosts": 2, "bandwidth": "1 GB/s", "latency": "1 us"})");
  const std::string message = "network: a message between nodes that are not there, or of negative size";
  CHECK_THROWS_WITH(rig.network.send(0, 9, 1, 0, rig.arrivals, 0), message);
  CHECK_THROWS_WITH(rig.network.send(0, 1, -1, 0, rig.arrivals, 0), message);
  CHECK_THROWS_WITH(rig.network.set_link(99, 1),
                    "network: a link that is not there, or a negative share of its bandwidth");
  CHECK_THROWS_WITH(rig.network.set_link(0, -1),
                    "network: a link that is not there, or a negative share of its bandwidth");
}

TEST_CASE("labels spread over equal paths", "[unit]") {
  // Two cables side by side at 1 GB/s: eight labels use both, and twice the bandwidth comes of it.
  Rig rig("graph", R"({"network": {"nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
    "cables": [{"from": "a", "to": "b", "bandwidth": "1 GB/s", "latency": "1 us", "count": 2}]}})");
  for (std::uint64_t label = 0; label < 64; ++label) rig.network.send(0, 1, 1'000'000, label, rig.arrivals, label);
  rig.engine.run();
  const auto carried = rig.network.flows().carried();
  CHECK(carried[rig.link("a->b")] + carried[rig.link("a->b#2")] == Approx(64e6));
  CHECK(carried[rig.link("a->b")] > 20e6);
  CHECK(carried[rig.link("a->b#2")] > 20e6);
}

TEST_CASE("ring all-reduce of 64 MiB over links of 50 GiB/s and 500 ns", "[golden]") {
  // 2(n-1) steps of 500 ns and 64 MiB / n at 50 GiB/s: n = 8: 14 (500 ns + 156,250 ns) = 2,194,500 ns.
  for (const auto& [hosts, ns] :
       {std::pair{8, 2'194'500.0}, std::pair{64, 2'523'937.5}, std::pair{256, 2'745'234.375}}) {
    Rig rig("ring", R"({"hosts": )" + std::to_string(hosts) + R"(, "bandwidth": "50 GiB/s", "latency": "500 ns"})");
    const CollectiveSpec spec{.ranks = hosts, .bytes = 64 << 20};
    const std::int64_t ticks = simulated_ticks(RingParams{}, spec, rig.engine, rig.network);
    CHECK(static_cast<double>(ticks) * 1e-3 == Approx(ns).epsilon(1e-6));
  }
}

TEST_CASE("two jobs on one ring take twice the bytes' time", "[theory]") {
  // Every link carries two messages at all times: 14 steps of 500 ns + 2 * 156,250 ns.
  Rig rig("ring", R"({"hosts": 8, "bandwidth": "50 GiB/s", "latency": "500 ns"})");
  const CollectiveSpec spec{.ranks = 8, .bytes = 64 << 20};
  CollectiveRun first(rig.engine, rig.network, make_collective(RingParams{}, spec), 8, plain_nodes(spec));
  CollectiveRun second(rig.engine, rig.network, make_collective(RingParams{}, spec), 8, plain_nodes(spec),
                       {.label = 7});
  first.enter_all();
  second.enter_all();
  rig.engine.run();
  for (const CollectiveRun* run : {&first, &second})
    CHECK(static_cast<double>(run->done_at().ticks) * 1e-3 == Approx(14 * (500 + 312'500.0)).epsilon(1e-6));
}

TEST_CASE("closed forms are what the network takes, links shared or not", "[prop]") {
  sim::RandomStream random(3, "network/closed");
  const std::vector<std::pair<std::string, std::string>> topologies{
      {"ring", R"({"hosts": 8, "bandwidth": "10 GB/s", "latency": "1 us"})"},
      {"fully_connected", R"({"hosts": 8, "bandwidth": "10 GB/s", "latency": "1 us"})"},
      {"star", R"({"hosts": 8, "bandwidth": "10 GB/s", "latency": "1 us"})"},
      {"fat_tree", R"({"k": 4, "bandwidth": "10 GB/s", "latency": "1 us"})"}};
  const std::vector<CollectiveAlgorithm> algorithms{RingParams{}, DoubleTreeParams{}, HalvingDoublingParams{},
                                                    DirectParams{}};
  std::map<std::string, int> applied;
  for (int round = 0; round < 600; ++round) {
    const auto& [kind, params] = topologies[random.below(topologies.size())];
    const CollectiveAlgorithm& algorithm = algorithms[random.below(algorithms.size())];
    CollectiveSpec spec;
    spec.kind = static_cast<CollectiveKind>(random.below(5));
    spec.ranks = static_cast<std::int64_t>(2 + random.below(7));
    spec.bytes = static_cast<std::int64_t>(1000 + random.below(1'000'000));
    if (!supports(std::vector<std::string>{"ring", "double_tree", "halving_doubling", "direct"}[algorithm.index()],
                  spec.kind))
      continue;
    Rig rig(kind, params, {.message_overhead_s = 2e-6});
    const auto formula = collective_on(algorithm, spec, plain_nodes(spec), *rig.topology, rig.network.routing(), 2e-6);
    if (!formula) continue;
    ++applied[kind];
    const double simulated =
        rig.engine.scale().seconds(sim::Time{simulated_ticks(algorithm, spec, rig.engine, rig.network)});
    // A byte's rounding (0.1 ns) and a tick or two a step, of at most 2 * 8 steps with 8 sharing.
    INFO(kind << " algorithm " << algorithm.index() << " " << sim::to_string(spec.kind) << " ranks " << spec.ranks
              << " bytes " << spec.bytes);
    REQUIRE(std::abs(simulated - *formula) < 16 * 8 * 0.2e-9);
  }
  for (const auto& [kind, params] : topologies) CHECK(applied[kind] > 10);
}

TEST_CASE("links carry what messages and hops say", "[prop]") {
  sim::RandomStream random(4, "network/bytes");
  Rig rig("dragonfly",
          R"({"hosts_per_router": 2, "routers_per_group": 4, "global_per_router": 2, "host_bandwidth": "10 GB/s",
    "host_latency": "1 us", "local_bandwidth": "10 GB/s", "local_latency": "1 us", "global_bandwidth": "5 GB/s",
    "global_latency": "2 us"})");
  double expected = 0;
  std::vector<LinkIndex> links;
  sim::Duration latency;
  for (std::uint64_t k = 0; k < 300; ++k) {
    const auto hosts = static_cast<std::uint64_t>(rig.topology->hosts);
    const auto from = static_cast<NodeIndex>(random.below(hosts)), to = static_cast<NodeIndex>(random.below(hosts));
    const auto bytes = static_cast<std::int64_t>(random.below(100'000));
    rig.network.send(from, to, bytes, k, rig.arrivals, k);
    REQUIRE(rig.network.path(from, to, k, links, latency));
    expected += static_cast<double>(bytes) * static_cast<double>(links.size());
  }
  rig.engine.run();
  CHECK(rig.arrivals.at.size() == 300);
  const auto carried = rig.network.flows().carried();
  CHECK(std::accumulate(carried.begin(), carried.end(), 0.0) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("a collective outlives a link that fails", "[unit]") {
  Rig whole("fat_tree", R"({"k": 4, "bandwidth": "10 GB/s", "latency": "1 us"})");
  Rig failing("fat_tree", R"({"k": 4, "bandwidth": "10 GB/s", "latency": "1 us"})");
  const CollectiveSpec spec{.ranks = 16, .bytes = 16 << 20};
  const std::int64_t ticks = simulated_ticks(RingParams{}, spec, whole.engine, whole.network);
  CollectiveRun run(failing.engine, failing.network, make_collective(RingParams{}, spec), 16, plain_nodes(spec));
  run.enter_all();
  failing.engine.schedule_at(sim::Time{ticks / 2}, failing.arrivals, 0);
  failing.engine.run(sim::Time{ticks / 2});
  // The first fabric link that carries something fails, both ways.
  const auto carried = failing.network.flows().carried();
  for (LinkIndex link = 0; link < carried.size(); ++link) {
    const NetworkLink& l = failing.topology->links[link];
    if (carried[link] == 0 || l.from < 16 || l.to < 16) continue;
    failing.network.set_link(link & ~1U, 0);
    failing.network.set_link(link | 1U, 0);
    break;
  }
  failing.engine.run();
  CHECK(run.done());
  CHECK(failing.network.rerouted() > 0);
  CHECK(run.done_at().ticks >= ticks);  // another path of the same length serves as well
}

TEST_CASE("flow tasks of a graph go over the network", "[unit]") {
  // compute 1 ms on host 0, then 1e6 bytes to host 1 (2 us + 1 ms at 1 GB/s) while another flow of 1e6 bytes to host 1
  // that has been free to start at 1 ms shares its down link: both take 2 us + 2 ms; then 1 ms of compute.
  Rig rig("star", R"({"hosts": 3, "bandwidth": "1 GB/s", "latency": "1 us"})");
  sim::TaskGraph graph;
  const auto cpu0 = graph.add_resource({.name = "cpu0"});
  const auto cpu1 = graph.add_resource({.name = "cpu1"});
  const auto ms = rig.engine.scale().duration(1e-3);
  const auto before = graph.add({.duration = ms, .on = {cpu0}});
  const auto sent = graph.add({.flow = flow_between(0, 1, 1'000'000), .after = {before}});
  const auto other = graph.add({.flow = flow_between(2, 1, 1'000'000), .after = {before}});
  graph.add({.duration = ms, .on = {cpu1}, .after = {sent, other}});
  NetworkTransport transport(rig.network);
  sim::TaskExecutor executor(rig.engine, graph, &transport);
  executor.run();
  CHECK(std::abs(executor.makespan().ticks - 4'002'000'000) <= 3);
}

}  // namespace test_network
