// Four ideas that the batching interface must carry without a change to the replica's loop, each as a policy of a few
// lines: layered prefill, speculation, re-sharding, and per-token module mixes. docs/explain/extending.md explains
// them.
#include "tests/experiments/bench_replica.hpp"

namespace test_extension_points {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using namespace orrery::policies;

namespace {

/// Admits everybody and prefills whole prompts; the base of the four.
void admit_all(const BatchView& view, BatchDecision& out, bool with_items = true) {
  for (const SeqId id : view.waiting) {
    out.admit.push_back({id, view[id].prefill_tokens});
    if (with_items) out.items.push_back({.seq = id, .new_tokens = view[id].prefill_tokens});
  }
}

}  // namespace

// ---- layered prefill: a wave of prompts passes one group of layers an iteration, beside every decode ----

namespace {

class Layered final : public Batching {
 public:
  explicit Layered(std::int32_t groups) : groups_(groups) {}
  void decide(const BatchView& view, BatchDecision& out) override {
    if (wave_.empty()) {  // the last wave is through: take all that wait into the next
      admit_all(view, out, false);
      for (const Admission& admission : out.admit) wave_.push_back(admission.seq);
      group_ = 0;
    }
    if (wave_.empty()) return;
    const std::int32_t first = view.limits.layers * group_ / groups_;
    const std::int32_t last = view.limits.layers * (group_ + 1) / groups_;
    for (const SeqId id : wave_)
      out.items.push_back({.seq = id, .new_tokens = view[id].prefill_tokens, .layers = {first, last}});
    if (++group_ == groups_) wave_.clear();
  }

 private:
  std::int32_t groups_, group_ = 0;
  std::vector<SeqId> wave_;
};

}  // namespace

TEST_CASE("layered prefill: one group of layers an iteration, decodes in all of them", "[unit]") {
  BenchReplica bench(std::make_unique<Layered>(4), 1000);
  bench.arrive(0, 100, 10);  // wave 1 in [0,4): first token at 4
  bench.arrive(6, 200, 2);   // wave 2 in [6,10): first token at 10
  bench.run();
  REQUIRE(bench.metrics.completed == 2);
  const auto by_id = [&](std::int64_t id) -> const RequestRecord& {
    return bench.log.requests[0].id == id ? bench.log.requests[0] : bench.log.requests[1];
  };
  CHECK(bench.seconds(by_id(0).first_token) == 4);
  CHECK(bench.seconds(by_id(0).finished) == 13);  // nine decodes, one an iteration, never held up
  CHECK(bench.metrics.tbt.max() == kSecond);
  CHECK(bench.seconds(by_id(1).first_token) == 10);
  // In the iteration [7,8) the wave's 200 tokens pass layers 8-16 and the decode passes all 32: three pieces.
  const BatchShape& shape = bench.model.shapes[7];
  REQUIRE(shape.segments.size() == 3);
  CHECK(shape.segments[0].first == 0);
  CHECK(shape.segments[0].last == 8);
  CHECK(shape.segments[0].tokens == 1);
  CHECK(shape.segments[1].tokens == 201);
  CHECK(shape.segments[1].prefill.q_tokens == 200);
  CHECK(shape.segments[2].first == 16);
  CHECK(shape.segments[2].last == 32);
  CHECK(shape.logit_rows == 1);  // the decode's alone: the wave has not reached the last layer
  // Over its four iterations a wave's tokens pass every layer once.
  std::int64_t token_layers = 0;
  for (const BatchShape& s : bench.model.shapes)
    for (const Segment& segment : s.segments) token_layers += segment.prefill.q_tokens * (segment.last - segment.first);
  CHECK(token_layers == (100 + 200) * 32);
}

// ---- speculation: k proposed tokens verified beside each decode ----

namespace {

class Speculative final : public Batching {
 public:
  explicit Speculative(std::int64_t drafts) : drafts_(drafts) {}
  void decide(const BatchView& view, BatchDecision& out) override {
    admit_all(view, out);
    for (const SeqId id : view.running)
      if (view[id].phase == Phase::decode) out.items.push_back({.seq = id, .draft_tokens = drafts_});
  }

 private:
  std::int64_t drafts_;
};

class KeepTwo final : public Acceptance {
 public:
  std::int64_t accepted(const Sequence&, std::int64_t drafted) override { return std::min<std::int64_t>(2, drafted); }
};

}  // namespace

TEST_CASE("speculation: verified tokens are paid for, kept ones are emitted together", "[unit]") {
  KeepTwo keep;
  BenchReplica bench(std::make_unique<Speculative>(3), 1000, &keep);
  bench.arrive(0, 100, 8);
  bench.run();
  // Prefill gives 1 token at 1 s; then 3 an iteration: 4, 7, and the eighth (of three, one is wanted) at 4 s.
  REQUIRE(bench.metrics.completed == 1);
  CHECK(bench.seconds(bench.log.requests[0].finished) == 4);
  CHECK(bench.model.shapes[1].segments[0].tokens == 4);  // 1 + 3 proposed
  CHECK(bench.model.shapes[1].logit_rows == 4);
  CHECK(bench.model.shapes[1].segments[0].prefill.pairs == 4 * 100 + 10);  // they attend like a chunk
  CHECK(bench.model.shapes[2].segments[0].prefill.kv_tokens == 103 + 4);   // rejected ones leave the cache
  // Three gaps of a second; tokens that come together are 0 apart.
  CHECK(bench.metrics.tbt.count() == 7);
  CHECK(static_cast<std::int64_t>(bench.metrics.tbt.sum()) == 3 * kSecond);
}

TEST_CASE("speculation without an acceptance model keeps nothing: a control", "[unit]") {
  BenchReplica bench(std::make_unique<Speculative>(3), 1000);
  bench.arrive(0, 100, 8);
  bench.run();
  CHECK(bench.seconds(bench.log.requests[0].finished) == 8);
}

// ---- re-sharding: one layout to prefill, another to decode ----

namespace {

class Resharding final : public Batching {
 public:
  void decide(const BatchView& view, BatchDecision& out) override {
    admit_all(view, out);
    out.mode = out.items.empty() ? 1 : 0;  // 0: the layout that prefills best, 1: the one that decodes best
    out.decode_rest = out.items.empty();
  }
};

}  // namespace

TEST_CASE("re-sharding: a switch takes its time, and each mode has its costs", "[unit]") {
  BenchReplica bench(std::make_unique<Resharding>(), 1000);
  bench.model.switch_cost_ps = 10 * kSecond;
  bench.model.cost_ps = [](const BatchShape& shape) { return shape.mode == 0 ? 4 * kSecond : kSecond; };
  bench.arrive(0, 100, 3);
  bench.run();
  // Prefill 4 s in mode 0; switch 10 s; two decodes of 1 s.
  CHECK(bench.seconds(bench.log.requests[0].first_token) == 4);
  CHECK(bench.seconds(bench.log.requests[0].finished) == 4 + 10 + 1 + 1);
  CHECK(bench.replica->switches() == 1);
}

// ---- module mixes: every token takes a small or a big module in each layer, or skips it ----

namespace {

class ModuleMix final : public Batching {
 public:
  void decide(const BatchView& view, BatchDecision& out) override {
    admit_all(view, out);
    for (const SeqId id : view.running) {
      // Even sequences: small module (variant 1) in the first half, big in the rest. Odd ones skip layers 8 to 16.
      if (view[id].order % 2 == 0) {
        out.items.push_back({.seq = id, .layers = {0, 16}, .variant = 1});
        out.items.push_back({.seq = id, .layers = {16, 32}});
      } else {
        out.items.push_back({.seq = id, .layers = {0, 8}});
        out.items.push_back({.seq = id, .layers = {16, 32}});
      }
    }
  }
};

}  // namespace

TEST_CASE("module mixes: each choice is a group of tokens of its own", "[unit]") {
  BenchReplica bench(std::make_unique<ModuleMix>(), 1000);
  bench.arrive(0, 10, 3);
  bench.arrive(1, 20, 3);
  bench.run();
  REQUIRE(bench.metrics.completed == 2);
  const BatchShape& shape = bench.model.shapes.back();  // the second's last decode, alone: two pieces, a gap between
  REQUIRE(shape.segments.size() == 2);
  CHECK(shape.segments[0].last == 8);
  CHECK(shape.segments[1].first == 16);
  // An iteration with both: [0,8) big 1 + small 1, [8,16) small 1, [16,32) big 2.
  bool both = false;
  for (const BatchShape& s : bench.model.shapes) {
    if (s.sequences != 2 || s.segments.size() != 4) continue;
    both = true;
    CHECK(s.segments[0].variant == 0);
    CHECK(s.segments[0].tokens == 1);
    CHECK(s.segments[1].variant == 1);
    CHECK(s.segments[1].tokens == 1);
    CHECK(s.segments[2].first == 8);
    CHECK(s.segments[2].variant == 1);
    CHECK(s.segments[3].tokens == 2);
    CHECK(s.logit_rows == 2);
  }
  CHECK(both);
  CHECK(bench.metrics.output_tokens == 6);  // each decode emits once, at the last layer
}

}  // namespace test_extension_points
