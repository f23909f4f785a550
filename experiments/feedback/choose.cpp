// Who decides where calls run.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "experiments/feedback/play.hpp"
#include "experiments/search/search.hpp"
#include "experiments/search/unique.hpp"
#include "experiments/systems/training/run.hpp"

namespace orrery::experiments::feedback {
namespace {

constexpr double kMostExhaustive = 5e6;
constexpr std::size_t kCandidates = 256;

class Chooser {
 public:
  Chooser(const FeedbackConfig& config, CallPricer& pricer)
      : config_(config), pricer_(pricer), estimator_(config, pricer) {}

  ChosenPlan run() {
    switch (config_.params.plans.choose) {
      case PlanChoice::stated:
        stated();
        break;
      case PlanChoice::one_plan:
        one_plan();
        break;
      case PlanChoice::fastest_one_plan:
        fastest_one_plan();
        break;
      case PlanChoice::searched:
        searched();
        break;
      case PlanChoice::exhaustive:
        exhaustive();
        break;
    }
    if (best_.obstacle.empty() && best_.plan.empty())
      best_.obstacle = nearest_.empty() ? "no layout of a call can run" : nearest_;
    by_events();
    best_.looks = looks_;
    best_.options = options_;
    return std::move(best_);
  }

 private:
  double limit() const { return static_cast<double>(config_.machine.device.memory_bytes); }

  /// Looks at a plan that can run; nothing where it needs more memory than there is.
  std::optional<double> look(const CallPlan& plan) {
    ++looks_;
    const double memory = estimator_.memory_bytes(plan);
    if (memory > limit()) {
      if (least_memory_ == 0 || memory < least_memory_) {
        least_memory_ = memory;
        nearest_ = fmt::format("a device needs {}, it has {}", sim::humanise(memory, sim::Unit::bytes),
                               sim::humanise(limit(), sim::Unit::bytes));
      }
      return std::nullopt;
    }
    if (const auto full =
            training::host_obstacle(config_.machine, static_cast<std::int64_t>(estimator_.host_bytes(plan)))) {
      if (nearest_.empty()) nearest_ = *full;
      return std::nullopt;
    }
    const double time = estimator_.time_s(plan);
    if (best_.plan.empty() || time < best_.estimate_s) {
      best_.plan = plan;
      best_.estimate_s = time;
      best_.memory_bytes = memory;
    }
    if (config_.params.workload.lag > 0) {
      candidates_.emplace(time, plan);
      if (candidates_.size() > kCandidates) candidates_.erase(std::prev(candidates_.end()));
    }
    return time;
  }

  /// Where iterations overlap the estimate is a bound, which many plans share: the best of them in events is taken.
  void by_events() {
    double fastest = 0;
    for (const auto& [estimate, plan] : candidates_) {
      if (fastest > 0 && estimate >= fastest) break;
      const double time = play(config_, pricer_, plan).iteration_s;
      if (fastest > 0 && time >= fastest) continue;
      fastest = time;
      best_.plan = plan;
      best_.estimate_s = estimate;
      best_.memory_bytes = estimator_.memory_bytes(plan);
    }
  }

  void stated() {
    CallPlan plan;
    for (const Call& call : config_.calls) {
      const LayoutParams& l = *call.layout;
      plan.push_back({l.first, {l.data, l.pipeline, l.tensor}});
      const std::string& why = pricer_.cost(call, plan.back().shape).obstacle;
      if (!why.empty()) {
        best_.obstacle = fmt::format("{}: {}", call.name, why);
        return;
      }
    }
    (void)look(plan);
  }

  /// The same shape for all calls; false where one of them cannot run so.
  bool all_in(const Shape& shape) {
    for (const Call& call : config_.calls)
      if (const std::string& why = pricer_.cost(call, shape).obstacle; !why.empty()) {
        if (nearest_.empty()) nearest_ = fmt::format("{}: {}", call.name, why);
        return false;
      }
    return look(CallPlan(config_.calls.size(), Layout{0, shape})).has_value();
  }

  void one_plan() {
    const std::int64_t devices = config_.machine.devices, tensor = std::min(devices, config_.machine.node_devices);
    for (std::int64_t stages = 1; stages <= devices / tensor; ++stages)
      if (devices / tensor % stages == 0 && all_in({devices / tensor / stages, stages, tensor})) return;
  }

  void fastest_one_plan() {
    const std::int64_t devices = config_.machine.devices;
    for (std::int64_t tensor = 1; tensor <= std::min(devices, config_.machine.node_devices); ++tensor)
      for (std::int64_t stages = 1; devices % tensor == 0 && stages <= devices / tensor; ++stages)
        if (devices / tensor % stages == 0) (void)all_in({devices / tensor / stages, stages, tensor});
  }

  bool list_options() {
    options_ = 1;
    for (const Call& call : config_.calls) {
      choices_.push_back(layouts(pricer_, config_, call, static_cast<std::size_t>(config_.params.plans.options)));
      options_ *= static_cast<double>(choices_.back().size());
      if (choices_.back().empty()) {
        best_.obstacle = fmt::format("{}: no layout of its own fits the devices", call.name);
        return false;
      }
    }
    return true;
  }

  CallPlan plan_at(const search::Point& point) const {
    CallPlan plan;
    for (std::size_t i = 0; i < choices_.size(); ++i) plan.push_back(choices_[i][static_cast<std::size_t>(point[i])]);
    return plan;
  }

  void exhaustive() {
    if (!list_options()) return;
    if (options_ > kMostExhaustive) {
      best_.obstacle = fmt::format(
          "{:.3g} plans are more than the {:.3g} that are all looked at: plans.options bounds "
          "the layouts of a call",
          options_, kMostExhaustive);
      return;
    }
    search::Point point(choices_.size(), 0);
    for (bool more = true; more;) {
      (void)look(plan_at(point));
      more = false;
      for (std::size_t i = choices_.size(); i-- > 0 && !more;) {
        point[i] += 1;
        more = point[i] < static_cast<double>(choices_[i].size());
        if (!more) point[i] = 0;
      }
    }
  }

  void searched() {
    if (!list_options()) return;
    search::Space space;
    sim::Faults faults;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      search::Parameter parameter{.name = config_.calls[i].name, .kind = search::ParameterKind::categorical};
      for (std::size_t k = 0; k < choices_[i].size(); ++k)
        parameter.choices.push_back({fmt::format("{}", k), static_cast<double>(k), false, {}});
      space.add(std::move(parameter), {}, {"plans", ""}, faults);
    }
    faults.throw_if_any();
    // Where everybody would begin: the fastest layout of each call, and all devices for all.
    (void)look(plan_at(search::Point(choices_.size(), 0)));
    fastest_one_plan();
    const auto evaluate = [&](const search::Proposal& proposal) -> search::Evaluation {
      const auto time = look(plan_at(proposal.point));
      if (!time) return {.status = search::TrialStatus::infeasible, .reason = "memory"};
      return {.objectives = {*time}};
    };
    const sim::RandomStream random(static_cast<std::uint64_t>(config_.params.run.seed), "plans");
    const auto driver = config_.params.plans.driver.make(
        {.space = &space, .budget = config_.params.plans.budget, .random = random.child("driver")});
    (void)search::run_search(*driver, search::on_threads(evaluate, 1), {.budget = config_.params.plans.budget});
  }

  const FeedbackConfig& config_;
  CallPricer& pricer_;
  PlanEstimator estimator_;
  std::vector<std::vector<Layout>> choices_;
  std::set<std::pair<double, CallPlan>> candidates_;  ///< the best estimates
  ChosenPlan best_;
  std::string nearest_;
  double least_memory_ = 0, options_ = 1;
  std::int64_t looks_ = 0;
};

}  // namespace

ChosenPlan choose_plan(const FeedbackConfig& config, CallPricer& pricer) {
  return Chooser(config, pricer).run();
}

}  // namespace orrery::experiments::feedback
