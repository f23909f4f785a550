// Routes, collectives over a network, links that fail.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hw/network/collective_run.hpp"
#include "hw/network/network.hpp"
#include "tests/determinism/digest.hpp"

namespace orrery::determinism {
namespace {

using namespace hw;

struct Example {
  std::string kind;
  std::string params;
};

/// Every builder, small, with equal cables: equally good paths are common.
const std::vector<Example>& examples() {
  static const std::string cable = R"("bandwidth": "1 GB/s", "latency": "1 us")";
  static const std::string dimension = R"({"extent": 3, )" + cable + "}";
  static const std::vector<Example> all{
      {"ring", R"({"hosts": 7, )" + cable + "}"},
      {"torus",
       R"({"dimensions": [)" + dimension + ", " + dimension + R"(, {"extent": 2, "wrap": false, )" + cable + "}]}"},
      {"fully_connected", R"({"hosts": 6, )" + cable + "}"},
      {"star", R"({"hosts": 8, )" + cable + "}"},
      {"switch_hierarchy",
       R"({"levels": [{"radix": 4, )" + cable + R"(}, {"radix": 3, "uplinks": 2, )" + cable + "}]}"},
      {"fat_tree", R"({"k": 4, )" + cable + "}"},
      {"rail_optimised", R"({"machines": 4, "gpus": 3, "pod_machines": 2, "nvlink_bandwidth": "10 GB/s",
          "nvlink_latency": "1 us", "nic_bandwidth": "2 GB/s", "nic_latency": "3 us", "spines": 2,
          "spine_bandwidth": "1 GB/s", "spine_latency": "5 us"})"},
      {"dragonfly", R"({"hosts_per_router": 2, "routers_per_group": 2, "global_per_router": 2,
          "host_bandwidth": "1 GB/s", "host_latency": "1 us", "local_bandwidth": "2 GB/s", "local_latency": "2 us",
          "global_bandwidth": "3 GB/s", "global_latency": "10 us"})"},
      {"graph", R"({"network": {"nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"},
          {"name": "s", "kind": "switch"}, {"name": "t", "kind": "switch"}], "cables": [
          {"from": "a", "to": "s", "count": 2, )" +
                    cable + R"(}, {"from": "a", "to": "t", )" + cable + R"(},
          {"from": "s", "to": "b", )" +
                    cable + R"(}, {"from": "t", "to": "b", "one_way": true, )" + cable + "}]}}"}};
  return all;
}

std::unique_ptr<Topology> build(const Example& example) {
  sim::Faults faults;
  const std::string text = R"({"policy": ")" + example.kind + R"(", ")" + example.kind + "\": " + example.params + "}";
  auto topology = make_topology(sim::parse_json(text, "topology"), faults);
  faults.throw_if_any();
  return topology;
}

const Example& example(const std::string& kind) {
  return *std::find_if(examples().begin(), examples().end(), [&](const Example& e) { return e.kind == kind; });
}

std::unique_ptr<Routing> router(const std::string& policy, const Topology& topology) {
  sim::Faults faults;
  auto routing = make_routing(sim::parse_json(R"({"policy": ")" + policy + "\"}", "routing"), topology, faults);
  return routing;  // null where the policy cannot serve the topology
}

void add_routes(Digest& digest, const Topology& topology, Routing& routing) {
  std::vector<LinkIndex> path;
  const auto hosts = static_cast<NodeIndex>(topology.hosts);
  for (NodeIndex from = 0; from < hosts; ++from)
    for (NodeIndex to = 0; to < hosts; ++to)
      for (std::uint64_t label = 0; label < 3; ++label) {
        path.clear();
        digest.add(routing.route(from, to, label, path));
        for (const LinkIndex link : path) digest.add(link);
      }
}

/// Notes who arrives when.
class Arrivals final : public sim::EventHandler {
 public:
  Arrivals(sim::Engine& engine, Digest& digest) : engine_(engine), digest_(digest) {}
  void on_event(std::uint64_t payload) override {
    ++count;
    digest_.add(payload);
    digest_.add(engine_.now().ticks);
  }
  std::int64_t count = 0;

 private:
  sim::Engine& engine_;
  Digest& digest_;
};

void add_carried(Digest& digest, const Network& network) {
  for (const double bytes : network.flows().carried()) digest.add(bytes);
}

std::unique_ptr<CollectiveRun> job(sim::Engine& engine, Network& network, const std::string& algorithm,
                                   CollectiveKind kind, const std::vector<NodeIndex>& nodes) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.ranks = kind == CollectiveKind::send_recv ? 2 : static_cast<std::int64_t>(nodes.size());
  spec.bytes = 100'003;
  std::vector<NodeIndex> ranks = nodes;
  ranks.resize(static_cast<std::size_t>(spec.ranks));
  for (std::size_t r = 0; r < ranks.size(); ++r) spec.local_group.push_back(static_cast<std::uint32_t>(r / 4));
  if (algorithm == "in_network")
    spec.tree = aggregation_tree(network.topology(), network.routing(), ranks,
                                 static_cast<NodeIndex>(network.topology().nodes.size() - 1));
  CollectiveRegistry registry("collective");
  register_collectives(registry);
  sim::Faults faults;
  auto choice = registry.prepare(algorithm, nullptr, {}, faults);
  faults.throw_if_any();
  return std::make_unique<CollectiveRun>(engine, network, choice.make(spec), spec.ranks,
                                         member_nodes(ranks, spec.tree));
}

/// Two jobs over the same hosts, numbered differently, the second a little later.
void two_jobs(Digest& digest, const Topology& topology, const std::string& algorithm, CollectiveKind kind) {
  sim::Engine engine;
  Network network(engine, topology, router("shortest", topology), {.message_overhead_s = 1e-6});
  const auto hosts = static_cast<NodeIndex>(topology.hosts);
  std::vector<NodeIndex> nodes(hosts), others(hosts);
  for (NodeIndex h = 0; h < hosts; ++h) {
    nodes[h] = h;
    others[h] = (5 * h + 3) % hosts;  // 5 and the number of hosts have no common factor
  }
  const auto first = job(engine, network, algorithm, kind, nodes);
  const auto second = job(engine, network, algorithm, kind, others);
  const Member ranks = kind == CollectiveKind::send_recv ? 2 : hosts;
  for (Member rank = 0; rank < ranks; ++rank) {
    first->enter_at(rank, sim::Time{std::int64_t{rank} * 1000});
    second->enter_at(rank, sim::Time{20'000'000});
  }
  engine.run();
  for (const CollectiveRun* run : {first.get(), second.get()}) {
    if (!run->done()) throw std::runtime_error(algorithm + " has not ended");
    for (Member rank = 0; rank < ranks; ++rank) digest.add(run->done_at(rank).ticks);
    digest.add(run->messages());
    digest.add(run->bytes());
  }
  add_carried(digest, network);
}

}  // namespace

void routes(Digest& digest) {
  TopologyRegistry topologies("topology");
  register_topologies(topologies);
  if (topologies.names().size() != examples().size()) throw std::runtime_error("a topology has no example");
  RoutingRegistry policies("routing");
  register_routing(policies);
  sim::RandomStream random(17, "failures");
  for (const Example& e : examples()) {
    const auto topology = build(e);
    for (const std::string& policy : policies.names()) {
      digest.add(e.kind);
      digest.add(policy);
      const auto routing = router(policy, *topology);
      if (!routing) continue;
      add_routes(digest, *topology, *routing);
      for (int round = 0; round < 2; ++round) {
        std::vector<bool> up(topology->links.size());
        for (std::size_t link = 0; link < up.size(); ++link) up[link] = !random.bernoulli(0.2);
        routing->links_changed(up);
        add_routes(digest, *topology, *routing);
      }
    }
  }
}

void collectives_that_share_links(Digest& digest) {
  CollectiveRegistry registry("collective");
  register_collectives(registry);
  for (const char* kind : {"fat_tree", "switch_hierarchy", "torus"}) {
    const auto topology = build(example(kind));
    for (const std::string& algorithm : registry.names()) {
      if (algorithm == "in_network" && topology->hosts_forward) continue;  // no switches
      for (const auto& [text, collective] : sim::names_of<CollectiveKind>)
        if (supports(algorithm, collective)) two_jobs(digest, *topology, algorithm, collective);
    }
  }
}

void network_with_failures(Digest& digest) {
  for (const char* kind : {"fat_tree", "torus", "dragonfly", "star"}) {
    const auto topology = build(example(kind));
    sim::Engine engine(23);
    Network network(engine, *topology, router("shortest", *topology));
    Arrivals arrivals(engine, digest);
    sim::RandomStream random = engine.stream("messages");
    const auto hosts = static_cast<std::uint64_t>(topology->hosts);
    const auto links = static_cast<std::uint64_t>(topology->links.size());
    for (std::uint64_t step = 0; step < 1000; ++step) {
      network.send(static_cast<NodeIndex>(random.below(hosts)), static_cast<NodeIndex>(random.below(hosts)),
                   random.bernoulli(0.3) ? 10'000 : random.integer(0, 100'000), random.below(4), arrivals, step);
      if (random.bernoulli(0.2))
        network.set_link(static_cast<LinkIndex>(random.below(links)), 0.5 * static_cast<double>(random.below(3)));
      engine.run(engine.now() + sim::Duration{random.integer(0, 10'000'000)});
    }
    digest.add(network.without_path());
    for (LinkIndex link = 0; link < links; ++link) network.set_link(link, 1);
    engine.run();
    if (arrivals.count != 1000) throw std::runtime_error("messages were lost");
    digest.add(network.rerouted());
    add_carried(digest, network);
  }
}

}  // namespace orrery::determinism
