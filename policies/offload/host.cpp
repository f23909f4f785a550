// The host updates the states that it holds, the device its own (ZeRO-Offload, Ren et al. 2021; a share of them:
// TwinFlow of DeepSpeed). Subgroup by subgroup, each cast and sent before the next begins. The backward pass waits
// while the host takes gradients and widens them, unless `flush` says otherwise.
#include <cmath>

#include "policies/offload/host_subgroups.hpp"

namespace orrery::policies {
namespace {

struct HostParams : HostSubgroups {
  bool flush = false;
  static constexpr auto fields() {
    return sim::joined(
        sim::inherited<HostParams>(HostSubgroups::fields()),
        sim::FieldTable{sim::field("flush", &HostParams::flush,
                                   "Whether gradients go to the host during the backward pass, without delaying it.")});
  }
};

class Host final : public Offload {
 public:
  explicit Host(const HostParams& params) : p_(params) {}
  UpdateOrder order(const OffloadView& view) const override {
    UpdateOrder order{.subgroup = p_.subgroup, .gradients_wait = !p_.flush};
    const std::int64_t all = subgroup_count(view.parameters, p_.subgroup);
    order.subgroups.assign(static_cast<std::size_t>(p_.on_host(view)), UpdatePlace::host);
    order.subgroups.resize(static_cast<std::size_t>(all), UpdatePlace::device);
    return order;
  }
  bool host_updates() const override { return true; }

 private:
  HostParams p_;
};

}  // namespace

void add_host_offload(OffloadRegistry& registry) {
  registry.add<HostParams>(
      "host", "The host updates the optimizer states that it holds, the device its own (ZeRO-Offload, TwinFlow).",
      [](const HostParams& params) { return std::make_unique<Host>(params); });
}

}  // namespace orrery::policies
