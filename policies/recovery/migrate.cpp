// Live migration: a spare takes the lost node's place in its groups and gets its state from ranks that hold the same;
// nobody else starts anew. Without a spare, or where nobody holds that state, it is a restart.
#include "policies/recovery/recovery.hpp"

namespace orrery::policies {
namespace {

class Migrate final : public Recovery {
 public:
  RecoveryDecision decide(const RecoveryView& view) const override {
    RecoveryDecision decision = started_anew(view);
    if (decision.waits || !view.state_survives) return decision;
    decision.rolls_back = false;
    decision.communicators = Communicators::groups;
    return decision;
  }
};

}  // namespace

void add_migrate_recovery(RecoveryRegistry& registry) {
  registry.add<sim::NoParams>("migrate", "A spare takes the lost node's place and copies its state from peers.",
                              [](const sim::NoParams&) { return std::make_unique<Migrate>(); });
}

}  // namespace orrery::policies
