#include "sim/max_flow.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

namespace orrery::sim {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Edge {
  std::int64_t capacity = 0;
  std::int64_t residual = 0;
  Traits::edge_descriptor reverse;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;

/// One direction, with the empty edge back that the algorithm undoes flow over; it must hold nothing of its own.
void add_edge(Graph& graph, const FlowEdge& edge) {
  const auto forth = boost::add_edge(edge.from, edge.to, {edge.capacity, 0, {}}, graph).first;
  const auto reverse = boost::add_edge(edge.to, edge.from, {0, 0, {}}, graph).first;
  graph[forth].reverse = reverse;
  graph[reverse].reverse = forth;
}

}  // namespace

MaxFlow max_flow(std::size_t vertices, std::span<const FlowEdge> edges, std::size_t source, std::size_t sink) {
  Graph graph(vertices);
  for (const FlowEdge& edge : edges) add_edge(graph, edge);
  MaxFlow found;
  found.flow = boost::push_relabel_max_flow(graph, source, sink, boost::get(&Edge::capacity, graph),
                                            boost::get(&Edge::residual, graph), boost::get(&Edge::reverse, graph),
                                            boost::get(boost::vertex_index, graph));
  found.source_side.assign(vertices, false);
  found.source_side[source] = true;
  for (std::vector<std::size_t> left{source}; !left.empty();) {
    const std::size_t at = left.back();
    left.pop_back();
    for (auto [edge, end] = boost::out_edges(at, graph); edge != end; ++edge) {
      const std::size_t to = boost::target(*edge, graph);
      if (graph[*edge].residual <= 0 || found.source_side[to]) continue;
      found.source_side[to] = true;
      left.push_back(to);
    }
  }
  return found;
}

}  // namespace orrery::sim
