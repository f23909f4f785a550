// The device updates all states; those of the host come over the link for it and go back, both ways at once (Mist, Zhu
// et al. 2025, section 4). Memory that the link reads directly: the host does nothing.
#include <algorithm>
#include <cmath>

#include "policies/offload/offload.hpp"

namespace orrery::policies {
namespace {

struct StreamedParams {
  std::int64_t subgroup = 1'000'000;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("subgroup", &StreamedParams::subgroup, sim::Unit::count,
                                      sim::between(1, std::int64_t{1} << 40),
                                      "Number of parameters in a subgroup, which travels as a whole.")};
  }
};

class Streamed final : public Offload {
 public:
  explicit Streamed(const StreamedParams& params) : p_(params) {}
  UpdateOrder order(const OffloadView& view) const override {
    UpdateOrder order{.subgroup = p_.subgroup, .gradients_wait = false};
    const std::int64_t all = subgroup_count(view.parameters, p_.subgroup);
    const auto fetched = static_cast<std::int64_t>(std::llround(view.share * static_cast<double>(all)));
    // One by one between its own, evenly: the link brings the next meanwhile.
    for (std::int64_t i = 0; i < all; ++i)
      order.subgroups.push_back((i + 1) * fetched / all > i * fetched / all ? UpdatePlace::fetched
                                                                            : UpdatePlace::device);
    return order;
  }
  bool host_updates() const override { return false; }

 private:
  StreamedParams p_;
};

}  // namespace

UpdateOrder streamed_order(const OffloadView& view) {
  return Streamed({}).order(view);
}

void add_streamed_offload(OffloadRegistry& registry) {
  registry.add<StreamedParams>("streamed",
                               "The device updates all optimizer states; those of the host travel there and back.",
                               [](const StreamedParams& params) { return std::make_unique<Streamed>(params); });
}

}  // namespace orrery::policies
