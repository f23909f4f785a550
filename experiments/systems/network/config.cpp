#include "experiments/systems/network/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/network/parts.hpp"
#include "experiments/systems/network/workload.hpp"

namespace orrery::experiments::network {
namespace {

using sim::Node;

/// Builds topology and routing; null where there were faults.
std::unique_ptr<hw::Routing> read_network(const Node& node, const hw::TopologyRegistry& topologies,
                                          NetworkSection& params, NetworkConfig& config, sim::Faults& faults) {
  const Node* written = node.find("topology");
  if (written == nullptr || !written->is_object()) return nullptr;  // reported already
  const std::size_t known = faults.size();
  const Node block = with_parts(*written, faults);
  if (faults.size() != known) return nullptr;
  config.topology = hw::make_topology(topologies, block, faults);
  config.routing = params.routing;
  if (!config.topology || !config.routing.make) return nullptr;
  sim::Faults none;
  params.topology = hw::TopologyRegistry::write_block(topologies.parse_block(block, "", none));
  return hw::make_routing(section(node, "routing"), *config.topology, faults);
}

/// Reports bandwidths that the solver cannot hold at this tick.
void check_bandwidths(const Node& node, const NetworkConfig& config, sim::Faults& faults) {
  double most = 0;
  for (const hw::NetworkLink& link : config.topology->links) most = std::max(most, link.bandwidth);
  try {
    sim::Engine engine(1, tick_scale(config.run.tick_s));
    sim::FlowNetwork(engine).add_link(most);
  } catch (const std::invalid_argument&) {
    faults.add(
        place_of(node, "topology"),
        fmt::format("expected links that carry less in a tick, got {}", sim::humanise(most, sim::Unit::bytes_per_s)),
        "set a finer run.tick, or check the bandwidths");
  }
}

}  // namespace

NetworkConfig read_network_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  NetworkConfig config;
  config.file = root.origin().file;
  auto params = read_sections<NetworkSections>(root, registries, faults);
  config.run = params.run;
  const Node machine = section(root, "machine");
  const Node network = machine.is_object() ? section(machine, "network") : machine;
  config.network.message_overhead_s = params.machine.network.message_overhead_s;
  const auto routing = network.is_object() ? read_network(network, registries.get<hw::TopologyRegistry>(),
                                                          params.machine.network, config, faults)
                                           : nullptr;
  const Node run = section(root, "run");
  check_tick(run, config.run.tick_s, faults);
  check_timeline(section(run, "timeline"), config.run.timeline.begin_s, config.run.timeline.end_s, faults);
  if (config.topology && faults.empty()) check_bandwidths(network, config, faults);
  const Node workload = section(root, "workload");
  if (workload.is_object()) {
    const hw::CollectiveRegistry& collectives = registries.get<hw::CollectiveRegistry>();
    const auto given = [&](const char* key) {
      const Node* value = workload.find(key);
      return value != nullptr && !value->is_null() && !(value->is_array() && value->items().empty());
    };
    if (!given("jobs") && !given("flows") && !given("traffic"))
      faults.add(workload.origin(), "missing: expected 'jobs', 'flows' or 'traffic'");
    check_algorithms(workload, params.workload, collectives, faults);
    if (config.topology && routing) {
      const hw::TopologyNames names(*config.topology);
      read_workload({workload, *config.topology, names, *routing, collectives}, params.workload, config, faults);
    }
  }
  if (faults.empty()) config.resolved = resolved_config("network", params);
  return config;
}

}  // namespace orrery::experiments::network
