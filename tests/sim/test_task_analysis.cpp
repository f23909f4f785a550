#include <catch2/catch.hpp>

#include "sim/task/analysis.hpp"
#include "tests/sim/task_support.hpp"

namespace test_task_analysis {

using namespace orrery::sim;
using namespace orrery::test;

namespace {

struct Expected {
  std::uint32_t task;
  std::int64_t begin, end;
  HeldBy held;
};

void check_path(TaskGraph& graph, const std::vector<Expected>& expected) {
  const auto runs = run_alone(graph);
  const CriticalPath path = critical_path(graph, runs, Time{0});
  REQUIRE(path.steps.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(path.steps[i].task.index == expected[i].task);
    CHECK(path.steps[i].begin.ticks == expected[i].begin);
    CHECK(path.steps[i].end.ticks == expected[i].end);
    CHECK(path.steps[i].held == expected[i].held);
  }
}

}  // namespace

TEST_CASE("the critical path tells what held each task", "[unit]") {
  // One machine, tasks 0 (4), 1 (3), 2 after 0 (5): 0 0-4, 1 4-7, 2 7-12; then 3 on another machine, behind 2.
  TaskGraph graph;
  const ResourceId m = graph.add_resource({});
  const ResourceId other = graph.add_resource({});
  graph.add({.duration = Duration{4}, .on = {m}});
  graph.add({.duration = Duration{3}, .on = {m}});
  graph.add({.duration = Duration{5}, .on = {m}, .after = {TaskId{0}}});
  graph.add({.duration = Duration{2}, .on = {other}, .after = {TaskId{2}}});
  check_path(graph, {{0, 0, 4, HeldBy::nothing},
                     {1, 4, 7, HeldBy::resource},
                     {2, 7, 12, HeldBy::resource},
                     {3, 12, 14, HeldBy::predecessor}});
}

TEST_CASE("release times and program order on the critical path", "[unit]") {
  // Stream of two slots: 0 is released at 6 and takes 2; 1 has waited behind it since 0, starts with it, and takes 9.
  TaskGraph graph;
  const ResourceId stream = graph.add_resource({.capacity = 2, .order = TaskOrder::program});
  graph.add({.duration = Duration{2}, .on = {stream}, .release = Time{6}});
  graph.add({.duration = Duration{9}, .on = {stream}});
  check_path(graph, {{0, 6, 6, HeldBy::release}, {1, 6, 15, HeldBy::order}});
  const auto runs = run_alone(graph);
  const CriticalPath path = critical_path(graph, runs, Time{0});
  CHECK(path.steps[0].wait == Duration{6});
  CHECK(path.steps[1].queued == Duration{6});
  CHECK(path.makespan() == Duration{15});
  CHECK(longest_path(graph).length == Duration{9});
}

TEST_CASE("the resource that was short is blamed, not another that was freed", "[unit]") {
  // Task 2 wants a and b. b (two units, one in use) is freed by 1 at 5, just as a is by 0: only a was short.
  TaskGraph graph;
  const ResourceId b = graph.add_resource({.name = "b", .capacity = 2});
  const ResourceId a = graph.add_resource({.name = "a"});
  graph.add({.duration = Duration{5}, .on = {b}});
  graph.add({.duration = Duration{5}, .on = {a}});
  graph.add({.duration = Duration{1}, .on = {b, a}});
  const auto runs = run_alone(graph);
  const CriticalPath path = critical_path(graph, runs, Time{0});
  REQUIRE(path.steps.size() == 2);
  CHECK(path.steps[1].by == TaskId{1});
  CHECK(path.steps[1].at == a);
}

TEST_CASE("the time of a resource is split", "[unit]") {
  // wide (3 of 4 units) 2-6, then 1 unit 6-8; a task of 2 units waits from 3 to 6 while 1 unit is idle.
  TaskGraph graph;
  const ResourceId r = graph.add_resource({.capacity = 4});
  const TaskId wide = graph.add({.duration = Duration{4}, .on = {{r, 3}}, .release = Time{2}});
  graph.add({.duration = Duration{2}, .on = {{r, 2}}, .release = Time{3}});
  graph.add({.duration = Duration{4}, .after = {wide}});
  const auto runs = run_alone(graph);
  const ResourceUse use = resource_use(graph, runs, Time{0}).at(0);
  CHECK(use.tasks == 2);
  CHECK(static_cast<std::int64_t>(use.busy) == 3 * 4 + 2 * 2);
  CHECK(static_cast<std::int64_t>(use.idle_before) == 4 * 2);
  CHECK(static_cast<std::int64_t>(use.idle_starved) == 1 * 1 + 2 * 2);  // 2-3 with nobody waiting, 6-8
  CHECK(static_cast<std::int64_t>(use.idle_blocked) == 1 * 3);          // 3-6
  CHECK(static_cast<std::int64_t>(use.idle_after) == 4 * 2);            // 8-10
  CHECK(use.utilisation() == Approx(0.4));
}

TEST_CASE("lengths and waits of any run add up, and nothing beats the bound", "[prop]") {
  RandomStream random(9, "paths");
  int held[6] = {};
  for (int round = 0; round < 3000; ++round) {
    const Shape shape{.tasks = 5 + random.below(25), .edges = 0.02 + 0.15 * random.uniform()};
    const PlainGraph plain_graph = random_graph(random, shape);
    TaskGraph graph = build(plain_graph);
    const auto runs = run_alone(graph);
    Time end;
    for (const TaskRun& run : runs) end = std::max(end, run.finish);
    const CriticalPath path = critical_path(graph, runs, Time{0});
    REQUIRE(path.makespan() == end - Time{0});
    for (std::size_t i = 0; i < path.steps.size(); ++i) {
      const PathStep& step = path.steps[i];
      ++held[static_cast<int>(step.held)];
      REQUIRE(step.begin == runs[step.task.index].start);
      REQUIRE(step.length() >= Duration{0});
      REQUIRE((i == 0 || (step.by == path.steps[i - 1].task && step.begin == path.steps[i - 1].end)));
      REQUIRE((i == 0 || step.wait == Duration{0}));
    }
    REQUIRE(path.steps.front().held != HeldBy::added);
    REQUIRE(makespan_bound(graph, runs) <= end - Time{0});
    const auto uses = resource_use(graph, runs, Time{0});
    for (std::uint32_t r = 0; r < uses.size(); ++r)
      REQUIRE(uses[r].busy + uses[r].idle() == static_cast<__int128>(graph.capacity({r})) * end.ticks);
  }
  for (const int reason : {0, 1, 2, 4, 5}) CHECK(held[reason] > 100);  // or the check saw too little
}

TEST_CASE("no schedule beats the work of a resource over its units", "[unit]") {
  // Of four units: 3 for 5 ticks and 2 for 4 are 23, which takes 6 ticks at least; the longest task takes 5.
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({.capacity = 4});
  const ResourceId other = graph.add_resource({});
  graph.add({.duration = Duration{5}, .on = {{machine, 3}}});
  CHECK(makespan_bound(graph) == Duration{5});
  graph.add({.duration = Duration{4}, .on = {{machine, 2}}});
  CHECK(makespan_bound(graph) == Duration{6});
  graph.add({.duration = Duration{1}, .on = {machine}});  // 24
  CHECK(makespan_bound(graph) == Duration{6});
  graph.add({.duration = Duration{3}, .on = {other}});
  graph.add({.duration = Duration{4}, .on = {other}});
  CHECK(makespan_bound(graph) == Duration{7});  // the other one has 3 + 4
  graph.add({.duration = Duration{8}});
  CHECK(makespan_bound(graph) == Duration{8});
}

TEST_CASE("list scheduling on m machines keeps Graham's bound", "[theory]") {
  // R. L. Graham, Bounds on multiprocessing timing anomalies, 1969: makespan <= work / m + (1 - 1/m) longest path.
  RandomStream random(10, "graham");
  for (int round = 0; round < 400; ++round) {
    Shape shape{.tasks = 60, .resources = 1, .capacity = 8, .durations = 50, .edges = 0.06, .several = 0};
    shape.milestone = shape.released = shape.flow = 0;
    std::erase(shape.orders, TaskOrder::program);
    PlainGraph plain_graph = random_graph(random, shape);
    std::int64_t work = 0;
    for (PlainTask& task : plain_graph.tasks) {
      task.on = {ResourceId{0}};
      work += task.duration;
    }
    TaskGraph graph = build(plain_graph);
    const auto runs = run_alone(graph);
    std::int64_t end = 0;
    for (const TaskRun& run : runs) end = std::max(end, run.finish.ticks);
    const std::int64_t m = plain_graph.capacity[0];
    const std::int64_t longest = longest_path(graph).length.ticks;
    REQUIRE(m * end <= work + (m - 1) * longest);
    REQUIRE(end >= longest);
    REQUIRE(m * end >= work);
  }
}

TEST_CASE("the longest path", "[unit]") {
  // 0 (3) -> 2 (4), 1 (5) -> 2, 3 released at 20 (1) behind 2: 1 2 is 9, and 3 starts anew.
  TaskGraph graph;
  graph.add({.duration = Duration{3}});
  graph.add({.duration = Duration{5}});
  graph.add({.duration = Duration{4}, .after = {TaskId{0}, TaskId{1}}});
  CHECK(longest_path(graph).tasks == std::vector<TaskId>{{1}, {2}});
  CHECK(longest_path(graph).length == Duration{9});
  graph.add({.duration = Duration{1}, .after = {TaskId{2}}, .release = Time{20}});
  CHECK(longest_path(graph).tasks == std::vector<TaskId>{{3}});
  CHECK(longest_path(graph).length == Duration{21});
}

}  // namespace test_task_analysis
