// Task graphs.
#include "sim/task/executor.hpp"
#include "tests/determinism/digest.hpp"
#include "tests/sim/layered_dag.hpp"
#include "tests/sim/task_support.hpp"

namespace orrery::determinism {
namespace {

using namespace sim;

void add_runs(Digest& digest, std::span<const TaskRun> runs) {
  for (const TaskRun& run : runs) {
    digest.add(run.ready.ticks);
    digest.add(run.start.ticks);
    digest.add(run.finish.ticks);
  }
}

/// Adds a task behind some that end, until there are so many.
class Adding final : public TaskObserver {
 public:
  Adding(Digest& digest, std::size_t most) : digest_(digest), random_(4, "adding"), most_(most) {}
  void on_start(TaskId task, Time now) override {
    digest_.add(task.index);
    digest_.add(now.ticks);
  }
  void on_finish(TaskId task, Time) override {
    if (executor->graph().tasks() >= most_ || random_.bernoulli(0.4)) return;
    const auto resources = static_cast<std::uint64_t>(executor->graph().resources());
    const ResourceId on{static_cast<std::uint32_t>(random_.below(resources))};
    const TaskId added = executor->add({.duration = Duration{random_.integer(0, 9)},
                                        .on = {on},
                                        .after = {task},
                                        .priority = static_cast<std::int32_t>(random_.integer(-2, 2))});
    executor->add({.duration = Duration{1}, .after = {added}});
  }
  TaskExecutor* executor = nullptr;

 private:
  Digest& digest_;
  RandomStream random_;
  std::size_t most_;
};

}  // namespace

/// Every order alone, then all of them mixed with demands of several resources, flows, releases and milestones.
void task_graphs(Digest& digest) {
  for (const TaskOrder order : test::Shape{}.orders) {
    TaskGraph graph = test::layered_dag(
        2000, 8, {.capacity = 2, .order = order, .key = order == TaskOrder::custom ? &test::scrambled_key() : nullptr});
    add_runs(digest, test::run_alone(graph));
  }
  RandomStream random(13, "graphs");
  for (int round = 0; round < 150; ++round) {
    test::Shape shape;
    shape.tasks = 40;
    shape.resources = 1 + random.below(5);
    shape.several = 0.2 * static_cast<double>(random.below(4));
    shape.edges = 0.05 * static_cast<double>(random.below(4));
    TaskGraph graph = test::build(test::random_graph(random, shape));
    add_runs(digest, test::run_alone(graph, round % 2 == 0));
  }
}

void task_graph_that_grows(Digest& digest) {
  for (const TaskOrder order : {TaskOrder::fifo, TaskOrder::lifo, TaskOrder::priority, TaskOrder::shortest}) {
    TaskGraph graph;
    for (int r = 0; r < 4; ++r) graph.add_resource({.capacity = 1 + r, .order = order});
    for (std::uint32_t t = 0; t < 50; ++t) graph.add({.duration = Duration{1 + t % 7}, .on = {ResourceId{t % 4}}});
    Engine engine;
    Adding adding(digest, 4000);
    TaskExecutor executor(engine, graph, nullptr, &adding);
    adding.executor = &executor;
    executor.run();
    add_runs(digest, executor.runs());
  }
}

}  // namespace orrery::determinism
