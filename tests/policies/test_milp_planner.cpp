// The planner that has CBC solve a mixed-integer program: the optimum of small parts, sound plans, limits, no solver.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "policies/memory/planner.hpp"
#include "sim/base/random.hpp"
#include "sim/child_process.hpp"
#include "tests/policies/brute_force_plan.hpp"

namespace test_milp_planner {

using namespace orrery;
using namespace orrery::policies;

namespace {

std::unique_ptr<MemoryPlanner> planner(const std::string& name, const std::string& params = "{}") {
  MemoryPlannerRegistry registry("memory planner");
  register_memory_planners(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

bool has_cbc() {
  if (sim::find_program("cbc")) return true;
  WARN("skipped: CBC is not installed");
  return false;
}

std::vector<Buffer> random_buffers(sim::RandomStream& random, std::size_t count, std::int64_t steps, bool aligned) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    Buffer buffer;
    buffer.begin = random.integer(0, steps - 1);
    buffer.end = random.integer(buffer.begin + 1, steps);
    buffer.bytes = random.integer(1, 20) * 1000;
    if (aligned) buffer.alignment = 500 * (std::int64_t{1} << random.below(4));
    buffers.push_back(buffer);
  }
  return buffers;
}

/// Buffers whose smallest plan the simple planners all miss.
std::vector<Buffer> hard() {
  sim::RandomStream random(11, "hard");
  for (;;) {
    std::vector<Buffer> buffers = random_buffers(random, 7, 6, false);
    const std::int64_t best = test::brute_force_peak(buffers);
    bool missed = planner("milp", R"({"max_pairs": 0})")->plan(buffers).peak > best;
    for (const char* name : {"first_fit", "best_fit", "greedy_by_size"})
      missed = missed && planner(name)->plan(buffers).peak > best;
    if (missed) return buffers;
  }
}

}  // namespace

TEST_CASE("The program's plan is the smallest there is, aligned or not", "[prop]") {
  if (!has_cbc()) return;
  sim::RandomStream random(5, "milp");
  for (int round = 0; round < 60; ++round) {
    const std::vector<Buffer> buffers = random_buffers(random, 3 + random.below(5), 7, round % 2 == 1);
    INFO("round " << round);
    const Plan plan = planner("milp")->plan(buffers);
    REQUIRE(plan_fault(buffers, plan.offsets).value_or("") == "");
    REQUIRE(plan.peak == test::brute_force_peak(buffers));
  }
}

TEST_CASE("It finds what the simple planners miss, and a part with too many pairs is left to them", "[unit]") {
  if (!has_cbc()) return;
  const std::vector<Buffer> buffers = hard();
  const std::int64_t best = test::brute_force_peak(buffers);
  CHECK(planner("milp")->plan(buffers).peak == best);
  const std::int64_t left = planner("milp", R"({"max_pairs": 0})")->plan(buffers).peak;
  CHECK(left > best);
  CHECK(left <= planner("greedy_by_size")->plan(buffers).peak);
}

TEST_CASE("A part that a larger one hides is not solved further than that", "[unit]") {
  // The hard part, and later one buffer of twice its bytes: whatever the first part takes, the peak is the second.
  std::vector<Buffer> buffers = hard();
  std::int64_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += buffer.bytes;
  buffers.push_back({100, 101, 2 * bytes});
  CHECK(planner("milp", R"({"max_pairs": 0})")->plan(buffers).peak == 2 * bytes);
  CHECK(planner("milp")->plan(buffers).peak == 2 * bytes);
}

TEST_CASE("Without the solver it says what to install", "[unit]") {
  const std::vector<Buffer> buffers = hard();
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  try {
    (void)planner("milp")->plan(buffers);
    ::setenv("PATH", path.c_str(), 1);
    FAIL("expected a fault");
  } catch (const sim::ConfigError& error) {
    ::setenv("PATH", path.c_str(), 1);
    CHECK_THAT(error.faults().front().text(), Catch::Contains("coinor-cbc"));
  }
}

}  // namespace test_milp_planner
