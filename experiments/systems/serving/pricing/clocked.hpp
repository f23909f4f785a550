// Replicas that change their clock: an iteration model with a mode for each, and a batching policy that asks a power
// policy for the mode of every batch.
#pragma once

#include <memory>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "policies/power/power.hpp"

namespace orrery::experiments {

/// One model a clock, the highest first. A change takes no time.
class ClockedIteration final : public IterationModel {
 public:
  explicit ClockedIteration(std::vector<std::unique_ptr<IterationModel>> modes) : modes_(std::move(modes)) {}
  void cost(const BatchShape& shape, IterationCost& out) override {
    modes_[static_cast<std::size_t>(shape.mode)]->cost(shape, out);
  }
  bool additive() const override { return modes_.front()->additive(); }

 private:
  std::vector<std::unique_ptr<IterationModel>> modes_;
};

/// What the batches of a replica need to have their clock chosen.
struct ClockChoice {
  std::unique_ptr<policies::ClockPolicy> policy;
  std::vector<double> clocks_hz;
  std::optional<std::int64_t> tbt_ps;
  IterationModel* model = nullptr;  ///< prices any mode; borrowed
  std::int32_t layers = 0;
};

/// The policy with a clock for each of its batches. Its decisions hold as long as both answers do.
std::unique_ptr<policies::Batching> with_clocks(std::unique_ptr<policies::Batching> batching, ClockChoice choice);

}  // namespace orrery::experiments
