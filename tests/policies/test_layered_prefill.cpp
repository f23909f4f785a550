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

TEST_CASE("layered_prefill: groups of the layers there are, the first with those that are left over", "[unit]") {
  // 3 layers and a wave that would pass in 16 groups: 3 groups of one.
  PaperReplica replica(10'000);
  replica.limits.layers = 3;
  replica.wait(5000);
  const auto policy = make_batching("layered_prefill");
  BatchDecision decision = replica.decide(*policy);
  CHECK(layers(decision) == std::pair{0, 1});
  apply(replica, decision);
  CHECK(layers(replica.decide(*policy)) == std::pair{1, 2});
  CHECK(layers(replica.decide(*policy)) == std::pair{2, 3});
  // 11 layers in 4 groups: 3, 3, 3, 2.
  PaperReplica eleven(10'000);
  eleven.limits.layers = 11;
  eleven.wait(2000);
  const auto other = make_batching("layered_prefill", R"({"stages": 4})");
  decision = eleven.decide(*other);
  CHECK(layers(decision) == std::pair{0, 3});
  apply(eleven, decision);
  for (const auto& range : {std::pair{3, 6}, std::pair{6, 9}, std::pair{9, 11}})
    CHECK(layers(eleven.decide(*other)) == range);
}

TEST_CASE("layered_prefill: groups are a divisor of the stages, and follow the tokens of a group", "[unit]") {
  const auto count = [](std::int64_t tokens, const std::string& params) {
    PaperReplica replica(10'000);
    replica.limits.layers = 720;
    replica.wait(tokens);
    return 720 / layers(replica.decide(*make_batching("layered_prefill", params))).second;
  };
  CHECK(count(100, R"({"group_tokens": 100})") == 1);
  CHECK(count(101, R"({"group_tokens": 100})") == 2);
  CHECK(count(800, R"({"group_tokens": 100})") == 8);
  CHECK(count(801, R"({"group_tokens": 100})") == 16);
  CHECK(count(800, R"({"group_tokens": 100, "stages": 10})") == 5);  // 8, 7 and 6 do not divide 10
  CHECK(count(400, R"({"group_tokens": 100, "stages": 3})") == 3);   // no more than there are
  CHECK(count(200, R"({"group_tokens": 100, "stages": 9})") == 1);   // 2 does not divide 9
  CHECK(count(900, R"({"group_tokens": 100, "stages": 9})") == 9);
  CHECK(count(1, R"({"group_tokens": 100, "stages": 1})") == 1);
}

TEST_CASE("layered_prefill: a wave goes on without members that have left, and ends with the last", "[unit]") {
  PaperReplica replica(10'000);
  replica.limits.layers = 8;
  const auto policy = make_batching("layered_prefill", R"({"stages": 4})");
  const SeqId a = replica.wait(1000);
  const SeqId b = replica.wait(500);
  apply(replica, replica.decide(*policy));
  replica.end(a);
  replica.wait(10);
  BatchDecision decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{b.index, 500}});
  CHECK(layers(decision) == std::pair{2, 4});
  // Preempted (back in the queue), it is a newcomer of the next wave, which begins now.
  replica.stop(b);
  decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{b.index, 500}, {2, 10}});
  CHECK(layers(decision) == std::pair{0, 8});  // 510 tokens: one group
}

TEST_CASE("layered_prefill: a member whose number is another's is none", "[unit]") {
  PaperReplica replica(10'000);
  replica.limits.layers = 8;
  const auto policy = make_batching("layered_prefill", R"({"stages": 4})");
  const SeqId a = replica.wait(1000);
  apply(replica, replica.decide(*policy));
  replica.sequences[a.index].order = 7;
  replica.sequences[a.index].prefill_tokens = 600;
  const BatchDecision decision = replica.decide(*policy);
  CHECK(items(decision) == Items{{a.index, 600}});
  CHECK(layers(decision) == std::pair{0, 4});  // a wave of its own, in two groups
}

TEST_CASE("layered_prefill: nothing to prefill holds as long as nobody comes or goes", "[unit]") {
  PaperReplica replica(10);
  const auto policy = make_batching("layered_prefill");
  replica.decode(30, 2);
  CHECK(replica.decide(*policy).stable_iterations == kStable);
  replica.wait(129);  // 9 blocks of 8
  CHECK(replica.decide(*policy).stable_iterations == kStable);
  replica.sequences.back().prefill_tokens = 128;
  const BatchDecision decision = replica.decide(*policy);
  CHECK(decision.admit.size() == 1);
  CHECK(decision.stable_iterations == 1);
  PaperReplica lacks(4);
  lacks.decode(32);
  lacks.decode(32);
  const BatchDecision goes = lacks.decide(*make_batching("layered_prefill"));
  CHECK(goes.preempt.size() == 1);
  CHECK(goes.stable_iterations == 1);
}

TEST_CASE("layered_prefill: blocks of a wave are those that decodes do not grow into", "[unit]") {
  // 10 blocks, 2 full ones held, one grown into: 7 for prompts of 4 and 3 blocks, or 4 and 4, or 7 and one.
  for (const auto& [first, second, count] : {std::tuple(64, 48, 2), std::tuple(64, 49, 1), std::tuple(112, 1, 1)}) {
    PaperReplica replica(10);
    replica.decode(32);
    replica.wait(first);
    replica.wait(second);
    CHECK(std::ssize(replica.decide(*make_batching("layered_prefill")).admit) == count);
  }
}

TEST_CASE("layered_prefill: unfinished prompts of other lives come before who waits, within slots and tokens",
          "[unit]") {
  // A decode, and three prompts that a policy before this one began: slots for three are the decode and two of them.
  PaperReplica replica(10'000);
  replica.decode(20);
  for (int i = 0; i < 3; ++i) replica.prefill(100, 40);
  replica.wait(10);
  CHECK(items(replica.decide(*make_batching("layered_prefill", R"({"max_sequences": 3})"))) == Items{{1, 60}, {2, 60}});
  // Of 130 tokens a third prompt has 10, and none is left for who waits.
  CHECK(items(replica.decide(*make_batching("layered_prefill", R"({"wave_tokens": 130})"))) ==
        Items{{1, 60}, {2, 60}, {3, 10}});
  CHECK(items(replica.decide(*make_batching("layered_prefill", R"({"wave_tokens": 120})"))) == Items{{1, 60}, {2, 60}});
  CHECK(items(replica.decide(*make_batching("layered_prefill", R"({"wave_tokens": 185})"))) ==
        Items{{1, 60}, {2, 60}, {3, 60}, {4, 5}});
  // Slots for four are taken by who runs; a fifth is for who waits.
  CHECK(replica.decide(*make_batching("layered_prefill", R"({"max_sequences": 4})")).admit.empty());
  CHECK(replica.decide(*make_batching("layered_prefill", R"({"max_sequences": 5})")).admit.size() == 1);
}

TEST_CASE("layered_prefill: who is paused has a slot too", "[unit]") {
  PaperReplica replica(10'000);
  replica.pause(replica.decode(20));
  replica.decode(20);
  replica.wait(10);
  CHECK(replica.decide(*make_batching("layered_prefill", R"({"max_sequences": 2})")).admit.empty());
  CHECK(replica.decide(*make_batching("layered_prefill", R"({"max_sequences": 3})")).admit.size() == 1);
}

}  // namespace test_layered_prefill
