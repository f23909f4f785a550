// A plan as the arguments of the programs that people train with: Megatron-LM's pretrain_gpt.py and torchtitan.
#pragma once

#include <string>
#include <vector>

#include "experiments/systems/training/plan.hpp"

namespace orrery::experiments::training {

/// What a plan says beside the model: sequences of a step, tokens of a sequence, layers, and those of each stage where
/// stages differ.
struct LaunchedModel {
  std::int64_t global_batch = 1, sequence = 1, layers = 1;
  std::vector<std::int64_t> stage_layers;
};

/// An argument and its value each, or an argument alone. Megatron-LM takes one number of layers that run again for all
/// stages: where they differ it is the most that a stage has.
std::vector<std::string> megatron_flags(const Plan& plan, const LaunchedModel& model);
/// The same for torchtitan, whose FSDP shares out all states: for ZeRO of gradients it keeps weights gathered, for that
/// of the optimizer alone it has no argument, and copies are replicas. Nor has it one for heads exchanged for tokens:
/// keys and values are gathered then.
std::vector<std::string> torchtitan_flags(const Plan& plan, const LaunchedModel& model);

}  // namespace orrery::experiments::training
