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

sim::FieldRows<NetworkSection> NetworkSection::fields() {
  static const sim::FieldTable table{
      sim::annotated(sim::required(sim::field("topology", &NetworkSection::topology,
                                              "Topology: hosts, switches and the links between them.")),
                     [](sim::FieldInfo& info, const sim::RegistrySet* registries) {
                       info.policies = registries->get<hw::TopologyRegistry>().components();
                     }),
      sim::choice("routing", &NetworkSection::routing, "shortest", "Routing: which links a message takes."),
      sim::field("message_overhead", &NetworkSection::message_overhead_s, sim::Unit::seconds, sim::at_least(0),
                 "Time added to every message before it uses any bandwidth: software, NIC, protocol.")};
  return table;
}

sim::FieldRows<MachineParams> MachineParams::fields() {
  static const sim::FieldTable table{
      sim::required(sim::field("network", &MachineParams::network, "The network that connects the hosts."))};
  return table;
}

sim::FieldRows<StragglerParams> StragglerParams::fields() {
  static const sim::FieldTable table{
      sim::field("spread", &StragglerParams::spread_s, sim::Unit::seconds, sim::at_least(0),
                 "Largest delay with which a rank enters, drawn uniformly for each rank.")};
  return table;
}

sim::FieldRows<FlowParams> FlowParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("from", &FlowParams::from, Unit::text, sim::any_value(), "Name of the sending host.")),
      sim::required(sim::field("to", &FlowParams::to, Unit::text, sim::any_value(), "Name of the receiving host.")),
      sim::required(
          sim::field("bytes", &FlowParams::bytes, Unit::bytes, sim::between(0, 1e18), "Size of the message.")),
      sim::field("start", &FlowParams::start_s, Unit::seconds, sim::at_least(0), "Time at which the message is sent.")};
  return table;
}

sim::FieldRows<EventParams> EventParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::required(sim::field("at", &EventParams::at_s, Unit::seconds, sim::at_least(0), "Time of the event.")),
      sim::required(sim::field("link", &EventParams::link, Unit::text, sim::any_value(),
                               "Name of the link, \"a->b\"; with parallel links, the second is \"a->b#2\".")),
      sim::required(sim::field("share", &EventParams::share, Unit::ratio, sim::between(0, 1),
                               "Share of the link's full bandwidth from then on; 0: the link is down.")),
      sim::field("both_ways", &EventParams::both_ways,
                 "Whether the link in the other direction changes too (the whole cable).")};
  return table;
}

sim::FieldRows<WorkloadParams> WorkloadParams::fields() {
  static const sim::FieldTable table{
      sim::field("jobs", &WorkloadParams::jobs, "Collectives, each repeated on a group of hosts."),
      sim::field("flows", &WorkloadParams::flows, "Single messages between two hosts."),
      sim::field("traffic", &WorkloadParams::traffic, "Messages generated by a traffic pattern."),
      sim::field("events", &WorkloadParams::events, "Links that degrade, fail or recover during the run.")};
  return table;
}

sim::FieldRows<TimelineParams> TimelineParams::fields() {
  using sim::Unit;
  static const auto table = sim::joined(
      sim::FieldTable{sim::field("enabled", &TimelineParams::enabled, "Whether timeline.pftrace is written."),
                      sim::field("slices", &TimelineParams::slices, Unit::count, sim::at_least(0),
                                 "Number of slices shown, counted from `begin`; later ones are left out."),
                      sim::field("ranks", &TimelineParams::ranks, Unit::count, sim::at_least(0),
                                 "Ranks of each job that are shown with a track of their own."),
                      sim::field("links", &TimelineParams::links, Unit::count, sim::between(0, 256),
                                 "Number of links whose load is shown, the busiest ones.")},
      timeline_window_fields<TimelineParams>());
  return table;
}

sim::FieldRows<RunParams> RunParams::fields() {
  using sim::Unit;
  static const sim::FieldTable table{
      sim::field("seed", &RunParams::seed, Unit::none, sim::at_least(0), "Seed of all random streams."),
      sim::field("tick", &RunParams::tick_s, Unit::seconds, sim::between(1e-12, 1e-3),
                 "Resolution of time, a whole number of ps; 1 ps reaches 106 days, 1 ns 292 years."),
      sim::field("until", &RunParams::until_s, Unit::seconds, sim::positive(),
                 "Time at which the run ends; null: when all jobs and flows are done."),
      sim::field("replications", &RunParams::replications, Unit::count, sim::between(1, 10'000),
                 "Number of runs, with seeds seed, seed + 1, …; files come from the first, and the summary adds means "
                 "and intervals."),
      sim::field("timeline", &RunParams::timeline, "What timeline.pftrace shows.")};
  return table;
}

sim::FieldRows<NetworkSections> NetworkSections::fields() {
  using S = NetworkSections;
  static const sim::FieldTable table{
      sim::required(sim::section("machine", &S::machine, "The network.")),
      sim::required(sim::section(
          "workload", &S::workload,
          "What is sent (collectives, single flows, generated traffic), and links that change during the run.")),
      sim::section("run", &S::run, "Seed, resolution and length of the run.")};
  return table;
}

}  // namespace orrery::experiments::network
