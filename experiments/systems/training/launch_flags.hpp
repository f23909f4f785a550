// A plan as the arguments of the programs that people train with: Megatron-LM's pretrain_gpt.py and torchtitan.
#pragma once

#include <string>
#include <vector>

#include "experiments/systems/training/plan.hpp"

namespace orrery::experiments::training {

/// What a plan says beside the model: sequences of a step, tokens of a sequence, layers.
struct LaunchedModel {
  std::int64_t global_batch = 1, sequence = 1, layers = 1;
};

/// One argument and its value a line, or an argument alone; in the order of Megatron-LM's own help. What it has no
/// argument for (ZeRO of gradients) is left out.
std::vector<std::string> megatron_flags(const Plan& plan, const LaunchedModel& model);
std::vector<std::string> torchtitan_flags(const Plan& plan, const LaunchedModel& model);

}  // namespace orrery::experiments::training
