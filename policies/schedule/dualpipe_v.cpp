// DualPipeV (DeepSeek-AI, 2025): DualPipe's order with the two directions of a pipeline folded into the two chunks of a
// device, so that a device has its layers once. In the steady part a forward pass of one chunk follows a backward pass
// of the other, which lets kernels of one hide messages of the other; here they run one after the other, as whole
// passes. Backward passes are cut in two only where weights can wait for a gap: while the pipeline fills, and at its
// end. Needs 2 D micro-batches. The published bubble, (D - 1)(F&B + B - 3 W) of a
// chunk, takes a pair for one pass whose results leave at its end: so run, this order has it for uniform passes. Here
// each pass's result leaves when that pass ends, and the bubble is shorter.
#include <fmt/format.h>

#include "policies/schedule/schedule.hpp"

namespace orrery::policies {
namespace {

/// The passes of a device, each chunk's micro-batches in order; weights that wait are made first come, first served.
class DualDevice {
 public:
  void forward(std::int32_t chunk) { passes_.push_back({PassKind::forward, forward_[chunk]++, chunk}); }
  void backward(std::int32_t chunk, bool halved = false) {
    const StagePass pass{halved ? PassKind::backward_input : PassKind::backward, backward_[chunk]++, chunk};
    passes_.push_back(pass);
    if (halved) waiting_.push_back({PassKind::backward_weight, pass.micro_batch, chunk});
  }
  void weight() {
    if (made_ < waiting_.size()) passes_.push_back(waiting_[made_++]);
  }
  std::vector<StagePass> finish() {
    while (made_ < waiting_.size()) weight();
    return std::move(passes_);
  }

 private:
  std::int32_t forward_[2] = {}, backward_[2] = {};
  std::vector<StagePass> passes_, waiting_;
  std::size_t made_ = 0;
};

class DualPipeV final : public PipelineSchedule {
 public:
  std::optional<std::int64_t> own_chunks() const override { return 2; }
  std::optional<std::string> obstacle(const ScheduleView& view) const override {
    if (view.micro_batches < 2 * view.devices)
      return fmt::format("dualpipe_v needs {} micro-batches on {} devices, there are {}", 2 * view.devices,
                         view.devices, view.micro_batches);
    return std::nullopt;
  }
  std::vector<PipelineRoute> routes(const ScheduleView& view) const override { return {folded_route(view.devices)}; }

  ScheduleOrder order(const ScheduleView& view) const override {
    ScheduleOrder all;
    for (std::int64_t device = 0; device < view.devices; ++device) all.push_back(device_order(view, device));
    return all;
  }

 private:
  static std::vector<StagePass> device_order(const ScheduleView& view, std::int64_t device) {
    const std::int64_t after = view.devices - 1 - device;  // devices further down
    const std::int64_t own = device + 1;
    DualDevice d;
    for (std::int64_t i = 0; i < 2 * after; ++i) d.forward(0);
    for (std::int64_t i = 0; i < own; ++i) d.forward(0), d.forward(1);
    for (std::int64_t i = 0; i < after; ++i) {
      d.backward(1, true);
      d.weight();
      d.forward(1);
    }
    for (std::int64_t i = 0; i < view.micro_batches - 2 * view.devices + own; ++i) {
      d.forward(0);
      d.backward(1);
      d.forward(1);
      d.backward(0);
    }
    for (std::int64_t i = 0; i < after; ++i) {
      d.backward(1);
      d.forward(1);
      d.backward(0);
    }
    // The second half of what is left is cut, for the weights to fill the waits of the end.
    for (std::int64_t i = 0; i < own; ++i) {
      d.backward(1, 2 * i >= own);
      d.backward(0, 2 * i + 1 >= own);
    }
    for (std::int64_t i = 0; i < after; ++i) {
      d.weight();
      d.backward(0, true);
    }
    return d.finish();
  }
};

}  // namespace

void add_dualpipe_v(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>("dualpipe_v",
                              "DualPipe folded into two chunks per device: forward passes of one chunk alternate with "
                              "backward passes of the other.",
                              [](const sim::NoParams&) { return std::make_unique<DualPipeV>(); });
}

}  // namespace orrery::policies
