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
      sim::field("name", &JobParams::name, Unit::text, sim::any_value(),
                 "Unique name of the job; empty: \"job0\", \"job1\" …"),
      sim::required(sim::field("collective", &JobParams::collective, "Collective that the ranks run.")),
      sim::annotated(
          sim::field("algorithm", &JobParams::algorithm,
                     "Algorithm of the collective; null: direct for all_to_all and send_recv, ring for the others."),
          [](sim::FieldInfo& info, const sim::RegistrySet* registries) {
            info.policies = registries->get<hw::CollectiveRegistry>().components();
          }),
      sim::required(sim::field("bytes", &JobParams::bytes, Unit::bytes, sim::between(0, 1e18),
                               "Size as nccl-tests counts it: the buffer on each rank; all_gather: the gathered "
                               "result; reduce_scatter: the input; all_to_all: what a rank holds for all ranks.")),
      sim::field(
          "ranks", &JobParams::ranks,
          "Hosts of the ranks, in order of rank: numbers, ranges and names, \"0-7,16-30:2,h40\"; null: all hosts."),
      sim::field("root", &JobParams::root, Unit::count, sim::at_least(0),
                 "Rank at which broadcast or send_recv starts."),
      sim::field("start", &JobParams::start_s, Unit::seconds, sim::at_least(0), "Start time of the first repetition."),
      sim::field("repeat", &JobParams::repeat, Unit::count, sim::between(1, 1e6),
                 "Number of repetitions, one after the other."),
      sim::field("gap", &JobParams::gap_s, Unit::seconds, sim::at_least(0),
                 "Time from the end of a repetition to the start of the next (computation)."),
      sim::field("window", &JobParams::window, Unit::count, sim::between(1, 1e9),
                 "Messages in flight at a time between two ranks (on each channel)."),
      sim::field("stragglers", &JobParams::stragglers, "Ranks that enter the collective late."),
      sim::field(
          "ranks_per_machine", &JobParams::ranks_per_machine, Unit::count, sim::at_least(1),
          "For `hierarchical`: number of consecutive ranks that form one machine; null: ranks below the same switch."),
      sim::field("root_switch", &JobParams::root_switch, Unit::text, sim::any_value(),
                 "For `in_network`: switch at the root of the reduction tree."),
      sim::field("mode", &JobParams::mode,
                 "How the time is found. `chunks`: every message is simulated. `closed`: by a formula. `auto`: by the "
                 "formula where it holds, that is, for a job alone in the network whose messages do not meet.")};
}

constexpr auto TrafficParams::fields() {
  using sim::Unit;
  return sim::FieldTable{
      sim::required(sim::field(
          "pattern", &TrafficParams::pattern,
          "Traffic pattern. `uniform`: two hosts at random. `permutation`: every host to one other. `incast`: all to "
          "`target`. `all_to_all`: every host to each other in turn. `neighbour`: to the next host.")),
      sim::required(
          sim::field("flows", &TrafficParams::flows, Unit::count, sim::between(1, 1e8), "Number of messages.")),
      sim::required(sim::field("bytes", &TrafficParams::bytes, Unit::bytes, sim::between(0, 1e18),
                               "Size of a message; with bytes_max, the smallest size.")),
      sim::field("bytes_max", &TrafficParams::bytes_max, Unit::bytes, sim::between(0, 1e18),
                 "Largest size, drawn uniformly between bytes and this; null: all sizes are equal."),
      sim::field("window", &TrafficParams::window, Unit::count, sim::between(1, 8e6),
                 "Closed loop: number of messages in flight at a time."),
      sim::field("rate", &TrafficParams::rate_per_s, Unit::per_s, sim::positive(),
                 "Open loop: messages per second, at random (Poisson)."),
      sim::field("hosts", &TrafficParams::hosts, "Hosts that take part, written like the ranks of a job; null: all."),
      sim::field("target", &TrafficParams::target, Unit::text, sim::any_value(),
                 "For `incast`: the receiving host; null: the first."),
      sim::field("start", &TrafficParams::start_s, Unit::seconds, sim::at_least(0),
                 "Start time of the first message.")};
}

}  // namespace orrery::experiments::network
