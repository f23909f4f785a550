// `orrery plan FILE`: offsets of buffers with known lifetimes in one arena (docs/memory-planning.md).
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "experiments/memory/buffer_file.hpp"
#include "policies/memory/planner.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

struct PlanOptions {
  std::string input, output, planner, capacity;
  std::vector<std::string> assignments;
  bool json = false, force = false;
};

using policies::MemoryPlannerRegistry;

/// The chosen planners (all, if none is named) with what `--set name.parameter=value` says.
std::vector<MemoryPlannerRegistry::Choice> choose(const MemoryPlannerRegistry& registry, const PlanOptions& options) {
  sim::Faults faults;
  sim::Node block = sim::Node::object();
  for (const std::string& assignment : options.assignments) sim::assign(block, assignment);
  (void)registry.parse_block(block, "search", faults);
  std::vector<MemoryPlannerRegistry::Choice> choices;
  const std::vector<std::string> names =
      options.planner.empty() ? registry.names() : std::vector<std::string>{options.planner};
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

struct Result {
  std::string planner;
  policies::Plan plan;
  double seconds = 0;
};

sim::Node as_json(const std::vector<Result>& results, std::size_t buffers, std::int64_t bound,
                  std::optional<std::int64_t> capacity) {
  sim::Node node = sim::Node::object();
  node.set("buffers", sim::Node::integer(static_cast<std::int64_t>(buffers)));
  node.set("lower_bound_bytes", sim::Node::integer(bound));
  if (capacity) node.set("capacity_bytes", sim::Node::integer(*capacity));
  sim::Node plans = sim::Node::array();
  for (const Result& result : results) {
    sim::Node plan = sim::Node::object();
    plan.set("planner", sim::Node::string(result.planner));
    plan.set("peak_bytes", sim::Node::integer(result.plan.peak));
    plan.set("solve_s", sim::Node::real(result.seconds));
    if (capacity) plan.set("fits", sim::Node::boolean(result.plan.peak <= *capacity));
    plans.push(std::move(plan));
  }
  node.set("plans", std::move(plans));
  return node;
}

void print(const std::vector<Result>& results, std::size_t buffers, std::int64_t bound,
           std::optional<std::int64_t> capacity) {
  fmt::print("buffers      {}\nlower bound  {} B (most bytes live at once)\n", buffers, bound);
  if (capacity) fmt::print("capacity     {} B\n", *capacity);
  fmt::print("\n{:<16}{:>14}{:>10}{:>10}{}\n", "planner", "peak B", "/ bound", "solve s", capacity ? "  fits" : "");
  for (const Result& result : results)
    fmt::print("{:<16}{:>14}{:>10.4f}{:>10.3f}{}\n", result.planner, result.plan.peak,
               bound > 0 ? static_cast<double>(result.plan.peak) / static_cast<double>(bound) : 1.0, result.seconds,
               !capacity                       ? ""
               : result.plan.peak <= *capacity ? "  yes"
                                               : "  no");
}

int plan(const PlanOptions& options) {
  MemoryPlannerRegistry registry("memory planner");
  policies::register_memory_planners(registry);
  const auto choices = choose(registry, options);
  std::optional<std::int64_t> capacity;
  if (!options.capacity.empty()) capacity = capacity_of(options.capacity);
  if (!options.output.empty() && std::filesystem::exists(options.output) && !options.force)
    sim::throw_fault({options.output, ""}, "expected a file that does not exist yet", "give --force to replace it");
  const experiments::BufferTable table = experiments::read_buffers(options.input);
  std::vector<Result> results;
  for (const auto& choice : choices) {
    const auto start = std::chrono::steady_clock::now();
    policies::Plan made = choice.make()->plan(table.buffers);
    results.push_back({choice.name, std::move(made),
                       std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }
  const std::int64_t bound = policies::lower_bound(table.buffers);
  if (options.json) {
    fmt::print("{}\n", as_json(results, table.buffers.size(), bound, capacity).dump(2));
  } else {
    print(results, table.buffers.size(), bound, capacity);
  }
  if (options.output.empty()) return 0;
  const auto best = std::min_element(results.begin(), results.end(),
                                     [](const Result& a, const Result& b) { return a.plan.peak < b.plan.peak; });
  std::ofstream file(options.output);
  file << experiments::plan_csv(table, best->plan);
  if (!file.flush()) sim::throw_fault({options.output, ""}, "cannot be written");
  fmt::print(stderr, "{}: offsets of {}\n", options.output, best->planner);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Place buffers with known lifetimes in one arena");
  command->add_option("FILE", options->input, "Buffers (CSV: id,lower,upper,size)")->required();
  command->add_option("--planner", options->planner, "One planner only (default: all of them)");
  command->add_option("--capacity", options->capacity, "Say which plans fit into so many bytes, \"1 MiB\"");
  command->add_option("--set", options->assignments, "Parameter of a planner: search.budget=1000000")
      ->allow_extra_args(false);
  command->add_option("--out", options->output, "CSV file for the offsets of the best plan");
  command->add_flag("--force", options->force, "Replace the file if it exists");
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &action] { action = [options] { return plan(*options); }; });
}

}  // namespace orrery::tools
