// One system of jobs on a network, its parts made and numbered in different orders: the results are the same bytes.
//
// Orders that must not matter, and do not: of creating jobs, even such that act at the same instants (within a job all
// goes on in the same order, and flows share links by integers); of hosts, switches and cables in the file of a
// network, where every message has one shortest path.
// Orders that may matter: events of one instant fire in the order of scheduling (tests/sim/test_creation_order.cpp
// says why), so the ranks of one job enter in the same order here. And where paths are equally good, the hash that
// spreads messages over them is of the numbers of nodes, and it picks among links by number; a message that is
// rerouted is spread by the number of its flow: another numbering is another, equally good, choice.
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "hw/network/collective_run.hpp"
#include "hw/network/network.hpp"
#include "hw/network/topology_graph.hpp"
#include "hw/network/topology_query.hpp"
#include "tests/hw/collective_check.hpp"
#include "tests/hw/networks.hpp"

namespace test_creation_order {

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

template <class T>
void reorder(std::vector<T>& all, std::uint64_t round, const char* what) {
  if (round > 0) sim::RandomStream(round, what).shuffle(std::span<T>(all));
}

/// 4 leaf switches of 4 hosts each below a root: one path between any two. Leaves differ in their uplinks.
GraphBody tree_network() {
  GraphBody body;
  body.nodes.push_back({"root", NodeKind::network_switch});
  for (int leaf = 0; leaf < 4; ++leaf) {
    const std::string name = "leaf" + std::to_string(leaf);
    body.nodes.push_back({name, NodeKind::network_switch});
    body.cables.push_back({name, "root", 1e9 * (1 + leaf), 2e-6, false, 1});
    for (int i = 0; i < 4; ++i) {
      const std::string host = "h" + std::to_string(4 * leaf + i);
      body.nodes.push_back({host, NodeKind::host});
      body.cables.push_back({host, name, 1e9, 1e-6, false, 1});
    }
  }
  return body;
}

std::unique_ptr<Topology> numbered(std::uint64_t round) {
  GraphBody body = tree_network();
  reorder(body.nodes, round, "nodes");
  reorder(body.cables, round, "cables");
  sim::RandomStream turn(round, "turn");
  for (GraphCable& cable : body.cables)
    if (round > 0 && turn.bernoulli(0.5)) std::swap(cable.from, cable.to);
  sim::Faults faults;
  auto topology = build_graph(body, {"tree", ""}, faults);
  faults.throw_if_any();
  return topology;
}

struct Job {
  const char* algorithm;
  CollectiveKind kind;
  int stride;          // rank r runs on host r * stride % 16
  std::int64_t at_us;  // when its ranks enter
};
constexpr std::array kJobs{
    Job{"ring", CollectiveKind::all_reduce, 1, 0},
    Job{"ring", CollectiveKind::all_reduce, 5, 0},
    Job{"direct", CollectiveKind::all_to_all, 1, 0},
    Job{"direct", CollectiveKind::all_to_all, 3, 0},
    Job{"halving_doubling", CollectiveKind::all_reduce, 7, 0},
    Job{"double_tree", CollectiveKind::all_reduce, 9, 40},
    Job{"hierarchical", CollectiveKind::all_reduce, 1, 40},
    Job{"in_network", CollectiveKind::all_reduce, 1, 40},
    Job{"ring", CollectiveKind::broadcast, 11, 40},
};

/// Runs the jobs, created in the order of the round, over the network numbered as for `numbering`.
class World {
 public:
  World(std::uint64_t round, std::uint64_t numbering)
      : topology_(numbered(numbering)),
        names_(*topology_),
        network_(engine_, *topology_, router("shortest", *topology_), {.message_overhead_s = 1e-6}) {
    std::vector<std::size_t> jobs(kJobs.size());
    std::iota(jobs.begin(), jobs.end(), std::size_t{0});
    reorder(jobs, round, "jobs");
    runs_.resize(kJobs.size());
    for (const std::size_t j : jobs) create(j);
    reorder(jobs, round, "entries");
    for (const std::size_t j : jobs)
      for (Member rank = 0; rank < kRanks; ++rank) runs_[j]->enter_at(rank, sim::Time{kJobs[j].at_us * 1'000'000});
  }
  std::string run() {
    // An uplink fails, and comes back: what is on it waits, for there is no other way.
    engine_.run(sim::Time{60'000'001});
    network_.set_link(link("leaf1->root"), 0);
    engine_.run(sim::Time{90'000'003});
    network_.set_link(link("leaf1->root"), 0.5);
    engine_.run();
    std::string out;
    for (const auto& run : runs_) {
      REQUIRE(run->done());
      for (Member rank = 0; rank < kRanks; ++rank) out += std::to_string(run->done_at(rank).ticks) + " ";
      out += std::to_string(run->messages()) + " messages\n";
    }
    const std::vector<double> carried = network_.flows().carried();
    for (const GraphCable& cable : tree_network().cables)
      for (const std::string& name : {cable.from + "->" + cable.to, cable.to + "->" + cable.from})
        out += exact(name, carried[link(name)]);
    return out;
  }

 private:
  static constexpr Member kRanks = 16;
  static std::string exact(const std::string& name, double value) {
    std::array<char, 40> buffer{};
    std::snprintf(buffer.data(), buffer.size(), " %a\n", value);
    return name + buffer.data();
  }
  LinkIndex link(const std::string& name) const {
    sim::Faults faults;
    const auto found = names_.link(name, {}, faults);
    faults.throw_if_any();
    return *found;
  }
  void create(std::size_t j) {
    CollectiveSpec spec;
    spec.kind = kJobs[j].kind;
    spec.ranks = kRanks;
    spec.bytes = 64'000;
    std::vector<NodeIndex> hosts;
    for (int rank = 0; rank < static_cast<int>(kRanks); ++rank) {
      hosts.push_back(*names_.node("h" + std::to_string(rank * kJobs[j].stride % 16)));
      spec.local_group.push_back(static_cast<std::uint32_t>(rank / 4));
    }
    const std::string algorithm = kJobs[j].algorithm;
    if (algorithm == "in_network")
      spec.tree = aggregation_tree(*topology_, network_.routing(), hosts, *names_.node("root"));
    runs_[j] = std::make_unique<CollectiveRun>(engine_, network_, make_collective(algorithm, "", spec), kRanks,
                                               member_nodes(hosts, spec.tree));
  }

  sim::Engine engine_;
  std::unique_ptr<Topology> topology_;
  TopologyNames names_;
  Network network_;
  std::vector<std::unique_ptr<CollectiveRun>> runs_;
};

}  // namespace

TEST_CASE("jobs created in any order give the same run", "[prop]") {
  const std::string reference = World(0, 0).run();
  for (std::uint64_t round = 1; round <= 6; ++round) {
    INFO(round);
    CHECK(World(round, 0).run() == reference);
  }
}

TEST_CASE("nodes and links numbered in any order give the same run", "[prop]") {
  const std::string reference = World(0, 0).run();
  for (std::uint64_t round = 1; round <= 6; ++round) {
    INFO(round);
    CHECK(World(0, round).run() == reference);
    CHECK(World(round, 100 + round).run() == reference);
  }
}

}  // namespace test_creation_order
