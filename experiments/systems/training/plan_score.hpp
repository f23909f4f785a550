// The time, memory and energy of one plan, by closed form.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/training/iteration.hpp"
#include "experiments/systems/training/stage_tables.hpp"

namespace orrery::experiments::training {

/// A plan, and what came of it.
struct ScoredPlan {
  Plan plan;
  std::vector<std::int64_t> layers;  ///< of each stage; empty: even
  double closed_s = 0;
  double time_s = 0;                 ///< of the run; 0: not run
  StepTimes times;                   ///< of the run, else of the closed form
  std::int64_t memory_bytes = 0;     ///< of the fullest stage's rank
  std::int64_t available_bytes = 0;  ///< of a device of that stage
  std::int64_t host_bytes = 0;       ///< in the memory of the fullest node's host
  std::int64_t devices = 0;
  double energy_j = 0;  ///< of a step, all devices, by the closed form
  /// Of the run where there is one.
  double step_s() const { return time_s > 0 ? time_s : closed_s; }
  double device_s() const { return step_s() * static_cast<double>(devices); }
};

/// Closed form of one plan: its time, and the memory of its fullest stage.
ScoredPlan score(CostTable& table, const TrainingMachine& machine, const Plan& plan, std::int64_t layers);

/// The same for stages that differ, or whose devices do: the fullest stage is then the one with the largest share of
/// its device's memory full.
ScoredPlan score_stages(StageTables& tables, const Plan& plan, const std::vector<std::int64_t>& layers);

}  // namespace orrery::experiments::training
