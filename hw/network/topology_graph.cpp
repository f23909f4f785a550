// `graph`: any network, given by its nodes and cables, in the config or in a file of its own.
//
//   {"nodes": [{"name": "gpu0", "kind": "host"}, {"name": "nvswitch", "kind": "switch"}, …],
//    "cables": [{"from": "gpu0", "to": "nvswitch", "bandwidth": "450 GB/s", "latency": "250 ns"}, …]}
//
// A file carries besides "kind": "network", "version": 1, "name", and may say "doc", "sources", "assumptions". Hosts
// and switches are numbered in the order of the file. Every fault is reported at once; a way between every two hosts is
// looked for once the parts make sense.
#include "hw/network/topology_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "hw/network/topology_build.hpp"
#include "hw/network/topology_query.hpp"

namespace orrery::hw {
namespace {

struct GraphParams {
  std::optional<std::string> file;
  GraphBody body;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("file", &GraphParams::file, sim::Unit::path, sim::any_value(), "File that holds the network."),
        sim::field("network", &GraphParams::body, "The network itself, instead of a file."),
    };
  }
};

std::optional<GraphBody> read_file(const std::string& path, const sim::Origin& where, sim::Faults& faults) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    faults.add(where, fmt::format("expected the file of a network, found none at '{}'", path));
    return std::nullopt;
  }
  try {
    return parse_network(sim::read_config(path), faults);
  } catch (const sim::ConfigError& error) {
    for (const sim::Fault& fault : error.faults()) faults.add(fault.where, fault.message, fault.hint);
    return std::nullopt;
  }
}

/// A fault unless reading the parameters has found one at the same place: a name that is missing is not unknown too.
void add_once(sim::Faults& faults, const sim::Origin& where, const std::string& message, const std::string& hint = {}) {
  const auto same = [&](const sim::Fault& fault) {
    return fault.where.pointer == where.pointer && fault.where.file == where.file;
  };
  if (std::none_of(faults.all().begin(), faults.all().end(), same)) faults.add(where, message, hint);
}

/// Index of every name in the topology to be, or nothing if names are faulty.
std::map<std::string, NodeIndex> number_nodes(const GraphBody& body, const sim::Origin& where, Topology& topology,
                                              sim::Faults& faults) {
  std::map<std::string, std::size_t> first;
  for (std::size_t n = 0; n < body.nodes.size(); ++n) {
    const std::string& name = body.nodes[n].name;
    const sim::Origin at = below(where, fmt::format("nodes/{}/name", n));
    const bool names_links = name.find("->") != std::string::npos || name.find('#') != std::string::npos;
    if (name.empty() || names_links)
      add_once(faults, at, fmt::format("expected a name without \"->\" and '#', which name links, got \"{}\"", name));
    const auto [other, added] = first.emplace(name, n);
    if (!added && !name.empty())
      faults.add(at, fmt::format("'{}' is the name of node {} already", name, other->second));
  }
  std::map<std::string, NodeIndex> index;
  for (const NodeKind kind : {NodeKind::host, NodeKind::network_switch}) {
    for (const GraphNode& node : body.nodes)
      if (node.kind == kind && !node.name.empty() && !index.contains(node.name))
        index[node.name] = add_node(topology, node.name);
    if (kind == NodeKind::host) topology.hosts = static_cast<std::int64_t>(topology.nodes.size());
  }
  return index;
}

void add_cables(const GraphBody& body, const std::map<std::string, NodeIndex>& index, const sim::Origin& where,
                Topology& topology, sim::Faults& faults) {
  for (std::size_t c = 0; c < body.cables.size(); ++c) {
    const GraphCable& cable = body.cables[c];
    const sim::Origin at = below(where, fmt::format("cables/{}", c));
    const auto find = [&](const std::string& name, const char* key) -> std::optional<NodeIndex> {
      const auto found = index.find(name);
      if (found != index.end()) return found->second;
      add_once(faults, below(at, key), fmt::format("unknown node '{}'", name), few_names_hint(name, topology.nodes));
      return std::nullopt;
    };
    const auto from = find(cable.from, "from");
    const auto to = find(cable.to, "to");
    if (!from || !to) continue;
    if (*from == *to) {
      faults.add(at, fmt::format("a cable from '{}' to itself", cable.from));
      continue;
    }
    for (std::int64_t i = 0; i < cable.count; ++i)
      add_cable(topology, *from, *to, {cable.bandwidth, cable.latency_s, cable.one_way});
  }
}

bool hosts_joined(const Topology& topology) {
  return std::any_of(topology.links.begin(), topology.links.end(),
                     [&](const NetworkLink& link) { return link.from < topology.hosts && link.to < topology.hosts; });
}

}  // namespace

GraphBody parse_network(const sim::Node& node, sim::Faults& faults) {
  if (!node.is_object()) {
    faults.add(node.origin(), "expected a network, got " + node.shown());
    return {};
  }
  const sim::Node* kind = node.find("kind");
  if (kind == nullptr || !kind->is_string() || kind->as_string() != "network")
    faults.add(kind == nullptr ? node.origin_of("kind") : kind->origin(),
               "expected \"network\", got " + (kind == nullptr ? std::string("nothing") : kind->shown()));
  const sim::Node* version = node.find("version");
  if (version != nullptr && (version->kind() != sim::Node::Kind::integer || version->as_integer() != 1))
    faults.add(version->origin(), "expected version 1, got " + version->shown());
  sim::Node body = node;
  for (const char* key : {"kind", "version", "name", "doc", "sources", "assumptions"}) body.erase(key);
  return sim::parse_params<GraphBody>(body, faults);
}

std::unique_ptr<Topology> build_graph(const GraphBody& body, const sim::Origin& where, sim::Faults& faults) {
  auto topology = std::make_unique<Topology>();
  topology->kind = "graph";
  double cables = 0;
  for (const GraphCable& cable : body.cables) cables += static_cast<double>(cable.count);
  const double hosts = static_cast<double>(std::count_if(
      body.nodes.begin(), body.nodes.end(), [](const GraphNode& node) { return node.kind == NodeKind::host; }));
  if (!fits(*topology, {hosts, static_cast<double>(body.nodes.size()) - hosts, cables}, where, faults)) return nullptr;
  const auto index = number_nodes(body, where, *topology, faults);
  if (topology->hosts < 1) faults.add(below(where, "nodes"), "expected at least one node of kind host, got none");
  add_cables(body, index, where, *topology, faults);
  const auto inside = [&](const sim::Fault& fault) {
    return fault.where.file == where.file && fault.where.pointer.starts_with(where.pointer);
  };
  if (std::any_of(faults.all().begin(), faults.all().end(), inside)) return nullptr;
  topology->hosts_forward = body.hosts_forward.value_or(hosts_joined(*topology));
  if (const auto gap = hosts_without_path(*topology)) {
    const bool forwarding_helps = !topology->hosts_forward && [&] {
      Topology forwarding = *topology;
      forwarding.hosts_forward = true;
      return !hosts_without_path(forwarding);
    }();
    faults.add(below(where, "cables"),
               fmt::format("no path from '{}' to '{}'", topology->nodes[gap->first], topology->nodes[gap->second]),
               forwarding_helps ? "there is one through hosts: set hosts_forward" : "");
    return nullptr;
  }
  return topology;
}

void register_graph(TopologyRegistry& registry) {
  registry.add<GraphParams>(
      "graph", "Any network, given by its nodes and cables.",
      [](const GraphParams& params, const sim::Origin& where, sim::Faults& faults) -> std::unique_ptr<Topology> {
        if (!params.file) return build_graph(params.body, below(where, "network"), faults);
        const sim::Origin at = below(where, "file");
        if (!params.body.nodes.empty() || !params.body.cables.empty()) {
          faults.add(below(where, "network"), "expected a file or a network, got both");
          return nullptr;
        }
        const std::size_t before = faults.size();
        const auto body = read_file(*params.file, at, faults);
        if (!body) return nullptr;
        auto topology = build_graph(*body, {*params.file, ""}, faults);
        return faults.size() == before ? std::move(topology) : nullptr;
      });
}

}  // namespace orrery::hw
