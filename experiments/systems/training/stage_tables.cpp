#include "experiments/systems/training/stage_tables.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::experiments::training {

StageTables::StageTables(const TrainingMachine& machine, const TrainedModel& model) : whole_(machine) {
  const std::size_t kinds = std::max<std::size_t>(1, machine.unlike.size());
  machines_.reserve(kinds);
  for (std::size_t k = 0; k < kinds; ++k) {
    machines_.push_back(machine.unlike.empty() ? machine : machine_of_kind(machine, k));
    tables_.push_back(std::make_unique<CostTable>(machines_.back(), model));
  }
}

std::size_t StageTables::kind(const Plan& plan, std::int64_t stage) const {
  if (alike()) return 0;
  return kind_of_ranks(whole_, stage * plan.stage_ranks(), plan.stage_ranks()).value_or(0);
}

std::optional<std::string> StageTables::obstacle(const Plan& plan) const {
  if (alike()) return std::nullopt;
  if (!plan.stage_tensor.empty()) return "stages of unlike tensor parallelism on unlike devices are not modelled";
  for (std::int64_t s = 0; s < plan.pipeline; ++s)
    if (!kind_of_ranks(whole_, s * plan.stage_ranks(), plan.stage_ranks()))
      return fmt::format("stage {} has devices {} to {}, which are unlike: {}", s, s * plan.stage_ranks(),
                         (s + 1) * plan.stage_ranks() - 1, devices_text(whole_));
  return std::nullopt;
}

StepCosts StageTables::step(const Plan& plan, const std::vector<std::int64_t>& layers) {
  StepCosts step;
  step.plan = plan;
  for (std::int64_t s = 0; s < plan.pipeline; ++s) {
    const Plan own = plan.of_stage(s);
    step.stages.push_back(
        stage_costs(table(plan, s).costs(own.share()), machine(plan, s), own, s, layers[static_cast<std::size_t>(s)]));
  }
  step.messages = stage_messages(table().costs(plan.share()), whole_, plan);
  return step;
}

}  // namespace orrery::experiments::training
