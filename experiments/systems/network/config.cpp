#include "experiments/systems/network/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/network/parts.hpp"
#include "experiments/systems/network/workload.hpp"

namespace orrery::experiments::network {
namespace {

using sim::FieldInfo;
using sim::Node;

const hw::TopologyRegistry& topologies() {
  static const hw::TopologyRegistry registry = [] {
    hw::TopologyRegistry all("topology");
    hw::register_topologies(all);
    return all;
  }();
  return registry;
}

const hw::RoutingRegistry& routings() {
  static const hw::RoutingRegistry registry = [] {
    hw::RoutingRegistry all("routing");
    hw::register_routing(all);
    return all;
  }();
  return registry;
}

/// Where a config names none.
constexpr const char* kRouting = "shortest";

/// The blocks of machine.network as they resolve.
struct NetworkBlocks {
  Node topology, routing;
};

/// Builds topology and routing; null where there were faults.
std::unique_ptr<hw::Routing> read_network(const Node& node, NetworkConfig& config, NetworkBlocks& blocks,
                                          sim::Faults& faults) {
  const Node* written = node.find("topology");
  if (written == nullptr || !written->is_object()) return nullptr;  // reported already
  const std::size_t known = faults.size();
  const Node block = with_parts(*written, faults);
  if (faults.size() != known) return nullptr;
  config.topology = hw::make_topology(topologies(), block, faults);
  const Node routing = section(node, "routing");
  const std::size_t before = faults.size();
  config.routing = routings().parse_block(routing, kRouting, faults);
  if (!config.topology || faults.size() != before) return nullptr;
  sim::Faults none;
  blocks.topology = hw::TopologyRegistry::write_block(topologies().parse_block(block, "", none));
  blocks.routing = hw::RoutingRegistry::write_block(config.routing);
  return hw::make_routing(routing, *config.topology, faults);
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

Node write_resolved(const NetworkConfig& config, const MachineParams& machine, const NetworkBlocks& blocks,
                    const WorkloadParams& workload) {
  Node root = resolved_header("network");
  Node network = sim::write_params(machine.network);
  network.set("topology", blocks.topology);
  network.set("routing", blocks.routing);
  Node hardware = Node::object();
  hardware.set("network", std::move(network));
  root.set("machine", std::move(hardware));
  root.set("workload", sim::write_params(workload));
  root.set("run", sim::write_params(config.run));
  return root;
}

}  // namespace

NetworkConfig read_network_config(const Node& root, sim::Faults& faults) {
  NetworkConfig config;
  config.file = root.origin().file;
  check_keys(root, network_fields(), faults);
  const Node machine = section(root, "machine");
  const auto machine_params = sim::parse_params<MachineParams>(machine, faults);
  const Node network = machine.is_object() ? section(machine, "network") : machine;
  config.network.message_overhead_s = machine_params.network.message_overhead_s;
  NetworkBlocks blocks;
  const auto routing = network.is_object() ? read_network(network, config, blocks, faults) : nullptr;
  const Node run = section(root, "run");
  config.run = sim::parse_params<RunParams>(run, faults);
  check_tick(run, config.run.tick_s, faults);
  check_timeline(section(run, "timeline"), config.run.timeline.begin_s, config.run.timeline.end_s, faults);
  if (config.topology && faults.empty()) check_bandwidths(network, config, faults);
  const Node workload = section(root, "workload");
  const std::size_t before = faults.size();
  auto params = sim::parse_params<WorkloadParams>(workload, faults);
  if (workload.is_object()) {
    if (params.jobs.empty() && params.flows.empty() && !params.traffic && faults.size() == before)
      faults.add(workload.origin(), "missing: expected 'jobs', 'flows' or 'traffic'");
    check_algorithms(workload, params, faults);
    if (config.topology && routing) {
      const hw::TopologyNames names(*config.topology);
      read_workload({workload, *config.topology, names, *routing}, params, config, faults);
    }
  }
  if (faults.empty()) config.resolved = write_resolved(config, machine_params, blocks, params);
  return config;
}

std::vector<FieldInfo> network_fields() {
  std::vector<FieldInfo> machine = sim::describe_params<MachineParams>();
  std::vector<FieldInfo>& network = find_field(machine, "network").nested;
  const auto choice_of = [](FieldInfo& field, std::vector<sim::ComponentInfo> components, const char* fallback) {
    const bool required = field.required;
    field = policy_field(field.name, field.doc, std::move(components), fallback);
    field.required = required;
  };
  choice_of(find_field(network, "topology"), topologies().components(), nullptr);
  choice_of(find_field(network, "routing"), routings().components(), kRouting);
  std::vector<FieldInfo> workload = sim::describe_params<WorkloadParams>();
  choice_of(find_field(find_field(workload, "jobs").nested, "algorithm"), collectives().components(), nullptr);
  std::vector<FieldInfo> sections;
  sections.push_back(object_field("machine", "The network.", std::move(machine)));
  sections.back().required = true;
  sections.push_back(object_field(
      "workload", "What is sent: collectives, single flows, generated traffic; and links that change meanwhile.",
      std::move(workload)));
  sections.back().required = true;
  sections.push_back(object_field("run", "Seed, resolution and length of the run.", sim::describe_params<RunParams>()));
  return sections;
}

}  // namespace orrery::experiments::network
