#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

TEST_CASE("refusals of a task graph, word by word", "[unit]") {
  TaskGraph graph;
  const ResourceId gpu = graph.add_resource({.name = "gpu", .capacity = 2});
  graph.add({.duration = Duration{1}, .name = "first"});
  orrery::test::ScrambledKey key;
  const auto added = [&](const TaskSpec& spec) { return refusal([&] { graph.add(spec); }); };
  const std::string of = "task graph: ";
  CHECK(refusal([&] { graph.add_resource({.capacity = 0}); }) ==
        of + "resource 1: expected a capacity of at least 1, got 0");
  CHECK(refusal([&] { graph.add_resource({.name = "k", .order = TaskOrder::custom}); }) ==
        of + "resource 1 'k': a key belongs to the custom order, and the custom order needs one");
  CHECK(refusal([&] { graph.add_resource({.order = TaskOrder::lifo, .key = &key}); }) ==
        of + "resource 1: a key belongs to the custom order, and the custom order needs one");
  CHECK(graph.add_resource({.order = TaskOrder::custom, .key = &key}).index == 1);
  CHECK(graph.key(ResourceId{1}) == &key);
  CHECK(added({.duration = Duration{-1}}) == of + "task 1: negative duration (-1 ticks)");
  CHECK(added({.release = Time{-1}}) == of + "task 1: negative release time (-1 ticks)");
  CHECK(added({.flow = FlowSpec{.bytes = -1}}) == of + "task 1: flow of -1 bytes");
  CHECK(added({.duration = Duration{1}, .flow = FlowSpec{}, .name = "f"}) ==
        of + "task 1 'f': has a flow and a duration, expected one of them");
  CHECK(added({.on = {ResourceId{2}}}) == of + "task 1: there is no resource 2");
  CHECK(added({.on = {{gpu, 0}}}) == of + "task 1: demands 0 units of resource 0 'gpu', expected at least 1");
  CHECK(added({.on = {{gpu, 3}}}) == of + "task 1: demands 3 units of resource 0 'gpu', which has 2");
  CHECK(added({.on = {gpu, ResourceId{1}, gpu}}) == of + "task 1: demands resource 0 'gpu' twice");
  CHECK(added({.after = {TaskId{0}, TaskId{1}}}) == of + "task 1: waits for task 1, which there is not yet");
  CHECK(refusal([&] { graph.add_dependency(TaskId{0}, TaskId{0}); }) == of + "task 0 'first' would wait for itself");
  CHECK(refusal([&] { graph.add_dependency(TaskId{1}, TaskId{0}); }) ==
        of + "dependency of task 0 on 1: there is no task 1");
  CHECK(refusal([&] { graph.add_dependency(TaskId{0}, TaskId{1}); }) ==
        of + "dependency of task 1 on 0: there is no task 1");
  CHECK(graph.edges() == 0);
  CHECK_FALSE(graph.has_flows());
  // The ends of what is allowed.
  CHECK(added({.on = {{gpu, 2}}}) == "accepted");
  CHECK(added({.flow = FlowSpec{}}) == "accepted");
  CHECK(added({.duration = Duration{0}, .release = Time{0}}) == "accepted");
  CHECK(graph.has_flows());
}

TEST_CASE("flows, durations and releases of tasks stay apart", "[unit]") {
  TaskGraph graph;
  const ResourceId a = graph.add_resource({.capacity = 3});
  const TaskId one = graph.add({.flow = FlowSpec{.path = 1, .bytes = 10, .label = 2}, .on = {{a, 2}}, .priority = 7});
  const TaskId two = graph.add({.duration = Duration{30}, .on = {{a, 2}}});
  const TaskId three = graph.add({.flow = FlowSpec{.path = 3, .bytes = 20, .label = 4}, .release = Time{5}});
  CHECK(graph.is_flow(one));
  CHECK_FALSE(graph.is_flow(two));
  CHECK(graph.flow(three).path == 3);
  CHECK(graph.flow(three).label == 4);
  CHECK(graph.flow(one).label == 2);
  CHECK(graph.work(one) == 10);
  CHECK(graph.work(two) == 30);
  CHECK(graph.work(three) == 20);
  CHECK(graph.duration(three) == Duration{0});
  CHECK(graph.release(three) == Time{5});
  CHECK(graph.release(one) == Time{0});
  CHECK(graph.priority(one) == 7);
  CHECK(graph.priority(two) == 0);
  CHECK(graph.demand_set_of(one) == graph.demand_set_of(two));
  CHECK(graph.demand_set_of(three) == 0);
  CHECK(graph.first_demand(graph.demand_set_of(one)) == 0);
  const TaskId four = graph.add({.on = {a}});
  CHECK(graph.first_demand(graph.demand_set_of(four)) == 1);
  CHECK(graph.demand_set(graph.demand_set_of(four)).size() == 1);
}

TEST_CASE("names are kept only where they were given", "[unit]") {
  TaskGraph graph;
  const ResourceId a = graph.add_resource({});
  const ResourceId b = graph.add_resource({.name = "b"});
  for (const char* name : {"", "one", "", "", "two", "three", ""}) graph.add({.name = name});
  std::string all;
  for (std::uint32_t t = 0; t < 7; ++t) all += "[" + std::string(graph.name(TaskId{t})) + "]";
  CHECK(all == "[][one][][][two][three][]");
  CHECK(graph.describe(TaskId{5}) == "task 5 'three'");
  CHECK(graph.describe(TaskId{6}) == "task 6");
  CHECK(graph.describe(a) == "resource 0");
  CHECK(graph.describe(b) == "resource 1 'b'");
  CHECK(graph.name(b) == "b");
}

TEST_CASE("only a task that waits for a later one may close a cycle", "[unit]") {
  TaskGraph graph;
  const TaskId a = graph.add({}), b = graph.add({});
  CHECK_FALSE(graph.may_have_cycle());
  graph.add_dependency(a, b);
  CHECK_FALSE(graph.may_have_cycle());
  CHECK_NOTHROW(graph.check_cycles());
  graph.add_dependency(b, a);
  CHECK(graph.may_have_cycle());
  CHECK_THROWS_AS(graph.check_cycles(), TaskCycle);
}

namespace {

/// What check_cycles() says of tasks 0 … n - 1 in a ring, with some before it and behind it.
std::string ring(std::uint32_t n) {
  TaskGraph graph;
  for (std::uint32_t t = 0; t < n; ++t) graph.add({});
  for (std::uint32_t t = 0; t < n; ++t) graph.add_dependency(TaskId{t}, TaskId{(t + 1) % n});
  const TaskId before = graph.add({}), behind = graph.add({.after = {TaskId{0}}});
  graph.add({.after = {behind}});
  graph.add_dependency(before, TaskId{n - 1});
  try {
    graph.check_cycles();
  } catch (const TaskCycle& cycle) {
    CHECK(cycle.tasks.size() == n);
    CHECK(cycle.tasks.front() == TaskId{0});
    CHECK(cycle.tasks.back() == TaskId{n - 1});
    return cycle.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a cycle is named from its lowest task, the first twelve of it", "[unit]") {
  const std::string says = "task graph: tasks wait for each other: ";
  CHECK(ring(2) == says + "task 0 -> task 1 -> task 0");
  const std::string twelve =
      "task 0 -> task 1 -> task 2 -> task 3 -> task 4 -> task 5 -> task 6 -> task 7 -> task 8 -> task 9 -> task 10 -> "
      "task 11 -> ";
  CHECK(ring(12) == says + twelve + "task 0");
  CHECK(ring(13) == says + twelve + "… (1 more) -> task 0");
  CHECK(ring(20) == says + twelve + "… (8 more) -> task 0");
}

TEST_CASE("of several cycles one is named, whatever the order of the dependencies", "[unit]") {
  for (const bool swapped : {false, true}) {
    TaskGraph graph;
    for (int t = 0; t < 6; ++t) graph.add({});
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges{{4, 5}, {5, 4}, {1, 3}, {3, 1}, {2, 3}, {3, 2}, {5, 1}};
    if (swapped) std::reverse(edges.begin(), edges.end());
    for (const auto& [before, after] : edges) graph.add_dependency(TaskId{before}, TaskId{after});
    try {
      graph.check_cycles();
      FAIL("accepted");
    } catch (const TaskCycle& cycle) {
      CHECK(cycle.tasks == std::vector<TaskId>{{1}, {3}});
    }
  }
}

TEST_CASE("the queue of ready tasks, by key, then readiness, then tie", "[unit]") {
  ReadyQueue queue;
  CHECK(queue.empty());
  queue.push({5, 1, 1}, 10);
  queue.push({5, 2, 0}, 11);  // behind it
  queue.push({5, 1, 0}, 12);  // before both
  queue.push({4, 9, 9}, 13);
  queue.push({5, 2, 0}, 14);  // alike: behind 11
  CHECK(queue.size() == 5);
  CHECK(queue.front_key() == OrderKey{4, 9, 9});
  CHECK_FALSE(queue.remove(99));
  CHECK(queue.remove(13));
  std::vector<std::uint32_t> order;
  for (; !queue.empty(); queue.pop()) order.push_back(queue.front());
  CHECK(order == std::vector<std::uint32_t>{12, 10, 11, 14});
  CHECK_FALSE(queue.remove(10));  // served
  for (std::uint32_t i = 0; i < 200; ++i) queue.push({0, 0, i}, i);
  for (std::uint32_t i = 0; i < 150; ++i) queue.pop();
  CHECK_FALSE(queue.remove(149));
  CHECK(queue.remove(150));
  CHECK(queue.front() == 151);
  CHECK(queue.size() == 49);
}

}  // namespace test_task_graph
