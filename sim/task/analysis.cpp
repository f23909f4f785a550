#include "sim/task/analysis.hpp"

#include <algorithm>
#include <stdexcept>

namespace orrery::sim {

namespace {

constexpr std::uint32_t kNoTask = ~0U;

void check_complete(const TaskGraph& graph, std::span<const TaskRun> runs) {
  if (runs.size() != graph.tasks()) throw std::logic_error("task analysis: the run is not one of this graph");
  for (std::uint32_t t = 0; t < runs.size(); ++t)
    if (runs[t].finish == kNever)
      throw std::logic_error("task analysis: " + graph.describe(TaskId{t}) + " has not finished");
}

Time last_finish(std::span<const TaskRun> runs, Time origin) {
  for (const TaskRun& run : runs) origin = std::max(origin, run.finish);
  return origin;
}

/// What changed on a resource, sorted for questions about an instant.
struct Uses {
  struct At {
    Time time;
    std::int64_t units;  // summed up to and with this one
    std::uint32_t task;
  };
  std::vector<At> starts, finishes;
  bool sorted = false;

  static std::int64_t before(const std::vector<At>& row, Time time) {
    const auto at = std::partition_point(row.begin(), row.end(), [time](const At& a) { return a.time < time; });
    return at == row.begin() ? 0 : (at - 1)->units;
  }
  void sort(std::span<const TaskRun> runs) {
    sorted = true;
    const auto begun_before = [&](const At& a) { return runs[a.task].start < a.time; };
    const auto earlier = [&](const At& a, const At& b) {
      if (a.time != b.time) return a.time < b.time;
      // Those that took time come first: one that took none has freed nothing that was held before.
      if (begun_before(a) != begun_before(b)) return begun_before(a);
      return a.task < b.task;
    };
    for (auto* row : {&starts, &finishes}) {
      std::sort(row->begin(), row->end(), earlier);
      std::int64_t sum = 0;
      for (At& at : *row) at.units = sum += at.units;
    }
  }
};

/// Finds what held a task back.
class Blame {
 public:
  Blame(const TaskGraph& graph, std::span<const TaskRun> runs, Time origin)
      : graph_(graph), runs_(runs), origin_(origin), last_(runs.size(), kNoTask), before_(runs.size()) {
    for (std::uint32_t t = 0; t < runs.size(); ++t)
      graph.for_each_successor({t}, [&](TaskId after) {
        std::uint32_t& last = last_[after.index];
        if (last == kNoTask || runs[t].finish > runs[last].finish) last = t;
      });
    std::vector<std::uint32_t> line(graph.resources(), kNoTask);
    for (std::uint32_t t = 0; t < runs.size(); ++t)
      for (const Demand& demand : graph.demands({t})) {
        if (graph.order(demand.resource) != TaskOrder::program) continue;
        std::uint32_t& before = line[demand.resource.index];
        // The first of its resources on which the task before it started at the same instant.
        if (before != kNoTask && !before_[t] && runs[before].start == runs[t].start)
          before_[t] = {TaskId{before}, demand.resource};
        before = t;
      }
  }

  /// Fills in everything but `end` and `wait`.
  PathStep step(std::uint32_t task) {
    const TaskRun& run = runs_[task];
    PathStep step{.task = {task}, .begin = run.start, .queued = run.start - run.ready};
    if (run.start > run.ready) {
      if (before_[task]) {
        step.held = HeldBy::order;
        step.by = before_[task].task;
        step.at = before_[task].resource;
      } else {
        find_freed(step);
      }
    } else if (last_[task] != kNoTask && runs_[last_[task]].finish == run.ready) {
      step.held = HeldBy::predecessor;
      step.by = {last_[task]};
    } else if (run.ready > origin_) {
      step.held = graph_.release({task}) == run.ready ? HeldBy::release : HeldBy::added;
    }
    return step;
  }

 private:
  struct Neighbour {
    TaskId task{kNoTask};
    ResourceId resource;
    explicit operator bool() const { return task.index != kNoTask; }
  };

  Uses& uses(ResourceId resource) {
    if (uses_.empty()) {
      uses_.resize(graph_.resources());
      for (std::uint32_t t = 0; t < runs_.size(); ++t)
        for (const Demand& demand : graph_.demands({t})) {
          uses_[demand.resource.index].starts.push_back({runs_[t].start, demand.units, t});
          uses_[demand.resource.index].finishes.push_back({runs_[t].finish, demand.units, t});
        }
    }
    Uses& found = uses_[resource.index];
    if (!found.sorted) found.sort(runs_);
    return found;
  }

  /// The task waited for units: some resource had too few free just before, and a task gave some back.
  void find_freed(PathStep& step) {
    for (const Demand& demand : graph_.demands(step.task)) {
      const Uses& on = uses(demand.resource);
      const std::int64_t held = Uses::before(on.starts, step.begin) - Uses::before(on.finishes, step.begin);
      if (held + demand.units <= graph_.capacity(demand.resource)) continue;
      const auto at = std::partition_point(on.finishes.begin(), on.finishes.end(),
                                           [&](const Uses::At& a) { return a.time < step.begin; });
      if (at == on.finishes.end() || at->time != step.begin || runs_[at->task].start == step.begin) continue;
      step.held = HeldBy::resource;
      step.by = {at->task};
      step.at = demand.resource;
      return;
    }
    throw std::logic_error("task analysis: nothing held back " + graph_.describe(step.task));
  }

  const TaskGraph& graph_;
  std::span<const TaskRun> runs_;
  Time origin_;
  std::vector<std::uint32_t> last_;  // predecessor that finished last
  std::vector<Neighbour> before_;    // in program order, where it started at the same instant
  std::vector<Uses> uses_;
};

}  // namespace

Duration CriticalPath::makespan() const {
  Duration sum;
  for (const PathStep& step : steps) sum += step.wait + step.length();
  return sum;
}

CriticalPath critical_path(const TaskGraph& graph, std::span<const TaskRun> runs, Time origin) {
  check_complete(graph, runs);
  CriticalPath path;
  if (runs.empty()) return path;
  const auto last = std::max_element(runs.begin(), runs.end(),
                                     [](const TaskRun& a, const TaskRun& b) { return a.finish < b.finish; });
  Blame blame(graph, runs, origin);
  auto task = static_cast<std::uint32_t>(last - runs.begin());
  Time end = last->finish;
  while (true) {
    PathStep& step = path.steps.emplace_back(blame.step(task));
    step.end = end;
    if (step.held != HeldBy::predecessor && step.held != HeldBy::resource && step.held != HeldBy::order) break;
    end = step.begin;
    task = step.by.index;
  }
  path.steps.back().wait = path.steps.back().begin - origin;
  std::reverse(path.steps.begin(), path.steps.end());
  return path;
}

LongestPath longest_path(const TaskGraph& graph, std::span<const TaskRun> runs, Time origin) {
  if (!runs.empty()) check_complete(graph, runs);
  const std::size_t n = graph.tasks();
  std::vector<std::uint32_t> waits(n), last(n, kNoTask), free;
  std::vector<Time> finish(n, origin);  // until a task's turn comes: its earliest start
  for (std::uint32_t t = 0; t < n; ++t)
    if ((waits[t] = graph.predecessors({t})) == 0) free.push_back(t);
  std::size_t done = 0;
  LongestPath path;
  std::uint32_t end = kNoTask;
  for (; !free.empty(); ++done) {
    const std::uint32_t t = free.back();
    free.pop_back();
    const bool measured = graph.is_flow({t}) && !runs.empty();
    finish[t] =
        std::max(finish[t], graph.release({t})) + (measured ? runs[t].finish - runs[t].start : graph.duration({t}));
    if (end == kNoTask || finish[t] > finish[end] || (finish[t] == finish[end] && t < end)) end = t;
    graph.for_each_successor({t}, [&](TaskId after) {
      // Of several that finish together the lowest id, whatever the order of the dependencies.
      std::uint32_t& from = last[after.index];
      if (from == kNoTask || finish[t] > finish[from] || (finish[t] == finish[from] && t < from)) from = t;
      finish[after.index] = std::max(finish[after.index], finish[t]);
      if (--waits[after.index] == 0) free.push_back(after.index);
    });
  }
  if (done != n) graph.check_cycles();
  for (; end != kNoTask; end = last[end]) path.tasks.push_back({end});
  std::reverse(path.tasks.begin(), path.tasks.end());
  if (!path.tasks.empty()) path.length = finish[path.tasks.back().index] - origin;
  // A task that is released after its predecessors have finished starts the chain anew.
  for (std::size_t i = path.tasks.size(); i-- > 1;)
    if (graph.release(path.tasks[i]) > finish[path.tasks[i - 1].index]) {
      path.tasks.erase(path.tasks.begin(), path.tasks.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  return path;
}

Duration makespan_bound(const TaskGraph& graph, std::span<const TaskRun> runs, Time origin) {
  Duration bound = longest_path(graph, runs, origin).length;
  std::vector<__int128> work(graph.resources(), 0);
  for (std::uint32_t t = 0; t < graph.tasks(); ++t) {
    const bool measured = graph.is_flow({t}) && !runs.empty();
    const Duration length = measured ? runs[t].finish - runs[t].start : graph.duration({t});
    for (const Demand& demand : graph.demands({t}))
      work[demand.resource.index] += static_cast<__int128>(length.ticks) * demand.units;
  }
  for (std::uint32_t r = 0; r < work.size(); ++r) {
    const std::int64_t capacity = graph.capacity({r});
    bound = std::max(bound, Duration{static_cast<std::int64_t>((work[r] + capacity - 1) / capacity)});
  }
  return bound;
}

double ResourceUse::utilisation() const {
  const __int128 all = busy + idle();
  return all == 0 ? 0 : static_cast<double>(busy) / static_cast<double>(all);
}

namespace {

struct Change {
  Time time;
  std::int64_t units;    // held from then on
  std::int64_t waiting;  // ready tasks that wait from then on
};

/// Splits a resource's time at its changes.
ResourceUse sweep(std::vector<Change>& changes, std::int64_t capacity, Time origin, Time end) {
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  Time first = end, last = origin;
  for (const Change& change : changes) {
    if (change.units > 0) first = std::min(first, change.time);
    if (change.units < 0) last = std::max(last, change.time);
  }
  ResourceUse use;
  Time now = origin;
  std::int64_t held = 0, waiting = 0;
  const auto advance = [&](Time to) {
    const __int128 idle = static_cast<__int128>((to - now).ticks) * (capacity - held);
    use.busy += static_cast<__int128>((to - now).ticks) * held;
    (to <= first   ? use.idle_before
     : now >= last ? use.idle_after
     : waiting > 0 ? use.idle_blocked
                   : use.idle_starved) += idle;
    now = to;
  };
  for (const Change& change : changes) {
    advance(change.time);
    held += change.units;
    waiting += change.waiting;
  }
  advance(end);
  return use;
}

}  // namespace

std::vector<ResourceUse> resource_use(const TaskGraph& graph, std::span<const TaskRun> runs, Time origin) {
  check_complete(graph, runs);
  std::vector<std::vector<Change>> changes(graph.resources());
  std::vector<std::int64_t> tasks(graph.resources(), 0);
  for (std::uint32_t t = 0; t < runs.size(); ++t)
    for (const Demand& demand : graph.demands({t})) {
      auto& row = changes[demand.resource.index];
      ++tasks[demand.resource.index];
      if (runs[t].ready < runs[t].start) row.push_back({runs[t].ready, 0, 1});
      row.push_back({runs[t].start, demand.units, runs[t].ready < runs[t].start ? -1 : 0});
      row.push_back({runs[t].finish, -demand.units, 0});
    }
  std::vector<ResourceUse> uses(graph.resources());
  const Time end = last_finish(runs, origin);
  for (std::uint32_t r = 0; r < uses.size(); ++r) {
    uses[r] = sweep(changes[r], graph.capacity({r}), origin, end);
    uses[r].tasks = tasks[r];
  }
  return uses;
}

}  // namespace orrery::sim
