// GPipe (Huang et al., 2019): all forward passes, then all backward passes, the last micro-batch first. Every device
// keeps the activations of all micro-batches.
#include "policies/schedule/schedule.hpp"

namespace orrery::policies {
namespace {

class GPipe final : public PipelineSchedule {
 public:
  std::optional<std::string> obstacle(const ScheduleView& view) const override {
    if (view.chunks > 1) return "gpipe has one chunk a device";
    return std::nullopt;
  }
  ScheduleOrder order(const ScheduleView& view) const override {
    const auto count = static_cast<std::int32_t>(view.micro_batches);
    std::vector<StagePass> passes;
    for (std::int32_t m = 0; m < count; ++m) passes.push_back({PassKind::forward, m, 0});
    for (std::int32_t m = count; m-- > 0;) passes.push_back({PassKind::backward, m, 0});
    return ScheduleOrder(static_cast<std::size_t>(view.devices), passes);
  }
};

}  // namespace

void add_gpipe(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>("gpipe", "All forward passes, then all backward passes.",
                              [](const sim::NoParams&) { return std::make_unique<GPipe>(); });
}

}  // namespace orrery::policies
