#include "experiments/systems/launch/config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/base/catalog.hpp"
#include "experiments/base/experiment.hpp"

namespace orrery::experiments::launch {
namespace {

using sim::Node;

std::filesystem::path models_folder() {
  return home_folder() / "models/catalog/eager";
}

void read_platforms(const Node& machine, const MachineParams& params, LaunchConfig& config, sim::Faults& faults) {
  const Node* list = machine.is_object() ? machine.find("platforms") : nullptr;
  if (list == nullptr || !list->is_array()) return;
  if (list->items().empty()) faults.add(list->origin(), "expected at least one platform");
  for (std::size_t i = 0; i < params.platforms.size() && i < list->items().size(); ++i) {
    auto platform = read_platform_choice(list->items()[i], params.platforms[i], config.inputs, faults);
    if (!platform || !params.cost.make) continue;
    auto device = hw::make_device(platform->params.gpu, platform->gpu, params.cost, place_of(machine, "cost"), faults);
    if (!device) continue;
    config.platforms.push_back(*std::move(platform));
    config.devices.push_back(*std::move(device));
  }
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

LaunchConfig read_launch_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  LaunchConfig config;
  static_cast<LaunchParams&>(config) = read_sections<LaunchParams>(root, registries, faults);
  config.file = root.origin().file;
  const Node workload = section(root, "workload"), run = section(root, "run");
  check_tick(run, config.run.tick_s, faults);
  read_platforms(section(root, "machine"), config.machine, config, faults);
  read_models(workload, config, faults);
  check_batches(workload, run, config, faults);
  if (faults.empty()) config.resolved = resolved_config<LaunchParams>("launch", config);
  return config;
}

}  // namespace orrery::experiments::launch
