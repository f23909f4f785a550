// The executor against a slow simulator of its rule, on thousands of small random graphs.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "tests/sim/layered_dag.hpp"
#include "tests/sim/task_support.hpp"

namespace test_task_reference {

using namespace orrery::sim;
using namespace orrery::test;

namespace {

void check_against_reference(const char* stream, const Shape& shape, int rounds) {
  RandomStream random(1, stream);
  for (int round = 0; round < rounds; ++round) {
    const PlainGraph plain_graph = random_graph(random, shape);
    TaskGraph graph = build(plain_graph);
    const auto runs = plain(run_alone(graph, round % 2 == 0));
    const auto expected = ReferenceSimulator(plain_graph).run();
    for (std::size_t t = 0; t < runs.size(); ++t) {
      CAPTURE(stream, round, t, runs[t].ready, runs[t].start, runs[t].finish);
      CAPTURE(expected[t].ready, expected[t].start, expected[t].finish);
      REQUIRE(runs[t] == expected[t]);
    }
  }
}

}  // namespace

TEST_CASE("task graphs of all kinds run as the slow simulator says", "[prop]") {
  check_against_reference("all kinds", {}, 4000);
  check_against_reference("many resources", {.tasks = 20, .resources = 6, .capacity = 2, .edges = 0.08, .several = 0.5},
                          1500);
  check_against_reference("no time", {.tasks = 16, .durations = 2, .edges = 0.1, .milestone = 0.3}, 2000);
  check_against_reference("crowded", {.tasks = 30, .resources = 2, .capacity = 4, .edges = 0.02, .released = 0.4}, 500);
}

TEST_CASE("every order runs as the slow simulator says", "[prop]") {
  for (const TaskOrder order : Shape{}.orders) {
    const std::string name = std::to_string(static_cast<int>(order));
    check_against_reference(("alone " + name).c_str(), {.several = 0, .orders = {order}}, 500);
    check_against_reference(("units " + name).c_str(),
                            {.resources = 1, .capacity = 5, .edges = 0.05, .orders = {order}}, 500);
    check_against_reference(("several " + name).c_str(), {.several = 0.7, .orders = {order}}, 500);
    check_against_reference(("streams " + name).c_str(), {.several = 0.7, .orders = {order, TaskOrder::program}}, 500);
  }
}

}  // namespace test_task_reference
