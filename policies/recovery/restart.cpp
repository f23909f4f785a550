// Restart: every process is started anew and reads the last checkpoint. The job waits until spares or repaired nodes
// stand in for what is lost.
#include "policies/recovery/recovery.hpp"

namespace orrery::policies {
namespace {

class Restart final : public Recovery {
 public:
  RecoveryDecision decide(const RecoveryView& view) const override { return started_anew(view); }
};

}  // namespace

void add_restart_recovery(RecoveryRegistry& registry) {
  registry.add<sim::NoParams>("restart", "All processes restart from the last checkpoint.",
                              [](const sim::NoParams&) { return std::make_unique<Restart>(); });
}

}  // namespace orrery::policies
