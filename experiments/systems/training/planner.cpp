#include "experiments/systems/training/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace orrery::experiments::training {
namespace {

constexpr std::int64_t kMostMicroBatch = 64, kMostChunks = 8;
constexpr std::size_t kMostKept = 1 << 16;  ///< scored plans that are kept before the worse half goes

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

/// Bytes of activations that a stage keeps at its most, under 1F1B or its interleaved form (policies/schedule).
std::int64_t most_kept(const StageCosts& stage, const Plan& plan, std::int64_t s) {
  const std::int64_t later = plan.pipeline - 1 - s, micro = plan.micro_batches, chunks = plan.chunks;
  if (chunks == 1) return std::min(micro, later + 1) * stage.chunks.front().kept_bytes;
  const std::int64_t total = micro * chunks, round = plan.pipeline * chunks;
  const std::int64_t warm = std::min(total, 2 * later + (chunks - 1) * plan.pipeline);
  const auto kept = [&](std::int64_t chunk) { return stage.chunks[static_cast<std::size_t>(chunk)].kept_bytes; };
  // What happens in the third round happens in all.
  const std::int64_t passes = std::min(total, warm + 2 * round);
  std::int64_t now = 0, most = 0;
  for (std::int64_t i = 0; i < passes; ++i) {
    most = std::max(most, now += kept(i % round / plan.pipeline));
    if (i >= warm) now -= kept(chunks - 1 - (i - warm) % round / plan.pipeline);
  }
  return most;
}

class PlanSearch {
 public:
  PlanSearch(const TrainingConfig& config, const PlannerParams& params, const sim::RegistrySet& registries)
      : config_(config), params_(params), registries_(registries), table_(config.machine, config.model) {}

  PlannerResult run() {
    const std::int64_t devices = config_.machine.devices;
    const std::int64_t node = std::min(devices, config_.machine.node_devices);
    if (const auto why = machine_obstacle(config_.machine, devices)) {
      ++result_.left_out[*why];
      return std::move(result_);
    }
    for (const std::int64_t tensor : chosen(divisors(devices), params_.tensor_parallel)) {
      if (tensor > node) continue;  // across nodes it never pays, and is asked for by name only
      if (const auto why = table_.obstacle({.tensor = tensor})) {
        ++result_.left_out["ranks of tensor parallelism do not divide the model"];
        continue;
      }
      for (const std::int64_t pipeline : chosen(divisors(devices / tensor), params_.pipeline_parallel))
        if (pipeline <= table_.layers()) copies(tensor, pipeline);
    }
    rank();
    return std::move(result_);
  }

 private:
  void copies(std::int64_t tensor, std::int64_t pipeline) {
    Plan plan{.tensor = tensor, .pipeline = pipeline, .data = config_.machine.devices / tensor / pipeline};
    const std::int64_t batch = config_.params.workload.global_batch;
    if (batch % plan.data != 0) {
      ++result_.left_out["copies do not divide the batch"];
      return;
    }
    plan.overlap_gradients = config_.params.plan.overlap_gradients;
    plan.gradients_fp32 = config_.params.plan.gradients_fp32;
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
      }
    }
  }

  void choices(Plan plan) {
    using enum Recompute;
    for (const bool sequence : {false, true}) {
      if (sequence && (plan.tensor == 1 || config_.model.sequence % plan.tensor != 0)) continue;
      plan.sequence = sequence;
      for (const Recompute recompute : chosen_kinds(params_.recompute, {none, selective, full})) {
        plan.recompute = recompute;
        for (const Zero zero :
             chosen_kinds(params_.zero, {Zero::none, Zero::optimizer, Zero::gradients, Zero::weights})) {
          if (plan.data == 1 && zero != Zero::none) continue;
          plan.zero = zero;
          take(plan);
        }
      }
    }
  }

  void take(const Plan& plan) {
    ScoredPlan scored = score(table_, config_.machine, plan, table_.layers());
    ++result_.evaluated;
    if (scored.memory_bytes > config_.machine.device.memory_bytes) {
      ++result_.left_out["more memory than a device has"];
      return;
    }
    kind("all", scored);
    if (plan.tensor == 1) kind("no tensor parallelism", scored);
    if (plan.pipeline == 1) kind("no pipeline", scored);
    if (plan.recompute == Recompute::none) kind("nothing run again", scored);
    if (plan.zero == Zero::none) kind("no ZeRO", scored);
    if (plan.chunks == 1) kind("no interleaving", scored);
    all_.push_back(std::move(scored));
    if (all_.size() >= 2 * kMostKept) cut(kMostKept);
  }

  bool better(const ScoredPlan& a, const ScoredPlan& b) const {
    const double at = a.time_s > 0 ? a.time_s : a.closed_s, bt = b.time_s > 0 ? b.time_s : b.closed_s;
    if (params_.rank == PlanRank::memory && a.memory_bytes != b.memory_bytes) return a.memory_bytes < b.memory_bytes;
    if (at != bt) return at < bt;
    return a.memory_bytes < b.memory_bytes;
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
    for (ScoredPlan& plan : all_) {
      if (pass_count(plan.plan) > kMostPasses) continue;  // ranked by its closed form
      const StepRun run = run_step(costs_of(plan.plan), plan.plan.chunks > 1 ? *chunked : *plain,
                                   tick_scale(config_.params.run.tick_s));
      plan.time_s = run.times.time_s;
      plan.times = run.times;
    }
    cut(static_cast<std::size_t>(params_.show));
    result_.best = std::move(all_);
  }

  StepCosts costs_of(const Plan& plan) {
    std::vector<std::int64_t> layers;
    for (std::int64_t s = 0; s < plan.pipeline; ++s)
      layers.push_back(table_.layers() * (s + 1) / plan.pipeline - table_.layers() * s / plan.pipeline);
    return step_costs(table_, config_.machine, plan, layers);
  }

  const TrainingConfig& config_;
  const PlannerParams& params_;
  const sim::RegistrySet& registries_;
  CostTable table_;
  PlannerResult result_;
  std::vector<ScoredPlan> all_;
};

}  // namespace

ScoredPlan score(CostTable& table, const TrainingMachine& machine, const Plan& plan, std::int64_t layers) {
  const ModelCosts& model = table.costs(plan.share());
  // Stages that are neither first nor last are alike where they have as many layers: an even partition has two lengths.
  struct Kind {
    std::int64_t layers = 0;
    bool first = false, last = false;
    StageCosts costs;
  };
  ScoredPlan scored{.plan = plan};
  std::vector<Kind> kinds;
  kinds.reserve(4);
  std::vector<std::uint8_t> kind_of(static_cast<std::size_t>(plan.pipeline));
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const std::int64_t count = layers * (s + 1) / plan.pipeline - layers * s / plan.pipeline;
    const bool first = s == 0, last = s == plan.pipeline - 1;
    std::size_t k = 0;
    while (k < kinds.size() && !(kinds[k].layers == count && kinds[k].first == first && kinds[k].last == last)) ++k;
    if (k == kinds.size()) {
      kinds.push_back({count, first, last, stage_costs(model, machine, plan, s, count)});
      // The first of a kind runs ahead the farthest.
      const StageCosts& costs = kinds.back().costs;
      const StageMemory memory = stage_memory(model, costs, plan, most_kept(costs, plan, s));
      scored.memory_bytes = std::max(scored.memory_bytes, memory.total());
    }
    kind_of[static_cast<std::size_t>(s)] = static_cast<std::uint8_t>(k);
  }
  std::vector<const StageCosts*> stages;
  stages.reserve(kind_of.size());
  for (const std::uint8_t kind : kind_of) stages.push_back(&kinds[kind].costs);
  StepCosts messages;
  add_messages(model, machine, plan, messages);
  scored.closed_s = closed_form(plan, messages.activation_s, stages).time_s;
  return scored;
}

PlannerResult find_plans(const TrainingConfig& config, const PlannerParams& params,
                         const sim::RegistrySet& registries) {
  return PlanSearch(config, params, registries).run();
}

}  // namespace orrery::experiments::training
