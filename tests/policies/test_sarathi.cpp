#include "tests/policies/view.hpp"

#include "sim/base/random.hpp"

namespace test_sarathi {

using namespace orrery::policies;
using namespace orrery::policies::test;

TEST_CASE("sarathi: decodes first, then unfinished prompts, then new ones, within the budget", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("sarathi", R"({"token_budget": 512})");
  replica.decode(100);
  replica.decode(100);
  replica.prefill(600, 400);  // 200 left
  const SeqId fresh = replica.wait(1000);
  replica.wait(50);
  const BatchDecision decision = replica.decide(*policy);
  // 512 - 2 decodes = 510; 200 for the unfinished prompt; 310 of the new one; nothing for the last.
  CHECK(items(decision) == Items{{2, 200}, {3, 310}});
  CHECK(admitted(decision) == std::vector<SeqId>{fresh});
  CHECK(decision.admit[0].reserve_tokens == 1000);  // the whole prompt's blocks at once
  CHECK(decision.decode_rest);
}

TEST_CASE("sarathi never gives a decode less for a prompt", "[unit]") {
  PaperReplica replica(10'000);
  const auto policy = make_batching("sarathi", R"({"token_budget": 2})");
  replica.decode(100);
  replica.decode(100);
  replica.wait(10);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(decision.items.empty());
  CHECK(decision.admit.empty());
  CHECK(decision.decode_rest);
}

TEST_CASE("sarathi preempts the latest admitted, be it in prefill, and then admits nobody", "[unit]") {
  PaperReplica replica(6);
  const auto policy = make_batching("sarathi");
  replica.decode(32);
  replica.decode(32);
  const SeqId last = replica.prefill(32, 16);
  replica.wait(1);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{last});
  CHECK(decision.admit.empty());
  CHECK(decision.items.empty());
}

TEST_CASE("sarathi gives no chunk to a prompt that stands behind whoever has to go, and one to those before",
          "[unit]") {
  // 2 + 2 + 2 blocks of 6, two decodes that need one more each. The line is prompt, decode, decode: the last goes and
  // leaves 2 blocks, for one decode and for none of the prompt's 16 tokens, whose blocks are there.
  PaperReplica replica(6);
  const auto policy = make_batching("sarathi");
  const SeqId last = replica.decode(32);
  const SeqId prompt = replica.prefill(32, 16);
  replica.decode(32);
  replica.admit_last(last);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{last});
  CHECK(items(decision) == std::vector<std::pair<std::uint32_t, std::int64_t>>{{prompt.index, 16}});
}

TEST_CASE("sarathi stays within budget, slots and blocks", "[prop]") {
  orrery::sim::RandomStream random(3, "sarathi");
  for (int round = 0; round < 300; ++round) {
    PaperReplica replica(static_cast<std::int64_t>(200 + random.below(400)));
    const auto budget = static_cast<std::int64_t>(16 + random.below(600));
    const auto slots = static_cast<std::int64_t>(1 + random.below(20));
    const auto policy = make_batching("sarathi", "{\"token_budget\": " + std::to_string(budget) +
                                                     ", \"max_sequences\": " + std::to_string(slots) + "}");
    for (std::uint64_t i = random.below(10); i > 0; --i)
      replica.decode(static_cast<std::int64_t>(1 + random.below(200)));
    if (random.below(2) == 0) replica.prefill(300, static_cast<std::int64_t>(random.below(300)));
    for (std::uint64_t i = random.below(10); i > 0; --i) replica.wait(static_cast<std::int64_t>(1 + random.below(900)));
    const BatchDecision decision = replica.decide(*policy);
    std::int64_t tokens = 0;
    std::int64_t blocks = 0;
    for (const Item& item : decision.items) {
      tokens += item.new_tokens;
      CHECK(item.new_tokens >= 1);
      CHECK(item.new_tokens <= replica.sequences[item.seq.index].prefill_left());
    }
    for (const Admission& admission : decision.admit) blocks += replica.kv->blocks_for(admission.reserve_tokens);
    if (!decision.items.empty()) CHECK(tokens + replica.decoding <= budget);
    if (!decision.admit.empty()) CHECK(std::ssize(replica.running) + std::ssize(decision.admit) <= slots);
    CHECK(blocks <= replica.kv->free_blocks());
  }
}

namespace {

/// 100 ps for every token of prompts, 10 for every decode, 1 for each 100 tokens of context.
struct TokenPrice final : BatchPricer {
  std::int64_t time_ps(const BatchSketch& sketch) const override {
    return sketch.chunk_tokens * 100 + sketch.decodes * 10 + (sketch.decode_context + sketch.chunk_past) / 100;
  }
};

}  // namespace

TEST_CASE("sarathi: the budget of a target is the largest that meets it", "[unit]") {
  TokenPrice price;
  PaperReplica replica(10'000);
  replica.pricer = &price;
  replica.decode(100);
  replica.wait(3000);
  // 1 us are 10,000 tokens, more than the context limit: all of the prompt.
  CHECK(items(replica.decide(*make_batching("sarathi", R"({"tbt_slo": "1 us", "token_budget": 7})"))) ==
        Items{{1, 3000}});
  // No price, no target: the number stands.
  replica.pricer = nullptr;
  CHECK(items(replica.decide(*make_batching("sarathi", R"({"tbt_slo": "1 us", "token_budget": 7})"))) == Items{{1, 6}});
}

TEST_CASE("sarathi: a target met beside the decodes there are, or at the end of the longest prompt", "[unit]") {
  // A hundred times dearer, so that 1 us is 100 tokens of prompt: 10,000 ps each.
  struct Dear final : BatchPricer {
    std::int64_t time_ps(const BatchSketch& sketch) const override {
      return sketch.chunk_tokens * 10'000 + sketch.decodes * 1'000 + sketch.chunk_past * 10;
    }
  } price;
  PaperReplica replica(10'000);
  replica.pricer = &price;
  for (int i = 0; i < 10; ++i) replica.decode(100);
  replica.wait(3000);
  // Fixed: 96 x 10,000 + (4,096 - 96) x 10 = 1,000,000, just within. 10 decodes take 10 of the 96.
  CHECK(items(replica.decide(*make_batching("sarathi", R"({"tbt_slo": "1 us", "budget_step": 1})"))) ==
        Items{{10, 86}});
  // Beside 10 decodes (10,000) a chunk at the head of its prompt: 99 x 10,000 + 10,000 = 1,000,000.
  CHECK(items(replica.decide(*make_batching(
            "sarathi", R"({"tbt_slo": "1 us", "budget_step": 1, "slo_budget": "iteration"})"))) == Items{{10, 99}});
}

TEST_CASE("sarathi: a chunk schedule falls along the prompt", "[unit]") {
  // Four parts of 1,000 tokens: 1,024, then 1024 - 768/3 = 768, 512, 256.
  const auto policy =
      make_batching("sarathi", R"({"chunk_schedule": {"stages": 4, "high": 1024, "low": 256, "max_tokens": 4000}})");
  const auto chunk_at = [&](std::int64_t done) {
    PaperReplica replica(10'000);
    replica.prefill(4096, done);
    return replica.decide(*policy).items.at(0).new_tokens;
  };
  CHECK(chunk_at(0) == 1024);
  CHECK(chunk_at(999) == 1024);
  CHECK(chunk_at(1000) == 768);
  CHECK(chunk_at(2500) == 512);
  CHECK(chunk_at(3500) == 256);
}

TEST_CASE("sarathi leaves the watermark's share free, and not a block more", "[unit]") {
  // A quarter of 100 blocks is 25: 1200 tokens are 75 blocks and leave just these, 1201 would leave 24.
  for (const std::int64_t prompt : {1200, 1201}) {
    PaperReplica replica(100);
    const auto policy = make_batching("sarathi", R"({"watermark": 0.25})");
    replica.wait(prompt);
    CHECK(replica.decide(*policy).admit.size() == (prompt == 1200 ? 1 : 0));
  }
}

TEST_CASE("sarathi: whoever has to go takes no tokens of the budget", "[unit]") {
  // As above: prompt, decode, decode; the last goes. Of 10 tokens one is for the decode that stays, nine for the
  // prompt.
  PaperReplica replica(6);
  const auto policy = make_batching("sarathi", R"({"token_budget": 10})");
  const SeqId last = replica.decode(32);
  const SeqId prompt = replica.prefill(32, 16);
  replica.decode(32);
  replica.admit_last(last);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(preempted(decision) == std::vector<SeqId>{last});
  CHECK(items(decision) == Items{{prompt.index, 9}});
  // A prompt that goes had none: the decode has one, the prompt before it nine.
  PaperReplica other(6);
  other.decode(32);
  const SeqId first = other.prefill(32, 16);
  const SeqId gone = other.prefill(32, 16);
  const BatchDecision then = other.decide(*policy);
  CHECK(preempted(then) == std::vector<SeqId>{gone});
  CHECK(items(then) == Items{{first.index, 9}});
}

TEST_CASE("sarathi: parts of a chunk schedule are multiples of 32, halves to even ones", "[unit]") {
  const auto chunks = [](std::int64_t high, std::int64_t low) {
    const auto policy =
        make_batching("sarathi", R"({"chunk_schedule": {"stages": 3, "max_tokens": 3000, "high": )" +
                                     std::to_string(high) + R"(, "low": )" + std::to_string(low) + "}}");
    std::vector<std::int64_t> sizes;
    for (const std::int64_t done : {0, 1000, 2000}) {
      PaperReplica replica(10'000);
      replica.prefill(4096, done);
      sizes.push_back(replica.decide(*policy).items.at(0).new_tokens);
    }
    return sizes;
  };
  // 112, 80, 48 are 3.5, 2.5 and 1.5 units: 4, 2 and 2.
  CHECK(chunks(112, 48) == std::vector<std::int64_t>{128, 64, 64});
  // 1001, 551, 101: 31.3, 17.2 and 3.2 units; 1009, 559, 109: 31.5 and a bit, 17.5 less a bit, 3.4.
  CHECK(chunks(1001, 101) == std::vector<std::int64_t>{992, 544, 96});
  CHECK(chunks(1009, 109) == std::vector<std::int64_t>{1024, 544, 96});
  // Below 32 the low end is the unit: 20 and 10 are whole, 15 is 1.5 units.
  CHECK(chunks(20, 10) == std::vector<std::int64_t>{20, 20, 10});
}

TEST_CASE("sarathi: each prompt has the budget of the place it has come to", "[unit]") {
  const auto policy =
      make_batching("sarathi", R"({"chunk_schedule": {"stages": 4, "high": 1024, "low": 256, "max_tokens": 4000}})");
  // A new one begins at the first part, one whose first 1,000 tokens come with their cache at the second.
  for (const std::int64_t ready : {0, 1000}) {
    PaperReplica replica(10'000);
    const SeqId id = replica.wait(4096);
    replica.sequences[id.index].ready_tokens = ready;
    CHECK(items(replica.decide(*policy)) == Items{{id.index, ready == 0 ? 1024 : 768}});
  }
  // 512 for the first; nothing is left of the 256 of the second, but of the 1,024 of the third half.
  PaperReplica replica(10'000);
  replica.prefill(4096, 2500);
  replica.prefill(4096, 3500);
  replica.prefill(4096, 0);
  CHECK(items(replica.decide(*policy)) == Items{{0, 512}, {2, 512}});
}

TEST_CASE("sarathi: budgets of a target are whole steps, one at least", "[unit]") {
  struct Dear final : BatchPricer {
    std::int64_t time_ps(const BatchSketch& sketch) const override {
      return sketch.chunk_tokens * 10'000 + sketch.chunk_past * 10;
    }
  } dear;
  PaperReplica replica(10'000);
  replica.pricer = &dear;
  replica.wait(3000);
  replica.wait(3000);
  const auto budget = [&](const std::string& step) {
    std::int64_t tokens = 0;
    for (const Item& item :
         replica.decide(*make_batching("sarathi", R"({"tbt_slo": "1 us", "budget_step": )" + step + "}")).items)
      tokens += item.new_tokens;
    return tokens;
  };
  CHECK(budget("1") == 96);     // 960,000 + 4,000 x 10 = 1,000,000
  CHECK(budget("32") == 96);    // three steps
  CHECK(budget("64") == 64);    // two would take 1.28 us and more
  CHECK(budget("128") == 128);  // one, although it takes longer
  // 10,000 tokens would meet it, but no context is longer than 4,096, nor is a step less than that.
  TokenPrice cheap;
  replica.pricer = &cheap;
  CHECK(budget("4096") == 4096);
  CHECK(budget("64") == 4096);
  CHECK(budget("3000") == 3000);  // two are more than the context
}

TEST_CASE("sarathi: parts of a schedule are as long as they must be", "[unit]") {
  // Four parts of 4,001 tokens have 1,001 each, rounded up: the second begins at 1,001.
  const auto policy =
      make_batching("sarathi", R"({"chunk_schedule": {"stages": 4, "high": 1024, "low": 256, "max_tokens": 4001}})");
  for (const std::int64_t done : {1000, 1001}) {
    PaperReplica replica(10'000);
    replica.prefill(4096, done);
    CHECK(items(replica.decide(*policy)) == Items{{0, done == 1000 ? 1024 : 768}});
  }
}

TEST_CASE("sarathi: an answer holds where decodes alone go on, not while a prompt is under way", "[unit]") {
  PaperReplica replica(1000);
  const auto policy = make_batching("sarathi", R"({"token_budget": 1})");
  replica.decode(100);
  CHECK(replica.decide(*policy).stable_iterations == kStable);
  replica.wait(10);
  CHECK(replica.decide(*policy).stable_iterations == kStable);  // the decode has all of the budget
  replica.prefill(100, 50);
  const BatchDecision decision = replica.decide(*policy);
  CHECK(decision.items.empty());
  CHECK(decision.stable_iterations == 1);
  CHECK(replica.decide(*make_batching("sarathi")).stable_iterations == 1);
  PaperReplica lacks(4);
  lacks.decode(32);
  lacks.decode(32);
  CHECK(lacks.decide(*make_batching("sarathi")).stable_iterations == 1);
}

TEST_CASE("sarathi: slots are those of all lanes", "[unit]") {
  PaperReplica replica(1000);
  replica.decode(20);
  replica.elsewhere = 2;
  replica.wait(10);
  replica.wait(10);
  CHECK(replica.decide(*make_batching("sarathi", R"({"max_sequences": 3})")).admit.empty());
  CHECK(replica.decide(*make_batching("sarathi", R"({"max_sequences": 4})")).admit.size() == 1);
  CHECK(replica.decide(*make_batching("sarathi", R"({"max_sequences": 5})")).admit.size() == 2);
}

TEST_CASE("sarathi: whoever goes is swapped if it says so, and had a token in every branch", "[unit]") {
  // A prompt, a decode and one with two branches, 2 full blocks each of 6: three lack, and the last goes with its two
  // tokens. Of 10 one is for the decode, nine for the prompt.
  PaperReplica replica(6);
  const SeqId prompt = replica.prefill(32, 16);
  replica.decode(32);
  const SeqId last = replica.decode(32);
  replica.branch(last, 2);
  for (const auto& [says, how] : {std::pair("recompute", Preempt::recompute), std::pair("swap", Preempt::swap)}) {
    const auto policy = make_batching("sarathi", std::string(R"({"token_budget": 10, "preemption": ")") + says + "\"}");
    const BatchDecision decision = replica.decide(*policy);
    REQUIRE(preempted(decision) == std::vector<SeqId>{last});
    CHECK(decision.preempt[0].how == how);
    CHECK(items(decision) == Items{{prompt.index, 9}});
  }
  // With blocks for all of them the branches take two of ten: 10 - 3 = 7.
  PaperReplica roomy(100);
  roomy.prefill(32, 16);
  roomy.decode(32);
  roomy.branch(roomy.decode(32), 2);
  CHECK(items(roomy.decide(*make_batching("sarathi", R"({"token_budget": 10})"))) == Items{{0, 7}});
}

TEST_CASE("sarathi: a schedule of one part is its low end, and the last part has no end", "[unit]") {
  const auto chunk_at = [](std::int64_t done, const std::string& stages) {
    PaperReplica replica(10'000);
    replica.prefill(20'000, done);
    const auto policy = make_batching(
        "sarathi", R"({"chunk_schedule": {"high": 1024, "low": 256, "max_tokens": 4000, "stages": )" + stages + "}}");
    return replica.decide(*policy).items.at(0).new_tokens;
  };
  CHECK(chunk_at(0, "1") == 256);
  CHECK(chunk_at(9000, "1") == 256);
  CHECK(chunk_at(1999, "2") == 1024);
  CHECK(chunk_at(2000, "2") == 256);
  CHECK(chunk_at(4000, "2") == 256);
  CHECK(chunk_at(19'000, "2") == 256);
}

TEST_CASE("sarathi: the chunk of a target counts what decodes attend to and how far the prompt has come", "[unit]") {
  struct Price final : BatchPricer {
    std::int64_t time_ps(const BatchSketch& sketch) const override {
      return sketch.chunk_tokens * 10'000 + sketch.chunk_past * 1'000 + sketch.decodes * 1'000 +
             sketch.decode_context * 100;
    }
  } price;
  const auto policy = make_batching("sarathi", R"({"tbt_slo": "1 us", "budget_step": 1, "slo_budget": "iteration"})");
  // 1,000,000 - 2 x 1,000 - 2 x 101 x 100 = 977,800 are 97 tokens at the head of a prompt; 100 further on it is 87.
  PaperReplica replica(10'000);
  replica.pricer = &price;
  replica.decode(100);
  replica.decode(100);
  replica.wait(500);
  CHECK(items(replica.decide(*policy)) == Items{{2, 97}});
  PaperReplica under_way(10'000);
  under_way.pricer = &price;
  under_way.decode(100);
  under_way.decode(100);
  under_way.prefill(500, 100);
  under_way.prefill(500, 400);
  CHECK(items(under_way.decide(*policy)) == Items{{2, 87}});
  // Without decodes it is still the prompt's own place that counts: 1,000,000 - 100,000.
  PaperReplica alone(10'000);
  alone.pricer = &price;
  alone.prefill(500, 100);
  CHECK(items(alone.decide(*policy)) == Items{{0, 90}});
}

TEST_CASE("sarathi asks for no price where there is nothing to prefill", "[unit]") {
  struct Never final : BatchPricer {
    std::int64_t time_ps(const BatchSketch&) const override {
      ++calls;
      return 1;
    }
    mutable int calls = 0;
  } price;
  PaperReplica replica(1000);
  replica.pricer = &price;
  replica.decode(100);
  const auto policy = make_batching("sarathi", R"({"tbt_slo": "1 us", "slo_budget": "iteration"})");
  CHECK(replica.decide(*policy).stable_iterations == kStable);
  CHECK(price.calls == 0);
  replica.prefill(100, 50);
  replica.decide(*policy);
  CHECK(price.calls > 0);
}

TEST_CASE("sarathi: a fixed budget of a target is computed once", "[unit]") {
  struct Price final : BatchPricer {
    std::int64_t time_ps(const BatchSketch& sketch) const override {
      return sketch.chunk_tokens * 1000 + sketch.chunk_past / 10;
    }
  } price;
  PaperReplica replica(10'000);
  replica.pricer = &price;
  replica.wait(3000);
  const auto policy = make_batching("sarathi", R"({"tbt_slo": "1 us", "budget_step": 1})");
  // 999 x 1,000 + (4,096 - 999) / 10 = 999,309; a thousand tokens are more than a million.
  CHECK(items(replica.decide(*policy)) == Items{{0, 999}});
  replica.limits.max_context = 100;
  CHECK(items(replica.decide(*policy)) == Items{{0, 999}});
  CHECK(items(replica.decide(*make_batching("sarathi", R"({"tbt_slo": "1 us", "budget_step": 1})"))) ==
        Items{{0, 100}});
}

TEST_CASE("sarathi: a fixed budget is that of a chunk that ends with the context", "[unit]") {
  struct Ends final : BatchPricer {
    std::int64_t time_ps(const BatchSketch& sketch) const override {
      CHECK(sketch.chunk_tokens + sketch.chunk_past == 4096);
      CHECK(sketch.decodes == 0);
      ++calls;
      return 1;
    }
    mutable int calls = 0;
  } price;
  PaperReplica replica(10'000);
  replica.pricer = &price;
  replica.decode(100);
  replica.wait(4096);
  CHECK(items(replica.decide(*make_batching("sarathi", R"({"tbt_slo": "1 us", "budget_step": 1024})"))) ==
        Items{{1, 4095}});
  CHECK(price.calls > 0);
}

}  // namespace test_sarathi
