// The roof: every system, and everything with a name.
#pragma once

#include "experiments/base/experiment.hpp"

namespace orrery::experiments {

/// More about a component than its fields say, as text: the values of a part, the claims of a study. Empty for others.
std::string component_text(const sim::ComponentInfo& component);

}  // namespace orrery::experiments
