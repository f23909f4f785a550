// ZB-H2 (Qi et al., ICLR 2024): ZB-H1 with twice the forward passes ahead, which fill the bubble of the warm-up; with
// F = B_in = W no device waits between its first pass and its last. Every device keeps 2 D - 1 micro-batches. Devices
// end one after the other: an optimizer that waits for all of them gets the rest of the bubble back.
#include "policies/schedule/zero_bubble.hpp"

namespace orrery::policies {
namespace {

class ZbH2 final : public PipelineSchedule {
 public:
  std::optional<std::string> obstacle(const ScheduleView& view) const override {
    if (view.chunks > 1) return "zb_h2 has one chunk a device";
    return std::nullopt;
  }
  ScheduleOrder order(const ScheduleView& view) const override {
    std::vector<SplitDevice> devices;
    for (std::int64_t d = 0; d < view.devices; ++d)
      devices.push_back({.ahead = 2 * (view.devices - 1 - d), .behind = 2 * d});
    return split_one_f_one_b(view, devices);
  }
};

}  // namespace

void add_zb_h2(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>("zb_h2", "ZB-H1 with twice as many forward passes ahead and about twice the memory.",
                              [](const sim::NoParams&) { return std::make_unique<ZbH2>(); });
}

}  // namespace orrery::policies
