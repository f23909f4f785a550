// `orrery plans CONFIG`: every way to serve a workload, simulated and compared (docs/questions.md).
#include <fmt/format.h>

#include <memory>

#include "tools/orrery/commands.hpp"
#include "tools/orrery/run_command.hpp"

namespace orrery::tools {
namespace {

struct PlansOptions {
  RunOptions run;
  std::vector<std::string> parts, devices, tp, pp, dp, ep, batching, dtypes, clocks, objectives;
  std::string price, rank, jobs;
  bool capacity = false, disaggregated = false;
};

std::string list(const std::vector<std::string>& items, const char* before, const char* after) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + (before + item) + after;
  return "[" + text + "]";
}

int plans(const PlansOptions& options) {
  RunOptions run = options.run;
  const auto set = [&](const char* path, const std::string& value) {
    if (!value.empty()) run.before.push_back(fmt::format("{}={}", path, value));
  };
  const auto set_list = [&](const char* path, const std::vector<std::string>& items, const char* before,
                            const char* after) {
    if (!items.empty()) set(path, list(items, before, after));
  };
  set("system", "plans");
  set_list("plans.parts", options.parts, "{\"part\": \"", "\"}");
  set_list("plans.devices", options.devices, "", "");
  set_list("plans.tensor_parallel", options.tp, "", "");
  set_list("plans.pipeline_parallel", options.pp, "", "");
  set_list("plans.data_parallel", options.dp, "", "");
  set_list("plans.expert_parallel", options.ep, "", "");
  set_list("plans.batching", options.batching, "\"", "\"");
  set_list("plans.dtypes", options.dtypes, "\"", "\"");
  set_list("plans.clocks", options.clocks, "\"", "\"");
  set_list("plans.objectives", options.objectives, "\"", "\"");
  set("plans.price_per_hour", options.price);
  set("plans.rank", options.rank);
  set("plans.jobs", options.jobs);
  if (options.capacity) set("plans.capacity", "true");
  if (options.disaggregated) set("plans.disaggregated", "true");
  return run_config(run);
}

}  // namespace

void add_plans(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlansOptions>();
  CLI::App* command = app.add_subcommand("plans", "Simulate every plan to serve a workload; Pareto front");
  add_run_options(*command, options->run);
  const auto add = [&](const char* name, std::vector<std::string>& list, const char* doc) {
    command->add_option(name, list, doc)->delimiter(',');
  };
  add("--parts", options->parts, "Parts of the catalog, with commas (default: the config's)");
  add("--devices", options->devices, "Numbers of devices");
  add("--tp", options->tp, "Tensor parallelism (default: powers of two)");
  add("--pp", options->pp, "Pipeline stages (default: 1)");
  add("--dp", options->dp, "Lanes of a replica that attend by themselves (default: 1)");
  add("--ep", options->ep, "Groups of a replica's devices that share out the experts (default: the config's)");
  add("--batching", options->batching, "Batching policies");
  add("--dtypes", options->dtypes, "Number formats");
  add("--clocks", options->clocks, "Clocks, \"1.2 GHz\"");
  add("--objectives", options->objectives, "latency, ttft, throughput, energy, cost, slo, capacity");
  command->add_option("--rank", options->rank, "The objective that the best plan is best at");
  command->add_option("--price", options->price, "Of a device and hour: gives cost per million tokens");
  command->add_flag("--capacity", options->capacity, "Search each plan's capacity and judge it there");
  command->add_flag("--disaggregated", options->disaggregated,
                    "Also divide the devices between prefill and decode, in every way");
  command->add_option("--jobs", options->jobs, "Threads; results are the same for any number");
  command->callback([options, &action] { action = [options] { return plans(*options); }; });
}

}  // namespace orrery::tools
