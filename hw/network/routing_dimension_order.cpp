// `dimension_order`: on a ring or torus, along the first dimension to the end, then along the second, and so on, each
// the short way round; where both ways are equally long, the hash of (from, to, label) chooses (e-cube routing; Dally
// and Towles, "Principles and Practices of Interconnection Networks", 2004, section 8.4). A step that is missing, as on
// a one-way ring, is made the other way round. If a link of the path is down, the message takes a shortest path among
// the links that are left. A route costs O(links of the path), and no memory but a link each way of every host.
#include <algorithm>
#include <memory>

#include "hw/network/cheapest_paths.hpp"
#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

constexpr LinkIndex kNoLink = ~LinkIndex{0};

class DimensionOrder final : public Routing {
 public:
  explicit DimensionOrder(const Topology& topology)
      : topology_(topology), way_round_(topology, topology.hosts_forward), up_(topology.links.size(), true) {
    std::int64_t stride = 1;
    for (const std::int64_t extent : topology.shape.extents) {
      strides_.push_back(stride);
      stride *= extent;
    }
    step_.assign(static_cast<std::size_t>(stride) * strides_.size() * 2, kNoLink);
    for (LinkIndex l = 0; l < topology.links.size(); ++l)
      if (topology.links[l].bandwidth > 0) place(l);
  }

  bool route(NodeIndex from, NodeIndex to, std::uint64_t label, std::vector<LinkIndex>& path) override {
    const std::uint64_t hash = route_hash(from, to, label);
    const std::size_t before = path.size();
    if (walk(from, to, hash, path)) return true;
    path.resize(before);
    return way_round_.append(from, to, hash, path);
  }

  void links_changed(const std::vector<bool>& up) override {
    up_ = up;
    way_round_.links_changed(up);
  }

 private:
  std::int64_t coordinate(NodeIndex host, std::size_t d) const {
    return static_cast<std::int64_t>(host) / strides_[d] % topology_.shape.extents[d];
  }
  LinkIndex& step(NodeIndex host, std::size_t d, bool forward) {
    return step_[(static_cast<std::size_t>(host) * strides_.size() + d) * 2 + (forward ? 1 : 0)];
  }

  /// Files a link under the step that it makes; between two hosts, or in a dimension of two, it makes both.
  void place(LinkIndex l) {
    const NetworkLink& link = topology_.links[l];
    for (std::size_t d = 0; d < strides_.size(); ++d) {
      const std::int64_t extent = topology_.shape.extents[d];
      const std::int64_t moved = (coordinate(link.to, d) - coordinate(link.from, d) + extent) % extent;
      if (moved == 1) step(link.from, d, true) = l;
      if (moved == extent - 1) step(link.from, d, false) = l;
    }
  }

  bool walk(NodeIndex at, NodeIndex to, std::uint64_t hash, std::vector<LinkIndex>& path) {
    for (std::size_t d = 0; d < strides_.size(); ++d) {
      const std::int64_t extent = topology_.shape.extents[d];
      const std::int64_t ahead = (coordinate(to, d) - coordinate(at, d) + extent) % extent;
      if (ahead == 0) continue;
      bool forward = 2 * ahead < extent;
      if (2 * ahead == extent) forward = route_pick(hash, d, 2) == 0;
      if (!topology_.shape.wraps[d]) forward = coordinate(to, d) > coordinate(at, d);
      if (step(at, d, forward) == kNoLink) forward = !forward;
      for (std::int64_t left = forward ? ahead : extent - ahead; left > 0; --left) {
        const LinkIndex l = step(at, d, forward);
        if (l == kNoLink || !up_[l]) return false;
        path.push_back(l);
        at = topology_.links[l].to;
      }
    }
    return true;
  }

  const Topology& topology_;
  CheapestPaths<Hops> way_round_;
  std::vector<bool> up_;
  std::vector<std::int64_t> strides_;
  std::vector<LinkIndex> step_;  ///< by host, dimension, backward or forward
};

}  // namespace

void register_dimension_order(RoutingRegistry& registry) {
  registry.add<sim::NoParams>(
      "dimension_order", "Ring and torus: one dimension after another, the short way round; ties are broken by hash.",
      [](const sim::NoParams&, const Topology& topology) -> std::unique_ptr<Routing> {
        if (topology.shape.extents.empty())
          sim::throw_fault({}, "dimension_order needs a ring or a torus, got a " + topology.kind + " topology");
        return std::make_unique<DimensionOrder>(topology);
      });
}

}  // namespace orrery::hw
