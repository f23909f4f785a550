// Observers, and graphs that grow while they run.
#include <catch2/catch.hpp>
#include <functional>

#include "tests/sim/task_support.hpp"

namespace test_task_streaming {

using namespace orrery::sim;
using namespace orrery::test;

namespace {

/// Writes down what happens, and acts on it.
class Watcher final : public TaskObserver {
 public:
  struct Seen {
    char what;
    std::uint32_t task;
    std::int64_t at;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  std::vector<Seen> seen;
  std::function<void(TaskId)> started, finished;
  void on_start(TaskId task, Time now) override {
    seen.push_back({'s', task.index, now.ticks});
    if (started) started(task);
  }
  void on_finish(TaskId task, Time now) override {
    seen.push_back({'f', task.index, now.ticks});
    if (finished) finished(task);
  }
};

}  // namespace

TEST_CASE("an observer sees starts and finishes as they happen", "[unit]") {
  Engine engine;
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({});
  const TaskId a = graph.add({.duration = Duration{3}, .on = {machine}});
  graph.add({.duration = Duration{2}, .on = {machine}, .after = {a}});
  Watcher watcher;
  TaskExecutor executor(engine, graph, nullptr, &watcher);
  executor.run();
  CHECK(watcher.seen == std::vector<Watcher::Seen>{{'s', 0, 0}, {'f', 0, 3}, {'s', 1, 3}, {'f', 1, 5}});
}

TEST_CASE("an observer unrolls a loop, one task at a time", "[unit]") {
  Engine engine;
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({});
  graph.add({.duration = Duration{3}, .on = {machine}});
  Watcher watcher;
  TaskExecutor executor(engine, graph, nullptr, &watcher);
  watcher.finished = [&](TaskId task) {
    if (executor.graph().tasks() < 1000) executor.add({.duration = Duration{3}, .on = {machine}, .after = {task}});
  };
  executor.run();
  CHECK(executor.makespan() == Duration{3000});
  CHECK(executor.unfinished() == 0);
}

TEST_CASE("dependencies added while running", "[unit]") {
  Engine engine;
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({});
  const TaskId first = graph.add({.duration = Duration{3}, .on = {machine}});
  const TaskId second = graph.add({.duration = Duration{5}, .on = {machine}});
  const TaskId third = graph.add({.duration = Duration{7}, .on = {machine}, .after = {first}});
  const TaskId gate = graph.add({.after = {first}});
  Watcher watcher;
  TaskExecutor executor(engine, graph, nullptr, &watcher);
  watcher.finished = [&](TaskId task) {
    if (task != first) return;
    // `second` is ready and would be next; it is made to wait for `third`, `third` for nothing that matters.
    executor.add_dependency(third, second);
    executor.add_dependency(first, third);
    // The gate is about to open: it is held back by a task of its own.
    const TaskId hold = executor.add({.duration = Duration{20}, .after = {first}});
    executor.add_dependency(hold, gate);
  };
  watcher.started = [&](TaskId task) {
    if (task == third) CHECK_THROWS_AS(executor.add_dependency(second, third), std::logic_error);
  };
  executor.run();
  CHECK(executor[third].start == Time{3});
  CHECK(executor[second].ready == Time{10});
  CHECK(executor[second].start == Time{10});
  CHECK(executor[gate].finish == Time{23});
}

TEST_CASE("an edge from the finishing task counts once", "[unit]") {
  // `late` and `both` also wait for `slow`, until 100. `alone` waits for the finishing task only: it
  // takes part in the starts of this instant, and `next` has a lower priority.
  Engine engine;
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({.order = TaskOrder::priority});
  const ResourceId other = graph.add_resource({});
  const TaskId first = graph.add({.duration = Duration{10}, .on = {machine}});
  const TaskId next = graph.add({.duration = Duration{20}, .on = {machine}});
  const TaskId slow = graph.add({.duration = Duration{100}, .on = {other}});
  const TaskId late = graph.add({.duration = Duration{5}, .after = {slow}});
  const TaskId ready = graph.add({.duration = Duration{5}, .on = {other}});
  TaskId both, alone;
  Watcher watcher;
  TaskExecutor executor(engine, graph, nullptr, &watcher);
  watcher.finished = [&](TaskId task) {
    if (task != first) return;
    executor.add_dependency(first, late);
    executor.add_dependency(first, ready);
    both = executor.add({.duration = Duration{5}, .after = {first, slow}});
    alone = executor.add({.duration = Duration{1}, .on = {machine}, .after = {first}, .priority = 5});
  };
  executor.run();
  CHECK(executor[late].start == Time{100});
  CHECK(executor[both].start == Time{100});
  CHECK(executor[ready].ready == Time{10});
  CHECK(executor[ready].start == Time{100});
  CHECK(executor[alone].start == Time{10});
  CHECK(executor[next].start == Time{11});
  CHECK(executor.unfinished() == 0);
}

TEST_CASE("what is added after its predecessor has ended goes by id, not by cause", "[unit]") {
  // The predecessors end at 10, on b and a. Of a graph given at once the one after a goes first (place 1 before 2);
  // added after the ends, at the same instant, neither has a cause, and the lower id goes first.
  struct Adder final : EventHandler {
    std::function<void()> act;
    void on_event(std::uint64_t) override { act(); }
  } adder;
  for (const bool at_once : {true, false}) {
    Engine engine;
    TaskGraph graph;
    const ResourceId a = graph.add_resource({}), b = graph.add_resource({}), c = graph.add_resource({});
    const TaskId on_b = graph.add({.duration = Duration{10}, .on = {b}});
    const TaskId on_a = graph.add({.duration = Duration{10}, .on = {a}});
    TaskExecutor executor(engine, graph);
    adder.act = [&] {
      executor.add({.duration = Duration{1}, .on = {c}, .after = {on_b}});
      executor.add({.duration = Duration{1}, .on = {c}, .after = {on_a}});
    };
    if (at_once) adder.act();
    executor.start();
    engine.run(Time{9});
    if (!at_once) engine.schedule_at(Time{10}, adder);
    engine.run();
    CHECK(executor[TaskId{2}].start == Time{at_once ? 11 : 10});
    CHECK(executor[TaskId{3}].start == Time{at_once ? 10 : 11});
  }
}

TEST_CASE("what is added at an instant starts after what was at hand", "[unit]") {
  // Both machines' tasks start at 0; the one added meanwhile has the highest priority and still is second.
  Engine engine;
  TaskGraph graph;
  const ResourceId machine = graph.add_resource({.order = TaskOrder::priority});
  const TaskId a = graph.add({.duration = Duration{3}, .on = {machine}});
  const TaskId b = graph.add({.duration = Duration{3}, .on = {machine}});
  Watcher watcher;
  TaskExecutor executor(engine, graph, nullptr, &watcher);
  watcher.started = [&](TaskId task) {
    if (task == a) executor.add({.duration = Duration{1}, .on = {machine}, .priority = 5});
  };
  executor.run();
  CHECK(executor[TaskId{2}].start == Time{3});
  CHECK(executor[b].start == Time{4});
}

TEST_CASE("tasks are added from outside, between events and after the end", "[unit]") {
  Engine engine;
  TaskGraph graph;
  const ResourceId stream = graph.add_resource({.order = TaskOrder::program});
  graph.add({.duration = Duration{10}, .on = {stream}});
  TaskExecutor executor(engine, graph);
  executor.start();
  const TaskId before_begin = executor.add({.duration = Duration{1}, .on = {stream}});
  engine.run(Time{4});
  const TaskId later = executor.add({.duration = Duration{1}, .on = {stream}, .after = {TaskId{0}, before_begin}});
  engine.run();
  CHECK(executor[before_begin].start == Time{10});
  CHECK(executor[later].start == Time{11});
  CHECK(executor.unfinished() == 0);
  const TaskId last = executor.add({.duration = Duration{1}, .on = {stream}, .after = {later}});
  engine.run();
  CHECK(executor[last].start == Time{12});
}

TEST_CASE("a second resource of a stream may turn up late", "[unit]") {
  // The stream stands alone until a task demands it together with the link, while another heads it.
  Engine engine;
  TaskGraph graph;
  const ResourceId stream = graph.add_resource({.order = TaskOrder::program});
  const ResourceId link = graph.add_resource({});
  graph.add({.duration = Duration{10}, .on = {stream}});
  graph.add({.duration = Duration{5}, .on = {stream}});
  TaskExecutor executor(engine, graph);
  executor.start();
  engine.run(Time{4});
  const TaskId both = executor.add({.duration = Duration{2}, .on = {link, stream}});
  const TaskId alone = executor.add({.duration = Duration{3}, .on = {link}});
  engine.run();
  CHECK(executor[TaskId{1}].start == Time{10});
  CHECK(executor[both].start == Time{15});
  CHECK(executor[alone].start == Time{4});
}

TEST_CASE("a cycle made while running is reported when nothing else is left", "[unit]") {
  Engine engine;
  TaskGraph graph;
  const TaskId first = graph.add({.duration = Duration{3}});
  const TaskId a = graph.add({.after = {first}, .name = "a"});
  const TaskId b = graph.add({.after = {a}, .name = "b"});
  const TaskId other = graph.add({.duration = Duration{8}});
  Watcher watcher;
  TaskExecutor executor(engine, graph, nullptr, &watcher);
  watcher.finished = [&](TaskId task) {
    if (task == first) executor.add_dependency(b, a);
  };
  CHECK_THROWS_WITH(executor.run(), Catch::Contains("task 1 'a' -> task 2 'b' -> task 1 'a'"));
  CHECK(executor[other].finish == Time{8});
}

TEST_CASE("a graph given piece by piece runs like one given at once", "[prop]") {
  // Tasks are added by a clock that ticks before they could be ready, in the order of the whole.
  RandomStream random(5, "pieces");
  for (int round = 0; round < 300; ++round) {
    PlainGraph plain_graph = random_graph(random, {.tasks = 24, .released = 0, .flow = 0});
    // Task t may not be ready before 3 t; it is added at 3 t - 1 or so.
    for (std::size_t t = 0; t < plain_graph.tasks.size(); ++t)
      plain_graph.tasks[t].release = 3 * static_cast<std::int64_t>(t) + 1;
    const auto expected = ReferenceSimulator(plain_graph).run();
    Engine engine;
    TaskGraph graph;
    for (std::size_t r = 0; r < plain_graph.capacity.size(); ++r) {
      const bool custom = plain_graph.order[r] == TaskOrder::custom;
      graph.add_resource({.capacity = plain_graph.capacity[r],
                          .order = plain_graph.order[r],
                          .key = custom ? &scrambled_key() : nullptr});
    }
    TaskExecutor executor(engine, graph);
    executor.start();
    for (std::size_t t = 0; t < plain_graph.tasks.size(); ++t) {
      engine.run(Time{3 * static_cast<std::int64_t>(t)});
      const PlainTask& task = plain_graph.tasks[t];
      const TaskId id = executor.add({.duration = Duration{task.duration},
                                      .on = task.on,
                                      .priority = task.priority,
                                      .release = Time{task.release}});
      for (const std::uint32_t before : task.after) executor.add_dependency(TaskId{before}, id);
    }
    engine.run();
    REQUIRE(plain(executor.runs()) == expected);
  }
}

}  // namespace test_task_streaming
