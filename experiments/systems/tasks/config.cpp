#include "experiments/systems/tasks/config.hpp"

#include <fmt/format.h>

#include "experiments/base/platform_choice.hpp"
#include "hw/cost/cost_model.hpp"

namespace orrery::experiments::tasks {
namespace {

using sim::Node;

constexpr std::string_view kRank = "{rank}";

/// The file of a rank, from the pattern.
std::filesystem::path trace_of(const std::filesystem::path& folder, const std::string& pattern, std::int64_t rank) {
  std::string name = pattern;
  name.replace(name.find(kRank), kRank.size(), std::to_string(rank));
  return folder / name;
}

/// Reads the traces of all ranks, of each its own faults.
void read_traces(const Node& workload, const WorkloadParams& params, std::int64_t hosts, TasksConfig& config,
                 sim::Faults& faults) {
  const sim::Origin where = place_of(workload, "traces");
  if (params.traces.find(kRank) == std::string::npos) {
    faults.add(where, "expected a path with {rank} where the number of the rank stands",
               "\"traces/all_reduce.{rank}.et\"");
    return;
  }
  const std::filesystem::path folder = sim::folder_of(where);
  std::int64_t ranks = params.ranks.value_or(0);
  if (!params.ranks)
    while (ranks <= hosts && std::filesystem::is_regular_file(trace_of(folder, params.traces, ranks))) ++ranks;
  if (ranks == 0)
    faults.add(where,
               fmt::format("expected a trace of rank 0: {} is no file", trace_of(folder, params.traces, 0).string()));
  if (ranks > hosts) {
    faults.add(params.ranks ? place_of(workload, "ranks") : where,
               fmt::format("expected no more ranks than the {} hosts of the network", hosts));
    return;
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::filesystem::path file = trace_of(folder, params.traces, rank);
    try {
      config.ranks.push_back(models::read_chakra_nodes(file));
      config.orders.push_back(models::chakra_order(file, config.ranks.back()));
      config.inputs.push_back(file);
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults()) faults.add(fault.where, fault.message, fault.hint);
    }
  }
}

void read_device(const Node& machine, const DeviceParams& params, TasksConfig& config, sim::Faults& faults) {
  const Node entry = read_part_entry(*machine.find("device"), params.part, config.inputs, faults);
  if (!entry.is_object()) return;
  const auto part = hw::parse_computing_part(entry, {}, faults);
  if (part) config.device = hw::device_of(part->part);
}

}  // namespace

TasksConfig read_tasks_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  TasksConfig config;
  config.file = root.origin().file;
  config.params = read_sections<TasksParams>(root, registries, faults);
  const Node run = section(root, "run");
  check_tick(run, config.params.run.tick_s, faults);
  const Node machine = section(root, "machine");
  config.network =
      network::read_network_parts(machine, registries, config.params.run.tick_s, config.params.machine.network, faults);
  if (config.params.machine.device && machine.is_object() && faults.empty())
    read_device(machine, *config.params.machine.device, config, faults);
  config.direct = registries.get<hw::CollectiveRegistry>().prepare("direct", nullptr, root.origin(), faults);
  const Node workload = section(root, "workload");
  if (workload.is_object() && config.network.topology && faults.empty())
    read_traces(workload, config.params.workload, config.network.topology->hosts, config, faults);
  if (faults.empty()) config.resolved = resolved_config("tasks", config.params);
  return config;
}

}  // namespace orrery::experiments::tasks
