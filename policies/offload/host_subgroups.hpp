// What policies have in common whose host updates: subgroups, and how many of them are its.
#pragma once

#include <cmath>

#include "policies/offload/offload.hpp"

namespace orrery::policies {

struct HostSubgroups {
  std::int64_t subgroup = 100'000'000;
  static constexpr auto fields() {
    return sim::FieldTable{sim::field("subgroup", &HostSubgroups::subgroup, sim::Unit::count,
                                      sim::between(1'000'000, std::int64_t{1} << 40),
                                      "Number of parameters in a subgroup, which is updated as a whole.")};
  }
  /// Subgroups whose states are the host's, of the view's.
  std::int64_t on_host(const OffloadView& view) const {
    return std::llround(view.share * static_cast<double>(subgroup_count(view.parameters, subgroup)));
  }
};

}  // namespace orrery::policies
