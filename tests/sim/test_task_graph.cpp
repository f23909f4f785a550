#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

#include "sim/task/ready_queue.hpp"
#include "tests/sim/task_support.hpp"

namespace test_task_graph {

using namespace orrery::sim;
using Catch::Contains;
using Catch::Message;

namespace {

template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a task graph holds what it was given", "[unit]") {
  TaskGraph graph;
  const ResourceId gpu = graph.add_resource({.name = "gpu", .capacity = 4, .order = TaskOrder::priority});
  const ResourceId link = graph.add_resource({.name = "link"});
  const TaskId load = graph.add({.flow = FlowSpec{.path = 7, .bytes = 4096, .label = 3}, .on = {link}, .name = "load"});
  const TaskId gemm = graph.add({.duration = Duration{50}, .on = {{gpu, 3}, link}, .after = {load}, .priority = -2});
  const std::vector<TaskId> both{load, gemm};
  const TaskId end = graph.add({.after = both, .release = Time{9}, .name = "end"});
  CHECK(graph.tasks() == 3);
  CHECK(graph.edges() == 3);
  CHECK(graph.is_flow(load));
  CHECK(graph.flow(load).path == 7);
  CHECK(graph.work(load) == 4096);
  CHECK(graph.duration(load) == Duration{0});
  CHECK(graph.duration(gemm) == Duration{50});
  CHECK(graph.priority(gemm) == -2);
  CHECK(graph.release(end) == Time{9});
  CHECK(graph.predecessors(end) == 2);
  CHECK(graph.demands(end).empty());
  CHECK(std::vector<Demand>(graph.demands(gemm).begin(), graph.demands(gemm).end()) ==
        std::vector<Demand>{{gpu, 3}, {link, 1}});
  CHECK(graph.name(load) == "load");
  CHECK(graph.name(gemm).empty());
  CHECK(graph.describe(end) == "task 2 'end'");
  CHECK(graph.describe(gemm) == "task 1");
  std::vector<std::uint32_t> after_load;
  graph.for_each_successor(load, [&](TaskId task) { after_load.push_back(task.index); });
  std::sort(after_load.begin(), after_load.end());
  CHECK(after_load == std::vector<std::uint32_t>{1, 2});
}

TEST_CASE("equal demands are kept once", "[unit]") {
  TaskGraph graph;
  const ResourceId a = graph.add_resource({.capacity = 2});
  const ResourceId b = graph.add_resource({});
  const TaskId one = graph.add({.on = {a}});
  const TaskId two = graph.add({.on = {{a, 2}}});
  const TaskId pair = graph.add({.on = {a, b}});
  CHECK(graph.demand_set_of(graph.add({.on = {{a, 1}}})) == graph.demand_set_of(one));
  CHECK(graph.demand_set_of(graph.add({.on = {{a, 2}}})) == graph.demand_set_of(two));
  CHECK(graph.demand_set_of(graph.add({.on = {a, b}})) == graph.demand_set_of(pair));
  CHECK(graph.demand_set_of(graph.add({.on = {b, a}})) != graph.demand_set_of(pair));  // ordered by b first
  CHECK(graph.demand_sets() == 5);                                                     // {}, {a}, {2 a}, {a, b}, {b, a}
}

TEST_CASE("what makes no sense is refused, and says why", "[unit]") {
  TaskGraph graph;
  const ResourceId gpu = graph.add_resource({.name = "gpu", .capacity = 2});
  const TaskId first = graph.add({.duration = Duration{1}, .on = {gpu}, .name = "first"});
  orrery::test::ScrambledKey key;
  CHECK_THAT(refusal([&] { graph.add_resource({.name = "nic", .capacity = 0}); }),
             Contains("resource 1 'nic': expected a capacity of at least 1, got 0"));
  CHECK_THAT(refusal([&] { graph.add_resource({.order = TaskOrder::custom}); }), Contains("needs one"));
  CHECK_THAT(refusal([&] { graph.add_resource({.key = &key}); }), Contains("custom order"));
  CHECK_THAT(refusal([&] { graph.add({.duration = Duration{-1}, .name = "x"}); }),
             Contains("task 1 'x': negative duration (-1 ticks)"));
  CHECK_THAT(refusal([&] { graph.add({.release = Time{-5}}); }), Contains("task 1: negative release time"));
  CHECK_THAT(refusal([&] { graph.add({.flow = FlowSpec{.bytes = -1}}); }), Contains("flow of -1 bytes"));
  CHECK_THAT(refusal([&] { graph.add({.duration = Duration{1}, .flow = FlowSpec{.bytes = 1}}); }),
             Contains("one of them"));
  CHECK_THAT(refusal([&] {
               graph.add({.on = {{gpu, 3}}});
             }),
             Contains("demands 3 units of resource 0 'gpu', which has 2"));
  CHECK_THAT(refusal([&] { graph.add({.on = {{gpu, 0}}}); }), Contains("expected at least 1"));
  CHECK_THAT(refusal([&] { graph.add({.on = {gpu, gpu}}); }), Contains("demands resource 0 'gpu' twice"));
  CHECK_THAT(refusal([&] { graph.add({.on = {ResourceId{8}}}); }), Contains("there is no resource 8"));
  CHECK_THAT(refusal([&] { graph.add({.after = {TaskId{1}}}); }), Contains("waits for task 1, which there is not yet"));
  CHECK_THAT(refusal([&] { graph.add_dependency(first, first); }), Contains("task 0 'first' would wait for itself"));
  CHECK_THAT(refusal([&] { graph.add_dependency(first, TaskId{4}); }), Contains("there is no task 4"));
  CHECK(graph.tasks() == 1);  // nothing was half added
  CHECK(graph.edges() == 0);
  CHECK(graph.resources() == 1);
}

TEST_CASE("a cycle is found at the start and named", "[unit]") {
  Engine engine;
  TaskGraph graph;
  const TaskId a = graph.add({.name = "a"});
  const TaskId b = graph.add({.after = {a}, .name = "b"});
  const TaskId c = graph.add({.after = {b}, .name = "c"});
  graph.add({.after = {c}, .name = "behind"});
  graph.add_dependency(c, a);
  TaskExecutor executor(engine, graph);
  CHECK_THROWS_MATCHES(
      executor.start(), TaskCycle,
      Message("task graph: tasks wait for each other: task 0 'a' -> task 1 'b' -> task 2 'c' -> task 0 'a'"));
}

TEST_CASE("a backward dependency alone is no cycle", "[unit]") {
  TaskGraph graph;
  const TaskId late = graph.add({.duration = Duration{1}});
  const TaskId early = graph.add({.duration = Duration{2}});
  graph.add_dependency(early, late);
  const auto runs = orrery::test::run_alone(graph);
  CHECK(runs[late.index].start == Time{2});
}

TEST_CASE("program order against a dependency is a cycle", "[unit]") {
  // The stream wants `first` before `second`, the dependency the other way round.
  Engine engine;
  TaskGraph graph;
  const ResourceId stream = graph.add_resource({.order = TaskOrder::program});
  const TaskId first = graph.add({.on = {stream}});
  graph.add({.on = {stream}});
  const TaskId between = graph.add({.after = {TaskId{1}}});
  graph.add_dependency(between, first);
  TaskExecutor executor(engine, graph);
  try {
    executor.start();
    FAIL("accepted");
  } catch (const TaskCycle& cycle) {
    CHECK(cycle.tasks == std::vector<TaskId>{{0}, {1}, {2}});
  }
}

TEST_CASE("the queue of ready tasks gives them back sorted", "[prop]") {
  RandomStream random(3, "ready queue");
  for (int round = 0; round < 200; ++round) {
    ReadyQueue queue;
    std::vector<OrderKey> waiting;
    const std::uint64_t values = 1 + random.below(200);
    for (std::uint32_t i = 0; i < 400; ++i) {
      const std::uint64_t act = random.below(10);
      if (act < 5 || waiting.empty()) {
        const OrderKey key{static_cast<std::int64_t>(random.below(values)), static_cast<std::int64_t>(random.below(3)),
                           i};
        queue.push(key, i);
        waiting.push_back(key);
      } else if (act < 9) {
        const auto least = std::min_element(waiting.begin(), waiting.end());
        REQUIRE(queue.front() == least->tie);
        REQUIRE(queue.front_key() == *least);
        queue.pop();
        waiting.erase(least);
      } else {
        const auto at = waiting.begin() + static_cast<std::ptrdiff_t>(random.below(waiting.size()));
        CHECK(queue.remove(static_cast<std::uint32_t>(at->tie)));
        CHECK_FALSE(queue.remove(static_cast<std::uint32_t>(at->tie)));
        waiting.erase(at);
      }
      REQUIRE(queue.size() == waiting.size());
      REQUIRE(queue.empty() == waiting.empty());
    }
  }
}

}  // namespace test_task_graph
