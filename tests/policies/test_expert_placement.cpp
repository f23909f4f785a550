// Expert placement: packs, EPLB's published example, loads of GPUs, obstacles.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "policies/expert_placement/clusters.hpp"
#include "policies/expert_placement/eplb.hpp"
#include "sim/base/random.hpp"
#include "sim/child_process.hpp"

namespace test_expert_placement {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::vector<LayerPlacement> place(const std::string& policy, const ExpertPlacementView& view,
                                  const std::string& params = "{}") {
  ExpertPlacementRegistry registry("expert_placement");
  register_expert_placements(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "params.json");
  const auto choice = registry.prepare(policy, &node, {}, faults);
  faults.throw_if_any();
  return choice.make()->place(view);
}

double most(const std::vector<double>& loads) {
  return std::ranges::max(loads);
}

}  // namespace

TEST_CASE("packs: falling weights, each to the lightest that has room", "[unit]") {
  // 9 to pack 0, 7 to 1, 6 to 1 (7 < 9) which is full now, 1 to 0.
  const Packed p = pack_evenly({1, 9, 6, 7}, 2);
  CHECK(p.pack == std::vector<std::int64_t>{0, 0, 1, 1});
  CHECK(p.place == std::vector<std::int64_t>{1, 0, 1, 0});
  // Of equals the first, to the first.
  CHECK(pack_evenly({5, 5, 5, 5}, 2).pack == std::vector<std::int64_t>{0, 1, 0, 1});
  // A pack for each: in order, nothing is sorted.
  CHECK(pack_evenly({1, 3, 2}, 3).pack == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("eplb: the example of its README, slot by slot", "[golden]") {
  // github.com/deepseek-ai/EPLB: 12 experts, 16 slots, 4 groups, 2 nodes, 8 GPUs.
  const EplbMachine machine{.slots = 16, .gpus = 8, .nodes = 2, .groups = 4};
  CHECK(eplb_slots({90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86}, machine) ==
        std::vector<std::int64_t>{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1});
  CHECK(eplb_slots({20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}, machine) ==
        std::vector<std::int64_t>{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1});
}

TEST_CASE("placement by an expression: eplb's share is eplb, others are what they say", "[prop]") {
  sim::RandomStream random(6, "test");
  for (int trial = 0; trial < 20; ++trial) {
    ExpertPlacementView view{.gpus = 8, .nodes = trial % 2 == 0 ? 1 : 2, .slots = 24, .groups = trial % 3 == 0 ? 4 : 1};
    for (int layer = 0; layer < 2; ++layer)
      for (std::vector<double>& loads = view.loads.emplace_back(16); double& load : loads)
        load = random.uniform(0, 100);
    const auto eplb = place("eplb", view), own = place("expression", view);
    for (std::size_t layer = 0; layer < 2; ++layer) CHECK(own[layer].expert == eplb[layer].expert);
  }
  // Two GPUs of three slots, four experts of load 8 1 1 1. eplb: 0 gets both replicas (8, 4 > 1), three of 2.67 and
  // three of 1. A GPU takes 0 and 0 and what is left lightest.
  const ExpertPlacementView view{.gpus = 2, .slots = 6, .loads = {{8, 1, 1, 1}}};
  const auto copies = [&](const std::string& share) {
    std::vector<std::int64_t> count(4, 0);
    const auto placed = place("expression", view, R"({"share": ")" + share + "\"}");
    for (const std::int64_t e : placed.front().expert) ++count[static_cast<std::size_t>(e)];
    return count;
  };
  CHECK(copies("load / replicas") == std::vector<std::int64_t>{3, 1, 1, 1});
  // Loads do not count: one more each, in order.
  CHECK(copies("1 / replicas") == std::vector<std::int64_t>{2, 2, 1, 1});
  // Shrunk towards the mean of 2.75: (8 + 8 * 2.75) / 2 = 15 still bears more than 1 + 22, no: 30, 23, 23, 23, then 15:
  // 0 gets one, then 1.
  CHECK(copies("(load + 8 * mean) / replicas") == std::vector<std::int64_t>{2, 2, 1, 1});
  CHECK(copies("if(experts == 4 && gpus == 2 && slots == 6, -load, load)") == std::vector<std::int64_t>{1, 3, 1, 1});
  CHECK(copies("0 / 0") == std::vector<std::int64_t>{3, 1, 1, 1});  // of equals the first
  CHECK_THROWS_WITH(copies("loads"), Catch::Contains("unknown name 'loads' (did you mean 'load'?)"));
}

TEST_CASE("eplb: groups stay on a node; where they cannot, it is the global policy", "[prop]") {
  sim::RandomStream random(5, "test");
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<double> loads(16);
    for (double& load : loads) load = random.uniform(0, 100);
    const auto slots = eplb_slots(loads, {.slots = 24, .gpus = 8, .nodes = 2, .groups = 4});
    for (std::int64_t group = 0; group < 4; ++group) {
      std::set<std::size_t> nodes;
      for (std::size_t s = 0; s < slots.size(); ++s)
        if (slots[s] / 4 == group) nodes.insert(s / 12);
      CHECK(nodes.size() == 1);
    }
    CHECK(eplb_slots(loads, {.slots = 24, .gpus = 8, .nodes = 2, .groups = 1}) ==
          eplb_slots(loads, {.slots = 24, .gpus = 8}));
  }
}

TEST_CASE("placements: every expert has a slot, every GPU as many, loads are shared out", "[prop]") {
  sim::RandomStream random(7, "test");
  for (int trial = 0; trial < 20; ++trial) {
    ExpertPlacementView view{.gpus = 4, .nodes = 2, .slots = 20, .groups = 2, .loads = {}};
    for (int layer = 0; layer < 3; ++layer) {
      view.loads.emplace_back();
      for (int e = 0; e < 12; ++e) view.loads.back().push_back(random.gamma(0.5, 100));
    }
    for (const char* policy : {"balanced", "contiguous", "eplb", "expression"}) {
      const auto placed = place(policy, view);
      REQUIRE(placed.size() == 3);
      for (std::size_t layer = 0; layer < 3; ++layer) {
        const LayerPlacement& one = placed[layer];
        CHECK(std::set<std::int64_t>(one.expert.begin(), one.expert.end()).size() == 12);
        for (std::int64_t gpu = 0; gpu < 4; ++gpu) CHECK(std::ranges::count(one.gpu, gpu) == 5);
        const auto loads = gpu_loads(one, view.loads[layer], 4);
        CHECK(std::accumulate(loads.begin(), loads.end(), 0.0) ==
              Approx(std::accumulate(view.loads[layer].begin(), view.loads[layer].end(), 0.0)));
      }
    }
    // With replicas of the busiest, the fullest GPU has no more than without.
    ExpertPlacementView plain = view;
    plain.slots = 12;
    for (std::size_t layer = 0; layer < 3; ++layer)
      CHECK(most(gpu_loads(place("balanced", view)[layer], view.loads[layer], 4)) <=
            most(gpu_loads(place("balanced", plain)[layer], view.loads[layer], 4)) * 1.2);
  }
}

TEST_CASE("placements: equal loads leave nothing to even out", "[unit]") {
  const ExpertPlacementView view{.gpus = 4, .slots = 16, .loads = {std::vector<double>(16, 3)}};
  for (const char* policy : {"balanced", "contiguous", "eplb", "expression", "moetuner"})
    for (const double load : gpu_loads(place(policy, view)[0], view.loads[0], 4)) CHECK(load == 12);
}

TEST_CASE("placements: loads of GPUs by hand", "[unit]") {
  // Expert 1 has two slots, on GPUs 0 and 1: half of its 6 each.
  const LayerPlacement placed{.expert = {0, 1, 1, 2}, .gpu = {0, 0, 1, 1}};
  CHECK(gpu_loads(placed, {1, 6, 2}, 2) == std::vector<double>{4, 5});
}

namespace {

/// The least error of any clusters without an empty one.
double least_error(const std::vector<double>& loads, std::int64_t count) {
  double least = 1e300;
  Clusters tried(loads.size(), 0);
  for (;;) {
    if (static_cast<std::int64_t>(std::set<std::int64_t>(tried.begin(), tried.end()).size()) == count)
      least = std::min(least, cluster_error(loads, tried, count));
    std::size_t i = 0;
    while (i < tried.size() && ++tried[i] == count) tried[i++] = 0;
    if (i == tried.size()) return least;
  }
}

}  // namespace

TEST_CASE("moetuner: clusters of search and program are the best there are", "[oracle]") {
  sim::RandomStream random(11, "test");
  const bool cbc = sim::find_program("cbc").has_value();
  if (!cbc) WARN("skipped: CBC is not installed");
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<double> loads(6);
    for (double& load : loads) load = std::floor(random.uniform(1, 100));
    const double best = least_error(loads, 2);
    CHECK(cluster_error(loads, search_clusters(loads, 2), 2) == Approx(best).margin(1e-9));
    if (cbc && trial < 4) CHECK(cluster_error(loads, solve_clusters(loads, 2, 10), 2) == Approx(best).margin(1e-6));
  }
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> loads(8);
    for (double& load : loads) load = random.gamma(0.7, 100);
    const double best = least_error(loads, 4), total = std::accumulate(loads.begin(), loads.end(), 0.0);
    // Within 2 % of all rows: a search is not a proof.
    CHECK(cluster_error(loads, search_clusters(loads, 4), 4) <= best + 0.02 * total);
  }
  // One expert with all of the load: the others are spread so that no cluster is empty.
  const Clusters lone = search_clusters({100, 0, 0, 0}, 3);
  CHECK(std::set<std::int64_t>(lone.begin(), lone.end()).size() == 3);
}

TEST_CASE("moetuner: exchanges by hand, and labels that lower them", "[unit]") {
  // Experts 0, 1 in cluster 0, 2 in 1; then 0 in 1, 1 and 2 in 0.
  const std::vector<double> transitions{1, 2, 3, 4, 5, 6, 7, 8, 9};
  CHECK(cluster_exchange(transitions, {0, 0, 1}, {1, 0, 0}, 2) == std::vector<double>{2 + 3 + 5 + 6, 1 + 4, 8 + 9, 7});
  // Cluster 0 sends all to cluster 1 and the other way round: the next layer's labels change places, nothing travels.
  const std::vector<std::vector<double>> crossed{{0, 10, 10, 0}};
  const auto gpu_of = assign_clusters(crossed, {{1, 1}, {1, 1}}, 2, 2, 9);
  CHECK(exchange_cost(crossed, gpu_of, 2, 2, 9) == 0);
  CHECK(exchange_cost(crossed, {{0, 1}, {0, 1}}, 2, 2, 9) == 10);
  CHECK(exchange_cost(crossed, {{0, 1}, {0, 1}}, 2, 1, 9) == 90);  // each GPU a node
  // Nothing travels at all: labels even out what GPUs hold, 3 + 1 and 1 + 3.
  const auto even = assign_clusters({{0, 0, 0, 0}}, {{3, 1}, {3, 1}}, 2, 2, 9);
  CHECK(even[0] != even[1]);
}

TEST_CASE("moetuner: labels never cost more than those that they begin with; equal traffic gains nothing", "[prop]") {
  sim::RandomStream random(13, "test");
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<std::vector<double>> exchanges(5, std::vector<double>(16));
    for (auto& layer : exchanges)
      for (double& rows : layer) rows = random.gamma(0.5, 100);
    const std::vector<std::vector<std::int64_t>> sizes(6, std::vector<std::int64_t>(4, 2)),
        plain(6, std::vector<std::int64_t>{0, 1, 2, 3});
    CHECK(exchange_cost(exchanges, assign_clusters(exchanges, sizes, 4, 2, 9), 4, 2, 9) <=
          exchange_cost(exchanges, plain, 4, 2, 9));
    for (auto& layer : exchanges) std::ranges::fill(layer, 7.0);
    CHECK(exchange_cost(exchanges, assign_clusters(exchanges, sizes, 4, 2, 9), 4, 2, 9) ==
          exchange_cost(exchanges, plain, 4, 2, 9));
  }
}

TEST_CASE("moetuner: labels are the best there are, by hand, by all labellings and by a program", "[oracle]") {
  sim::RandomStream random(17, "test");
  const bool cbc = sim::find_program("cbc").has_value();
  if (!cbc) WARN("skipped: CBC is not installed");
  const auto drawn = [&](std::size_t boundaries, std::size_t gpus) {
    std::vector<std::vector<double>> exchanges(boundaries, std::vector<double>(gpus * gpus));
    for (auto& layer : exchanges)
      for (double& rows : layer) rows = std::floor(random.gamma(0.5, 100));
    return exchanges;
  };
  for (int trial = 0; trial < 12; ++trial) {
    const auto gpus = static_cast<std::int64_t>(trial % 2 == 0 ? 2 : 3);
    const std::int64_t node_gpus = trial % 4 < 2 ? gpus : 1;
    const auto exchanges = drawn(2, static_cast<std::size_t>(gpus));
    std::vector<std::int64_t> identity(static_cast<std::size_t>(gpus));
    std::iota(identity.begin(), identity.end(), std::int64_t{0});
    // All labellings of three layers: 8 or 216.
    double least = 1e300;
    std::vector<std::vector<std::int64_t>> tried(3, identity);
    do {
      do {
        do {
          least = std::min(least, exchange_cost(exchanges, tried, gpus, node_gpus, 9));
        } while (std::ranges::next_permutation(tried[2]).found);
      } while (std::ranges::next_permutation(tried[1]).found);
    } while (std::ranges::next_permutation(tried[0]).found);
    const std::vector<std::vector<std::int64_t>> sizes(3, std::vector<std::int64_t>(identity.size(), 2));
    CAPTURE(trial);
    CHECK(exchange_cost(exchanges, assign_clusters(exchanges, sizes, gpus, node_gpus, 9), gpus, node_gpus, 9) == least);
    if (cbc && trial < 4)
      CHECK(exchange_cost(exchanges, solve_assignment(exchanges, sizes, gpus, node_gpus, 9, 20), gpus, node_gpus, 9) ==
            least);
  }
  // A program is never worse than the search that it begins with, where both are no proof: eight GPUs, no time.
  const auto exchanges = drawn(3, 8);
  const std::vector<std::vector<std::int64_t>> sizes(4, std::vector<std::int64_t>(8, 2));
  if (cbc)
    CHECK(exchange_cost(exchanges, solve_assignment(exchanges, sizes, 8, 4, 9, 0.1), 8, 4, 9) <=
          exchange_cost(exchanges, assign_clusters(exchanges, sizes, 8, 4, 9), 8, 4, 9));
}

TEST_CASE("moetuner: placements are whole, and say what they cannot", "[unit]") {
  ExpertPlacementView view{.gpus = 2, .slots = 6, .loads = {{9, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 9}}, .transitions = {}};
  view.transitions = {std::vector<double>(36, 1)};
  for (const LayerPlacement& layer : place("moetuner", view)) {
    CHECK(std::set<std::int64_t>(layer.expert.begin(), layer.expert.end()).size() == 6);
    CHECK(std::ranges::is_sorted(layer.gpu));
  }
  // 9 against 5: the five small ones together are the best.
  CHECK(most(gpu_loads(place("moetuner", view)[0], view.loads[0], 2)) == 9);
  ExpertPlacementRegistry registry("expert_placement");
  register_expert_placements(registry);
  sim::Faults faults;
  view.slots = 8;
  CHECK(registry.prepare("moetuner", nullptr, {}, faults).make()->obstacle(view) ==
        "moetuner keeps each expert once: no slots beyond one each");
  const sim::Node milp = sim::parse_json(R"({"solver": "milp"})", "p.json");
  ExpertPlacementView many{.gpus = 16, .slots = 16, .loads = {std::vector<double>(16, 1)}};
  CHECK(registry.prepare("moetuner", &milp, {}, faults).make()->obstacle(many) ==
        "moetuner.solver milp takes at most 8 GPUs, got 16: take search");
}

TEST_CASE("placements: obstacles", "[unit]") {
  ExpertPlacementView view{.gpus = 4, .nodes = 1, .slots = 8, .groups = 1, .loads = {std::vector<double>(8, 1)}};
  CHECK(placement_obstacle(view).empty());
  view.nodes = 3;
  CHECK(placement_obstacle(view) == "4 GPUs do not share out over 3 nodes");
  view.nodes = 1;
  view.slots = 7;
  CHECK(placement_obstacle(view) == "an expert nobody holds: 7 slots for 8 experts");
  view.slots = 9;
  CHECK(placement_obstacle(view) == "9 slots do not share out over 4 GPUs");
  view.slots = 8;
  view.groups = 3;
  CHECK(placement_obstacle(view) == "8 experts do not share out over 3 groups");
}

}  // namespace test_expert_placement
