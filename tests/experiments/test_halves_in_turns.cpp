// Two halves of a batch that take turns at computing and exchanging, in serving runs.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "experiments/base/catalog.hpp"
#include "experiments/systems/serving/pricing/halves_in_turns.hpp"
#include "experiments/systems/serving/setup_state.hpp"
#include "models/transformer/hf_config.hpp"
#include "tests/experiments/system_run.hpp"

namespace orrery::experiments::test {
namespace {

/// Costs that are easy to count: a segment's attention takes 1 us a token and layer, its experts 2 us; a head 7 us.
class Counted final : public IterationModel {
 public:
  void cost(const BatchShape& shape, IterationCost& out) override {
    shapes.push_back(shape);
    const auto add = [&](hw::OpClass op, std::int64_t us) {
      out.class_ps[static_cast<std::size_t>(op)] += us * 1'000'000;
      out.time_ps += us * 1'000'000;
      out.dram_bytes += us;
    };
    for (const Segment& segment : shape.segments) {
      const std::int64_t layers = segment.last - segment.first;
      add(hw::OpClass::attention_decode, segment.tokens * layers);
      add(hw::OpClass::expert_up, 2 * segment.tokens * layers);
      add(hw::OpClass::all_reduce, exchange_us * layers);
    }
    if (shape.logit_rows > 0) add(hw::OpClass::lm_head, 7);
  }
  std::int64_t exchange_us = 0;
  std::vector<BatchShape> shapes;
};

/// Ways that take `us` each, whatever travels: all of it is the start.
TurnExchanges ways(double us, std::vector<bool> routed) {
  TurnExchanges out{.ranks = 8, .dispatch_bytes = 1, .combine_bytes = 1, .routed = std::move(routed)};
  out.by.params.start_s = us * 1e-6;
  out.by.params.nic = 1e15;
  out.by.params.node = 1e15;
  return out;
}

BatchShape decodes(std::int64_t n, std::int32_t layers) {
  BatchShape shape;
  shape.sequences = shape.logit_rows = n;
  shape.segments.push_back({.last = layers, .tokens = n, .decode = {n, 100 * n}});
  return shape;
}

TEST_CASE("halves take turns: a layer is the longer of both four times over", "[theory]") {
  // Ten decodes make halves of five: attention 5 us, experts 10 us, ways of 3 us, beside kernels 1.43 x 3 = 4.29 us.
  // Turns: max(5, 4.29) + max(10, 4.29) + max(10, 4.29) + max(5, 4.29) = 30 us a layer; two layers and the head 67 us.
  auto counted = std::make_unique<Counted>();
  Counted& model = *counted;
  model.exchange_us = 6;  // there and back, alone
  HalvesInTurns turns(std::move(counted), ways(3, {true, true}));
  IterationCost cost;
  turns.cost(decodes(10, 2), cost);
  CHECK(cost.time_ps == 67'000'000);
  REQUIRE(model.shapes.size() == 2);
  CHECK(model.shapes[0].logit_rows == 0);
  CHECK(model.shapes[0].segments[0].decode == DecodeSums{5, 500});
  CHECK(model.shapes[1].segments.empty());
  // Work of both halves and the head: 2 x 2 layers x (5 + 10 + 6) + 7.
  CHECK(cost.dram_bytes == 91);
}

TEST_CASE("exchanges that are longer than kernels set the time", "[theory]") {
  // Ways of 20 us, 28.6 us beside kernels: four of them a layer.
  auto counted = std::make_unique<Counted>();
  counted->exchange_us = 40;
  HalvesInTurns turns(std::move(counted), ways(20, {true}));
  IterationCost cost;
  turns.cost(decodes(10, 1), cost);
  CHECK(std::abs(cost.time_ps - (7'000'000 + 114'400'000)) <= 1);  // times round up
}

TEST_CASE("halves are as large as can be, and what cannot be cut goes whole") {
  auto counted = std::make_unique<Counted>();
  Counted& model = *counted;
  HalvesInTurns turns(std::move(counted), ways(0, {true, true, false}));
  const auto halved = [&](const Segment& segment) {
    model.shapes.clear();
    BatchShape shape;
    shape.segments = {segment};
    IterationCost cost;
    turns.cost(shape, cost);
    REQUIRE(model.shapes.size() == 1);
    return model.shapes[0].segments[0];
  };
  Segment mixed{.last = 3, .tokens = 103, .decode = {3, 301}};
  mixed.prefill.add(40, 10);
  mixed.prefill.add(60, 0);
  const Segment half = halved(mixed);
  CHECK(half.tokens == 52);                  // 50 of chunks, 2 of decodes
  CHECK(half.decode == DecodeSums{2, 201});  // 301 x 2 / 3, rounded up
  CHECK(half.prefill.sequences == 1);
  CHECK(half.prefill.q_tokens == 50);
  CHECK(half.prefill.kv_tokens == 55);  // of 50 + 60
  CHECK(half.prefill.pairs == (mixed.prefill.pairs + 1) / 2);
  // A lone chunk of 40 over 10: its halves read 30 and 50 keys.
  Segment chunk{.last = 3, .tokens = 40};
  chunk.prefill.add(40, 10);
  CHECK(halved(chunk).prefill.kv_tokens == 40);
  // Tokens by name: every other run, of a lone one half.
  chunk.runs = {{7, 10, 40}};
  CHECK(halved(chunk).runs == std::vector<TokenRun>{{7, 10, 20}});
  mixed.runs = {{1, 10, 40}, {2, 0, 60}, {3, 9, 1}, {4, 9, 1}, {5, 9, 1}};
  CHECK(halved(mixed).runs == std::vector<TokenRun>{{1, 10, 40}, {3, 9, 1}, {5, 9, 1}});
  const Segment lone{.last = 3, .tokens = 1, .decode = {1, 9}};
  CHECK(halved(lone) == lone);
}

TEST_CASE("only ranks that exchange rows take turns") {
  const models::ModelConfig config = models::load_model("catalog:qwen3-30b-a3b", home_folder() / "models/catalog");
  const auto exchange = [](bool in_turns) {
    ExpertExchange out{.top_k = 8};
    out.params.in_turns = in_turns;
    return out;
  };
  const auto of = [&](const models::Split& split, bool in_turns = true) {
    return turns_of(exchange(in_turns), models::build_transformer(config, {.dtype = hw::DType::bf16}, split),
                    hw::Device{});
  };
  CHECK_FALSE(of({.tp = 1}));
  CHECK_FALSE(of({.tp = 2, .expert_parallel = 2}));
  const auto turns = of({.tp = 1, .attention_dp = 8, .expert_parallel = 8});
  REQUIRE(turns);
  // A row of 2,048 in bf16 for each of eight choices.
  CHECK(turns->dispatch_bytes == 8 * 2048 * 2);
  CHECK(turns->combine_bytes == 8 * 2048 * 2);
  CHECK(turns->ranks == 8);
  CHECK(turns->routed == std::vector<bool>(48, true));
  CHECK_FALSE(of({.tp = 1, .attention_dp = 8, .expert_parallel = 8}, false));
}

/// DeepSeek-V3 on 64 H100, decodes of one length, so many on each.
sim::Node deployment(const std::string& clients, const std::string& turns) {
  return summary_of(R"({"system": "serving",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 64}]},
    "model": {"config": "catalog:deepseek-v3", "dtype": "bf16"},
    "workload": {"generator": {"requests": 1, "arrivals": {"policy": "at_once"},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 64, "output": 100}}}},
    "cluster": {"replicas": [{"tensor_parallel": 1, "data_parallel": 64, "expert_parallel": 64}]},
    "replica": {"expert_exchange": {"kernel": "low_latency"}, "max_context": 1024},
    "policies": {"batching": {"policy": "vllm_v1"}}})",
                    {"workload.generator.requests=" + clients, "replica.expert_exchange.in_turns=" + turns});
}

TEST_CASE("turns pay for large batches and cost small ones", "[theory]") {
  // 8 decodes a device: a half reads its weights for four rows. 256: there is something to hide.
  CHECK(figure(deployment("512", "true"), "tbt_s.p50") > 1.05 * figure(deployment("512", "false"), "tbt_s.p50"));
  CHECK(figure(deployment("16384", "true"), "tbt_s.p50") < 0.95 * figure(deployment("16384", "false"), "tbt_s.p50"));
}

}  // namespace
}  // namespace orrery::experiments::test
