// What messages and products of layers take on a machine of training, as the linear costs that FSMoE's schedules
// reckon with.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "experiments/moe_layers/layer_times.hpp"
#include "experiments/systems/training/machine.hpp"

namespace orrery::experiments::moe_layers {

struct FittedCosts {
  CostParams costs;
  double furthest = 0;  ///< of a fit, from what it is fitted to; relative
};

/// Why a machine cannot run layers shared so; nothing if it can.
std::optional<std::string> layers_obstacle(const training::TrainingMachine& machine, std::int64_t shared_by,
                                           std::int64_t tensor);

/// Fits over the sizes that `layers` have when they are cut into one chunk up to `most_chunks`: all-to-all and sums
/// among a rank of each node, gathers and scatters of `shared_by` ranks of a node, products of 16-bit operands. FSMoE
/// fits the same to what it profiles.
FittedCosts machine_costs(const training::TrainingMachine& machine, std::span<const Layer> layers, std::int64_t tensor,
                          std::int64_t most_chunks);

}  // namespace orrery::experiments::moe_layers
