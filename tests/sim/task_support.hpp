// Random task graphs, and running them, for the tests of task graphs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/engine.hpp"
#include "sim/task/executor.hpp"
#include "tests/sim/task_reference.hpp"

namespace orrery::test {

/// Every flow alone at a constant rate: one byte a tick.
class ConstantTransport final : public sim::Transport {
 public:
  explicit ConstantTransport(sim::Engine& engine, bool at_once = false) : engine_(engine), at_once_(at_once) {}
  void start(sim::TaskId, const sim::FlowSpec& flow, sim::EventHandler& done, std::uint64_t payload) override {
    ++flows;
    if (flow.bytes == 0 && at_once_) {
      done.on_event(payload);
    } else {
      engine_.schedule_in(sim::Duration{flow.bytes}, done, payload);
    }
  }
  int flows = 0;

 private:
  sim::Engine& engine_;
  bool at_once_;  // a flow of no bytes ends within start()
};

class ScrambledKey final : public sim::TaskKey {
 public:
  std::int64_t key(const sim::TaskGraph&, sim::TaskId task, sim::Time) override { return plain_custom_key(task.index); }
};

inline ScrambledKey& scrambled_key() {
  static ScrambledKey key;  // has no state
  return key;
}

/// The graph proper; edges in the order given by `shuffle` if there is one.
inline sim::TaskGraph build(const PlainGraph& plain, sim::RandomStream* shuffle = nullptr) {
  sim::TaskGraph graph;
  for (std::size_t r = 0; r < plain.capacity.size(); ++r) {
    const bool custom = plain.order[r] == sim::TaskOrder::custom;
    graph.add_resource(
        {.capacity = plain.capacity[r], .order = plain.order[r], .key = custom ? &scrambled_key() : nullptr});
  }
  std::vector<std::pair<sim::TaskId, sim::TaskId>> edges;
  for (const PlainTask& task : plain.tasks) {
    sim::TaskSpec spec{.on = task.on, .priority = task.priority, .release = sim::Time{task.release}};
    if (task.flow) {
      spec.flow = sim::FlowSpec{.bytes = task.duration};
    } else {
      spec.duration = sim::Duration{task.duration};
    }
    const sim::TaskId id = graph.add(spec);
    for (const std::uint32_t before : task.after) edges.emplace_back(sim::TaskId{before}, id);
  }
  if (shuffle != nullptr)
    for (std::size_t i = edges.size(); i > 1; --i) std::swap(edges[i - 1], edges[shuffle->below(i)]);
  for (const auto& [before, after] : edges) graph.add_dependency(before, after);
  return graph;
}

struct Shape {
  std::uint64_t tasks = 14, resources = 3, capacity = 3;
  std::uint64_t durations = 6;  ///< durations are below this
  double edges = 0.15;          ///< probability of an edge from each earlier task
  double several = 0.3;         ///< of demanding more than one resource
  double milestone = 0.1;       ///< of demanding none
  double released = 0.2;        ///< of a release time
  double flow = 0.1;
  std::vector<sim::TaskOrder> orders{sim::TaskOrder::fifo,     sim::TaskOrder::priority, sim::TaskOrder::lifo,
                                     sim::TaskOrder::shortest, sim::TaskOrder::longest,  sim::TaskOrder::program,
                                     sim::TaskOrder::custom};
};

inline PlainGraph random_graph(sim::RandomStream& random, const Shape& shape) {
  PlainGraph graph;
  for (std::uint64_t r = 0; r < shape.resources; ++r) {
    graph.capacity.push_back(1 + static_cast<std::int64_t>(random.below(shape.capacity)));
    graph.order.push_back(shape.orders[random.below(shape.orders.size())]);
  }
  for (std::uint32_t t = 0; t < shape.tasks; ++t) {
    PlainTask task;
    task.duration = static_cast<std::int64_t>(random.below(shape.durations));
    task.priority = static_cast<std::int32_t>(random.below(4)) - 1;
    task.flow = random.uniform() < shape.flow;
    if (random.uniform() < shape.released) task.release = static_cast<std::int64_t>(random.below(12));
    for (std::uint32_t p = 0; p < t; ++p)
      if (random.uniform() < shape.edges) task.after.push_back(p);
    const bool several = random.uniform() < shape.several;
    if (random.uniform() >= shape.milestone) {
      const auto first = static_cast<std::uint32_t>(random.below(shape.resources));
      for (std::uint32_t k = 0; k < shape.resources; ++k) {
        if (k > 0 && (!several || random.uniform() < 0.5)) continue;
        const auto r = static_cast<std::uint32_t>((first + k) % shape.resources);
        task.on.emplace_back(sim::ResourceId{r}, 1 + static_cast<std::int64_t>(
                                                         random.below(static_cast<std::uint64_t>(graph.capacity[r]))));
      }
    }
    graph.tasks.push_back(std::move(task));
  }
  return graph;
}

inline std::vector<PlainRun> plain(std::span<const sim::TaskRun> runs) {
  std::vector<PlainRun> result;
  for (const sim::TaskRun& run : runs)
    result.push_back({run.ready.ticks, run.start.ticks, run.finish.ticks, run.finish != sim::kNever});
  return result;
}

/// Runs a graph by itself, from time 0, flows at one byte a tick.
inline std::vector<sim::TaskRun> run_alone(sim::TaskGraph& graph, bool at_once = false) {
  sim::Engine engine;
  ConstantTransport transport(engine, at_once);
  sim::TaskExecutor executor(engine, graph, &transport);
  executor.run();
  return {executor.runs().begin(), executor.runs().end()};
}

}  // namespace orrery::test
