#include "tests/policies/view.hpp"

namespace test_layered_prefill {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

/// Layer ranges of a decision's items, which must all be one.
std::pair<int, int> layers(const BatchDecision& decision) {
  REQUIRE_FALSE(decision.items.empty());
  for (const Item& item : decision.items) {
    CHECK(item.layers.first == decision.items.front().layers.first);
    CHECK(item.layers.last == decision.items.front().layers.last);
  }
  return {decision.items.front().layers.first, decision.items.front().layers.last};
}

/// Applies an admission on paper.
void apply(PaperReplica& replica, const BatchDecision& decision) {
  for (const Admission& admission : decision.admit) {
    Sequence& seq = replica.sequences[admission.seq.index];
    REQUIRE(replica.kv->reserve(admission.seq, seq, admission.reserve_tokens));
    seq.phase = Phase::prefill;
    std::erase(replica.waiting, admission.seq);
    replica.running.push_back(admission.seq);
    replica.prefilling.push_back(admission.seq);
  }
}

int groups(std::int64_t tokens, const std::string& stages) {
  PaperReplica replica(10'000);
  replica.limits.layers = 48;
  replica.wait(tokens);
  const auto policy = make_batching("layered_prefill", "{\"stages\": " + stages + "}");
  BatchDecision decision = replica.decide(*policy);
  const int last = layers(decision).second;
  CHECK(48 % last == 0);
  return 48 / last;
}

}  // namespace

TEST_CASE("layered_prefill: groups follow from the wave's tokens, as in the authors' table", "[unit]") {
  // 48 layers divide evenly by all of these.
  CHECK(groups(512, "16") == 1);
  CHECK(groups(513, "16") == 2);
  CHECK(groups(1024, "16") == 2);
  CHECK(groups(2048, "16") == 4);
  CHECK(groups(4096, "16") == 8);
  CHECK(groups(4097, "16") == 16);
  CHECK(groups(4096, "12") == 6);
  CHECK(groups(8192, "12") == 12);
  CHECK(groups(4096, "24") == 8);
  CHECK(groups(8192, "24") == 24);
  CHECK(groups(8192, "4") == 4);
  CHECK(groups(1000, "4") == 2);
}

TEST_CASE("layered_prefill: a wave is frozen, passes each group once, and then the next is formed", "[unit]") {
  PaperReplica replica(10'000);
  replica.limits.layers = 10;
  const auto policy = make_batching("layered_prefill", R"({"stages": 4})");
  replica.decode(100);
  const SeqId a = replica.wait(1000);
  const SeqId b = replica.wait(500);  // 1,500 tokens: 4 groups of 3, 3, 2 and 2 layers
  BatchDecision decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{a, b});
  CHECK(items(decision) == Items{{1, 1000}, {2, 500}});
  CHECK(layers(decision) == std::pair{0, 3});
  CHECK(decision.decode_rest);
  apply(replica, decision);
  replica.wait(10);  // comes too late for this wave
  for (const auto& range : {std::pair{3, 6}, std::pair{6, 8}, std::pair{8, 10}}) {
    decision = replica.decide(*policy);
    CHECK(decision.admit.empty());
    CHECK(items(decision) == Items{{1, 1000}, {2, 500}});
    CHECK(layers(decision) == range);
  }
  for (const SeqId id : {a, b}) {
    replica.sequences[id.index].phase = Phase::decode;
    replica.sequences[id.index].prefilled = replica.sequences[id.index].kv_then =
        replica.sequences[id.index].prefill_tokens;
    ++replica.decoding;
  }
  replica.prefilling.clear();
  decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{3, 10}});
  CHECK(layers(decision) == std::pair{0, 10});  // 10 tokens: one group
}

TEST_CASE("layered_prefill: a long prompt is cut, a piece a wave, and its rest goes first", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("layered_prefill", R"({"wave_tokens": 1000, "stages": 1})");
  const SeqId longest = replica.wait(1600);
  replica.wait(300);
  replica.wait(300);
  BatchDecision decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{0, 1000}});
  CHECK(decision.admit[0].reserve_tokens == 1600);  // blocks for all of it
  apply(replica, decision);
  replica.sequences[longest.index].prefilled = replica.sequences[longest.index].kv_then = 1000;
  decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{0, 600}, {1, 300}, {2, 100}});
}

TEST_CASE("layered_prefill: slots count decodes and the wave", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("layered_prefill", R"({"max_sequences": 3})");
  replica.decode(100);
  replica.wait(10);
  replica.wait(10);
  replica.wait(10);
  CHECK(replica.decide(*policy).admit.size() == 2);
}

TEST_CASE("layered_prefill: the newest decode goes when blocks lack, never the wave", "[unit]") {
  // 8 blocks: decodes of 2 each at a block's edge, and a prompt with 4. The newer decode goes.
  PaperReplica replica(8);
  const auto policy = make_batching("layered_prefill", R"({"stages": 1})");
  replica.decode(32);
  const SeqId newer = replica.decode(32);
  const SeqId prompt = replica.prefill(64, 32);
  replica.wait(1);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{newer});
  CHECK(items(decision) == Items{{prompt.index, 32}});
  CHECK(decision.admit.empty());
}

}  // namespace test_layered_prefill
