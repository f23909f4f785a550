#include "tests/policies/view.hpp"

namespace test_urgency {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

/// 10 ps for every token.
struct TenEach final : BatchPricer {
  std::int64_t time_ps(const BatchSketch& sketch) const override { return 10 * (sketch.chunk_tokens + sketch.decodes); }
};

SeqId due(PaperReplica& replica, std::int64_t prompt, std::int64_t predicted, std::int64_t deadline) {
  const SeqId id = replica.wait(prompt);
  replica.sequences[id.index].predicted_tokens = predicted;
  replica.sequences[id.index].deadline_ticks = deadline;
  return id;
}

}  // namespace

TEST_CASE("urgency: the latest start goes first, not the first deadline", "[unit]") {
  TenEach price;
  PaperReplica replica(1000);
  replica.pricer = &price;
  const auto policy = make_batching("urgency", R"({"output_tokens": 51})");
  const SeqId calm = due(replica, 100, 11, 9000);    // 9,000 - 1,100 = 7,900
  const SeqId soon = due(replica, 100, 11, 5000);    // 5,000 - 1,100 = 3,900
  const SeqId large = due(replica, 400, 101, 6000);  // 6,000 - 5,000 = 1,000: the most urgent, though due later
  const SeqId vague = due(replica, 100, 0, 5000);    // no prediction, 51 tokens: 5,000 - 1,500 = 3,500
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{large, vague, soon, calm});
}

TEST_CASE("urgency: without deadlines, or behind those that have one, first come, first served", "[unit]") {
  TenEach price;
  PaperReplica replica(1000);
  replica.pricer = &price;
  const auto policy = make_batching("urgency", R"({"max_sequences": 3})");
  const SeqId a = replica.wait(900);
  const SeqId b = replica.wait(10);
  replica.wait(10);
  const SeqId dated = due(replica, 10, 1, 1'000'000'000);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{dated, a, b});
}

TEST_CASE("urgency: who does not fit holds up the queue", "[unit]") {
  TenEach price;
  PaperReplica replica(10);
  replica.pricer = &price;
  const auto policy = make_batching("urgency");
  replica.decode(100);  // 7 blocks of 10
  due(replica, 16, 1, 100'000);
  due(replica, 80, 1, 1000);  // 5 blocks
  CHECK(admitted(replica.decide(*policy)).empty());
}

TEST_CASE("urgency: the first token comes with the prompt, and one at least is to come", "[unit]") {
  TenEach price;
  PaperReplica replica(1000);
  replica.pricer = &price;
  const auto policy = make_batching("urgency");
  const SeqId one = due(replica, 100, 1, 5000);     // 5,000 - 1,000 = 4,000: nothing after the prompt
  const SeqId ten = due(replica, 100, 11, 5095);    // 5,095 - 1,100 = 3,995
  const SeqId over = due(replica, 100, 5, 5003);    // it has given 8 where 5 were predicted: 5,003 - 1,000 = 4,003
  const SeqId close = due(replica, 100, 12, 5005);  // 10 of its 12 are there: 5,005 - 1,010 = 3,995, after its equal
  replica.sequences[over.index].generated_then = 8;
  replica.sequences[close.index].generated_then = 10;
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{ten, close, one, over});
}

TEST_CASE("urgency: long prompts without a deadline wait for short ones that came first, and decodes alone go on",
          "[unit]") {
  TenEach price;
  PaperReplica replica(1000);
  replica.pricer = &price;
  const auto policy = make_batching("urgency", R"({"max_sequences": 3})");
  const SeqId a = replica.wait(10);
  const SeqId b = replica.wait(900);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{a, b});
  PaperReplica alone(1000);
  alone.pricer = &price;
  alone.decode(100);
  CHECK(alone.decide(*make_batching("urgency")).stable_iterations == kStable);
}

TEST_CASE("urgency: what is in the cache already takes no time, and ticks may be longer than a picosecond", "[unit]") {
  TenEach price;
  PaperReplica replica(1000);
  replica.pricer = &price;
  const SeqId whole = due(replica, 400, 1, 5000);   // 5,000 - 4,000 = 1,000
  const SeqId copied = due(replica, 400, 1, 5000);  // 300 come with it: 5,000 - 1,000 = 4,000
  const SeqId small = due(replica, 100, 1, 4500);   // 4,500 - 1,000 = 3,500
  replica.sequences[copied.index].ready_tokens = 300;
  const auto policy = make_batching("urgency");
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{whole, small, copied});
  // Ticks of 10 ps: 400, 100 and 100 off, so that the deadlines lead: 4,400 for the small one, 4,600, 4,900.
  BatchView view = replica.view();
  view.ps_per_tick = 10;
  BatchDecision out;
  make_batching("urgency")->decide(view, out);
  CHECK(admitted(out) == std::vector<SeqId>{small, whole, copied});
}

TEST_CASE("urgency: nobody knows a price, so that the first deadline goes first", "[unit]") {
  PaperReplica replica(1000);
  const SeqId calm = due(replica, 100, 11, 6000), large = due(replica, 900, 101, 6001), soon = due(replica, 1, 1, 5999);
  CHECK(admitted(replica.decide(*make_batching("urgency"))) == std::vector<SeqId>{soon, calm, large});
}

TEST_CASE("urgency: who was preempted is as urgent as what is left of it", "[unit]") {
  TenEach price;
  PaperReplica replica(6);
  replica.pricer = &price;
  const auto policy = make_batching("urgency", R"({"output_tokens": 51, "max_sequences": 3})");
  replica.decode(32);
  replica.decode(32);
  const SeqId last = replica.decode(8, 25);
  replica.sequences[last.index].deadline_ticks = 2000;
  const SeqId other = due(replica, 10, 1, 1500);
  REQUIRE(preempted(replica.decide(*policy)) == std::vector<SeqId>{last});
  replica.stop(last);
  replica.end({0});
  // 33 tokens again and 25 after the first of 26: 2,000 - 330 - 250 = 1,420; the other has 1,500 - 100 = 1,400.
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{other});
  replica.sequences[last.index].deadline_ticks = 1979;  // 1,399
  CHECK(admitted(replica.decide(*make_batching("urgency", R"({"output_tokens": 51})"))) == std::vector<SeqId>{last});
}

}  // namespace test_urgency
