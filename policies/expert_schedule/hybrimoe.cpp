// HybriMoE's schedule (arXiv 2504.05897, section IV-B; PKU-SEC-Lab/HybriMoE): experts that are there by falling load,
// then the missing ones by falling load, in one row. Two pointers: the head goes to the GPU if it would be done there
// (with the copy it may have to wait for) no later than the tail by the host; else the tail goes to the host.
#include <algorithm>
#include <numeric>

#include "policies/expert_schedule/expert_schedule.hpp"

namespace orrery::policies {
namespace {

struct HybriMoeParams {
  static constexpr auto fields() { return sim::FieldTable<HybriMoeParams, 0>(); }
};

class HybriMoe final : public ExpertSchedule {
 public:
  std::vector<ExpertPlace> place(const ExpertScheduleView& view) const override {
    std::vector<std::size_t> row(view.work.size());
    std::iota(row.begin(), row.end(), std::size_t{0});
    std::ranges::stable_sort(row, [&](std::size_t a, std::size_t b) {
      const ExpertWork &x = view.work[a], &y = view.work[b];
      return x.here != y.here ? x.here : x.tokens > y.tokens;
    });
    std::vector<ExpertPlace> out(view.work.size(), ExpertPlace::gpu);
    std::int64_t gpu_ps = 0, host_ps = 0, link_ps = view.link_busy_ps;
    for (std::size_t head = 0, tail = row.size(); head < tail;) {
      const ExpertWork& first = view.work[row[head]];
      const ExpertWork& last = view.work[row[tail - 1]];
      const std::int64_t arrives = first.here ? first.ready_ps : link_ps + view.prices.copy_ps();
      const std::int64_t by_gpu = std::max(gpu_ps, arrives) + view.prices.gpu_ps(first.tokens);
      if (!view.host_computes || by_gpu <= host_ps + view.prices.host_ps(last.tokens)) {
        out[row[head++]] = first.here ? ExpertPlace::gpu : ExpertPlace::fetched;
        gpu_ps = by_gpu;
        if (!first.here) link_ps = arrives;
      } else {
        host_ps += view.prices.host_ps(last.tokens);
        out[row[--tail]] = ExpertPlace::host;
      }
    }
    return out;
  }
};

}  // namespace

void add_hybrimoe_expert_schedule(ExpertScheduleRegistry& registry) {
  registry.add<HybriMoeParams>(
      "hybrimoe", "HybriMoE: of the experts in order, the GPU takes them from the head and the host from the tail.",
      [](const HybriMoeParams&) { return std::make_unique<HybriMoe>(); });
}

}  // namespace orrery::policies
