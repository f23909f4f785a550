// Layers of each stage, how many of them run again, and what lies in the host's memory, so that a step of so many
// micro-batches is shortest: the choice between stages of Mist (Zhu et al., EuroSys 2025), exact.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/systems/training/iteration.hpp"
#include "experiments/systems/training/stage_tables.hpp"

namespace orrery::experiments::training {

/// How many of a stage's layers run again: the fewest with which it fits its device, or none.
enum class StageAgain : std::uint8_t { fewest_that_fit, none };

/// Stages that differ.
struct StageDivision {
  std::vector<std::int64_t> layers, again;  ///< by stage
  std::vector<HostShares> shares;           ///< by stage
  /// (G - 1) x the longest stage + the sum of all + the longest update, of G micro-batches.
  double objective_s = 0;
};

/// Bytes of activations that a stage keeps at its most, under 1F1B or its interleaved form (policies/schedule); `of`:
/// on the device, or in the host's memory.
std::int64_t most_kept(const StageCosts& stage, const Plan& plan, std::int64_t s,
                       std::int64_t ChunkCosts::*of = &ChunkCosts::kept_bytes);

/// The best division of `layers` for a plan without chunks: every stage has `reach` layers more or fewer than its even
/// share at the most, and keeps one of `shares` in its host's memory (none given: what the plan says). Nothing where no
/// division fits. Work grows as stages^2 x layers x reach x the shares that no other beats both in passes and in
/// update.
std::optional<StageDivision> divide_stages(CostTable& table, const TrainingMachine& machine, const Plan& plan,
                                           std::int64_t layers, std::int64_t reach = 3,
                                           StageAgain again = StageAgain::fewest_that_fit,
                                           const std::vector<HostShares>& shares = {});
/// The same on devices that may be unlike: `reach` is from what a stage's share by the speed of its devices is.
std::optional<StageDivision> divide_stages(StageTables& tables, const Plan& plan, std::int64_t layers,
                                           std::int64_t reach = 3, StageAgain again = StageAgain::fewest_that_fit,
                                           const std::vector<HostShares>& shares = {});

}  // namespace orrery::experiments::training
