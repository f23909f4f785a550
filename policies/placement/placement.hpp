// What the passes of this folder share: their registration, names of kinds for hints, patterns of scopes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/graph_pass.hpp"

namespace orrery::policies {

/// One function a pass.
void add_byoc(PassRegistry& registry);
void add_proteus(PassRegistry& registry);

/// Names of all kinds of ops, for hints.
std::vector<std::string> op_kind_names();
/// The pieces of `text` between `separator`s, without blanks around them.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace orrery::policies
