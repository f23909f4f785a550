#include "experiments/network/closed_form.hpp"

namespace orrery::experiments::network {

std::optional<double> closed_seconds(const Job& job, const hw::Topology& topology, hw::Routing& routing,
                                     double message_overhead_s) {
  (void)job, (void)topology, (void)routing, (void)message_overhead_s;
  return std::nullopt;
}

}  // namespace orrery::experiments::network
