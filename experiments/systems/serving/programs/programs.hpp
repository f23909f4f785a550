// The programs: one file each, listed in register_programs (register.cpp).
#pragma once

#include "experiments/systems/serving/programs/program.hpp"

namespace orrery::experiments {

void add_appl(ProgramRegistry& registry);
void add_conversation(ProgramRegistry& registry);
void add_opus(ProgramRegistry& registry);
void add_plan_and_budget(ProgramRegistry& registry);
void add_tool_agent(ProgramRegistry& registry);
void add_tree_search(ProgramRegistry& registry);
void add_workflow_trace(ProgramRegistry& registry);

}  // namespace orrery::experiments
