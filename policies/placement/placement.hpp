// What the passes of this folder share: their registration, names of kinds for hints, chains of ops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/base/graph_pass.hpp"

namespace orrery::policies {

/// One function a pass.
void add_byoc(PassRegistry& registry);
void add_proteus(PassRegistry& registry);
void add_slapo(PassRegistry& registry);

/// Names of all kinds of ops, for hints.
std::vector<std::string> op_kind_names();
/// The pieces of `text` between `separator`s, without blanks around them.
std::vector<std::string> split(std::string_view text, char separator);
/// The chain of `kinds` (at least one) that begins at `first`: each op reads the first output of the one before, which
/// nobody else reads and the graph does not give. Empty: there is none.
std::vector<models::OpId> match_chain(const models::OpGraph& graph, models::OpId first,
                                      const std::vector<models::OpKind>& kinds);

}  // namespace orrery::policies
