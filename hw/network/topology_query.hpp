// Questions about a topology: nodes and links by name, what crosses its middle, how far apart hosts are.
//
// Where the builder knows a closed form it is the answer; otherwise it is computed from the graph. Tests hold the two
// together on small networks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/network/topology.hpp"

namespace orrery::hw {

/// Names of nodes and links. A link is "a->b"; of several cables side by side the second is "a->b#2", the third "#3".
class TopologyNames {
 public:
  /// The topology must outlive it. O(n log n).
  explicit TopologyNames(const Topology& topology);

  /// Nothing if no node has the name.
  std::optional<NodeIndex> node(std::string_view name) const;
  /// The same, with a fault at `where` that names the nearest.
  std::optional<NodeIndex> node(std::string_view name, const sim::Origin& where, sim::Faults& faults) const;
  /// The link of a name; a fault at `where` says what is wrong with it. The missing direction of a one-way cable is not
  /// found.
  std::optional<LinkIndex> link(std::string_view name, const sim::Origin& where, sim::Faults& faults) const;
  std::string link_name(LinkIndex link) const;

 private:
  const Topology& topology_;
  std::vector<NodeIndex> by_name_;
  std::vector<LinkIndex> by_ends_;  ///< sorted by (from, to, link)
};

/// Hint for a name that is not among `known`: the nearest, or a few of those there are.
std::string few_names_hint(std::string_view name, const std::vector<std::string>& known);

/// The halves of the hosts that the bisection is taken over (true: second half). Ring and torus: both sides of the
/// middle of the dimension whose cut is least, so that odd extents give halves that differ by one layer. Otherwise
/// hosts by number, the first hosts/2 and the rest.
std::vector<bool> halves(const Topology& topology);

/// Bytes a second that hosts with `second[h]` false can send to those with true, all at once: the largest flow
/// (push-relabel, Boost.Graph). Hosts with traffic through them add nothing: each is a source or a sink already.
double max_flow(const Topology& topology, const std::vector<bool>& second);

/// Bytes a second from the first of the halves to the second; closed form where known.
double bisection_bandwidth(const Topology& topology);

/// How far apart hosts are, along paths of fewest links.
struct HostDistance {
  std::int64_t diameter = 0;     ///< most links between two hosts
  double longest_latency_s = 0;  ///< over pairs of hosts, of the quickest among their paths of fewest links
};
/// Closed form where known.
HostDistance host_distance(const Topology& topology);
/// From the graph: a breadth-first search from every switch with hosts (hosts with one cable are as their switch) and
/// from every other host. Pairs without a path are left out.
HostDistance measured_host_distance(const Topology& topology);

/// For people: kind, hosts, switches, cables, bisection, diameter, longest latency; a line each.
std::string describe(const Topology& topology);

}  // namespace orrery::hw
