// Missing experts are computed by the host, beside the GPU (kTransformers).
#include "policies/expert_schedule/expert_schedule.hpp"

namespace orrery::policies {
namespace {

struct HostParams {
  static constexpr auto fields() { return sim::FieldTable<HostParams, 0>(); }
};

class Host final : public ExpertSchedule {
 public:
  std::vector<ExpertPlace> place(const ExpertScheduleView& view) const override {
    std::vector<ExpertPlace> out;
    for (const ExpertWork& work : view.work)
      out.push_back(work.here ? ExpertPlace::gpu : view.host_computes ? ExpertPlace::host : ExpertPlace::fetched);
    return out;
  }
};

}  // namespace

void add_host_expert_schedule(ExpertScheduleRegistry& registry) {
  registry.add<HostParams>("host", "Missing experts are computed by the host, in parallel with the GPU.",
                           [](const HostParams&) { return std::make_unique<Host>(); });
}

}  // namespace orrery::policies
