// Serving priced from an operator graph: iterations against the sum of their kernels, passes against the graph system,
// memory, what cannot serve.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/pricing/device_iteration.hpp"
#include "experiments/systems/serving/pricing/graph_kernels.hpp"
#include "experiments/systems/serving/system.hpp"
#include "hw/cost/cost_model.hpp"
#include "hw/network/library_collective.hpp"
#include "hw/parts/catalog.hpp"
#include "policies/fusion/engine_kernels.hpp"
#include "tests/experiments/support.hpp"
#include "tests/models/builder_support.hpp"
#include "tests/systems.hpp"

namespace test_graph_iteration {

using namespace orrery;
using namespace orrery::experiments;

namespace {

constexpr const char* kDecoder =
    R"({"layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 4, "head_dim": 64, "intermediate": 4096, "vocab": 8000,
        "tied": false, "cache": true, "merged": true, "dtype": "fp16"})";

hw::Device a100() {
  return hw::device_of(hw::read_part<hw::GpuParams>(home_folder() / "hw/catalog/a100-sxm4-80gb.json").part);
}

models::Bindings sizes(std::int64_t batch, std::int64_t tokens, std::int64_t past) {
  models::Bindings at;
  at.set("batch", batch);
  at.set("tokens", tokens);
  at.set("past", past);
  return at;
}

/// Time of all kernels of a graph, each rounded up to a picosecond.
std::int64_t kernels_ps(const models::OpGraph& graph, const hw::Device& device, const models::Bindings& at) {
  std::int64_t total = 0;
  for (const models::GraphKernel& launch : models::lower(graph, at).kernels)
    total += static_cast<std::int64_t>(std::ceil(device.cost(launch.kernel).time_s * 1e12));
  return total;
}

BatchShape decodes(std::int64_t sequences, std::int64_t context, std::int32_t first = 0, std::int32_t last = 4) {
  BatchShape shape;
  Segment segment{.first = first, .last = last, .tokens = sequences};
  segment.decode = {sequences, sequences * context};
  shape.segments.push_back(segment);
  shape.logit_rows = last == 4 ? sequences : 0;
  shape.sequences = sequences;
  return shape;
}

BatchShape prompt(std::int64_t tokens, std::int64_t past) {
  BatchShape shape;
  Segment segment{.first = 0, .last = 4, .tokens = tokens};
  segment.prefill.add(tokens, past);
  shape.segments.push_back(segment);
  shape.logit_rows = shape.sequences = 1;
  return shape;
}

IterationCost price(IterationModel& model, const BatchShape& shape) {
  IterationCost cost;
  model.cost(shape, cost);
  return cost;
}

/// What prices a graph of four layers.
std::unique_ptr<DeviceIterationModel> served(models::OpGraph graph, const hw::Device& device, std::int64_t layers = 4,
                                             std::int64_t ranks = 1, std::optional<RoutedExperts> routed = {}) {
  auto shared = std::make_shared<const models::OpGraph>(std::move(graph));
  return std::make_unique<DeviceIterationModel>(graph_kernels(std::move(shared), layers, ranks, std::move(routed)),
                                                device);
}

sim::Node run_text(const std::string& text) {
  return read_experiment(test_systems(), sim::parse_json(text, "test"))->run({}).summary;
}

std::string serving(const std::string& extra, const std::string& machine = R"("part": "a100-sxm4-80gb", "count": 1)",
                    const std::string& model = R"("config": "catalog:llama-2-7b")", const std::string& more = "") {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
    "machine": {"devices": [{)" +
         machine + R"(}]}, "model": {)" + model + R"(},
    "workload": {"generator": {"requests": 20, "arrivals": {"policy": "poisson", "poisson": {"rate": "2 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 200, "output": 40}}}},
    "policies": {)" +
         extra + R"(})" + more + "}";
}

double number(const sim::Node& summary, const char* path) {
  return summary.at(path)->as_number();
}

std::vector<std::string> faults_of(const std::string& text) {
  sim::Faults faults;
  read_serving_config(sim::parse_json(text, "test"), test_systems().registries(), faults);
  std::vector<std::string> texts;
  for (const sim::Fault& fault : faults.all()) texts.push_back(fault.text());
  return texts;
}

}  // namespace

TEST_CASE("a step of decodes costs what the graph's kernels cost", "[unit]") {
  const models::OpGraph graph = models::test::built("decoder", kDecoder);
  const hw::Device device = a100();
  const auto held = served(graph, device);
  IterationModel& model = *held;
  for (const std::int64_t sequences : {1, 7, 64})
    for (const std::int64_t past : {0, 100, 3000})
      CHECK(price(model, decodes(sequences, past + 1)).time_ps == kernels_ps(graph, device, sizes(sequences, 1, past)));
  // Contexts that differ come in by their sum: 3 x 100 and 1 x 500 tokens are as long as 4 x 200.
  BatchShape uneven = decodes(4, 200);
  CHECK(uneven.segments[0].decode.context_tokens == 3 * 100 + 500);
  CHECK(price(model, uneven).time_ps == kernels_ps(graph, device, sizes(4, 1, 199)));
}

TEST_CASE("a prompt costs what the graph's kernels cost, rows for rows", "[unit]") {
  const models::OpGraph graph = models::test::built("decoder", kDecoder);
  const hw::Device device = a100();
  const auto held = served(graph, device);
  IterationModel& model = *held;
  for (const auto& [tokens, past] : {std::pair{256, 0}, std::pair{512, 700}}) {
    const auto exact = static_cast<double>(kernels_ps(graph, device, sizes(1, tokens, past)));
    // Dense ops are priced as rows of a decode step; the tables of rotations that these read are a row each.
    CHECK(static_cast<double>(price(model, prompt(tokens, past)).time_ps) == Approx(exact).epsilon(0.005));
  }
}

TEST_CASE("layers of a segment add up to the whole, edges once", "[unit]") {
  const auto held = served(models::test::built("decoder", kDecoder), a100());
  IterationModel& model = *held;
  IterationCost parts = price(model, decodes(8, 300, 0, 1));
  parts.add(price(model, decodes(8, 300, 1, 4)));
  const IterationCost whole = price(model, decodes(8, 300));
  CHECK(parts.time_ps == whole.time_ps);
  CHECK(parts.flops == whole.flops);
  CHECK(parts.memory_pj == whole.memory_pj);
  std::int64_t classes = 0;
  for (const std::int64_t ps : whole.class_ps) classes += ps;
  CHECK(classes == whole.time_ps);
  // Two layers in the middle have no embedding and no head: half of four without the edges.
  const std::int64_t middle = price(model, decodes(8, 300, 1, 3)).time_ps;
  CHECK(price(model, decodes(8, 300, 1, 2)).time_ps * 2 == middle);
}

TEST_CASE("attention written as products and passes is priced by its kernels too", "[unit]") {
  std::string eager = kDecoder;
  eager.insert(eager.rfind('}'), R"(, "attention": "eager")");
  const models::OpGraph graph = models::test::built("decoder", eager);
  const hw::Device device = a100();
  const auto held = served(graph, device);
  IterationModel& model = *held;
  CHECK(price(model, decodes(16, 501)).time_ps == kernels_ps(graph, device, sizes(16, 1, 500)));
  const auto exact = static_cast<double>(kernels_ps(graph, device, sizes(1, 256, 128)));
  CHECK(static_cast<double>(price(model, prompt(256, 128)).time_ps) == Approx(exact).epsilon(0.005));
  CHECK(price(model, decodes(16, 501)).time_ps >
        price(*served(models::test::built("decoder", kDecoder), device), decodes(16, 501)).time_ps);
}

TEST_CASE("weights and cache of a graph are the model's", "[unit]") {
  // Llama-2-7B, 2 bytes a parameter: 6,738,415,616 parameters; a token has a key and a value of 4096 in 32 layers.
  const DecoderMemory memory = graph_memory(
      models::test::built("decoder",
                          R"({"config": "catalog:llama-2-7b", "cache": true, "merged": true, "dtype": "fp16"})"),
      32);
  CHECK(memory.whole == 2 * 6'738'415'616);
  CHECK(memory.whole_cache_per_token == 2 * 2 * 4096 * 32);
  // A layer: q, k, v and o of 4096 x 4096, three matrices of 4096 x 11008, two norms. The head has the last norm too.
  CHECK(memory.weights == std::vector<std::int64_t>(32, 2 * (4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096)));
  CHECK(memory.cache_per_token == std::vector<std::int64_t>(32, 2 * 2 * 4096));
  CHECK(memory.embedding == 2 * 32000 * 4096);
  CHECK(memory.head == 2 * (32000 * 4096 + 4096));
  // A tied table stands at both edges, and once in a rank that has all.
  std::string tied = kDecoder;
  tied.replace(tied.find(R"("tied": false)"), 13, R"("tied": true)");
  const DecoderMemory shared = graph_memory(models::test::built("decoder", tied), 4);
  CHECK(shared.embedding == 2 * 8000 * 1024);
  CHECK(shared.head == 2 * (8000 * 1024 + 1024));
  CHECK(shared.whole == shared.head + 4 * shared.weights.front());
  // A mask over past and new tokens is no cache.
  std::string eager = kDecoder;
  eager.insert(eager.rfind('}'), R"(, "attention": "eager")");
  CHECK(graph_memory(models::test::built("decoder", eager), 4).cache_per_token ==
        graph_memory(models::test::built("decoder", kDecoder), 4).cache_per_token);
}

TEST_CASE("with an engine's kernels a graph costs what the model's kernels do", "[unit]") {
  // All kernels but one have the same shapes: a rotation reads the angles of a decode step's one position once, where
  // the model's kernel counts them for each row (256 of some 16,000 bytes). Qwen3 norms the heads of queries and keys
  // by two kernels, as its engines do, where the model's list has one. Experts get what the model's router sends them;
  // the sum of their rows reads weights and choices, 8 bytes beside the row's 4096 or 8192.
  struct Case {
    const char* name;
    double near;
    int sorts;
  };
  for (const auto& [name, near, sorts] :
       {Case{"llama-2-7b", 1e-4, 0}, Case{"llama-3-8b", 1e-4, 0}, Case{"qwen3-8b", 0.01, 0},
        Case{"mixtral-8x7b", 1e-4, 32}, Case{"qwen3-30b-a3b", 0.01, 48}, Case{"gpt-oss-20b", 0.01, 24}}) {
    INFO(name);
    const hw::Device device = a100();
    const auto transformer = models::build_transformer(
        models::load_model(std::string("catalog:") + name, home_folder() / "models/catalog"), hw::DType::fp16, 1);
    const auto layers = static_cast<std::int32_t>(transformer.config.layers);
    policies::EngineKernels made;
    const auto held = served(
        policies::with_engine_kernels(
            models::test::built("decoder", std::string(R"({"config": "catalog:)") + name +
                                               R"(", "cache": true, "merged": true, "sample": true, "dtype": "fp16"})"),
            made),
        device, layers, 1, RoutedExperts{transformer.router, transformer.config.experts.count});
    DeviceIterationModel& graph = *held;
    CHECK(made.rotations == layers);
    CHECK(made.gates == layers);
    CHECK(made.cache_writes == layers);
    CHECK(made.expert_sorts == sorts);
    DeviceIterationModel model(transformer, device);
    for (const std::int64_t sequences : {1, 16, 200})
      for (const std::int64_t chunk : {0, 300}) {
        BatchShape shape = decodes(sequences, 700, 0, layers);
        shape.logit_rows = sequences;
        if (chunk > 0) {
          shape.segments[0].prefill.add(chunk, 100);
          shape.segments[0].tokens += chunk;
        }
        const IterationCost ours = price(graph, shape), theirs = price(model, shape);
        CHECK(static_cast<double>(ours.time_ps) == Approx(static_cast<double>(theirs.time_ps)).epsilon(near));
        CHECK(ours.flops == theirs.flops);
        CHECK(static_cast<double>(ours.memory_pj) == Approx(static_cast<double>(theirs.memory_pj)).epsilon(1e-3));
      }
  }
}

TEST_CASE("loop fusion lowers an iteration by as much as a graph run of the same sizes", "[unit]") {
  const std::string body = R"({"kind": "experiment", "version": 1, "system": "graph",
    "machine": {"device": {"part": "a100-sxm4-80gb"}, "dispatch": {"call": "0 s"}},
    "model": {"builder": {"policy": "decoder", "decoder": )" +
                           std::string(kDecoder) + R"(}},
    "workload": {"bind": {"batch": 16, "tokens": 1, "past": 1024}, "requests": 1},
    "policies": {"execution": {"policy": "graph"}, "passes": {"order": [)";
  const double plain_s = number(run_text(body + "]}}}"), "device_busy_s");
  const double fused_s = number(run_text(body + R"("loop_fusion"]}}})"), "device_busy_s");
  REQUIRE(fused_s < 0.99 * plain_s);
  // The same in serving: the pass sees the same device and the same typical step.
  const auto iteration_ps = [](const char* order) {
    const hw::Device device = a100();
    std::vector<ChosenPass> passes;
    sim::Faults faults;
    read_passes(sim::parse_json(std::string(R"({"order": [)") + order + "]}", "test"),
                test_systems().registries()->get<policies::PassRegistry>(), passes, faults);
    faults.throw_if_any();
    models::OpGraph graph = models::test::built("decoder", kDecoder);
    policies::PassContext context;
    context.cost = device.model.get();
    context.scratch_bytes = device.scratch_bytes;
    context.memory_bytes = device.memory_bytes;
    context.typical = sizes(16, 1, 1024);
    policies::PassReport report;
    for (const ChosenPass& pass : passes) graph = run_pass(pass, graph, context, {}, report);
    const auto held = served(graph, device);
    IterationModel& model = *held;
    return static_cast<double>(price(model, decodes(16, 1025)).time_ps);
  };
  const double plain = iteration_ps("") * 1e-12, fused = iteration_ps(R"("loop_fusion")") * 1e-12;
  CHECK(plain == Approx(plain_s).epsilon(1e-6));
  CHECK(plain - fused == Approx(plain_s - fused_s).epsilon(1e-6));
}

TEST_CASE("a sharded graph is one rank's, with its collectives", "[unit]") {
  const hw::Device device = a100();
  std::string apart = kDecoder;
  apart.replace(apart.find(R"("merged": true)"), 14, R"("merged": false)");
  std::vector<ChosenPass> passes;
  sim::Faults faults;
  read_passes(sim::parse_json(R"({"order": ["slapo"], "slapo": {"ranks": 2, "schedule": [
      {"shard": {"scope": "layer.*.attention", "param": "q_proj.weight"}},
      {"shard": {"scope": "layer.*.attention", "param": "k_proj.weight"}},
      {"shard": {"scope": "layer.*.attention", "param": "v_proj.weight"}},
      {"shard": {"scope": "layer.*.attention", "param": "cache_k", "axis": 1}},
      {"shard": {"scope": "layer.*.attention", "param": "cache_v", "axis": 1}},
      {"shard": {"scope": "layer.*.attention", "param": "o_proj.weight", "axis": 1}},
      {"shard": {"scope": "layer.*.ffn", "param": "gate_proj.weight"}},
      {"shard": {"scope": "layer.*.ffn", "param": "up_proj.weight"}},
      {"shard": {"scope": "layer.*.ffn", "param": "down_proj.weight", "axis": 1}},
      {"sync": {"scope": "layer.*"}}]}})",
                              "test"),
              test_systems().registries()->get<policies::PassRegistry>(), passes, faults);
  faults.throw_if_any();
  const models::OpGraph whole = models::test::built("decoder", apart);
  policies::PassReport report;
  const models::OpGraph graph = run_pass(passes.front(), whole, {.typical = sizes(16, 1, 500)}, {}, report);
  CHECK_FALSE(graph_obstacle(graph, device, 4, 2));
  CHECK(*graph_obstacle(graph, device, 4, 4) == "graph 'decoder' is sharded among 2 ranks, tensor_parallel is 4");
  CHECK(*graph_obstacle(whole, device, 4, 2) ==
        "graph 'decoder' is of one device, tensor_parallel is 2: a pass must shard it (slapo)");
  // Half of the cache, and of weights all but the embedding and the head (8000 x 1024 each) and the norms (9 x 1024).
  const DecoderMemory one = graph_memory(graph, 4), all = graph_memory(whole, 4);
  CHECK(one.whole_cache_per_token * 2 == all.whole_cache_per_token);
  const std::int64_t undivided = 2 * (2 * 8000 * 1024 + 9 * 1024);
  CHECK((one.whole - undivided) * 2 == all.whole - undivided);
  // Two sums a layer, over 16 rows of 1024 elements of two bytes; each rank takes part, so energy is twice.
  const auto both = served(graph, device, 4, 2), alone = served(graph, device, 4, 1);
  IterationModel &model = *both, &single = *alone;
  const hw::CollectiveCost sum = hw::library_collective(device.link, hw::LibraryCall::all_reduce, 2, 16 * 1024 * 2);
  const auto sum_ps = static_cast<std::int64_t>(std::ceil(sum.time_s * 1e12));
  const IterationCost cost = price(model, decodes(16, 501));
  CHECK(cost.time_ps == kernels_ps(graph, device, sizes(16, 1, 500)) + 8 * sum_ps);
  CHECK(cost.class_ps[static_cast<std::size_t>(hw::OpClass::all_reduce)] == 8 * sum_ps);
  CHECK(cost.memory_pj == 2 * price(single, decodes(16, 501)).memory_pj);
  CHECK(cost.network_pj > 0);
}

TEST_CASE("passes of a serving config change its times, and leaping stays stepping", "[unit]") {
  const auto run = [](const char* order, const char* leap = "true") {
    sim::Node summary =
        run_text(serving(std::string(R"("passes": {"order": [)") + order + "]}",
                         R"("part": "a100-sxm4-80gb", "count": 1)", R"("config": "catalog:llama-2-7b")",
                         std::string(R"(, "run": {"timeline": {"enabled": false}, "leap": )") + leap + "}"));
    REQUIRE(summary.find("status")->as_string() == "ok");
    summary.erase("events");
    return summary;
  };
  const sim::Node plain = run(""), fused = run(R"("loop_fusion")");
  CHECK(number(fused, "tbt_s.p50") < number(plain, "tbt_s.p50"));
  CHECK(number(fused, "passes.loop_fusion.bytes_after") < number(fused, "passes.loop_fusion.bytes_before"));
  CHECK(number(fused, "passes.loop_fusion.groups") > 0);
  CHECK(plain.find("passes") != nullptr);  // none ran: an empty object
  CHECK(run(R"("loop_fusion")", "false").dump() == fused.dump());
  // Without a word about passes the model's own kernels price it, and there is no such figure.
  CHECK(run_text(serving("")).find("passes") == nullptr);
  CHECK(run_text(serving(R"("passes": null)")).find("passes") == nullptr);
}

TEST_CASE("prefilled requests hand over the cache that the graph has", "[unit]") {
  const auto transferred = [](const char* type) {
    return number(run_text(serving("", R"("part": "a100-sxm4-80gb", "count": 2)",
                                   std::string(R"("config": "catalog:llama-2-7b", "builder": {"policy": "decoder",
          "decoder": {"config": "catalog:llama-2-7b", "cache": true, "dtype": ")") +
                                       type + R"("}})",
                                   R"(, "cluster": {"replicas": [{"name": "p", "role": "prefill", "tensor_parallel": 1},
                                                       {"name": "d", "role": "decode", "tensor_parallel": 1}]})")),
                  "cluster.kv_transfers.bytes");
  };
  // 20 prompts of 200 tokens, of which each takes a key and a value of 4096 elements in 32 layers.
  CHECK(transferred("fp16") == 20.0 * 200 * 2 * 4096 * 32 * 2);
  CHECK(transferred("fp8") == 20.0 * 200 * 2 * 4096 * 32);
}

TEST_CASE("a graph passes the stages of a pipeline as the model's kernels do, and passes change it there too",
          "[unit]") {
  // Llama-2-7B in four stages of eight layers: what its graph launches is what the model launches (0.01 % apart, the
  // angles of rotations), so a run takes as long; a pass then shortens it.
  const auto seconds = [](const std::string& policies) {
    const sim::Node summary =
        run_text(serving(policies, R"("part": "a100-sxm4-80gb", "count": 4)", R"("config": "catalog:llama-2-7b")",
                         R"(, "cluster": {"replicas": [{"name": "a", "count": 1,
                                                 "tensor_parallel": 1, "pipeline_parallel": 4}]})"));
    REQUIRE(summary.find("status")->as_string() == "ok");
    return number(summary, "tbt_s.mean");
  };
  const double model = seconds(""), graph = seconds(R"("passes": {"order": []})"),
               fused = seconds(R"("passes": {"order": ["loop_fusion"]})");
  CHECK(graph == Approx(model).epsilon(1e-3));
  CHECK(fused < 0.995 * graph);
}

TEST_CASE("what a graph cannot do in serving is a reason", "[unit]") {
  const auto reason = [](const std::string& text) {
    const sim::Node summary = run_text(text);
    REQUIRE(summary.find("status")->as_string() == "infeasible");
    return summary.find("reason")->as_string();
  };
  const std::string one = R"("part": "a100-sxm4-80gb", "count": 1)", config = R"("config": "catalog:llama-2-7b")";
  CHECK(reason(serving(R"("passes": {"order": []})", R"("part": "a100-sxm4-80gb", "count": 2)")) ==
        "graph 'catalog:llama-2-7b' is of one device, tensor_parallel is 2: a pass must shard it (slapo)");
  CHECK(reason(serving("", one, config + R"(, "builder": {"policy": "mlp"})")) ==
        "graph 'mlp' has the dimensions [batch]: a decoder with a cache has batch, tokens and past "
        "(model.import.dimensions gives them other names)");
  CHECK(reason(serving("", one,
                       config + R"(, "builder": {"policy": "decoder", "decoder": {"layers": 2, "cache": true}})")) ==
        "graph 'decoder' has ops in 2 layers (scopes layer.0 …), the model has 32");
  CHECK(reason(serving(
            R"("passes": {"order": []})", R"("part": "a100-sxm4-80gb", "count": 4)",
            R"("config": "catalog:qwen3-30b-a3b", "dtype": "bf16")",
            R"(, "cluster": {"replicas": [{"name": "a", "count": 1, "tensor_parallel": 1, "data_parallel": 4}]})")) ==
        "an operator graph is served by replicas of tensor and pipeline parallelism alone");
}

TEST_CASE("faults of configs with a graph", "[unit]") {
  const std::string one = R"("part": "a100-sxm4-80gb", "count": 1)", config = R"("config": "catalog:llama-2-7b")";
  CHECK(faults_of(serving(R"("passes": {"order": [], "per_size": ["runtime_fusion"]})")) ==
        std::vector<std::string>{
            "test:/policies/passes/per_size: expected no passes per size: a service has one graph for all"});
  const auto fault_of_model = [&](const std::string& more) {
    return faults_of(serving(R"("passes": {"order": []})", one, config + more)).front();
  };
  CHECK(fault_of_model(R"(, "router": {"skew": 0}, "builder": {"policy": "decoder"})") ==
        "test:/model/router: expected none beside a graph that is named, whose experts share rows evenly");
  CHECK(fault_of_model(R"(, "dtype": "int8")") ==
        "test:/model/dtype: expected fp32, fp16, bf16 or fp8 for the model's operator graph, got int8");
  CHECK(fault_of_model(R"(, "dtype": "fp8", "builder": {"policy": "decoder", "decoder": {"config": "catalog:llama-2-7b",
        "cache": true, "dtype": "fp16"}})") ==
        "test:/model/dtype: expected fp16, the type of the graph's parameters, got fp8");
  CHECK(faults_of(serving(R"("passes": {"order": []})", one, config + R"(, "kv_dtype": "fp8")")) ==
        std::vector<std::string>{
            "test:/model/kv_dtype: expected none beside an operator graph, whose tensors have formats of their own"});
  CHECK(faults_of(serving(R"("passes": {"order": ["loop_fuson"]})")).front().find("loop_fusion") != std::string::npos);
  CHECK(
      faults_of(serving("", one, config + R"(, "builder": {"policy": "mlp"}, "import": {"path": "a.onnx"})")).front() ==
      "test:/model: expected either a 'builder' or an 'import', got both");
  CHECK(faults_of(serving(R"("passes": {"order": []})", one, R"("config": "catalog:falcon-180b")"))
            .front()
            .find("got one with layers unlike Llama's") != std::string::npos);
}

}  // namespace test_graph_iteration
