#include "experiments/systems/launch/config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/catalog.hpp"
#include "experiments/base/experiment.hpp"

namespace orrery::experiments::launch {
namespace {

using sim::FieldInfo;
using sim::Node;

constexpr const char* kCostModel = "tiled";

const hw::CostModelRegistry& cost_models() {
  static const hw::CostModelRegistry registry = [] {
    hw::CostModelRegistry all("cost_model");
    hw::register_cost_models(all);
    return all;
  }();
  return registry;
}

std::filesystem::path models_folder() {
  return home_folder() / "models/catalog/eager";
}

void read_platforms(const Node& machine, const MachineParams& params, LaunchConfig& config, sim::Faults& faults) {
  const Node* list = machine.is_object() ? machine.find("platforms") : nullptr;
  if (list == nullptr || !list->is_array()) return;
  if (list->items().empty()) faults.add(list->origin(), "expected at least one platform");
  for (std::size_t i = 0; i < params.platforms.size() && i < list->items().size(); ++i)
    if (auto platform = read_platform_choice(list->items()[i], params.platforms[i], config.inputs, faults))
      config.platforms.push_back(std::move(*platform));
  for (std::size_t i = 0; i < config.platforms.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (config.platforms[i].name == config.platforms[j].name)
        faults.add(list->items()[i].origin(), fmt::format("another platform is named '{}'", config.platforms[i].name),
                   "give it a name in 'override'");
}

void read_models(const Node& workload, LaunchConfig& config, sim::Faults& faults) {
  const Node* list = workload.is_object() ? workload.find("models") : nullptr;
  if (list == nullptr || !list->is_array()) return;
  if (list->items().empty()) faults.add(list->origin(), "expected at least one model");
  const std::vector<std::string> known = models::catalog_models(models_folder());
  for (std::size_t i = 0; i < config.workload.models.size() && i < list->items().size(); ++i) {
    const std::string& name = config.workload.models[i];
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      faults.add(list->items()[i].origin(),
                 fmt::format("expected a model of models/catalog/eager, found no '{}'", name),
                 sim::name_hint(name, known));
      continue;
    }
    const std::filesystem::path file = models_folder() / (name + ".json");
    config.models.push_back({name, hw::parse_part<models::EagerModel>(sim::read_config(file), faults).part});
    config.inputs.push_back(file);
  }
}

void check_batches(const Node& workload, const Node& run, const LaunchConfig& config, sim::Faults& faults) {
  const Node* list = workload.is_object() ? workload.find("batches") : nullptr;
  if (list == nullptr || !list->is_array()) return;
  const std::vector<std::int64_t>& batches = config.workload.batches;
  if (batches.empty()) faults.add(list->origin(), "expected at least one batch");
  for (std::size_t i = 1; i < batches.size() && i < list->items().size(); ++i)
    if (batches[i] <= batches[i - 1])
      faults.add(list->items()[i].origin(), fmt::format("expected more than {}, the batch before", batches[i - 1]));
  const Node proximity = section(workload, "proximity");
  const std::vector<std::int64_t>& lengths = config.workload.proximity.lengths;
  for (std::size_t i = 1; i < lengths.size(); ++i)
    if (lengths[i] <= lengths[i - 1])
      faults.add(place_of(proximity, "lengths"),
                 fmt::format("expected more than {}, the length before, got {}", lengths[i - 1], lengths[i]));
  const TimelineParams& timeline = config.run.timeline;
  if (timeline.enabled && !batches.empty() &&
      std::find(batches.begin(), batches.end(), timeline.batch) == batches.end())
    faults.add(place_of(section(run, "timeline"), "batch"),
               fmt::format("expected one of workload.batches, got {}", timeline.batch));
}

}  // namespace

LaunchConfig read_launch_config(const Node& root, sim::Faults& faults) {
  LaunchConfig config;
  config.file = root.origin().file;
  check_keys(root, launch_fields(), faults);
  const Node machine = section(root, "machine");
  const auto params = sim::parse_params<MachineParams>(machine, faults);
  if (machine.is_object()) config.cost = cost_models().parse_block(section(machine, "cost"), kCostModel, faults);
  const Node workload = section(root, "workload");
  config.workload = sim::parse_params<WorkloadParams>(workload, faults);
  const Node run = section(root, "run");
  config.run = sim::parse_params<RunParams>(run, faults);
  check_tick(run, config.run.tick_s, faults);
  read_platforms(machine, params, config, faults);
  read_models(workload, config, faults);
  check_batches(workload, run, config, faults);
  if (!faults.empty()) return config;
  config.resolved = resolved_header("launch");
  Node resolved_machine = sim::write_params(params);
  resolved_machine.set("cost", hw::CostModelRegistry::write_block(config.cost));
  config.resolved.set("machine", std::move(resolved_machine));
  config.resolved.set("workload", sim::write_params(config.workload));
  config.resolved.set("run", sim::write_params(config.run));
  return config;
}

std::vector<FieldInfo> launch_fields() {
  std::vector<FieldInfo> machine = sim::describe_params<MachineParams>();
  FieldInfo& cost = find_field(machine, "cost");
  cost = policy_field("cost", cost.doc, cost_models().components(), kCostModel);
  find_field(find_field(machine, "platforms").nested, "override").nested = sim::describe_params<hw::PlatformParams>();
  std::vector<FieldInfo> sections;
  sections.push_back(object_field("machine", "The platforms.", std::move(machine)));
  sections.back().required = true;
  sections.push_back(
      object_field("workload", "Forward passes of models over batches.", sim::describe_params<WorkloadParams>()));
  sections.back().required = true;
  sections.push_back(object_field("run", "Resolution of time, timeline.", sim::describe_params<RunParams>()));
  return sections;
}

}  // namespace orrery::experiments::launch
