// The iteration model against the sum of its parts, priced one by one.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/network/library_collective.hpp"
#include "hw/parts/catalog.hpp"
#include "sim/base/random.hpp"

namespace test_device_iteration {

using namespace orrery;
using namespace orrery::experiments;

namespace {

hw::GpuParams a100() {
  return hw::read_part<hw::GpuParams>(home_folder() / "hw/catalog/a100-sxm4-80gb.json").part;
}

models::Transformer model(const std::string& name, std::int64_t tp) {
  return models::build_transformer(models::load_model("catalog:" + name, home_folder() / "models/catalog"),
                                   hw::DType::fp16, tp);
}

BatchShape shape_of(std::int64_t chunk, std::int64_t past, std::int64_t decodes, std::int64_t context,
                    std::int32_t layers = 32) {
  BatchShape shape;
  Segment segment{.first = 0, .last = layers, .tokens = chunk + decodes};
  if (chunk > 0) segment.prefill.add(chunk, past);
  segment.decode = {decodes, decodes * context};
  shape.segments.push_back(segment);
  shape.logit_rows = decodes;
  shape.sequences = decodes + (chunk > 0 ? 1 : 0);
  return shape;
}

IterationCost price(DeviceIterationModel& m, const BatchShape& shape) {
  IterationCost cost;
  m.cost(shape, cost);
  return cost;
}

}  // namespace

TEST_CASE("an iteration costs what its kernels cost, layer by layer", "[unit]") {
  const std::int64_t tp = GENERATE(1, 2, 8);
  const hw::GpuParams gpu = a100();
  const models::Transformer t = model("llama-2-7b", tp);
  DeviceIterationModel m(t, hw::device_of(gpu, "tiled"));
  const BatchShape shape = shape_of(300, 100, 12, 700);
  const IterationCost cost = price(m, shape);

  models::BatchDims dims{.tokens = 312, .logit_rows = 12};
  dims.prefill.add(300, 100);
  dims.decode = {12, 12 * 700};
  models::Launches layer, edges;
  models::lower_layer(t, dims, layer);
  models::lower_edges(t, dims, true, true, edges);
  const auto reference = hw::make_cost_model("tiled", gpu);
  double seconds = 0, flops = 0, joules = 0;
  const auto add = [&](const models::Launches& launches, double times) {
    for (const hw::Kernel& kernel : launches.kernels) {
      const hw::Cost c = reference->cost(kernel);
      seconds += times * c.time_s;
      if (!std::holds_alternative<hw::Streaming>(kernel.shape)) flops += times * c.flops;
      joules += times * (c.compute_energy_j + c.memory_energy_j);
    }
    for (const models::Communication& c : launches.communications) {
      const bool gather = c.kind == models::Collective::all_gather;
      const hw::CollectiveCost moved = hw::library_collective(
          gpu.link, gather ? hw::LibraryCall::all_gather : hw::LibraryCall::all_reduce, c.ranks, c.bytes);
      seconds += times * moved.time_s;
      joules += times * (moved.link_energy_j + gpu.power.active_w * moved.time_s);
    }
  };
  add(layer, 32);
  add(edges, 1);
  CHECK(static_cast<double>(cost.time_ps) == Approx(seconds * 1e12).epsilon(1e-6));  // each kernel rounds up to a ps
  CHECK(static_cast<double>(cost.flops) == Approx(flops * static_cast<double>(tp)).epsilon(1e-9));
  CHECK(static_cast<double>(cost.compute_pj + cost.memory_pj + cost.network_pj) ==
        Approx(joules * 1e12 * static_cast<double>(tp)).epsilon(1e-6));
  // The FLOPs are exactly the model's.
  CHECK(cost.flops == models::matrix_flops(t, dims) * tp);
}

TEST_CASE("the energy and time ledgers balance by class", "[prop]") {
  const hw::GpuParams gpu = a100();
  DeviceIterationModel m(model("llama-3-8b", 4), hw::device_of(gpu, "tiled"));
  sim::RandomStream random(3, "ledger");
  for (int i = 0; i < 200; ++i) {
    const auto draw = [&](std::uint64_t n) { return static_cast<std::int64_t>(random.below(n)); };
    const IterationCost cost = price(m, shape_of(draw(600), draw(2000), 1 + draw(100), 1 + draw(3000)));
    std::int64_t ps = 0, pj = 0;
    for (std::size_t c = 0; c < cost.class_ps.size(); ++c) {
      ps += cost.class_ps[c];
      pj += cost.class_pj[c];
    }
    CHECK(ps == cost.time_ps);
    CHECK(pj == cost.compute_pj + cost.memory_pj + cost.network_pj);
  }
}

TEST_CASE("a model cut into layer groups costs the whole", "[prop]") {
  const hw::GpuParams gpu = a100();
  DeviceIterationModel m(model("llama-2-7b", 1), hw::device_of(gpu, "tiled"));
  const BatchShape whole = shape_of(512, 0, 4, 100);
  BatchShape pieces = whole;
  pieces.segments.clear();
  for (const auto& [first, last] : {std::pair{0, 5}, {5, 20}, {20, 32}}) {
    Segment segment = whole.segments[0];
    segment.first = first;
    segment.last = last;
    pieces.segments.push_back(segment);
  }
  CHECK(price(m, pieces).time_ps == price(m, whole).time_ps);
  CHECK(price(m, pieces).flops == price(m, whole).flops);
}

TEST_CASE("layers of kinds cost each its own, and prompts their own experts", "[unit]") {
  const hw::GpuParams gpu = a100();
  const models::Transformer t = model("gpt-oss-20b", 1);
  REQUIRE(t.kinds.size() == 2);
  DeviceIterationModel m(t, hw::device_of(gpu, "tiled"));
  const BatchShape shape = shape_of(300, 100, 12, 700, 24);
  models::BatchDims dims{.tokens = 312, .logit_rows = 12};
  dims.prefill.add(300, 100);
  dims.decode = {12, 12 * 700};
  const auto reference = hw::make_cost_model("tiled", gpu);
  double seconds = 0;
  models::Launches out;
  const auto add = [&](double times) {
    for (const hw::Kernel& kernel : out.kernels) seconds += times * reference->cost(kernel).time_s;
    out.clear();
  };
  for (std::size_t kind = 0; kind < 2; ++kind) {
    models::lower_layer(t, kind, dims, out);
    add(12);
  }
  models::lower_edges(t, dims, true, true, out);
  add(1);
  CHECK(static_cast<double>(price(m, shape).time_ps) == Approx(seconds * 1e12).epsilon(1e-6));
  CHECK(price(m, shape).flops == models::matrix_flops(t, dims));
  // Asked again: the batch with a prompt is kept.
  CHECK(price(m, shape).time_ps == price(m, shape).time_ps);
}

TEST_CASE("tensor parallelism shares the work and pays for the all-reduces", "[unit]") {
  const hw::GpuParams gpu = a100();
  DeviceIterationModel one(model("llama-2-7b", 1), hw::device_of(gpu, "tiled"));
  DeviceIterationModel four(model("llama-2-7b", 4), hw::device_of(gpu, "tiled"));
  const BatchShape shape = shape_of(2048, 0, 0, 0);
  const IterationCost a = price(one, shape);
  const IterationCost b = price(four, shape);
  const auto all_reduce = static_cast<std::size_t>(hw::OpClass::all_reduce);
  CHECK(a.class_ps[all_reduce] == 0);
  CHECK(b.class_ps[all_reduce] > 0);
  CHECK(b.time_ps < a.time_ps);
  CHECK(b.time_ps > a.time_ps / 4);  // never better than a perfect split
  CHECK(b.flops == a.flops);
  // 64 all-reduces of 2,048 x 4,096 fp16 activations and one after the embedding.
  const double expected = 65 * hw::library_collective(gpu.link, hw::LibraryCall::all_reduce, 4, 2048 * 4096 * 2).time_s;
  CHECK(static_cast<double>(b.class_ps[all_reduce]) * 1e-12 == Approx(expected).epsilon(0.01));
}

TEST_CASE("the roofline is never slower than the tiled model on a whole iteration", "[prop]") {
  const hw::GpuParams gpu = a100();
  DeviceIterationModel roof(model("llama-2-7b", 1), hw::device_of(gpu, "roofline"));
  DeviceIterationModel tiled(model("llama-2-7b", 1), hw::device_of(gpu, "tiled"));
  for (const std::int64_t chunk : {0, 64, 512, 4000})
    for (const std::int64_t decodes : {1, 16, 128})
      CHECK(price(roof, shape_of(chunk, 0, decodes, 800)).time_ps <=
            price(tiled, shape_of(chunk, 0, decodes, 800)).time_ps);
}

TEST_CASE("exchanges of experts: kernels of their own take the library's place, and nothing else moves", "[unit]") {
  const models::ModelConfig config = models::load_model("catalog:qwen3-30b-a3b", home_folder() / "models/catalog");
  const models::Transformer t = models::build_transformer(config, {.dtype = hw::DType::bf16, .cache = {}},
                                                          {.tp = 1, .attention_dp = 16, .expert_parallel = 16});
  const hw::Device device = hw::device_of(a100(), "tiled");
  const BatchShape shape = shape_of(0, 0, 32, 500, 48);
  DeviceIterationModel library(t, device);
  const IterationCost before = price(library, shape);
  ExpertExchange exchange{.params = {}, .top_k = config.experts.per_token};
  exchange.params.start_s = 0;
  DeviceIterationModel own(model_kernels(t), device, {}, exchange);
  const IterationCost after = price(own, shape);
  // 32 tokens, 8 rows each of 2,048 bf16 elements, there and back, in 48 layers; half of 16 devices are in the node.
  const std::int64_t bytes = 32 * 8 * 2048 * 2;
  const double one_s = std::max(bytes / 2 / 39.4e9, bytes / 2 / 155e9);
  CHECK(exchange.time_s(bytes, 16) == Approx(one_s));
  constexpr auto kExchange = static_cast<std::size_t>(hw::OpClass::all_reduce);
  CHECK(static_cast<double>(after.class_ps[kExchange]) == Approx(96 * one_s * 1e12).epsilon(1e-6));
  CHECK(after.time_ps - after.class_ps[kExchange] == before.time_ps - before.class_ps[kExchange]);
  CHECK(after.exchange_bytes == before.exchange_bytes);
  // A start is paid by each of them.
  exchange.params.start_s = 1e-3;
  DeviceIterationModel slow(model_kernels(t), device, {}, exchange);
  CHECK(static_cast<double>(price(slow, shape).time_ps - after.time_ps) == Approx(96e9).epsilon(1e-6));
  // Tokens that are all tensor-parallel's have none: the same to the picosecond.
  const models::Transformer alone = models::build_transformer(config, hw::DType::bf16, 4);
  DeviceIterationModel plain(alone, device), given(model_kernels(alone), device, {}, exchange);
  CHECK(price(plain, shape).time_ps == price(given, shape).time_ps);
}

}  // namespace test_device_iteration
