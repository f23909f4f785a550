// What a decision is as work: shapes, proposals, and what a policy cannot ask for.
#include "experiments/systems/serving/replica/batch_builder.hpp"
#include "tests/serving/replica_parts.hpp"

namespace test_batch_builder {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using policies::BatchDecision;
using policies::Item;
using policies::SeqId;

namespace {

/// Proposes as many as it is told, for everybody or by sequence.
class Proposer final : public policies::Speculator {
 public:
  std::int64_t most = 4;
  std::function<std::int64_t(const policies::Sequence&, std::int64_t, std::int64_t)> each =
      [](const policies::Sequence&, std::int64_t, std::int64_t all) { return all; };
  std::vector<std::pair<std::int64_t, std::int64_t>> asked;  ///< decodes, prompt tokens
  policies::Drafter drafter() const override { return policies::Drafter::none; }
  std::int64_t length(std::int64_t decodes, std::int64_t prompt_tokens) override {
    asked.emplace_back(decodes, prompt_tokens);
    return most;
  }
  std::int64_t drafts(const policies::Sequence& seq, std::int64_t generated, std::int64_t all) override {
    return each(seq, generated, all);
  }
  std::int64_t accepted(const policies::Sequence&, std::int64_t drafted) override { return drafted; }
};

struct Builder : Workbench {
  explicit Builder(std::int64_t blocks = 100, std::shared_ptr<Proposer> with = nullptr)
      : Workbench(blocks, 16), proposer(std::move(with)) {
    parts.speculator = proposer;
    steady.emplace(table, parts);
    builder.emplace(table, *steady, parts);
  }
  SeqId steadily(std::int64_t prompt, std::int64_t output = 50, std::int32_t branches = 1) {
    const SeqId id = decode(prompt, output, 0, branches);
    steady->enter(id, true);
    return id;
  }
  bool build() { return builder->build(decision); }
  const BatchShape& shape() const { return builder->shape(); }

  std::shared_ptr<Proposer> proposer;
  std::optional<SteadyDecodes> steady;
  std::optional<BatchBuilder> builder;
  BatchDecision decision;
};

PrefillSums prefills(std::initializer_list<std::pair<std::int64_t, std::int64_t>> chunks) {
  PrefillSums sums;
  for (const auto& [tokens, past] : chunks) sums.add(tokens, past);
  return sums;
}

constexpr const char* kBroken = "the batching policy broke its contract: ";

}  // namespace

TEST_CASE("steady decodes alone are one group through all layers", "[unit]") {
  Builder b;
  CHECK_FALSE(b.build());
  b.steadily(10);
  b.steadily(20, 50, 3);
  CHECK(b.build());
  CHECK(b.shape().sequences == 2);
  CHECK(b.shape().logit_rows == 4);
  CHECK(b.builder->counts().decodes == 2);
  CHECK(b.builder->counts().chunks == 0);
  // Contexts with the new token: 11, and three times 21.
  CHECK(b.shape().segments == std::vector<Segment>{{.first = 0, .last = 32, .tokens = 4, .decode = {4, 11 + 63}}});
  b.builder->advance(2);
  CHECK(b.shape().segments.front().decode.context_tokens == 11 + 63 + 2 * 4);
  b.decision.decode_rest = false;
  CHECK_FALSE(b.build());
}

TEST_CASE("chunks: the last one of a prompt samples a token", "[unit]") {
  Builder b;
  const SeqId a = b.prefill(100, 5, 40), c = b.prefill(50, 5);
  b.decision.items = {{.seq = a, .new_tokens = 59}, {.seq = c, .new_tokens = 50}};
  CHECK(b.build());
  CHECK(b.shape().sequences == 2);
  CHECK(b.shape().logit_rows == 1);
  CHECK(b.builder->counts().prefill_tokens == 109);
  CHECK(b.builder->counts().chunks == 2);
  CHECK(b.builder->counts().decodes == 0);
  CHECK(b.shape().segments ==
        std::vector<Segment>{{.first = 0, .last = 32, .tokens = 109, .prefill = prefills({{59, 40}, {50, 0}})}});
  b.decision.items[0].new_tokens = 60;
  CHECK(b.build());
  CHECK(b.shape().logit_rows == 2);
}

TEST_CASE("a decode with an item of its own leaves the steady ones; proposals are checked like a chunk", "[unit]") {
  Builder b;
  const SeqId own = b.steadily(10), drafted = b.steadily(20, 50, 2);
  b.steadily(30);
  b.decision.items = {{.seq = own}, {.seq = drafted, .draft_tokens = 3}};
  CHECK(b.build());
  CHECK_FALSE(b.table[own].steady);
  CHECK_FALSE(b.table[drafted].steady);
  CHECK(b.steady->count() == 1);
  CHECK(b.builder->counts().decodes == 3);
  CHECK(b.shape().sequences == 3);
  CHECK(b.shape().logit_rows == 1 + 2 * 4 + 1);
  // Groups: 31 of the steady one and 11 of that with an item; 4 tokens behind 20 in each of two branches.
  CHECK(b.shape().segments == std::vector<Segment>{{.first = 0,
                                                    .last = 32,
                                                    .tokens = 1 + 1 + 8,
                                                    .prefill = prefills({{4, 20}, {4, 20}}),
                                                    .decode = {2, 31 + 11}}});
  CHECK_FALSE(b.shape().drafting.any());  // nobody drafted them here
  // Without the rest, theirs alone.
  b.decision.decode_rest = false;
  CHECK(b.build());
  CHECK(b.shape().sequences == 2);
  CHECK(b.builder->counts().decodes == 2);
  CHECK(b.shape().segments.front().decode == DecodeSums{1, 11});
}

TEST_CASE("a decode of branches with an item counts in each of them", "[unit]") {
  Builder b;
  const SeqId id = b.steadily(20, 50, 3);
  b.decision.items = {{.seq = id}};
  CHECK(b.build());
  CHECK(b.shape().sequences == 1);
  CHECK(b.shape().logit_rows == 3);
  CHECK(b.shape().segments == std::vector<Segment>{{.first = 0, .last = 32, .tokens = 3, .decode = {3, 63}}});
}

TEST_CASE("layers are cut where an item begins or ends, and variants stand apart", "[unit]") {
  Builder b;
  const SeqId a = b.prefill(40, 5), c = b.prefill(30, 5);
  b.steadily(10);
  // a passes layers 0 to 8 as variant 0 and 8 to 32 as variant 2; c stops at 20.
  b.decision.items = {{.seq = a, .new_tokens = 40, .layers = {0, 8}},
                      {.seq = a, .new_tokens = 40, .layers = {8, 0}, .variant = 2},
                      {.seq = c, .new_tokens = 30, .layers = {0, 20}}};
  CHECK(b.build());
  CHECK(b.shape().sequences == 3);
  CHECK(b.shape().logit_rows == 2);  // the steady one, and a, which is through
  CHECK(b.builder->counts().prefill_tokens == 70);
  CHECK(b.builder->counts().chunks == 2);
  const PrefillSums both = prefills({{40, 0}, {30, 0}}), of_a = prefills({{40, 0}}), of_c = prefills({{30, 0}});
  const DecodeSums steady{1, 11};
  CHECK(b.shape().segments ==
        std::vector<Segment>{{.first = 0, .last = 8, .tokens = 71, .prefill = both, .decode = steady},
                             {.first = 8, .last = 20, .tokens = 31, .prefill = of_c, .decode = steady},
                             {.first = 8, .last = 20, .variant = 2, .tokens = 40, .prefill = of_a},
                             {.first = 20, .last = 32, .tokens = 1, .decode = steady},
                             {.first = 20, .last = 32, .variant = 2, .tokens = 40, .prefill = of_a}});
}

TEST_CASE("one item of another variant, or of some layers, is enough to part the batch", "[unit]") {
  Builder b;
  const SeqId a = b.prefill(40, 5);
  const auto segments = [&](const Item& item) {
    b.decision.items = {item};
    CHECK(b.build());
    return b.shape().segments;
  };
  const PrefillSums all = prefills({{40, 0}});
  CHECK(segments({.seq = a, .new_tokens = 40, .variant = 1}) ==
        std::vector<Segment>{{.first = 0, .last = 32, .variant = 1, .tokens = 40, .prefill = all}});
  CHECK(b.shape().logit_rows == 1);
  CHECK(segments({.seq = a, .new_tokens = 40, .layers = {1, 32}}) ==
        std::vector<Segment>{{.first = 1, .last = 32, .tokens = 40, .prefill = all}});
  CHECK(segments({.seq = a, .new_tokens = 40, .layers = {0, 31}}) ==
        std::vector<Segment>{{.first = 0, .last = 31, .tokens = 40, .prefill = all}});
  CHECK(b.shape().logit_rows == 0);
  CHECK(segments({.seq = a, .new_tokens = 40, .layers = {0, 32}}) ==
        std::vector<Segment>{{.first = 0, .last = 32, .tokens = 40, .prefill = all}});
}

TEST_CASE("items that cannot be end the run, and say why", "[unit]") {
  Builder b;
  const SeqId waits = b.wait(10, 5), paused = b.prefill(10, 5), chunk = b.prefill(10, 5, 4);
  b.table.pause(paused);
  const auto refused = [&](const Item& item, const std::string& why) {
    b.decision.items = {item};
    CHECK_THROWS_WITH(b.build(), kBroken + why);
  };
  refused({.seq = waits}, "an item names a sequence that does not run");
  refused({.seq = paused}, "an item names a sequence that does not run");
  const std::string layers = "an item names layers the model has not";
  refused({.seq = chunk, .layers = {-1, 8}}, layers);
  refused({.seq = chunk, .layers = {0, 33}}, layers);
  refused({.seq = chunk, .layers = {8, 8}}, layers);
  refused({.seq = chunk, .layers = {32, 0}}, layers);
  const std::string length = "a chunk is empty or longer than what is left of its prompt";
  refused({.seq = chunk, .new_tokens = 0}, length);
  refused({.seq = chunk, .new_tokens = 7}, length);
  b.decision.items = {{.seq = chunk, .new_tokens = 6, .layers = {31, 32}}};
  CHECK(b.build());
  b.decision.items = {{.seq = chunk, .new_tokens = 1}};
  CHECK(b.build());
}

TEST_CASE("what items write is reserved, or the policy has promised too much", "[unit]") {
  Builder b(4);
  const SeqId chunk = b.prefill(80, 5, 16), decodes = b.decode(16, 50);
  CHECK(b.kv->free_blocks() == 2);
  b.decision.items = {{.seq = chunk, .new_tokens = 16}, {.seq = decodes, .draft_tokens = 15}};
  b.builder->reserve(b.decision);
  CHECK(b.kv->held_blocks(chunk) == 2);
  CHECK(b.kv->held_blocks(decodes) == 2);
  CHECK(b.kv->free_blocks() == 0);
  b.decision.items = {{.seq = chunk, .new_tokens = 17}};
  CHECK_THROWS_WITH(b.builder->reserve(b.decision), std::string(kBroken) + "a chunk has no block to be written to");
  b.decision.items = {{.seq = decodes, .draft_tokens = 16}};
  CHECK_THROWS_WITH(b.builder->reserve(b.decision), std::string(kBroken) + "a decode has no block to grow into");
}

TEST_CASE("proposals: for decodes of one branch without an item, as far as context and blocks go", "[unit]") {
  Builder b(1000, std::make_shared<Proposer>());
  const SeqId plain = b.steadily(10), branched = b.steadily(10, 50, 2), own = b.steadily(10), none = b.steadily(11);
  const SeqId at_end = b.steadily(4093), at_the_very_end = b.steadily(4095);
  const SeqId prompt = b.prefill(200, 5);
  b.proposer->each = [](const policies::Sequence& seq, std::int64_t generated, std::int64_t most) {
    return seq.prompt_tokens == 11 ? 0 : most + generated - 1;
  };
  b.decision.items = {{.seq = own}, {.seq = prompt, .new_tokens = 150}};
  b.decision.stable_iterations = 100;
  CHECK(b.build());
  CHECK(b.proposer->asked == std::vector<std::pair<std::int64_t, std::int64_t>>{{6, 150}});
  CHECK(b.decision.stable_iterations == 1);
  // 4096 - 4093 - 1 = 2 for the long one, 0 for the longest.
  REQUIRE(b.decision.items.size() == 4);
  CHECK(b.decision.items[2].seq == plain);
  CHECK(b.decision.items[2].draft_tokens == 4);
  CHECK(b.decision.items[3].seq == at_end);
  CHECK(b.decision.items[3].draft_tokens == 2);
  for (const SeqId id : {branched, none, at_the_very_end}) CHECK(b.table[id].steady);
  CHECK_FALSE(b.table[plain].steady);
  // What a draft model does before: two sequences of up to 4 steps on 11 and 4094 tokens, and the prompt.
  CHECK(b.shape().drafting.sequences == 2);
  CHECK(b.shape().drafting.steps == 4);
  CHECK(b.shape().drafting.context_tokens == 11 + 4094);
  CHECK(b.shape().drafting.prompts == prefills({{150, 0}}));
}

TEST_CASE("proposals: none where the speculator says so, or where the rest does not decode", "[unit]") {
  Builder b(100, std::make_shared<Proposer>());
  b.steadily(10);
  b.proposer->most = 0;
  b.decision.stable_iterations = 100;
  CHECK(b.build());
  CHECK(b.decision.items.empty());
  CHECK(b.decision.stable_iterations == 100);
  const SeqId chunk = b.prefill(20, 5);
  b.proposer->most = 1;
  b.decision.decode_rest = false;
  b.decision.items = {{.seq = chunk, .new_tokens = 20}};
  CHECK(b.build());
  CHECK(b.decision.items.size() == 1);
  CHECK(b.proposer->asked.size() == 1);
  b.decision.decode_rest = true;
  CHECK(b.build());
  CHECK(b.decision.items.size() == 2);
  CHECK(b.proposer->asked.back() == std::pair<std::int64_t, std::int64_t>{1, 20});
}

TEST_CASE("proposals take the blocks that the decision leaves, one sequence after the other", "[unit]") {
  // Of 16 tokens a block a and c have 15: the decode's own token fills it, up to 16 proposals take a block more. The
  // chunk takes one of the free blocks, the decode that is full another.
  const auto drafts = [](std::int64_t free, std::int64_t most) {
    Builder b(100, std::make_shared<Proposer>());
    b.proposer->most = most;
    const SeqId a = b.steadily(15), c = b.steadily(15), full = b.steadily(16), chunk = b.prefill(16, 5);
    b.proposer->each = [](const policies::Sequence& seq, std::int64_t, std::int64_t all) {
      return seq.prompt_tokens == 15 ? all : 0;
    };
    b.kv->total = b.kv->used + free;
    b.decision.items = {{.seq = chunk, .new_tokens = 16}};
    CHECK(b.build());
    std::pair<std::int64_t, std::int64_t> of{0, 0};
    for (const Item& item : b.decision.items) {
      if (item.seq == a) of.first = item.draft_tokens;
      if (item.seq == c) of.second = item.draft_tokens;
    }
    CHECK(b.table[a].steady == (of.first == 0));
    CHECK(b.table[c].steady == (of.second == 0));
    CHECK(b.table[full].steady);
    return of;
  };
  using Drafts = std::pair<std::int64_t, std::int64_t>;
  CHECK(drafts(2, 3) == Drafts{0, 0});
  CHECK(drafts(3, 3) == Drafts{3, 0});
  CHECK(drafts(4, 3) == Drafts{3, 3});
  // 17 proposals are two blocks more; of one block there are 16.
  CHECK(drafts(3, 17) == Drafts{16, 0});
  CHECK(drafts(4, 17) == Drafts{17, 0});
  CHECK(drafts(5, 17) == Drafts{17, 16});
  CHECK(drafts(6, 17) == Drafts{17, 17});
}

TEST_CASE("proposals beside a token that needs a block of its own share that block", "[unit]") {
  // The decode has 16 tokens: its next one is in a block that is set aside for it, and so are 15 proposals; the 16th
  // would need another.
  for (const std::int64_t most : {15, 16}) {
    Builder b(100, std::make_shared<Proposer>());
    b.proposer->most = most;
    b.steadily(16);
    b.kv->total = b.kv->used + 1;
    CHECK(b.build());
    REQUIRE(b.decision.items.size() == 1);
    CHECK(b.decision.items[0].draft_tokens == 15);
  }
}

}  // namespace test_batch_builder
