#include "tests/experiments/bench_replica.hpp"
#include "tests/policies/kv_support.hpp"

namespace test_replica {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

TEST_CASE("one request, by hand: sarathi", "[unit]") {
  // Iterations of 1 s. 600 prompt tokens at 512 an iteration: 512 in [0,1), 88 in [1,2), first token at 2; two more
  // tokens at 3 and 4.
  BenchReplica bench(make_batching("sarathi", R"({"token_budget": 512})"), 1000);
  bench.arrive(0, 600, 3);
  bench.run();
  REQUIRE(bench.log.requests.size() == 1);
  const RequestRecord& r = bench.log.requests[0];
  CHECK(bench.log.statuses[0] == "completed");
  CHECK(bench.seconds(r.admitted) == 0);
  CHECK(bench.seconds(r.first_token) == 2);
  CHECK(bench.seconds(r.finished) == 4);
  CHECK(bench.metrics.iterations == 4);
  CHECK(bench.metrics.tbt.count() == 2);
  CHECK(bench.metrics.tbt.mean() == kSecond);
  CHECK(bench.metrics.tpot.mean() == kSecond);
  CHECK(bench.metrics.processed_tokens == 600 + 2);  // the last token is emitted, never fed back
  // What the iterations were: contexts grow by one.
  CHECK(bench.model.shapes[0].segments[0].prefill.pairs == 512 * 513 / 2);
  CHECK(bench.model.shapes[1].segments[0].prefill.pairs == 88 * 512 + 88 * 89 / 2);
  CHECK(bench.model.shapes[0].logit_rows == 0);
  CHECK(bench.model.shapes[1].logit_rows == 1);
  CHECK(bench.model.shapes[2].segments[0].decode.context_tokens == 601);
  CHECK(bench.model.shapes[3].segments[0].decode.context_tokens == 602);
  CHECK(bench.replica->kv().free_blocks() == 1000);
}

TEST_CASE("a prompt stalls decodes under vllm_v0, not under sarathi", "[unit]") {
  // A decodes from 1 s on; B arrives in the third iteration with 600 tokens. Iterations last 1 s a 100 tokens or part.
  const auto cost = [](const BatchShape& shape) { return (shape.segments[0].tokens + 99) / 100 * kSecond; };
  const auto worst_tbt = [&](const char* policy, const char* params) {
    BenchReplica bench(make_batching(policy, params), 1000);
    bench.model.cost_ps = cost;
    bench.arrive(0, 100, 20);
    bench.arrive(3, 600, 2);
    bench.run();
    CHECK(bench.metrics.completed == 2);
    return static_cast<double>(bench.metrics.tbt.max()) / kSecond;
  };
  CHECK(worst_tbt("vllm_v0", "{}") == 7);                        // B's 6 s and A's own
  CHECK(worst_tbt("sarathi", R"({"token_budget": 100})") == 1);  // 99 of B's tokens beside A's one
}

TEST_CASE("requests of one instant are batched together", "[unit]") {
  BenchReplica bench(make_batching("vllm_v0"), 1000);
  bench.submit({0, 10, 1});
  bench.submit({1, 20, 1});
  bench.replica->wake();
  bench.run();
  CHECK(bench.model.shapes.size() == 1);
  CHECK(bench.model.shapes[0].sequences == 2);
}

TEST_CASE("rejections: too long, never schedulable", "[unit]") {
  BenchReplica bench(make_batching("vllm_v0"), 20);  // 320 tokens of cache
  bench.arrive(0, 4000, 97);                         // 4,097 > 4,096
  bench.arrive(1, 400, 10);                          // needs 25 blocks of 20
  bench.arrive(2, 10, 2);
  bench.run();
  CHECK(bench.log.statuses ==
        std::vector<std::string>{"rejected:context_exceeded", "rejected:unschedulable", "completed"});
  CHECK(bench.metrics.rejected == 2);
  CHECK(bench.metrics.rejected_by_reason.at("context_exceeded") == 1);
  CHECK(bench.metrics.rejected_by_reason.at("unschedulable") == 1);
  CHECK(bench.replica->idle());
}

TEST_CASE("preemption by recompute, by hand", "[unit]") {
  // 4 blocks. Two prompts of 31 tokens take 2 blocks each, prefilled together in [0,1). The first decode, [1,2), fills
  // the 32 places of each; the next needs a fifth block, so the later one goes, and returns when the first has ended.
  BenchReplica bench(make_batching("vllm_v0", R"({"watermark": 0})"), 4);
  bench.arrive(0, 31, 4);
  bench.arrive(0, 31, 4);
  bench.run();
  REQUIRE(bench.metrics.completed == 2);
  CHECK(bench.metrics.preemptions == 1);
  CHECK(bench.metrics.preempted_requests == 1);
  const RequestRecord& second = bench.log.requests[1];
  CHECK(second.id == 1);
  CHECK(second.preemptions == 1);
  // At 2 the second goes. The first has its third token at 3 and its fourth at 4.
  CHECK(bench.seconds(bench.log.requests[0].finished) == 4);
  // The second recomputes 31 + 2 tokens in [4,5) for its third token, and decodes the fourth in [5,6).
  CHECK(bench.seconds(second.finished) == 6);
  CHECK(bench.model.shapes[4].segments[0].prefill.q_tokens == 33);
  CHECK(bench.metrics.processed_tokens == 31 + 31 + 2 + 1 + 1 + 33 + 1);
  CHECK(bench.replica->kv().free_blocks() == 4);
}

TEST_CASE("who arrives as an iteration ends joins the next, whatever the order of events", "[unit]") {
  for (const bool early : {false, true}) {
    BenchReplica bench(make_batching("orca", R"({"reservation": "oracle"})"), 1000);
    bench.arrive(0, 10, 3);
    if (early) bench.arrive(0, 10, 3);  // changes which event was scheduled first
    bench.arrive(1, 10, 2);
    bench.run();
    const RequestRecord& last = bench.log.requests.back();
    CHECK(bench.seconds(bench.log.requests[0].arrived) + bench.seconds(last.admitted) == 1);
  }
}

TEST_CASE("overheads lengthen iterations", "[unit]") {
  const AddedHostTime host(std::make_unique<StagedHostTime>(HostStages{}, HiddenStages{}), 500, 30);
  BenchReplica bench(make_batching("orca", R"({"reservation": "oracle"})"), 100, nullptr, &host);
  bench.submit({0, 10, 1});
  bench.submit({1, 10, 1});
  bench.replica->wake();
  bench.run();
  CHECK(bench.engine.now().ticks == kSecond + 500 + 2 * 30);
}

TEST_CASE("a broken policy is found out", "[unit]") {
  struct Greedy final : policies::Batching {
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      for (const policies::SeqId id : view.waiting) {
        out.admit.push_back({id, 1'000'000});
        out.items.push_back({.seq = id, .new_tokens = 1});
      }
    }
  };
  struct Idle final : policies::Batching {
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      if (view.waiting.empty()) out.decode_rest = false;
      for (const policies::SeqId id : view.waiting) {
        out.admit.push_back({id, 10});
        out.items.push_back({.seq = id, .new_tokens = 10});
      }
    }
  };
  struct Overlong final : policies::Batching {
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      for (const policies::SeqId id : view.waiting) {
        out.admit.push_back({id, 10});
        out.items.push_back({.seq = id, .new_tokens = 11});
      }
    }
  };
  const auto message = [](std::unique_ptr<policies::Batching> policy) {
    BenchReplica bench(std::move(policy), 10);
    bench.arrive(0, 10, 3);
    try {
      bench.run();
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(message(std::make_unique<Greedy>()), Catch::Contains("whose blocks are not free"));
  CHECK_THAT(message(std::make_unique<Idle>()), Catch::Contains("none was given work"));
  CHECK_THAT(message(std::make_unique<Overlong>()), Catch::Contains("longer than what is left"));
}

TEST_CASE("a policy that asks what a batch would cost is told the price of that batch", "[unit]") {
  // 66 tokens of two decodes and a chunk take 66 s; the decodes alone 2 s.
  struct Asks final : policies::Batching {
    std::vector<std::int64_t> told;
    std::unique_ptr<policies::Batching> inner = make_batching("sarathi");
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      told.push_back(
          view.pricer->time_ps({.decodes = 2, .decode_context = 300, .chunk_tokens = 64, .chunk_past = 128}));
      told.push_back(view.pricer->time_ps({.decodes = 2, .decode_context = 300}));
      told.push_back(view.pricer->time_ps({.chunk_tokens = 1, .chunk_past = 5}));
      inner->decide(view, out);
    }
  };
  auto policy = std::make_unique<Asks>();
  const std::vector<std::int64_t>& told = policy->told;
  BenchReplica bench(std::move(policy), 100);
  bench.model.cost_ps = [](const BatchShape& shape) { return shape.segments[0].tokens * kSecond; };
  bench.arrive(0, 10, 1);
  bench.run();
  REQUIRE(told.size() >= 3);
  CHECK(told[0] == 66 * kSecond);
  CHECK(told[1] == 2 * kSecond);
  CHECK(told[2] == kSecond);
  REQUIRE(bench.model.shapes.size() >= 3);
  Segment both{.first = 0, .last = 32, .tokens = 66, .decode = {2, 300}};
  both.prefill.add(64, 128);
  CHECK(bench.model.shapes[0].segments == std::vector<Segment>{both});
  CHECK(bench.model.shapes[0].sequences == 3);
  CHECK(bench.model.shapes[0].logit_rows == 3);
  CHECK(bench.model.shapes[1].segments ==
        std::vector<Segment>{{.first = 0, .last = 32, .tokens = 2, .decode = {2, 300}}});
  CHECK(bench.model.shapes[1].sequences == 2);
  Segment chunk{.first = 0, .last = 32, .tokens = 1};  // the last token of a prompt
  chunk.prefill.add(1, 5);
  CHECK(bench.model.shapes[2].segments == std::vector<Segment>{chunk});
  CHECK(bench.model.shapes[2].sequences == 1);
}

TEST_CASE("items of layers that the model has not are found out", "[unit]") {
  struct Layers final : policies::Batching {
    policies::LayerRange range;
    explicit Layers(policies::LayerRange layers) : range(layers) {}
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      for (const policies::SeqId id : view.waiting) {
        out.admit.push_back({id, 10});
        out.items.push_back({.seq = id, .new_tokens = 10, .layers = range});
      }
    }
  };
  const auto message = [](policies::LayerRange layers) {
    BenchReplica bench(std::make_unique<Layers>(layers), 10);  // 32 layers
    bench.arrive(0, 10, 3);
    try {
      bench.run();
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string(bench.metrics.completed == 1 ? "completed" : "no error");
  };
  CHECK(message({0, 32}) == "completed");
  CHECK(message({0, 0}) == "completed");  // all of them
  const std::vector<policies::LayerRange> wrong{{-1, 2}, {-1, 32}, {0, 33}, {16, 33}, {5, 5}, {6, 5}, {32, 0}};
  for (const policies::LayerRange& layers : wrong) {
    CAPTURE(layers.first, layers.last);
    CHECK_THAT(message(layers), Catch::Contains("an item names layers the model has not"));
  }
}

TEST_CASE("a policy sees how far through the layers a chunk is, and of how many tokens", "[unit]") {
  // Prompt and decode pass 16 layers of 32 an iteration: the prompt's 10 tokens until 2 s, the second token until 4 s.
  struct Halves final : policies::Batching {
    struct Seen {
      std::int64_t chunk_tokens, prefilled;
      std::int32_t layers_done;
      bool operator==(const Seen&) const = default;
    };
    std::vector<Seen> seen;
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      out.decode_rest = false;
      for (const policies::SeqId id : view.waiting) {
        out.admit.push_back({id, 20});
        out.items.push_back({.seq = id, .new_tokens = 10, .layers = {0, 16}});
      }
      for (const policies::SeqId id : view.running) {
        const policies::Sequence& seq = view[id];
        seen.push_back({seq.chunk_tokens, seq.prefilled, seq.layers_done});
        const bool prompt = seq.phase == policies::Phase::prefill;
        out.items.push_back(
            {.seq = id, .new_tokens = prompt ? 10 : 1, .layers = {seq.layers_done, seq.layers_done + 16}});
      }
    }
  };
  auto policy = std::make_unique<Halves>();
  const Halves& halves = *policy;
  using Seen = Halves::Seen;
  BenchReplica bench(std::move(policy), 100);
  std::vector<Seen> seen;
  bench.arrive(0, 10, 2);
  bench.run();
  CHECK(halves.seen == std::vector<Seen>{{10, 0, 16}, {0, 10, 0}, {0, 10, 16}});
  REQUIRE(bench.metrics.completed == 1);
  CHECK(bench.seconds(bench.log.requests[0].first_token) == 2);
  CHECK(bench.seconds(bench.log.requests[0].finished) == 4);
}

TEST_CASE("an iteration takes its block when it begins, whoever looks at that instant", "[unit]") {
  // Iterations of 1 s: the prompt's 10 tokens until 1 s, a token each from there on; the 17th, which needs a second
  // block of 16, is written in [7, 8). All of it is one leap.
  for (const bool leap : {true, false}) {
    CAPTURE(leap);
    BenchReplica bench(make_batching("sarathi"), 100, nullptr, nullptr,
                       [&](ReplicaParts& parts) { parts.leap = leap; });
    bench.model.horizon = 1000;
    struct Looks final : sim::EventHandler {
      BenchReplica* bench = nullptr;
      std::vector<std::int64_t> taken;
      void on_event(std::uint64_t) override {
        bench->replica->sync();
        taken.push_back(100 - bench->replica->kv().available_blocks());
      }
    } looks;
    looks.bench = &bench;
    // Before anything else of the instants 6, 7 and 23 s, and between.
    for (const std::int64_t at : {12, 13, 14, 15, 45, 46, 47})
      bench.engine.schedule_at(sim::Time{at * kSecond / 2}, looks, 0);
    bench.arrive(0, 10, 60);
    bench.arrive(7, 20, 4);   // at the instant in which the first would have taken its block
    bench.arrive(23, 40, 9);  // and where it takes its third
    bench.run();
    CHECK(bench.metrics.completed == 3);
    // At 7 s the 16th token is in: one block still. At 22.5 s and 23 s two, then a third; the second request is over,
    // the third request has come at 23 s and has its 40 tokens in three blocks.
    CHECK(looks.taken == std::vector<std::int64_t>{1, 1, 1, 4, 2, 2, 6});
    CHECK(bench.replica->kv().available_blocks() == 100);
    if (leap) CHECK(bench.model.shapes.size() < 20);  // else leaps had no part in it
  }
}

TEST_CASE("a tier is told when each block that decodes push out goes", "[unit]") {
  // Six blocks of 16. The first request leaves three full blocks of its prompt behind. The second decodes alone in
  // iterations of 1 s from 3 s on: its n-th token is written in the iteration that begins at n - 8 s. Tokens 1, 17 and
  // 33 find a free block; 49, 65 and 81 push one out each, at 41, 57 and 73 s.
  struct Recorder final : policies::KvTier {
    policies::Picoseconds now = 0;
    std::vector<std::int64_t> kept;
    std::optional<std::int64_t> swap_out(std::int64_t, std::int64_t, std::int64_t, std::int64_t) override { return {}; }
    std::int64_t swap_in(std::int64_t, std::int64_t, std::int64_t, std::int64_t) override { return 0; }
    void drop(std::int64_t) override {}
    bool takes_prefixes() const override { return true; }
    void at(policies::Picoseconds time) override { now = time; }
    void keep_block(std::uint64_t) override { kept.push_back(static_cast<std::int64_t>(now / kSecond)); }
  };
  for (const bool leap : {true, false}) {
    CAPTURE(leap);
    Recorder tier;
    BenchReplica bench(make_batching("sarathi"), 6, nullptr, nullptr, [&](ReplicaParts& parts) {
      parts.leap = leap;
      parts.kv = policies::test::make_cache("block_hash", "{}", 6 * 16);
      parts.tier = &tier;
    });
    bench.model.horizon = 1000;
    bench.arrive(0, 49, 1, {{7, 49}});
    bench.arrive(2, 10, 80);
    bench.run();
    CHECK(bench.metrics.completed == 2);
    CHECK(tier.kept == std::vector<std::int64_t>{41, 57, 73});
    if (leap) CHECK(bench.model.shapes.size() < 20);
  }
}

TEST_CASE("drafts of a batch that stays in step are kept as far as the least of them", "[unit]") {
  struct Drafts final : policies::Batching {
    void decide(const policies::BatchView& view, policies::BatchDecision& out) override {
      out.decode_rest = false;
      for (const policies::SeqId id : view.waiting) {
        out.admit.push_back({id, 30});
        out.items.push_back({.seq = id, .new_tokens = 10});
      }
      for (const policies::SeqId id : view.running) out.items.push_back({.seq = id, .draft_tokens = 3});
    }
  };
  struct Least final : policies::Acceptance {
    std::int64_t accepted(const policies::Sequence& seq, std::int64_t) override { return seq.order == 0 ? 3 : 1; }
    void level(std::span<std::int64_t> kept) override { std::ranges::fill(kept, std::ranges::min(kept)); }
  } least;
  BenchReplica bench(std::make_unique<Drafts>(), 100, &least);
  bench.arrive(0, 10, 9);
  bench.arrive(0, 10, 9);
  bench.run();
  // A token each of the prompts, then two at a step, 1 + 1: four steps of two sequences that keep one draft of three.
  CHECK(bench.metrics.completed == 2);
  CHECK(bench.metrics.verifications == 8);
  CHECK(bench.metrics.drafted_tokens == 24);
  CHECK(bench.metrics.accepted_tokens == 8);
}

TEST_CASE("tokens, requests and blocks are conserved under every policy", "[prop]") {
  const auto [policy, params] =
      GENERATE(table<const char*, const char*>({{"static", R"({"reservation": "oracle"})"},
                                                {"orca", R"({"reservation": "pow2"})"},
                                                {"orca", R"({"max_sequences": 4})"},
                                                {"vllm_v0", "{}"},
                                                {"vllm_v0", R"({"watermark": 0, "padded_budget": true})"},
                                                {"sarathi", "{}"},
                                                {"sarathi", R"({"token_budget": 64, "watermark": 0})"}}));
  CAPTURE(policy, params);
  sim::RandomStream random(17, "replica");
  for (int round = 0; round < 5; ++round) {
    BenchReplica bench(make_batching(policy, params), 400);  // 6,400 tokens: tight, so that preemption happens
    bench.model.cost_ps = [](const BatchShape& shape) {
      return kSecond / 10 + shape.segments[0].tokens * kSecond / 1000;
    };
    std::int64_t prompt_tokens = 0, output_tokens = 0, too_long = 0;
    for (int i = 0; i < 120; ++i) {
      const auto prompt = static_cast<std::int64_t>(1 + random.below(1500));
      const auto output = static_cast<std::int64_t>(1 + random.below(400));
      const bool rejected = prompt + output > 4096 || random.below(40) == 0;
      bench.arrive(static_cast<std::int64_t>(random.below(60)), rejected ? 4096 : prompt, output);
      if (rejected) {
        ++too_long;
      } else {
        prompt_tokens += prompt;
        output_tokens += output;
      }
    }
    bench.run();
    const ServingMetrics& m = bench.metrics;
    CHECK(m.arrived == 120);
    CHECK(m.completed + m.rejected == m.arrived);
    CHECK(m.rejected == too_long);
    CHECK(m.prompt_tokens == prompt_tokens);
    CHECK(m.output_tokens == output_tokens);
    // Every prompt token once, every output token but the last once, recomputation on top.
    const std::int64_t least = prompt_tokens + output_tokens - m.completed;
    CHECK(m.processed_tokens >= least);
    if (m.preemptions == 0) CHECK(m.processed_tokens == least);
    CHECK(m.tbt.count() == output_tokens - m.completed);
    CHECK(bench.replica->kv().free_blocks() == 400);
    CHECK(bench.replica->idle());
    CHECK(bench.engine.pending() == 0);
    // Busy time is the sum of iterations, which never overlap.
    std::int64_t busy = 0;
    sim::Time last;
    for (const IterationRecord& iteration : bench.log.iterations) {
      CHECK(iteration.start >= last);
      last = iteration.end;
      busy += (iteration.end - iteration.start).ticks;
    }
    CHECK(static_cast<std::int64_t>(m.busy_ps) == busy);
  }
}

TEST_CASE("Little's law holds over a run", "[theory]") {
  // Mean number in the system times the span equals the sum of times in the system: the left side counted from the
  // iterations' records of who runs and waits, the right one from the requests. A record counts whoever arrived during
  // its second as there for all of it: half a second too much a request, of some 200.
  BenchReplica bench(make_batching("sarathi"), 10'000);
  sim::RandomStream random(5, "little");
  for (int i = 0; i < 400; ++i)
    bench.arrive(static_cast<std::int64_t>(random.below(4000)), static_cast<std::int64_t>(1 + random.below(900)),
                 static_cast<std::int64_t>(1 + random.below(400)));
  bench.run();
  double area = 0;
  for (const IterationRecord& iteration : bench.log.iterations)
    area += static_cast<double>(iteration.running + iteration.waiting);
  double total = 0;
  for (const RequestRecord& r : bench.log.requests) total += bench.seconds(r.finished) - bench.seconds(r.arrived);
  CHECK(total > 60'000);
  CHECK(area == Approx(total).epsilon(0.01));
}

TEST_CASE("a run that is cut short reports the rest as unfinished", "[unit]") {
  BenchReplica bench(make_batching("sarathi"), 1000);
  bench.arrive(0, 10, 100);
  bench.arrive(1, 10, 2);
  bench.arrive(2, 4096, 10);
  bench.engine.run(sim::Time{5 * kSecond + kSecond / 4});
  bench.replica->flush_unfinished();
  CHECK(static_cast<std::int64_t>(bench.metrics.busy_ps) == 5 * kSecond + kSecond / 4);  // the started one in part
  CHECK(bench.log.iterations.back().end.ticks == 5 * kSecond + kSecond / 4);
  CHECK(bench.metrics.completed == 1);
  CHECK(bench.metrics.rejected == 1);
  CHECK(bench.metrics.unfinished == 1);
  CHECK(bench.metrics.arrived == 3);
  CHECK(bench.replica->kv().free_blocks() == 1000);
}

TEST_CASE("who runs is served in the order of admission, whenever it arrived", "[unit]") {
  // Shortest prompt first, two slots, 100 tokens an iteration of 1 s. 0 and 1 are in at once and end at 3 s and 5 s. 2
  // (250 tokens) arrives at 1 s and waits; 3 (10 tokens) arrives later and takes the slot of 0 at 3 s: its first token
  // at 4 s, the other 19 a second each. 2 is admitted at 5 s, behind 3: 99 tokens beside each token of 3, at 5 s and
  // 6 s, the last 52 at 7 s. By arrival it would take all 100 at 6 s, and 3 would go without.
  BenchReplica bench(
      make_batching("expression", R"({"score": "compute_tokens", "token_budget": 100, "max_sequences": 2})"), 1000);
  bench.arrive(0, 10, 3);
  bench.arrive(0, 10, 5);
  bench.arrive(1, 250, 2);
  bench.arrive(2, 10, 20);
  bench.run();
  REQUIRE(bench.log.requests.size() == 4);
  const auto of = [&](std::int64_t id) {
    return *std::ranges::find(bench.log.requests, id, [](const RequestRecord& r) { return r.id; });
  };
  CHECK(bench.seconds(of(0).finished) == 3);
  CHECK(bench.seconds(of(1).finished) == 5);
  CHECK(bench.seconds(of(2).admitted) == 5);
  CHECK(bench.seconds(of(2).first_token) == 8);
  CHECK(bench.seconds(of(2).finished) == 9);
  CHECK(bench.seconds(of(3).first_token) == 4);
  CHECK(bench.seconds(of(3).finished) == 23);
  CHECK(bench.metrics.tbt.max() == kSecond);
}

}  // namespace test_replica
