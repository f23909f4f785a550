// The section `workload.program` of a serving config: which program runs, and how many instances of it.
#pragma once

#include <optional>
#include <vector>

#include "experiments/systems/serving/programs/program.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments {

/// `workload.program` as read.
struct ProgramsConfig {
  ProgramsParams params;
  std::optional<traces::ArrivalRegistry::Choice> arrivals;
  ProgramRegistry::Choice does;
};

/// Every program.
const ProgramRegistry& program_registry();
/// Reads `workload.program`; reports every fault.
ProgramsConfig read_programs(const sim::Node& node, const traces::ArrivalRegistry& arrivals, sim::Faults& faults);
/// As it would stand in a resolved config.
sim::Node write_programs(const ProgramsConfig& config);
/// The section as data.
std::vector<sim::FieldInfo> programs_fields(const traces::ArrivalRegistry& arrivals);

}  // namespace orrery::experiments
