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
      : config_(config),
        plan_(plan),
        lag_(static_cast<std::size_t>(config.params.workload.lag)),
        first_(lag_),
        measured_(static_cast<std::size_t>(config.params.run.iterations)),
        scale_(tick_scale(config.params.run.tick_s)) {
    for (std::int64_t d = 0; d < config.machine.devices; ++d)
      devices_.push_back(graph_.add_resource({.order = sim::TaskOrder::priority}));
    for (std::size_t i = 0; i < plan.size(); ++i) {
      run_.calls.push_back(pricer.run(config.calls[i], plan[i].shape));
      run_.loads_s.push_back(pricer.load_s(config.calls[i], plan[i].shape));
      run_.calls.back().time_s += run_.loads_s.back();
    }
    moves_ = PlanEstimator(config, pricer).moves(plan);
  }

  FeedbackRun run() {
    for (std::size_t k = 0; k < first_ + measured_ + lag_; ++k) iteration(k);
    sim::Engine engine;
    sim::TaskExecutor executor(engine, graph_);
    executor.run();
    return told(engine, executor);
  }

 private:
  void iteration(std::size_t k) {
    tasks_.emplace_back();
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      const Call& call = config_.calls[i];
      std::vector<TaskId> after, trained;
      for (const std::size_t other : call.after) after.push_back(tasks_[k][other]);
      if (const auto round = config_.trained_before(i, k))
        trained.push_back(tasks_[*round][*config_.trainer(call.model)]);
      after.insert(after.end(), trained.begin(), trained.end());
      const CallRun own{.iteration = static_cast<std::int64_t>(k), .call = i};
      for (const Move& move : moves_) {
        if (move.to != i) continue;
        CallRun weights = own;
        weights.move = true;
        // Behind a lag weights go out beside the next training; else nobody has anything else to do.
        std::vector<const Layout*> on{&plan_[i]};
        if (config_.params.workload.lag == 0) on.push_back(&plan_[move.from]);
        after.push_back(add(weights, move.time_s, on, trained));
      }
      tasks_[k].push_back(add(own, run_.calls[i].time_s, {&plan_[i]}, after));
    }
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
    return graph_.add({.duration = scale_.duration(time_s),
                       .on = demands,
                       .after = after,
                       .priority = -static_cast<std::int32_t>(what.iteration)});
  }

  FeedbackRun told(const sim::Engine& engine, const sim::TaskExecutor& executor) {
    const auto seconds = [&](sim::Time at) { return scale_.seconds(at - sim::Time{}); };
    std::vector<double> ends(tasks_.size(), 0);
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
    lags(executor);
    run_.iterations = std::ssize(tasks_);
    run_.first_s = ends.front();
    run_.iteration_s = (ends[first_ + measured_ - 1] - ends[first_]) / static_cast<double>(measured_ - 1);
    const double end = *std::ranges::max_element(ends);
    run_.busy = busy / (end * static_cast<double>(devices_.size()));
    run_.events = engine.events();
    std::ranges::stable_sort(run_.runs, {}, &CallRun::begin_s);
    return std::move(run_);
  }

  /// Trainings that ended between the beginning of a generation and that of the training on it.
  void lags(const sim::TaskExecutor& executor) {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      const auto trainer = config_.trainer(config_.calls[i].model);
      if (config_.calls[i].kind != CallKind::generate || !trainer) continue;
      for (std::size_t k = 0; k < tasks_.size(); ++k) {
        const sim::Time begin = executor[tasks_[k][i]].start;
        double behind = 0;
        for (std::size_t other = 0; other < k; ++other) behind += executor[tasks_[other][*trainer]].finish > begin;
        run_.most_lag = std::max(run_.most_lag, behind);
        if (2 * k >= tasks_.size()) sum += behind, count += 1;
      }
    }
    if (count > 0) run_.mean_lag = sum / count;
  }

  const FeedbackConfig& config_;
  const CallPlan& plan_;
  /// Generation runs ahead by `lag` iterations: so many come before those that are measured, and as many after them.
  const std::size_t lag_, first_, measured_;
  sim::TickScale scale_;
  sim::TaskGraph graph_;
  std::vector<sim::ResourceId> devices_;
  std::vector<Move> moves_;
  std::vector<std::vector<TaskId>> tasks_;  ///< calls by iteration
  FeedbackRun run_;
};

}  // namespace

FeedbackRun play(const FeedbackConfig& config, CallPricer& pricer, const CallPlan& plan) {
  return Player(config, pricer, plan).run();
}

}  // namespace orrery::experiments::feedback
