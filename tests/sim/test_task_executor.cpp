// Small graphs, solved by hand.
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "tests/sim/task_support.hpp"

namespace test_task_executor {

using namespace orrery::sim;
using namespace orrery::test;

namespace {

std::vector<std::int64_t> starts(TaskGraph& graph) {
  std::vector<std::int64_t> result;
  for (const TaskRun& run : run_alone(graph)) result.push_back(run.start.ticks);
  return result;
}

/// A task of 10 holds one machine; meanwhile four become ready, at 1, 2, 3 and 3: in which order are they served?
std::vector<std::int64_t> starts_under(TaskOrder order, TaskKey* key = nullptr) {
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({.order = order, .key = key});
  graph.add({.duration = Duration{10}, .on = {machine}});
  graph.add({.duration = Duration{5}, .on = {machine}, .priority = 1, .release = Time{1}});
  graph.add({.duration = Duration{4}, .on = {machine}, .priority = 3, .release = Time{2}});
  graph.add({.duration = Duration{6}, .on = {machine}, .priority = 2, .release = Time{3}});
  graph.add({.duration = Duration{5}, .on = {machine}, .priority = 1, .release = Time{3}});
  return starts(graph);
}

using Starts = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("orders of one machine", "[unit]") {
  ScrambledKey key;  // 2654435761 id mod 2^32 mod 7 of ids 1 to 4: 5, 6, 4, 5
  CHECK(starts_under(TaskOrder::fifo) == Starts{0, 10, 15, 19, 25});          // 1 2 3 4
  CHECK(starts_under(TaskOrder::priority) == Starts{0, 20, 10, 14, 25});      // 2 3 1 4
  CHECK(starts_under(TaskOrder::lifo) == Starts{0, 25, 21, 15, 10});          // 4 3 2 1
  CHECK(starts_under(TaskOrder::shortest) == Starts{0, 14, 10, 24, 19});      // 2 1 4 3
  CHECK(starts_under(TaskOrder::longest) == Starts{0, 16, 26, 10, 21});       // 3 1 4 2
  CHECK(starts_under(TaskOrder::program) == Starts{0, 10, 15, 19, 25});       // 1 2 3 4
  CHECK(starts_under(TaskOrder::custom, &key) == Starts{0, 16, 26, 10, 21});  // 3 1 4 2
}

TEST_CASE("a stream waits for its head, a queue does not", "[unit]") {
  // Task 0 is ready at 8 only; task 1 at 0.
  for (const auto& [order, expected] :
       {std::pair{TaskOrder::program, Starts{8, 9}}, std::pair{TaskOrder::fifo, Starts{8, 0}}}) {
    TaskGraph graph;
    const ResourceId stream = graph.add_resource({.order = order});
    graph.add({.duration = Duration{1}, .on = {stream}, .release = Time{8}});
    graph.add({.duration = Duration{3}, .on = {stream}});
    CHECK(starts(graph) == expected);
  }
}

TEST_CASE("a task that does not fit is passed over", "[unit]") {
  // 4 units: task 0 takes 3 until 10. Task 1 wants 2, task 2 wants 1 and goes first; task 3 wants 1 and finds none.
  TaskGraph graph;
  const ResourceId slots = graph.add_resource({.capacity = 4});
  graph.add({.duration = Duration{10}, .on = {{slots, 3}}});
  graph.add({.duration = Duration{10}, .on = {{slots, 2}}});
  graph.add({.duration = Duration{10}, .on = {slots}});
  graph.add({.duration = Duration{10}, .on = {slots}});
  CHECK(starts(graph) == Starts{0, 10, 0, 10});
}

TEST_CASE("several resources: all or nothing, and the key decides", "[unit]") {
  // a is busy until 4, so the pair (priority 9) does not start and leaves b to task 2, until 6. At 4 it still lacks b
  // and leaves a to task 3 (priority 1), until 7. At 7 both are free, and it goes before task 4 (8), which waits
  // since 5.
  TaskGraph graph;
  const ResourceId a = graph.add_resource({.order = TaskOrder::priority});
  const ResourceId b = graph.add_resource({.order = TaskOrder::priority});
  graph.add({.duration = Duration{4}, .on = {a}, .priority = 10});
  graph.add({.duration = Duration{5}, .on = {a, b}, .priority = 9});
  graph.add({.duration = Duration{6}, .on = {b}, .priority = 1});
  graph.add({.duration = Duration{3}, .on = {a}, .priority = 1});
  graph.add({.duration = Duration{1}, .on = {a}, .priority = 8, .release = Time{5}});
  CHECK(starts(graph) == Starts{0, 7, 0, 4, 12});
}

TEST_CASE("a task on two streams is the head of both", "[unit]") {
  // Streams x: 0, 2, 3; y: 1, 2. The all-reduce 2 waits for 1 (until 7) although x is free at 2; 3 waits behind it.
  TaskGraph graph;
  const ResourceId x = graph.add_resource({.order = TaskOrder::program});
  const ResourceId y = graph.add_resource({.order = TaskOrder::program});
  graph.add({.duration = Duration{2}, .on = {x}});
  graph.add({.duration = Duration{7}, .on = {y}});
  graph.add({.duration = Duration{3}, .on = {x, y}});
  graph.add({.duration = Duration{1}, .on = {x}});
  CHECK(starts(graph) == Starts{0, 0, 7, 10});
}

TEST_CASE("streams that share the units of a device", "[unit]") {
  // Two streams issue kernels of 3 and 2 of a device's 4 units; the heads compete, what stands behind a head does not.
  TaskGraph graph;
  const ResourceId device = graph.add_resource({.capacity = 4});
  const ResourceId s0 = graph.add_resource({.order = TaskOrder::program});
  const ResourceId s1 = graph.add_resource({.order = TaskOrder::program});
  graph.add({.duration = Duration{10}, .on = {s0, {device, 3}}});
  graph.add({.duration = Duration{10}, .on = {s1, {device, 2}}});
  graph.add({.duration = Duration{10}, .on = {s1, {device, 1}}});  // would fit at 0, but is second of its stream
  graph.add({.duration = Duration{10}, .on = {s0, {device, 2}}});
  CHECK(starts(graph) == Starts{0, 10, 20, 10});
}

TEST_CASE("tasks of no duration and milestones take an instant", "[unit]") {
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({});
  const TaskId first = graph.add({.duration = Duration{5}, .on = {machine}});
  const TaskId gate = graph.add({.after = {first}});
  const TaskId nothing = graph.add({.on = {machine}, .after = {gate}});
  const TaskId delay = graph.add({.duration = Duration{4}, .after = {nothing}});
  graph.add({.after = {delay}});
  const auto runs = run_alone(graph);
  CHECK(runs[1].finish == Time{5});
  CHECK(runs[2].start == Time{5});
  CHECK(runs[3].start == Time{5});
  CHECK(runs[4].finish == Time{9});
}

TEST_CASE("a long chain of milestones needs no stack", "[unit]") {
  TaskGraph graph;
  TaskId last = graph.add({});
  for (int i = 0; i < 300'000; ++i)
    last = i % 2 == 0 ? graph.add({.after = {last}}) : graph.add({.flow = FlowSpec{}, .after = {last}});
  const auto runs = run_alone(graph, true);
  CHECK(runs.back().finish == Time{0});
}

TEST_CASE("flows hold their resources until the transport says so", "[unit]") {
  TaskGraph graph;
  const ResourceId engine_of_copies = graph.add_resource({});
  const TaskId a = graph.add({.flow = FlowSpec{.bytes = 30}, .on = {engine_of_copies}});
  const TaskId b = graph.add({.flow = FlowSpec{.bytes = 12}, .on = {engine_of_copies}});
  const TaskId c = graph.add({.duration = Duration{1}, .after = {a, b}});
  Engine engine;
  ConstantTransport transport(engine);
  TaskExecutor executor(engine, graph, &transport);
  executor.run();
  CHECK(transport.flows == 2);
  CHECK(executor[b].start == Time{30});
  CHECK(executor[c].start == Time{42});
  CHECK(executor.makespan() == Duration{43});
}

TEST_CASE("flows that end in one event of the transport end together", "[unit]") {
  struct Batch final : Transport, EventHandler {
    std::vector<std::pair<EventHandler*, std::uint64_t>> under_way;
    void start(TaskId, const FlowSpec&, EventHandler& done, std::uint64_t payload) override {
      under_way.emplace_back(&done, payload);
    }
    void on_event(std::uint64_t) override {
      for (const auto& [done, payload] : under_way) done->on_event(payload);
    }
  } batch;
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({.order = TaskOrder::priority});
  const TaskId a = graph.add({.flow = FlowSpec{}});
  const TaskId b = graph.add({.flow = FlowSpec{}});
  const TaskId low = graph.add({.duration = Duration{4}, .on = {machine}, .after = {a}, .priority = 1});
  const TaskId high = graph.add({.duration = Duration{4}, .on = {machine}, .after = {b}, .priority = 2});
  Engine engine;
  engine.schedule_at(Time{10}, batch);
  TaskExecutor executor(engine, graph, &batch);
  executor.run();
  CHECK(executor[high].start == Time{10});
  CHECK(executor[low].start == Time{14});
}

TEST_CASE("misuse of the executor is refused", "[unit]") {
  Engine engine;
  TaskGraph graph;
  graph.add({.flow = FlowSpec{.bytes = 1}, .name = "load"});
  TaskExecutor without(engine, graph);
  CHECK_THROWS_AS(without.start(), std::invalid_argument);
  struct Lost final : Transport {
    void start(TaskId, const FlowSpec&, EventHandler&, std::uint64_t) override {}
  } lost;
  TaskExecutor stuck(engine, graph, &lost);
  CHECK_THROWS_WITH(stuck.run(), "task executor: 1 tasks have not finished, the first is task 0 'load'");
  CHECK_THROWS_AS(stuck.start(), std::logic_error);
  struct Twice final : Transport {
    void start(TaskId, const FlowSpec&, EventHandler& done, std::uint64_t payload) override {
      done.on_event(payload);
      done.on_event(payload);
    }
  } twice;
  TaskExecutor doubled(engine, graph, &twice);
  CHECK_THROWS_WITH(doubled.run(), "task executor: the transport ended the flow of task 0 'load' twice");
}

TEST_CASE("after an observer has thrown the others' ends are still heard", "[unit]") {
  struct Thrower final : TaskObserver {
    void on_finish(TaskId task, Time) override {
      if (task.index == 0) throw std::runtime_error("no");
    }
  } thrower;
  Engine engine;
  TaskGraph graph;
  const TaskId first = graph.add({.duration = Duration{10}});
  const TaskId other = graph.add({.duration = Duration{20}});
  const TaskId after_other = graph.add({.duration = Duration{1}, .after = {other}});
  graph.add({.after = {first}, .name = "never told"});
  TaskExecutor executor(engine, graph, nullptr, &thrower);
  CHECK_THROWS_AS(executor.run(), std::runtime_error);
  CHECK_THROWS_AS(engine.run(), std::logic_error);
  CHECK(executor[other].finish == Time{20});
  CHECK(executor[after_other].finish == Time{21});
}

TEST_CASE("a run begins where the clock stands, and an empty one ends there", "[unit]") {
  Engine engine;
  TaskGraph until_100;
  until_100.add({.duration = Duration{100}});
  TaskExecutor(engine, until_100).run();
  TaskGraph graph;
  TaskExecutor empty(engine, graph);
  empty.run();
  CHECK(empty.makespan() == Duration{0});
  graph.add({.duration = Duration{5}, .release = Time{50}});
  graph.add({.duration = Duration{5}, .release = Time{110}});
  TaskExecutor executor(engine, graph);
  executor.run();
  CHECK(executor.origin() == Time{100});
  CHECK(executor[TaskId{0}].start == Time{100});
  CHECK(executor[TaskId{1}].start == Time{110});
  CHECK(executor.makespan() == Duration{15});
}

TEST_CASE("two graphs run side by side on one engine", "[unit]") {
  // Both act at 0, 5 and 10; neither may wait for ever until the other has acted.
  Engine engine;
  TaskGraph one, two;
  for (TaskGraph* graph : {&one, &two}) {
    const ResourceId cpu = graph->add_resource({.name = "cpu"});
    const TaskId first = graph->add({.duration = Duration{5}, .on = {cpu}});
    graph->add({.duration = Duration{5}, .on = {cpu}, .after = {first}});
  }
  TaskExecutor a(engine, one), b(engine, two);
  a.start();
  b.start();
  engine.run();
  CHECK(a.makespan() == Duration{10});
  CHECK(b.makespan() == Duration{10});
}

TEST_CASE("what an executor refuses, word by word", "[unit]") {
  Engine engine;
  TaskGraph flows;
  flows.add({.flow = FlowSpec{}});
  CHECK_THROWS_WITH(TaskExecutor(engine, flows).start(),
                    "task executor: the graph has flows, but there is no transport");
  TaskGraph graph;
  graph.add({.duration = Duration{5}, .name = "x"});
  TaskExecutor executor(engine, graph);
  CHECK(executor.runs().empty());
  executor.start();
  CHECK_THROWS_WITH(executor.start(), "task executor: started twice");
  CHECK_THROWS_WITH(executor.add({.flow = FlowSpec{}}), "task executor: a flow was added, but there is no transport");
  CHECK(graph.tasks() == 1);
  engine.run(Time{2});
  const TaskId later = executor.add({.duration = Duration{1}, .name = "y"});
  CHECK_THROWS_WITH(executor.add_dependency(later, TaskId{0}),
                    "task executor: task 0 'x' has started, and cannot be made to wait for task 1 'y'");
  CHECK(graph.edges() == 0);
  CHECK_THROWS_AS(executor.add_dependency(later, later), std::invalid_argument);
  graph.add({});
  CHECK_THROWS_WITH(executor.add({}), "task executor: the graph was changed behind its back");
  Engine other;
  TaskGraph changed;
  changed.add({});
  TaskExecutor early(other, changed);
  early.start();
  changed.add({});
  CHECK_THROWS_WITH(other.run(), "task executor: the graph was changed behind its back");
}

TEST_CASE("flows may be added before a start that finds the transport missing", "[unit]") {
  Engine engine;
  TaskGraph graph;
  TaskExecutor executor(engine, graph);
  CHECK_NOTHROW(executor.add({.flow = FlowSpec{}}));
  CHECK_THROWS_AS(executor.start(), std::invalid_argument);
}

TEST_CASE("running and unfinished tasks are counted as a run goes on", "[unit]") {
  // Two machines' worth: 0 and 1 run from 0 to 4 and 7, 2 from 4 to 10; 3 is released at 12, for 1.
  Engine engine;
  TaskGraph graph;
  const ResourceId machines = graph.add_resource({.capacity = 2});
  for (const std::int64_t length : {4, 7, 6}) graph.add({.duration = Duration{length}, .on = {machines}});
  graph.add({.duration = Duration{1}, .on = {machines}, .release = Time{12}});
  TaskExecutor executor(engine, graph);
  executor.start();
  CHECK(executor.running() == 0);
  CHECK(executor.unfinished() == 4);
  CHECK(executor.runs().size() == 4);
  CHECK(executor[TaskId{0}].ready == kNever);
  struct Row {
    std::int64_t at;
    std::size_t running, unfinished;
    std::int64_t makespan;
  };
  for (const Row& row : std::vector<Row>{{0, 2, 4, 0}, {4, 2, 3, 4}, {8, 1, 2, 7}, {10, 0, 1, 10}, {12, 1, 1, 10}}) {
    engine.run(Time{row.at});
    CAPTURE(row.at);
    CHECK(executor.running() == row.running);
    CHECK(executor.unfinished() == row.unfinished);
    CHECK(executor.makespan() == Duration{row.makespan});
  }
  executor.run();
  CHECK(executor.running() == 0);
  CHECK(executor.makespan() == Duration{13});
  CHECK(executor[TaskId{3}].ready == Time{12});
  CHECK(executor[TaskId{2}].ready == Time{0});
  CHECK(executor[TaskId{2}].start == Time{4});
}

TEST_CASE("a task costs one event of the engine", "[unit]") {
  // The begin, an end a task, and a release time; none for milestones.
  Engine engine;
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({});
  TaskId last = graph.add({.duration = Duration{2}, .on = {machine}});
  for (int i = 0; i < 9; ++i) last = graph.add({.duration = Duration{2}, .on = {machine}, .after = {last}});
  graph.add({.after = {last}});
  graph.add({.duration = Duration{2}, .on = {machine}, .release = Time{30}});
  TaskExecutor executor(engine, graph);
  executor.run();
  CHECK(executor.makespan() == Duration{32});
  CHECK(engine.events() == 1 + 11 + 1);
}

TEST_CASE("tasks without demands start in the order of their numbers, whatever sets them off", "[unit]") {
  struct Order final : TaskObserver {
    std::vector<std::uint32_t> started, finished;
    void on_start(TaskId task, Time) override { started.push_back(task.index); }
    void on_finish(TaskId task, Time) override { finished.push_back(task.index); }
  } order;
  Engine engine;
  TaskGraph graph;
  const TaskId first = graph.add({.duration = Duration{3}});
  for (int i = 0; i < 5; ++i) graph.add({});
  for (const std::uint32_t after : {4, 1, 5, 2}) graph.add_dependency(first, TaskId{after});
  graph.add_dependency(TaskId{5}, TaskId{3});  // behind the last of them
  TaskExecutor executor(engine, graph, nullptr, &order);
  executor.run();
  CHECK(order.started == std::vector<std::uint32_t>{0, 1, 2, 4, 5, 3});
  CHECK(order.finished == std::vector<std::uint32_t>{0, 1, 2, 4, 5, 3});
}

TEST_CASE("of tasks that become ready together, the one that followed the earlier resource goes first", "[unit]") {
  // All end at 4. On c, then: 5 has no cause (released at 4), 6 follows a milestone-like delay without demands (0 too),
  // 7 follows a (place 1), 8 follows b (2), and 9 both: the later place.
  Engine engine;
  TaskGraph graph;
  const ResourceId a = graph.add_resource({}), b = graph.add_resource({}), c = graph.add_resource({});
  const TaskId on_b = graph.add({.duration = Duration{4}, .on = {b}});
  const TaskId on_a = graph.add({.duration = Duration{4}, .on = {a}});
  const TaskId nowhere = graph.add({.duration = Duration{4}});
  const TaskId both = graph.add({.duration = Duration{1}, .on = {c}, .after = {on_a, on_b}});
  const TaskId after_b = graph.add({.duration = Duration{1}, .on = {c}, .after = {on_b}});
  const TaskId after_a = graph.add({.duration = Duration{1}, .on = {c}, .after = {on_a}});
  const TaskId after_none = graph.add({.duration = Duration{1}, .on = {c}, .after = {nowhere}});
  const TaskId released = graph.add({.duration = Duration{1}, .on = {c}, .release = Time{4}});
  const auto runs = run_alone(graph);
  std::vector<std::int64_t> starts;
  for (const TaskId task : {after_none, released, after_a, both, after_b})
    starts.push_back(runs[task.index].start.ticks);
  CHECK(starts == std::vector<std::int64_t>{4, 5, 6, 7, 8});
  CHECK(runs[both.index].cause == 2);
  CHECK(runs[after_a.index].cause == 1);
  CHECK(runs[after_none.index].cause == 0);
}

TEST_CASE("a predecessor that ended earlier gives no cause", "[unit]") {
  // 2 waits for a task on b until 3 and one on a until 4: only a counts. 3 follows b at 4.
  Engine engine;
  TaskGraph graph;
  const ResourceId a = graph.add_resource({}), b = graph.add_resource({.capacity = 2}), c = graph.add_resource({});
  const TaskId early = graph.add({.duration = Duration{3}, .on = {b}});
  const TaskId on_a = graph.add({.duration = Duration{4}, .on = {a}});
  const TaskId on_b = graph.add({.duration = Duration{4}, .on = {b}});
  const TaskId follows_b = graph.add({.duration = Duration{1}, .on = {c}, .after = {on_b}});
  const TaskId follows_a = graph.add({.duration = Duration{1}, .on = {c}, .after = {early, on_a}});
  // Its release time came last: neither.
  const TaskId released = graph.add({.duration = Duration{1}, .on = {c}, .after = {on_b}, .release = Time{20}});
  const auto runs = run_alone(graph);
  CHECK(runs[follows_a.index].start == Time{4});
  CHECK(runs[follows_b.index].start == Time{5});
  CHECK(runs[released.index].start == Time{20});
  CHECK(runs[released.index].cause == 0);
}

TEST_CASE("a long line of a stream is served in its order", "[unit]") {
  // 300 kernels issued at once to a stream of two slots, the last ones ready first.
  TaskGraph graph;
  const ResourceId stream = graph.add_resource({.capacity = 2, .order = TaskOrder::program});
  for (std::int64_t i = 0; i < 300; ++i) graph.add({.duration = Duration{2}, .on = {stream}, .release = Time{300 - i}});
  const auto runs = run_alone(graph);
  // The first is ready at 300; two at a time from then on.
  for (std::int64_t i = 0; i < 300; ++i) CHECK(runs[static_cast<std::size_t>(i)].start == Time{300 + i / 2 * 2});
}

}  // namespace test_task_executor
