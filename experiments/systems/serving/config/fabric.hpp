// The machine's network (`machine.network`), and what else goes over it on the same clock (`network_workload`).
//
// Device i of the machine, counted over the groups of machine.devices, is host i of the topology. Collectives of a
// replica then go round the ring of its devices' hosts, KV caches from the hosts of one replica to those of another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/network/config.hpp"
#include "sim/base/document.hpp"
#include "sim/base/registry.hpp"

namespace orrery::experiments {

struct ServingConfig;

/// A network config that serving made: with a topology, and maybe without jobs and flows.
using FabricConfig = network::NetworkConfig;

/// Reads both sections of a config; nothing where it names no network. `config` gets what they resolve to.
std::optional<FabricConfig> read_fabric(const sim::Node& root, ServingConfig& config, sim::Faults& faults);

/// Hosts of a replica's devices: of the replica of that number over all groups, in order.
std::vector<hw::NodeIndex> hosts_of(const ServingConfig& config, std::size_t replica);

}  // namespace orrery::experiments
