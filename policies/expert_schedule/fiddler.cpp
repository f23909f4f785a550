// Fiddler (Kamahori et al., arXiv 2402.07033): each missing expert by itself goes where it is done sooner, the host or
// the link and then the GPU. What others do meanwhile does not count.
#include "policies/expert_schedule/expert_schedule.hpp"

namespace orrery::policies {
namespace {

struct FiddlerParams {
  static constexpr auto fields() { return sim::FieldTable<FiddlerParams, 0>(); }
};

class Fiddler final : public ExpertSchedule {
 public:
  std::vector<ExpertPlace> place(const ExpertScheduleView& view) const override {
    std::vector<ExpertPlace> out;
    for (const ExpertWork& work : view.work) {
      const bool host = view.host_computes &&
                        view.prices.host_ps(work.tokens) < view.prices.copy_ps() + view.prices.gpu_ps(work.tokens);
      out.push_back(work.here ? ExpertPlace::gpu : host ? ExpertPlace::host : ExpertPlace::fetched);
    }
    return out;
  }
};

}  // namespace

void add_fiddler_expert_schedule(ExpertScheduleRegistry& registry) {
  registry.add<FiddlerParams>("fiddler",
                              "Fiddler: each missing expert runs on the host or the GPU, whichever would finish it "
                              "sooner, ignoring other experts.",
                              [](const FiddlerParams&) { return std::make_unique<Fiddler>(); });
}

}  // namespace orrery::policies
