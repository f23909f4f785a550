// Collectives move the right bytes: symbolic proofs on random groups, and small cases by hand.
#include <algorithm>
#include <array>
#include <numeric>

#include "tests/hw/collective_check.hpp"

namespace test_collectives {

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

/// Bytes that all members send together; docs/explain/collectives.md derives them. Negative: not known in closed form.
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

void check_shares(const std::string& algorithm, const std::string& params, const CollectiveSpec& spec,
                  const SymbolicRun& run) {
  const bool gather = spec.kind == CollectiveKind::all_gather;
  if ((!gather && spec.kind != CollectiveKind::reduce_scatter) || spec.ranks == 1) return;
  const auto n = static_cast<std::size_t>(spec.ranks);
  const auto shard = [&](std::size_t r) { return run.shard_first[r + 1] - run.shard_first[r]; };
  for (std::size_t r = 0; r < n && algorithm == "direct"; ++r)
    CHECK(run.sent[r] == (gather ? (spec.ranks - 1) * shard(r) : spec.bytes - shard(r)));
  // Round a ring in one direction a rank sends every shard but the next rank's (gathering) or its own.
  const bool one_way = algorithm == "ring" && params.find("\"bidirectional\": false") != std::string::npos;
  for (std::size_t r = 0; r < n && one_way; ++r) CHECK(run.sent[r] == spec.bytes - shard(gather ? (r + 1) % n : r));
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
        CAPTURE(algorithm, sim::to_string(kind), params, spec.ranks, spec.bytes, spec.root, spec.local_group, i);
        const auto schedule = make_collective(algorithm, params, spec);
        SymbolicRun run(*schedule, spec, random);
        run.run();
        // A halving-doubling level sends the shards of its folded ranks once more: how many depends on every node's
        // size.
        const bool folds = algorithm == "hierarchical" && params.find("halving") != std::string::npos;
        const std::int64_t expected = folds ? -1 : total_bytes(algorithm, spec);
        if (expected >= 0) CHECK(run.total == expected);
        check_shares(algorithm, params, spec, run);
        if (spec.bytes == 0 && spec.pair_bytes.empty()) CHECK(run.messages == 0);
      }
    }
  }
}

namespace {

/// Keeps what is sent, in order.
class Sent final : public MessageSink {
 public:
  void send(const Message& message) override { messages.push_back(message); }
  void finished(Member rank) override { done.push_back(rank); }
  std::vector<Message> messages;
  std::vector<Member> done;
};

CollectiveSpec spec_of(CollectiveKind kind, std::int64_t ranks, std::int64_t bytes) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.ranks = ranks;
  spec.bytes = bytes;
  return spec;
}

/// The text of the ConfigError that making it throws.
std::string fault_of(const std::string& algorithm, const CollectiveSpec& spec, const std::string& params = "") {
  try {
    (void)make_collective(algorithm, params, spec);
  } catch (const sim::ConfigError& error) {
    return error.what();
  }
  return "none";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a ring of three by hand", "[unit]") {
  // 10 bytes: shards of 4, 3, 3 at 0, 4, 7. Rank 1 begins with shard 0 (r-1), to which rank 2 adds its own and keeps
  // what it gets in the last step as rank 2's: shard 2 went 0 -> 1 -> 2.
  const auto ring = make_collective("ring", "", spec_of(CollectiveKind::reduce_scatter, 3, 10));
  Sent sent;
  for (Member r = 0; r < 3; ++r) ring->enter(r, sent);
  REQUIRE(sent.messages.size() == 3);
  CHECK(sent.messages[0].to == 1);
  CHECK(sent.messages[0].bytes == 3);  // shard 2
  CHECK(sent.messages[1].bytes == 4);  // shard 0
  CHECK(sent.messages[2].bytes == 3);  // shard 1
  std::vector<Piece> pieces;
  ring->describe(sent.messages[1], pieces);
  CHECK(pieces[0].first == 0);
  CHECK(pieces[0].reduce);
  ring->arrived(sent.messages[0], sent);
  REQUIRE(sent.messages.size() == 4);
  CHECK(sent.messages[3].from == 1);
  CHECK(sent.messages[3].to == 2);
  CHECK(sent.messages[3].bytes == 3);
  CHECK(sent.done.empty());
  ring->arrived(sent.messages[3], sent);  // the last step sends nothing
  CHECK(sent.messages.size() == 4);
  ring->arrived(sent.messages[1], sent);
  CHECK(sent.done == std::vector<Member>{2});
}

TEST_CASE("direct in a window and in order", "[unit]") {
  const auto direct = make_collective("direct", R"({"window": 2})", spec_of(CollectiveKind::all_gather, 5, 50));
  Sent sent;
  direct->enter(3, sent);
  REQUIRE(sent.messages.size() == 2);
  CHECK(sent.messages[0].to == 4);
  CHECK(sent.messages[1].to == 0);
  direct->enter(0, sent);
  direct->arrived(sent.messages[1], sent);
  CHECK(sent.messages.back().from == 3);
  CHECK(sent.messages.back().to == 1);
  const auto plain = make_collective("direct", R"({"staggered": false})", spec_of(CollectiveKind::all_gather, 4, 40));
  Sent all;
  plain->enter(2, all);
  REQUIRE(all.messages.size() == 3);
  CHECK(all.messages[0].to == 0);
  CHECK(all.messages[2].to == 3);
}

TEST_CASE("the two trees share no inner rank", "[unit]") {
  for (const std::int64_t ranks : {3, 4, 5, 8, 9, 31, 32, 100}) {
    const auto trees =
        make_collective("double_tree", R"({"chunks": 1})", spec_of(CollectiveKind::all_reduce, ranks, 2));
    Sent sent;
    for (Member r = 0; r < ranks; ++r) trees->enter(r, sent);
    // Leaves send at once: every rank is a leaf of one tree at least, and of both only where the number is odd.
    std::vector<int> leaf(static_cast<std::size_t>(ranks), 0);
    for (const Message& message : sent.messages) ++leaf[message.from];
    CHECK(std::ranges::count(leaf, 0) == 0);
    CHECK(std::ranges::count(leaf, 2) == ranks % 2);
  }
}

TEST_CASE("halving-doubling goes near first in an all-reduce", "[unit]") {
  // 8 ranks, 800 bytes: rank 0 exchanges 400 bytes with 1, 200 with 2, 100 with 4, and back.
  const auto schedule = make_collective("halving_doubling", "", spec_of(CollectiveKind::all_reduce, 8, 800));
  Sent sent;
  for (Member r = 0; r < 8; ++r) schedule->enter(r, sent);
  for (std::size_t i = 0; i < sent.messages.size(); ++i) schedule->arrived(Message(sent.messages[i]), sent);
  std::vector<std::pair<Member, std::int64_t>> of_zero;
  for (const Message& message : sent.messages)
    if (message.from == 0) of_zero.emplace_back(message.to, message.bytes);
  CHECK(of_zero ==
        std::vector<std::pair<Member, std::int64_t>>{{1, 400}, {2, 200}, {4, 100}, {4, 100}, {2, 200}, {1, 400}});
  CHECK(sent.done.size() == 8);
}

TEST_CASE("the aggregation tree is the union of the paths", "[unit]") {
  // Hosts 0 1 at switch 1, 2 at switch 2 (nodes 5, 6) under switch 0 (node 4); host 3 is not in the group.
  const SwitchTree tree{{1, 1, 2, 2}, {0, 0, 0}};
  TreeRouting routing(tree);
  const AggregationTree found = aggregation_tree(tree.topology(), routing, {0, 1, 2}, 4);
  CHECK(found.switches == std::vector<NodeIndex>{4, 5, 6});
  CHECK(found.parent == std::vector<Member>{4, 4, 5, AggregationTree::kRoot, 3, 3});
  CHECK_THROWS_WITH(aggregation_tree(tree.topology(), routing, {0, 1}, 2), Catch::Contains("must be a switch"));
  // A route of any links: through a host, and none.
  class Fixed final : public Routing {
   public:
    bool route(NodeIndex, NodeIndex, std::uint64_t, std::vector<LinkIndex>& path) override {
      path.insert(path.end(), links.begin(), links.end());
      return !links.empty();
    }
    void links_changed(const std::vector<bool>&) override {}
    std::vector<LinkIndex> links;
  } fixed;
  CHECK_THROWS_WITH(aggregation_tree(tree.topology(), fixed, {0, 1}, 4),
                    Catch::Contains("no path from node0 to node4"));
  fixed.links = {0, 3};  // host 0 up to switch 1, down to host 1
  CHECK_THROWS_WITH(aggregation_tree(tree.topology(), fixed, {0, 1}, 4),
                    Catch::Contains("the path from node0 to node4 runs through host node1, which cannot aggregate"));
}

TEST_CASE("what a collective cannot be is said", "[unit]") {
  using Kind = CollectiveKind;
  const std::string unsupported = fault_of("ring", spec_of(Kind::all_to_all, 4, 10));
  CHECK(has(unsupported, "collective algorithm 'ring' does not do all_to_all"));
  CHECK(has(unsupported, "those that do: direct, hierarchical"));
  CHECK(has(fault_of("direct", spec_of(Kind::send_recv, 3, 10)), "send_recv is between 2 ranks, got 3"));
  CHECK(has(fault_of("ring", spec_of(Kind::all_reduce, 0, 10)), "a group has 1 to 2^24 - 1 ranks, got 0"));
  CHECK(has(fault_of("ring", spec_of(Kind::all_reduce, 2, -1)), "bytes of a collective are >= 0, got -1"));
  CollectiveSpec spec = spec_of(Kind::broadcast, 4, 10);
  spec.root = 4;
  spec.where = {"run.json", "/collective"};
  CHECK(has(fault_of("ring", spec), "run.json:/collective: root 4 is not in a group of 4 ranks"));
  spec = spec_of(Kind::all_gather, 3, 10);
  spec.shard_bytes = {5, 5, 1};
  CHECK(has(fault_of("ring", spec), "sizes of shards must be one a rank, >= 0, and sum to the collective's bytes"));
  spec.kind = Kind::all_reduce;
  CHECK(has(fault_of("ring", spec), "sizes of shards given to all_reduce"));
  spec = spec_of(Kind::all_to_all, 2, 10);
  spec.pair_bytes = {0, 1, -1, 0};
  CHECK(has(fault_of("direct", spec), "sizes of pairs must be one for each two ranks, >= 0"));
  spec.kind = Kind::all_reduce;
  CHECK(has(fault_of("direct", spec), "sizes of pairs given to all_reduce"));
  spec = spec_of(Kind::all_reduce, 3, 10);
  CHECK(has(fault_of("hierarchical", spec), "hierarchical needs the node of every rank, got 0 for 3 ranks"));
  spec.local_group = {0, 2, 2};
  CHECK(has(fault_of("hierarchical", spec), "nodes of ranks must be numbered from 0 without gaps"));
  spec.local_group = {0, 1, 1};
  spec.kind = Kind::broadcast;
  CHECK(has(fault_of("hierarchical", spec, R"({"across": "halving_doubling"})"),
            "'halving_doubling' does not do broadcast"));
  const std::string no_tree = "in_network needs a tree of switches with every rank as a leaf";
  CHECK(has(fault_of("in_network", spec), no_tree));
  constexpr Member top = AggregationTree::kRoot;
  const auto tree = [&](std::vector<NodeIndex> switches, std::vector<Member> parent) {
    spec.tree = {std::move(switches), std::move(parent)};
    return fault_of("in_network", spec);
  };
  CHECK(tree({9}, {3, 3, 3, top}) == "none");
  CHECK(has(tree({9}, {3, 3, 0, top}), no_tree));          // a rank above a rank
  CHECK(has(tree({9, 8}, {3, 3, 3, 4, 3}), no_tree));      // a circle
  CHECK(has(tree({9, 8}, {3, 3, 4, top, top}), no_tree));  // two roots
  CHECK(has(tree({9, 8}, {3, 3, 3, top, 3}), no_tree));    // nothing below a switch
  CHECK(has(fault_of("ring", spec_of(Kind::all_reduce, 1 << 20, 1 << 30), R"({"chunks": 1048576})"),
            "1048576 chunks are too many for this group, the most is 2048"));
  // 2^20 ranks on 4096 channels: 2^32 messages to a rank and more, of which 2^31 are counted.
  const std::string crowded = fault_of("ring", spec_of(Kind::all_reduce, 1 << 20, 10), R"({"channels": 4096})");
  CHECK(has(crowded, "too many messages even with one chunk"));
  CHECK(has(crowded, "lower channels"));
  CHECK(has(fault_of("ring", spec_of(Kind::all_reduce, 2, 2), R"({"chunks": 0})"), "chunks"));
}

}  // namespace test_collectives
