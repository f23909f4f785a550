// What rematerialisation passes share: the limit, the walk, and the choice between its graph and the one given.
#pragma once

#include <optional>
#include <vector>

#include "policies/memory/remat.hpp"

namespace orrery::policies {

/// Rematerialises at the context's typical sizes. `budget`: bytes of everything; without one the device's memory; with
/// neither the graph stays. `reserve`: share of what is left for activations that stays free, for fragmentation. The
/// graph given comes back where it fits already or where dropping did not lower its peak.
models::OpGraph rematerialised(const models::OpGraph& graph, const PassContext& context,
                               std::optional<std::int64_t> budget, double reserve, const std::vector<bool>& may_drop,
                               const DropScore& score, PassReport& report);

}  // namespace orrery::policies
