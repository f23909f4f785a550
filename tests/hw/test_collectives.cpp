// Collectives move the right bytes: symbolic proofs on random groups, and small cases by hand.
#include <algorithm>
#include <array>
#include <numeric>

#include "tests/hw/collective_check.hpp"

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

constexpr std::array<CollectiveKind, 6> kKinds{CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                                               CollectiveKind::reduce_scatter, CollectiveKind::all_to_all,
                                               CollectiveKind::broadcast,      CollectiveKind::send_recv};

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

std::string ring_params(sim::RandomStream& random) {
  std::string text = R"({"channels": )" + number(1 + random.below(3)) + R"(, "chunks": )" +
                     number(1 + random.below(4)) + R"(, "bidirectional": )" + (random.below(2) == 0 ? "true" : "false");
  if (random.below(3) == 0) text += R"(, "chunk_bytes": ")" + number(1 + random.below(20)) + R"( B")";
  return text + "}";
}

std::string direct_params(sim::RandomStream& random) {
  return R"({"staggered": )" + std::string(random.below(2) == 0 ? "true" : "false") + R"(, "window": )" +
         number(random.below(4)) + "}";
}

std::string chunk_params(sim::RandomStream& random) {
  std::string text = R"({"chunks": )" + number(1 + random.below(9));
  if (random.below(3) == 0) text += R"(, "chunk_bytes": ")" + number(1 + random.below(30)) + R"( B")";
  return text + "}";
}

std::string random_params(const std::string& algorithm, CollectiveKind kind, sim::RandomStream& random) {
  if (algorithm == "ring") return ring_params(random);
  if (algorithm == "direct") return direct_params(random);
  if (algorithm == "halving_doubling") return "";
  if (algorithm != "hierarchical") return chunk_params(random);
  static const std::array<std::string, 3> levels{"ring", "direct", "halving_doubling"};
  const std::uint64_t choices = kind == CollectiveKind::broadcast ? 2 : 3;
  return R"({"inside": ")" + levels[random.below(choices)] + R"(", "across": ")" + levels[random.below(choices)] +
         R"(", "ring": )" + ring_params(random) + R"(, "direct": )" + direct_params(random) + "}";
}

void random_tree(CollectiveSpec& spec, sim::RandomStream& random) {
  SwitchTree tree;
  const std::uint64_t switches = 1 + random.below(7);
  tree.up.push_back(0);
  for (std::uint64_t s = 1; s < switches; ++s) tree.up.push_back(static_cast<NodeIndex>(random.below(s)));
  std::vector<NodeIndex> nodes;
  for (std::int64_t r = 0; r < spec.ranks; ++r) {
    tree.at.push_back(static_cast<NodeIndex>(random.below(switches)));
    nodes.push_back(static_cast<NodeIndex>(r));
  }
  TreeRouting routing(tree);
  spec.tree = aggregation_tree(tree.topology(), routing, nodes, tree.root());
}

CollectiveSpec random_spec(const std::string& algorithm, CollectiveKind kind, sim::RandomStream& random) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.ranks = kind == CollectiveKind::send_recv ? 2 : 1 + static_cast<std::int64_t>(random.below(40));
  const auto n = static_cast<std::size_t>(spec.ranks);
  spec.root = static_cast<std::int64_t>(random.below(n));
  const std::uint64_t most = kind == CollectiveKind::all_to_all ? 150 : 1000;
  spec.bytes = random.below(4) == 0 ? static_cast<std::int64_t>(random.below(n + 1))
                                    : static_cast<std::int64_t>(random.below(most + 1));
  if ((kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter) && random.below(3) == 0) {
    for (std::size_t i = 0; i < n; ++i) spec.shard_bytes.push_back(static_cast<std::int64_t>(random.below(25)));
    spec.bytes = std::accumulate(spec.shard_bytes.begin(), spec.shard_bytes.end(), std::int64_t{0});
  }
  if (kind == CollectiveKind::all_to_all && random.below(2) == 0)
    for (std::size_t i = 0; i < n * n; ++i) spec.pair_bytes.push_back(static_cast<std::int64_t>(random.below(6)));
  if (algorithm == "hierarchical") {
    // Nodes of any size, each with one rank at least, ranks dealt out at random.
    const std::uint64_t groups = 1 + random.below(n);
    for (std::size_t i = 0; i < n; ++i)
      spec.local_group.push_back(static_cast<std::uint32_t>(i < groups ? i : random.below(groups)));
    for (std::size_t i = n; i > 1; --i) std::swap(spec.local_group[i - 1], spec.local_group[random.below(i)]);
  }
  if (algorithm == "in_network") random_tree(spec, random);
  return spec;
}

/// Bytes that all members send together; docs/collectives.md derives them. Negative: not known in closed form.
std::int64_t total_bytes(const std::string& algorithm, const CollectiveSpec& spec) {
  const std::int64_t n = spec.ranks;
  const std::int64_t s = spec.bytes;
  if (n == 1) return 0;
  const Shards shards = Shards::of(spec);
  const auto edges = static_cast<std::int64_t>(spec.tree.parent.size()) - 1;
  if (spec.kind == CollectiveKind::send_recv) return s;
  if (spec.kind == CollectiveKind::broadcast) return algorithm == "in_network" ? edges * s : (n - 1) * s;
  if (spec.kind == CollectiveKind::all_reduce) return 2 * (algorithm == "in_network" ? edges : n - 1) * s;
  if (spec.kind == CollectiveKind::all_to_all) {
    if (algorithm != "direct") return -1;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n * n); ++i) {
      const auto from = i / static_cast<std::size_t>(n);
      const auto to = i % static_cast<std::size_t>(n);
      if (from != to) sum += spec.pair_bytes.empty() ? shards.bytes(to) : spec.pair_bytes[i];
    }
    return sum;
  }
  std::int64_t extra = 0;
  if (algorithm == "in_network") {
    extra = (edges - (n - 1)) * s;
    for (std::size_t r = 0; r < static_cast<std::size_t>(n) && spec.kind == CollectiveKind::reduce_scatter; ++r)
      for (Member m = static_cast<Member>(r); spec.tree.parent[m] != AggregationTree::kRoot; m = spec.tree.parent[m])
        extra += shards.bytes(r);
  }
  if (algorithm == "halving_doubling") {
    // Every folded rank's whole buffer in one direction, which is in (n-1) S, and its shard in the other.
    const std::int64_t folded = n - static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
    for (std::int64_t i = 0; i < folded; ++i) extra += shards.bytes(static_cast<std::size_t>(2 * i));
  }
  if (algorithm == "hierarchical") {
    // Ranks beyond the smallest node's number hand their shard over, or get it, once more.
    std::vector<std::int64_t> size(static_cast<std::size_t>(n), 0);
    for (const std::uint32_t g : spec.local_group) ++size[g];
    std::erase(size, 0);
    const std::int64_t rails = *std::ranges::min_element(size);
    std::ranges::fill(size, 0);
    for (std::size_t r = 0; r < static_cast<std::size_t>(n); ++r)
      if (size[spec.local_group[r]]++ >= rails) extra += shards.bytes(r);
  }
  return (n - 1) * s + extra;
}

void check_shares(const std::string& algorithm, const CollectiveSpec& spec, const SymbolicRun& run) {
  const bool gather = spec.kind == CollectiveKind::all_gather;
  if ((!gather && spec.kind != CollectiveKind::reduce_scatter) || spec.ranks == 1) return;
  const auto n = static_cast<std::size_t>(spec.ranks);
  const auto shard = [&](std::size_t r) { return run.shard_first[r + 1] - run.shard_first[r]; };
  for (std::size_t r = 0; r < n && algorithm == "direct"; ++r)
    CHECK(run.sent[r] == (gather ? (spec.ranks - 1) * shard(r) : spec.bytes - shard(r)));
}

}  // namespace

TEST_CASE("collectives deliver what they promise, each contribution once, in any order", "[prop]") {
  sim::RandomStream random(7, "collectives");
  for (const std::string algorithm :
       {"ring", "direct", "double_tree", "halving_doubling", "hierarchical", "in_network"}) {
    for (const CollectiveKind kind : kKinds) {
      if (!supports(algorithm, kind)) continue;
      for (int i = 0; i < 60; ++i) {
        const CollectiveSpec spec = random_spec(algorithm, kind, random);
        const std::string params = random_params(algorithm, kind, random);
        CAPTURE(algorithm, name(kind), params, spec.ranks, spec.bytes, spec.root, spec.local_group, i);
        const auto schedule = make_collective(algorithm, params, spec);
        SymbolicRun run(*schedule, spec, random);
        run.run();
        // A halving-doubling level sends the shards of its folded ranks once more: how many depends on every node's size.
        const bool folds = algorithm == "hierarchical" && params.find("halving") != std::string::npos;
        const std::int64_t expected = folds ? -1 : total_bytes(algorithm, spec);
        if (expected >= 0) CHECK(run.total == expected);
        check_shares(algorithm, spec, run);
        if (spec.bytes == 0 && spec.pair_bytes.empty()) CHECK(run.messages == 0);
      }
    }
  }
}
