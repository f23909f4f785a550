// What is drawn or decided before a run: which tokens share a step, and the bits of each choice.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/systems/experts/config.hpp"

namespace orrery::experiments::experts {

/// Puts the tokens of `config.trace` (texts side by side) in the order in which policies.groups takes them into steps,
/// and says whose they are. A text's next tokens wait once those before them are done; what does not fill a step at the
/// end is dropped.
void regroup(Config& config);

/// The level of model.bits of every choice of the trace, by layer.
std::vector<std::vector<std::uint8_t>> draw_levels(const Config& config);

}  // namespace orrery::experiments::experts
