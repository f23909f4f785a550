// The executor: order on connections, windows, stragglers, many runs at once, cost.
#include <catch2/catch.hpp>
#include <chrono>

#include "tests/hw/collective_carriers.hpp"
#include "tests/hw/collective_check.hpp"

namespace test_collective_run {

using namespace orrery;
using namespace orrery::hw;
using namespace orrery::hw::test;

namespace {

constexpr AlphaBeta kCost{1e-6, 1e9};  // 1 us and a byte a ns

CollectiveSpec spec_of(CollectiveKind kind, std::int64_t ranks, std::int64_t bytes) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.ranks = ranks;
  spec.bytes = bytes;
  return spec;
}

double us(sim::Time time) {
  return static_cast<double>(time.ticks) * 1e-6;
}

class Log final : public CollectiveListener {
 public:
  void rank_done(Member rank) override { ranks.push_back(rank); }
  void all_done() override { ++ends; }
  std::vector<Member> ranks;
  int ends = 0;
};

}  // namespace

TEST_CASE("a broadcast pipelines chunks over a chain", "[unit]") {
  // 3 ranks, 4 chunks of 1000 bytes: 2 us each hop. Rank 1 has chunk k at 2 (k+1) us, rank 2 two us later.
  sim::Engine engine;
  PairCarrier carrier(engine, kCost);
  const CollectiveSpec spec = spec_of(CollectiveKind::broadcast, 3, 4000);
  Log log;
  CollectiveRun run(engine, carrier, make_ring({.chunks = 4}, spec), 3, {10, 11, 12}, {}, &log);
  run.enter_all();
  CHECK_FALSE(run.done());
  engine.run();
  CHECK(us(run.done_at(0)) == Approx(8));   // until its last chunk has arrived
  CHECK(us(run.done_at(1)) == Approx(10));  // has it all at 8, and passes it on until 10
  CHECK(us(run.done_at(2)) == Approx(10));
  CHECK(us(run.done_at()) == Approx(10));
  CHECK(log.ranks.size() == 3);
  CHECK(log.ends == 1);
  CHECK(run.messages() == 8);
  CHECK(run.bytes() == 8000);
}

TEST_CASE("a window lets more messages of a connection travel together", "[unit]") {
  // The same, two at a time: links here are not shared, so chunks 0,1 arrive at 2 us and 2,3 at 4; rank 2 at 6 us.
  sim::Engine engine;
  PairCarrier carrier(engine, kCost);
  CollectiveRun run(engine, carrier, make_ring({.chunks = 4}, spec_of(CollectiveKind::broadcast, 3, 4000)), 3,
                    {0, 1, 2}, {.window = 2});
  run.enter_all();
  engine.run();
  CHECK(us(run.done_at()) == Approx(6));
}

TEST_CASE("a straggler delays a ring by what it is late", "[unit]") {
  // 4 ranks, 4000 bytes, rank 2 is 100 us late: its shards leave then, and 6 steps of 2 us follow.
  sim::Engine engine;
  PairCarrier carrier(engine, kCost);
  CollectiveRun run(engine, carrier, make_ring({}, spec_of(CollectiveKind::all_reduce, 4, 4000)), 4, {0, 1, 2, 3});
  for (const Member rank : {0U, 1U, 3U}) run.enter_at(rank, sim::Time{0});
  run.enter_at(2, sim::Time{100'000'000});
  engine.run();
  // Rank 1 sent shards 0, 3 and 2 (steps 0-2) before: they wait at rank 2 and leave one after the other with its own,
  // so the last of the chain through rank 2 is no later than six messages on its connection: 100 + 6 * 2.
  CHECK(us(run.done_at()) == Approx(112));
  for (Member rank = 0; rank < 4; ++rank) CHECK(us(run.done_at(rank)) > 100);
  // Nobody waits in a broadcast from rank 0 for a late last rank.
  CollectiveRun second(engine, carrier, make_ring({}, spec_of(CollectiveKind::broadcast, 4, 1000)), 4, {0, 1, 2, 3});
  const sim::Time start = engine.now();
  for (const Member rank : {0U, 1U, 2U}) second.enter_at(rank, start);
  second.enter_at(3, start + sim::Duration{50'000'000});
  engine.run();
  CHECK(us(second.done_at(1)) - us(start) == Approx(4));
  CHECK(us(second.done_at(3)) - us(start) == Approx(50));
}

TEST_CASE("a message to a late rank keeps its slot of a direct window", "[unit]") {
  // A broadcast of 1000 bytes, 2 us each, from rank 0 to 1 and 2; rank 1 enters at 50 us. One at a time, rank 2 is
  // served from then on; two at a time, or without a window, at once.
  for (const auto& [window, done] : {std::pair{1, 52.0}, {2, 2.0}, {0, 2.0}}) {
    sim::Engine engine;
    PairCarrier carrier(engine, kCost);
    CollectiveRun run(engine, carrier, make_direct({.window = window}, spec_of(CollectiveKind::broadcast, 3, 1000)), 3,
                      {0, 1, 2});
    run.enter(0);
    run.enter(2);
    run.enter_at(1, sim::Time{50'000'000});
    engine.run();
    CHECK(us(run.done_at(2)) == Approx(done));
    CHECK(us(run.done_at(1)) == Approx(50));
  }
}

TEST_CASE("several jobs share ports", "[unit]") {
  // Two rings of 2000 bytes over the same two ranks with one port each: 1000-byte messages, 2 us, alternate. Each
  // needs two messages a rank, so four in a row: one job ends after 7 or 8 us, both after 8.
  sim::Engine engine;
  PortCarrier carrier(engine, kCost, 2);
  const CollectiveSpec spec = spec_of(CollectiveKind::all_reduce, 2, 2000);
  CollectiveRun a(engine, carrier, make_ring({}, spec), 2, {0, 1});
  CollectiveRun b(engine, carrier, make_ring({}, spec), 2, {1, 0});
  a.enter_all();
  b.enter_all();
  engine.run();
  CHECK(us(b.done_at()) == Approx(8));
  CHECK(us(a.done_at()) == Approx(6));
}

TEST_CASE("groups of one, no bytes, and every algorithm through the executor", "[unit]") {
  for (const std::string algorithm : {"ring", "direct", "double_tree", "halving_doubling", "hierarchical"}) {
    for (const std::int64_t ranks : {1, 2, 6}) {
      for (const std::int64_t bytes : {0, 1, 1000}) {
        CollectiveSpec spec = spec_of(CollectiveKind::all_reduce, ranks, bytes);
        for (std::int64_t r = 0; r < ranks; ++r) spec.local_group.push_back(static_cast<std::uint32_t>(r == 5 ? 1 : 0));
        sim::Engine engine;
        PairCarrier carrier(engine, kCost);
        CollectiveRun run(engine, carrier, make_collective(algorithm, "", spec), ranks, plain_nodes(spec));
        run.enter_all();
        engine.run();
        CAPTURE(algorithm, ranks, bytes);
        REQUIRE(run.done());
        CHECK((run.messages() == 0) == (ranks == 1 || bytes == 0));
        CHECK(run.bytes() == 2 * (ranks - 1) * bytes);
      }
    }
  }
}

TEST_CASE("a run refuses what it cannot do", "[unit]") {
  sim::Engine engine;
  PairCarrier carrier(engine, kCost);
  const CollectiveSpec spec = spec_of(CollectiveKind::all_reduce, 2, 10);
  CHECK_THROWS_AS(CollectiveRun(engine, carrier, make_ring({}, spec), 2, {0, 1}, {.window = 0}), std::invalid_argument);
  CHECK_THROWS_AS(CollectiveRun(engine, carrier, make_ring({}, spec), 2, {0}), std::invalid_argument);
  CollectiveSpec with_tree = spec;
  with_tree.tree = {{7}, {2, 2, AggregationTree::kRoot}};
  CollectiveRun no_switch(engine, carrier, make_in_network({}, with_tree), 2, {0, 1});
  CHECK_THROWS_WITH(no_switch.enter(0), "a collective needs the node of every switch of its tree: see member_nodes()");
  CollectiveRun run(engine, carrier, make_ring({}, spec), 2, {0, 1});
  run.enter(0);
  CHECK_THROWS_AS(run.enter(0), std::logic_error);
}

TEST_CASE("switches are nodes of the carrier", "[unit]") {
  // Two hosts at one switch (node 7): 2 chunks of 1000 bytes up at 2 and 4 us, down at 4 and 6.
  CollectiveSpec spec = spec_of(CollectiveKind::all_reduce, 2, 2000);
  spec.tree = {{7}, {2, 2, AggregationTree::kRoot}};
  std::vector<NodeIndex> seen;
  sim::Engine engine;
  PairCarrier carrier(engine, [&](NodeIndex from, NodeIndex to) {
    seen.push_back(from);
    seen.push_back(to);
    return kCost;
  });
  const std::vector<NodeIndex> hosts{3, 4};
  CollectiveRun run(engine, carrier, make_in_network({.chunks = 2}, spec), 2, member_nodes(hosts, spec.tree));
  run.enter_all();
  engine.run();
  CHECK(us(run.done_at()) == Approx(6));
  CHECK(seen.size() == 16);
  for (std::size_t i = 0; i < seen.size(); i += 2) CHECK(((seen[i] == 7) != (seen[i + 1] == 7)));
}

TEST_CASE("a ring of 1024 ranks: two million messages", "[unit]") {
  const CollectiveSpec spec = spec_of(CollectiveKind::all_reduce, 1024, 64 << 20);
  sim::Engine engine;
  PairCarrier carrier(engine, AlphaBeta{500e-9, 50.0 * (1 << 30)});
  // 2046 steps of 500 ns + 65536 B / (50 * 2^30 B/s) = 1220.703125 ns, 1,720,704 ticks rounded up.
  CHECK(simulated_ticks(RingParams{}, spec, engine, carrier) == 2046 * std::int64_t{1'720'704});
  CHECK(engine.events() == 2046 * 1024);
}

}  // namespace test_collective_run
