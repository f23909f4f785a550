#include "tests/policies/view.hpp"

namespace test_vllm_v0_priorities {

using namespace orrery::policies;
using namespace orrery::policies::test;

namespace {

constexpr const char* kPriorities = R"({"priorities": true, "watermark": 0})";

SeqId with(PaperReplica& replica, SeqId id, int priority) {
  replica.sequences[id.index].priority = priority;
  return id;
}

}  // namespace

TEST_CASE("vllm_v0 with priorities: higher first, within one by arrival", "[unit]") {
  PaperReplica replica(5);  // blocks of 16: two prompts of 32 fit
  const auto policy = make_batching("vllm_v0", kPriorities);
  const SeqId a = replica.wait(32);
  replica.wait(32);
  const SeqId high = with(replica, replica.wait(32), 1);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{high, a});
  PaperReplica same(5);
  const SeqId first = same.wait(32), second = same.wait(32);
  with(same, same.wait(32), 1);
  CHECK(admitted(same.decide(*make_batching("vllm_v0", R"({"watermark": 0})"))) == std::vector<SeqId>{first, second});
}

TEST_CASE("vllm_v0 with priorities: one that can never be admitted keeps nobody back", "[unit]") {
  PaperReplica replica(5);
  const auto policy = make_batching("vllm_v0", kPriorities);
  with(replica, replica.wait(200), 1);  // 13 blocks of 5
  const SeqId normal = replica.wait(32);
  CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{normal});
}

TEST_CASE("vllm_v0 with priorities: normal requests make room first", "[unit]") {
  // 6 blocks, 2 each, all at a block's edge: three need one more. The latest of normal priority goes.
  PaperReplica replica(6);
  const auto policy = make_batching("vllm_v0", kPriorities);
  replica.decode(32);
  const SeqId victim = replica.decode(32);
  with(replica, replica.decode(32), 1);
  CHECK(preempted(replica.decide(*policy)) == std::vector<SeqId>{victim});
  replica.admit_last(replica.running.front());  // by arrival all the same
  CHECK(preempted(replica.decide(*policy)) == std::vector<SeqId>{victim});
  CHECK(preempted(replica.decide(*make_batching("vllm_v0"))) == std::vector<SeqId>{replica.running.back()});
}

TEST_CASE("a queue by a key knows whoever comes in at the front", "[unit]") {
  // A migrated request goes to the head of the queue, its order the latest, in front of one that the policy has seen
  // waiting already.
  for (const auto& [name, params] : {std::pair("vllm_v0", kPriorities), std::pair("priority", "{}")}) {
    PaperReplica replica(5);
    const auto policy = make_batching(name, params);
    const SeqId running = replica.decode(60, 4);  // 63 tokens: 4 blocks
    replica.wait(32);
    CHECK(admitted(replica.decide(*policy)).empty());
    const SeqId migrated = replica.wait(10);
    replica.waiting.pop_back();
    replica.waiting.push_front(migrated);
    replica.sequences[migrated.index].priority = 1;
    CHECK(admitted(replica.decide(*policy)) == std::vector<SeqId>{migrated});
    CHECK(replica.running.front() == running);
  }
}

}  // namespace test_vllm_v0_priorities
