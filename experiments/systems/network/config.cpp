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
                                          NetworkSection& params, NetworkParts& config, sim::Faults& faults) {
  const Node* written = node.find("topology");
  if (written != nullptr && written->is_null()) faults.add(written->origin(), "expected an object, got null");
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
void check_bandwidths(const Node& node, const hw::Topology& topology, double tick_s, sim::Faults& faults) {
  double most = 0;
  for (const hw::NetworkLink& link : topology.links) most = std::max(most, link.bandwidth);
  try {
    sim::Engine engine(1, tick_scale(tick_s));
    sim::FlowNetwork(engine).add_link(most);
  } catch (const std::invalid_argument&) {
    faults.add(
        place_of(node, "topology"),
        fmt::format("expected links that carry less in a tick, got {}", sim::humanise(most, sim::Unit::bytes_per_s)),
        "set a finer run.tick, or check the bandwidths");
  }
}

}  // namespace

NetworkParts read_network_parts(const Node& machine, const sim::RegistrySet& registries, double tick_s,
                                NetworkSection& written, sim::Faults& faults) {
  NetworkParts parts;
  parts.params.message_overhead_s = written.message_overhead_s;
  const Node network = machine.is_object() ? section(machine, "network") : machine;
  if (!network.is_object()) return parts;
  parts.made = read_network(network, registries.get<hw::TopologyRegistry>(), written, parts, faults);
  if (parts.topology && faults.empty()) check_bandwidths(network, *parts.topology, tick_s, faults);
  return parts;
}

NetworkConfig read_network_config(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults) {
  NetworkConfig config;
  config.file = root.origin().file;
  auto params = read_sections<NetworkSections>(root, registries, faults);
  config.run = params.run;
  const Node run = section(root, "run");
  check_tick(run, config.run.tick_s, faults);
  check_timeline(section(run, "timeline"), config.run.timeline.begin_s, config.run.timeline.end_s, faults);
  NetworkParts parts =
      read_network_parts(section(root, "machine"), registries, config.run.tick_s, params.machine.network, faults);
  config.network = parts.params;
  config.topology = parts.topology;
  config.routing = parts.routing;
  hw::Routing* const routing = parts.made.get();
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
