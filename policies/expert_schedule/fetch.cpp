// Missing experts come over the link and are computed by the GPU (Mixtral-offloading, MoE-Infinity).
#include "policies/expert_schedule/expert_schedule.hpp"

namespace orrery::policies {
namespace {

struct FetchParams {
  static constexpr auto fields() { return sim::FieldTable<FetchParams, 0>(); }
};

class Fetch final : public ExpertSchedule {
 public:
  std::vector<ExpertPlace> place(const ExpertScheduleView& view) const override {
    std::vector<ExpertPlace> out;
    for (const ExpertWork& work : view.work) out.push_back(work.here ? ExpertPlace::gpu : ExpertPlace::fetched);
    return out;
  }
};

}  // namespace

void add_fetch_expert_schedule(ExpertScheduleRegistry& registry) {
  registry.add<FetchParams>("fetch", "Missing experts are copied over the link and computed by the GPU.",
                            [](const FetchParams&) { return std::make_unique<Fetch>(); });
}

}  // namespace orrery::policies
