// ReCycle: micro-batches of a lost stage run on the same stage of the other copies, first of all in their bubbles.
//
// Backward passes are split in two and each stage has its own optimizer step, so a stage may use all of its idle time
// (Gandhi et al., SOSP 2024). A step is then as long as it was, or as the work of its fullest stage: a lower bound for
// what the published system reaches.
#include <algorithm>

#include "policies/recovery/recovery.hpp"

namespace orrery::policies {
namespace {

class Recycle final : public Recovery {
 public:
  RecoveryDecision decide(const RecoveryView& view) const override {
    const auto gone = [&](const RecoveryStage& stage) { return stage.lost >= view.copies; };
    if (!view.state_survives || std::ranges::any_of(view.stages, gone)) return started_anew(view);
    double step_s = view.step_s;
    for (const RecoveryStage& stage : view.stages)
      if (stage.lost > 0)
        step_s =
            std::max(step_s, static_cast<double>(shared_micro_batches(view, stage)) * stage.pass_s() + stage.tail_s);
    return {.step_s = step_s, .communicators = Communicators::groups, .layers = planned_layers(view)};
  }
};

}  // namespace

void add_recycle_recovery(RecoveryRegistry& registry) {
  registry.add<sim::NoParams>("recycle",
                              "ReCycle: peers run the micro-batches of a lost stage, in their pipeline bubbles first.",
                              [](const sim::NoParams&) { return std::make_unique<Recycle>(); });
}

}  // namespace orrery::policies
