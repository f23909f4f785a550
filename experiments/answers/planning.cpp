#include "experiments/answers/planning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

namespace orrery::experiments {
namespace {

using policies::MemoryPlannerRegistry;
using sim::Node;

/// The chosen planners (all, if none is named) with their parameters.
std::vector<MemoryPlannerRegistry::Choice> choose(const MemoryPlannerRegistry& registry, const PlanParams& params) {
  sim::Faults faults;
  const Node& block = params.parameters;
  (void)registry.parse_block(block, "search", faults);
  std::vector<MemoryPlannerRegistry::Choice> choices;
  const std::vector<std::string> names =
      params.planner.empty() ? registry.names() : std::vector<std::string>{params.planner};
  if (faults.empty())
    for (const std::string& name : names)
      choices.push_back(registry.prepare(name, block.find(name), {"--planner", ""}, faults));
  faults.throw_if_any();
  return choices;
}

std::int64_t capacity_of(const std::string& text) {
  const auto value = sim::parse_quantity(text, sim::Unit::bytes);
  if (!value || *value < 0 || *value > 0x1p62)
    sim::throw_fault({"--capacity", ""},
                     fmt::format("expected bytes such as \"1 MiB\" or \"1048576 B\", got \"{}\"", text));
  return static_cast<std::int64_t>(*value);
}

}  // namespace

BufferPlans plan_buffers(const PlanParams& params, const MemoryPlannerRegistry& registry) {
  const auto choices = choose(registry, params);
  BufferPlans result;
  if (!params.capacity.empty()) result.capacity = capacity_of(params.capacity);
  if (!params.out.empty() && std::filesystem::exists(params.out) && !params.force)
    sim::throw_fault({params.out, ""}, "expected a file that does not exist yet", "give --force to replace it");
  const BufferTable table = read_buffers(params.file);
  for (const auto& choice : choices) {
    const auto planner = choice.make();
    if (params.planner.empty() && planner->runs_a_program()) continue;
    const auto start = std::chrono::steady_clock::now();
    policies::Plan made = planner->plan(table.buffers);
    result.plans.push_back({choice.name, std::move(made),
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }
  result.buffers = table.buffers.size();
  result.lower_bound = policies::lower_bound(table.buffers);
  if (params.out.empty()) return result;
  const auto best = std::min_element(result.plans.begin(), result.plans.end(),
                                     [](const auto& a, const auto& b) { return a.plan.peak < b.plan.peak; });
  std::ofstream file(params.out);
  file << plan_csv(table, best->plan);
  if (!file.flush()) sim::throw_fault({params.out, ""}, "cannot be written");
  result.written_by = best->planner;
  return result;
}

Node plan_node(const BufferPlans& result) {
  Node node = Node::object();
  node.set("buffers", Node::integer(static_cast<std::int64_t>(result.buffers)));
  node.set("lower_bound_bytes", Node::integer(result.lower_bound));
  if (result.capacity) node.set("capacity_bytes", Node::integer(*result.capacity));
  Node plans = Node::array();
  for (const BufferPlans::Plan& one : result.plans) {
    Node plan = Node::object();
    plan.set("planner", Node::string(one.planner));
    plan.set("peak_bytes", Node::integer(one.plan.peak));
    plan.set("solve_s", Node::real(one.seconds));
    if (result.capacity) plan.set("fits", Node::boolean(one.plan.peak <= *result.capacity));
    plans.push(std::move(plan));
  }
  node.set("plans", std::move(plans));
  return node;
}

}  // namespace orrery::experiments
