// Layers of each stage, and how many of them run again, so that a pipeline of so many micro-batches is shortest: the
// choice between stages of Mist (Zhu et al., EuroSys 2025), exact.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/systems/training/iteration.hpp"

namespace orrery::experiments::training {

/// How many of a stage's layers run again: the fewest with which it fits its device, or as the plan has it.
enum class StageAgain : std::uint8_t { fewest_that_fit, as_planned };

/// Stages that differ.
struct StageDivision {
  std::vector<std::int64_t> layers, again;  ///< by stage
  double objective_s = 0;                   ///< (G - 1) x the longest stage + the sum of all, of G micro-batches
};

/// Bytes of activations that a stage keeps at its most, under 1F1B or its interleaved form (policies/schedule).
std::int64_t most_kept(const StageCosts& stage, const Plan& plan, std::int64_t s);

/// The best division of `layers` for a plan without chunks: every stage has `reach` layers more or fewer than its even
/// share at the most. Nothing where no division fits. Work grows as stages^2 x layers x reach.
std::optional<StageDivision> divide_stages(CostTable& table, const TrainingMachine& machine, const Plan& plan,
                                           std::int64_t layers, std::int64_t reach = 3,
                                           StageAgain again = StageAgain::fewest_that_fit);

}  // namespace orrery::experiments::training
