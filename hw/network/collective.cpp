#include "hw/network/collective.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "hw/network/collective_parts.hpp"
#include "hw/network/routing.hpp"

namespace orrery::hw {
namespace {

constexpr unsigned bit(CollectiveKind kind) {
  return 1U << static_cast<unsigned>(kind);
}
constexpr unsigned kReductions =
    bit(CollectiveKind::all_reduce) | bit(CollectiveKind::all_gather) | bit(CollectiveKind::reduce_scatter);

constexpr std::array<std::pair<std::string_view, unsigned>, 6> kSupport{{
    {"direct",
     kReductions | bit(CollectiveKind::all_to_all) | bit(CollectiveKind::broadcast) | bit(CollectiveKind::send_recv)},
    {"double_tree", bit(CollectiveKind::all_reduce) | bit(CollectiveKind::broadcast)},
    {"halving_doubling", kReductions},
    {"hierarchical", kReductions | bit(CollectiveKind::all_to_all) | bit(CollectiveKind::broadcast)},
    {"in_network", kReductions | bit(CollectiveKind::broadcast)},
    {"ring", kReductions | bit(CollectiveKind::broadcast)},
}};

void check_sizes(const CollectiveSpec& spec, sim::Faults& faults) {
  const auto ranks = static_cast<std::size_t>(std::max<std::int64_t>(spec.ranks, 0));
  const auto negative = [](std::int64_t bytes) { return bytes < 0; };
  const bool scatters = spec.kind == CollectiveKind::all_gather || spec.kind == CollectiveKind::reduce_scatter;
  if (!spec.shard_bytes.empty()) {
    if (!scatters) {
      faults.add(spec.where, "sizes of shards given to " + std::string(sim::to_string(spec.kind)),
                 "only all_gather and reduce_scatter take them");
    } else if (spec.shard_bytes.size() != ranks || std::ranges::any_of(spec.shard_bytes, negative) ||
               std::accumulate(spec.shard_bytes.begin(), spec.shard_bytes.end(), std::int64_t{0}) != spec.bytes) {
      faults.add(spec.where, "sizes of shards must be one a rank, >= 0, and sum to the collective's bytes");
    }
  }
  if (!spec.pair_bytes.empty()) {
    if (spec.kind != CollectiveKind::all_to_all) {
      faults.add(spec.where, "sizes of pairs given to " + std::string(sim::to_string(spec.kind)),
                 "only all_to_all takes them");
    } else if (spec.pair_bytes.size() != ranks * ranks || std::ranges::any_of(spec.pair_bytes, negative)) {
      faults.add(spec.where, "sizes of pairs must be one for each two ranks, >= 0");
    }
  }
}

void check_groups(const CollectiveSpec& spec, sim::Faults& faults) {
  if (spec.local_group.size() != static_cast<std::size_t>(std::max<std::int64_t>(spec.ranks, 0))) {
    faults.add(spec.where, "hierarchical needs the node of every rank, got " + std::to_string(spec.local_group.size()) +
                               " for " + std::to_string(spec.ranks) + " ranks");
    return;
  }
  std::vector<std::uint32_t> groups = spec.local_group;
  std::ranges::sort(groups);
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  if (!groups.empty() && groups.back() + std::size_t{1} != groups.size())
    faults.add(spec.where, "nodes of ranks must be numbered from 0 without gaps");
}

void check_tree(const CollectiveSpec& spec, sim::Faults& faults) {
  const auto ranks = static_cast<std::size_t>(std::max<std::int64_t>(spec.ranks, 0));
  const AggregationTree& tree = spec.tree;
  const std::size_t members = ranks + tree.switches.size();
  bool good = !tree.switches.empty() && tree.parent.size() == members;
  std::size_t roots = 0;
  std::vector<bool> inner(members, false);
  for (std::size_t m = 0; good && m < members; ++m) {
    if (tree.parent[m] == AggregationTree::kRoot) {
      good = m >= ranks && ++roots == 1;
      continue;
    }
    good = tree.parent[m] >= ranks && tree.parent[m] < members;
    Member up = tree.parent[m];
    if (good) inner[up] = true;
    for (std::size_t steps = 0; good && up != AggregationTree::kRoot; ++steps) {
      good = up < members && steps < members;
      if (good) up = tree.parent[up];
    }
  }
  // A switch without anything below it would never have heard all of its children.
  for (std::size_t m = ranks; good && m < members; ++m) good = inner[m];
  if (!good || roots != 1)
    faults.add(spec.where, "in_network needs a tree of switches with every rank as a leaf", "see aggregation_tree()");
}

}  // namespace

bool supports(std::string_view algorithm, CollectiveKind kind) {
  for (const auto& [known, kinds] : kSupport)
    if (known == algorithm) return (kinds & bit(kind)) != 0;
  return false;
}

void check_spec(std::string_view algorithm, const CollectiveSpec& spec) {
  sim::Faults faults;
  if (!supports(algorithm, spec.kind)) {
    std::string able;
    for (const auto& [known, kinds] : kSupport)
      if ((kinds & bit(spec.kind)) != 0) able += (able.empty() ? "" : ", ") + std::string(known);
    faults.add(
        spec.where,
        "collective algorithm '" + std::string(algorithm) + "' does not do " + std::string(sim::to_string(spec.kind)),
        "those that do: " + able);
  }
  if (spec.ranks < 1 || spec.ranks >= (std::int64_t{1} << 24))
    faults.add(spec.where, "a group has 1 to 2^24 - 1 ranks, got " + std::to_string(spec.ranks));
  if (spec.bytes < 0) faults.add(spec.where, "bytes of a collective are >= 0, got " + std::to_string(spec.bytes));
  if (spec.root < 0 || spec.root >= std::max<std::int64_t>(spec.ranks, 1))
    faults.add(spec.where,
               "root " + std::to_string(spec.root) + " is not in a group of " + std::to_string(spec.ranks) + " ranks");
  if (spec.kind == CollectiveKind::send_recv && spec.ranks != 2)
    faults.add(spec.where, "send_recv is between 2 ranks, got " + std::to_string(spec.ranks));
  check_sizes(spec, faults);
  if (algorithm == "hierarchical") check_groups(spec, faults);
  if (algorithm == "in_network") check_tree(spec, faults);
  faults.throw_if_any();
}

std::int64_t chunk_count(std::int64_t bytes, std::int64_t chunks, const std::optional<std::int64_t>& chunk_bytes,
                         std::int64_t limit, const sim::Origin& where) {
  std::int64_t count = chunks;
  if (chunk_bytes) count = std::max(count, bytes / *chunk_bytes + (bytes % *chunk_bytes != 0 ? 1 : 0));
  if (limit < 1)
    sim::throw_fault(where, "this group has too many messages even with one chunk",
                     "lower channels (of a ring), or the number of ranks");
  if (count > limit)
    sim::throw_fault(
        where, std::to_string(count) + " chunks are too many for this group, the most is " + std::to_string(limit),
        chunks > limit ? "lower chunks, or channels (of a ring)" : "raise chunk_bytes, or lower channels (of a ring)");
  return count;
}

Shards::Shards(std::int64_t bytes, std::int64_t parts) {
  first_.reserve(static_cast<std::size_t>(parts) + 1);
  for (std::int64_t i = 0; i <= parts; ++i) first_.push_back(part_first(bytes, parts, i));
}

Shards::Shards(const std::vector<std::int64_t>& sizes) : first_(sizes.size() + 1, 0) {
  std::partial_sum(sizes.begin(), sizes.end(), first_.begin() + 1);
}

Shards Shards::of(const CollectiveSpec& spec) {
  return spec.shard_bytes.empty() ? Shards(spec.bytes, spec.ranks) : Shards(spec.shard_bytes);
}

std::int64_t Shards::largest() const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i + 1 < first_.size(); ++i) most = std::max(most, bytes(i));
  return most;
}

std::int64_t Shards::smallest() const {
  std::int64_t least = bytes(0);
  for (std::size_t i = 1; i + 1 < first_.size(); ++i) least = std::min(least, bytes(i));
  return least;
}

AggregationTree aggregation_tree(const Topology& topology, Routing& routing, const std::vector<NodeIndex>& ranks,
                                 NodeIndex root, std::uint64_t label) {
  const auto hosts = static_cast<std::size_t>(topology.hosts);
  if (root < hosts || root >= topology.nodes.size())
    sim::throw_fault({}, "the root of an aggregation tree must be a switch");
  const auto none = AggregationTree::kRoot;
  std::vector<Member> member_of(topology.nodes.size(), none);
  AggregationTree tree;
  tree.parent.assign(ranks.size(), none);
  const auto member = [&](NodeIndex node) {
    if (member_of[node] == none) {
      member_of[node] = static_cast<Member>(tree.parent.size());
      tree.switches.push_back(node);
      tree.parent.push_back(none);
    }
    return member_of[node];
  };
  member(root);
  std::vector<LinkIndex> path;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    path.clear();
    if (!routing.route(ranks[rank], root, label, path))
      sim::throw_fault({}, "no path from " + topology.nodes[ranks[rank]] + " to " + topology.nodes[root]);
    auto below = static_cast<Member>(rank);
    for (const LinkIndex link : path) {
      const NodeIndex node = topology.links[link].to;
      if (node < hosts)
        sim::throw_fault({}, "the path from " + topology.nodes[ranks[rank]] + " to " + topology.nodes[root] +
                                 " runs through host " + topology.nodes[node] + ", which cannot aggregate");
      // A switch met before knows its way to the root: the rest of this path adds nothing.
      const bool known = member_of[node] != none;
      tree.parent[below] = member(node);
      if (known) break;
      below = member_of[node];
    }
  }
  return tree;
}

void register_collectives(CollectiveRegistry& registry) {
  registry.add<DirectParams>("direct", "Every rank sends to all others at once, or to a window of them.", make_direct);
  registry.add<DoubleTreeParams>(
      "double_tree", "Two complementary binary trees, each with half of the data, in chunks.", make_double_tree);
  registry.add<sim::NoParams>(
      "halving_doubling", "Exchanges with a partner at each of the distances 1, 2, 4 and so on.",
      [](const sim::NoParams&, const CollectiveSpec& spec) { return make_halving_doubling(spec); });
  registry.add<HierarchicalParams>("hierarchical", "Inside the nodes first, then across them, then inside again.",
                                   make_hierarchical);
  registry.add<InNetworkParams>("in_network", "Switches reduce and copy along a tree (SHARP, NVLS).", make_in_network);
  registry.add<RingParams>("ring", "Shards go round a ring in one direction or both, in chunks.", make_ring);
}

}  // namespace orrery::hw
