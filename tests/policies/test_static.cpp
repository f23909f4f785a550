#include "tests/policies/view.hpp"

namespace test_static {

using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("static forms a batch only when nothing runs", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("static", R"({"max_sequences": 2, "reservation": "oracle"})");
  const SeqId a = replica.wait(100);
  const SeqId b = replica.wait(50);
  replica.wait(10);
  const BatchDecision first = replica.decide(*policy);
  CHECK(admitted(first) == std::vector<SeqId>{a, b});  // two at most, earliest first
  CHECK(items(first) == Items{{0, 100}, {1, 50}});
  CHECK(first.admit[0].reserve_tokens == 110);  // prompt and true output

  PaperReplica busy(1000);
  busy.decode(100);
  busy.wait(10);
  const BatchDecision second = busy.decide(*policy);
  CHECK(second.admit.empty());
  CHECK(second.items.empty());
  CHECK(second.decode_rest);
}

TEST_CASE("static reserves the context limit by default and stops at what does not fit", "[unit]") {
  // 4,096 tokens are 256 blocks: 600 blocks hold two.
  PaperReplica replica(600);
  const auto policy = make_batching("static");
  for (int i = 0; i < 5; ++i) replica.wait(10);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(decision.admit.size() == 2);
  CHECK(decision.admit[0].reserve_tokens == 4096);
}

}  // namespace test_static
