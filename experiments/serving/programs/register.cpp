#include "experiments/serving/programs/programs.hpp"

namespace orrery::experiments {

void register_programs(ProgramRegistry& registry) {
  add_conversation(registry);
  add_workflow_trace(registry);
}

}  // namespace orrery::experiments
