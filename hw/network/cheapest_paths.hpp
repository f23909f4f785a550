// Paths of least cost with ties by hash: what the routing policies are made of.
//
// For a destination, a table holds the cost from every node that forwards; a path then steps, from its first node on,
// to any neighbour whose cost is less by that of the link, chosen by hash. Tables are made on first use, by
// breadth-first search from the destination that goes only as far as it is asked (Hops), or by Dijkstra.
//
// Memory: a host with one cable has no table and no entry in one, it is as its switch. So a table holds F costs and
// there are at most D of them; F is the nodes that forward, D the switches with such hosts, and other destinations.
// A fat tree of 11,664 hosts (k = 36) has F = 1,620, D = 648 and 4-byte costs: 4.2 MB. Past kTableBytes all tables
// are dropped and made anew as needed; answers do not depend on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "hw/network/routing.hpp"
#include "hw/network/topology.hpp"

namespace orrery::hw {

inline constexpr std::size_t kTableBytes = std::size_t{256} << 20;

/// A path's cost is its number of links.
struct Hops {
  using Cost = std::uint32_t;
  static Cost of(const Topology&, const NetworkLink&) { return 1; }
  static constexpr bool kUniform = true;
};

/// A path's cost is its latency in ps, and among equals its number of links: integers, so that ties are ties.
struct LatencyCost {
  using Cost = std::int64_t;
  static Cost of(const Topology&, const NetworkLink& link) {
    return static_cast<Cost>(link.latency_s * 1e12 + 0.5) * 65536 + 1;
  }
  static constexpr bool kUniform = false;
};

/// A path's cost is its links between groups, and among equals its links inside: what "minimal" means on a dragonfly,
/// where two links between groups may be fewer than local, global, local, yet load what is scarce twice.
struct GroupHops {
  using Cost = std::int64_t;
  static Cost of(const Topology& topology, const NetworkLink& link) {
    return topology.shape.groups[link.from] == topology.shape.groups[link.to] ? 1 : Cost{1} << 32;
  }
  static constexpr bool kUniform = false;
};

template <class Metric>
class CheapestPaths {
 public:
  using Cost = typename Metric::Cost;
  static constexpr Cost kFar = std::numeric_limits<Cost>::max();

  /// Hosts forward if `hosts_forward`; nodes may be gathered in groups, which are destinations too.
  CheapestPaths(const Topology& topology, bool hosts_forward, std::span<const std::uint32_t> groups = {});

  /// Appends a path from node to node; false, with nothing appended, if there is none. O(links out of its nodes).
  bool append(NodeIndex from, NodeIndex to, std::uint64_t hash, std::vector<LinkIndex>& path);
  /// The same to whichever node of `group` is nearest.
  bool append_to_group(NodeIndex from, std::uint32_t group, std::uint64_t hash, std::vector<LinkIndex>& path);
  /// Takes over which links are up; drops the tables. O(links).
  void links_changed(const std::vector<bool>& up);

  /// Whether paths may lead through the node.
  bool forwards(NodeIndex node) const { return vertex_[node] != kNone; }
  /// Nodes that forward, in order.
  const std::vector<NodeIndex>& forwarding() const { return node_of_; }
  std::size_t table_bytes() const { return table_bytes_; }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Hop {
    std::uint32_t vertex;  ///< at the other end
    LinkIndex link;
  };
  struct Lists {  ///< of each node its hops, sorted: from or to nodes that forward, or straight to one that does not
    std::vector<std::uint32_t> first;
    std::vector<Hop> hops;
    std::span<const Hop> of(NodeIndex node) const { return {hops.data() + first[node], hops.data() + first[node + 1]}; }
  };
  struct Table {
    std::vector<Cost> cost;               ///< of each vertex, kFar where not reached (yet)
    std::vector<std::uint32_t> frontier;  ///< where the search goes on
    Cost level = 0;
  };
  struct Goal {
    NodeIndex node;             ///< the last node, kNone if it is a group
    Table* table;               ///< costs to `node`, or to its switch
    bool at_switch;             ///< the table is of the switch of `node`, a link before it
    std::uint32_t at;           ///< the one vertex of cost 0, if there is one
    std::span<const Hop> ends;  ///< else the last links, if `node` does not forward
  };
  static bool before(const Hop& a, const Hop& b) {
    return a.vertex != b.vertex ? a.vertex < b.vertex : a.link < b.link;
  }

  void index(const std::vector<bool>& up);
  void find_forwarding(const std::vector<bool>& up);
  Lists lists(const std::vector<bool>& up, bool outward) const;
  Table& table_for(std::size_t key, std::span<const Hop> seeds, bool seeds_cost);
  Goal goal_of(NodeIndex to);
  void advance(Table& table);
  void reach(Table& table, std::span<const Hop> starts);
  bool leave_end(NodeIndex from, const Goal& goal, std::uint64_t hash, std::uint32_t& vertex,
                 std::vector<LinkIndex>& path);
  bool descend(std::uint32_t vertex, const Goal& goal, std::uint64_t hash, std::vector<LinkIndex>& path);
  void find_candidates(NodeIndex at, Cost left, const Goal& goal);
  Cost cost_of(LinkIndex link) const { return Metric::of(topology_, topology_.links[link]); }
  Hop choose(std::uint64_t hash, NodeIndex at) const;

  const Topology& topology_;
  bool hosts_forward_;
  std::vector<std::uint32_t> groups_;
  std::vector<std::uint32_t> vertex_;  ///< of each node; kNone where it only ends paths
  std::vector<NodeIndex> node_of_;     ///< of each vertex
  std::vector<LinkIndex> only_up_;     ///< of a host with one cable to a node that forwards: its link there …
  std::vector<LinkIndex> only_down_;   ///< … and back; else kNone
  Lists out_, in_, direct_;            ///< direct: links between nodes that do not forward
  std::vector<Table> tables_;          ///< by destination: nodes, then groups
  std::size_t table_bytes_ = 0;
  std::vector<Hop> candidates_;
};

extern template class CheapestPaths<Hops>;
extern template class CheapestPaths<LatencyCost>;
extern template class CheapestPaths<GroupHops>;

/// Routing along cheapest paths, ties by the hash of (from, to, label).
template <class Metric>
class CheapestRouting final : public Routing {
 public:
  /// `hosts_forward`: whether paths may lead through hosts; nothing: as the topology has it.
  CheapestRouting(const Topology& topology, std::optional<bool> hosts_forward)
      : paths_(topology, hosts_forward.value_or(topology.hosts_forward)) {}

  bool route(NodeIndex from, NodeIndex to, std::uint64_t label, std::vector<LinkIndex>& path) override {
    return paths_.append(from, to, route_hash(from, to, label), path);
  }
  void links_changed(const std::vector<bool>& up) override { paths_.links_changed(up); }

 private:
  CheapestPaths<Metric> paths_;
};

}  // namespace orrery::hw
