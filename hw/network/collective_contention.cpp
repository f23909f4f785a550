// Whether a closed form holds on a topology: messages under way at a time must all get the same part of their paths.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "hw/network/collective_closed_form.hpp"
#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

struct Ends {
  Member from = 0;
  Member to = 0;
  std::uint32_t channel = 0;
  friend auto operator<=>(const Ends&, const Ends&) = default;
};
/// Connections that carry messages at the same time.
using Set = std::vector<Ends>;

/// Takes a schedule through, in any order, and remembers the connections.
class Connections final : public MessageSink {
 public:
  Set of(CollectiveSchedule& schedule, std::int64_t ranks) {
    for (Member rank = 0; rank < ranks; ++rank) schedule.enter(rank, *this);
    while (!pending_.empty()) {
      const Message message = pending_.back();
      pending_.pop_back();
      schedule.arrived(message, *this);
    }
    std::ranges::sort(set_);
    set_.erase(std::unique(set_.begin(), set_.end()), set_.end());
    return std::move(set_);
  }
  void send(const Message& message) override {
    set_.push_back({message.from, message.to, message.channel});
    pending_.push_back(message);
  }
  void finished(Member) override {}

 private:
  std::vector<Message> pending_;
  Set set_;
};

/// The sets of an algorithm, step by step, for the smallest collective of the same shape.
struct Sets {
  CollectiveSpec spec;

  std::vector<Set> operator()(const RingParams& params) {
    Set set;
    const auto n = static_cast<Member>(spec.ranks);
    const auto lanes = static_cast<std::uint32_t>(params.channels * (params.bidirectional ? 2 : 1));
    for (Member rank = 0; rank < n; ++rank) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        const bool back = params.bidirectional && lane % 2 == 1;
        const Member to = back ? (rank + n - 1) % n : (rank + 1) % n;
        // The last link of a ring carries nothing of a broadcast.
        if (spec.kind != CollectiveKind::broadcast || to != static_cast<Member>(spec.root))
          set.push_back({rank, to, lane});
      }
    }
    return {set};
  }
  std::vector<Set> operator()(const DoubleTreeParams&) {
    spec.bytes = 2;
    return {Connections().of(*make_double_tree({.chunks = 1}, spec), spec.ranks)};
  }
  std::vector<Set> operator()(const InNetworkParams&) {
    spec.shard_bytes.clear();
    spec.bytes = spec.kind == CollectiveKind::all_reduce || spec.kind == CollectiveKind::broadcast ? 1 : spec.ranks;
    return {Connections().of(*make_in_network({.chunks = 1}, spec), spec.ranks)};
  }
  std::vector<Set> operator()(const HalvingDoublingParams&) {
    const auto n = static_cast<Member>(spec.ranks);
    const Member active = std::bit_floor(n);
    const Member folded = n - active;
    const auto rank = [&](Member slot) { return slot < folded ? 2 * slot + 1 : slot + folded; };
    std::vector<Set> sets;
    if (folded > 0) sets.emplace_back();
    for (Member i = 0; i < folded; ++i) {
      sets[0].push_back({2 * i, 2 * i + 1, 0});
      sets[0].push_back({2 * i + 1, 2 * i, 0});
    }
    for (Member distance = 1; distance < active; distance *= 2) {
      // Folding puts ranks out of step: then any of the steps may meet.
      if (folded == 0) sets.emplace_back();
      for (Member slot = 0; slot < active; ++slot) sets.back().push_back({rank(slot), rank(slot ^ distance), 0});
    }
    return sets;
  }
  std::vector<Set> operator()(const DirectParams& params) {
    const auto n = static_cast<Member>(spec.ranks);
    const auto window = params.window == 0 ? n - 1 : static_cast<Member>(std::min<std::int64_t>(params.window, n - 1));
    std::vector<Set> sets;
    for (Member begin = 0; begin < n - 1; begin += window) {
      Set set;
      for (Member turn = begin; turn < std::min(begin + window, n - 1); ++turn) {
        for (Member from = 0; from < n; ++from) {
          const Member to = params.staggered ? (from + 1 + turn) % n : turn < from ? turn : turn + 1;
          const bool sends = spec.kind == CollectiveKind::broadcast || spec.kind == CollectiveKind::send_recv
                                 ? from == static_cast<Member>(spec.root)
                                 : true;
          if (sends) set.push_back({from, to, 0});
        }
      }
      sets.push_back(std::move(set));
    }
    return sets;
  }
  std::vector<Set> operator()(const HierarchicalParams&) { return {}; }  // level by level, below
};

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-12 * std::max(a, b);
}

/// Asks for the paths of messages between members.
class Paths {
 public:
  Paths(const std::vector<NodeIndex>& nodes, const Topology& topology, Routing& routing, std::uint64_t label)
      : nodes_(nodes), topology_(topology), routing_(routing), label_(label), users_(topology.links.size(), 0) {}

  /// The cost of a message where all of `sets` give every message the same; nothing otherwise.
  std::optional<AlphaBeta> common(const std::vector<Set>& sets, bool may_share) {
    std::optional<AlphaBeta> all;
    for (const Set& set : sets) {
      const std::optional<AlphaBeta> cost = common(set, may_share);
      if (!cost || (all && !(near(cost->alpha_s, all->alpha_s) && near(cost->bandwidth, all->bandwidth)))) return {};
      all = cost;
    }
    return all;
  }

 private:
  std::optional<AlphaBeta> common(const Set& set, bool may_share) {
    std::fill(users_.begin(), users_.end(), 0);
    std::vector<LinkIndex> paths;
    std::vector<std::size_t> ends;
    for (const Ends& message : set) {
      if (!routing_.route(nodes_.at(message.from), nodes_.at(message.to), label_ + message.channel, paths)) return {};
      ends.push_back(paths.size());
    }
    for (const LinkIndex link : paths)
      if (++users_[link] > 1 && !may_share) return {};
    std::optional<AlphaBeta> all;
    std::size_t at = 0;
    for (const std::size_t end : ends) {
      if (at == end) return {};  // both on one node: no link tells the time
      AlphaBeta cost{0, topology_.links[paths[at]].bandwidth};
      for (; at < end; ++at) {
        const NetworkLink& link = topology_.links[paths[at]];
        cost.alpha_s += link.latency_s;
        cost.bandwidth = std::min(cost.bandwidth, link.bandwidth / static_cast<double>(users_[paths[at]]));
      }
      if (all && !(near(cost.alpha_s, all->alpha_s) && near(cost.bandwidth, all->bandwidth))) return {};
      all = cost;
    }
    return all;
  }

  const std::vector<NodeIndex>& nodes_;
  const Topology& topology_;
  Routing& routing_;
  std::uint64_t label_;
  std::vector<std::uint32_t> users_;
};

/// The sets of one level of hierarchical: those of all its groups together, step by step. All groups are of one size.
std::vector<Set> level_sets(LevelAlgorithm level, const HierarchicalParams& params,
                            const std::vector<std::vector<Member>>& groups) {
  std::vector<Set> all;
  for (const std::vector<Member>& group : groups) {
    if (group.size() == 1) break;
    // Scattering and gathering use the connections of an all-reduce.
    Sets sets{.spec = {}};
    sets.spec.ranks = static_cast<std::int64_t>(group.size());
    const std::vector<Set> own = level == LevelAlgorithm::ring     ? sets(params.ring)
                                 : level == LevelAlgorithm::direct ? sets(params.direct)
                                                                   : sets(HalvingDoublingParams{});
    all.resize(own.size());
    for (std::size_t s = 0; s < own.size(); ++s)
      for (const Ends& e : own[s]) all[s].push_back({group[e.from], group[e.to], e.channel});
  }
  return all;
}

std::optional<double> hierarchical_on(const HierarchicalParams& params, const CollectiveSpec& spec, Paths& paths,
                                      double overhead_s) {
  std::vector<std::vector<Member>> inside;
  std::vector<std::vector<Member>> across;
  for (Member rank = 0; rank < spec.ranks; ++rank) {
    const std::size_t g = spec.local_group[rank];
    if (inside.size() <= g) inside.resize(g + 1);
    if (across.size() <= inside[g].size()) across.emplace_back();
    across[inside[g].size()].push_back(rank);
    inside[g].push_back(rank);
  }
  const auto cost = [&](LevelAlgorithm level, const std::vector<std::vector<Member>>& groups) {
    std::optional<AlphaBeta> found = AlphaBeta{};
    if (groups[0].size() > 1) found = paths.common(level_sets(level, params, groups), true);
    if (found) found->alpha_s += overhead_s;
    return found;
  };
  // Rings go by the number of the node.
  for (std::vector<Member>& rail : across)
    std::ranges::sort(rail, {}, [&](Member rank) { return spec.local_group[rank]; });
  const std::optional<AlphaBeta> near_cost = cost(params.inside, inside);
  const std::optional<AlphaBeta> far_cost = cost(params.across, across);
  if (!near_cost || !far_cost) return {};
  return collective_seconds(params, spec, *near_cost, *far_cost);
}

bool is_small(const CollectiveAlgorithm& algorithm, const CollectiveSpec& spec) {
  std::int64_t pieces = spec.ranks;
  const auto* ring = std::get_if<RingParams>(&algorithm);
  if (const auto* levels = std::get_if<HierarchicalParams>(&algorithm)) ring = &levels->ring;
  if (ring != nullptr) pieces *= ring->channels * ring->chunks * (ring->bidirectional ? 2 : 1);
  return spec.kind != CollectiveKind::broadcast && spec.bytes < pieces;
}

}  // namespace

std::optional<double> collective_on(const CollectiveAlgorithm& algorithm, const CollectiveSpec& spec,
                                    const std::vector<NodeIndex>& nodes, const Topology& topology, Routing& routing,
                                    double overhead_s, std::uint64_t label) {
  // Also finds a faulty spec before anything is looked up by it.
  const std::optional<double> plain = collective_seconds(algorithm, spec, AlphaBeta{});
  if (!plain || *plain == 0) return plain;
  const bool broadcast = spec.kind == CollectiveKind::broadcast;
  if (!spec.shard_bytes.empty() || !spec.pair_bytes.empty() || is_small(algorithm, spec)) return {};
  Paths paths(nodes, topology, routing, label);
  if (const auto* levels = std::get_if<HierarchicalParams>(&algorithm)) {
    if (broadcast) return {};
    return hierarchical_on(*levels, spec, paths, overhead_s);
  }
  const bool in_step = std::holds_alternative<DirectParams>(algorithm) ||
                       (std::holds_alternative<RingParams>(algorithm) && !broadcast) ||
                       (std::holds_alternative<HalvingDoublingParams>(algorithm) &&
                        std::has_single_bit(static_cast<std::uint64_t>(spec.ranks)));
  std::optional<AlphaBeta> cost = paths.common(std::visit(Sets{spec}, algorithm), in_step);
  if (!cost) return {};
  cost->alpha_s += overhead_s;
  return collective_seconds(algorithm, spec, *cost);
}

}  // namespace orrery::hw
