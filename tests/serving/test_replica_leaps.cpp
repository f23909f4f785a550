// Leaps of a replica: how they stand in time, and which blocks decodes take on the way.
#include "tests/serving/replica_parts.hpp"

namespace test_replica_leaps {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using policies::SeqId;

TEST_CASE("blocks that decodes take: at their residue, once a block of steps", "[unit]") {
  // Blocks of 4 tokens: 2 of them at the clocks 1, 5, 9 …, 1 of them at 3, 7, 11 ….
  BlockGrowth growth(4);
  CHECK_FALSE(growth.any());
  CHECK(growth.next(5) == 0);
  CHECK(growth.blocks(5, 100) == 0);
  CHECK(growth.steps_with(0, 5, 100) == 100);
  CHECK(growth.add(5, 2) == 1);
  CHECK(growth.add(7, 1) == 3);
  CHECK(growth.any());
  CHECK(growth.residue(11) == 3);
  CHECK(growth.at(5) == 2);
  CHECK(growth.at(6) == 0);
  CHECK(growth.next(9) == 2);
  CHECK(growth.next(11) == 1);
  CHECK(std::vector<std::int64_t>(growth.taken(), growth.taken() + 4) == std::vector<std::int64_t>{0, 2, 0, 1});
  // From 5 on: 2, 0, 1, 0, 2, 0, 1, 0.
  std::vector<std::int64_t> taken;
  for (std::int64_t steps = -1; steps <= 8; ++steps) taken.push_back(growth.blocks(5, steps));
  CHECK(taken == std::vector<std::int64_t>{0, 0, 2, 2, 3, 3, 5, 5, 6, 6});
  CHECK(growth.blocks(7, 6) == 1 + 2 + 1);
  growth.remove(1, 2);
  CHECK(growth.any());
  CHECK(growth.blocks(5, 8) == 2);
  growth.remove(3, 1);
  CHECK_FALSE(growth.any());
  CHECK(growth.blocks(5, 8) == 0);
}

TEST_CASE("how many steps so many blocks are enough for", "[unit]") {
  BlockGrowth growth(4);
  growth.add(5, 2);
  growth.add(7, 1);
  // From 5 on: 2, 0, 1, 0, 2, 0, 1, 0, 2 ….
  std::vector<std::int64_t> steps;
  for (std::int64_t available = 0; available <= 7; ++available) steps.push_back(growth.steps_with(available, 5, 100));
  CHECK(steps == std::vector<std::int64_t>{0, 0, 2, 4, 4, 6, 8, 8});
  CHECK(growth.steps_with(0, 6, 100) == 1);
  CHECK(growth.steps_with(1, 6, 100) == 3);
  // Never more than are asked for: with whole blocks of steps to spare, at their edge, and before it.
  CHECK(growth.steps_with(100, 5, 9) == 9);
  CHECK(growth.steps_with(6, 5, 7) == 7);
  CHECK(growth.steps_with(6, 5, 8) == 8);
  CHECK(growth.steps_with(6, 5, 9) == 8);
  CHECK(growth.steps_with(5, 5, 5) == 5);
  CHECK(growth.steps_with(2, 5, 1) == 1);
  CHECK(growth.steps_with(2, 5, 2) == 2);
  CHECK(growth.steps_with(2, 5, 3) == 2);
}

TEST_CASE("iterations of a leap get longer by the same step, and are over at their end", "[unit]") {
  // 10 ps and 1 of the host, 2 more each: 11, 13, 15; ends at 11, 24, 39 after the start at 100.
  Leap leap;
  leap.start = {100, 0};
  leap.planned = 3;
  leap.price = {.time_ps = 10, .step_ps = 2, .energy_pj = 7, .step_energy_pj = 3};
  leap.extra_ps = 1;
  CHECK(leap.elapsed(0) == 0);
  CHECK(leap.elapsed(1) == 11);
  CHECK(leap.elapsed(3) == 39);
  CHECK(leap.time_of(2) == ExactTime{124, 0});
  CHECK(leap.energy_pj(2) == 13);
  const auto over = [&](std::int64_t at) { return leap.over_at({at, 0}); };
  CHECK(over(110) == 0);
  CHECK(over(111) == 1);
  CHECK(over(123) == 1);
  CHECK(over(124) == 2);
  CHECK(over(138) == 2);
  CHECK(over(139) == 3);
  CHECK(over(1000) == 3);
  leap.done = 2;
  CHECK(over(100) == 2);
  CHECK(over(139) == 3);
  // Within a tick of 1 ns.
  leap.ps_per_tick = 1000;
  CHECK(leap.time_of(1) == ExactTime{100, 11});
  CHECK(leap.over_at({100, 38}) == 2);
  CHECK(leap.over_at({100, 39}) == 3);
  CHECK(leap.over_at({101, 0}) == 3);
}

TEST_CASE("a leap is cut to what 63 bits of picoseconds tell, and one that passes the end of time is an error",
          "[unit]") {
  constexpr std::int64_t kUnit = std::int64_t{1} << 60;  // of four, 62 bits are full
  const sim::TickScale scale{1};
  const auto fit = [&](std::int64_t planned, std::int64_t time_ps, std::int64_t step_ps, std::int64_t extra_ps,
                       std::int64_t start) {
    Leap leap;
    leap.start = {start, 0};
    leap.planned = planned;
    leap.price = {.time_ps = time_ps, .step_ps = step_ps};
    leap.extra_ps = extra_ps;
    leap.fit_in_time(scale);
    return leap.planned;
  };
  CHECK(fit(3, kUnit, 0, 0, 0) == 3);
  CHECK(fit(4, kUnit, 0, 0, 0) == 2);
  CHECK(fit(7, kUnit, 0, 0, 0) == 3);
  CHECK(fit(2, kUnit, 0, kUnit, 0) == 1);
  // The steps of n iterations add n (n - 1) / 2: 6 halves of a unit for 4, 10 of them for 5.
  CHECK(fit(4, 0, kUnit / 2, 0, 0) == 4);
  CHECK(fit(5, 0, kUnit / 2, 0, 0) == 2);
  // Eight units are the end of time at a tick of 1 ps.
  CHECK(fit(3, kUnit, 0, 0, 4 * kUnit) == 3);
  CHECK(fit(1, 4 * kUnit, 0, 0, 0) == 1);
  CHECK_THROWS_AS(fit(1, 4 * kUnit, 0, 0, 4 * kUnit), std::overflow_error);
  CHECK_THROWS_AS(fit(2, kUnit, 0, 0, 6 * kUnit), std::overflow_error);
}

TEST_CASE("an exact time is told in whole ticks and the picoseconds after them", "[unit]") {
  const ExactTime at{7, 900};
  CHECK(at.plus(99, 1000) == ExactTime{7, 999});
  CHECK(at.plus(100, 1000) == ExactTime{8, 0});
  CHECK(at.plus(2350, 1000) == ExactTime{10, 250});
  CHECK(ExactTime{7, 0}.plus(5, 1) == ExactTime{12, 0});
  CHECK(ExactTime{10, 250}.minus(at, 1000) == 2350);
  CHECK(at.tick() == sim::Time{8});
  CHECK(ExactTime{7, 1}.tick() == sim::Time{8});
  CHECK(ExactTime{7, 0}.tick() == sim::Time{7});
}

TEST_CASE("steady decodes: their context and their counts follow the clock", "[unit]") {
  Workbench bench;
  SteadyDecodes steady(bench.table, bench.parts);
  const SeqId a = bench.decode(10, 50), b = bench.decode(20, 50, 0, 2);
  steady.enter(a, false);
  CHECK(bench.table[a].steady);
  CHECK(steady.count() == 1);
  CHECK(steady.branches() == 1);
  CHECK(steady.context() == 10 + 1);
  steady.step(2, {100, 0});
  CHECK(steady.clock() == 2);
  CHECK(steady.context() == 12 + 1);
  steady.enter(b, true);
  CHECK(steady.count() == 2);
  CHECK(steady.branches() == 3);
  CHECK(steady.measured() == 3);
  CHECK(steady.context() == 12 + 2 * 20 + 3);
  steady.step(3, {200, 0});
  CHECK(steady.context() == 15 + 2 * 23 + 3);
  steady.leave(a);
  CHECK_FALSE(bench.table[a].steady);
  CHECK(bench.table[a].kv_then == 15);
  CHECK(bench.table[a].generated_then == 6);
  CHECK(bench.table[a].since == 5);
  CHECK(bench.requests[0].last_token == ExactTime{200, 0});
  CHECK(steady.count() == 1);
  CHECK(steady.branches() == 2);
  CHECK(steady.measured() == 2);
  CHECK(steady.context() == 2 * 23 + 2);
  // b has not stepped since it joined as far as gaps go: its last token is its own.
  steady.leave(b);
  CHECK(bench.requests[1].last_token == ExactTime{});
  CHECK(bench.table[b].kv_then == 23);
  CHECK(steady.context() == 0);
  CHECK(steady.measured() == 0);
}

TEST_CASE("steady decodes: only those within the measured time count in latencies", "[unit]") {
  Workbench bench;
  bench.metrics.warmup = sim::Time{10};
  SteadyDecodes steady(bench.table, bench.parts);
  const SeqId early = bench.decode(10, 50), late = bench.decode(10, 50, 0, 2);
  bench.table[early].arrived = sim::Time{9};
  bench.table[late].arrived = sim::Time{10};
  steady.enter(early, true);
  steady.enter(late, true);
  CHECK(steady.branches() == 3);
  CHECK(steady.measured() == 2);
  steady.leave(late);
  CHECK(steady.measured() == 0);
  steady.leave(early);
  CHECK(steady.measured() == 0);
}

TEST_CASE("steady decodes end at their clock, by order of arrival, and not if they left before", "[unit]") {
  Workbench bench;
  SteadyDecodes steady(bench.table, bench.parts);
  const SeqId a = bench.decode(10, 4), b = bench.decode(10, 4), c = bench.decode(10, 3), d = bench.decode(10, 4);
  for (const SeqId id : {d, b, c, a}) steady.enter(id, true);
  CHECK_FALSE(steady.next_ended());
  steady.leave(d);
  steady.step(1, {1, 0});
  CHECK_FALSE(steady.next_ended());
  steady.step(1, {2, 0});  // c has its third token
  CHECK(steady.next_ended() == c);
  CHECK(bench.table[c].generated_then == 3);
  CHECK_FALSE(bench.table[c].steady);
  CHECK_FALSE(steady.next_ended());
  steady.enter(d, true);  // with 3 to go from here
  steady.step(1, {3, 0});
  CHECK(steady.next_ended() == a);
  CHECK(steady.next_ended() == b);
  CHECK_FALSE(steady.next_ended());
  steady.step(2, {5, 0});
  CHECK(steady.next_ended() == d);
  CHECK(steady.count() == 0);
}

TEST_CASE("steady decodes: an end that was left behind in a slot is not another's", "[unit]") {
  Workbench bench;
  SteadyDecodes steady(bench.table, bench.parts);
  const SeqId a = bench.decode(10, 3);
  steady.enter(a, true);
  steady.leave(a);
  bench.table.remove(a);
  bench.kv->release(a, bench.table[a], 10, policies::Leave::drop);
  bench.table.free(a);
  const SeqId b = bench.decode(10, 20);
  REQUIRE(b == a);
  steady.enter(b, true);
  CHECK(steady.begin(100) == 19);  // all that b has to go
  steady.step(2, {2, 0});
  CHECK_FALSE(steady.next_ended());
  steady.step(17, {19, 0});
  CHECK(steady.next_ended() == b);
}

TEST_CASE("steady decodes take a block when they have filled what they hold", "[unit]") {
  Workbench bench(10, 16);
  SteadyDecodes steady(bench.table, bench.parts);
  // a: 10 of 16 tokens, fills them at clock 6. b: one block of 16 that is full. c: all it ever needs.
  const SeqId a = bench.decode(10, 50), b = bench.decode(16, 50), c = bench.decode(10, 7);
  CHECK(bench.kv->used == 3);
  for (const SeqId id : {a, b, c}) steady.enter(id, true);
  CHECK(steady.growth().at(6) == 1);
  CHECK(steady.growth().at(0) == 1);
  CHECK(steady.growth().blocks(0, 16) == 2);
  CHECK(steady.blocks_of_a_step() == 1);
  CHECK(steady.begin(1) == 1);
  CHECK(bench.kv->taken == std::vector<std::int64_t>{1});
  steady.step(1, {1, 0});
  CHECK(steady.blocks_of_a_step() == 0);
  CHECK(steady.begin(1) == 1);
  CHECK(bench.kv->taken.size() == 1);
  steady.step(5, {6, 0});
  CHECK(steady.next_ended() == c);
  CHECK(bench.kv->settled.empty());
  CHECK(steady.blocks_of_a_step() == 1);
  steady.leave(b, 2);  // 16 + 6 tokens, and 2 that blocks were taken for
  CHECK(bench.kv->settled == std::vector<std::int64_t>{24});
  CHECK(steady.growth().blocks(0, 16) == 1);
  steady.leave(a);
  CHECK(bench.kv->settled.back() == 16);
  CHECK_FALSE(steady.growth().any());
}

TEST_CASE("steady decodes with room ahead begin to take blocks when it is filled", "[unit]") {
  Workbench bench(100, 16);
  SteadyDecodes steady(bench.table, bench.parts);
  // 16 tokens ahead is a block: from there on its clock is told, before that its residue.
  const SeqId near = bench.decode(17, 90, 32), far = bench.decode(16, 90, 32);
  steady.enter(near, true);
  CHECK(steady.growth().at(15) == 1);
  steady.enter(far, true);
  CHECK(steady.growth().at(0) == 0);
  CHECK(steady.begin(50) == 16);  // then far begins to take blocks
  CHECK(bench.kv->taken.empty());
  steady.step(15, {15, 0});
  steady.start_growing();
  CHECK(steady.growth().at(0) == 0);
  steady.step(1, {16, 0});
  steady.start_growing();
  CHECK(steady.growth().at(16) == 1);
  CHECK(steady.blocks_of_a_step() == 1);
  steady.leave(far);
  CHECK(bench.kv->settled == std::vector<std::int64_t>{32});
  CHECK(steady.growth().at(16) == 0);
  // One that leaves before it is so far takes none.
  const SeqId gone = bench.decode(16, 90, 64);
  steady.enter(gone, true);
  steady.leave(gone);
  steady.step(48, {64, 0});
  steady.start_growing();
  CHECK(steady.growth().blocks(0, 16) == 1);  // that of `near` alone
}

TEST_CASE("a leap of steady decodes ends with the first of them, and with the blocks", "[unit]") {
  Workbench bench(5, 4);
  SteadyDecodes steady(bench.table, bench.parts);
  const SeqId a = bench.decode(4, 30);
  steady.enter(a, true);
  CHECK(steady.begin(1000) == 16);  // 4 blocks are left, the first taken now: 4 tokens each
  CHECK(bench.kv->taken == std::vector<std::int64_t>{1});
  CHECK(bench.kv->free_blocks() == 3);
  const SeqId b = bench.decode(4, 3);
  steady.enter(b, true);
  CHECK(steady.begin(1000) == 2);  // b has 2 tokens to go
  steady.leave(b);
  bench.kv->used = 4;
  CHECK(steady.begin(3) == 3);
  CHECK(bench.kv->free_blocks() == 0);
  CHECK(steady.blocks_of_a_step() == 1);
  CHECK_THROWS_WITH(steady.begin(1), "the batching policy broke its contract: a decode has no block to grow into");
  CHECK_THROWS_WITH(steady.begin(9), "the batching policy broke its contract: a decode has no block to grow into");
  steady.step(1, {1, 0});
  CHECK(steady.begin(9) == 3);  // up to the next block
}

TEST_CASE("decodes whose cache does not grow in blocks reserve for themselves at every step", "[unit]") {
  Workbench bench(6, 4);
  bench.kv->together = false;
  SteadyDecodes steady(bench.table, bench.parts);
  const SeqId a = bench.decode(4, 30), b = bench.decode(3, 2), c = bench.decode(8, 30, 0, 2);
  CHECK(bench.kv->used == 1 + 1 + 4);
  for (const SeqId id : {a, b, c}) steady.enter(id, true);
  CHECK(steady.self_growing());
  CHECK_FALSE(steady.growth().any());
  // a needs a block for its fifth token, c one in each branch; b has room for its last.
  CHECK(steady.blocks_of_a_step() == 1 + 2);
  CHECK_THROWS_WITH(steady.begin(1), "the batching policy broke its contract: a decode has no block to grow into");
  steady.leave(c);
  CHECK(bench.kv->settled.empty());
  CHECK(steady.self_growing());
  bench.kv->release(c, bench.table[c], 8, policies::Leave::drop);
  CHECK(steady.begin(5) == 1);  // b's last token is the next
  CHECK(bench.kv->held_blocks(a) == 2);
  CHECK(bench.kv->held_blocks(b) == 1);
  steady.leave(a);
  CHECK_FALSE(steady.self_growing());
  CHECK(steady.blocks_of_a_step() == 0);
}

TEST_CASE("gaps of a leap: whoever has just joined by its own last token, all by the steps from then on", "[unit]") {
  Workbench bench;
  SteadyDecodes steady(bench.table, bench.parts);
  const SeqId old = bench.decode(10, 50, 0, 2), fresh = bench.decode(10, 50);
  steady.enter(old, false);
  steady.step(1, {100, 0});
  steady.enter(fresh, true);
  bench.requests[1].last_token = {50, 0};
  Leap leap;
  leap.start = {120, 0};
  leap.planned = 3;
  leap.price = {.time_ps = 80, .step_ps = 10};
  leap.measured = 3;
  // Ends at 200, 290, 390. First: 150 since 50 for the fresh one, 100 since 100 for the two others; then 90 and 100 for
  // all three.
  steady.book_gaps(leap, 0, 3);
  const sim::SampleStats& tbt = bench.metrics.tbt;
  CHECK(tbt.count() == 9);
  CHECK(tbt.sum() == 150 + 2 * 100 + 3 * (90 + 100));
  CHECK(tbt.max() == 150);
  CHECK(tbt.quantile(0) == 90);
  steady.step(3, {390, 0});
  // Now none is fresh: 400 to 500 is a gap of 110 for all of them.
  leap = {.start = {400, 0}, .planned = 1, .price = {.time_ps = 100, .step_ps = 10}, .measured = 3};
  steady.book_gaps(leap, 0, 1);
  CHECK(tbt.count() == 12);
  CHECK(tbt.sum() == 150 + 2 * 100 + 3 * (90 + 100 + 110));
}

TEST_CASE("gaps of those who are not measured are in no latency, but in their own verdicts", "[unit]") {
  Workbench bench;
  bench.metrics.warmup = sim::Time{1};
  bench.metrics.slo.tbt_ps = 9590;
  SteadyDecodes steady(bench.table, bench.parts);
  REQUIRE(steady.gaps());
  const SeqId early = bench.decode(10, 50), late = bench.decode(10, 50);
  bench.table[late].arrived = sim::Time{1};
  steady.enter(early, true);
  steady.enter(late, true);
  Leap leap{.start = {0, 0}, .planned = 2, .price = {.time_ps = 9000}, .measured = 1};
  steady.book_gaps(leap, 0, 2);
  CHECK(bench.metrics.tbt.count() == 2);
  CHECK(bench.metrics.tbt.sum() == 18'000);
  steady.step(2, {18'000, 0});
  // A long one: early leaves after it, late before.
  steady.leave(late);
  leap = {.start = {18'000, 0}, .planned = 1, .price = {.time_ps = 9600}, .measured = 0};
  steady.book_gaps(leap, 0, 1);
  CHECK(bench.metrics.tbt.count() == 2);
  steady.step(1, {27'600, 0});
  steady.leave(early);
  // Of early's gaps 9000, 9000, 9600 the P99 is 9588; of late's 9000.
  CHECK(bench.requests[1].tbts.attained(9000));
  CHECK(bench.requests[0].tbts.attained(9588));
  CHECK_FALSE(bench.requests[0].tbts.attained(9587));
}

TEST_CASE("when the last steady decode has left, gaps of before are forgotten", "[unit]") {
  Workbench bench;
  bench.metrics.slo.tbt_ps = 95;
  SteadyDecodes steady(bench.table, bench.parts);
  const SeqId a = bench.decode(10, 50), b = bench.decode(10, 50);
  steady.enter(a, true);
  Leap leap{.start = {0, 0}, .planned = 3, .price = {.time_ps = 1000}, .measured = 1};
  steady.book_gaps(leap, 0, 3);
  steady.step(3, {3000, 0});
  steady.enter(b, true);
  steady.leave(a);
  CHECK(steady.gaps()->mark().gaps == 2);  // the first was its own
  CHECK(steady.gaps()->mark().over == 2);
  steady.leave(b);
  CHECK(steady.gaps()->mark().gaps == 0);
  CHECK(steady.gaps()->mark().over == 0);
  CHECK(bench.requests[1].tbts.attained(95));
}

}  // namespace test_replica_leaps
