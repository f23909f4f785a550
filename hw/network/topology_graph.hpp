// Networks given as data: what a file of hw/catalog/networks holds, and the check that every host can reach every
// other.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hw/network/topology.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::hw {

enum class NodeKind : std::uint8_t { host, network_switch };
constexpr auto enum_names(NodeKind) {
  using enum NodeKind;
  return sim::names<NodeKind>({{"host", host}, {"switch", network_switch}});
}

struct GraphNode {
  std::string name;
  NodeKind kind = NodeKind::host;
  static constexpr auto fields();
};

struct GraphCable {
  std::string from;
  std::string to;
  double bandwidth = 0;
  double latency_s = 0;
  bool one_way = false;
  std::int64_t count = 1;
  static constexpr auto fields();
};

/// Hosts, switches and cables as they stand in JSON.
struct GraphBody {
  std::vector<GraphNode> nodes;
  std::vector<GraphCable> cables;
  std::optional<bool> hosts_forward;
  static constexpr auto fields();
};

/// Reads the document of a network's file: its header ("kind": "network" …) and the body.
GraphBody parse_network(const sim::Node& node, sim::Faults& faults);

/// Builds it; `where` is where its nodes and cables stand. Null if there were faults: names that are empty, taken or
/// unknown, loops, no host, too many, two hosts without a path.
std::unique_ptr<Topology> build_graph(const GraphBody& body, const sim::Origin& where, sim::Faults& faults);

/// Two hosts of which the first cannot reach the second, the first such pair by number; nothing if there is none.
/// Strong components (Boost.Graph) settle the usual case in O(links); otherwise a search from every host that has not
/// the same neighbours as one before.
std::optional<std::pair<NodeIndex, NodeIndex>> hosts_without_path(const Topology& topology);

constexpr auto GraphNode::fields() {
  using sim::Unit;
  return sim::FieldTable{
      sim::required(sim::field("name", &GraphNode::name, Unit::text, sim::any_value(),
                               "Name of the node, unique in the network.")),
      sim::required(
          sim::field("kind", &GraphNode::kind, "Kind of node: a host, which runs ranks, or a switch, which forwards.")),
  };
}

constexpr auto GraphCable::fields() {
  using sim::Unit;
  return sim::FieldTable{
      sim::required(sim::field("from", &GraphCable::from, Unit::text, sim::any_value(),
                               "Name of the node where the cable begins.")),
      sim::required(
          sim::field("to", &GraphCable::to, Unit::text, sim::any_value(), "Name of the node where the cable ends.")),
      sim::required(sim::field("bandwidth", &GraphCable::bandwidth, Unit::bytes_per_s, sim::positive(),
                               "Bandwidth of the cable, each way.")),
      sim::required(
          sim::field("latency", &GraphCable::latency_s, Unit::seconds, sim::between(0, 1), "Latency of the cable.")),
      sim::field("one_way", &GraphCable::one_way, "Whether the cable carries data only from `from` to `to`."),
      sim::field("count", &GraphCable::count, Unit::count, sim::at_least(1),
                 "Number of parallel cables like this one."),
  };
}

constexpr auto GraphBody::fields() {
  return sim::FieldTable{
      sim::field("nodes", &GraphBody::nodes, "Hosts and switches of the network."),
      sim::field("cables", &GraphBody::cables, "Cables between the nodes."),
      sim::field("hosts_forward", &GraphBody::hosts_forward,
                 "Whether paths may lead through hosts; null: only if a cable joins two hosts."),
  };
}

}  // namespace orrery::hw
