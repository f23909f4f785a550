// Largest flow between two sets of hosts. All hosts of a set are one vertex: they can send (or take) any amount, so
// what lies among them limits nothing; what is left is the switches and the links that leave a set.
#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "hw/network/topology_query.hpp"

namespace orrery::hw {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Edge {
  std::int64_t capacity = 0;
  std::int64_t residual = 0;
  Traits::edge_descriptor reverse;
};
using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;

constexpr std::size_t kSource = 0;
constexpr std::size_t kSink = 1;

/// One direction, with the empty edge back that the algorithm undoes flow over; it must hold nothing of its own.
void add_edges(FlowGraph& graph, std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto forth = boost::add_edge(from, to, {capacity, 0, {}}, graph).first;
  const auto reverse = boost::add_edge(to, from, {0, 0, {}}, graph).first;
  graph[forth].reverse = reverse;
  graph[reverse].reverse = forth;
}

}  // namespace

double max_flow(const Topology& topology, const std::vector<bool>& second) {
  const auto vertex = [&](NodeIndex node) -> std::size_t {
    const std::size_t hosts = static_cast<std::size_t>(topology.hosts);
    if (node >= hosts) return 2 + node - hosts;
    return second[node] ? kSink : kSource;
  };
  // Links side by side, and a switch's links to all hosts of a set, are one edge: few are left of many.
  std::map<std::pair<std::size_t, std::size_t>, double> bandwidth;
  double total = 0;
  for (const NetworkLink& link : topology.links) {
    const std::size_t from = vertex(link.from);
    const std::size_t to = vertex(link.to);
    if (from == to || to == kSource || from == kSink) continue;
    bandwidth[{from, to}] += link.bandwidth;
    total += link.bandwidth;
  }
  if (total <= 0) return 0;
  // Integers, or rounding could keep the algorithm busy for ever; a power of two leaves whole bytes/s exact.
  const double scale = std::ldexp(1.0, 61 - std::ilogb(total));
  FlowGraph graph(2 + topology.nodes.size() - static_cast<std::size_t>(topology.hosts));
  for (const auto& [ends, bytes_per_s] : bandwidth)
    add_edges(graph, ends.first, ends.second, static_cast<std::int64_t>(bytes_per_s * scale));
  const std::int64_t flow = boost::push_relabel_max_flow(
      graph, kSource, kSink, boost::get(&Edge::capacity, graph), boost::get(&Edge::residual, graph),
      boost::get(&Edge::reverse, graph), boost::get(boost::vertex_index, graph));
  return static_cast<double>(flow) / scale;
}

}  // namespace orrery::hw
