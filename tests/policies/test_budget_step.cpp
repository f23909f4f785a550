#include "policies/batching/budget_step.hpp"
#include "tests/policies/kv_support.hpp"

namespace test_budget_step {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

/// A step over a replica on paper, and what it decides.
struct Taken {
  Taken(const PaperReplica& replica, const StepLimits& limits) : view(replica.view()), step(view, out, limits) {}
  BatchView view;
  BatchDecision out;
  BudgetStep step;
};

/// What a step with so many tokens gives those that run.
BatchDecision run(const PaperReplica& replica, std::int64_t tokens, Victim victim = Victim::latest) {
  Taken taken(replica, {.tokens = tokens, .sequences = 100});
  taken.step.run_running(victim);
  return taken.out;
}

}  // namespace

TEST_CASE("a step counts slots of all lanes and blocks, and what a stopped sequence gives back", "[unit]") {
  PaperReplica replica(10);
  replica.decode(32);
  const SeqId b = replica.decode(40);  // 3 blocks
  replica.elsewhere = 1;
  Taken taken(replica, {.tokens = 100, .sequences = 4});
  CHECK(taken.step.free_slots() == 1);  // 4 - 2 - 1
  CHECK(taken.step.free_blocks() == 5);
  CHECK_FALSE(taken.step.full());
  taken.step.preempt(b);
  CHECK(taken.step.free_slots() == 2);
  CHECK(taken.step.free_blocks() == 8);
  CHECK(preempted(taken.out) == std::vector<SeqId>{b});
  CHECK(taken.out.preempt[0].how == Preempt::recompute);
  CHECK(Taken(replica, {.tokens = 100, .sequences = 3}).step.full());
  CHECK(Taken(replica, {.tokens = 100, .sequences = 3}).step.free_slots() == 0);
}

TEST_CASE("a step whose tokens are just enough for the decodes lets them go by themselves", "[unit]") {
  PaperReplica replica(100);
  for (int i = 0; i < 3; ++i) replica.decode(20);
  const BatchDecision enough = run(replica, 3);
  CHECK(enough.decode_rest);
  CHECK(enough.items.empty());
  const BatchDecision short_by_one = run(replica, 2);
  CHECK_FALSE(short_by_one.decode_rest);
  CHECK(items(short_by_one) == Items{{0, 1}, {1, 1}});
  // It leaves nothing, and is full then.
  Taken taken(replica, {.tokens = 3, .sequences = 100});
  taken.step.run_running();
  CHECK(taken.step.full());
  Taken more(replica, {.tokens = 4, .sequences = 100});
  more.step.run_running();
  CHECK_FALSE(more.step.full());
}

TEST_CASE("a step takes the blocks that decodes grow by and chunks need, down to the last one", "[unit]") {
  // 2 full blocks and one to grow into; a prompt with 2 blocks, of whose 48 tokens 16 are done: a third block for 32.
  for (const std::int64_t blocks : {6, 7}) {
    PaperReplica replica(blocks);
    replica.decode(32);
    const SeqId prompt = replica.prefill(32, 16);
    replica.sequences[prompt.index].prefill_tokens = 48;
    Taken taken(replica, {.tokens = 100, .sequences = 100});
    taken.step.run_running();
    CHECK(taken.out.preempt.empty());
    CHECK(items(taken.out) == Items{{1, 32}});
    CHECK(taken.step.free_blocks() == blocks - 6);
  }
  PaperReplica lacks(5);
  lacks.decode(32);
  const SeqId prompt = lacks.prefill(32, 16);
  lacks.sequences[prompt.index].prefill_tokens = 48;
  const BatchDecision out = run(lacks, 100);
  CHECK(preempted(out) == std::vector<SeqId>{prompt});
  CHECK(out.items.empty());
  CHECK(out.decode_rest);
}

TEST_CASE("a step gives prompts behind the decodes what is left, the first ones first", "[unit]") {
  PaperReplica replica(100);
  replica.decode(20);
  replica.prefill(20, 15);  // 5 left
  replica.prefill(40, 20);  // 20 left
  replica.prefill(20, 17);  // 3 left
  // One for the decode; of 9 that are left 5 and 4; of 25 all of the first two; of 27 two of the last's three.
  CHECK(items(run(replica, 10)) == Items{{1, 5}, {2, 4}});
  CHECK(items(run(replica, 26)) == Items{{1, 5}, {2, 20}});
  CHECK(items(run(replica, 28)) == Items{{1, 5}, {2, 20}, {3, 2}});
  CHECK(run(replica, 10).decode_rest);
  Taken taken(replica, {.tokens = 100, .sequences = 100, .chunk = 6});
  taken.step.run_running();
  CHECK(items(taken.out) == Items{{1, 5}, {2, 6}, {3, 3}});
}

TEST_CASE("a step in which a prompt stands before decodes: in order, unless there is enough for all", "[unit]") {
  PaperReplica replica(100);
  replica.prefill(40, 20);  // 20 left
  replica.decode(20);
  replica.decode(20);
  // 22 are enough: only the prompt has an item. Of 21 the prompt takes 20 and one decode the last.
  const BatchDecision enough = run(replica, 22);
  CHECK(items(enough) == Items{{0, 20}});
  CHECK(enough.decode_rest);
  const BatchDecision one_short = run(replica, 21);
  CHECK(items(one_short) == Items{{0, 20}, {1, 1}});
  CHECK_FALSE(one_short.decode_rest);
  // All go to the prompt.
  const BatchDecision none = run(replica, 20);
  CHECK(items(none) == Items{{0, 20}});
  CHECK_FALSE(none.decode_rest);
}

TEST_CASE("a decode of several branches takes a token each, or waits, and nobody overtakes it", "[unit]") {
  PaperReplica replica(100);
  const SeqId a = replica.decode(20), b = replica.decode(20);
  replica.branch(a, 2);
  replica.branch(b, 3);
  replica.decode(20);
  const BatchDecision all = run(replica, 6);
  CHECK(all.decode_rest);
  CHECK(all.items.empty());
  // 2 of 4 for the first; 2 are too few for the second.
  const BatchDecision some = run(replica, 4);
  CHECK_FALSE(some.decode_rest);
  REQUIRE(some.items.size() == 1);
  CHECK(some.items[0].seq == a);
  CHECK(run(replica, 5).items.size() == 2);  // 2 + 3
}

TEST_CASE("a step whose victim is the lowest: latest arrivals of the lowest priority, wherever they stand", "[unit]") {
  // Five decodes of 2 full blocks of 10: five blocks lack. -2 goes for the first of them, then -1 (the later one), for
  // the second and third there are 4 - 3 = 1 left.
  PaperReplica replica(10);
  for (const int priority : {0, -1, -2, 3, -1}) replica.sequences[replica.decode(32).index].priority = priority;
  const BatchDecision out = run(replica, 100, Victim::lowest);
  CHECK(preempted(out) == std::vector<SeqId>{{2}, {4}});
  CHECK(out.decode_rest);
  CHECK(out.items.empty());
  // By admission it would be the last two.
  CHECK(preempted(run(replica, 100)) == std::vector<SeqId>{{4}, {3}});
}

TEST_CASE("a step takes tokens and blocks back from a victim that had some already", "[unit]") {
  // The prompt of low priority has taken 20 of 22 tokens and a block when the second decode finds none: it gives back 3
  // blocks and its tokens, which the third decode and the last prompt then have.
  PaperReplica replica(8);
  const SeqId low = replica.prefill(32, 28);
  replica.sequences[low.index].prefill_tokens = 48;
  replica.sequences[low.index].priority = -1;  // 2 blocks, 20 tokens left, a third block
  replica.decode(32);
  replica.decode(32);
  const SeqId last = replica.prefill(16, 0);  // 1 block: 7 of 8 are held
  Taken taken(replica, {.tokens = 22, .sequences = 100});
  taken.step.run_running(Victim::lowest);
  CHECK(preempted(taken.out) == std::vector<SeqId>{low});
  // 22 - 2 decodes = 20: all 16 of the last prompt.
  CHECK(items(taken.out) == Items{{last.index, 16}});
  CHECK(taken.out.decode_rest);
  CHECK(taken.step.free_blocks() == 1);  // 1 + 2 - 2
  CHECK_FALSE(taken.step.full());        // 4 tokens
}

TEST_CASE("a step by scores: the greatest goes, of equals the latest admission, never the first of the line",
          "[unit]") {
  PaperReplica replica(10);
  for (int i = 0; i < 5; ++i) replica.decode(32);
  const auto victims = [&](const std::vector<std::int64_t>& scores) {
    Taken taken(replica, {.tokens = 100, .sequences = 100});
    taken.step.run_running([&](SeqId id) { return scores[id.index]; });
    return preempted(taken.out);
  };
  CHECK(victims({9, 1, 5, 7, 2}) == std::vector<SeqId>{{3}, {2}});
  CHECK(victims({9, 7, 1, 7, 2}) == std::vector<SeqId>{{3}, {1}});
  CHECK(victims({0, 0, 0, 0, 0}) == std::vector<SeqId>{{4}, {3}});
  CHECK(victims({9, 1, 2, 3, 4}) == std::vector<SeqId>{{4}, {3}});
}

TEST_CASE("a step passes over who is paused or was stopped before", "[unit]") {
  PaperReplica replica(100);
  const SeqId stopped = replica.decode(20), paused = replica.decode(20);
  replica.pause(paused);
  replica.decode(20);
  replica.decode(20);
  Taken taken(replica, {.tokens = 1, .sequences = 100});
  taken.step.preempt(stopped);
  taken.step.run_running();
  CHECK(items(taken.out) == Items{{2, 1}});
  CHECK_FALSE(taken.out.decode_rest);
  Taken enough(replica, {.tokens = 2, .sequences = 100});
  enough.step.preempt(stopped);
  enough.step.run_running();
  CHECK(enough.out.items.empty());
  CHECK(enough.out.decode_rest);
}

TEST_CASE("a step admits a chunk and reserves what is there and the chunk", "[unit]") {
  PaperReplica replica(100);
  const SeqId id = replica.wait(100), other = replica.wait(1);
  replica.sequences[id.index].ready_tokens = 30;
  Taken taken(replica, {.tokens = 50, .sequences = 100});
  CHECK(taken.step.admit(id));
  CHECK(items(taken.out) == Items{{0, 50}});
  CHECK(taken.out.admit[0].reserve_tokens == 80);
  CHECK(taken.step.free_blocks() == 95);  // 80 tokens are 5 blocks
  CHECK(taken.step.free_slots() == 99);
  CHECK(taken.step.full());  // no tokens are left
  CHECK_FALSE(taken.step.admit(other));
  Taken chunk(replica, {.tokens = 50, .sequences = 1, .chunk = 20});
  CHECK(chunk.step.admit(id));
  CHECK(chunk.out.admit[0].reserve_tokens == 50);
  CHECK(chunk.step.full());  // no slot
  CHECK_FALSE(chunk.step.admit(other));
  CHECK(chunk.out.admit.size() == 1);
}

TEST_CASE("a step admits into the last block, and not past it", "[unit]") {
  for (const std::int64_t prompt : {48, 49}) {
    PaperReplica replica(5);
    replica.decode(20);  // 2 of 5 blocks
    const SeqId id = replica.wait(prompt);
    Taken taken(replica, {.tokens = 100, .sequences = 100});
    CHECK(taken.step.admit(id) == (prompt == 48));
    CHECK(taken.out.items.size() == (prompt == 48 ? 1 : 0));
    CHECK(taken.step.free_blocks() == (prompt == 48 ? 0 : 3));
    // Room for all of it, though the chunk is a block.
    Taken all(replica, {.tokens = 100, .sequences = 100, .chunk = 16, .room_for_all = true});
    CHECK(all.step.admit(id) == (prompt == 48));
    Taken some(replica, {.tokens = 100, .sequences = 100, .chunk = 16});
    CHECK(some.step.admit(id));
  }
}

TEST_CASE("a step without chunks admits what fits the tokens left, or what never would", "[unit]") {
  PaperReplica replica(100);
  replica.decode(20);
  const SeqId fits = replica.wait(9), large = replica.wait(10), larger = replica.wait(11);
  const auto admits = [&](SeqId id, const StepLimits& limits, bool decodes) {
    Taken taken(replica, limits);
    if (decodes) taken.step.run_running();
    return taken.step.admit(id) ? taken.out.items.back().new_tokens : 0;
  };
  const StepLimits whole{.tokens = 10, .sequences = 100, .chunked = false};
  CHECK(admits(fits, whole, true) == 9);
  CHECK(admits(large, whole, true) == 0);  // a decode took one of 10
  CHECK(admits(large, whole, false) == 10);
  CHECK(admits(larger, whole, true) == 0);
  CHECK(admits(larger, whole, false) == 10);  // more than any step has: it is split
  // With a threshold as long as what is left its chunk fits.
  CHECK(admits(large, {.tokens = 10, .sequences = 100, .chunk = 9, .chunked = false}, true) == 9);
}

TEST_CASE("what is larger than the cache is too large for a step, what fills it is not", "[unit]") {
  PaperReplica replica(4);
  const SeqId full = replica.wait(64), over = replica.wait(65);
  Taken taken(replica, {.tokens = 10, .sequences = 100});
  CHECK_FALSE(taken.step.too_large(full));
  CHECK(taken.step.too_large(over));
  CHECK_FALSE(taken.step.admit(over));  // though its chunk would fit
  CHECK(taken.step.admit(full));
}

TEST_CASE("a step settles if decodes go on alone, for as long as nothing can change who is admitted", "[unit]") {
  const auto settled = [](const Taken& taken) {
    taken.step.settle();
    return taken.out.stable_iterations;
  };
  PaperReplica replica(100);
  const SeqId runs = replica.decode(20);
  const SeqId waits = replica.wait(10);
  const StepLimits limits{.tokens = 10, .sequences = 100};
  CHECK(settled(Taken(replica, limits)) == kStable);  // a cache that keeps nothing
  Taken admits(replica, limits);
  REQUIRE(admits.step.admit(waits));
  CHECK(settled(admits) == 1);
  Taken preempts(replica, limits);
  preempts.step.preempt(runs);
  CHECK(settled(preempts) == 1);
  Taken part(replica, limits);
  part.out.decode_rest = false;
  CHECK(settled(part) == 1);
}

TEST_CASE("a cache that keeps prefixes holds a decision until decodes may evict some", "[unit]") {
  // Two decodes take a token each a step, out of 100 free pages of one token: 50 steps, of which it says the power of
  // two such that twice as many would not be sure: 2 x 32 = 64 > 50, so 32.
  PaperReplica replica(1);
  replica.kv = make_cache("radix", "{}", 140);
  replica.decode(20);
  replica.decode(20);
  CHECK(steps_until_eviction(replica.view()) == kStable);  // nobody waits
  replica.wait(1000);
  REQUIRE(replica.kv->free_blocks() == 100);
  CHECK(steps_until_eviction(replica.view()) == 32);
  Taken taken(replica, {.tokens = 10, .sequences = 100});
  taken.step.settle();
  CHECK(taken.out.stable_iterations == 32);
  Taken full(replica, {.tokens = 10, .sequences = 2});
  full.step.settle();
  CHECK(full.out.stable_iterations == kStable);  // whoever would be first, there is no slot
}

}  // namespace test_budget_step
