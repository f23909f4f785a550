// Replicas that change their clock, which are their modes, the highest first: a batching policy that asks a power
// policy for the mode of every batch. A change takes no time.
#pragma once

#include <memory>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "policies/power/power.hpp"

namespace orrery::experiments {

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
