// ZB-V (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024): two chunks a device on a folded route,
// so that a micro-batch comes back to the device where it began and its backward pass starts there at once. No bubble
// of uniform passes (F = B_in = W) between a device's first and last pass, with the memory of 1F1B: 2 D chunks of half
// the size.
#include "policies/schedule/schedule.hpp"

namespace orrery::policies {
namespace {

/// A device's passes, by kind and chunk in the order of micro-batches.
class FoldedPasses {
 public:
  explicit FoldedPasses(std::int32_t count) : count_(count) {}
  bool left(PassKind kind, std::int32_t chunk) const { return next(kind, chunk) < count_; }
  void add(PassKind kind, std::int32_t chunk) {
    if (left(kind, chunk)) passes.push_back({kind, next_[index(kind, chunk)]++, chunk});
  }
  std::int32_t next(PassKind kind, std::int32_t chunk) const { return next_[index(kind, chunk)]; }
  void both_halves(std::int32_t chunk) {
    add(PassKind::backward_input, chunk);
    add(PassKind::backward_weight, chunk);
  }
  std::vector<StagePass> passes;

 private:
  static std::size_t index(PassKind kind, std::int32_t chunk) {
    return 2 * static_cast<std::size_t>(kind) + static_cast<std::size_t>(chunk);
  }
  std::int32_t count_;
  std::int32_t next_[8] = {};
};

class ZeroBubbleV final : public PipelineSchedule {
 public:
  std::optional<std::int64_t> own_chunks() const override { return 2; }
  std::optional<std::string> obstacle(const ScheduleView&) const override { return std::nullopt; }
  std::vector<PipelineRoute> routes(const ScheduleView& view) const override { return {folded_route(view.devices)}; }

  ScheduleOrder order(const ScheduleView& view) const override {
    ScheduleOrder all;
    const auto devices = static_cast<std::int32_t>(view.devices);
    for (std::int32_t device = 0; device < devices; ++device) {
      FoldedPasses own(static_cast<std::int32_t>(view.micro_batches));
      for (std::int32_t i = 0; i < 2 * (devices - device) - 1; ++i) own.add(PassKind::forward, 0);
      for (std::int32_t i = 0; i < device; ++i) {
        own.add(PassKind::forward, 1);
        own.add(PassKind::forward, 0);
      }
      for (std::int32_t i = 0; i < devices - device; ++i) {
        own.add(PassKind::forward, 1);
        own.both_halves(1);
      }
      while (own.left(PassKind::forward, 0) || own.left(PassKind::forward, 1)) {
        own.add(PassKind::forward, 0);
        own.both_halves(0);
        own.add(PassKind::forward, 1);
        own.both_halves(1);
      }
      for (std::int32_t i = 0; i < device; ++i) {
        own.add(PassKind::backward_input, 0);
        own.add(PassKind::backward_input, 1);
      }
      for (std::int32_t i = 0; i < devices - device; ++i) own.both_halves(0);
      for (const std::int32_t chunk : {1, 0})
        while (own.left(PassKind::backward_input, chunk)) own.both_halves(chunk);
      while (own.left(PassKind::backward_weight, 1)) own.add(PassKind::backward_weight, 1);
      while (own.left(PassKind::backward_weight, 0)) own.add(PassKind::backward_weight, 0);
      all.push_back(std::move(own.passes));
    }
    return all;
  }
};

}  // namespace

void add_zb_v(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>(
      "zb_v", "Two chunks per device, on a route down the devices and back up, with no bubble and the memory of 1F1B.",
      [](const sim::NoParams&) { return std::make_unique<ZeroBubbleV>(); });
}

}  // namespace orrery::policies
