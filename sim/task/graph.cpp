#include "sim/task/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace orrery::sim {

namespace {

std::string described(std::string_view kind, std::size_t index, std::string_view name) {
  return name.empty() ? fmt::format("{} {}", kind, index) : fmt::format("{} {} '{}'", kind, index, name);
}

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw std::invalid_argument("task graph: " + fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace

ResourceId TaskGraph::add_resource(const ResourceSpec& spec) {
  const std::string who = described("resource", resources_.size(), spec.name);
  if (spec.capacity < 1) refuse("{}: expected a capacity of at least 1, got {}", who, spec.capacity);
  if ((spec.key != nullptr) != (spec.order == TaskOrder::custom))
    refuse("{}: a key belongs to the custom order, and the custom order needs one", who);
  resources_.push_back({std::string(spec.name), spec.capacity, spec.order, spec.key});
  return {static_cast<std::uint32_t>(resources_.size() - 1)};
}

void TaskGraph::reserve(std::size_t tasks, std::size_t edges) {
  nodes_.reserve(tasks);
  edges_.reserve(edges);
}

void TaskGraph::check_demands(const TaskSpec& spec) const {
  const auto who = [&] { return described("task", nodes_.size(), spec.name); };
  for (std::size_t i = 0; i < spec.on.size(); ++i) {
    const Demand& demand = spec.on[i];
    if (demand.resource.index >= resources_.size()) refuse("{}: there is no resource {}", who(), demand.resource.index);
    if (demand.units < 1)
      refuse("{}: demands {} units of {}, expected at least 1", who(), demand.units, describe(demand.resource));
    if (demand.units > capacity(demand.resource))
      refuse("{}: demands {} units of {}, which has {}", who(), demand.units, describe(demand.resource),
             capacity(demand.resource));
    for (std::size_t k = 0; k < i; ++k)
      if (spec.on[k].resource == demand.resource) refuse("{}: demands {} twice", who(), describe(demand.resource));
  }
}

void TaskGraph::check(const TaskSpec& spec) const {
  const auto who = [&] { return described("task", nodes_.size(), spec.name); };
  if (nodes_.size() >= std::numeric_limits<std::int32_t>::max())
    throw std::length_error("task graph: more than 2^31 - 1 tasks");
  if (spec.duration.ticks < 0) refuse("{}: negative duration ({} ticks)", who(), spec.duration.ticks);
  if (spec.release.ticks < 0) refuse("{}: negative release time ({} ticks)", who(), spec.release.ticks);
  if (spec.flow && spec.flow->bytes < 0) refuse("{}: flow of {} bytes", who(), spec.flow->bytes);
  if (spec.flow && spec.duration.ticks != 0) refuse("{}: has a flow and a duration, expected one of them", who());
  check_demands(spec);
  for (const TaskId before : spec.after)
    if (before.index >= nodes_.size()) refuse("{}: waits for task {}, which there is not yet", who(), before.index);
}

TaskId TaskGraph::add(const TaskSpec& spec) {
  check(spec);
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  std::uint32_t set = intern(spec.on);
  std::int64_t work = spec.duration.ticks;
  if (spec.flow) {
    work = static_cast<std::int64_t>(flows_.size());
    flows_.push_back(*spec.flow);
    set |= kFlowBit;
  }
  nodes_.push_back({work, spec.release, spec.priority, set});
  for (const TaskId before : spec.after) link(before.index, index);
  if (!spec.name.empty()) {
    names_ += spec.name;
    named_.push_back({index, static_cast<std::uint32_t>(names_.size())});
  }
  return {index};
}

void TaskGraph::add_dependency(TaskId before, TaskId after) {
  for (const TaskId task : {before, after})
    if (task.index >= nodes_.size())
      refuse("dependency of task {} on {}: there is no task {}", after.index, before.index, task.index);
  if (before == after) refuse("{} would wait for itself", describe(before));
  if (before > after) backward_ = true;
  link(before.index, after.index);
}

void TaskGraph::link(std::uint32_t before, std::uint32_t after) {
  if (edges_.size() >= kNoEdge) throw std::length_error("task graph: more than 2^32 - 1 dependencies");
  Node& node = nodes_[before];
  edges_.push_back({after, node.first_edge});
  node.first_edge = static_cast<std::uint32_t>(edges_.size() - 1);
  ++nodes_[after].predecessors;
}

std::uint32_t TaskGraph::new_set(std::span<const Demand> demands) {
  if (sets_.size() > kFlowBit) throw std::length_error("task graph: more than 2^31 sets of demands");
  demands_.insert(demands_.end(), demands.begin(), demands.end());
  sets_.push_back(static_cast<std::uint32_t>(demands_.size()));
  return static_cast<std::uint32_t>(sets_.size() - 2);
}

std::uint32_t TaskGraph::intern(std::span<const Demand> demands) {
  if (demands.empty()) return 0;
  if (demands.size() == 1 && demands[0].units == 1) {
    std::uint32_t& single = resources_[demands[0].resource.index].single;
    if (single == kNoSet) single = new_set(demands);
    return single;
  }
  const auto at = set_of_.find(demands);
  if (at != set_of_.end()) return at->second;
  const std::uint32_t set = new_set(demands);
  set_of_.emplace(std::vector<Demand>(demands.begin(), demands.end()), set);
  return set;
}

std::string_view TaskGraph::name(TaskId task) const {
  const auto at = std::lower_bound(named_.begin(), named_.end(), task.index,
                                   [](const Name& name, std::uint32_t index) { return name.task < index; });
  if (at == named_.end() || at->task != task.index) return {};
  const std::uint32_t begin = at == named_.begin() ? 0 : (at - 1)->end;
  return std::string_view(names_).substr(begin, at->end - begin);
}

std::string TaskGraph::describe(TaskId task) const {
  return described("task", task.index, name(task));
}

std::string TaskGraph::describe(ResourceId resource) const {
  return described("resource", resource.index, name(resource));
}

/// Tasks of every resource in program order, by resource; empty for other orders.
std::vector<std::vector<std::uint32_t>> TaskGraph::programs() const {
  std::vector<std::vector<std::uint32_t>> programs(resources_.size());
  for (std::uint32_t task = 0; task < nodes_.size(); ++task)
    for (const Demand& demand : demands({task}))
      if (order(demand.resource) == TaskOrder::program) programs[demand.resource.index].push_back(task);
  return programs;
}

void TaskGraph::check_cycles() const {
  // Kahn's algorithm over "cannot start before": dependencies, and the neighbour before in program order.
  const auto programs_of = programs();
  std::vector<std::uint32_t> waits(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) waits[i] = nodes_[i].predecessors;
  std::vector<std::vector<std::uint32_t>> next(programs_of.empty() ? 0 : nodes_.size());
  for (const auto& program : programs_of)
    for (std::size_t i = 1; i < program.size(); ++i) {
      ++waits[program[i]];
      next[program[i - 1]].push_back(program[i]);
    }
  std::vector<std::uint32_t> free;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i)
    if (waits[i] == 0) free.push_back(i);
  std::size_t done = 0;
  while (!free.empty()) {
    const std::uint32_t task = free.back();
    free.pop_back();
    ++done;
    const auto let_go = [&](TaskId after) {
      if (--waits[after.index] == 0) free.push_back(after.index);
    };
    for_each_successor({task}, let_go);
    if (!next.empty())
      for (const std::uint32_t after : next[task]) let_go({after});
  }
  if (done != nodes_.size()) throw_cycle(waits, programs_of);
}

/// `waits` > 0: the task is on a cycle or behind one.
void TaskGraph::throw_cycle(const std::vector<std::uint32_t>& waits,
                            const std::vector<std::vector<std::uint32_t>>& programs) const {
  // Every task that is left waits for one that is left: going back from any one must come round. The lowest is taken,
  // so that the message does not depend on the order of the edges.
  std::vector<std::uint32_t> back(nodes_.size(), kNoEdge);
  const auto blame = [&](std::uint32_t before, std::uint32_t after) {
    if (waits[before] > 0 && waits[after] > 0) back[after] = std::min(back[after], before);
  };
  for (std::uint32_t i = 0; i < nodes_.size(); ++i)
    for_each_successor({i}, [&](TaskId after) { blame(i, after.index); });
  for (const auto& program : programs)
    for (std::size_t i = 1; i < program.size(); ++i) blame(program[i - 1], program[i]);
  const auto first = std::find_if(waits.begin(), waits.end(), [](std::uint32_t n) { return n > 0; });
  auto task = static_cast<std::uint32_t>(first - waits.begin());
  for (std::size_t i = 0; i < nodes_.size(); ++i) task = back[task];  // by now on the cycle
  std::vector<TaskId> cycle;
  for (std::uint32_t at = task; cycle.empty() || at != task; at = back[at]) cycle.push_back({at});
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  constexpr std::size_t kShown = 12;
  std::string message = "task graph: tasks wait for each other: ";
  for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i) message += describe(cycle[i]) + " -> ";
  if (cycle.size() > kShown) message += fmt::format("… ({} more) -> ", cycle.size() - kShown);
  message += describe(cycle.front());
  throw TaskCycle(message, std::move(cycle));
}

}  // namespace orrery::sim
