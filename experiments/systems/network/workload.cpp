#include "experiments/systems/network/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "experiments/base/config_parts.hpp"
#include "experiments/systems/network/closed_form.hpp"
#include "experiments/systems/network/hosts.hpp"

namespace orrery::experiments::network {
namespace {

using hw::CollectiveKind;
using hw::NodeIndex;
using sim::Node;
using sim::Origin;

/// The item of an array in a section; null where the document is not of that shape (reported already).
const Node* item(const Node& section, std::string_view array, std::size_t index) {
  const Node* all = section.find(array);
  if (all == nullptr || !all->is_array() || index >= all->items().size()) return nullptr;
  const Node& one = all->items()[index];
  return one.is_object() ? &one : nullptr;
}

const char* default_algorithm(CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all || kind == CollectiveKind::send_recv ? "direct" : "ring";
}

hw::CollectiveRegistry::Choice choose_algorithm(const Node& node, const JobParams& params,
                                                const hw::CollectiveRegistry& collectives, sim::Faults& faults) {
  return collectives.parse_block(section(node, "algorithm"), default_algorithm(params.collective), faults);
}

/// Reads the jobs one by one; what they share is here.
class JobReader {
 public:
  JobReader(const WorkloadContext& context, sim::Faults& faults) : context_(context), faults_(faults) {}

  /// The job of one item; its place in the config is `index`.
  Job read(const Node& node, JobParams& params, std::size_t index) {
    if (params.name.empty()) params.name = fmt::format("job{}", index);
    const auto [first, fresh] = first_.emplace(params.name, index);
    if (!fresh)
      faults_.add(place_of(node, "name"),
                  fmt::format("expected another name, '{}' is that of job {}", params.name, first->second));
    Job job;
    sim::Faults reported;  // by check_algorithms
    job.algorithm = choose_algorithm(node, params, context_.collectives, reported);
    if (reported.empty()) params.algorithm = hw::CollectiveRegistry::write_block(job.algorithm);
    job.params = params;
    job.label = sim::hash_text(params.name);
    job.nodes = params.ranks
                    ? parse_hosts(*params.ranks, context_.topology, context_.names, place_of(node, "ranks"), faults_)
                    : all_hosts(context_.topology);
    job.spec.kind = params.collective;
    job.spec.ranks = std::ssize(job.nodes);
    job.spec.bytes = params.bytes;
    job.spec.root = params.root;
    job.spec.where = node.origin();
    const std::size_t before = faults_.size();
    if (reported.empty() && !job.nodes.empty()) check_fit(node, job);
    if (reported.empty() && faults_.size() == before && !job.nodes.empty()) try_schedule(job);
    return job;
  }

 private:
  /// What algorithm, kind and group ask of each other, each fault where it stands.
  void check_fit(const Node& node, Job& job) {
    const std::string& algorithm = job.algorithm.name;
    const CollectiveKind kind = job.params.collective;
    if (!hw::supports(algorithm, kind)) {
      std::vector<std::string> able;
      for (const std::string& name : context_.collectives.names())
        if (hw::supports(name, kind)) able.push_back(name);
      const Node block = section(node, "algorithm");
      faults_.add(block.find("policy") != nullptr ? block.find("policy")->origin() : block.origin(),
                  fmt::format("expected an algorithm that does {}, got '{}'", to_string(kind), algorithm),
                  sim::name_hint("", able));
    }
    if (job.params.root >= job.ranks())
      faults_.add(place_of(node, "root"),
                  fmt::format("expected a rank, 0 to {}, got {}", job.ranks() - 1, job.params.root));
    if (kind == CollectiveKind::send_recv && job.ranks() != 2)
      faults_.add(place_of(node, "ranks"), fmt::format("expected 2 ranks for send_recv, got {}", job.ranks()));
    if (algorithm == "hierarchical") group(node, job);
    if (algorithm == "in_network") plant_tree(node, job);
  }

  /// Which ranks are one machine.
  void group(const Node& node, Job& job) {
    std::vector<std::uint32_t>& groups = job.spec.local_group;
    if (job.params.ranks_per_machine) {
      for (std::int64_t rank = 0; rank < job.ranks(); ++rank)
        groups.push_back(static_cast<std::uint32_t>(rank / *job.params.ranks_per_machine));
      return;
    }
    std::map<std::int64_t, std::uint32_t> numbers;  // by machine or switch, in order of rank
    for (const NodeIndex host : job.nodes) {
      const auto machine = machine_of(host);
      if (!machine) {
        faults_.add(
            place_of(node, "ranks_per_machine"),
            fmt::format("missing: a {} topology does not tell which ranks are one machine", context_.topology.kind));
        return;
      }
      groups.push_back(numbers.emplace(*machine, static_cast<std::uint32_t>(numbers.size())).first->second);
    }
  }

  /// The machine of a host with rails, else the first switch it is cabled to.
  std::optional<std::int64_t> machine_of(NodeIndex host) {
    const hw::Topology& topology = context_.topology;
    if (topology.shape.rails > 0) return host / topology.shape.rails;
    if (switch_of_.empty()) {
      switch_of_.resize(static_cast<std::size_t>(topology.hosts));
      for (const hw::NetworkLink& link : topology.links)
        if (link.from < topology.hosts && link.to >= topology.hosts && !switch_of_[link.from])
          switch_of_[link.from] = link.to;
    }
    return switch_of_[host];
  }

  void plant_tree(const Node& node, Job& job) {
    const Origin where = place_of(node, "root_switch");
    const auto hosts = static_cast<std::size_t>(context_.topology.hosts);
    const std::vector<std::string>& nodes = context_.topology.nodes;
    const std::vector<std::string> switches(nodes.begin() + static_cast<std::ptrdiff_t>(hosts), nodes.end());
    if (!job.params.root_switch) {
      faults_.add(where, "missing: in_network needs the switch at the root of its tree",
                  switches.empty() ? "this network has no switches" : hw::few_names_hint("", switches));
      return;
    }
    const auto root = context_.names.node(*job.params.root_switch);
    if (!root || *root < hosts) {
      faults_.add(
          where, fmt::format("expected a switch, got '{}'", *job.params.root_switch),
          switches.empty() ? "this network has no switches" : hw::few_names_hint(*job.params.root_switch, switches));
      return;
    }
    try {
      job.spec.tree = hw::aggregation_tree(context_.topology, context_.routing, job.nodes, *root, job.label);
      job.nodes.insert(job.nodes.end(), job.spec.tree.switches.begin(), job.spec.tree.switches.end());
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults()) faults_.add(where, fault.message, fault.hint);
    }
  }

  /// Makes the schedule once: what only the algorithm knows (a limit of chunks, say) is reported here.
  void try_schedule(const Job& job) {
    try {
      (void)job.algorithm.make(job.spec);
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults()) faults_.add(fault.where, fault.message, fault.hint);
    }
  }

  const WorkloadContext& context_;
  sim::Faults& faults_;
  std::map<std::string, std::size_t> first_;
  std::vector<std::optional<NodeIndex>> switch_of_;  // by host
};

void read_flows(const WorkloadContext& context, const std::vector<FlowParams>& flows, NetworkConfig& config,
                sim::Faults& faults) {
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const Node* node = item(context.node, "flows", i);
    if (node == nullptr || flows[i].from.empty() || flows[i].to.empty()) continue;  // reported already
    const auto from = parse_host(flows[i].from, context.topology, context.names, place_of(*node, "from"), faults);
    const auto to = parse_host(flows[i].to, context.topology, context.names, place_of(*node, "to"), faults);
    if (!from || !to) continue;
    if (*from == *to) faults.add(place_of(*node, "to"), "expected another host than 'from'");
    config.flows.push_back({static_cast<std::int64_t>(i), *from, *to, flows[i].bytes, flows[i].start_s});
  }
  // Whoever lists the flows in another order gets the same times.
  std::stable_sort(config.flows.begin(), config.flows.end(), [](const Flow& a, const Flow& b) {
    return std::tuple(a.start_s, a.from, a.to, a.bytes) < std::tuple(b.start_s, b.from, b.to, b.bytes);
  });
}

void read_traffic(const WorkloadContext& context, const TrafficParams& params, NetworkConfig& config,
                  sim::Faults& faults) {
  const Node& node = *context.node.find("traffic");
  if (!node.is_object()) return;
  Traffic traffic;
  traffic.params = params;
  const std::size_t before = faults.size();
  traffic.hosts = params.hosts
                      ? parse_hosts(*params.hosts, context.topology, context.names, place_of(node, "hosts"), faults)
                      : all_hosts(context.topology);
  if (faults.size() == before && traffic.hosts.size() < 2)
    faults.add(place_of(node, "hosts"), fmt::format("expected two hosts or more, got {}", traffic.hosts.size()));
  if (params.window && params.rate_per_s) faults.add(place_of(node, "rate"), "expected 'window' or 'rate', got both");
  if (!params.window && !params.rate_per_s) faults.add(node.origin(), "missing: expected 'window' or 'rate'");
  if (params.bytes_max && *params.bytes_max < params.bytes)
    faults.add(place_of(node, "bytes_max"),
               fmt::format("expected {} bytes or more, got {}", params.bytes, *params.bytes_max));
  if (params.target) {
    const Origin where = place_of(node, "target");
    if (params.pattern != Pattern::incast) faults.add(where, "expected no target but with the pattern incast");
    if (const auto host = parse_host(*params.target, context.topology, context.names, where, faults)) {
      const auto at = std::find(traffic.hosts.begin(), traffic.hosts.end(), *host);
      if (at == traffic.hosts.end())
        faults.add(where, fmt::format("expected one of the hosts that take part, got '{}'", *params.target));
      traffic.target = static_cast<std::size_t>(at - traffic.hosts.begin());
    }
  }
  config.traffic = std::move(traffic);
}

void read_events(const WorkloadContext& context, const std::vector<EventParams>& events, NetworkConfig& config,
                 sim::Faults& faults) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Node* node = item(context.node, "events", i);
    if (node == nullptr || node->find("link") == nullptr) continue;  // reported already
    const auto link = context.names.link(events[i].link, place_of(*node, "link"), faults);
    if (!link) continue;
    config.events.push_back({events[i].at_s, *link, events[i].share});
    const hw::LinkIndex back = *link ^ 1U;  // the directions of a cable stand side by side
    if (events[i].both_ways && context.topology.links[back].bandwidth > 0)
      config.events.push_back({events[i].at_s, back, events[i].share});
  }
  std::stable_sort(config.events.begin(), config.events.end(),
                   [](const LinkEvent& a, const LinkEvent& b) { return a.at_s < b.at_s; });
}

/// Messages that an engine can hold under way; their memory, some 500 bytes each, would be used up before that is told.
constexpr std::int64_t kMostAtOnce = (std::int64_t{1} << 24) - 1;

/// Reports a job of which all ranks send to all others at once, where these are too many to simulate.
void check_burst(const Node& node, const Job& job, sim::Faults& faults) {
  const Node* window = job.algorithm.params.find("window");
  const bool pairwise = job.params.collective != CollectiveKind::broadcast && job.algorithm.name == "direct";
  if (!pairwise || window == nullptr || window->as_number() != 0) return;
  const std::int64_t messages = job.ranks() * (job.ranks() - 1);
  if (messages > kMostAtOnce)
    faults.add(section(node, "algorithm").origin(),
               fmt::format("expected at most {} messages at once, got {}", kMostAtOnce, messages),
               "set direct.window, the messages that a rank has under way");
}

/// Settles how the time of each job comes about.
void choose_modes(const WorkloadContext& context, NetworkConfig& config, sim::Faults& faults) {
  for (std::size_t i = 0; i < config.jobs.size(); ++i) {
    Job& job = config.jobs[i];
    const bool alone = context.alone && config.jobs.size() == 1 && config.flows.empty() && !config.traffic &&
                       config.events.empty() && job.params.stragglers.spread_s == 0;
    if (alone && job.params.mode != Mode::chunks)
      job.closed_s = closed_seconds(job, context.topology, context.routing, config.network.message_overhead_s);
    if (!job.closed_s) check_burst(*item(context.node, "jobs", i), job, faults);
    if (job.closed_s || job.params.mode != Mode::closed) continue;
    faults.add(
        place_of(*item(context.node, "jobs", i), "mode"),
        alone ? "expected a job with a closed form: its messages meet, its window is not 1, or its algorithm has none"
              : "expected a job alone in the network, without flows, traffic, events and stragglers",
        "use \"auto\" or \"chunks\"");
  }
}

}  // namespace

void check_algorithms(const Node& workload, const WorkloadParams& params, const hw::CollectiveRegistry& collectives,
                      sim::Faults& faults) {
  for (std::size_t i = 0; i < params.jobs.size(); ++i)
    if (const Node* node = item(workload, "jobs", i)) {
      const Node* block = node->find("algorithm");
      if (block != nullptr && !block->is_object()) continue;  // reported already
      (void)choose_algorithm(*node, params.jobs[i], collectives, faults);
    }
}

void read_workload(const WorkloadContext& context, WorkloadParams& params, NetworkConfig& config, sim::Faults& faults) {
  JobReader reader(context, faults);
  for (std::size_t i = 0; i < params.jobs.size(); ++i)
    if (const Node* node = item(context.node, "jobs", i)) config.jobs.push_back(reader.read(*node, params.jobs[i], i));
  read_flows(context, params.flows, config, faults);
  if (params.traffic) read_traffic(context, *params.traffic, config, faults);
  read_events(context, params.events, config, faults);
  if (faults.empty()) choose_modes(context, config, faults);
}

}  // namespace orrery::experiments::network
