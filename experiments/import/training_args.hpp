// Arguments of the programs that people train with, as a config of system `training` (docs/how-to/training-config.md).
//
// Sources of names and defaults: Megatron-LM core 0.14 (megatron/training/arguments.py), DeepSpeed 0.17 (its config
// file), torchtitan 0.2 (job_config.py). The way back, from a plan to arguments, is launch_flags.hpp of the system.
#pragma once

#include <optional>
#include <string>

#include "experiments/import/arguments.hpp"

namespace orrery::experiments {

struct TrainingImport {
  std::optional<std::string> part;      ///< catalog name or file; none: h100-sxm5-80gb, with a note
  std::optional<std::string> model;     ///< catalog:NAME or a config.json, in place of sizes among the arguments
  std::optional<std::int64_t> devices;  ///< none: as the arguments say, else one copy of the plan
};

ImportedConfig import_megatron(const EngineArguments& arguments, const TrainingImport& options);
ImportedConfig import_deepspeed(const EngineArguments& arguments, const TrainingImport& options);
ImportedConfig import_torchtitan(const EngineArguments& arguments, const TrainingImport& options);

}  // namespace orrery::experiments
