// Closed forms against the chunk simulation, and all algorithms against the lower bounds.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tests/hw/collective_carriers.hpp"
#include "tests/hw/collective_check.hpp"

namespace test_collective_closed_form {

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

using Kind = CollectiveKind;
constexpr AlphaBeta kCost{500e-9, 1e12};  // a byte a tick

CollectiveSpec spec_of(Kind kind, std::int64_t ranks, std::int64_t bytes) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.ranks = ranks;
  spec.bytes = bytes;
  return spec;
}

/// A tree of switches with `fan` children each and `levels` of them, ranks under the lowest.
void add_tree(CollectiveSpec& spec, std::int64_t fan, int levels) {
  spec.tree = {};
  std::vector<Member> level;
  for (Member r = 0; r < spec.ranks; ++r) level.push_back(r);
  spec.tree.parent.assign(level.size(), AggregationTree::kRoot);
  for (int i = 0; i < levels; ++i) {
    std::vector<Member> above;
    for (std::size_t m = 0; m < level.size(); ++m) {
      if (above.empty() || (m % static_cast<std::size_t>(fan) == 0 && i + 1 < levels)) {
        above.push_back(static_cast<Member>(spec.tree.parent.size()));
        spec.tree.parent.push_back(AggregationTree::kRoot);
        spec.tree.switches.push_back(above.back());
      }
      spec.tree.parent[level[m]] = above.back();
    }
    level = above;
  }
}

/// The value, held to the simulation: at most `steps` roundings of a tick below, and a byte (a tick) a step above.
bool check_held(const CollectiveAlgorithm& algorithm, const CollectiveSpec& spec, std::int64_t steps) {
  const std::optional<double> seconds = collective_seconds(algorithm, spec, kCost);
  if (!seconds) return false;
  sim::Engine engine;
  PairCarrier carrier(engine, kCost);
  const std::int64_t ticks = simulated_ticks(algorithm, spec, engine, carrier);
  const auto formula = static_cast<std::int64_t>(std::llround(*seconds * 1e12));
  CAPTURE(sim::to_string(spec.kind), spec.ranks, spec.bytes, algorithm.index(), formula, ticks, steps);
  CHECK(ticks >= formula - 2 * steps - 1);
  CHECK(ticks <= formula + steps + 1);
  return true;
}

std::vector<CollectiveAlgorithm> algorithms() {
  return {RingParams{},
          RingParams{.chunks = 3},
          RingParams{.channels = 2, .chunks = 2, .bidirectional = true},
          RingParams{.chunk_bytes = 1000},
          DoubleTreeParams{.chunks = 1},
          DoubleTreeParams{.chunks = 8},
          HalvingDoublingParams{},
          DirectParams{},
          DirectParams{.window = 1},
          DirectParams{.window = 3},
          InNetworkParams{.chunks = 5}};
}

const char* name_of(const CollectiveAlgorithm& algorithm) {
  static constexpr std::array<const char*, 6> kNames{"ring",   "double_tree",  "halving_doubling",
                                                     "direct", "hierarchical", "in_network"};
  return kNames[algorithm.index()];
}

/// Steps that may round: more than any algorithm's longest chain.
std::int64_t chain(const CollectiveSpec& spec) {
  return 2 * spec.ranks * (4 + spec.bytes / std::max<std::int64_t>(spec.ranks, 1) / 1000);
}

}  // namespace

TEST_CASE("closed forms are what the chunk simulation takes", "[prop]") {
  int held = 0;
  for (const CollectiveAlgorithm& algorithm : algorithms()) {
    for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all, Kind::broadcast,
                            Kind::send_recv}) {
      if (!supports(name_of(algorithm), kind)) continue;
      for (const std::int64_t ranks : {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 33, 64}) {
        if (kind == Kind::send_recv && ranks != 2) continue;
        for (const std::int64_t bytes : {0, 1, 5, 720720, 1234567}) {
          CollectiveSpec spec = spec_of(kind, ranks, bytes);
          spec.root = ranks / 2;
          if (algorithm.index() == 5) add_tree(spec, 4, ranks > 4 ? 2 : 1);
          const bool found = check_held(algorithm, spec, chain(spec));
          held += found ? 1 : 0;
          // What has no formula: a window or chunks with fewer bytes than pieces, and in_network's scattering.
          const bool small = bytes == 1 || bytes == 5;
          const bool scattered = kind == Kind::all_gather || kind == Kind::reduce_scatter;
          CAPTURE(name_of(algorithm), sim::to_string(kind), ranks, bytes);
          CHECK((found || (small && algorithm.index() != 1) || (algorithm.index() == 5 && scattered)));
        }
      }
    }
  }
  CHECK(held > 1800);
}

TEST_CASE("closed forms with bytes that divide are exact", "[theory]") {
  // 8 ranks, 8e6 bytes, a byte a ps, 500 ns a message. Shard 1e6: c = 0.5 + 1 us.
  const CollectiveSpec spec = spec_of(Kind::all_reduce, 8, 8'000'000);
  const auto both = [&](const CollectiveAlgorithm& algorithm, double us) {
    CHECK(collective_seconds(algorithm, spec, kCost).value() == Approx(us * 1e-6).epsilon(1e-12));
    sim::Engine engine;
    PairCarrier carrier(engine, kCost);
    CHECK(std::abs(static_cast<double>(simulated_ticks(algorithm, spec, engine, carrier)) - us * 1e6) <= 64);
  };
  both(RingParams{}, 14 * 1.5);                                // 2 (n-1) (alpha + S/n)
  both(RingParams{.chunks = 2}, 14 * 2 * 1.0);                 // twice the messages of half the bytes
  both(RingParams{.bidirectional = true}, 14 * 1.0);           // half of the shard each way
  both(DoubleTreeParams{.chunks = 4}, (2 * 3 + 4 - 1) * 1.5);  // height floor(log2 8) = 3, chunks of 1e6
  both(HalvingDoublingParams{}, 6 * 0.5 + 2 * 7.0);            // 2 log2(n) alpha + 2 (n-1)/n S
  both(DirectParams{}, 2 * 1.5);                               // two rounds, every pair at once
  both(DirectParams{.window = 2}, 2 * 4 * 1.5);                // ceil(7/2) rounds of two, twice
}

TEST_CASE("hierarchical closed form: its levels have costs of their own", "[prop]") {
  const AlphaBeta inside{200e-9, 1e12};
  const AlphaBeta across{2e-6, 1e11};
  int held = 0;
  for (const LevelAlgorithm in : {LevelAlgorithm::ring, LevelAlgorithm::direct, LevelAlgorithm::halving_doubling}) {
    for (const LevelAlgorithm out : {LevelAlgorithm::ring, LevelAlgorithm::direct, LevelAlgorithm::halving_doubling}) {
      for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter, Kind::broadcast}) {
        const bool unable = kind == Kind::broadcast &&
                            (in == LevelAlgorithm::halving_doubling || out == LevelAlgorithm::halving_doubling);
        for (const std::int64_t size : {1, 2, 3, 8}) {
          for (const std::int64_t nodes : {1, 2, 4, 5}) {
            CollectiveSpec spec = spec_of(kind, size * nodes, 1'234'567);
            for (std::int64_t r = 0; r < spec.ranks; ++r)
              spec.local_group.push_back(static_cast<std::uint32_t>(r % nodes));
            const HierarchicalParams params{.inside = in, .across = out, .ring = {.chunks = 2}};
            if (unable) {
              CHECK_THROWS_AS(make_hierarchical(params, spec), sim::ConfigError);
              CHECK_THROWS_AS(collective_seconds(params, spec, inside, across), sim::ConfigError);
              continue;
            }
            const std::optional<double> seconds = collective_seconds(params, spec, inside, across);
            const bool odd = (in == LevelAlgorithm::halving_doubling && size == 3) ||
                             (out == LevelAlgorithm::halving_doubling && nodes == 5);
            CAPTURE(size, nodes, sim::to_string(kind));
            CHECK(seconds.has_value() != odd);
            if (!seconds) continue;
            sim::Engine engine;
            PairCarrier carrier(engine, [&](NodeIndex a, NodeIndex b) {
              return spec.local_group[a] == spec.local_group[b] ? inside : across;
            });
            const std::int64_t ticks = simulated_ticks(params, spec, engine, carrier);
            // A byte across is ten ticks, at most 2 * 2 * 20 messages follow each other.
            CHECK(std::abs(static_cast<double>(ticks) - *seconds * 1e12) <= 11 * 80 + 1);
            ++held;
          }
        }
      }
    }
  }
  CHECK(held == 427);
  CollectiveSpec uneven = spec_of(Kind::all_reduce, 3, 100);
  uneven.local_group = {0, 0, 1};
  CHECK_FALSE(collective_seconds(HierarchicalParams{}, uneven, inside, across).has_value());
}

TEST_CASE("no algorithm beats the bounds where a rank has one port", "[theory]") {
  for (const CollectiveAlgorithm& algorithm : algorithms()) {
    if (algorithm.index() == 5) continue;  // there the network computes
    for (const Kind kind : {Kind::all_reduce, Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all, Kind::broadcast,
                            Kind::send_recv}) {
      if (!supports(name_of(algorithm), kind)) continue;
      for (const std::int64_t ranks : {2, 3, 8, 13}) {
        if (kind == Kind::send_recv && ranks != 2) continue;
        for (const std::int64_t bytes : {1, 17, 100'000, 5'000'000}) {
          const CollectiveSpec spec = spec_of(kind, ranks, bytes);
          sim::Engine engine;
          PortCarrier carrier(engine, kCost, static_cast<std::size_t>(ranks));
          const std::int64_t ticks = simulated_ticks(algorithm, spec, engine, carrier);
          CAPTURE(name_of(algorithm), sim::to_string(kind), ranks, bytes);
          CHECK(static_cast<double>(ticks) >= collective_lower_bound(spec, kCost) * 1e12 * (1 - 1e-12));
        }
      }
    }
  }
  // Reached: bandwidth by the ring (5e9 bytes: latency is 14 * 0.5 us of 8.75 ms), latency by halving and doubling.
  const CollectiveSpec large = spec_of(Kind::all_reduce, 8, 5'000'000'000);
  CHECK(*collective_seconds(RingParams{}, large, kCost) < 1.001 * collective_lower_bound(large, kCost));
  const CollectiveSpec small = spec_of(Kind::all_gather, 8, 8);
  CHECK(*collective_seconds(HalvingDoublingParams{}, small, kCost) < 1.001 * collective_lower_bound(small, kCost));
}

TEST_CASE("direct in a staggered order keeps all ports busy, in a plain order it does not", "[theory]") {
  // 8 ranks with one port: 7 rounds of alpha + S/n. In plain order all begin with rank 0.
  const CollectiveSpec spec = spec_of(Kind::all_to_all, 8, 8'000'000);
  sim::Engine engine;
  PortCarrier carrier(engine, kCost, 8);
  CHECK(std::abs(simulated_ticks(DirectParams{}, spec, engine, carrier) - 7 * 1'500'000) <= 8);
  sim::Engine second;
  PortCarrier plain(second, kCost, 8);
  CHECK(simulated_ticks(DirectParams{.staggered = false}, spec, second, plain) > 8 * 1'500'000);
}

TEST_CASE("where a closed form holds on a topology", "[unit]") {
  // 8 hosts at one switch of 1 GB/s and 1 us cables.
  SwitchTree star{std::vector<NodeIndex>(8, 0), {0}};
  TreeRouting routing(star);
  const Topology topology = star.topology();
  std::vector<NodeIndex> nodes{0, 1, 2, 3, 4, 5, 6, 7};
  const CollectiveSpec spec = spec_of(Kind::all_reduce, 8, 8'000'000);
  const auto on = [&](const CollectiveAlgorithm& a, const CollectiveSpec& s) {
    return collective_on(a, s, nodes, topology, routing, 0.5e-6);
  };
  // Ring: a host sends to one other: 14 (2.5 us + 1 ms). Direct: its 7 messages share the cable: 2 (2.5 us + 7 ms).
  CHECK(on(RingParams{}, spec).value() == Approx(14 * 1.0025e-3));
  CHECK(on(DirectParams{}, spec).value() == Approx(2 * 7.0025e-3));
  CHECK(on(DirectParams{.window = 7}, spec).value() == Approx(2 * 7.0025e-3));
  CHECK(on(HalvingDoublingParams{}, spec).value() == Approx(6 * 2.5e-6 + 14e-3));
  // Both directions of a ring share the cable of a host, evenly: two halves at half the bandwidth.
  CHECK(on(RingParams{.bidirectional = true}, spec).value() == Approx(14 * 1.0025e-3));
  // Inner ranks of a tree have two children on one cable.
  CHECK_FALSE(on(DoubleTreeParams{}, spec).has_value());
  // A broadcast's pipeline over one cable each; over two channels it shares.
  CHECK(on(RingParams{.chunks = 4}, spec_of(Kind::broadcast, 8, 8'000'000)).value() == Approx(10 * 2.0025e-3));
  CHECK_FALSE(on(RingParams{.channels = 2}, spec_of(Kind::broadcast, 8, 8'000'000)).has_value());
  CHECK_FALSE(on(RingParams{}, spec_of(Kind::all_reduce, 8, 7)).has_value());

  CollectiveSpec nodes_of_four = spec;
  nodes_of_four.local_group = {0, 0, 0, 0, 1, 1, 1, 1};
  // Inside: 3 rounds of 2 MB twice; across: 2 rounds of 1 MB.
  CHECK(on(HierarchicalParams{}, nodes_of_four).value() == Approx(6 * 2.0025e-3 + 2 * 1.0025e-3));
  CollectiveSpec switched = spec;
  switched.tree = aggregation_tree(topology, routing, nodes, star.root());
  nodes.push_back(star.root());
  CHECK(on(InNetworkParams{.chunks = 8}, switched).value() == Approx((2 + 7) * 1.0015e-3));

  // Two switches with one cable between: the ring crosses it once each way, as lonely as inside; its paths are longer.
  SwitchTree two{{0, 0, 1, 1}, {0, 0}};
  TreeRouting over(two);
  const Topology pair = two.topology();
  const CollectiveSpec four = spec_of(Kind::all_reduce, 4, 4000);
  CHECK_FALSE(collective_on(RingParams{}, four, {0, 1, 2, 3}, pair, over).has_value());
  // Alternating, every message crosses: two share the cable each way.
  CHECK(collective_on(RingParams{}, four, {0, 2, 1, 3}, pair, over).value() == Approx(6 * (3e-6 + 1000 / 0.5e9)));
}

TEST_CASE("ring all-reduce beside ASTRA-sim", "[golden]") {
  // 2^26 bytes, 50 * 2^30 B/s, 500 ns; ns that ASTRA-sim answers, and what docs/explain/collectives.md shows beside
  // them.
  struct Row {
    std::int64_t ranks;
    double astra, plain, chunked, reduced;
  };
  for (const Row row : {Row{8, 2326112, 2194500, 2216060, 2326160}, Row{64, 2840836, 2523938, 2717978, 2841841},
                        Row{256, 3651640, 2745234, 3530634, 3655972}, Row{1024, 6792760, 3520559, 6671399, 6797105}}) {
    const CollectiveSpec spec = spec_of(Kind::all_reduce, row.ranks, 1 << 26);
    const double bandwidth = 50.0 * (1 << 30);
    const double plain = *collective_seconds(RingParams{}, spec, AlphaBeta{500e-9, bandwidth}) * 1e9;
    const double chunked = *collective_seconds(RingParams{.chunks = 4}, spec, AlphaBeta{510e-9, bandwidth}) * 1e9;
    // Three accesses to every byte of a shard in the n-1 steps that reduce, at 1600 GB/s.
    const double n = static_cast<double>(row.ranks);
    const double reduced = chunked + (n - 1) * 3 * static_cast<double>(1 << 26) / n / 1600;
    CHECK(std::abs(plain - row.plain) <= 0.51);
    CHECK(std::abs(chunked - row.chunked) <= 0.51);
    CHECK(std::abs(reduced - row.reduced) <= 0.51);
    CHECK(std::abs(reduced / row.astra - 1) < 0.0013);
  }
}

}  // namespace test_collective_closed_form
