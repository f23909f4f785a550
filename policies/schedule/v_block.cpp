// V-Half and V-Min (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024): one micro-batch's passes
// on all devices are a block, put down every six slots, a device's work of a micro-batch being six uniform passes. Two
// chunks a device on a folded route. What a device keeps is how long its chunks live over six, so the fewer slots a hop
// takes the less is kept: with V-Min every hop takes one, with V-Half two on the way down. Where hops would make two
// passes fall on one slot of a device, the backward pass begins some slots later. Gradients of weights take the slots
// that are left. A third (a half) of 1F1B's activations, and a few chunks more.
#include <algorithm>
#include <tuple>

#include "policies/schedule/schedule.hpp"

namespace orrery::policies {
namespace {

constexpr std::int64_t kSlots = 6;  ///< forward, and the two halves backward, of two chunks

class BlockSchedule final : public PipelineSchedule {
 public:
  /// `down`: slots of a hop through the first chunks.
  explicit BlockSchedule(std::int64_t down) : down_(down) {}

  std::optional<std::int64_t> own_chunks() const override { return 2; }
  std::optional<std::string> obstacle(const ScheduleView&) const override { return std::nullopt; }
  std::vector<PipelineRoute> routes(const ScheduleView& view) const override { return {folded_route(view.devices)}; }

  ScheduleOrder order(const ScheduleView& view) const override {
    const std::int64_t wait = backward_wait(view.devices);
    ScheduleOrder all;
    for (std::int64_t device = 0; device < view.devices; ++device)
      all.push_back(device_order(view, slots(view.devices, device, wait)));
    return all;
  }

 private:
  /// Of a micro-batch on a device: forward through chunks 0 and 1, backward through 1 and 0.
  struct Slots {
    std::int64_t at[4];
  };

  Slots slots(std::int64_t devices, std::int64_t device, std::int64_t wait) const {
    const std::int64_t last = devices - 1, up = last - device;
    const std::int64_t turn = down_ * last + 1;        // forward through chunk 1 begins on the last device
    const std::int64_t loss = turn + last + 1 + wait;  // backward through chunk 1 begins on the first
    const std::int64_t back = loss + down_ * last + 1;
    return {{down_ * device, turn + up, loss + down_ * device, back + up}};
  }

  /// The shortest wait with which no two passes of a device fall on one slot.
  std::int64_t backward_wait(std::int64_t devices) const {
    for (std::int64_t wait = 0; wait < kSlots; ++wait) {
      bool clash = false;
      for (std::int64_t device = 0; device < devices; ++device) {
        const Slots own = slots(devices, device, wait);
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < i; ++j) clash = clash || (own.at[i] - own.at[j]) % kSlots == 0;
      }
      if (!clash) return wait;
    }
    return 0;  // passes of one slot then run one after the other
  }

  static std::vector<StagePass> device_order(const ScheduleView& view, const Slots& own) {
    std::vector<std::pair<std::int64_t, StagePass>> placed;
    for (std::int32_t m = 0; m < view.micro_batches; ++m)
      for (int i = 0; i < 4; ++i)
        placed.push_back({own.at[i] + kSlots * m,
                          {i < 2 ? PassKind::forward : PassKind::backward_input, m, i == 0 || i == 3 ? 0 : 1}});
    std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<StagePass> passes, weights;
    std::size_t done = 0;  // of weights
    std::int64_t slot = placed.front().first;
    for (const auto& [at, pass] : placed) {
      for (; slot < at && done < weights.size(); ++slot) passes.push_back(weights[done++]);
      slot = std::max(slot, at) + 1;
      passes.push_back(pass);
      if (pass.kind == PassKind::backward_input)
        weights.push_back({PassKind::backward_weight, pass.micro_batch, pass.chunk});
    }
    passes.insert(passes.end(), weights.begin() + static_cast<std::ptrdiff_t>(done), weights.end());
    return passes;
  }

  std::int64_t down_;
};

}  // namespace

void add_v_half(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>(
      "v_half",
      "Two chunks per device, on a route down the devices and back up, with about half the activations of 1F1B.",
      [](const sim::NoParams&) { return std::make_unique<BlockSchedule>(2); });
}

void add_v_min(ScheduleRegistry& registry) {
  registry.add<sim::NoParams>(
      "v_min",
      "Two chunks per device, on a route down the devices and back up, with about a third of the activations of 1F1B.",
      [](const sim::NoParams&) { return std::make_unique<BlockSchedule>(1); });
}

}  // namespace orrery::policies
