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

}  // namespace test_sjf
