// The one place where a network run meets the closed forms of collectives.
#pragma once

#include <optional>

#include "experiments/systems/network/config.hpp"

namespace orrery::experiments::network {

/// Seconds of one repetition of a job that is alone in the network and whose ranks enter at once; nothing where no
/// formula holds (its messages meet, or the algorithm has none): then its messages must be simulated.
std::optional<double> closed_seconds(const Job& job, const hw::Topology& topology, hw::Routing& routing,
                                     double message_overhead_s);

}  // namespace orrery::experiments::network
