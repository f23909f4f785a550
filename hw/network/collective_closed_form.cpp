#include "hw/network/collective_closed_form.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

#include "hw/base/arithmetic.hpp"
#include "hw/network/collective_halving_doubling.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Shards that differ by more than a byte have no common step.
bool is_even(const CollectiveSpec& spec) {
  if (spec.shard_bytes.empty()) return true;
  const auto [least, most] = std::ranges::minmax_element(spec.shard_bytes);
  return *most - *least <= 1;
}

/// Chunks that follow each other on a connection, and the time of the largest.
struct Pipeline {
  double chunks = 0;
  double chunk_s = 0;
};

Pipeline pipeline(std::int64_t bytes, std::int64_t lanes, std::int64_t chunks, const AlphaBeta& cost) {
  const std::int64_t used = parts_used(bytes, lanes * chunks);
  return {static_cast<double>(ceil_div(used, lanes)), cost.seconds(ceil_div(bytes, lanes * chunks))};
}

std::optional<double> ring_seconds(const RingParams& params, const CollectiveSpec& spec, const AlphaBeta& cost) {
  if (!is_even(spec)) return {};
  const bool broadcast = spec.kind == CollectiveKind::broadcast;
  const std::int64_t part = broadcast ? spec.bytes : Shards::of(spec).largest();
  const std::int64_t lanes = params.channels * (params.bidirectional ? 2 : 1);
  const std::int64_t chunks =
      chunk_count(ceil_div(part, lanes), params.chunks, params.chunk_bytes, kNoLimit, spec.where);
  const Pipeline p = pipeline(part, lanes, chunks, cost);
  const double steps = static_cast<double>(spec.ranks - 1);
  // Shards of so few bytes that some have a chunk less than others leave gaps.
  const std::int64_t least = broadcast ? part : Shards::of(spec).smallest();
  if (p.chunks > 1 && pipeline(least, lanes, chunks, cost).chunks < p.chunks) return {};
  if (broadcast) return (steps + p.chunks - 1) * p.chunk_s;
  return (spec.kind == CollectiveKind::all_reduce ? 2 : 1) * steps * p.chunks * p.chunk_s;
}

std::optional<double> double_tree_seconds(const DoubleTreeParams& params, const CollectiveSpec& spec,
                                          const AlphaBeta& cost) {
  const std::int64_t half = spec.bytes - spec.bytes / 2;
  const Pipeline p =
      pipeline(half, 1, chunk_count(half, params.chunks, params.chunk_bytes, kNoLimit, spec.where), cost);
  // The in-order tree over m positions is floor(log2 m) high; the root of a broadcast stands above it.
  const auto height = [](std::int64_t m) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(m))) - 1;
  };
  const int hops = spec.kind == CollectiveKind::all_reduce ? 2 * height(spec.ranks) : 1 + height(spec.ranks - 1);
  return (hops + p.chunks - 1) * p.chunk_s;
}

/// When each active rank is through with each step: it has its own and its partner's of the step before.
std::optional<double> halving_doubling_seconds(const CollectiveSpec& spec, const AlphaBeta& cost) {
  const HalvingDoublingPlan plan(spec);
  const auto later = [&](double start, std::int64_t bytes) { return bytes > 0 ? start + cost.seconds(bytes) : 0.0; };
  std::vector<double> ready(plan.active(), 0);
  for (Member slot = 0; slot < plan.folded(); ++slot) ready[slot] = later(0, plan.given(2 * slot).bytes);
  std::vector<double> before;
  for (unsigned step = 1; step <= plan.steps(); ++step) {
    before = ready;
    for (Member slot = 0; slot < plan.active(); ++slot) {
      const Member partner = plan.partner(slot, step);
      ready[slot] = std::max(before[slot], later(before[partner], plan.sent(partner, step).bytes));
    }
  }
  double end = *std::ranges::max_element(ready);
  for (Member slot = 0; slot < plan.folded(); ++slot)
    end = std::max(end, later(ready[slot], plan.served(2 * slot).bytes));
  return end;
}

std::optional<double> direct_seconds(const DirectParams& params, const CollectiveSpec& spec, const AlphaBeta& cost) {
  const std::int64_t others = spec.ranks - 1;
  const bool windowed = params.window != 0 && params.window < others;
  if (spec.kind == CollectiveKind::send_recv) return cost.seconds(spec.bytes);
  std::int64_t largest = spec.kind == CollectiveKind::broadcast ? spec.bytes : Shards::of(spec).largest();
  if (!spec.pair_bytes.empty()) {
    if (windowed) return {};
    largest = 0;
    const auto n = static_cast<std::size_t>(spec.ranks);
    for (std::size_t i = 0; i < n * n; ++i)
      if (i / n != i % n) largest = std::max(largest, spec.pair_bytes[i]);
    return largest == 0 ? 0 : cost.seconds(largest);
  }
  // In a window an empty message or an early second phase would let another one go ahead.
  const bool to_owners = spec.kind != CollectiveKind::broadcast && spec.kind != CollectiveKind::all_gather;
  if (windowed && to_owners && (!params.staggered || !is_even(spec) || spec.bytes < spec.ranks)) return {};
  const std::int64_t rounds = windowed ? ceil_div(others, params.window) : 1;
  return (spec.kind == CollectiveKind::all_reduce ? 2 : 1) * static_cast<double>(rounds) * cost.seconds(largest);
}

std::optional<double> level_seconds(LevelAlgorithm level, const HierarchicalParams& params, CollectiveKind kind,
                                    std::int64_t ranks, std::int64_t bytes, const AlphaBeta& cost) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.ranks = ranks;
  spec.bytes = bytes;
  if (ranks == 1) return 0;
  if (level == LevelAlgorithm::ring) return ring_seconds(params.ring, spec, cost);
  if (level == LevelAlgorithm::direct) {
    if (params.direct.window != 0 && !params.direct.staggered) return {};
    return direct_seconds(params.direct, spec, cost);
  }
  if (!std::has_single_bit(static_cast<std::uint64_t>(ranks))) return {};
  return halving_doubling_seconds(spec, cost);
}

std::optional<double> hierarchical_seconds(const HierarchicalParams& params, const CollectiveSpec& spec,
                                           const AlphaBeta& inside, const AlphaBeta& across) {
  std::vector<std::int64_t> sizes(*std::ranges::max_element(spec.local_group) + std::size_t{1}, 0);
  for (const std::uint32_t group : spec.local_group) ++sizes[group];
  const std::int64_t m = sizes[0];
  if (std::ranges::any_of(sizes, [m](std::int64_t size) { return size != m; })) return {};
  const auto groups = static_cast<std::int64_t>(sizes.size());
  const auto near = [&](CollectiveKind kind, std::int64_t bytes) {
    return level_seconds(params.inside, params, kind, m, bytes, inside);
  };
  const auto far = [&](CollectiveKind kind, std::int64_t bytes) {
    return level_seconds(params.across, params, kind, groups, bytes, across);
  };
  std::array<std::optional<double>, 3> parts{0.0, 0.0, 0.0};
  using Kind = CollectiveKind;
  if (spec.kind == Kind::broadcast) {
    parts = {0.0, far(Kind::broadcast, spec.bytes), near(Kind::broadcast, spec.bytes)};
  } else if (spec.bytes < spec.ranks || !spec.shard_bytes.empty() || spec.kind == Kind::all_to_all) {
    return {};
  } else if (spec.kind == Kind::all_reduce) {
    parts = {near(Kind::reduce_scatter, spec.bytes), far(Kind::all_reduce, ceil_div(spec.bytes, m)),
             near(Kind::all_gather, spec.bytes)};
  } else {
    const std::int64_t shard = ceil_div(spec.bytes, spec.ranks);
    parts = {0.0, far(spec.kind, shard * groups), near(spec.kind, shard * spec.ranks)};
  }
  double sum = 0;
  for (const std::optional<double>& part : parts) {
    if (!part) return {};
    sum += *part;
  }
  return sum;
}

std::optional<double> in_network_seconds(const InNetworkParams& params, const CollectiveSpec& spec,
                                         const AlphaBeta& cost) {
  const std::vector<Member>& parent = spec.tree.parent;
  if (spec.kind != CollectiveKind::all_reduce && spec.kind != CollectiveKind::broadcast) return {};
  const auto depth = [&](Member member) {
    int hops = 0;
    for (; parent[member] != AggregationTree::kRoot; member = parent[member]) ++hops;
    return hops;
  };
  const int height = depth(0);
  for (Member rank = 1; rank < spec.ranks; ++rank)
    if (depth(rank) != height) return {};
  // A broadcast turns round where the last other branch leaves the root's way up.
  int turn = height;
  if (spec.kind == CollectiveKind::broadcast) {
    std::vector<std::uint32_t> children(parent.size(), 0);
    for (const Member up : parent)
      if (up != AggregationTree::kRoot) ++children[up];
    int hops = 0;
    for (auto m = static_cast<Member>(spec.root); parent[m] != AggregationTree::kRoot; m = parent[m])
      if (++hops; children[parent[m]] > 1) turn = hops;
  }
  const std::int64_t chunks = chunk_count(spec.bytes, params.chunks, params.chunk_bytes, kNoLimit, spec.where);
  const Pipeline p = pipeline(spec.bytes, 1, chunks, cost);
  return (2 * turn + p.chunks - 1) * p.chunk_s;
}

struct Seconds {
  const CollectiveSpec& spec;
  const AlphaBeta& inside;
  const AlphaBeta& across;

  bool nothing(const char* algorithm) const {
    check_spec(algorithm, spec);
    return spec.ranks == 1 || (spec.bytes == 0 && spec.pair_bytes.empty());
  }
  std::optional<double> operator()(const RingParams& p) const {
    return nothing("ring") ? 0 : ring_seconds(p, spec, across);
  }
  std::optional<double> operator()(const DoubleTreeParams& p) const {
    return nothing("double_tree") ? 0 : double_tree_seconds(p, spec, across);
  }
  std::optional<double> operator()(const HalvingDoublingParams&) const {
    return nothing("halving_doubling") ? 0 : halving_doubling_seconds(spec, across);
  }
  std::optional<double> operator()(const DirectParams& p) const {
    return nothing("direct") ? 0 : direct_seconds(p, spec, across);
  }
  std::optional<double> operator()(const HierarchicalParams& p) const {
    // As the schedule does: a level must be able to do its part, however few the ranks. Only a broadcast has parts that
    // some algorithm does not do; all_to_all is direct at every level.
    const auto halves = [](LevelAlgorithm level) { return level == LevelAlgorithm::halving_doubling; };
    check_spec("hierarchical", spec);
    if (spec.kind == CollectiveKind::broadcast && (halves(p.inside) || halves(p.across))) {
      CollectiveSpec part;
      part.kind = spec.kind;
      part.where = spec.where;
      check_spec("halving_doubling", part);
    }
    return nothing("hierarchical") ? 0 : hierarchical_seconds(p, spec, inside, across);
  }
  std::optional<double> operator()(const InNetworkParams& p) const {
    return nothing("in_network") ? 0 : in_network_seconds(p, spec, across);
  }
};

}  // namespace

std::optional<double> collective_seconds(const CollectiveAlgorithm& algorithm, const CollectiveSpec& spec,
                                         const AlphaBeta& inside, const AlphaBeta& across) {
  return std::visit(Seconds{spec, inside, across}, algorithm);
}

double collective_lower_bound(const CollectiveSpec& spec, const AlphaBeta& cost) {
  if (spec.ranks <= 1 || spec.bytes == 0) return 0;
  const double n = static_cast<double>(spec.ranks);
  const double all = static_cast<double>(spec.bytes) / cost.bandwidth;
  if (spec.kind == CollectiveKind::send_recv) return cost.seconds(spec.bytes);
  // Fewer bytes than ranks leave ranks out of a scatter: then its bytes alone bound it from below.
  const bool whole = spec.kind == CollectiveKind::all_reduce || spec.kind == CollectiveKind::broadcast;
  const double rounds = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(spec.ranks - 1)));
  const double latency = whole || spec.bytes >= spec.ranks ? rounds * cost.alpha_s : cost.alpha_s;
  switch (spec.kind) {
    case CollectiveKind::all_reduce:
      return std::max(latency, 2 * (n - 1) / n * all);
    case CollectiveKind::broadcast:
      return std::max(latency, all);
    default: {
      // A rank with the smallest shard receives what the others hold.
      const double most = static_cast<double>(spec.bytes - spec.bytes / spec.ranks) / cost.bandwidth;
      return std::max(latency, most);
    }
  }
}

}  // namespace orrery::hw
