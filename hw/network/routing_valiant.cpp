// `valiant`: by a shortest path to a random node between and from there by a shortest path on, so that any pattern of
// traffic loads links as a random one does, at twice the length (Valiant, "A scheme for fast parallel communication",
// SIAM J. Comput. 1982). On a dragonfly the node between is whichever router of a random third group is nearest (Kim et
// al., ISCA 2008, section 4.1); messages inside a group, or where there is no third one, go by a shortest path.
// Elsewhere it is any node that forwards. The hash of (from, to, label) draws. Where the two parts meet a node twice,
// the loop is left out. If a draw leads nowhere, another is made, and at last a shortest path taken.
#include <algorithm>
#include <memory>

#include "hw/network/cheapest_paths.hpp"
#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

constexpr std::uint64_t kDraws = 4;

template <class Metric>
class Valiant final : public Routing {
 public:
  explicit Valiant(const Topology& topology)
      : topology_(topology), paths_(topology, topology.hosts_forward, topology.shape.groups) {
    for (const std::uint32_t group : topology.shape.groups) groups_ = std::max<std::uint64_t>(groups_, group + 1);
  }

  bool route(NodeIndex from, NodeIndex to, std::uint64_t label, std::vector<LinkIndex>& path) override {
    if (from == to) return true;
    const std::uint64_t hash = route_hash(from, to, label);
    const std::size_t before = path.size();
    const bool direct = groups_ > 0 && (group(from) == group(to) || groups_ < 3);
    for (std::uint64_t draw = 0; !direct && draw < kDraws; ++draw) {
      if ((groups_ > 0 ? through_group(from, to, hash, draw, path) : through_node(from, to, hash, draw, path))) {
        drop_loops(from, before, path);
        return true;
      }
      path.resize(before);
    }
    return paths_.append(from, to, hash, path);
  }

  void links_changed(const std::vector<bool>& up) override { paths_.links_changed(up); }

 private:
  std::uint32_t group(NodeIndex node) const { return topology_.shape.groups[node]; }
  /// Salts of draws must differ from those of nodes, which the paths use.
  static std::uint64_t salt(std::uint64_t draw) { return ~draw; }

  bool through_group(NodeIndex from, NodeIndex to, std::uint64_t hash, std::uint64_t draw,
                     std::vector<LinkIndex>& path) {
    // Of the groups but two: past the lower of these, past the higher.
    const std::uint32_t low = std::min(group(from), group(to));
    const std::uint32_t high = std::max(group(from), group(to));
    auto between = static_cast<std::uint32_t>(route_pick(hash, salt(draw), groups_ - 2));
    if (between >= low) ++between;
    if (between >= high) ++between;
    if (!paths_.append_to_group(from, between, hash, path)) return false;
    return paths_.append(topology_.links[path.back()].to, to, hash, path);
  }

  bool through_node(NodeIndex from, NodeIndex to, std::uint64_t hash, std::uint64_t draw,
                    std::vector<LinkIndex>& path) {
    const std::vector<NodeIndex>& all = paths_.forwarding();
    if (all.empty()) return false;
    const NodeIndex between = all[route_pick(hash, salt(draw), all.size())];
    return paths_.append(from, between, hash, path) && paths_.append(between, to, hash, path);
  }

  /// Cuts the path at every node it comes back to; paths are short, so looking back is cheap.
  void drop_loops(NodeIndex from, std::size_t start, std::vector<LinkIndex>& path) const {
    std::size_t kept = start;
    for (std::size_t i = start; i < path.size(); ++i) {
      path[kept++] = path[i];
      const NodeIndex at = topology_.links[path[i]].to;
      if (at == from) kept = start;
      for (std::size_t j = start; j + 1 < kept; ++j)
        if (topology_.links[path[j]].to == at) kept = j + 1;
    }
    path.resize(kept);
  }

  const Topology& topology_;
  CheapestPaths<Metric> paths_;
  std::uint64_t groups_ = 0;
};

}  // namespace

void register_valiant(RoutingRegistry& registry) {
  registry.add<sim::NoParams>(
      "valiant", "Through a random intermediate node (on a dragonfly, a random group), which spreads any traffic.",
      [](const sim::NoParams&, const Topology& topology) -> std::unique_ptr<Routing> {
        if (!topology.shape.groups.empty()) return std::make_unique<Valiant<GroupHops>>(topology);
        return std::make_unique<Valiant<Hops>>(topology);
      });
}

}  // namespace orrery::hw
