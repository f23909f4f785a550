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

}  // namespace test_fastertransformer
