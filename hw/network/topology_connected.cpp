// Whether every host can reach every other.
#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <compare>
#include <set>
#include <vector>

#include "hw/network/topology_graph.hpp"

namespace orrery::hw {
namespace {

using CableGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

bool passes_on(const Topology& topology, NodeIndex node) {
  return node >= topology.hosts || topology.hosts_forward;
}

/// True if all nodes that pass traffic on reach each other and every other host has a link to and from one of them.
bool clearly_connected(const Topology& topology) {
  CableGraph graph(topology.nodes.size());
  std::vector<bool> leaves(topology.nodes.size());
  std::vector<bool> enters(topology.nodes.size());
  for (const NetworkLink& link : topology.links) {
    if (link.bandwidth <= 0) continue;
    if (passes_on(topology, link.from) && passes_on(topology, link.to)) boost::add_edge(link.from, link.to, graph);
    if (passes_on(topology, link.to)) leaves[link.from] = true;
    if (passes_on(topology, link.from)) enters[link.to] = true;
  }
  std::vector<std::size_t> component(topology.nodes.size());
  (void)boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
  std::optional<std::size_t> common;
  for (NodeIndex n = 0; n < topology.nodes.size(); ++n) {
    if (passes_on(topology, n)) {
      if (common.value_or(component[n]) != component[n]) return false;
      common = component[n];
    } else if (!leaves[n] || !enters[n]) {
      return false;
    }
  }
  return true;
}

struct Neighbours {
  std::vector<NodeIndex> next;
  std::vector<NodeIndex> previous;
  friend auto operator<=>(const Neighbours&, const Neighbours&) = default;
};

}  // namespace

std::optional<std::pair<NodeIndex, NodeIndex>> hosts_without_path(const Topology& topology) {
  if (topology.hosts < 2 || clearly_connected(topology)) return std::nullopt;
  std::vector<Neighbours> of(topology.nodes.size());
  for (const NetworkLink& link : topology.links) {
    if (link.bandwidth <= 0) continue;
    of[link.from].next.push_back(link.to);
    of[link.to].previous.push_back(link.from);
  }
  // Hosts with the same neighbours reach the same and are reached alike: one of them stands for all.
  std::set<Neighbours> searched;
  for (NodeIndex from = 0; from < topology.hosts; ++from) {
    if (!searched.insert(of[from]).second) continue;
    std::vector<bool> met(topology.nodes.size());
    met[from] = true;
    std::vector<NodeIndex> queue{from};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      if (queue[i] != from && !passes_on(topology, queue[i])) continue;
      for (const NodeIndex to : of[queue[i]].next) {
        if (met[to]) continue;
        met[to] = true;
        queue.push_back(to);
      }
    }
    for (NodeIndex to = 0; to < topology.hosts; ++to)
      if (!met[to]) return std::pair(from, to);
  }
  return std::nullopt;
}

}  // namespace orrery::hw
