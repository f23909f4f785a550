#include "experiments/systems/tasks/run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/systems/tasks/trace_transport.hpp"
#include "sim/task/executor.hpp"

namespace orrery::experiments::tasks {
namespace {

using sim::Duration;
using sim::TaskId;
using sim::Time;

struct Span {
  Time begin, end;
};

/// Spans that touch or overlap become one; in order.
std::vector<Span> joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<Span> out;
  for (const Span& span : spans) {
    if (!out.empty() && span.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, span.end);
    } else {
      out.push_back(span);
    }
  }
  return out;
}

Duration length(const std::vector<Span>& spans) {
  Duration sum;
  for (const Span& span : spans) sum = sum + (span.end - span.begin);
  return sum;
}

/// Time of `a` in which there is nothing of `b`; both joined.
Duration outside(const std::vector<Span>& a, const std::vector<Span>& b) {
  Duration covered;
  std::size_t first = 0;
  for (const Span& span : a) {
    while (first < b.size() && b[first].end <= span.begin) ++first;
    for (std::size_t i = first; i < b.size() && b[i].begin < span.end; ++i)
      covered = covered + (std::min(b[i].end, span.end) - std::max(b[i].begin, span.begin));
  }
  return length(a) - covered;
}

bool communicates(const TracedTask& task) {
  return task.kind == TaskKind::send || (task.kind == TaskKind::collective && task.collective >= 0);
}

std::vector<RankTimes> rank_times(const TasksResult& result, std::size_t ranks) {
  std::vector<std::vector<Span>> busy(ranks), moving(ranks);
  std::vector<RankTimes> times(ranks);
  for (std::size_t i = 0; i < result.runs.size(); ++i) {
    const TracedTask& task = result.trace.tasks[i];
    const auto rank = static_cast<std::size_t>(task.rank);
    const Span span{result.runs[i].start, result.runs[i].finish};
    ++times[rank].tasks;
    times[rank].finish = std::max(times[rank].finish, span.end);
    if (task.kind == TaskKind::compute) busy[rank].push_back(span);
    if (!communicates(task)) continue;
    moving[rank].push_back(span);
    if (task.kind == TaskKind::send && task.peer != task.rank)
      moving[static_cast<std::size_t>(task.peer)].push_back(span);
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<Span> at_work = joined(std::move(busy[rank]));
    const std::vector<Span> on_links = joined(std::move(moving[rank]));
    times[rank].busy = length(at_work);
    times[rank].communication = length(on_links);
    times[rank].exposed = outside(on_links, at_work);
  }
  return times;
}

PathTimes path_times(const sim::CriticalPath& path, const TraceGraph& trace) {
  PathTimes times;
  times.steps = path.steps;
  for (const sim::PathStep& step : path.steps) {
    const TracedTask& task = trace.tasks[step.task.index];
    times.waiting = times.waiting + step.wait;
    const bool moves = task.kind == TaskKind::send || task.kind == TaskKind::collective;
    Duration& part = moves ? times.communication : task.kind == TaskKind::memory ? times.memory : times.compute;
    part = part + step.length();
  }
  return times;
}

/// "rank 1 'recv' -> rank 0 'send'".
std::string chain(const std::vector<TaskId>& tasks, const TraceGraph& trace) {
  std::string text;
  for (const TaskId id : tasks) {
    const TracedTask& task = trace.tasks[id.index];
    text +=
        fmt::format("{}rank {} node {} '{}'", text.empty() ? "" : " -> ", task.rank, task.node->id, task.node->name);
  }
  return text;
}

/// Collectives that some of their ranks never came to.
std::string stuck(const sim::TaskExecutor& executor, const TraceGraph& trace) {
  for (std::size_t i = 0; i < trace.tasks.size(); ++i) {
    const sim::TaskRun& run = executor.runs()[i];
    if (run.start == sim::kNever || run.finish != sim::kNever) continue;
    const TracedTask& task = trace.tasks[i];
    return fmt::format("rank {} waits in node {} '{}' for ranks that come to it only later", task.rank, task.node->id,
                       task.node->name);
  }
  return "tasks are left that nothing starts";
}

}  // namespace

TasksResult replay(const TasksConfig& config) {
  const sim::TickScale scale = tick_scale(config.params.run.tick_s);
  sim::Engine engine(static_cast<std::uint64_t>(config.params.run.seed), scale);
  hw::Network network(engine, *config.network.topology, config.network.routing.make(*config.network.topology),
                      config.network.params);
  TasksResult result;
  result.trace = make_trace_graph(config, scale);
  TraceTransport transport(engine, network, result.trace, config);
  sim::TaskExecutor executor(engine, result.trace.graph, &transport);
  const sim::Origin where{config.file, "/workload/traces"};
  try {
    executor.start();
    while (engine.step()) {
    }
  } catch (const sim::TaskCycle& cycle) {
    sim::throw_fault(where, "the traces wait for each other: " + chain(cycle.tasks, result.trace));
  }
  if (executor.unfinished() > 0)
    sim::throw_fault(where, "the traces block each other: " + stuck(executor, result.trace));
  result.runs.assign(executor.runs().begin(), executor.runs().end());
  result.makespan = executor.makespan();
  result.bound = sim::makespan_bound(result.trace.graph, result.runs, executor.origin());
  result.path = path_times(sim::critical_path(result.trace.graph, result.runs, executor.origin()), result.trace);
  result.ranks = rank_times(result, config.ranks.size());
  for (const double bytes : network.flows().carried()) result.carried_bytes += bytes;
  result.events = engine.events();
  return result;
}

}  // namespace orrery::experiments::tasks
