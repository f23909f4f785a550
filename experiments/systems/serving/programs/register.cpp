#include "experiments/systems/serving/programs/programs.hpp"

namespace orrery::experiments {

void register_programs(ProgramRegistry& registry) {
  add_appl(registry);
  add_conversation(registry);
  add_opus(registry);
  add_plan_and_budget(registry);
  add_tool_agent(registry);
  add_tree_search(registry);
  add_workflow_trace(registry);
}

void check_programs(const sim::Node& node, const ProgramsParams& params, sim::Faults& faults) {
  if (params.arrivals && params.clients)
    faults.add(node.find("arrivals")->origin(), "expected either 'clients' or 'arrivals', got both",
               "clients start the next instance when their last has ended");
}

}  // namespace orrery::experiments
