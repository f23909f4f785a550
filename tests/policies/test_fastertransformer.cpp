#include "tests/policies/view.hpp"

namespace test_fastertransformer {

using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("fastertransformer: as many as fit at the context limit, run to completion", "[unit]") {
  PaperReplica replica(4096 / 16 * 3 + 5);  // three times the context limit and a rest
  const auto policy = make_batching("fastertransformer");
  for (int i = 0; i < 5; ++i) replica.wait(10);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(admitted(decision) == std::vector<SeqId>{{0}, {1}, {2}});
  CHECK(decision.admit[0].reserve_tokens == 4096);
  replica.decode(10);
  CHECK(replica.decide(*policy).admit.empty());  // one still runs
  PaperReplica other(10'000);
  other.wait(1);
  other.wait(1);
  CHECK(other.decide(*make_batching("fastertransformer", R"({"max_batch": 1})")).admit.size() == 1);
}

TEST_CASE("fastertransformer: no batch begins while one is in another lane", "[unit]") {
  PaperReplica replica(10'000);
  replica.wait(10);
  replica.elsewhere = 1;
  CHECK(replica.decide(*make_batching("fastertransformer")).admit.empty());
  replica.elsewhere = 0;
  CHECK(replica.decide(*make_batching("fastertransformer")).admit.size() == 1);
}

TEST_CASE("fastertransformer: a batch of one at least is tried, and no larger one than fits", "[unit]") {
  // At 64 tokens, 4 blocks, each. 12 blocks hold three, 11 two, 3 none: that one is tried, but does not fit.
  for (const auto& [blocks, batch] : {std::pair(12, 3), std::pair(11, 2), std::pair(3, 0)}) {
    PaperReplica replica(blocks);
    replica.limits.max_context = 64;
    for (int i = 0; i < 5; ++i) replica.wait(10);
    CHECK(std::ssize(replica.decide(*make_batching("fastertransformer")).admit) == batch);
    const auto wished = make_batching("fastertransformer", R"({"max_batch": 2})");
    CHECK(std::ssize(replica.decide(*wished).admit) == std::min(batch, 2));
  }
}

}  // namespace test_fastertransformer
