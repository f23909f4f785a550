#include "tests/experiments/bench_cluster.hpp"

namespace test_cluster_pipeline {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

/// A layer takes 1 ps a token, the embedding before the first `embedding_ps`, the head `head_ps`.
class LayerModel : public IterationModel {
 public:
  std::int64_t head_ps = 0, embedding_ps = 0;
  void cost(const BatchShape& shape, IterationCost& out) override {
    for (const Segment& segment : shape.segments) {
      out.time_ps += segment.tokens * (segment.last - segment.first);
      if (segment.first == 0) out.time_ps += embedding_ps;
    }
    if (shape.logit_rows > 0) out.time_ps += head_ps;
  }
};

BatchShape batch(std::int64_t tokens) {
  BatchShape shape;
  shape.sequences = shape.logit_rows = 1;
  shape.segments.push_back({.first = 0, .last = 4, .tokens = tokens});
  return shape;
}

using Modes = std::vector<std::vector<StageLayers>>;

/// Layers that are all alike, as evenly over stages as they go.
std::vector<StageLayers> stages_of(std::int32_t layers, std::int64_t stages) {
  std::vector<StageLayers> all;
  for (std::int64_t s = 0; s < stages; ++s)
    all.push_back(
        {static_cast<std::int32_t>(layers * s / stages), static_cast<std::int32_t>(layers * (s + 1) / stages)});
  for (std::size_t s = 2; s + 1 < all.size(); ++s)
    all[s].as_before = all[s].last - all[s].first == all[s - 1].last - all[s - 1].first;
  return all;
}

std::int64_t no_send(std::int64_t, std::int32_t) {
  return 0;
}

}  // namespace

TEST_CASE("equal micro-batches: (m + stages - 1) x stage time", "[theory]") {
  // 4 stages of one layer, batches of 10 tokens: 10 ps a stage. 6 batches: (6 + 3) x 10 = 90 ps, and a share of
  // 3 / 9 of bubbles.
  LayerModel model;
  StagePipe pipe(model, {stages_of(4, 4)}, no_send, 1);
  ExactTime left;
  for (int i = 0; i < 6; ++i) left = pipe.pass({0, 0}, batch(10));
  CHECK(left.ticks == 90);
  CHECK(pipe.work_ps() == 6 * 40);
  CHECK(pipe.occupied_ps() == 90);
  CHECK(1 - static_cast<double>(pipe.work_ps()) / (4.0 * 90) == Approx(3.0 / 9));
}

TEST_CASE("unequal micro-batches make bubbles, by hand", "[unit]") {
  // 2 stages of two layers; stage times 2 a token. Batches of 10, 40, 10 tokens: 20, 80, 20 ps a stage.
  //   stage 0: [0,20) [20,100) [100,120); stage 1: [20,40) [100,180) [180,200). Stage 1 idles from 40 to 100.
  LayerModel model;
  StagePipe pipe(model, {stages_of(4, 2)}, no_send, 1);
  CHECK(pipe.pass({0, 0}, batch(10)).ticks == 40);
  CHECK(pipe.pass({0, 0}, batch(40)).ticks == 180);
  CHECK(pipe.pass({0, 0}, batch(10)).ticks == 200);
  CHECK(pipe.occupied_ps() == 200);
  CHECK(pipe.work_ps() == 2 * (20 + 80 + 20));
  // The same tokens in equal batches of 20: 40 ps a stage, (3 + 1) x 40 = 160.
  StagePipe even(model, {stages_of(4, 2)}, no_send, 1);
  even.pass({0, 0}, batch(20));
  even.pass({0, 0}, batch(20));
  CHECK(even.pass({0, 0}, batch(20)).ticks == 160);
}

TEST_CASE("sends delay the next stage, not the sender; the head is the last stage's", "[unit]") {
  LayerModel model;
  model.head_ps = 7;
  std::vector<std::int64_t> sent;
  StagePipe pipe(
      model, {stages_of(4, 2)},
      [&](std::int64_t tokens, std::int32_t) {
        sent.push_back(tokens);
        return tokens / 2;
      },
      1);
  // [0,20) send 5 [25,45) head [45,52).
  CHECK(pipe.pass({0, 0}, batch(10)).ticks == 52);
  // Stage 0 is free at 20: [20,40), 45; stage 1 is free at 52: [52,79).
  CHECK(pipe.pass({0, 0}, batch(10)).ticks == 79);
  CHECK(pipe.last_work_ps() == 20 + 27);
  CHECK(sent == std::vector<std::int64_t>{10, 10});  // nothing is sent after the last stage
}

TEST_CASE("what does not end a stage is not sent on", "[unit]") {
  // Three stages of two layers, sends of 5 ps a token. A token through all of them: [0,2) 5 [7,9) 5 [14,16).
  LayerModel model;
  const auto send = [](std::int64_t tokens, std::int32_t) { return 5 * tokens; };
  StagePipe pipe(model, {stages_of(6, 3)}, send, 1);
  BatchShape one = batch(1);
  one.segments[0].last = 6;
  CHECK(pipe.pass({0, 0}, one).ticks == 16);
  CHECK(pipe.last_work_ps() == 6);
  // A chunk of 10 tokens that goes on from layer 4: nothing to do, and nothing to send, before the last stage.
  BatchShape late;
  late.sequences = 1;
  late.segments.push_back({.first = 4, .last = 6, .tokens = 10});
  CHECK(pipe.pass({100, 0}, late).ticks == 120);
  // One that stops after layer 3, in the middle of the second stage: [200,220) 50 [270,280).
  BatchShape early;
  early.sequences = 1;
  early.segments.push_back({.first = 0, .last = 3, .tokens = 10});
  CHECK(pipe.pass({200, 0}, early).ticks == 280);
  CHECK(pipe.last_work_ps() == 30);
  // Both beside each other: the second stage sends nothing, and the last begins when it is through.
  BatchShape both = early;
  both.segments.push_back(late.segments[0]);
  CHECK(pipe.pass({300, 0}, both).ticks == 400);
  CHECK(pipe.last_work_ps() == 50);
}

TEST_CASE("stages take what their own layers take, equal or not", "[prop]") {
  // Against the sum over layers, one batch after the other: a layer takes 1 ps a token, the embedding 3, the head 7,
  // a send 2 a token. Batches pass all layers, or begin or end within, or some tokens pass more than others.
  for (const auto& [layers, stages] : std::vector<std::pair<std::int32_t, std::int64_t>>{{8, 4}, {10, 4}, {12, 3}}) {
    CAPTURE(layers, stages);
    const auto divided = stages_of(layers, stages);
    LayerModel model;
    model.embedding_ps = 3;
    model.head_ps = 7;
    StagePipe pipe(
        model, {divided}, [](std::int64_t tokens, std::int32_t) { return 2 * tokens; }, 1);
    const std::int32_t middle = layers / 2;
    const std::vector<std::vector<Segment>> batches{
        {{.first = 0, .last = layers, .tokens = 10}},
        {{.first = 0, .last = layers, .tokens = 3}},
        {{.first = middle, .last = layers, .tokens = 20}},
        {{.first = 0, .last = middle, .tokens = 30}},
        {{.first = 0, .last = middle, .tokens = 5}, {.first = middle, .last = layers, .tokens = 40}},
        {{.first = 0, .last = layers, .tokens = 6}, {.first = middle, .last = layers, .tokens = 9}},
        {{.first = 0, .last = layers, .tokens = 1}}};
    std::int64_t at = 0;
    for (const std::vector<Segment>& segments : batches) {
      BatchShape shape;
      shape.sequences = 1;
      shape.logit_rows = segments.back().last == layers ? 1 : 0;
      shape.segments = segments;
      std::int64_t work = shape.logit_rows > 0 ? 7 : 0, sends = 0;
      for (const Segment& segment : segments) {
        if (segment.first == 0) work += 3;
        work += segment.tokens * (segment.last - segment.first);
        for (std::size_t s = 0; s + 1 < divided.size(); ++s)
          if (segment.first < divided[s].last && segment.last >= divided[s].last) sends += 2 * segment.tokens;
      }
      // Alone in the pipe: all its work and all its sends one after the other.
      at += 10'000;
      CHECK(pipe.pass({at, 0}, shape).ticks == at + work + sends);
      CHECK(pipe.last_work_ps() == work);
    }
  }
}

TEST_CASE("a pipe that is cleared was occupied until then, and takes the next at once", "[unit]") {
  // 2 stages of two layers: 10 tokens take [0,20) [20,40), two more batches of them until 80. Cleared at 30 ps, it was
  // occupied for 30. The next, at 100 ps, takes [100,120) [120,140): 70 ps in all.
  LayerModel model;
  StagePipe pipe(model, {stages_of(4, 2)}, no_send, 1);
  for (int i = 0; i < 3; ++i) pipe.pass({0, 0}, batch(10));
  CHECK(pipe.occupied_ps() == 80);
  pipe.clear({30, 0});
  CHECK(pipe.occupied_ps() == 30);
  pipe.clear({50, 0});  // nothing is in it
  CHECK(pipe.occupied_ps() == 30);
  CHECK(pipe.pass({100, 0}, batch(10)).ticks == 140);
  CHECK(pipe.occupied_ps() == 70);
  // At once: 30 ps in which it was occupied already do not count again.
  StagePipe again(model, {stages_of(4, 2)}, no_send, 1);
  again.pass({0, 0}, batch(10));
  again.clear({30, 0});
  CHECK(again.pass({30, 0}, batch(10)).ticks == 70);
  CHECK(again.occupied_ps() == 70);
  // What was still to pass no longer stands in the way of the next.
  StagePipe full(model, {stages_of(4, 2)}, no_send, 1);
  for (int i = 0; i < 3; ++i) full.pass({0, 0}, batch(10));
  full.clear({30, 0});
  CHECK(full.pass({30, 0}, batch(10)).ticks == 70);
}

TEST_CASE("times of stages are whole nanoseconds, whatever the tick", "[unit]") {
  // Ticks of 1 ns. Ready at 5.5 ns; each of two stages takes 2 layers x 3000 tokens = 6 ns: [5.5, 11.5), [11.5, 17.5).
  LayerModel model;
  StagePipe pipe(model, {stages_of(4, 2)}, no_send, 1000);
  const ExactTime left = pipe.pass({.ticks = 5, .ps = 500}, batch(3000));
  CHECK(left.ticks == 17);
  CHECK(left.ps == 500);
  REQUIRE(pipe.last_times().size() == 2);
  CHECK(pipe.last_times()[0].begin_ns == 5);
  CHECK(pipe.last_times()[0].end_ns == 11);
  CHECK(pipe.last_times()[1].begin_ns == 11);
  CHECK(pipe.last_times()[1].end_ns == 17);
  // Ticks of 700 ps: 3,000,000 and 600 ps are 2,100,000.6 ns; 2 layers x 100 tokens take 0.2 ns.
  StagePipe odd(model, {stages_of(4, 2)}, no_send, 700);
  odd.pass({.ticks = 3'000'000, .ps = 600}, batch(100));
  CHECK(odd.last_times()[0].begin_ns == 2'100'000);
  CHECK(odd.last_times()[0].end_ns == 2'100'000);  // .8
  CHECK(odd.last_times()[1].end_ns == 2'100'001);  // .0
}

TEST_CASE("a pipelined replica: as many lanes as stages keep it full", "[theory]") {
  // Decodes only matter: 64 requests of 1 prompt token and 50 outputs on 4 stages of 8 layers. An iteration of 16
  // sequences takes 16 x 8 = 128 ps a stage. One lane: every iteration waits for the one before it, 4 x 128 ps each,
  // and three stages of four idle. Four lanes: one iteration leaves every 128 ps.
  const auto run = [](int lanes) {
    BenchCluster bench;
    LayerModel model;
    auto pipe = std::make_unique<StagePipe>(model, Modes{stages_of(32, 4)}, no_send, 1);
    MemberParts member;
    member.pipe = std::move(pipe);
    for (int i = 0; i < lanes; ++i) {
      ReplicaParts& parts = member.lanes.emplace_back();
      parts.model = &model;
      parts.batching = make_batching("orca", R"({"reservation": "oracle", "max_sequences": 16})");
      parts.kv = policies::test::paged_cache(1000);
      parts.limits = {.max_context = 4096, .layers = 32};
    }
    bench.cluster.add(std::move(member));
    for (int i = 0; i < 64; ++i) bench.load.entries.push_back({0, 1, 50});
    bench.run();
    CHECK(bench.metrics.completed == 64);
    const ReplicaResult result = bench.cluster.result(0);
    return std::pair(bench.engine.now().ticks,
                     1 - static_cast<double>(result.work_ps) / (4 * static_cast<double>(result.occupied_ps)));
  };
  // One lane: 4 rounds of 16 requests x 50 iterations x 512 ps. (The first iterations fall a little short: requests of
  // one instant come one after the other.)
  const auto [alone, alone_bubbles] = run(1);
  const auto [full, full_bubbles] = run(4);
  CHECK(alone == Approx(4 * 50 * 512).epsilon(0.03));
  CHECK(alone_bubbles == Approx(0.75).epsilon(0.01));
  CHECK(full == Approx(50 * 512).epsilon(0.05));
  CHECK(full_bubbles < 0.05);
}

TEST_CASE("uniform micro-batches shrink bubbles", "[theory]") {
  // Long prompts among decodes: whole prompts make iterations that differ by an order of magnitude, chunks do not.
  const auto bubbles = [](const char* policy, const char* params) {
    BenchCluster bench;
    LayerModel model;
    MemberParts member;
    member.pipe = std::make_unique<StagePipe>(model, Modes{stages_of(32, 4)}, no_send, 1);
    for (int i = 0; i < 4; ++i) {
      ReplicaParts& parts = member.lanes.emplace_back();
      parts.model = &model;
      parts.batching = make_batching(policy, params);
      parts.kv = policies::test::paged_cache(2000);
      parts.limits = {.max_context = 4096, .layers = 32};
    }
    bench.cluster.add(std::move(member));
    sim::RandomStream random(9, "bubbles");
    std::int64_t at = 0;
    for (int i = 0; i < 300; ++i) {
      at += static_cast<std::int64_t>(random.exponential(18'000));
      bench.load.entries.push_back({at, static_cast<std::int64_t>(100 + random.below(2000)), 60});
    }
    bench.run();
    CHECK(bench.metrics.completed == 300);
    const ReplicaResult result = bench.cluster.result(0);
    return 1 - static_cast<double>(result.work_ps) / (4 * static_cast<double>(result.occupied_ps));
  };
  CHECK(bubbles("sarathi", R"({"token_budget": 256})") < bubbles("vllm_v0", "{}"));
}

}  // namespace test_cluster_pipeline
