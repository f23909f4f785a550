#include "experiments/systems/serving/programs/config.hpp"

#include "experiments/base/config_parts.hpp"

namespace orrery::experiments {

const ProgramRegistry& program_registry() {
  static const ProgramRegistry registry = [] {
    ProgramRegistry all("program");
    register_programs(all);
    return all;
  }();
  return registry;
}

ProgramsConfig read_programs(const sim::Node& node, const traces::ArrivalRegistry& arrivals, sim::Faults& faults) {
  ProgramsConfig config;
  config.params = sim::parse_params<ProgramsParams>(node, faults);
  if (!node.is_object()) return config;
  if (const sim::Node* does = node.find("does"); does != nullptr && does->is_object())
    config.does = program_registry().parse_block(*does, "conversation", faults);
  if (config.params.arrivals.is_object()) {
    const sim::Node& block = *node.find("arrivals");
    config.arrivals = arrivals.parse_block(block, "poisson", faults);
    if (config.params.clients)
      faults.add(block.origin(), "expected either 'clients' or 'arrivals', got both",
                 "clients start the next instance when their last has ended");
  }
  return config;
}

sim::Node write_programs(const ProgramsConfig& config) {
  sim::Node node = sim::write_params(config.params);
  if (config.arrivals) node.set("arrivals", traces::ArrivalRegistry::write_block(*config.arrivals));
  node.set("does", ProgramRegistry::write_block(config.does));
  return node;
}

std::vector<sim::FieldInfo> programs_fields(const traces::ArrivalRegistry& arrivals) {
  std::vector<sim::FieldInfo> fields = sim::describe_params<ProgramsParams>();
  find_field(fields, "arrivals").policies = arrivals.components();
  find_field(fields, "does").policies = program_registry().components();
  return fields;
}

}  // namespace orrery::experiments
