#include "policies/recovery/recovery.hpp"

#include <algorithm>

namespace orrery::policies {

std::vector<std::int64_t> planned_layers(const RecoveryView& view) {
  std::vector<std::int64_t> layers;
  for (const RecoveryStage& stage : view.stages) layers.push_back(stage.layers);
  return layers;
}

RecoveryDecision started_anew(const RecoveryView& view) {
  const bool whole = std::ranges::all_of(view.stages, [](const RecoveryStage& stage) { return stage.lost == 0; });
  return {.waits = !whole, .rolls_back = true, .step_s = view.step_s, .layers = planned_layers(view)};
}

std::int64_t shared_micro_batches(const RecoveryView& view, const RecoveryStage& stage) {
  const std::int64_t left = view.copies - stage.lost;
  return (view.micro_batches * view.copies + left - 1) / left;
}

}  // namespace orrery::policies
