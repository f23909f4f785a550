// Distances among all hosts by breadth-first search, hosts with one cable taken together with their neighbour.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "hw/network/topology_query.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kFar = -1;

/// Hosts that are equally far from everything: all those with one cable to `node`, or the host `node` itself.
struct Terminal {
  NodeIndex node = 0;
  std::int64_t own_links = 0;  ///< 1 for hosts behind `node`
  double up_s = 0;             ///< latency to `node`, the longest
  double down_s = 0;
  double between_s = 0;  ///< longest latency between two of them; meaningful if there are two
  std::int64_t hosts = 0;
};

class Distances {
 public:
  explicit Distances(const Topology& topology) : topology_(topology), out_(topology.nodes.size()) {
    find_single();
    for (const NetworkLink& link : topology.links)
      if (link.bandwidth > 0 && !single_[link.from] && !single_[link.to]) out_[link.from].push_back(&link);
  }

  HostDistance measure() {
    const std::vector<Terminal> terminals = find_terminals();
    HostDistance most;
    const auto offer = [&](std::int64_t links, double latency_s) {
      most.diameter = std::max(most.diameter, links);
      most.longest_latency_s = std::max(most.longest_latency_s, latency_s);
    };
    for (const Terminal& from : terminals) {
      if (from.hosts > 1) offer(2, from.between_s);
      search(from.node);
      for (const Terminal& to : terminals) {
        if (&to == &from || links_[to.node] == kFar) continue;
        offer(from.own_links + links_[to.node] + to.own_links, from.up_s + latency_s_[to.node] + to.down_s);
      }
    }
    return most;
  }

 private:
  bool is_host(NodeIndex n) const { return n < topology_.hosts; }

  /// Marks hosts whose every link is to one neighbour that passes traffic on.
  void find_single() {
    constexpr NodeIndex kUnseen = ~NodeIndex{0};
    const std::size_t nodes = topology_.nodes.size();
    std::vector<NodeIndex> neighbour(nodes, kUnseen);
    std::vector<bool> several(nodes);
    std::vector<int> ways(nodes);  // bit 0: out, bit 1: in
    for (const NetworkLink& link : topology_.links) {
      if (link.bandwidth <= 0) continue;
      ways[link.from] |= 1;
      ways[link.to] |= 2;
      for (const auto& [node, other] : {std::pair(link.from, link.to), std::pair(link.to, link.from)}) {
        if (neighbour[node] != kUnseen && neighbour[node] != other) several[node] = true;
        neighbour[node] = other;
      }
    }
    const auto passes_on = [&](NodeIndex n) { return !is_host(n) || (topology_.hosts_forward && several[n]); };
    single_.assign(nodes, false);
    for (NodeIndex n = 0; n < topology_.hosts; ++n) single_[n] = !several[n] && ways[n] == 3 && passes_on(neighbour[n]);
  }

  std::vector<Terminal> find_terminals() const {
    const std::size_t nodes = topology_.nodes.size();
    std::vector<double> up(nodes, -1);
    std::vector<double> down(nodes, -1);
    std::vector<NodeIndex> neighbour(nodes);
    const auto least = [](double& value, double with) { value = value < 0 ? with : std::min(value, with); };
    for (const NetworkLink& link : topology_.links) {
      if (link.bandwidth <= 0) continue;
      if (single_[link.from]) {
        least(up[link.from], link.latency_s);
        neighbour[link.from] = link.to;
      }
      if (single_[link.to]) least(down[link.to], link.latency_s);
    }
    std::map<NodeIndex, Terminal> behind;
    std::vector<Terminal> all;
    for (NodeIndex h = 0; h < topology_.hosts; ++h) {
      if (!single_[h]) {
        all.push_back({h, 0, 0, 0, 0, 1});
        continue;
      }
      Terminal& t = behind[neighbour[h]];
      // The longest between two of them, seen so far or this one with an earlier.
      if (t.hosts > 0) t.between_s = std::max({t.between_s, t.up_s + down[h], up[h] + t.down_s});
      t = {neighbour[h], 1, std::max(t.up_s, up[h]), std::max(t.down_s, down[h]), t.between_s, t.hosts + 1};
    }
    for (const auto& [node, terminal] : behind) all.push_back(terminal);
    return all;
  }

  void search(NodeIndex from) {
    links_.assign(topology_.nodes.size(), kFar);
    latency_s_.assign(topology_.nodes.size(), 0);
    links_[from] = 0;
    queue_.assign(1, from);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const NodeIndex at = queue_[i];
      if (at != from && is_host(at) && !topology_.hosts_forward) continue;
      for (const NetworkLink* link : out_[at]) {
        const double latency_s = latency_s_[at] + link->latency_s;
        if (links_[link->to] == kFar) {
          links_[link->to] = links_[at] + 1;
          latency_s_[link->to] = latency_s;
          queue_.push_back(link->to);
        } else if (links_[link->to] == links_[at] + 1) {
          latency_s_[link->to] = std::min(latency_s_[link->to], latency_s);
        }
      }
    }
  }

  const Topology& topology_;
  std::vector<bool> single_;
  std::vector<std::vector<const NetworkLink*>> out_;
  std::vector<std::int64_t> links_;
  std::vector<double> latency_s_;
  std::vector<NodeIndex> queue_;
};

}  // namespace

HostDistance measured_host_distance(const Topology& topology) {
  return Distances(topology).measure();
}

}  // namespace orrery::hw
