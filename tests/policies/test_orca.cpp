#include "tests/policies/view.hpp"

#include "policies/batching/reservation.hpp"

namespace test_orca {

using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("orca admits between iterations and runs whole prompts beside decodes", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("orca", R"({"max_sequences": 3, "reservation": "oracle"})");
  replica.decode(100);
  const SeqId a = replica.wait(700);
  const SeqId b = replica.wait(20);
  replica.wait(30);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{a, b});  // one runs, two more make three
  CHECK(items(decision) == Items{{1, 700}, {2, 20}});
  CHECK(decision.decode_rest);
  CHECK(preempted(decision).empty());
}

TEST_CASE("orca admits in order: what does not fit holds up the rest", "[unit]") {
  PaperReplica replica(20);
  const auto policy = make_batching("orca", R"({"reservation": "oracle"})");
  replica.wait(400, 100);  // 500 tokens are 32 blocks
  replica.wait(16, 16);
  CHECK(replica.decide(*policy).admit.empty());
}

TEST_CASE("the three reservations", "[unit]") {
  Sequence seq;
  seq.prompt_tokens = 100;
  seq.output_tokens = 300;
  CHECK(reserved_tokens(seq, Reservation::max, 2048) == 2048);
  CHECK(reserved_tokens(seq, Reservation::pow2, 2048) == 100 + 512);
  CHECK(reserved_tokens(seq, Reservation::oracle, 2048) == 400);
  CHECK(reserved_tokens(seq, Reservation::pow2, 500) == 500);
  // PagedAttention's closed form: a pool of 15,728 slots and reservations of 2,048 hold floor(7.68) = 7 sequences.
  PaperReplica replica(15'728 / 16);
  replica.limits.max_context = 2048;
  for (int i = 0; i < 20; ++i) replica.wait(161, 338);
  CHECK(replica.decide(*make_batching("orca")).admit.size() == 7);
}

TEST_CASE("reservations: an output of a power of two is its own, one token more is the next", "[unit]") {
  Sequence seq;
  seq.prompt_tokens = 100;
  for (const auto& [output, reserved] :
       {std::pair(1, 101), std::pair(2, 102), std::pair(256, 356), std::pair(257, 612)}) {
    seq.output_tokens = output;
    CHECK(reserved_tokens(seq, Reservation::pow2, 2048) == reserved);
    CHECK(reserved_tokens(seq, Reservation::oracle, 2048) == 100 + output);
  }
  seq.output_tokens = 3000;
  CHECK(reserved_tokens(seq, Reservation::oracle, 2048) == 2048);
}

TEST_CASE("orca fills the cache to its last block with reservations", "[unit]") {
  // 4,096 tokens are 256 blocks each.
  for (const std::int64_t blocks : {511, 512}) {
    PaperReplica replica(blocks);
    for (int i = 0; i < 4; ++i) replica.wait(10);
    CHECK(replica.decide(*make_batching("orca")).admit.size() == (blocks == 512 ? 2 : 1));
  }
}

TEST_CASE("orca counts what runs in other lanes, and computes no more than a prompt lacks", "[unit]") {
  PaperReplica replica(10'000);
  replica.elsewhere = 2;
  replica.decode(20);
  const SeqId first = replica.wait(100);
  replica.sequences[first.index].ready_tokens = 60;
  replica.wait(100);
  const BatchDecision decision = replica.decide(*make_batching("orca", R"({"max_sequences": 4})"));
  CHECK(items(decision) == Items{{first.index, 40}});
  CHECK(replica.decide(*make_batching("orca", R"({"max_sequences": 3})")).admit.empty());
}

TEST_CASE("orca and static: a prompt under way gets all that is left of it; decodes alone are stable", "[unit]") {
  for (const char* name : {"orca", "static", "fastertransformer"}) {
    CAPTURE(name);
    PaperReplica replica(10'000);
    replica.decode(20);
    CHECK(replica.decide(*make_batching(name)).stable_iterations == kStable);
    replica.prefill(100, 30);
    const BatchDecision decision = replica.decide(*make_batching(name));
    CHECK(items(decision) == Items{{1, 70}});
    CHECK(decision.stable_iterations == 1);
    CHECK(decision.decode_rest);
  }
}

}  // namespace test_orca
