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

}  // namespace test_urgency
