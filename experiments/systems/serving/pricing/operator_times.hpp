// The operators of one iteration in the order in which a device runs them, for timelines.
//
// An iteration model prices each layer by itself: a batch clipped to one layer costs what that layer does. Within a
// layer operators stand by class (hw::OpClass, which is in the order of a transformer's layer); what a class does
// several times in a layer stands together. A tabulated model is smoothed (below 0.2 % on average), so what operators
// take is stretched to what the iteration took: ends are rounded down to whole picoseconds, the last one ends with the
// devices.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "hw/base/kernel.hpp"

namespace orrery::experiments {

struct OperatorTime {
  static constexpr std::int32_t kDrafting = -1, kHead = -2;
  std::int32_t layer = 0;  ///< or what proposes tokens before the layers, or what follows them
  hw::OpClass op = hw::OpClass::norm;
  std::int64_t begin_ps = 0, end_ps = 0;  ///< from where the devices begin
};

/// Operators of `shape`, without those that take no time. Their sum is the devices' time of the iteration as `model`
/// prices it.
std::vector<OperatorTime> operator_times(IterationModel& model, const BatchShape& shape);

}  // namespace orrery::experiments
