#include <catch2/catch.hpp>
#include <functional>
#include <span>
#include <vector>

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

namespace {

/// A run made up by hand.
TaskRun run_of(std::int64_t ready, std::int64_t start, std::int64_t finish) {
  return {.ready = Time{ready}, .start = Time{start}, .finish = Time{finish}};
}

}  // namespace

TEST_CASE("runs that are not complete, or of another graph, are refused", "[unit]") {
  TaskGraph graph;
  graph.add({.duration = Duration{4}});
  graph.add({.duration = Duration{4}, .name = "late"});
  const std::vector<TaskRun> one{run_of(0, 0, 4)};
  const std::vector<TaskRun> open{run_of(0, 0, 4), {.ready = Time{0}, .start = Time{0}}};
  for (const auto& ask : std::vector<std::function<void(std::span<const TaskRun>)>>{
           [&](auto runs) { critical_path(graph, runs, Time{0}); },
           [&](auto runs) { longest_path(graph, runs, Time{0}); },
           [&](auto runs) { makespan_bound(graph, runs, Time{0}); },
           [&](auto runs) { resource_use(graph, runs, Time{0}); }}) {
    CHECK_THROWS_WITH(ask(one), "task analysis: the run is not one of this graph");
    CHECK_THROWS_WITH(ask(open), "task analysis: task 1 'late' has not finished");
  }
  CHECK(critical_path(TaskGraph{}, {}, Time{5}).steps.empty());
  CHECK(critical_path(TaskGraph{}, {}, Time{5}).makespan() == Duration{0});
  CHECK(longest_path(TaskGraph{}).tasks.empty());
  CHECK(longest_path(TaskGraph{}).length == Duration{0});
  CHECK(makespan_bound(TaskGraph{}) == Duration{0});
}

TEST_CASE("of several that end last or hold back, the lowest is named", "[unit]") {
  TaskGraph graph;
  for (int i = 0; i < 2; ++i) graph.add({.duration = Duration{5}});
  graph.add({.duration = Duration{3}, .after = {TaskId{1}, TaskId{0}}});
  graph.add({.duration = Duration{3}, .after = {TaskId{1}, TaskId{0}}});
  check_path(graph, {{0, 0, 5, HeldBy::nothing}, {2, 5, 8, HeldBy::predecessor}});
  // The one that ended last held it back, also where another has the lower id.
  TaskGraph later;
  later.add({.duration = Duration{4}});
  later.add({.duration = Duration{5}});
  later.add({.duration = Duration{1}, .after = {TaskId{0}, TaskId{1}}});
  check_path(later, {{1, 0, 5, HeldBy::nothing}, {2, 5, 6, HeldBy::predecessor}});
}

TEST_CASE("what was added, and what was released, held itself back", "[unit]") {
  // Origin 10. Task 0 was released at 13; 1 was added at 15, when nothing held it; 2 waits for 0, but was released
  // later, at 20; 3 began at the origin.
  TaskGraph graph;
  const TaskId a = graph.add({.duration = Duration{2}, .release = Time{13}});
  graph.add({.duration = Duration{2}});
  graph.add({.duration = Duration{2}, .after = {a}, .release = Time{20}});
  graph.add({.duration = Duration{2}});
  const auto last = [&](std::vector<TaskRun> runs, std::size_t of) {
    runs[of].finish = Time{100};
    const CriticalPath path = critical_path(graph, runs, Time{10});
    CHECK(path.makespan() == Duration{90});
    REQUIRE(path.steps.size() == 1);
    CHECK(path.steps[0].task.index == of);
    CHECK(path.steps[0].wait == runs[of].start - Time{10});
    CHECK(path.steps[0].queued == Duration{0});
    return path.steps[0].held;
  };
  const std::vector<TaskRun> runs{run_of(13, 13, 15), run_of(15, 15, 17), run_of(20, 20, 22), run_of(10, 10, 12)};
  CHECK(last(runs, 0) == HeldBy::release);
  CHECK(last(runs, 1) == HeldBy::added);
  CHECK(last(runs, 2) == HeldBy::release);
  CHECK(last(runs, 3) == HeldBy::nothing);
}

TEST_CASE("a resource holds back by its units: the first demand that was short, the lowest that freed it", "[unit]") {
  // 0 and 1 take a unit each of three until 4; 2 takes one until 6; 3 wants two, from 0, and gets them at 4.
  TaskGraph graph;
  const ResourceId r = graph.add_resource({.capacity = 3});
  for (const std::int64_t length : {4, 4, 6}) graph.add({.duration = Duration{length}, .on = {r}});
  graph.add({.duration = Duration{9}, .on = {{r, 2}}});
  const CriticalPath path = critical_path(graph, run_alone(graph), Time{0});
  REQUIRE(path.steps.size() == 2);
  CHECK(path.steps[1].held == HeldBy::resource);
  CHECK(path.steps[1].by == TaskId{0});
  CHECK(path.steps[1].at == r);
  CHECK(path.steps[1].queued == Duration{4});
  CHECK(path.steps[1].begin == Time{4});
  CHECK(path.steps[0].end == Time{4});
  CHECK(path.steps[0].wait == Duration{0});
  CHECK(path.makespan() == Duration{13});
  // A run that no resource can explain is refused.
  for (const std::int64_t start : {3, 5}) {  // nobody ends then: at 3 it had not enough, at 5 it had
    const std::vector<TaskRun> runs{run_of(0, 0, 4), run_of(0, 0, 4), run_of(0, 0, 6), run_of(0, start, 14)};
    CHECK_THROWS_WITH(critical_path(graph, runs, Time{0}), "task analysis: nothing held back task 3");
  }
}

TEST_CASE("a task that took no time frees nothing that was held before", "[unit]") {
  // One machine: 0 until 4; 1 waits, takes no time at 4; 2 waits too, and starts at 4 behind it. What held 2 back is 0.
  TaskGraph graph;
  const ResourceId m = graph.add_resource({});
  graph.add({.duration = Duration{4}, .on = {m}});
  graph.add({.on = {m}});
  graph.add({.duration = Duration{3}, .on = {m}});
  const CriticalPath path = critical_path(graph, run_alone(graph), Time{0});
  REQUIRE(path.steps.size() == 2);
  CHECK(path.steps[0].task == TaskId{0});
  CHECK(path.steps[1].task == TaskId{2});
  CHECK(path.steps[1].by == TaskId{0});
}

TEST_CASE("program order holds back where the one before started just then", "[unit]") {
  // A stream of three: 0 is released at 6; 1 and 2 wait behind it since 0 and start with it, 1 by 0 and 2 by 1.
  TaskGraph graph;
  const ResourceId other = graph.add_resource({.capacity = 9});
  const ResourceId stream = graph.add_resource({.capacity = 3, .order = TaskOrder::program});
  graph.add({.duration = Duration{2}, .on = {stream}, .release = Time{6}});
  graph.add({.duration = Duration{2}, .on = {other, stream}});
  graph.add({.duration = Duration{9}, .on = {stream}});
  const CriticalPath path = critical_path(graph, run_alone(graph), Time{0});
  REQUIRE(path.steps.size() == 3);
  CHECK(path.steps[2].held == HeldBy::order);
  CHECK(path.steps[2].by == TaskId{1});
  CHECK(path.steps[2].at == stream);
  CHECK(path.steps[1].by == TaskId{0});
  CHECK(path.steps[0].held == HeldBy::release);
  CHECK(path.steps[1].length() == Duration{0});
  CHECK(path.makespan() == Duration{15});
}

TEST_CASE("the longest path: ties, releases, flows as they went and the origin", "[unit]") {
  TaskGraph graph;
  const TaskId a = graph.add({.duration = Duration{5}});
  const TaskId b = graph.add({.duration = Duration{5}});
  graph.add({.duration = Duration{2}, .after = {b, a}});  // of two alike the lower
  graph.add({.duration = Duration{7}});                   // as long: the lower end is taken
  CHECK(longest_path(graph).tasks == std::vector<TaskId>{{0}, {2}});
  CHECK(longest_path(graph).length == Duration{7});
  const TaskId flow = graph.add({.flow = FlowSpec{.bytes = 3}, .after = {a}});
  graph.add({.duration = Duration{1}, .after = {flow}});
  CHECK(longest_path(graph).length == Duration{7});  // a flow takes no time
  std::vector<TaskRun> runs;
  for (int i = 0; i < 6; ++i) runs.push_back(run_of(0, 20, 21));
  runs[flow.index] = run_of(0, 20, 24);  // it took 4: 5 + 4 + 1
  CHECK(longest_path(graph, runs).tasks == std::vector<TaskId>{{0}, {4}, {5}});
  CHECK(longest_path(graph, runs).length == Duration{10});
  CHECK(makespan_bound(graph, runs) == Duration{10});
  // A longer predecessor takes the place of a shorter one, whichever is seen first.
  for (const bool first : {true, false}) {
    TaskGraph two;
    two.add({.duration = Duration{first ? 9 : 4}});
    two.add({.duration = Duration{first ? 4 : 9}});
    two.add({.duration = Duration{1}, .after = {TaskId{0}, TaskId{1}}});
    CHECK(longest_path(two).tasks == std::vector<TaskId>{{first ? 0U : 1U}, {2}});
    CHECK(longest_path(two).length == Duration{10});
  }
  // Releases count from the origin.
  TaskGraph released;
  const TaskId first = released.add({.duration = Duration{5}, .release = Time{100}});
  released.add({.duration = Duration{5}, .after = {first}, .release = Time{105}});
  CHECK(longest_path(released, {}, Time{90}).length == Duration{20});
  CHECK(longest_path(released, {}, Time{90}).tasks.size() == 2);  // released just when the first ended
  CHECK(longest_path(released, {}, Time{200}).length == Duration{10});
  const TaskId third = released.add({.duration = Duration{1}, .after = {TaskId{1}}, .release = Time{111}});
  released.add({.duration = Duration{1}, .after = {third}});
  CHECK(longest_path(released, {}, Time{90}).tasks == std::vector<TaskId>{{2}, {3}});  // anew from the third
  released.add_dependency(third, first);
  CHECK_THROWS_AS(longest_path(released), TaskCycle);
}

TEST_CASE("the bound counts the work of flows as they went, by units", "[unit]") {
  TaskGraph graph;
  const ResourceId r = graph.add_resource({.capacity = 2});
  graph.add({.flow = FlowSpec{.bytes = 1}, .on = {{r, 2}}});
  graph.add({.flow = FlowSpec{.bytes = 1}, .on = {r}});
  graph.add({.duration = Duration{4}, .on = {r}});
  CHECK(makespan_bound(graph) == Duration{4});  // one task of 4; of work there is 4 / 2
  // 3 ticks of two, 6 of one, 4 of one: 16 / 2. What is no flow counts as given, however it went.
  const std::vector<TaskRun> runs{run_of(0, 0, 3), run_of(0, 4, 10), run_of(0, 0, 40)};
  CHECK(makespan_bound(graph, runs) == Duration{8});
}

TEST_CASE("the time of a resource with several pauses, and of one that is never used", "[unit]") {
  // Origin 10; a task at 12-15 and one at 20-24 that waited since 18, while it lacked something else; end at 30.
  TaskGraph graph;
  const ResourceId used = graph.add_resource({}), idle = graph.add_resource({.capacity = 3});
  graph.add({.duration = Duration{3}, .on = {used}});
  graph.add({.duration = Duration{4}, .on = {used}});
  graph.add({.duration = Duration{20}});
  const std::vector<TaskRun> runs{run_of(12, 12, 15), run_of(18, 20, 24), run_of(10, 10, 30)};
  const auto uses = resource_use(graph, runs, Time{10});
  REQUIRE(uses.size() == 2);
  const ResourceUse& use = uses[used.index];
  CHECK(use.tasks == 2);
  CHECK(use.busy == 7);
  CHECK(use.idle_before == 2);
  CHECK(use.idle_starved == 3);  // 15-18
  CHECK(use.idle_blocked == 2);  // 18-20
  CHECK(use.idle_after == 6);
  CHECK(use.idle() == 13);
  CHECK(use.utilisation() == Approx(0.35));
  CHECK(uses[idle.index].tasks == 0);
  CHECK(uses[idle.index].busy == 0);
  CHECK(uses[idle.index].idle_before == 60);
  CHECK(uses[idle.index].utilisation() == 0);
  CHECK(ResourceUse{}.utilisation() == 0);
  // A task that took no time is neither the first use nor the last.
  TaskGraph instant;
  const ResourceId one = instant.add_resource({});
  instant.add({.on = {one}});
  CHECK(resource_use(instant, std::vector<TaskRun>{run_of(5, 5, 5)}, Time{5})[0].utilisation() == 0);
}

TEST_CASE("a resource is asked about several instants of a run", "[unit]") {
  // b has two units: 0 holds one until 5, 1 from then until 10. a is held by 2 until 10. 3 wants one of each: only a
  // was short, at 10. 4 wants both units of b, from 12 on, and gets them when 3 ends, at 20.
  TaskGraph graph;
  const ResourceId b = graph.add_resource({.capacity = 2}), a = graph.add_resource({});
  const TaskId first = graph.add({.duration = Duration{5}, .on = {b}});
  graph.add({.duration = Duration{5}, .on = {b}, .after = {first}});
  graph.add({.duration = Duration{10}, .on = {a}});
  graph.add({.duration = Duration{10}, .on = {b, a}});
  graph.add({.duration = Duration{3}, .on = {{b, 2}}, .release = Time{12}});
  const CriticalPath path = critical_path(graph, run_alone(graph), Time{0});
  REQUIRE(path.steps.size() == 3);
  CHECK(path.steps[2].task == TaskId{4});
  CHECK(path.steps[2].by == TaskId{3});
  CHECK(path.steps[2].at == b);
  CHECK(path.steps[2].queued == Duration{8});
  CHECK(path.steps[1].by == TaskId{2});
  CHECK(path.steps[1].at == a);
  CHECK(path.steps[0].task == TaskId{2});
  CHECK(path.makespan() == Duration{23});
}

}  // namespace test_task_analysis
