// Named components as JSON: what `list --json`, `describe --json` and the Python package show.
#pragma once

#include "sim/base/params.hpp"

namespace orrery::experiments {

/// {"kind", "name", "doc", "fields": [{"name", "type", "unit", "default", "range", "doc", …}]}; a block
/// of policies names them, "policies", and their kind, "policy_kind".
sim::Node component_node(const sim::ComponentInfo& component);

}  // namespace orrery::experiments
