#include "experiments/feedback/play.hpp"

#include <algorithm>

#include "experiments/base/config_parts.hpp"
#include "sim/task/analysis.hpp"
#include "sim/task/executor.hpp"

namespace orrery::experiments::feedback {
namespace {

using sim::Demand;
using sim::TaskId;

class Player {
 public:
  Player(const FeedbackConfig& config, CallPricer& pricer, const CallPlan& plan)
      : config_(config), plan_(plan), scale_(tick_scale(config.params.run.tick_s)) {
    for (std::int64_t d = 0; d < config.machine.devices; ++d) devices_.push_back(graph_.add_resource({}));
    for (std::size_t i = 0; i < plan.size(); ++i) run_.call_s.push_back(pricer.run_s(config.calls[i], plan[i].shape));
    moves_ = PlanEstimator(config, pricer).moves(plan);
  }

  FeedbackRun run() {
    std::vector<TaskId> before;  // the calls of the iteration before
    for (std::int64_t k = 0; k < config_.params.run.iterations; ++k) before = iteration(k, before);
    sim::Engine engine;
    sim::TaskExecutor executor(engine, graph_);
    executor.run();
    return told(engine, executor);
  }

 private:
  std::vector<TaskId> iteration(std::int64_t k, const std::vector<TaskId>& before) {
    std::vector<TaskId> calls;
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      const Call& call = config_.calls[i];
      std::vector<TaskId> after;
      for (const std::size_t other : call.after) after.push_back(calls[other]);
      const auto trainer = config_.trainer(call.model);
      if (trainer && !before.empty()) after.push_back(before[*trainer]);
      for (const Move& move : moves_) {
        if (move.to != i) continue;
        std::vector<TaskId> trained;
        if (!before.empty()) trained.push_back(before[*trainer]);
        after.push_back(add({.iteration = k, .call = i, .move = true}, move.time_s, {&plan_[move.from], &plan_[i]},
                            trained));
      }
      calls.push_back(add({.iteration = k, .call = i}, run_.call_s[i], {&plan_[i]}, after));
    }
    return calls;
  }

  TaskId add(const CallRun& what, double time_s, const std::vector<const Layout*>& on,
             const std::vector<TaskId>& after) {
    std::vector<bool> used(devices_.size(), false);
    for (const Layout* layout : on)
      for (std::int64_t d = layout->first; d < layout->first + layout->shape.devices(); ++d)
        used[static_cast<std::size_t>(d)] = true;
    std::vector<Demand> demands;
    for (std::size_t d = 0; d < devices_.size(); ++d)
      if (used[d]) demands.emplace_back(devices_[d]);
    run_.runs.push_back(what);
    return graph_.add({.duration = scale_.duration(time_s), .on = demands, .after = after});
  }

  FeedbackRun told(const sim::Engine& engine, const sim::TaskExecutor& executor) {
    const auto seconds = [&](sim::Time at) { return scale_.seconds(at - sim::Time{}); };
    std::vector<double> ends(static_cast<std::size_t>(config_.params.run.iterations), 0);
    double busy = 0;
    for (std::size_t t = 0; t < run_.runs.size(); ++t) {
      const sim::TaskRun own = executor.runs()[t];
      CallRun& one = run_.runs[t];
      one.begin_s = seconds(own.start);
      one.end_s = seconds(own.finish);
      double& end = ends[static_cast<std::size_t>(one.iteration)];
      end = std::max(end, one.end_s);
      if (one.move)
        run_.moves_s += (one.end_s - one.begin_s) / static_cast<double>(ends.size());
      else
        busy += (one.end_s - one.begin_s) * static_cast<double>(plan_[one.call].shape.devices());
    }
    const sim::CriticalPath path = sim::critical_path(graph_, executor.runs(), sim::Time{});
    for (const sim::PathStep& step : path.steps) run_.runs[step.task.index].critical = true;
    run_.first_s = ends.front();
    run_.iteration_s = (ends.back() - ends.front()) / static_cast<double>(ends.size() - 1);
    run_.busy = busy / (ends.back() * static_cast<double>(devices_.size()));
    run_.events = engine.events();
    std::ranges::stable_sort(run_.runs, {}, &CallRun::begin_s);
    return std::move(run_);
  }

  const FeedbackConfig& config_;
  const CallPlan& plan_;
  sim::TickScale scale_;
  sim::TaskGraph graph_;
  std::vector<sim::ResourceId> devices_;
  std::vector<Move> moves_;
  FeedbackRun run_;
};

}  // namespace

FeedbackRun play(const FeedbackConfig& config, CallPricer& pricer, const CallPlan& plan) {
  return Player(config, pricer, plan).run();
}

}  // namespace orrery::experiments::feedback
