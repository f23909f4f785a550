#include "experiments/systems/training/best_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/systems/training/planner.hpp"

namespace orrery::experiments::training {
namespace {

/// What a config would have to say to have the plan.
PlanParams params_of(const Plan& plan, PlanParams params) {
  params.best_by.reset();
  params.tensor_parallel = plan.tensor;
  params.context_parallel = plan.context;
  params.pipeline_parallel = plan.pipeline;
  params.data_parallel = plan.data;
  params.expert_parallel = plan.experts;
  params.micro_batch = plan.micro_batch;
  params.interleave = plan.chunks;
  params.sequence_parallel = plan.sequence;
  params.async_tensor_parallel = plan.async_tensor;
  params.overlap_experts = plan.overlap_experts;
  params.recompute = plan.recompute;
  params.zero = plan.zero;
  static_cast<OffloadParams&>(params) = plan;
  params.recompute_layers.reset();
  params.stage_recompute_layers.clear();
  params.stage_tensor_parallel.clear();
  return params;
}

/// Why there is no plan: what most of them lack.
std::string why_none(const PlannerResult& result, std::int64_t devices) {
  const auto most = std::max_element(result.left_out.begin(), result.left_out.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == result.left_out.end()) return fmt::format("no plan for {} devices", devices);
  return fmt::format("no plan for {} devices can be; most of them ({}): {}", devices, most->second, most->first);
}

}  // namespace

void take_best_plan(const sim::Node& node, const sim::RegistrySet& registries, TrainingConfig& config,
                    sim::Faults& faults) {
  const std::string& schedule = config.params.policies.schedule.name;
  const sim::Origin place = place_of(node, "best_by");
  if (schedule != "1f1b" && schedule != "interleaved") {
    faults.add(place, fmt::format("expected the schedule 1f1b or interleaved, between which the plan chooses, got {}",
                                  schedule));
    return;
  }
  if (config.params.workload.largest_batch) {
    faults.add(place, "expected a global batch: workload.largest_batch follows from the plan");
    return;
  }
  const MachineParams& machine = config.params.machine;
  if (!machine.clusters.empty() || !machine.slow.empty()) {
    faults.add(place, "expected equal nodes: plans are compared on those");
    return;
  }
  if (machine.allocator != Allocator::none) {
    faults.add(place, "expected no machine.allocator: plans are compared by their tensors");
    return;
  }
  if (config.params.plan.by_stage()) {
    faults.add(place, "expected one share for all stages where the plan offloads: plans differ in stages");
    return;
  }
  PlannerParams params;
  params.rank = *config.params.plan.best_by;
  PlannerResult result;
  priced_or_fault(config.file, [&] { result = find_plans(config, params, registries); });
  if (result.best.empty()) {
    config.no_plan = why_none(result, config.machine.devices);
    return;
  }
  const Plan& best = result.best.front().plan;
  config.params.plan = params_of(best, config.params.plan);
  config.params.policies.schedule = registries.get<policies::ScheduleRegistry>().prepare(
      best.chunks > 1 ? "interleaved" : "1f1b", nullptr, place, faults);
}

}  // namespace orrery::experiments::training
