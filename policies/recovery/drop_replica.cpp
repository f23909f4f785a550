// TorchFT: the replica that lost ranks leaves its data-parallel group; its share of the batch is left out until it is
// back. The quorum that each step asks for takes time whether or not anything fails (`overhead`).
#include "policies/recovery/recovery.hpp"

namespace orrery::policies {
namespace {

struct DropReplicaParams {
  double overhead = 0;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("overhead", &DropReplicaParams::overhead, sim::Unit::ratio, sim::between(0, 100),
                                      "Time that quorum and checks add to every step, as a share of the step.")};
  }
};

class DropReplica final : public Recovery {
 public:
  explicit DropReplica(const DropReplicaParams& params) : params_(params) {}
  RecoveryDecision decide(const RecoveryView& view) const override {
    if (!view.state_survives || view.lost_copies >= view.copies) return started_anew(view);
    const auto copies = static_cast<double>(view.copies);
    return {.step_s = view.step_s,
            .share = (copies - static_cast<double>(view.lost_copies)) / copies,
            .communicators = Communicators::groups,
            .layers = planned_layers(view)};
  }
  double step_overhead() const override { return params_.overhead; }

 private:
  DropReplicaParams params_;
};

}  // namespace

void add_drop_replica_recovery(RecoveryRegistry& registry) {
  registry.add<DropReplicaParams>(
      "drop_replica",
      "TorchFT: a replica that lost a node leaves, and its share of the batch is left out until it is back.",
      [](const DropReplicaParams& params) { return std::make_unique<DropReplica>(params); });
}

}  // namespace orrery::policies
