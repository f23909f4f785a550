#include "tests/policies/view.hpp"

namespace test_sjf {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

SeqId job(PaperReplica& replica, std::int64_t predicted) {
  const SeqId id = replica.wait(10);
  replica.sequences[id.index].predicted_tokens = predicted;
  return id;
}

}  // namespace

TEST_CASE("sjf: fewest predicted tokens first", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("sjf", R"({"max_sequences": 2, "aging": 0})");
  job(replica, 500);
  const SeqId shortest = job(replica, 20);
  const SeqId next = job(replica, 100);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{shortest, next});
}

TEST_CASE("sjf: with aging a later job must be shorter by what its lateness counts", "[unit]") {
  PaperReplica replica(1000);
  // The third arrival counts 2 x 50 tokens more than the first: 410 > 400 stays behind, 290 would not.
  const auto admitted_first = [&](std::int64_t predicted) {
    PaperReplica fresh(1000);
    const auto policy = make_batching("sjf", R"({"max_sequences": 1, "aging": 50})");
    job(fresh, 400);
    job(fresh, 4000);
    job(fresh, predicted);
    return admitted(fresh.decide(*policy)).at(0).index;
  };
  CHECK(admitted_first(310) == 0);
  CHECK(admitted_first(290) == 2);
}

TEST_CASE("sjf: without predictions it is first come, first served; an oracle knows", "[unit]") {
  PaperReplica replica(1000);
  replica.wait(10, 300);
  const SeqId shorter = replica.wait(10, 5);
  CHECK(admitted(replica.decide(*make_batching("sjf", R"({"max_sequences": 1, "aging": 0})"))).at(0).index == 0);
  CHECK(admitted(replica.decide(*make_batching("sjf", R"({"max_sequences": 1, "oracle": true})"))).at(0) == shorter);
}

TEST_CASE("sjf: what a job has generated before it was preempted counts no more", "[unit]") {
  // 100 predicted of which 90 are there: 10 are left, fewer than 50.
  PaperReplica replica(1000);
  const auto policy = make_batching("sjf", R"({"max_sequences": 1, "aging": 0})");
  const SeqId fresh = job(replica, 50);
  const SeqId preempted = job(replica, 100);
  replica.sequences[preempted.index].generated_then = 90;
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{preempted});
  // One that outlived its prediction has nothing left, not less than nothing: the one that came first stays ahead.
  replica.sequences[fresh.index].predicted_tokens = 1;
  replica.sequences[fresh.index].generated_then = 1;
  replica.sequences[preempted.index].generated_then = 200;
  CHECK(admitted(replica.decide(*make_batching("sjf", R"({"max_sequences": 1, "aging": 0})"))).at(0) == fresh);
}

TEST_CASE("sjf: a job without a prediction counts as the longest there may be", "[unit]") {
  // 4,096: behind one of 4,095, before one of 4,097; of an equal one the earlier goes first.
  PaperReplica replica(1000);
  const SeqId vague = job(replica, 0);
  const SeqId equal = job(replica, 4096);
  const SeqId longer = job(replica, 4097);
  const SeqId shorter = job(replica, 4095);
  CHECK(admitted(replica.decide(*make_batching("sjf", R"({"aging": 0})"))) ==
        std::vector<SeqId>{shorter, vague, equal, longer});
}

TEST_CASE("sjf: of jobs that aging makes equal the earlier goes first", "[unit]") {
  PaperReplica replica(1000);
  // 100 + 0, 90 + 10, 79 + 20.
  const SeqId a = job(replica, 100), b = job(replica, 90), c = job(replica, 79);
  CHECK(admitted(replica.decide(*make_batching("sjf", R"({"aging": 10})"))) == std::vector<SeqId>{c, a, b});
}

TEST_CASE("sjf: slots and tokens are those of the step", "[unit]") {
  PaperReplica replica(1000);
  job(replica, 30);
  const SeqId b = job(replica, 10), c = job(replica, 20);
  CHECK(items(replica.decide(*make_batching("sjf", R"({"token_budget": 14})"))) == Items{{b.index, 10}, {c.index, 4}});
  CHECK(items(replica.decide(*make_batching("sjf", R"({"max_sequences": 1})"))) == Items{{b.index, 10}});
  // Decodes alone, a slot free, nobody waiting.
  PaperReplica alone(1000);
  alone.decode(20);
  CHECK(alone.decide(*make_batching("sjf")).stable_iterations == kStable);
}

TEST_CASE("sjf: who was preempted is placed by what is left of it now", "[unit]") {
  // Three of 2 full blocks of 6: the last goes. Of its 30 tokens 25 are there: 5 are left, fewer than another's 10.
  PaperReplica replica(6);
  const auto policy = make_batching("sjf", R"({"aging": 0, "max_sequences": 3})");
  replica.decode(32);
  replica.decode(32);
  const SeqId last = replica.decode(8, 25);
  replica.sequences[last.index].predicted_tokens = 30;
  job(replica, 10);
  REQUIRE(preempted(replica.decide(*policy)) == std::vector<SeqId>{last});
  replica.stop(last);
  replica.end({0});
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{last});
  // One whom no decision named is told apart by the call.
  PaperReplica other(100);
  const auto again = make_batching("sjf", R"({"max_sequences": 1})");
  const SeqId one = job(other, 10);
  REQUIRE(admitted(other.decide(*again)) == std::vector<SeqId>{one});
  CHECK(other.decide(*again).admit.empty());  // it was told of no return
  again->returned(one);
  CHECK(admitted(other.decide(*again)) == std::vector<SeqId>{one});
}

}  // namespace test_sjf
