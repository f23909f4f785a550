// Who has which slot of a replica, who waits, who runs and in what.
#include "tests/serving/replica_parts.hpp"

namespace test_sequence_table {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using policies::Phase;
using policies::SeqId;

namespace {

using Ids = std::vector<SeqId>;

Ids waiting(const SequenceTable& table) {
  return {table.waiting().begin(), table.waiting().end()};
}

}  // namespace

TEST_CASE("a slot that was freed is given again, as new, and numbers of arrival go on", "[unit]") {
  Workbench bench;
  const SeqId a = bench.table.add(bench.ask(10, 5));
  const SeqId b = bench.table.add(bench.ask(20, 5));
  CHECK(a.index == 0);
  CHECK(b.index == 1);
  CHECK(bench.table[a].order == 0);
  CHECK(bench.table[b].order == 1);
  bench.table[a].kv_then = 7;
  bench.table[a].phase = Phase::paused;
  bench.table.account(a).finished = true;
  bench.table.free(a);
  CHECK(bench.table[a].phase == Phase::waiting);
  CHECK(bench.table[a].order == -1);
  CHECK(bench.table.account(a).request == nullptr);
  Request& third = bench.ask(30, 5);
  const SeqId c = bench.table.add(third);
  CHECK(c == a);
  CHECK(bench.table[c].order == 2);
  CHECK(bench.table[c].kv_then == 0);
  CHECK_FALSE(bench.table.account(c).finished);
  CHECK(&bench.table.request(c) == &third);
  CHECK(bench.table.all().size() == 2);
}

TEST_CASE("a sequence begins as its request says, and at least one token of it is to be prefilled", "[unit]") {
  Workbench bench;
  Request& request = bench.ask(10, 8);
  request.arrived = sim::Time{77};
  request.priority = 3;
  request.generated = 4;
  const auto ready = [&](std::int64_t tokens) {
    request.ready_tokens = tokens;
    return bench.table[bench.table.add(request)].ready_tokens;
  };
  const policies::Sequence& seq = bench.table[bench.table.add(request)];
  CHECK(seq.arrived.ticks == 77);
  CHECK(seq.priority == 3);
  CHECK(seq.output_tokens == 8);
  CHECK(seq.generated_then == 4);
  CHECK(seq.prefill_tokens == 14);  // 10 of the prompt, 4 that were generated elsewhere
  CHECK(seq.text == nullptr);
  // Of 14 tokens at most 13 come with it.
  CHECK(ready(0) == 0);
  CHECK(ready(13) == 13);
  CHECK(ready(14) == 13);
  request.text = {{5, 10}};
  CHECK(bench.table[bench.table.add(request)].text == &request.text);
}

TEST_CASE("slots of nobody and of those taken away count as leaving until they are let go", "[unit]") {
  Workbench bench;
  const SeqId nobody = bench.table.add_nobody();
  CHECK(bench.table[nobody].phase == Phase::paused);
  CHECK(bench.table[nobody].order == -1);
  CHECK(bench.table.leaving() == 1);
  const SeqId taken = bench.decode(10, 5);
  bench.table.take_out(taken);
  CHECK(bench.table.leaving() == 2);
  CHECK(bench.table[taken].phase == Phase::paused);
  CHECK(bench.table.decoding() == 0);
  CHECK(bench.table.empty());
  bench.table.let_go(nobody);
  CHECK(bench.table.leaving() == 1);
  CHECK(bench.table[nobody].phase == Phase::waiting);
  bench.table.let_go(taken);
  CHECK(bench.table.leaving() == 0);
  // The slot given back last is used first.
  CHECK(bench.table.add(bench.ask(1, 1)) == taken);
  CHECK(bench.table.add(bench.ask(1, 1)) == nobody);
}

TEST_CASE("the queue before an instant is without those who came at that instant", "[unit]") {
  Workbench bench;
  bench.table.expect(sim::Time{5});
  bench.wait(10, 1);
  bench.table.expect(sim::Time{5});  // a second request of this instant: what was before it stays 0
  bench.wait(10, 1);
  CHECK(bench.table.waiting_before(sim::Time{4}) == 0);
  CHECK(bench.table.waiting_before(sim::Time{5}) == 0);
  CHECK(bench.table.waiting_before(sim::Time{6}) == 2);
  bench.table.expect(sim::Time{8});
  bench.table.arrive(bench.table.add(bench.ask(10, 1)), sim::Time{8});  // one that a policy does not see yet
  CHECK(bench.table.queued() == 3);
  CHECK(bench.table.waiting_before(sim::Time{8}) == 2);
  CHECK(bench.table.waiting_before(sim::Time{9}) == 3);
  // Two have left meanwhile: no more waited than there are.
  bench.table.take_head();
  bench.table.take_head();
  CHECK(bench.table.waiting_before(sim::Time{8}) == 1);
}

TEST_CASE("the queue: at the back, at the head, and whoever starts leaves it wherever it stands", "[unit]") {
  Workbench bench;
  const SeqId a = bench.wait(10, 1), b = bench.wait(10, 1), c = bench.wait(10, 1);
  const SeqId d = bench.table.add(bench.ask(10, 1));
  bench.table.wait(d, true);
  CHECK(waiting(bench.table) == Ids{d, a, b, c});
  bench.table.start(b);
  CHECK(waiting(bench.table) == Ids{d, a, c});
  bench.table.start(d);
  CHECK(waiting(bench.table) == Ids{a, c});
  CHECK(bench.table.running() == Ids{b, d});
  CHECK(bench.table.prefilling() == Ids{b, d});
  CHECK(bench.table[b].turn == 0);
  CHECK(bench.table[d].turn == 1);
  CHECK(bench.table[d].phase == Phase::prefill);
  CHECK(bench.table.take_head() == a);
  CHECK(waiting(bench.table) == Ids{c});
  CHECK_FALSE(bench.table.empty());
}

TEST_CASE("who arrives while a host decides ahead is let in by the iteration that began after it came", "[unit]") {
  Workbench bench;
  SequenceTable& table = bench.table;
  const auto arrive = [&](std::int64_t at) {
    const SeqId id = table.add(bench.ask(10, 1));
    table.arrive(id, sim::Time{at});
    return id;
  };
  const SeqId a = arrive(3), b = arrive(5);
  table.begun(sim::Time{2});
  table.take_arrivals(false);
  CHECK(waiting(table).empty());
  table.begun(sim::Time{3});
  table.take_arrivals(false);
  CHECK(waiting(table) == Ids{a});
  CHECK(table.arriving());
  // Idle elsewhere, but somebody waits here: that was decided upon.
  table.take_arrivals(true);
  CHECK(waiting(table) == Ids{a});
  table.start(a);  // nor where somebody runs
  table.take_arrivals(true);
  CHECK(waiting(table).empty());
  table.begun(sim::Time{5});
  table.take_arrivals(false);
  CHECK(waiting(table) == Ids{b});
  CHECK_FALSE(table.arriving());
  // Nothing runs and nothing waits: nothing was decided, all come in. Not if other lanes run.
  table.remove(a);
  CHECK(table.take_head() == b);
  const SeqId c = arrive(9), d = arrive(10);
  table.take_arrivals(false);
  CHECK(waiting(table).empty());
  table.take_arrivals(true);
  CHECK(waiting(table) == Ids{c, d});
}

TEST_CASE("phases: who prefills stands by turn, who decodes is counted", "[unit]") {
  Workbench bench;
  SequenceTable& table = bench.table;
  const SeqId a = bench.prefill(10, 5), b = bench.prefill(10, 5), c = bench.prefill(10, 5);
  table.pause(b);
  CHECK(table[b].phase == Phase::paused);
  CHECK(table.prefilling() == Ids{a, c});
  table.decode(c);
  CHECK(table[c].phase == Phase::decode);
  CHECK(table.prefilling() == Ids{a});
  CHECK(table.decoding() == 1);
  table.prefill(b);
  CHECK(table[b].phase == Phase::prefill);
  CHECK(table.prefilling() == Ids{a, b});
  table.pause(a);
  table.prefill(a);
  CHECK(table.prefilling() == Ids{a, b});  // by turn, not by who came last
  table.pause(c);
  CHECK(table.decoding() == 0);
  table.decode(c);
  CHECK(table.decoding() == 1);
  CHECK(table.running() == Ids{a, b, c});
  table.remove(b);
  CHECK(table.running() == Ids{a, c});
  CHECK(table.prefilling() == Ids{a});
  table.remove(c);
  CHECK(table.decoding() == 0);
  CHECK(table.running() == Ids{a});
  // One that does not run: its turn is past all who run, or that of nobody here.
  bench.table[c].phase = bench.table[b].phase = Phase::paused;
  CHECK_THROWS_WITH(table.remove(c),
                    "the batching policy broke its contract: it preempted a sequence that does not run");
  bench.table[b].turn = -1;
  CHECK_THROWS_WITH(table.remove(b),
                    "the batching policy broke its contract: it preempted a sequence that does not run");
}

TEST_CASE("a lane takes over who runs in another, in its phase and its place", "[unit]") {
  Workbench bench;
  const auto pool = std::make_shared<SequencePool>();
  SequenceTable one(pool), two(pool);
  Ids ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(one.add(bench.ask(10, 5)));
    one.wait(ids.back(), false);
    (i == 1 ? two : one).start(ids.back());
  }
  one.decode(ids[0]);
  one.pause(ids[2]);
  CHECK(one.running() == Ids{ids[0], ids[2], ids[3]});
  two.take_over(one, ids[0]);
  CHECK(one.decoding() == 0);
  CHECK(two.decoding() == 1);
  CHECK(two.running() == Ids{ids[0], ids[1]});
  CHECK(two.prefilling() == Ids{ids[1]});
  two.take_over(one, ids[2]);
  two.take_over(one, ids[3]);
  CHECK(one.running().empty());
  CHECK(one.prefilling().empty());
  CHECK(two.running() == ids);
  CHECK(two.prefilling() == Ids{ids[1], ids[3]});
  CHECK(two.decoding() == 1);
}

TEST_CASE("all by order of arrival, and none once the table is cleared", "[unit]") {
  Workbench bench;
  SequenceTable& table = bench.table;
  const SeqId a = bench.wait(10, 5), b = bench.wait(10, 5);
  const SeqId c = table.add(bench.ask(10, 5));
  table.arrive(c, sim::Time{4});
  const SeqId d = bench.wait(10, 5);
  table.start(d);
  table.start(b);
  table.decode(b);
  CHECK(table.by_order() == Ids{a, b, c, d});
  table.clear();
  CHECK(table.by_order().empty());
  CHECK(table.running().empty());
  CHECK(table.prefilling().empty());
  CHECK(table.waiting().empty());
  CHECK_FALSE(table.arriving());
  CHECK(table.decoding() == 0);
  CHECK(table.empty());
}

TEST_CASE("a request is found where it decodes, and runs by its address and number", "[unit]") {
  Workbench bench;
  SequenceTable& table = bench.table;
  const SeqId a = bench.decode(10, 5), b = bench.decode(10, 5), c = bench.prefill(10, 5);
  const SeqId d = bench.wait(10, 5);
  CHECK(decoding_sequence(table, bench.requests[0]) == a);
  CHECK(decoding_sequence(table, bench.requests[1]) == b);
  CHECK_FALSE(decoding_sequence(table, bench.requests[2]));
  CHECK_FALSE(decoding_sequence(table, bench.requests[3]));
  CHECK(runs(table, bench.requests[1], 1));
  CHECK_FALSE(runs(table, bench.requests[1], 0));  // another that has its place now
  CHECK(runs(table, bench.requests[2], 2));
  CHECK_FALSE(runs(table, bench.requests[3], 3));  // it waits
  CHECK(latest_admission(table) == c);
  table.pause(c);
  CHECK(latest_admission(table) == b);
  table.pause(a);
  table.pause(b);
  CHECK_FALSE(latest_admission(table));
  CHECK(table.waiting().front() == d);
}

TEST_CASE("tokens of those who run count branch by branch, at the clock that is asked for", "[unit]") {
  Workbench bench;
  const SeqId a = bench.decode(10, 5, 0, 3);
  bench.prefill(100, 7, 40);
  bench.wait(1000, 9);
  policies::Sequence& seq = bench.table[a];
  seq.steady = true;
  seq.since = 2;
  const TokenSums sums = token_sums(bench.table, 4);
  // Of a: 3 branches of 10 + 2 tokens, in the end of 10 + 5 - 1. Of the second: 40 of 100, in the end 106.
  CHECK(sums.cached == 3 * 12 + 40);
  CHECK(sums.claimed == 3 * 12 + 100);
  CHECK(sums.in_the_end == 3 * 14 + 106);
}

}  // namespace test_sequence_table
