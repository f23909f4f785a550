// Topologies and routes for tests: built from JSON text, and checked against a plain breadth-first search.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hw/network/routing.hpp"
#include "hw/network/topology.hpp"

namespace orrery::hw::test {

/// The topology `kind` with parameters in JSON; throws ConfigError with all faults.
inline std::unique_ptr<Topology> network(const std::string& kind, const std::string& params) {
  sim::Faults faults;
  const sim::Node block = sim::parse_json(R"({"policy": ")" + kind + R"(", ")" + kind + R"(": )" + params + "}", "t");
  auto topology = make_topology(block, faults);
  faults.throw_if_any();
  return topology;
}

/// Pointers and texts of the faults of a block, a line each.
inline std::string network_faults(const std::string& kind, const std::string& params) {
  try {
    (void)network(kind, params);
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return {};
}

inline std::unique_ptr<Routing> router(const std::string& policy, const Topology& topology,
                                       const std::string& params = "{}") {
  sim::Faults faults;
  auto routing =
      make_routing(sim::parse_json(R"({"policy": ")" + policy + R"(", ")" + policy + R"(": )" + params + "}", "r"),
                   topology, faults);
  faults.throw_if_any();
  return routing;
}

/// Links on a shortest path from `from` to every node, -1 where there is none: the oracle of routes.
inline std::vector<int> distances(const Topology& topology, NodeIndex from, const std::vector<bool>& up,
                                  bool hosts_forward) {
  std::vector<std::vector<NodeIndex>> next(topology.nodes.size());
  for (std::size_t l = 0; l < topology.links.size(); ++l)
    if (up[l] && topology.links[l].bandwidth > 0) next[topology.links[l].from].push_back(topology.links[l].to);
  std::vector<int> distance(topology.nodes.size(), -1);
  distance[from] = 0;
  std::deque<NodeIndex> queue{from};
  while (!queue.empty()) {
    const NodeIndex at = queue.front();
    queue.pop_front();
    if (at != from && at < topology.hosts && !hosts_forward) continue;
    for (const NodeIndex to : next[at]) {
      if (distance[to] >= 0) continue;
      distance[to] = distance[at] + 1;
      queue.push_back(to);
    }
  }
  return distance;
}

inline std::vector<bool> all_up(const Topology& topology) {
  return std::vector<bool>(topology.links.size(), true);
}

/// Empty if `path` leads from `from` to `to` over links that are up without meeting a node twice, else what is wrong.
inline std::string flaw(const Topology& topology, NodeIndex from, NodeIndex to, const std::vector<LinkIndex>& path,
                        const std::vector<bool>& up) {
  NodeIndex at = from;
  std::set<NodeIndex> met{from};
  for (const LinkIndex l : path) {
    if (l >= topology.links.size()) return "no such link";
    const NetworkLink& link = topology.links[l];
    if (link.from != at) return "a gap before link " + std::to_string(l);
    if (!up[l] || link.bandwidth <= 0) return "link " + std::to_string(l) + " is down";
    at = link.to;
    if (!met.insert(at).second) return "node " + topology.nodes[at] + " twice";
  }
  return at == to ? "" : "ends at " + topology.nodes[at];
}

}  // namespace orrery::hw::test
