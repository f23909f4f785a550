// The config of a network experiment: its sections as parameter structs, and what they become once read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/config_parts.hpp"
#include "hw/network/collective.hpp"
#include "hw/network/network.hpp"
#include "hw/network/routing.hpp"
#include "hw/network/topology.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::network {

/// How a collective's time comes about.
enum class Mode : std::uint8_t { automatic, chunks, closed };
constexpr auto enum_names(Mode) {
  using enum Mode;
  return sim::names<Mode>({{"auto", automatic}, {"chunks", chunks}, {"closed", closed}});
}

/// Who sends to whom in generated traffic.
enum class Pattern : std::uint8_t { uniform, permutation, incast, all_to_all, neighbour };
constexpr auto enum_names(Pattern) {
  using enum Pattern;
  return sim::names<Pattern>({{"uniform", uniform},
                              {"permutation", permutation},
                              {"incast", incast},
                              {"all_to_all", all_to_all},
                              {"neighbour", neighbour}});
}

struct NetworkSection {
  sim::Node topology;  ///< parts of the catalog may stand in it, so it is read on its own
  hw::RoutingRegistry::Choice routing;
  double message_overhead_s = 0;

  static sim::FieldRows<NetworkSection> fields();
};

struct MachineParams {
  NetworkSection network;

  static sim::FieldRows<MachineParams> fields();
};

struct StragglerParams {
  double spread_s = 0;

  static sim::FieldRows<StragglerParams> fields();
};

struct JobParams {
  std::string name;
  hw::CollectiveKind collective = hw::CollectiveKind::all_reduce;
  sim::Node algorithm;
  std::int64_t bytes = 0;
  std::optional<sim::TextList> ranks;
  std::int64_t root = 0;
  double start_s = 0;
  std::int64_t repeat = 1;
  double gap_s = 0;
  std::int64_t window = 1;
  StragglerParams stragglers;
  std::optional<std::int64_t> ranks_per_machine;
  std::optional<std::string> root_switch;
  Mode mode = Mode::automatic;

  static constexpr auto fields();
};

struct FlowParams {
  std::string from, to;
  std::int64_t bytes = 0;
  double start_s = 0;

  static sim::FieldRows<FlowParams> fields();
};

struct TrafficParams {
  Pattern pattern = Pattern::uniform;
  std::int64_t flows = 0;
  std::int64_t bytes = 0;
  std::optional<std::int64_t> bytes_max;
  std::optional<std::int64_t> window;
  std::optional<double> rate_per_s;
  std::optional<sim::TextList> hosts;
  std::optional<std::string> target;
  double start_s = 0;

  static constexpr auto fields();
};

struct EventParams {
  double at_s = 0;
  std::string link;
  double share = 0;
  bool both_ways = false;

  static sim::FieldRows<EventParams> fields();
};

struct WorkloadParams {
  std::vector<JobParams> jobs;
  std::vector<FlowParams> flows;
  std::optional<TrafficParams> traffic;
  std::vector<EventParams> events;
  bool empty() const { return jobs.empty() && flows.empty() && !traffic && events.empty(); }

  static sim::FieldRows<WorkloadParams> fields();
};

struct TimelineParams {
  bool enabled = true;
  std::int64_t slices = 20'000;
  std::int64_t ranks = 64;
  std::int64_t links = 8;
  double begin_s = 0;
  std::optional<double> end_s;
  double counter_interval_s = 0;
  std::int64_t limit_bytes = 64 << 20;

  static sim::FieldRows<TimelineParams> fields();
};

struct RunParams {
  std::int64_t seed = 1;
  double tick_s = 1e-12;
  std::optional<double> until_s;
  std::int64_t replications = 1;
  TimelineParams timeline;

  static sim::FieldRows<RunParams> fields();
};

/// The sections of a network config.
struct NetworkSections {
  MachineParams machine;
  WorkloadParams workload;
  RunParams run;

  static sim::FieldRows<NetworkSections> fields();
};

/// A job ready to run.
struct Job {
  JobParams params;
  hw::CollectiveRegistry::Choice algorithm;
  hw::CollectiveSpec spec;
  std::vector<hw::NodeIndex> nodes;  ///< of every member: ranks, then switches of the aggregation tree
  std::uint64_t label = 0;           ///< of its messages, from its name
  std::optional<double> closed_s;    ///< time of a repetition by formula; nothing: its messages are simulated
  std::int64_t ranks() const { return spec.ranks; }
};

/// A single message.
struct Flow {
  std::int64_t id = 0;  ///< position in the config
  hw::NodeIndex from = 0, to = 0;
  std::int64_t bytes = 0;
  double start_s = 0;
};

/// Generated traffic: hosts resolved.
struct Traffic {
  TrafficParams params;
  std::vector<hw::NodeIndex> hosts;
  std::size_t target = 0;  ///< incast: position in `hosts`
};

/// A link that changes.
struct LinkEvent {
  double at_s = 0;
  hw::LinkIndex link = 0;
  double share = 0;
};

/// A validated config.
struct NetworkConfig {
  std::string file;  ///< the config's, for messages
  hw::NetworkParams network;
  std::shared_ptr<const hw::Topology> topology;
  hw::RoutingRegistry::Choice routing;
  std::vector<Job> jobs;    ///< in the order of the config
  std::vector<Flow> flows;  ///< in order of start, then ends, then size
  std::optional<Traffic> traffic;
  std::vector<LinkEvent> events;  ///< in order of time, then of the config
  RunParams run;
  sim::Node resolved;
};

/// What the section `machine.network` becomes; for systems that send over a network of their own.
struct NetworkParts {
  hw::NetworkParams params;
  std::shared_ptr<const hw::Topology> topology;
  hw::RoutingRegistry::Choice routing;
  std::unique_ptr<hw::Routing> made;  ///< the routing for this topology; null where there were faults
};
/// Reads it from section `machine`; `section` comes parsed, and its topology is filled in with every default. Faults,
/// one of which are bandwidths that a tick of `tick_s` seconds cannot hold, go to `faults`.
NetworkParts read_network_parts(const sim::Node& machine, const sim::RegistrySet& registries, double tick_s,
                                NetworkSection& section, sim::Faults& faults);

/// Reads a config document; every fault goes to `faults` and the result is then not to be used.
NetworkConfig read_network_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults);

constexpr auto JobParams::fields() {
  using sim::Unit;
  return sim::FieldTable{
      sim::field("name", &JobParams::name, Unit::text, sim::any_value(), "Unique; \"job0\", \"job1\" … where none."),
      sim::required(sim::field("collective", &JobParams::collective, "What the ranks do together.")),
      sim::annotated(
          sim::field(
              "algorithm", &JobParams::algorithm,
              "How they do it; where none is named, direct for all_to_all and send_recv and ring for the others."),
          [](sim::FieldInfo& info, const sim::RegistrySet* registries) {
            info.policies = registries->get<hw::CollectiveRegistry>().components();
          }),
      sim::required(sim::field("bytes", &JobParams::bytes, Unit::bytes, sim::between(0, 1e18),
                               "As nccl-tests counts: the buffer on each rank; all_gather: the gathered result; "
                               "reduce_scatter: the input; all_to_all: what a rank holds for all ranks.")),
      sim::field("ranks", &JobParams::ranks,
                 "Hosts, one a rank, in order of rank: numbers, ranges and names, \"0-7,16-30:2,h40\"; null: all."),
      sim::field("root", &JobParams::root, Unit::count, sim::at_least(0),
                 "Rank that broadcast or send_recv starts at."),
      sim::field("start", &JobParams::start_s, Unit::seconds, sim::at_least(0), "Of the first repetition."),
      sim::field("repeat", &JobParams::repeat, Unit::count, sim::between(1, 1e6), "How often, one after the other."),
      sim::field("gap", &JobParams::gap_s, Unit::seconds, sim::at_least(0),
                 "From the end of a repetition to the start of the next: computation."),
      sim::field("window", &JobParams::window, Unit::count, sim::between(1, 1e9),
                 "Messages under way at a time between two ranks (on each channel)."),
      sim::field("stragglers", &JobParams::stragglers, "Ranks that enter late."),
      sim::field("ranks_per_machine", &JobParams::ranks_per_machine, Unit::count, sim::at_least(1),
                 "hierarchical: so many consecutive ranks are one machine; null: ranks below the same switch."),
      sim::field("root_switch", &JobParams::root_switch, Unit::text, sim::any_value(),
                 "in_network: the switch at the root of the tree that reduces."),
      sim::field("mode", &JobParams::mode,
                 "chunks simulates every message, closed takes a formula, auto the formula where it holds: a job "
                 "alone in the network whose messages do not meet.")};
}

constexpr auto TrafficParams::fields() {
  using sim::Unit;
  return sim::FieldTable{
      sim::required(sim::field("pattern", &TrafficParams::pattern,
                               "uniform: two hosts at random; permutation: every host to one other; incast: all to "
                               "`target`; all_to_all: every host to each other in turn; neighbour: to the next host.")),
      sim::required(sim::field("flows", &TrafficParams::flows, Unit::count, sim::between(1, 1e8), "How many.")),
      sim::required(sim::field("bytes", &TrafficParams::bytes, Unit::bytes, sim::between(0, 1e18),
                               "Size of a message; with bytes_max the least.")),
      sim::field("bytes_max", &TrafficParams::bytes_max, Unit::bytes, sim::between(0, 1e18),
                 "Sizes are uniform between bytes and this; null: all equal."),
      sim::field("window", &TrafficParams::window, Unit::count, sim::between(1, 8e6),
                 "Closed loop: so many are under way at a time."),
      sim::field("rate", &TrafficParams::rate_per_s, Unit::per_s, sim::positive(),
                 "Or open: messages a second, at random (Poisson)."),
      sim::field("hosts", &TrafficParams::hosts, "Hosts that take part, as a job's ranks; null: all."),
      sim::field("target", &TrafficParams::target, Unit::text, sim::any_value(), "incast: the host; null: the first."),
      sim::field("start", &TrafficParams::start_s, Unit::seconds, sim::at_least(0), "Of the first message.")};
}

}  // namespace orrery::experiments::network
