#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "policies/memory/planner.hpp"
#include "sim/base/random.hpp"
#include "tests/policies/brute_force_plan.hpp"

namespace test_planners {

using namespace orrery;
using namespace orrery::policies;

namespace {

MemoryPlannerRegistry planners() {
  MemoryPlannerRegistry registry("memory planner");
  register_memory_planners(registry);
  return registry;
}

/// Whether a planner gives blocks of 512 bytes.
bool in_blocks(const std::string& name) {
  return name == "caching_allocator";
}

/// Those that run no program of others (test_milp_planner.cpp has these).
std::vector<std::string> own_planners() {
  std::vector<std::string> names = planners().names();
  std::erase(names, "milp");
  return names;
}

std::unique_ptr<MemoryPlanner> make(const std::string& name, const std::string& params = "{}") {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = planners().prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

/// Random lifetimes in `steps` steps; some buffers of the size of another that ends as they begin take its place.
std::vector<Buffer> random_buffers(sim::RandomStream& random, std::size_t count, std::int64_t steps, bool aligned,
                                   bool in_place) {
  std::vector<Buffer> buffers;
  std::vector<bool> taken(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    Buffer buffer;
    buffer.begin = random.integer(0, steps - 1);
    buffer.end = random.integer(buffer.begin + 1, steps);
    buffer.bytes = random.integer(random.below(10) == 0 ? 0 : 1, 20);
    if (aligned) buffer.alignment = std::int64_t{1} << random.below(4);
    for (std::size_t j = 0; in_place && j < i; ++j) {
      if (taken[j] || buffers[j].end - 1 <= buffers[j].begin || random.below(2) == 0) continue;
      buffer.begin = buffers[j].end - 1;
      buffer.end = random.integer(buffer.begin + 1, steps);
      buffer.bytes = buffers[j].bytes;
      buffer.in_place_of = static_cast<std::int32_t>(j);
      taken[j] = true;
      break;
    }
    buffers.push_back(buffer);
  }
  return buffers;
}

}  // namespace

TEST_CASE("planners differ as their rules say", "[unit]") {
  // a: steps 0-1, 4 B; b: 0-3, 2 B; c: 0-1, 3 B; d: 2-3, 3 B. In order of begin (shorter, smaller first at one step):
  // c [0,3), a [3,7), b [7,9). At step 2 the gaps are [0,7) and what is above 9.
  const std::vector<Buffer> buffers{{0, 2, 4}, {0, 4, 2}, {0, 2, 3}, {2, 4, 3}};
  CHECK(make("first_fit")->plan(buffers).offsets == std::vector<std::int64_t>{3, 7, 0, 0});
  CHECK(make("best_fit")->plan(buffers).offsets == std::vector<std::int64_t>{3, 7, 0, 0});
  // Largest first: a at 0; c and d (3 B) share [4, 7) and [0, 3); b (2 B) goes above both a and c.
  const Plan greedy = make("greedy_by_size")->plan(buffers);
  CHECK(greedy.peak == 9);
  CHECK(greedy.offsets[0] == 0);
  CHECK(greedy.offsets[1] == 7);
  CHECK(lower_bound(buffers) == 9);
  CHECK(make("search")->plan(buffers).peak == 9);
}

TEST_CASE("best fit takes the smallest gap where first fit takes the lowest", "[unit]") {
  // Step 0: 5 B, 1 B, 2 B, 1 B side by side (given such lifetimes that this is their order). At step 1 the 5 B and the
  // 2 B are gone; a buffer of 2 B goes to 0 (first fit) or to 6 (best fit); then 5 B fit at 0 only after best fit.
  const std::vector<Buffer> buffers{{0, 2, 5}, {1, 9, 1}, {1, 2, 2}, {1, 9, 1}, {2, 9, 2}, {3, 9, 5}};
  // In order of begin: 5 at [0,5); of those at step 1 the one that ends first: 2 at [5,7); 1 at 7, 1 at 8.
  CHECK(make("first_fit")->plan(buffers).offsets == std::vector<std::int64_t>{0, 7, 5, 8, 0, 2});
  const std::vector<Buffer> split{{0, 2, 5}, {0, 9, 1}, {1, 2, 2}, {1, 9, 1}, {2, 9, 2}, {3, 9, 5}};
  // 5 at [0,5), 1 at 5, 2 at [6,8), 1 at 8. Gaps at step 2: [0,5), [6,8). First fit: 2 at 0, and 5 B end on top: 14.
  CHECK(make("first_fit")->plan(split).peak == 14);
  CHECK(make("best_fit")->plan(split).offsets == std::vector<std::int64_t>{0, 5, 6, 8, 6, 0});
  CHECK(make("best_fit")->plan(split).peak == 9);
}

TEST_CASE("a buffer takes over its partner's place", "[unit]") {
  // A chain of three elementwise ops over 8 B: each input dies where its output is born.
  const std::vector<Buffer> apart{{0, 2, 8}, {1, 3, 8}, {2, 4, 8}};
  std::vector<Buffer> chain = apart;
  chain[1].in_place_of = 0;
  chain[2].in_place_of = 1;
  CHECK(lower_bound(apart) == 16);
  CHECK(lower_bound(chain) == 8);
  for (const std::string& name : own_planners()) {
    INFO(name);
    CHECK(make(name)->plan(apart).peak == (in_blocks(name) ? 512 + 8 : 16));
    CHECK(make(name)->plan(chain).offsets == std::vector<std::int64_t>{0, 0, 0});
    CHECK(make(name)->plan(chain).peak == 8);
  }
}

TEST_CASE("of two that may take a place over the one that ends first does, whichever is named first", "[unit]") {
  const Buffer head{0, 2, 8};
  Buffer shorter{1, 3, 8}, longer{1, 4, 8};
  shorter.in_place_of = longer.in_place_of = 0;
  const std::vector<std::int64_t> one = make("first_fit")->plan(std::vector{head, shorter, longer}).offsets;
  const std::vector<std::int64_t> other = make("first_fit")->plan(std::vector{head, longer, shorter}).offsets;
  CHECK(one[1] == one[0]);
  CHECK(one[2] != one[0]);
  CHECK(other == std::vector<std::int64_t>{one[0], one[2], one[1]});
}

TEST_CASE("a large buffer of later does not stand in the way of a small one of before", "[unit]") {
  // By size: 20 B for all steps at 0, 10 B of steps 5 to 8 on top, and on top of the first too the 4 B of steps 0 to 2.
  const std::vector<Buffer> buffers{{0, 3, 4}, {5, 9, 10}, {0, 9, 20}};
  const Plan plan = make("greedy_by_size")->plan(buffers);
  CHECK(plan.offsets == std::vector<std::int64_t>{20, 20, 0});
  CHECK(plan.peak == 30);
}

TEST_CASE("offsets keep to the alignment, and nothing needs nothing", "[unit]") {
  const std::vector<Buffer> buffers{{0, 2, 3, 1}, {0, 2, 4, 16}, {0, 2, 0, 1}};
  for (const std::string& name : own_planners()) {
    INFO(name);
    const Plan plan = make(name)->plan(buffers);
    CHECK(plan.offsets[1] % 16 == 0);
    if (!in_blocks(name)) CHECK((plan.peak == 20 || plan.peak == 7));  // 3 B below 16 B of space, or above the 4 B
    CHECK(plan.offsets[2] == 0);
    CHECK(make(name)->plan({}).peak == 0);
  }
  CHECK(make("search")->plan(buffers).peak == 7);
}

TEST_CASE("faulty buffers are named", "[unit]") {
  const auto fault = [](std::vector<Buffer> buffers) {
    try {
      (void)make("first_fit")->plan(buffers);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(fault({{0, 1, 1}, {3, 3, 1}}) == "buffer 1: expected a lifetime that ends after it begins, got [3, 3)");
  CHECK(fault({{0, 1, -1}}) == "buffer 0: expected >= 0 bytes, got -1");
  CHECK(fault({{0, 1, 1, 0}}) == "buffer 0: expected an alignment >= 1, got 0");
  CHECK(fault({{0, 1, 1, 1, 0}}) == "buffer 0: expected a partner among the other buffers, got 0");
  CHECK(fault({{0, 1, 1, 1, 7}}) == "buffer 0: expected a partner among the other buffers, got 7");
  CHECK(fault({{1, 2, 1}, {1, 2, 1, 1, 0}}) ==
        "buffer 1: expected a partner that begins before step 1, got one that begins at 1");
  CHECK(fault({{0, 3, 1}, {1, 2, 1, 1, 0}}) ==
        "buffer 1: expected a partner that ends at step 2, got one that ends at 3");
  CHECK(fault({{0, 2, 2}, {1, 2, 1, 1, 0}}) == "buffer 1: expected a partner of 1 bytes, got 2");
}

TEST_CASE("a plan that is none is told", "[unit]") {
  const std::vector<Buffer> buffers{{0, 2, 4}, {1, 3, 4}, {2, 4, 4, 4}};
  const auto fault = [&](std::vector<std::int64_t> offsets) { return plan_fault(buffers, offsets).value_or("none"); };
  CHECK(fault({0, 4, 0}) == "none");
  CHECK(fault({0, 4}) == "expected 3 offsets, got 2");
  CHECK(fault({0, 3, 8}) == "buffers 0 and 1 are live together and overlap in space");
  CHECK(fault({0, 4, 2}) == "buffer 2: expected a multiple of 4 from 0, got offset 2");
  CHECK(fault({-4, 4, 0}) == "buffer 0: expected a multiple of 1 from 0, got offset -4");
}

TEST_CASE("plans are sound, above the bound, and never below the optimum", "[prop]") {
  sim::RandomStream random(1, "planners");
  std::map<std::string, int> optimal;
  const int rounds = 400;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t count = 1 + random.below(7);
    const std::vector<Buffer> buffers = random_buffers(random, count, 8, round % 3 == 1, round % 2 == 1);
    const std::int64_t best = test::brute_force_peak(buffers);
    REQUIRE(best >= lower_bound(buffers));
    for (const std::string& name : own_planners()) {
      INFO(name << " in round " << round);
      const Plan plan = make(name)->plan(buffers);
      REQUIRE(plan_fault(buffers, plan.offsets).value_or("") == "");
      REQUIRE(plan.peak == peak_of(buffers, plan.offsets));
      REQUIRE(plan.peak >= best);
      optimal[name] += plan.peak == best ? 1 : 0;
      if (name == "search" && round % 3 != 1 && round % 2 == 0) REQUIRE(plan.peak == best);  // exact without extras
    }
  }
  // Measured: see docs/explain/memory-planning.md. With mixed alignments, or reuse that is better left out, search may
  // miss the optimum; it does so rarely.
  for (const auto& [name, times] : optimal) UNSCOPED_INFO(name << ": optimal " << times << " times of " << rounds);
  CHECK(optimal["search"] >= rounds * 99 / 100);
  CHECK(optimal["search"] >= optimal["greedy_by_size"]);
}

TEST_CASE("the order in which buffers are given does not matter", "[prop]") {
  sim::RandomStream random(2, "planners");
  for (int round = 0; round < 60; ++round) {
    std::vector<Buffer> buffers = random_buffers(random, 60, 40, round % 2 == 0, false);
    for (const std::string& name : own_planners()) {
      INFO(name);
      const auto planner = make(name, name == "search" ? R"({"budget": 1000000})" : "{}");
      const Plan plan = planner->plan(buffers);
      REQUIRE(plan_fault(buffers, plan.offsets).value_or("") == "");
      std::vector<Buffer> shuffled = buffers;
      random.shuffle(std::span(shuffled));
      REQUIRE(planner->plan(shuffled).peak == plan.peak);
      REQUIRE(planner->plan(buffers).offsets == plan.offsets);
    }
  }
}

TEST_CASE("search is never above the simple planners, and a budget never hurts", "[prop]") {
  sim::RandomStream random(3, "planners");
  for (int round = 0; round < 40; ++round) {
    const std::vector<Buffer> buffers = random_buffers(random, 120, 60, round % 2 == 0, round % 3 == 0);
    const std::int64_t none = make("search", R"({"budget": 0})")->plan(buffers).peak;
    const std::int64_t some = make("search", R"({"budget": 2000000})")->plan(buffers).peak;
    REQUIRE(some <= none);
    for (const std::string name : {"first_fit", "best_fit", "greedy_by_size"})
      REQUIRE(none <= make(name)->plan(buffers).peak);
    // Take-overs may only help.
    std::vector<Buffer> apart = buffers;
    for (Buffer& buffer : apart) buffer.in_place_of.reset();
    for (const std::string name : {"first_fit", "best_fit", "greedy_by_size"})
      REQUIRE(make(name)->plan(buffers).peak <= make(name)->plan(apart).peak);
  }
}

TEST_CASE("a place is taken over where that costs nothing, too", "[unit]") {
  // Two of 8 B that could lie apart below the 100 B that come later: the peak is 100 either way.
  std::vector<Buffer> buffers{{0, 2, 8}, {1, 3, 8}, {5, 6, 100}};
  buffers[1].in_place_of = 0;
  for (const std::string& name : own_planners()) {
    INFO(name);
    const Plan plan = make(name)->plan(buffers);
    CHECK(plan.peak == 100);
    CHECK(plan.offsets[1] == plan.offsets[0]);
  }
}

TEST_CASE("faults of buffers at their bounds", "[unit]") {
  const auto fault = [](const std::vector<Buffer>& buffers) {
    return buffer_fault(buffers, buffers.size() - 1).value_or("none");
  };
  CHECK(fault({{0, 1, 0}}) == "none");
  CHECK(fault({{-3, -2, 1}}) == "none");
  CHECK(fault({{2, 1, 1}}) == "expected a lifetime that ends after it begins, got [2, 1)");
  CHECK(fault({{0, 1, 1, 1, -1}}) == "expected a partner among the other buffers, got -1");
  CHECK(fault({{0, 2, 1}, {1, 2, 1, 1, 2}}) == "expected a partner among the other buffers, got 2");
  CHECK(fault({{0, 2, 1}, {1, 2, 1, 1, 1}}) == "expected a partner among the other buffers, got 1");
  CHECK(fault({{0, 2, 1}, {1, 2, 1, 1, 0}}) == "none");
  CHECK(fault({{2, 4, 1}, {1, 2, 1, 1, 0}}) ==
        "expected a partner that begins before step 1, got one that begins at 2");
  CHECK(fault({{0, 1, 1}, {1, 2, 1, 1, 0}}) == "expected a partner that ends at step 2, got one that ends at 1");
}

TEST_CASE("a plan's faults: partners in one place are none, in either order, and nothing else in part", "[unit]") {
  std::vector<Buffer> chain{{0, 2, 8}, {1, 3, 8}};
  chain[1].in_place_of = 0;
  std::vector<Buffer> turned{{1, 3, 8}, {0, 2, 8}};
  turned[0].in_place_of = 1;
  for (const std::vector<Buffer>& buffers : {chain, turned}) {
    const auto fault = [&](std::vector<std::int64_t> offsets) { return plan_fault(buffers, offsets).value_or("none"); };
    const std::string overlap = "buffers 0 and 1 are live together and overlap in space";
    CHECK(fault({0, 0}) == "none");
    CHECK(fault({0, 8}) == "none");
    CHECK(fault({8, 0}) == "none");
    CHECK(fault({0, 7}) == overlap);
    CHECK(fault({7, 0}) == overlap);
    CHECK(fault({0, 4}) == overlap);
  }
  // Two that would take one place are live together.
  std::vector<Buffer> both{{0, 2, 8}, {1, 3, 8}, {1, 4, 8}};
  both[1].in_place_of = both[2].in_place_of = 0;
  const std::vector<std::int64_t> same{0, 0, 0}, apart{0, 0, 8};
  CHECK(plan_fault(both, same) == "buffers 1 and 2 are live together and overlap in space");
  CHECK_FALSE(plan_fault(both, apart));
  // What holds no bytes is nowhere.
  const std::vector<Buffer> empty{{0, 2, 8}, {0, 2, 0}};
  const std::vector<std::int64_t> inside{0, 4};
  CHECK_FALSE(plan_fault(empty, inside));
  const std::vector<std::int64_t> high{0, 100};
  CHECK(peak_of(empty, high) == 8);
}

TEST_CASE("a chain in one place keeps to the alignment of all of it", "[unit]") {
  // 5 B first; the chain of 8 B, aligned to 4 and then to 6, lies at 12.
  std::vector<Buffer> buffers{{0, 2, 8, 4}, {1, 3, 8, 6}, {0, 3, 5}};
  buffers[1].in_place_of = 0;
  const Plan plan = make("first_fit")->plan(buffers);
  CHECK(plan.offsets == std::vector<std::int64_t>{12, 12, 0});
  CHECK(plan.peak == 20);
}

TEST_CASE("reuse in place never costs more than lying apart, and often less", "[prop]") {
  sim::RandomStream random(4, "apart");
  int better = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<Buffer> buffers = random_buffers(random, 8, 8, round % 2 == 0, true);
    std::vector<Buffer> apart = buffers;
    for (Buffer& buffer : apart) buffer.in_place_of.reset();
    for (const std::string name : {"first_fit", "best_fit", "greedy_by_size"}) {
      const Plan with = make(name)->plan(buffers), without = make(name)->plan(apart);
      REQUIRE(with.peak <= without.peak);
      better += with.peak < without.peak ? 1 : 0;
      if (with.peak == without.peak) continue;
      REQUIRE(plan_fault(buffers, with.offsets).value_or("") == "");
    }
  }
  CHECK(better > 50);
}

TEST_CASE("the least peak of live bytes: what ends at a step makes room for what begins there", "[unit]") {
  CHECK(lower_bound(std::vector<Buffer>{}) == 0);
  CHECK(lower_bound(std::vector<Buffer>{{0, 2, 8}, {2, 4, 8}}) == 8);
  CHECK(lower_bound(std::vector<Buffer>{{0, 3, 8}, {2, 4, 5}}) == 13);
  std::vector<Buffer> two{{0, 2, 8}, {1, 3, 8}, {1, 4, 8}};
  two[1].in_place_of = two[2].in_place_of = 0;
  CHECK(lower_bound(two) == 16);  // one of them takes the place over
}

TEST_CASE("search leaves parts of too many buffers, and all without a budget, to the simple planners", "[unit]") {
  // Seven that the simple planners place badly; the exact search finds better.
  sim::RandomStream random(12, "search");
  for (;;) {
    const std::vector<Buffer> buffers = random_buffers(random, 7, 6, false, false);
    const auto peak = [&](const std::string& params) { return make("search", params)->plan(buffers).peak; };
    const std::int64_t simple = peak(R"({"budget": 0})"), best = test::brute_force_peak(buffers);
    if (simple == best) continue;
    CHECK(peak("{}") == best);
    CHECK(peak(R"({"max_buffers": 0})") == simple);
    CHECK(peak(R"({"max_buffers": 7})") == best);
    // A part of its own, later and larger, hides what is gained: the plan is as good as need be.
    std::vector<Buffer> hidden = buffers;
    hidden.push_back({100, 101, 1000});
    CHECK(make("search")->plan(hidden).peak == 1000);
    break;
  }
}

}  // namespace test_planners
