// The automatic zero-bubble schedules (Qi et al., ICLR 2024, section 4): an order made for the passes' times under a
// limit of memory. `zb_auto` with `kept` 1 is the paper's ZB-1p (a device keeps as many micro-batches as there are
// devices), with 2 its ZB-2p. Of several orders it takes the one whose devices take the shortest time: the greedy one,
// and those of the hand-made kind that the limit allows, with once to four times 1F1B's forward passes ahead.
#include <algorithm>
#include <cmath>
#include <limits>

#include "policies/schedule/greedy_order.hpp"
#include "policies/schedule/order_run.hpp"
#include "policies/schedule/zero_bubble.hpp"

namespace orrery::policies {
namespace {

constexpr std::int64_t kMostTried = 1 << 14;  ///< passes of a kind and device, over the devices

struct ZbAutoParams {
  double kept = 1;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("kept", &ZbAutoParams::kept, sim::Unit::ratio, sim::between(0.1, 100),
                   "Micro-batches whose activations a device may keep, as a multiple of the number of devices.")};
  }
};

class ZbAuto final : public PipelineSchedule {
 public:
  explicit ZbAuto(const ZbAutoParams& params) : params_(params) {}
  std::optional<std::string> obstacle(const ScheduleView& view) const override {
    if (view.chunks > 1) return "zb_auto has one chunk a device";
    return std::nullopt;
  }
  ScheduleOrder order(const ScheduleView& view) const override {
    const double room = params_.kept * static_cast<double>(view.devices);
    const auto limit = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(room + 1e-9)));
    const auto devices = static_cast<std::size_t>(view.devices);
    // Of many micro-batches a few rounds tell what the others do; the greedy order, quadratic in them, is left out
    // then.
    ScheduleView tried = view;
    tried.micro_batches = std::min(view.micro_batches, std::max(8 * view.devices, kMostTried / view.devices));
    const auto span_of = [&](const ScheduleOrder& order) {
      return run_order(*this, tried, order, view_lengths(view)).span;
    };
    std::vector<SplitDevice> best;
    double best_span = std::numeric_limits<double>::infinity();
    // Forward passes ahead, in quarters of 1F1B's; of the weights' gradients that the limit lets a device put off, how
    // many eighths it does, and how many of those at once.
    for (std::int64_t quarters = 4; quarters <= 16; quarters += 2)
      for (std::int64_t used = 0; used <= 8; ++used)
        for (const std::int64_t early : {0, 1, 2, 4}) {
          std::vector<SplitDevice> split;
          for (std::int64_t d = 0; d < view.devices; ++d) {
            const std::int64_t ahead = std::min(limit - 1, (view.devices - 1 - d) * quarters / 4);
            const double left = static_cast<double>(limit - 1 - ahead) / std::max(0.01, view.kept_for_weights);
            const auto off = static_cast<std::int64_t>(std::min(left + 1e-6, static_cast<double>(tried.micro_batches)) *
                                                       static_cast<double>(used) / 8);
            split.push_back({.ahead = ahead, .behind = off * early / 4, .last = off - off * early / 4});
          }
          const double span = span_of(split_one_f_one_b(tried, split));
          if (span < best_span) best_span = span, best = std::move(split);
        }
    if (tried.micro_batches == view.micro_batches) {
      ScheduleOrder greedy = greedy_order(*this, view, std::vector<std::int64_t>(devices, limit));
      if (span_of(greedy) <= best_span) return greedy;
    }
    return split_one_f_one_b(view, best);
  }

 private:
  ZbAutoParams params_;
};

}  // namespace

void add_zb_auto(ScheduleRegistry& registry) {
  registry.add<ZbAutoParams>(
      "zb_auto", "Backward passes are split in halves, and all passes are ordered by their times under a memory limit.",
      [](const ZbAutoParams& params) { return std::make_unique<ZbAuto>(params); });
}

}  // namespace orrery::policies
