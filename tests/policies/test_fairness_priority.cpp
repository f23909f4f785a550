#include <algorithm>

#include "sim/base/mix.hpp"
#include "tests/policies/view.hpp"

namespace test_fairness_priority {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("fairness: without draws it is first come, first served, prompts first", "[unit]") {
  PaperReplica replica(100);
  const auto policy = make_batching("fairness_priority", R"({"period": 0})");
  replica.decode(20);
  const SeqId a = replica.wait(30), b = replica.wait(40);
  const BatchDecision out = replica.decide(*policy);
  CHECK(admitted(out) == std::vector<SeqId>{a, b});
  CHECK_FALSE(out.decode_rest);
  CHECK(out.preempt.empty());
}

TEST_CASE("fairness: one that comes back goes on beside the decodes, a prompt does not", "[unit]") {
  for (const std::int64_t generated : {5, 1, 0}) {
    PaperReplica replica(100);
    const auto policy = make_batching("fairness_priority", R"({"period": 0})");
    replica.decode(20);
    const SeqId back = replica.wait(30);
    Sequence& seq = replica.sequences[back.index];
    seq.generated_then = generated;
    seq.prefill_tokens = 30 + generated;
    seq.ready_tokens = seq.prefill_tokens - 1;
    seq.preemptions = 1;
    const BatchDecision out = replica.decide(*policy);
    REQUIRE(out.items.size() == 1);
    CHECK(out.items[0].new_tokens == 1);
    CHECK(out.decode_rest == (generated > 0));
    CHECK(out.stable_iterations == 1);
  }
}

TEST_CASE("fairness: one whose copy lacks more than a token holds the decodes up as a prompt does", "[unit]") {
  PaperReplica replica(100);
  const SeqId back = replica.wait(30);
  Sequence& seq = replica.sequences[back.index];
  seq.generated_then = 5;
  seq.prefill_tokens = 35;
  seq.ready_tokens = 33;
  seq.preemptions = 1;
  const BatchDecision out = replica.decide(*make_batching("fairness_priority", R"({"period": 0})"));
  REQUIRE(out.items.size() == 1);
  CHECK(out.items[0].new_tokens == 2);
  CHECK_FALSE(out.decode_rest);
}

TEST_CASE("fairness: as many run as there are slots, and blocks above the watermark", "[unit]") {
  PaperReplica replica(100);
  replica.decode(20);
  const SeqId a = replica.wait(30);
  replica.wait(30);
  CHECK(admitted(replica.decide(*make_batching("fairness_priority", R"({"period": 0, "max_sequences": 2})"))) ==
        std::vector<SeqId>{a});
  // A quarter of 20 blocks is 5. Two are held, and the decode at a block's end takes a third: 17 are left, of which 12
  // may go: 192 tokens do, 193 do not.
  for (const std::int64_t tokens : {192, 193}) {
    PaperReplica small(20);
    small.decode(32);
    small.wait(tokens);
    CHECK(small.decide(*make_batching("fairness_priority", R"({"period": 0, "watermark": 0.25})")).admit.size() ==
          (tokens == 192 ? 1 : 0));
  }
}

TEST_CASE("fairness: the last makes way by swapping where blocks lack", "[unit]") {
  PaperReplica replica(4);  // two sequences of two full blocks each
  const auto policy = make_batching("fairness_priority", R"({"period": 0})");
  replica.decode(32);
  const SeqId last = replica.decode(32);
  const BatchDecision out = replica.decide(*policy);
  REQUIRE(preempted(out) == std::vector<SeqId>{last});
  CHECK(out.preempt[0].how == Preempt::swap);
  CHECK(out.admit.empty());
}

TEST_CASE("fairness: at every draw those of the highest priority have the slots", "[unit]") {
  // Two run in two slots and one waits. Priorities are drawn anew, so that at two draws of three the one that waits is
  // among the two highest, and one of the others makes way: 133 of 200, with a deviation of 7.
  int came = 0;
  for (std::int64_t draw = 1; draw <= 200; ++draw) {
    PaperReplica replica(100);
    replica.decode(20);
    replica.decode(20);
    replica.wait(30);
    BatchView view = replica.view();
    view.clock = 25 * draw;
    BatchDecision out;
    make_batching("fairness_priority", R"({"max_sequences": 2})")->decide(view, out);
    REQUIRE(out.preempt.size() == out.admit.size());
    came += out.admit.empty() ? 0 : 1;
  }
  CHECK(came > 133 - 30);
  CHECK(came < 133 + 30);
}

TEST_CASE("fairness: a decision of decodes holds until the next draw", "[unit]") {
  PaperReplica replica(100);
  replica.decode(20);
  CHECK(replica.decide(*make_batching("fairness_priority", R"({"period": 25})")).stable_iterations == 25);
  CHECK(replica.decide(*make_batching("fairness_priority", R"({"period": 0})")).stable_iterations == kStable);
}

namespace {

/// What the policy promises: draws are hashes of seed, arrival number and number of the draw.
std::uint64_t hash(std::uint64_t seed, std::uint64_t order, std::uint64_t draw, std::uint64_t what = 0) {
  return sim::mix64(sim::mix64(sim::mix64(seed * 2 + what) + order) + draw);
}

/// With markov: the priority of the last draw at which it was not kept.
std::uint64_t kept(std::uint64_t seed, std::uint64_t order, std::uint64_t draw, double stay) {
  const auto keeps = [&] { return static_cast<double>(hash(seed, order, draw, 1) >> 11) * 0x1p-53 < stay; };
  while (draw > 0 && keeps()) --draw;
  return hash(seed, order, draw);
}

/// Sequences numbered 0 to `count` - 1, those of the highest priority first.
template <class Priority>
std::vector<std::uint32_t> ranked(std::uint32_t count, const Priority& priority) {
  std::vector<std::uint32_t> line(count);
  for (std::uint32_t i = 0; i < count; ++i) line[i] = i;
  std::sort(line.begin(), line.end(), [&](std::uint32_t a, std::uint32_t b) { return priority(a) > priority(b); });
  return line;
}

std::vector<std::uint32_t> numbers(const std::vector<SeqId>& ids) {
  std::vector<std::uint32_t> all;
  for (const SeqId id : ids) all.push_back(id.index);
  return all;
}

BatchDecision decide_at(PaperReplica& replica, Batching& policy, std::int64_t clock) {
  replica.clock = clock;
  return replica.decide(policy);
}

}  // namespace

TEST_CASE("fairness: the ranks of a draw follow from seed, arrival and draw", "[unit]") {
  for (const std::uint64_t seed : {1U, 2U, 7U}) {
    const auto policy = make_batching("fairness_priority",
                                      R"({"max_sequences": 2, "period": 10, "seed": )" + std::to_string(seed) + "}");
    for (std::uint64_t draw = 1; draw <= 12; ++draw) {
      PaperReplica replica(100);
      for (int i = 0; i < 5; ++i) replica.decode(20);
      const BatchDecision out = decide_at(replica, *policy, static_cast<std::int64_t>(draw) * 10 + 9);
      const auto line = ranked(5, [&](std::uint32_t i) { return hash(seed, i, draw); });
      // The lowest goes first, so that the highest of them is at the front of the queue.
      CHECK(numbers(preempted(out)) == std::vector<std::uint32_t>{line[4], line[3], line[2]});
      CHECK(out.preempt[0].how == Preempt::swap);
    }
  }
}

TEST_CASE("fairness: with markov a priority is that of the last draw at which it was not kept", "[unit]") {
  for (const double stay : {0.0, 0.5, 0.75, 1.0}) {
    const auto policy =
        make_batching("fairness_priority", R"({"max_sequences": 1, "period": 1, "pattern": "markov", "stay": )" +
                                               std::to_string(stay) + "}");
    for (std::uint64_t draw = 1; draw <= 30; ++draw) {
      PaperReplica replica(100);
      for (int i = 0; i < 4; ++i) replica.decode(20);
      const auto line = ranked(4, [&](std::uint32_t i) { return kept(1, i, draw, stay); });
      CHECK(numbers(preempted(decide_at(replica, *policy, static_cast<std::int64_t>(draw)))) ==
            std::vector<std::uint32_t>{line[3], line[2], line[1]});
    }
  }
  // A thousand draws on, what always stays is drawn anew: then each counts as of a thousand draws ago.
  const auto policy =
      make_batching("fairness_priority", R"({"max_sequences": 1, "period": 1, "pattern": "markov", "stay": 1})");
  for (const std::uint64_t draw : {1000U, 1001U, 1007U}) {
    PaperReplica replica(100);
    for (int i = 0; i < 4; ++i) replica.decode(20);
    const auto line = ranked(4, [&](std::uint32_t i) { return hash(1, i, draw - 1000); });
    CHECK(numbers(preempted(decide_at(replica, *policy, static_cast<std::int64_t>(draw)))) ==
          std::vector<std::uint32_t>{line[3], line[2], line[1]});
  }
}

TEST_CASE("fairness: a draw is made once, and its ranks stand until the next", "[unit]") {
  PaperReplica replica(100);
  for (int i = 0; i < 3; ++i) replica.decode(20);
  const auto policy = make_batching("fairness_priority", R"({"max_sequences": 2, "period": 10})");
  CHECK(decide_at(replica, *policy, 9).preempt.empty());  // the first draw is that of the start
  CHECK(decide_at(replica, *policy, 10).preempt.size() == 1);
  CHECK(decide_at(replica, *policy, 11).preempt.empty());  // though on paper all three still run
  CHECK(decide_at(replica, *policy, 19).preempt.empty());
  CHECK(decide_at(replica, *policy, 20).preempt.size() == 1);
}

TEST_CASE("fairness: how long a decision holds counts from the clock", "[unit]") {
  PaperReplica replica(100);
  replica.decode(20);
  const auto policy = make_batching("fairness_priority", R"({"period": 25})");
  CHECK(decide_at(replica, *policy, 30).stable_iterations == 20);  // the next draw is at 50
  CHECK(decide_at(replica, *policy, 49).stable_iterations == 1);
  CHECK(decide_at(replica, *policy, 50).stable_iterations == 25);
  // Not where somebody goes, comes, or has a prompt to compute.
  replica.prefill(20, 10);
  const BatchDecision prompt = decide_at(replica, *policy, 51);
  CHECK(items(prompt) == Items{{1, 10}});
  CHECK_FALSE(prompt.decode_rest);
  CHECK(prompt.stable_iterations == 1);
}

TEST_CASE("fairness: between draws those who wait come by rank, and the lowest goes where blocks lack", "[unit]") {
  const auto line = ranked(4, [](std::uint32_t i) { return hash(1, i, 0); });
  PaperReplica waiting(100);
  for (int i = 0; i < 4; ++i) waiting.wait(20);
  CHECK(numbers(admitted(waiting.decide(*make_batching("fairness_priority")))) == line);
  // Without draws all have one priority.
  CHECK(numbers(admitted(waiting.decide(*make_batching("fairness_priority", R"({"period": 0})")))) ==
        std::vector<std::uint32_t>{0, 1, 2, 3});
  // Four of 2 full blocks of 8: two go for the two others.
  PaperReplica lacks(8);
  for (int i = 0; i < 4; ++i) lacks.decode(32);
  const BatchDecision out = lacks.decide(*make_batching("fairness_priority", R"({"preemption": "recompute"})"));
  CHECK(numbers(preempted(out)) == std::vector<std::uint32_t>{line[3], line[2]});
  CHECK(out.preempt[0].how == Preempt::recompute);
  CHECK(out.stable_iterations == 1);
}

TEST_CASE("fairness: who is paused takes no part in draws, nor goes, but has a slot", "[unit]") {
  const auto policy = make_batching("fairness_priority", R"({"max_sequences": 3, "period": 10})");
  for (std::int64_t draw = 1; draw <= 6; ++draw) {
    PaperReplica replica(100);
    for (int i = 0; i < 4; ++i) replica.decode(20);
    replica.pause({static_cast<std::uint32_t>(draw % 4)});
    auto line = ranked(4, [&](std::uint32_t i) { return hash(1, i, static_cast<std::uint64_t>(draw)); });
    std::erase(line, static_cast<std::uint32_t>(draw % 4));
    // Of three slots one is the paused one's, two are for the others.
    CHECK(numbers(preempted(decide_at(replica, *policy, draw * 10))) == std::vector<std::uint32_t>{line[2]});
  }
  // Between draws too: of three of 2 full blocks of 6 the two that are not paused lack two.
  PaperReplica lacks(6);
  for (int i = 0; i < 3; ++i) lacks.decode(32);
  const auto line = ranked(3, [](std::uint32_t i) { return hash(1, i, 0); });
  lacks.pause({line[2]});
  CHECK(numbers(preempted(lacks.decide(*make_batching("fairness_priority")))) == std::vector<std::uint32_t>{line[1]});
}

TEST_CASE("fairness: at a draw the highest have the blocks, down to the first that does not fit", "[unit]") {
  // A sequence waits and is first; the second and third run. The blocks that all hold are for them in that order.
  std::int64_t draw = 0;
  std::vector<std::uint32_t> line;
  do {
    ++draw;
    line = ranked(3, [&](std::uint32_t i) { return hash(1, i, static_cast<std::uint64_t>(draw)); });
  } while (line[0] != 2);
  const auto decision = [&](std::int64_t blocks, std::int64_t prompt, const std::string& watermark = "0") {
    PaperReplica replica(blocks);
    replica.decode(32);  // 2 full blocks: needs a third
    replica.decode(32);
    replica.wait(prompt);
    return decide_at(replica, *make_batching("fairness_priority", R"({"period": 10, "watermark": )" + watermark + "}"),
                     draw * 10);
  };
  // 3 + 3 + 2 of 8; of 7 one goes; of 5 still one, of 4 both: 4 = 2 + 2, and the second would need 3.
  CHECK(decision(8, 32).preempt.empty());
  CHECK(decision(8, 32).admit.size() == 1);
  CHECK(numbers(preempted(decision(7, 32))) == std::vector<std::uint32_t>{line[2]});
  CHECK(numbers(preempted(decision(5, 32))) == std::vector<std::uint32_t>{line[2]});
  CHECK(numbers(preempted(decision(4, 32))) == std::vector<std::uint32_t>{line[2], line[1]});
  CHECK(decision(4, 32).admit.size() == 1);
  // Alone the first may have all there is: 4 blocks.
  CHECK(decision(4, 64).admit.size() == 1);
  CHECK(decision(4, 64).preempt.size() == 2);
  // Of 10 with a fifth to spare 8 are enough, of 9 (one to spare) too, and of 10 with 3 to spare they are not.
  CHECK(decision(10, 32, "0.2").preempt.empty());
  CHECK(decision(10, 32, "0.3").preempt.size() == 1);
}

TEST_CASE("fairness: one that is alone may have the watermark's share too", "[unit]") {
  PaperReplica replica(10);
  replica.wait(160);
  CHECK(replica.decide(*make_batching("fairness_priority", R"({"watermark": 0.5})")).admit.size() == 1);
  // The second is not alone: 10 - 4 - 2 = 4 are fewer than 5.
  PaperReplica two(10);
  two.wait(64);
  two.wait(32);
  const auto policy = make_batching("fairness_priority", R"({"watermark": 0.5, "period": 0})");
  CHECK(two.decide(*policy).admit.size() == 1);
  two.sequences[1].prefill_tokens = 16;  // 10 - 4 - 1 = 5
  CHECK(two.decide(*policy).admit.size() == 2);
}

TEST_CASE("fairness: prompts of one iteration share a budget; one that outgrew it goes alone", "[unit]") {
  PaperReplica replica(100);
  const auto policy = make_batching("fairness_priority", R"({"period": 0, "max_batched_tokens": 100})");
  const SeqId a = replica.wait(60), b = replica.wait(40);
  replica.wait(1);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{a, b});
  // 61 and 40 are too many.
  replica.sequences[a.index].prefill_tokens = 61;
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{a});
  // 101 are, unless it was preempted and comes first.
  replica.sequences[a.index].prefill_tokens = 101;
  CHECK(replica.decide(*policy).admit.empty());
  replica.sequences[a.index].preemptions = 1;
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{a});
  replica.sequences[a.index].preemptions = 0;
  replica.sequences[a.index].prefill_tokens = 60;
  replica.sequences[b.index].prefill_tokens = 101;
  replica.sequences[b.index].preemptions = 1;
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{a});
}

TEST_CASE("fairness: refuses a prompt past the budget, and a pipeline of several batches", "[unit]") {
  const auto policy = make_batching("fairness_priority", R"({"max_batched_tokens": 100})");
  const auto free_choice = make_batching("fairness_priority");
  PaperReplica replica(10);
  Sequence seq;
  seq.prompt_tokens = 100;
  CHECK_FALSE(policy->reject(seq, *replica.kv, replica.limits));
  seq.prompt_tokens = 101;
  CHECK(policy->reject(seq, *replica.kv, replica.limits) == "prompt_exceeds_batched_tokens");
  // The context limit, 2,048 at least.
  for (const std::int64_t context : {1000, 4096}) {
    replica.limits.max_context = context;
    seq.prompt_tokens = std::max<std::int64_t>(2048, context);
    CHECK_FALSE(free_choice->reject(seq, *replica.kv, replica.limits));
    ++seq.prompt_tokens;
    CHECK(free_choice->reject(seq, *replica.kv, replica.limits));
  }
  CHECK_FALSE(policy->obstacle(replica.limits));
  replica.limits.batches = 2;
  CHECK(policy->obstacle(replica.limits)
            .value()
            .starts_with("fairness_priority draws by the steps of one clock, so it cannot schedule a pipeline with "
                         "several batches"));
}

TEST_CASE("fairness: without a number the budget of prompts is the context limit, 2,048 at least", "[unit]") {
  PaperReplica replica(10'000);
  replica.wait(2000);
  replica.wait(48);
  replica.wait(1);
  for (const std::int64_t context : {1000, 4096}) {
    replica.limits.max_context = context;
    const auto policy = make_batching("fairness_priority", R"({"period": 0, "watermark": 0})");
    CHECK(replica.decide(*policy).admit.size() == (context == 1000 ? 2 : 3));
  }
}

}  // namespace test_fairness_priority
