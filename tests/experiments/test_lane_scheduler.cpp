// One scheduler over the lanes of a pipeline: by hand, in closed form, against lanes of their own, and nothing lost.
#include "tests/experiments/bench_cluster.hpp"
#include "tests/policies/kv_support.hpp"

namespace test_lane_scheduler {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

/// A layer takes 1 ps a token.
class LayerModel final : public IterationModel {
 public:
  void cost(const BatchShape& shape, IterationCost& out) override {
    for (const Segment& segment : shape.segments) out.time_ps += segment.tokens * (segment.last - segment.first);
  }
};

/// One replica of `stages` stages of one layer each, with as many batches in flight.
struct Pipeline : BenchCluster {
  LayerModel layers;
  Pipeline(std::int32_t stages, const char* policy, const char* params, const char* cache = "paged",
           std::int64_t tokens = 16'000, bool one_scheduler = true, std::int64_t lanes = 0,
           const HostTime* host = nullptr, ClusterPolicies deciders = {})
      : BenchCluster(std::move(deciders)) {
    MemberParts member;
    std::vector<StageLayers> divided;
    for (std::int32_t s = 0; s < stages; ++s) divided.push_back({s, s + 1});
    member.pipe = std::make_unique<StagePipe>(
        layers, std::vector<std::vector<StageLayers>>{divided}, [](std::int64_t, std::int32_t) { return 0; }, 1);
    if (lanes == 0) lanes = stages;
    if (one_scheduler) member.one_scheduler = lanes;
    for (std::int64_t lane = 0; lane < (one_scheduler ? 1 : lanes); ++lane) {
      ReplicaParts& parts = member.lanes.emplace_back();
      parts.model = &layers;
      parts.host = host;
      parts.batching = make_batching(policy, params);
      parts.kv = policies::test::make_cache(cache, "{}", tokens);
      parts.limits = {.max_context = 512, .layers = stages};
      total_blocks += parts.kv->total_blocks();
    }
    cluster.add(std::move(member));
  }
  std::int64_t finished(std::int64_t id) const {
    for (const RequestRecord& r : log.requests)
      if (r.id == id) return r.finished->ticks;
    return -1;
  }
  std::int64_t first(std::int64_t id) const {
    for (const RequestRecord& r : log.requests)
      if (r.id == id) return r.first_token->ticks;
    return -1;
  }
};

/// Most iterations that are under way at any time.
std::int64_t most_at_once(const std::vector<IterationRecord>& iterations) {
  std::vector<std::pair<std::int64_t, int>> changes;  // those that end come first
  for (const IterationRecord& run : iterations) {
    changes.emplace_back(run.start.ticks, 1);
    changes.emplace_back(run.end.ticks, -1);
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max<std::int64_t>(most, now += change);
  return most;
}

}  // namespace

TEST_CASE("one scheduler: three stages and unequal batches, tick by tick", "[unit]") {
  // Prompts first, at most 4 prompt tokens a batch; a stage takes 1 ps a token. A (4 tokens), B (1) and C (4) come at
  // 0 and make three batches; D (2) comes at 6, when all are in flight.
  //   stage 0: A [0,4)  B [4,5)   C [5,9)   D [12,14) B [14,15) C [17,18) A [19,20)
  //   stage 1: A [4,8)  B [8,9)   C [9,13)  D [14,16) B [16,17) C [18,19) A [20,21)
  //   stage 2: A [8,12) B [12,13) C [13,17) D [17,19) B [19,20) C [20,21) A [21,22)
  // At 12 the lane of A takes the prompt of D, so A's decode waits until 19; B's and C's go on in their lanes.
  Pipeline bench(3, "vllm_v0", R"({"max_batched_tokens": 4})");
  bench.load.entries = {{0, 4, 2, -1, {}}, {0, 1, 2, -1, {}}, {0, 4, 2, -1, {}}, {6, 2, 1, -1, {}}};
  bench.run();
  REQUIRE(bench.metrics.completed == 4);
  CHECK(bench.first(0) == 12);
  CHECK(bench.first(1) == 13);
  CHECK(bench.first(2) == 17);
  CHECK(bench.finished(3) == 19);
  CHECK(bench.finished(1) == 20);
  CHECK(bench.finished(2) == 21);
  CHECK(bench.finished(0) == 22);
  // Stage time: three a token, 4 + 1 + 4 + 2 + 1 + 1 + 1 tokens.
  CHECK(bench.cluster.result(0).work_ps == 3 * 14);
  CHECK(bench.cluster.result(0).occupied_ps == 22);
}

TEST_CASE("one scheduler: m equal batches take (m + P - 1) stage times", "[theory]") {
  // A batch a prompt of 10 tokens. As a batch leaves the last stage the first is free for the next, so the pipeline
  // fills and drains once: a share of (P - 1) / (m + P - 1) is bubbles, and time is (m + P - 1) / m of the ideal.
  for (const std::int64_t stages : {1, 2, 3, 5, 8})
    for (const std::int64_t m : {1, 2, 7, 40}) {
      CAPTURE(stages, m);
      Pipeline bench(static_cast<std::int32_t>(stages), "vllm_v0", R"({"max_batched_tokens": 10})");
      for (std::int64_t i = 0; i < m; ++i) bench.load.entries.push_back({0, 10, 1, -1, {}});
      bench.run();
      CHECK(bench.metrics.completed == m);
      CHECK(bench.engine.now().ticks == (m + stages - 1) * 10);
      CHECK(bench.cluster.result(0).work_ps == m * stages * 10);
      CHECK(bench.cluster.result(0).occupied_ps == (m + stages - 1) * 10);
    }
}

TEST_CASE("one scheduler: lanes without work take an even share of the decodes", "[unit]") {
  // Static batching takes all four prompts as one batch: 4 ps a stage, out at 8. Then two decodes go on in each of the
  // two lanes: stage 0 [8,10) [10,12), stage 1 [10,12) [12,14); each lane decodes twice more, at 12 and 14, out at 16
  // and 18. One batch of four would take 8 a round: out at 16, then 24.
  Pipeline bench(2, "static", R"({"max_sequences": 8, "reservation": "oracle"})");
  for (int i = 0; i < 4; ++i) bench.load.entries.push_back({0, 1, 3, -1, {}});
  bench.run();
  REQUIRE(bench.metrics.completed == 4);
  CHECK(bench.metrics.iterations == 1 + 2 * 2);
  std::vector<std::int64_t> ends;
  for (const RequestRecord& r : bench.log.requests) ends.push_back(r.finished->ticks);
  CHECK(ends == std::vector<std::int64_t>{16, 16, 18, 18});
  // Who moved keeps its gaps: 8 to 12 and 12 to 16, 8 to 14 and 14 to 18, twice each.
  CHECK(bench.metrics.tbt.count() == 8);
  CHECK(bench.metrics.tbt.sum() == Approx(2.0 * (8 + 10)));
}

TEST_CASE("one scheduler: one pool serves what shares of it cannot", "[unit]") {
  // A cache of 8 blocks of 16 tokens; the request takes 6 of them. Two lanes with 4 blocks each never can.
  const auto completed = [](bool one_scheduler) {
    Pipeline bench(2, "vllm_v0", "{}", "paged", one_scheduler ? 128 : 64, one_scheduler);
    bench.load.entries = {{0, 80, 10, -1, {}}};
    bench.run();
    return bench.metrics.completed;
  };
  CHECK(completed(true) == 1);
  CHECK(completed(false) == 0);
}

TEST_CASE("one scheduler: who never fits is rejected, who fits later waits", "[unit]") {
  // 8 blocks. The first takes 5 for its prompt, the second 6: it waits for the first to end. The third takes 9.
  Pipeline bench(2, "vllm_v0", "{}", "paged", 128);
  bench.load.entries = {{0, 75, 3, -1, {}}, {0, 90, 2, -1, {}}, {0, 140, 2, -1, {}}};
  bench.run();
  CHECK(bench.metrics.completed == 2);
  CHECK(bench.metrics.rejected == 1);
  CHECK(bench.first(1) > bench.finished(0));
  CHECK(bench.free_blocks() == bench.total_blocks);
}

TEST_CASE("one scheduler: the earliest admission gets on, whoever holds the blocks", "[unit]") {
  // Two prompts of 8 blocks in a cache of 10: chunk by chunk each takes blocks that the other needs. The later gives
  // way to each block of the first at most, and both get through.
  Pipeline bench(2, "vllm_v1", R"({"max_num_batched_tokens": 16})", "paged", 160);
  bench.load.entries = {{0, 128, 4, -1, {}}, {0, 128, 4, -1, {}}};
  bench.run();
  CHECK(bench.metrics.completed == 2);
  CHECK(bench.finished(0) < bench.finished(1));
  CHECK(bench.metrics.preemptions >= 1);
  CHECK(bench.metrics.preemptions <= 9);
}

TEST_CASE("one scheduler: thrash is no more than with one batch in flight", "[prop]") {
  for (const std::string policy : {"vllm_v1", "sjf", "priority", "vllm_v0", "sarathi"}) {
    const auto processed = [&](std::int64_t lanes) {
      Pipeline bench(4, policy.c_str(), "{}", "paged", 2'400, true, lanes);
      sim::RandomStream random(11, "thrash");
      for (int i = 0; i < 80; ++i)
        bench.load.entries.push_back({i * 100,
                                      static_cast<std::int64_t>(50 + random.below(250)),
                                      static_cast<std::int64_t>(50 + random.below(150)),
                                      -1,
                                      {}});
      bench.run();
      CHECK(bench.metrics.completed == 80);
      return bench.metrics.processed_tokens;
    };
    CAPTURE(policy);
    CHECK(static_cast<double>(processed(4)) < 1.5 * static_cast<double>(processed(1)));
  }
}

TEST_CASE("one scheduler: the host takes batches one after the other", "[unit]") {
  // Four prompts, a batch each, a stage of 10 ps; the host takes 100 for each. One after the other: the last is ready
  // at 400 and out at 400 + 4 x 10. With a scheduler for each lane all are ready at 100.
  class Host final : public HostTime {
   public:
    HostWork work(const BatchShape&, const IterationPrice&) const override { return {.exposed_ps = 100}; }
  } host;
  for (const bool one_scheduler : {true, false}) {
    Pipeline bench(4, "vllm_v0", R"({"max_batched_tokens": 10})", "paged", 16'000, one_scheduler, 0, &host);
    for (int i = 0; i < 4; ++i) bench.load.entries.push_back({0, 10, 1, -1, {}});
    bench.run();
    CHECK(bench.engine.now().ticks == (one_scheduler ? 440 : 100 + 7 * 10));
  }
}

TEST_CASE("routers see the queue and the cache of one scheduler once", "[unit]") {
  class Reads final : public policies::Router {
   public:
    std::int64_t waiting = -1, running = -1, blocks = -1, total = -1;
    bool reads_live() const override { return true; }
    bool reads_reports() const override { return true; }
    std::size_t route(const policies::RouteView& view) override {
      waiting = view.replicas[0].load.waiting;
      running = view.replicas[0].load.running;
      blocks = view.replicas[0].load.used_blocks;
      total = view.replicas[0].load.total_blocks;
      CHECK(view.replicas[0].waiting == waiting);
      CHECK(view.replicas[0].kv_blocks == blocks);
      CHECK(view.replicas[0].kv_total == total);
      return 0;
    }
  };
  auto router = std::make_unique<Reads>();
  Reads& reads = *router;
  // Prompts of 64 tokens, 4 blocks, a batch each; the cache of 12 holds three (one block is kept free of 13), the
  // fourth waits in both lanes' view. At 20 ps a fifth comes.
  Pipeline bench(2, "vllm_v0", R"({"max_batched_tokens": 64, "watermark": 0})", "paged", 16 * 8, true, 0, nullptr,
                 {.router = std::move(router)});
  bench.add([] { return make_batching("vllm_v0"); }, 100);
  for (int i = 0; i < 3; ++i) bench.load.entries.push_back({0, 64, 2, -1, {}});
  bench.load.entries.push_back({20, 64, 2, -1, {}});
  bench.run();
  // Two run, one in each lane; the third waits; 8 of 8 blocks are taken.
  CHECK(reads.running == 2);
  CHECK(reads.waiting == 1);
  CHECK(reads.blocks == 8);
  CHECK(reads.total == 8);
  CHECK(bench.metrics.completed == 4);
}

TEST_CASE("one scheduler with one batch in flight is a lane of its own", "[prop]") {
  for (const std::string policy : {"sarathi", "vllm_v0", "vllm_v1", "orca", "sglang", "static"}) {
    CAPTURE(policy);
    std::vector<std::vector<std::int64_t>> ends;
    for (const bool one_scheduler : {true, false}) {
      Pipeline bench(3, policy.c_str(), "{}", "paged", 3'000, one_scheduler, 1);
      sim::RandomStream random(3, "lane");
      for (int i = 0; i < 60; ++i)
        bench.load.entries.push_back({static_cast<std::int64_t>(random.below(60'000)),
                                      static_cast<std::int64_t>(1 + random.below(400)),
                                      static_cast<std::int64_t>(1 + random.below(60)),
                                      -1,
                                      {}});
      bench.run();
      std::vector<std::int64_t>& end = ends.emplace_back();
      for (std::int64_t id = 0; id < 60; ++id) end.push_back(bench.finished(id));
      CHECK(bench.metrics.completed == 60);
    }
    CHECK(ends[0] == ends[1]);
  }
}

TEST_CASE("one scheduler: every policy, nothing lost, at most P batches in flight", "[prop]") {
  for (const std::string policy :
       {"sarathi", "vllm_v0", "vllm_v1", "orca", "sglang", "static", "sjf", "priority", "urgency", "fastertransformer"})
    for (const std::string cache : {"paged", "block_hash", "radix", "contiguous"}) {
      CAPTURE(policy, cache);
      Pipeline bench(4, policy.c_str(), "{}", cache.c_str(), 1'600);
      sim::RandomStream random(7, "lanes");
      std::int64_t outputs = 0;
      for (int i = 0; i < 120; ++i) {
        const auto prompt = static_cast<std::int64_t>(1 + random.below(400));
        const auto output = static_cast<std::int64_t>(1 + random.below(80));
        outputs += output;
        bench.load.entries.push_back({static_cast<std::int64_t>(random.below(40'000)), prompt, output, -1, {}});
      }
      bench.run();
      CHECK(bench.metrics.completed == 120);
      CHECK(bench.metrics.output_tokens == outputs);
      CHECK(bench.free_blocks() == bench.total_blocks);
      // Each token after the first of a request ends a gap.
      CHECK(bench.metrics.tbt.count() == outputs - 120);
      const ReplicaResult result = bench.cluster.result(0);
      CHECK(result.work_ps <= 4 * result.occupied_ps);
      CHECK(result.work_ps == 4 * bench.metrics.processed_tokens);  // a stage takes 1 ps a token
      CHECK(most_at_once(bench.log.iterations) <= 4);
    }
}

TEST_CASE("a replica that fails loses what its lanes had in flight, and nothing else", "[prop]") {
  ClusterParams params;
  params.failures.at = {{.replica = 0, .time_s = 9e-9, .duration_s = 4e-9},
                        {.replica = 0, .time_s = 15e-9, .duration_s = 1e-9}};
  Pipeline bench(3, "sarathi", R"({"token_budget": 64})", "paged", 1'600);
  for (int i = 0; i < 50; ++i) bench.load.entries.push_back({i * 400, 50 + i, 20, -1, {}});
  bench.run(params);
  CHECK(bench.metrics.completed == 50);
  CHECK(bench.free_blocks() == bench.total_blocks);
  CHECK(bench.cluster.totals().failures == 2);
}

}  // namespace test_lane_scheduler
