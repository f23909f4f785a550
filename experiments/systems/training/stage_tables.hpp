// Prices of stages on the devices that they have: a table of costs for each kind of a machine's devices.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/training/iteration.hpp"

namespace orrery::experiments::training {

class StageTables {
 public:
  /// Keeps references to both.
  StageTables(const TrainingMachine& machine, const TrainedModel& model);

  /// Of all devices alike, or of the first kind.
  CostTable& table() { return *tables_.front(); }
  /// Of a stage's devices; those of the first kind where it has several.
  CostTable& table(const Plan& plan, std::int64_t stage) { return *tables_[kind(plan, stage)]; }
  const TrainingMachine& machine(const Plan& plan, std::int64_t stage) const { return machines_[kind(plan, stage)]; }
  bool alike() const { return whole_.unlike.empty(); }
  const TrainingMachine& whole() const { return whole_; }

  /// Why the plan cannot have its stages on these devices; nothing if it can, or all are alike.
  std::optional<std::string> obstacle(const Plan& plan) const;
  StepCosts step(const Plan& plan, const std::vector<std::int64_t>& layers);

 private:
  std::size_t kind(const Plan& plan, std::int64_t stage) const;

  const TrainingMachine& whole_;
  std::vector<TrainingMachine> machines_;  ///< one a kind; tables refer to them
  std::vector<std::unique_ptr<CostTable>> tables_;
};

}  // namespace orrery::experiments::training
