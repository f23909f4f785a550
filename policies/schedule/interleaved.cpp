// Interleaved 1F1B (Narayanan et al., 2021): C chunks a device, part c D + d of the model on device d. Micro-batches go
// round in groups of D, a group through all chunks before the next. Device d runs 2 (D - 1 - d) + (C - 1) D passes
// ahead. Bubble of uniform passes: (D - 1)(F + B) / C, F and B of a device's whole share.
#include "policies/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::policies {
namespace {

class Interleaved final : public PipelineSchedule {
 public:
  std::optional<std::string> obstacle(const ScheduleView& view) const override {
    if (view.chunks > 1 && view.micro_batches % view.devices != 0)
      return fmt::format("interleaved goes round in groups of {} micro-batches, which do not divide {}", view.devices,
                         view.micro_batches);
    return std::nullopt;
  }

  ScheduleOrder order(const ScheduleView& view) const override {
    const std::int64_t total = view.micro_batches * view.chunks;
    ScheduleOrder all;
    for (std::int64_t device = 0; device < view.devices; ++device) {
      const std::int64_t ahead = view.chunks == 1 ? view.devices - 1 - device
                                                  : 2 * (view.devices - 1 - device) + (view.chunks - 1) * view.devices;
      const std::int64_t warm = std::min(ahead, total);
      std::vector<StagePass> passes;
      for (std::int64_t i = 0; i < warm; ++i) passes.push_back(forward(view, i));
      for (std::int64_t i = warm; i < total; ++i) {
        passes.push_back(forward(view, i));
        passes.push_back(backward(view, i - warm));
      }
      for (std::int64_t i = total - warm; i < total; ++i) passes.push_back(backward(view, i));
      all.push_back(std::move(passes));
    }
    return all;
  }

 private:
  /// Chunk and micro-batch of the i-th pass of a device.
  static StagePass forward(const ScheduleView& view, std::int64_t i) {
    const std::int64_t round = view.devices * view.chunks;
    const std::int64_t chunk = i % round / view.devices;
    return {PassKind::forward, static_cast<std::int32_t>(i / round * view.devices + i % view.devices),
            static_cast<std::int32_t>(chunk)};
  }
  static StagePass backward(const ScheduleView& view, std::int64_t i) {
    StagePass pass = forward(view, i);
    pass.kind = PassKind::backward;
    pass.chunk = static_cast<std::int32_t>(view.chunks) - 1 - pass.chunk;
    return pass;
  }
};

}  // namespace

void add_interleaved(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>("interleaved", "1F1B with several chunks of the model per device.",
                              [](const sim::NoParams&) { return std::make_unique<Interleaved>(); });
}

}  // namespace orrery::policies
