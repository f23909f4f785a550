// Largest flow between two sets of hosts. All hosts of a set are one vertex: they can send (or take) any amount, so
// what lies among them limits nothing; what is left is the switches and the links that leave a set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "hw/network/topology_query.hpp"
#include "sim/max_flow.hpp"

namespace orrery::hw {
namespace {

constexpr std::size_t kSource = 0;
constexpr std::size_t kSink = 1;

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
  std::vector<sim::FlowEdge> edges;
  for (const auto& [ends, bytes_per_s] : bandwidth)
    edges.push_back({ends.first, ends.second, static_cast<std::int64_t>(bytes_per_s * scale)});
  const std::size_t vertices = 2 + topology.nodes.size() - static_cast<std::size_t>(topology.hosts);
  const std::int64_t flow = sim::max_flow(vertices, edges, kSource, kSink).flow;
  return static_cast<double>(flow) / scale;
}

}  // namespace orrery::hw
