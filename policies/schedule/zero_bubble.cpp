#include "policies/schedule/zero_bubble.hpp"

#include <algorithm>

namespace orrery::policies {

ScheduleOrder split_one_f_one_b(const ScheduleView& view, const std::vector<SplitDevice>& devices) {
  const std::int64_t count = view.micro_batches;
  ScheduleOrder all;
  for (const SplitDevice& device : devices) {
    const std::int64_t first = std::min(device.ahead, count);
    std::int64_t weights = 0;  // micro-batches whose gradients of weights are made
    std::vector<StagePass> passes;
    const auto add = [&](PassKind kind, std::int64_t micro_batch) {
      passes.push_back({kind, static_cast<std::int32_t>(micro_batch), 0});
    };
    for (std::int64_t m = 0; m < first; ++m) add(PassKind::forward, m);
    for (std::int64_t m = 0; m < count; ++m) {
      if (first + m < count) add(PassKind::forward, first + m);
      add(PassKind::backward_input, m);
      if (m >= device.behind && m < count - device.last) add(PassKind::backward_weight, weights++);
    }
    while (weights < count) add(PassKind::backward_weight, weights++);
    all.push_back(std::move(passes));
  }
  return all;
}

}  // namespace orrery::policies
