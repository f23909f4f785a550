// ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024): 1F1B with the backward pass in halves. Device d puts
// the gradients of weights off by d micro-batches, so that every device keeps D, as the first of 1F1B does, and the
// bubble shrinks to (D - 1)(F + B_in - W).
#include "policies/schedule/zero_bubble.hpp"

namespace orrery::policies {
namespace {

class ZbH1 final : public PipelineSchedule {
 public:
  std::optional<std::string> obstacle(const ScheduleView& view) const override {
    if (view.chunks > 1) return "zb_h1 has one chunk a device";
    return std::nullopt;
  }
  ScheduleOrder order(const ScheduleView& view) const override {
    std::vector<SplitDevice> devices;
    for (std::int64_t d = 0; d < view.devices; ++d) devices.push_back({.ahead = view.devices - 1 - d, .behind = d});
    return split_one_f_one_b(view, devices);
  }
};

}  // namespace

void add_zb_h1(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>("zb_h1", "1F1B with the backward pass split in halves, with the memory of 1F1B.",
                              [](const sim::NoParams&) { return std::make_unique<ZbH1>(); });
}

}  // namespace orrery::policies
