// Deep Optimizer States (Maurya et al., Middleware 2024): of the host's subgroups every stride-th is updated by the
// device, its states fetched and returned while the host updates the others; weights are cast and sent beside the
// host's next update; gradients go to the host beside the backward pass.
//
// A cycle is one fetched subgroup and stride - 1 of the host. Fetched states pass through buffers that the host's
// threads fill and empty: in the authors' logs a cycle takes what its parts take one after the other, on three machines
// (docs/explain/deep-optimizer-states.md), though transfers hide behind updates. Left out: their rule that picks the
// stride.
#include "policies/offload/host_subgroups.hpp"

namespace orrery::policies {
namespace {

struct DeepParams : HostSubgroups {
  std::int64_t stride = 2;
  static constexpr auto fields() {
    return sim::joined(
        sim::inherited<DeepParams>(HostSubgroups::fields()),
        sim::FieldTable{sim::field("stride", &DeepParams::stride, sim::Unit::count, sim::between(2, 1 << 20),
                                   "One in this many of the host's subgroups is updated by the device.")});
  }
};

class DeepOptimizerStates final : public Offload {
 public:
  explicit DeepOptimizerStates(const DeepParams& params) : p_(params) {}
  UpdateOrder order(const OffloadView& view) const override {
    UpdateOrder order{.subgroup = p_.subgroup, .casts_wait = false, .staged = true, .gradients_wait = false};
    const std::int64_t all = subgroup_count(view.parameters, p_.subgroup), held = p_.on_host(view);
    for (std::int64_t i = 0; i < held; ++i)
      order.subgroups.push_back(i % p_.stride == 0 && i + p_.stride <= held ? UpdatePlace::fetched : UpdatePlace::host);
    order.subgroups.resize(static_cast<std::size_t>(all), UpdatePlace::device);
    return order;
  }
  bool host_updates() const override { return true; }

 private:
  DeepParams p_;
};

}  // namespace

void add_deep_optimizer_states_offload(OffloadRegistry& registry) {
  registry.add<DeepParams>("deep_optimizer_states",
                           "The device updates every stride-th subgroup of the host while the host updates the others.",
                           [](const DeepParams& params) { return std::make_unique<DeepOptimizerStates>(params); });
}

}  // namespace orrery::policies
