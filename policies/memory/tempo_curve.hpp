// The question that AutoTempo asks of a batch curve: is there room for a larger batch to pay?
#pragma once

#include <vector>

namespace orrery::policies {

/// Time of a training step at a batch.
struct BatchPoint {
  double batch = 1, time_s = 0;
};

/// True if saving memory for a larger batch promises throughput: at the last two steps of the curve time grew less than
/// `saturation` times what the batch did; also where the curve has no more than two points.
bool should_rewrite(const std::vector<BatchPoint>& curve, double saturation);

}  // namespace orrery::policies
