// `orrery plan FILE`: offsets of buffers with known lifetimes in one arena (docs/explain/memory-planning.md).
#include <fmt/format.h>

#include <memory>

#include "experiments/answers/planning.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

struct PlanOptions {
  experiments::PlanParams params;
  std::vector<std::string> assignments;
  bool json = false;
};

void print(const experiments::BufferPlans& result) {
  const auto& capacity = result.capacity;
  const std::int64_t bound = result.lower_bound;
  fmt::print("buffers      {}\nlower bound  {} B (most bytes live at once)\n", result.buffers, bound);
  if (capacity) fmt::print("capacity     {} B\n", *capacity);
  fmt::print("\n{:<18}{:>12}{:>10}{:>10}{}\n", "planner", "peak B", "/ bound", "solve s", capacity ? "  fits" : "");
  for (const auto& one : result.plans)
    fmt::print("{:<18}{:>12}{:>10.4f}{:>10.3f}{}\n", one.planner, one.plan.peak,
               bound > 0 ? static_cast<double>(one.plan.peak) / static_cast<double>(bound) : 1.0, one.seconds,
               !capacity                    ? ""
               : one.plan.peak <= *capacity ? "  yes"
                                            : "  no");
}

int plan(const Systems& systems, PlanOptions options) {
  for (const std::string& assignment : options.assignments) sim::assign(options.params.parameters, assignment);
  const experiments::BufferPlans result =
      experiments::plan_buffers(options.params, systems.registry<policies::MemoryPlannerRegistry>());
  if (options.json) {
    fmt::print("{}\n", experiments::plan_node(result).dump(2));
  } else {
    print(result);
  }
  if (!result.written_by.empty()) fmt::print(stderr, "{}: offsets of {}\n", options.params.out, result.written_by);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "Place buffers with known lifetimes in one arena (memory; `plans` compares machines)");
  command->add_option("FILE", options->params.file, "CSV file of buffers: id,lower,upper,size")->required();
  command->add_option("--planner", options->params.planner, "Use this planner only (default: all)");
  command->add_option("--capacity", options->params.capacity,
                      "Tell which plans fit into this many bytes, e.g. \"1 MiB\"");
  command->add_option("--set", options->assignments, "Set a parameter of a planner: search.budget=1000000")
      ->allow_extra_args(false);
  command->add_option("--out", options->params.out, "CSV file to write, with the offsets of the best plan");
  command->add_flag("--force", options->params.force, "Replace the file if it exists");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback(
      [options, &action] { action = [options](const Systems& systems) { return plan(systems, *options); }; });
}

}  // namespace orrery::tools
