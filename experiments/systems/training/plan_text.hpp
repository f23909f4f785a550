// Plans as words: what tables print and users type.
#pragma once

#include <string>

#include "experiments/systems/training/plan.hpp"

namespace orrery::experiments::training {

/// A plan as the table has it: tensor (and context: 4c2), stages (and chunks: 8x3), copies (and ranks that share
/// experts: 16e8), micro-batch, sequence parallelism, what runs again, ZeRO, and what lies in the host's memory
/// (offload_text; nothing where nothing does); everything else is as `others` have it.
/// Throws std::invalid_argument with what was expected.
PlanParams parse_plan(const std::string& text, const PlanParams& others = {});

/// Shares in the host's memory by stage, or one for all: "a0.5+o0.25|1"; a: activations, o: optimizer states,
/// g: gradients, w: weights. Empty where nothing lies there.
std::string offload_text(const OffloadParams& offload);

}  // namespace orrery::experiments::training
