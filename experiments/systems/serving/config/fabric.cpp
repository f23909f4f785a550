#include "experiments/systems/serving/config/fabric.hpp"

#include <fmt/format.h>

#include <numeric>

#include "experiments/systems/network/workload.hpp"
#include "experiments/systems/serving/config/config.hpp"

namespace orrery::experiments {

std::optional<FabricConfig> read_fabric(const sim::Node& root, ServingConfig& config, sim::Faults& faults) {
  const sim::Node* written = root.find("network_workload");
  if (!config.machine.network) {
    if (written != nullptr && !written->is_null())
      faults.add(written->origin(), "expected a machine.network that it goes over");
    return std::nullopt;
  }
  FabricConfig fabric;
  fabric.file = config.file;
  fabric.run.seed = config.run.seed;
  fabric.run.tick_s = config.run.tick_s;
  network::NetworkParts parts = network::read_network_parts(section(root, "machine"), *config.registries,
                                                            config.run.tick_s, *config.machine.network, faults);
  fabric.network = parts.params;
  fabric.topology = parts.topology;
  fabric.routing = parts.routing;
  if (!fabric.topology || !parts.made) return fabric;
  const TransferParams& transfer = config.cluster.transfer;
  if (constexpr TransferParams own;
      transfer.bandwidth != own.bandwidth || transfer.latency_s != own.latency_s || transfer.fixed_s != own.fixed_s)
    faults.add(place_of(section(root, "cluster"), "transfer"),
               "expected none beside machine.network, over which KV goes");
  const MigrationParams& migration = config.migration;
  if (migration.bandwidth != MigrationParams{}.bandwidth)
    faults.add(place_of(section(root, "migration"), "bandwidth"),
               "expected none beside machine.network, over which running requests migrate");
  std::int64_t devices = 0;
  for (const DeviceGroup& group : config.machine.devices) devices += group.count;
  if (fabric.topology->hosts < devices)
    faults.add(place_of(section(root, "machine"), "network"),
               fmt::format("expected a host for each of the {} devices, got {}", devices, fabric.topology->hosts));
  if (written == nullptr || !written->is_object()) return fabric;
  const auto& collectives = config.registries->get<hw::CollectiveRegistry>();
  network::check_algorithms(*written, config.network_workload, collectives, faults);
  const hw::TopologyNames names(*fabric.topology);
  network::read_workload({.node = *written,
                          .topology = *fabric.topology,
                          .names = names,
                          .routing = *parts.made,
                          .collectives = collectives,
                          .alone = false},
                         config.network_workload, fabric, faults);
  return fabric;
}

std::vector<hw::NodeIndex> hosts_of(const ServingConfig& config, std::size_t replica) {
  std::vector<std::int64_t> next{0};  // free host of each group of devices
  for (const DeviceGroup& group : config.machine.devices) next.push_back(next.back() + group.count);
  for (const ReplicaGroup& group : config.groups)
    for (std::int64_t i = 0; i < group.params.count; ++i) {
      std::int64_t& first = next[static_cast<std::size_t>(group.params.device_group)];
      if (replica-- == 0) {
        std::vector<hw::NodeIndex> hosts(static_cast<std::size_t>(group.devices()));
        std::iota(hosts.begin(), hosts.end(), static_cast<hw::NodeIndex>(first));
        return hosts;
      }
      first += group.devices();
    }
  return {};
}

}  // namespace orrery::experiments
