// vLLM engine arguments as a serving config: what a user's own engine was started with, for the simulator.
//
// Read are command-line arguments (`--max-num-seqs 256 --enable-prefix-caching`, one `=` or one space), or a JSON file:
// an object of engine arguments, or a run's metadata with `engine_kwargs`, `resolved_config`, `kv_cache`, `hardware`
// (what the engine resolved wins over what it was told). Source of names and defaults: vLLM 0.19, EngineArgs. Nothing
// is dropped silently: what has no counterpart is listed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/import/arguments.hpp"

namespace orrery::experiments {

/// From a command line. Throws sim::ConfigError for what is no argument.
EngineArguments engine_arguments(const std::vector<std::string>& words);
/// From a JSON file.
EngineArguments engine_arguments(const std::filesystem::path& file);

struct ImportOptions {
  std::optional<std::string> part;   ///< catalog name or file; none: by the device's name, if the metadata has it
  std::optional<std::string> model;  ///< likewise for the model
  std::optional<std::string> trace;  ///< a request log (format vllm_log) to replay
};

ImportedConfig import_vllm(const EngineArguments& arguments, const ImportOptions& options);

}  // namespace orrery::experiments
