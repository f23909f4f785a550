// Experts beyond what the devices of a replica hold: replica.expert_memory (docs/explain/expert-offload.md).
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "experiments/experts/memory_params.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct ServingConfig;

struct ExpertMemoryParams : ExpertMemoryPolicies {
  double share = 1;
  ExpertHostParams host;
  std::string link = "pcie4-x16", storage;
  static sim::FieldRows<ExpertMemoryParams> fields();
};

/// Reads the parts that replica.expert_memory names; reports what it cannot stand beside. After workload.router.
void read_expert_memory(const sim::Node& root, ServingConfig& config, sim::Faults& faults);

/// Writes the parts of a resolved replica.expert_memory as `reference` names their files; `file` is the config's.
void name_expert_parts(sim::Node& memory, const std::string& file,
                       const std::function<std::string(const std::filesystem::path&)>& reference);

}  // namespace orrery::experiments
