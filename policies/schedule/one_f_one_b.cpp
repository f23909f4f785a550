// 1F1B (PipeDream-flush; Narayanan et al., 2021): device d runs D - 1 - d forward passes ahead, then a forward and a
// backward pass in turn, so that it keeps the activations of D - d micro-batches at most. Bubble of uniform passes:
// (D - 1)(F + B).
#include "policies/schedule/schedule.hpp"

#include <algorithm>

namespace orrery::policies {
namespace {

class OneForwardOneBackward final : public PipelineSchedule {
 public:
  std::optional<std::string> obstacle(const ScheduleView& view) const override {
    if (view.chunks > 1) return "1f1b has one chunk a device; interleaved has several";
    return std::nullopt;
  }
  ScheduleOrder order(const ScheduleView& view) const override {
    const auto count = static_cast<std::int32_t>(view.micro_batches);
    ScheduleOrder all;
    for (std::int64_t device = 0; device < view.devices; ++device) {
      const auto ahead = static_cast<std::int32_t>(std::min<std::int64_t>(view.devices - 1 - device, count));
      std::vector<StagePass> passes;
      for (std::int32_t m = 0; m < ahead; ++m) passes.push_back({PassKind::forward, m, 0});
      for (std::int32_t m = ahead; m < count; ++m) {
        passes.push_back({PassKind::forward, m, 0});
        passes.push_back({PassKind::backward, m - ahead, 0});
      }
      for (std::int32_t m = count - ahead; m < count; ++m) passes.push_back({PassKind::backward, m, 0});
      all.push_back(std::move(passes));
    }
    return all;
  }
};

}  // namespace

void add_one_f_one_b(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>("1f1b", "A few forward passes ahead, then one forward and one backward pass in turn.",
                              [](const sim::NoParams&) { return std::make_unique<OneForwardOneBackward>(); });
}

}  // namespace orrery::policies
