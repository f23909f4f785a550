#include "experiments/systems/training/planner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "experiments/systems/training/offload.hpp"
#include "experiments/systems/training/plan_text.hpp"
#include "experiments/systems/training/stage_division.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments::training {
namespace {

constexpr std::int64_t kMostMicroBatch = 64, kMostChunks = 8;
constexpr std::int64_t kScoredEvery = 1 << 15;  ///< plans that are scored between two reports of progress
constexpr std::size_t kMostKept = 1 << 16;      ///< scored plans that are kept before the worse half goes

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) all.push_back(d);
  return all;
}

/// Those of `all` that are asked for.
std::vector<std::int64_t> chosen(std::vector<std::int64_t> all, const std::vector<std::int64_t>& asked) {
  if (asked.empty()) return all;
  std::erase_if(all, [&](std::int64_t value) { return std::find(asked.begin(), asked.end(), value) == asked.end(); });
  return all;
}

template <class T>
std::vector<T> chosen_kinds(const std::vector<T>& asked, std::initializer_list<T> all) {
  return asked.empty() ? std::vector<T>(all) : asked;
}

class PlanSearch {
 public:
  PlanSearch(const TrainingConfig& config, const PlannerParams& params, const sim::RegistrySet& registries,
             const std::function<void(const Progress&)>& progress)
      : config_(config),
        params_(params),
        registries_(registries),
        progress_(progress),
        tables_(config.machine, config.model),
        table_(tables_.table()),
        shares_(shares_of(params, config.params.plan)) {}

  PlannerResult run() {
    result_.layers = table_.layers();
    std::vector<std::int64_t> counts = params_.devices;
    if (counts.empty()) counts.push_back(config_.machine.devices);
    for (const std::int64_t devices : counts) {
      if (devices > config_.machine.devices)
        ++result_.left_out["more devices than the machine has"];
      else if (devices < config_.machine.devices && !tables_.alike())
        ++result_.left_out["fewer devices than the machine has, which are unlike"];
      else
        plans_of(devices);
    }
    rank();
    if (!params_.explain.empty()) explain();
    return std::move(result_);
  }

 private:
  void plans_of(std::int64_t devices) {
    devices_ = devices;
    const std::int64_t node = std::min(devices, config_.machine.node_devices);
    PlanParams offloads = config_.params.plan;
    if (!shares_.empty()) offloads.set_host_shares(shares_);
    for (const auto& why : {machine_obstacle(config_.machine, devices), offload_obstacle(config_, offloads)})
      if (why) {
        ++result_.left_out[*why];
        return;
      }
    const std::vector<std::int64_t> contexts =
        params_.context_parallel.empty() ? std::vector<std::int64_t>{1} : params_.context_parallel;
    for (const std::int64_t tensor : chosen(divisors(devices), params_.tensor_parallel)) {
      if (tensor > node && params_.tensor_parallel.empty()) continue;  // across nodes where it is asked for
      for (const std::int64_t context : contexts) {
        if (devices % (tensor * context) != 0) {
          ++result_.left_out["ranks do not divide the devices"];
          continue;
        }
        Plan shared = as_configured();
        shared.tensor = tensor;
        shared.context = context;
        shared.sequence = tensor > 1 && table_.experts() > 0;
        if (table_.obstacle(shared.share())) {
          ++result_.left_out["ranks of tensor or context parallelism do not divide the model"];
          continue;
        }
        for (const std::int64_t pipeline : chosen(divisors(devices / tensor / context), params_.pipeline_parallel)) {
          shared.pipeline = pipeline;
          shared.data = devices / tensor / context / pipeline;
          if (tables_.obstacle(shared)) {
            ++result_.left_out["a stage has unlike devices"];
            continue;
          }
          if (pipeline > table_.layers())
            ++result_.left_out["more stages than layers"];
          else
            for (const std::int64_t experts :
                 chosen(divisors(std::max<std::int64_t>(1, table_.experts())), params_.expert_parallel)) {
              if (devices / pipeline % experts != 0) {
                ++result_.left_out["ranks of expert parallelism do not divide a stage's"];
                continue;
              }
              shared.experts = experts;
              copies(shared, pipeline);
            }
        }
      }
    }
  }

  /// What is not searched over, as the config's plan has it.
  Plan as_configured() const {
    const PlanParams& p = config_.params.plan;
    Plan plan{.balanced = p.context_balanced,
              .exchange = p.context_exchange,
              .dispatch = p.expert_dispatch,
              .expert_nodes = p.expert_nodes};
    static_cast<GradientParams&>(plan) = p;
    static_cast<OffloadParams&>(plan) = p;
    return plan;
  }

  /// With and without sequence parallelism, where there can be either.
  std::vector<bool> token_sharing(const Plan& plan) const {
    std::vector<bool> all;
    if (plan.tensor == 1 || table_.experts() == 0) all.push_back(false);
    if (plan.tensor > 1 && config_.model.sequence % (plan.tensor * plan.context) == 0) all.push_back(true);
    return all;
  }

  void share_tokens(Plan& plan, bool sequence) const {
    plan.sequence = sequence;
    plan.async_tensor = sequence && config_.params.plan.async_tensor_parallel;
    plan.overlap_experts = plan.experts > 1 && config_.params.plan.overlap_experts;
  }

  void copies(Plan plan, std::int64_t pipeline) {
    plan.pipeline = pipeline;
    plan.data = devices_ / plan.tensor / plan.context / pipeline;
    const std::int64_t batch = config_.params.workload.global_batch;
    if (batch % plan.data != 0) {
      ++result_.left_out["copies do not divide the batch"];
      return;
    }
    for (const std::int64_t micro : chosen(divisors(batch / plan.data), params_.micro_batch)) {
      if (params_.micro_batch.empty() && micro > kMostMicroBatch) break;
      plan.micro_batch = micro;
      plan.micro_batches = batch / plan.data / micro;
      const std::int64_t layers = table_.layers() / pipeline;
      for (const std::int64_t chunks : chosen(divisors(layers), params_.interleave)) {
        if (chunks > kMostChunks && params_.interleave.empty()) break;
        if (chunks > 1 && (pipeline == 1 || plan.micro_batches % pipeline != 0)) continue;
        plan.chunks = chunks;
        choices(plan);
        if (tries_apart() && pipeline > 1 && chunks == 1) apart(plan);
      }
    }
  }

  void choices(Plan plan) {
    using enum Recompute;
    for (const bool sequence : token_sharing(plan)) {
      share_tokens(plan, sequence);
      for (const Recompute recompute : chosen_kinds(params_.recompute, {none, selective, full})) {
        const bool same_as_none = recompute == selective && params_.recompute.empty() && !table_.has_core();
        plan.recompute = recompute;
        for (const Zero zero :
             chosen_kinds(params_.zero, {Zero::none, Zero::optimizer, Zero::gradients, Zero::weights})) {
          if (plan.copies() == 1 && zero != Zero::none) continue;
          plan.zero = zero;
          if (same_as_none) {
            result_.left_out["selective recomputation of attention that is one kernel"] +=
                std::max<std::int64_t>(1, std::ssize(shares_));
            continue;
          }
          if (shares_.empty()) take(plan);
          for (const HostShares& share : shares_) {
            plan.set_host_shares({share});
            take(plan);
          }
        }
      }
    }
  }

  /// What may lie in the host's memory, every share with every other; none where only the plan's own may.
  static std::vector<HostShares> shares_of(const PlannerParams& params, const OffloadParams& plan) {
    std::vector<HostShares> all;
    if (std::ranges::all_of(kOffloadFields, [&](const auto& one) { return (params.*one.of).empty(); })) return all;
    const HostShares own = plan.host_shares(0);
    const auto asked = [](const std::vector<double>& list, double planned) {
      return list.empty() ? std::vector<double>{planned} : list;
    };
    for (const double weights : asked(params.offload_weights, own.weights))
      for (const double gradients : asked(params.offload_gradients, own.gradients))
        for (const double optimizer : asked(params.offload_optimizer, own.optimizer))
          for (const double activations : asked(params.offload_activations, own.activations))
            all.push_back({weights, gradients, optimizer, activations});
    return all;
  }

  /// Stages that differ run layers again where they must: not where that is ruled out.
  bool may_run_again() const {
    const auto& asked = params_.recompute;
    return asked.empty() || std::find(asked.begin(), asked.end(), Recompute::full) != asked.end();
  }
  /// How far a stage's layers may be from its share by speed: on unlike devices memory may ask for anything.
  std::int64_t reach() const { return tables_.alike() ? 3 : table_.layers(); }
  /// On unlike devices they differ whatever is asked.
  bool tries_apart() const { return !tables_.alike() || (params_.stages == PlanStages::apart && may_run_again()); }

  /// Stages that differ in layers and in what runs again.
  void apart(Plan plan) {
    for (const bool sequence : token_sharing(plan)) {
      share_tokens(plan, sequence);
      for (const Zero zero : chosen_kinds(params_.zero, {Zero::none, Zero::optimizer})) {
        if (plan.copies() == 1 && zero != Zero::none) continue;
        plan.zero = zero;
        const auto division = divide_stages(tables_, plan, table_.layers(), reach(),
                                            may_run_again() ? StageAgain::fewest_that_fit : StageAgain::none, shares_);
        const bool again =
            division && std::ranges::any_of(division->again, [](std::int64_t layers) { return layers > 0; });
        if (!division) {
          ++result_.left_out["no division among stages fits"];
          continue;
        }
        Plan own = plan;
        if (again) {
          own.recompute = Recompute::full;
          own.stage_recompute_layers = division->again;
        }
        if (!shares_.empty()) own.set_host_shares(division->shares);
        keep(score_stages(tables_, own, division->layers));
      }
    }
  }

  void take(const Plan& plan) { keep(scored_even(plan)); }

  ScoredPlan scored_even(const Plan& plan) {
    if (tables_.alike() && !plan.by_stage()) return score(table_, config_.machine, plan, table_.layers());
    ScoredPlan scored = score_stages(tables_, plan, even_division(plan));
    scored.layers.clear();
    return scored;
  }

  void keep(ScoredPlan scored) {
    const Plan& plan = scored.plan;
    if (++result_.evaluated % kScoredEvery == 0 && progress_)
      progress_({.done = result_.evaluated, .what = "plans scored"});
    if (scored.memory_bytes > scored.available_bytes) {
      const std::string reason = "more memory than a device has";
      ++result_.left_out[reason];
      const auto [nearest, first] = result_.nearest.try_emplace(reason, scored);
      if (!first && scored.memory_bytes < nearest->second.memory_bytes) nearest->second = std::move(scored);
      return;
    }
    if (config_.machine.host_memory && scored.host_bytes > *config_.machine.host_memory) {
      ++result_.left_out["more memory than a host has"];
      return;
    }
    kind("all", scored);
    for (const PlanRank rank : {PlanRank::time, PlanRank::memory, PlanRank::energy, PlanRank::cost})
      objective(rank, scored);
    if (plan.tensor == 1) kind("no tensor parallelism", scored);
    if (plan.pipeline == 1) kind("no pipeline", scored);
    if (plan.recompute == Recompute::none) kind("nothing run again", scored);
    if (plan.zero == Zero::none) kind("no ZeRO", scored);
    if (plan.chunks == 1) kind("no interleaving", scored);
    if ((params_.stages == PlanStages::apart || !tables_.alike()) && scored.layers.empty())
      kind("stages alike", scored);
    all_.push_back(std::move(scored));
    if (all_.size() >= 2 * kMostKept) cut(kMostKept);
  }

  static double figure(const ScoredPlan& plan, PlanRank rank) {
    switch (rank) {
      case PlanRank::time:
        return plan.step_s();
      case PlanRank::memory:
        return static_cast<double>(plan.memory_bytes);
      case PlanRank::energy:
        return plan.energy_j;
      case PlanRank::cost:
        return plan.device_s();
    }
    return 0;
  }

  static bool better_at(PlanRank rank, const ScoredPlan& a, const ScoredPlan& b) {
    const double at = figure(a, rank), bt = figure(b, rank);
    if (at != bt) return at < bt;
    if (a.step_s() != b.step_s()) return a.step_s() < b.step_s();
    return a.memory_bytes < b.memory_bytes;
  }
  bool better(const ScoredPlan& a, const ScoredPlan& b) const { return better_at(params_.rank, a, b); }

  void objective(PlanRank rank, const ScoredPlan& plan) {
    const std::string name(sim::to_string(rank));
    for (auto& [known, best] : result_.objectives)
      if (known == name) {
        if (better_at(rank, plan, best)) best = plan;
        return;
      }
    result_.objectives.emplace_back(name, plan);
  }

  void kind(const std::string& name, const ScoredPlan& plan) {
    for (auto& [known, best] : result_.kinds)
      if (known == name) {
        if (better(plan, best)) best = plan;
        return;
      }
    result_.kinds.emplace_back(name, plan);
  }

  void cut(std::size_t count) {
    std::stable_sort(all_.begin(), all_.end(), [&](const ScoredPlan& a, const ScoredPlan& b) { return better(a, b); });
    if (all_.size() > count) all_.resize(count);
  }

  void rank() {
    cut(static_cast<std::size_t>(params_.run));
    sim::Faults faults;
    const auto& schedules = registries_.get<policies::ScheduleRegistry>();
    const auto plain = schedules.prepare("1f1b", nullptr, {}, faults).make();
    const auto chunked = schedules.prepare("interleaved", nullptr, {}, faults).make();
    const std::int64_t total = std::ssize(all_);
    for (std::int64_t i = 0; i < total; ++i) {
      ScoredPlan& plan = all_[static_cast<std::size_t>(i)];
      run_plan(plan, plan.plan.chunks > 1 ? *chunked : *plain);
      if (progress_) progress_({.done = i + 1, .total = total, .what = "plans run"});
    }
    cut(static_cast<std::size_t>(params_.show));
    result_.best = std::move(all_);
  }

  void run_plan(ScoredPlan& plan, const policies::PipelineSchedule& schedule) {
    if (pass_count(plan.plan) > kMostPasses) return;  // ranked by its closed form
    const StepRun run = run_step(costs_of(plan), schedule, tick_scale(config_.params.run.tick_s));
    plan.time_s = run.times.time_s;
    plan.times = run.times;
  }

  /// Scores and runs the plan that is asked about, whatever the space.
  void explain() {
    ExplainedPlan asked;
    std::optional<std::string> why;
    const PlanParams params = parse_plan(params_.explain, config_.params.plan);
    asked.plan.plan = make_plan(params, config_.machine.devices, config_.params.workload.global_batch, why);
    const Plan& plan = asked.plan.plan;
    if (!why) why = offload_obstacle(config_, params);
    if (!why) why = tables_.obstacle(plan);
    if (!why) why = table_.obstacle(plan.share());
    if (!why && plan.pipeline * plan.chunks > table_.layers())
      why = fmt::format("{} stages of {} chunks want as many layers, the model has {}", plan.pipeline, plan.chunks,
                        table_.layers());
    sim::Faults faults;
    const auto schedule = registries_.get<policies::ScheduleRegistry>()
                              .prepare(plan.chunks > 1 ? "interleaved" : "1f1b", nullptr, {}, faults)
                              .make();
    if (!why)
      why = schedule->obstacle({.devices = plan.pipeline, .micro_batches = plan.micro_batches, .chunks = plan.chunks});
    if (!why) {
      asked.plan = scored_even(Plan(plan));
      run_plan(asked.plan, *schedule);
      if (asked.plan.memory_bytes > asked.plan.available_bytes)
        why = fmt::format("its fullest stage needs {}, a device has {}",
                          sim::humanise(static_cast<double>(asked.plan.memory_bytes), sim::Unit::bytes),
                          sim::humanise(static_cast<double>(asked.plan.available_bytes), sim::Unit::bytes));
      else
        why = host_obstacle(config_.machine, asked.plan.host_bytes);
    }
    asked.reason = why.value_or("");
    result_.explained = std::move(asked);
  }

  std::vector<std::int64_t> even_division(const Plan& plan) const {
    std::vector<std::int64_t> layers;
    for (std::int64_t s = 0; s < plan.pipeline; ++s) layers.push_back(even_layers(table_.layers(), plan.pipeline, s));
    return layers;
  }

  StepCosts costs_of(const ScoredPlan& scored) {
    const Plan& plan = scored.plan;
    return tables_.step(plan, scored.layers.empty() ? even_division(plan) : scored.layers);
  }

  const TrainingConfig& config_;
  const PlannerParams& params_;
  const sim::RegistrySet& registries_;
  const std::function<void(const Progress&)>& progress_;
  StageTables tables_;
  CostTable& table_;  ///< of the first kind of devices: what it can share, all can
  std::vector<HostShares> shares_;
  PlannerResult result_;
  std::vector<ScoredPlan> all_;
  std::int64_t devices_ = 1;
};

}  // namespace

PlannerResult find_plans(const TrainingConfig& config, const PlannerParams& params, const sim::RegistrySet& registries,
                         const std::function<void(const Progress&)>& progress) {
  return PlanSearch(config, params, registries, progress).run();
}

}  // namespace orrery::experiments::training
