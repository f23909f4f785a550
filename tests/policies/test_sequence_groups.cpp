// Groups of unlike sequences: plans are whole, the search is near the best there is, and what cannot be is said.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <numeric>

#include "policies/sequence_groups/sequence_groups.hpp"
#include "sim/base/random.hpp"

namespace test_sequence_groups {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::unique_ptr<SequenceGrouping> policy(const std::string& name, const std::string& params = "{}") {
  SequenceGroupingRegistry registry("sequence_groups");
  register_sequence_groupings(registry);
  const sim::Node node = sim::parse_json(params, "params.json");
  sim::Faults faults;
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

/// Four devices of 100 tokens; all-to-all costs more the more devices there are.
SequenceCosts four() {
  return {.square_s = 1e-3, .linear_s = 0.01, .fixed_s = 0.5, .exchange_s = {0, 0.02, 0.1}, .device_tokens = 100};
}

SequenceView view(const std::vector<std::int64_t>& lengths, const SequenceCosts& costs, std::int64_t devices = 4) {
  return {lengths, devices, &costs};
}

/// The fastest plan of one micro-batch by trying every set of degrees and every assignment.
double brute_force(const SequenceView& all) {
  double best = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<std::int64_t>> sets{{4}, {2, 2}, {2, 1, 1}, {1, 1, 1, 1}};
  for (const auto& degrees : sets) {
    std::vector<GroupLoad> loads(degrees.size());
    const std::function<void(std::size_t)> place = [&](std::size_t i) {
      if (i == all.lengths.size()) {
        double slowest = 0;
        for (std::size_t g = 0; g < degrees.size(); ++g) {
          if (loads[g].tokens > all.costs->device_tokens * static_cast<double>(degrees[g])) return;
          slowest = std::max(slowest, group_s(*all.costs, degrees[g], loads[g]));
        }
        best = std::min(best, slowest);
        return;
      }
      for (GroupLoad& load : loads) {
        const GroupLoad before = load;
        load.add(all.lengths[i]);
        place(i + 1);
        load = before;
      }
    };
    place(0);
  }
  return best;
}

std::vector<std::int64_t> drawn(sim::RandomStream& random, int count, std::int64_t longest) {
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < count; ++i)
    lengths.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(random.log_normal(2.5, 1)), 1, longest));
  std::ranges::sort(lengths, std::greater<>());
  return lengths;
}

}  // namespace

TEST_CASE("sequence groups: what a group takes") {
  // 30 and 10 tokens on two devices: (1e-3 (900 + 100) + (0.01 + 0.02) 40) / 2 + 0.5 = 1.6 s.
  const SequenceCosts costs = four();
  const std::vector<std::int64_t> lengths{30, 10};
  CHECK(group_s(view(lengths, costs), {.degree = 2, .members = {0, 1}}) == Approx(1.6));
  CHECK(group_s(costs, 2, {}) == 0);
  CHECK(least_degree(view(lengths, costs), 100) == 1);
  CHECK(least_degree(view(lengths, costs), 101) == 2);
  CHECK(least_degree(view(lengths, costs), 401) == 0);
}

TEST_CASE("sequence groups: a micro-batch takes the floor at least, and degrees are those with an exchange") {
  SequenceCosts costs = four();
  costs.floor_s = 2;
  costs.exchange_s = {0, 0.02};
  const std::vector<std::int64_t> lengths{30, 10};
  // The group alone takes 1.6 s; the floor 2 + 0.5.
  CHECK(micro_batch_s(view(lengths, costs), {{.degree = 2, .members = {0, 1}}}) == Approx(2.5));
  CHECK(micro_batch_s(view(lengths, costs), {}) == 0);
  CHECK(least_degree(view(lengths, costs), 201) == 0);
  CHECK_THAT(check_plan(view(lengths, costs), {{{.degree = 4, .members = {0, 1}}}}),
             Catch::Contains("a group of 4 devices, the largest has 2"));
  for (const char* name : {"fixed", "adaptive", "flexsp", "flexsp_milp"}) {
    const BatchPlan plan = policy(name)->plan(view(lengths, costs));
    CHECK(check_plan(view(lengths, costs), plan).empty());
    CHECK_FALSE(plan.empty());
  }
  CHECK(policy("fixed", R"({"degree": 4})")->plan(view(lengths, costs)).empty());
}

TEST_CASE("sequence groups: runs in order whose largest is least, by looking at all") {
  sim::RandomStream random(3, "runs");
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::int64_t> lengths = drawn(random, 9, 50);
    for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
      const std::vector<std::size_t> ends = even_runs(lengths, count);
      REQUIRE(ends.size() == count);
      const auto largest = [&](const std::vector<std::size_t>& cuts) {
        std::int64_t most = 0;
        std::size_t first = 0;
        for (const std::size_t end : cuts) {
          most = std::max(most, std::accumulate(lengths.begin() + static_cast<std::ptrdiff_t>(first),
                                                lengths.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{0}));
          first = end;
        }
        return most;
      };
      std::int64_t best = largest({9});
      for (std::size_t a = 1; a < 9 && count > 1; ++a)
        for (std::size_t b = count == 2 ? 9 : a + 1; b <= 9; ++b)
          if (count == 2 || b < 9)
            best = std::min(best,
                            largest(count == 2 ? std::vector<std::size_t>{a, 9} : std::vector<std::size_t>{a, b, 9}));
      CHECK(largest(ends) == best);
    }
  }
}

TEST_CASE("sequence groups: every plan is whole, and none is faster than the best there is") {
  sim::RandomStream random(4, "plans");
  const SequenceCosts costs = four();
  double over = 0;
  for (int round = 0; round < 60; ++round) {
    const std::vector<std::int64_t> lengths = drawn(random, 7, 120);
    const SequenceView all = view(lengths, costs);
    if (least_micro_batches(all) > 1) continue;
    const double best = brute_force(all);
    for (const std::string name : {"adaptive", "flexsp"}) {
      CAPTURE(name, round);
      const BatchPlan plan = policy(name, name == "flexsp" ? R"({"more": 0})" : "{}")->plan(all);
      REQUIRE(!plan.empty());
      CHECK(check_plan(all, plan).empty());
      if (plan.size() == 1) CHECK(plan_s(all, plan) >= best * (1 - 1e-9));
      if (name == "flexsp" && plan.size() == 1) over = std::max(over, plan_s(all, plan) / best);
    }
    CHECK(plan_s(all, policy("flexsp")->plan(all)) <= plan_s(all, policy("adaptive")->plan(all)) * 1.1);
  }
  CHECK(over > 1 - 1e-9);
  CHECK(over < 1.25);
}

TEST_CASE("sequence groups: the search is within 3 % of the integer program") {
  sim::RandomStream random(5, "milp");
  const SequenceCosts costs = four();
  double search = 0, program = 0;
  for (int round = 0; round < 4; ++round) {
    const std::vector<std::int64_t> lengths = drawn(random, 14, 150);
    const SequenceView all = view(lengths, costs);
    const BatchPlan milp = policy("flexsp_milp", R"({"more": 1, "limit": "5 s"})")->plan(all);
    const BatchPlan local = policy("flexsp", R"({"more": 1})")->plan(all);
    REQUIRE(!milp.empty());
    CHECK(check_plan(all, milp).empty());
    search += plan_s(all, local);
    program += plan_s(all, milp);
  }
  CHECK(search <= 1.03 * program);
}

TEST_CASE("sequence groups: equal lengths gain nothing from unlike degrees") {
  const SequenceCosts costs = four();
  const std::vector<std::int64_t> lengths(20, 20);  // five fill a device
  const SequenceView all = view(lengths, costs);
  CHECK(plan_s(all, policy("flexsp")->plan(all)) ==
        Approx(plan_s(all, policy("fixed", R"({"degree": 1})")->plan(all))));
}

TEST_CASE("sequence groups: best fit packs bins by memory, and like bins share a micro-batch") {
  // 90, 60, 40, 10 into bins of 100: {90, 10}, {60, 40}; on four devices one micro-batch.
  const SequenceCosts costs = four();
  const std::vector<std::int64_t> lengths{90, 60, 40, 10};
  const BatchPlan plan = single_degree_plan(view(lengths, costs), 1);
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].size() == 2);
  CHECK(plan[0][0].members == std::vector<std::int32_t>{0, 3});
  CHECK(plan[0][1].members == std::vector<std::int32_t>{1, 2});
  CHECK(single_degree_plan(view({101}, costs), 1).empty());
}

TEST_CASE("sequence groups: a plan that is none is told") {
  const SequenceCosts costs = four();
  const std::vector<std::int64_t> lengths{90, 60};
  const SequenceView all = view(lengths, costs);
  CHECK(check_plan(all, {{{.degree = 1, .members = {0}}}}) == "sequence 1 is in no group");
  CHECK(check_plan(all, {{{.degree = 1, .members = {0, 0}}}}) == "sequence 0 is none, or in two groups");
  CHECK(check_plan(all, {{{.degree = 1, .members = {0, 1}}}}) == "a group of 1 has 150 tokens, and memory for 100");
  CHECK(check_plan(all, {{{.degree = 4, .members = {0}}, {.degree = 1, .members = {1}}}}) ==
        "a micro-batch takes 5 devices of 4");
  CHECK(policy("flexsp")->plan(view({500}, costs)).empty());
  CHECK(policy("adaptive")->plan(view({500}, costs)).empty());
  CHECK(policy("fixed", R"({"degree": 8})")->plan(all).empty());
}

}  // namespace test_sequence_groups
