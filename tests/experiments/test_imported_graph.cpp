// Services of graphs that other tools wrote: an ONNX decoder with a cache, its dimensions named; what no service can
// be.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "experiments/base/experiment.hpp"
#include "models/graph/graph_dimensions.hpp"
#include "models/import/importer.hpp"
#include "tests/experiments/support.hpp"
#include "tests/models/onnx_writer.hpp"
#include "tests/systems.hpp"

namespace test_imported_graph {

using namespace orrery;
using models::test::kHalf;
using models::test::kInt64;
using models::test::ModelWriter;

namespace {

constexpr int kLayers = 4, kWidth = 256;

/// A decoder as exporters write it: node names are module paths, past keys and values are inputs.
std::string decoder_onnx() {
  ModelWriter model;
  const std::string batch = "batch_size", tokens = "sequence_length", past = "past_sequence_length";
  model.input("ids", {batch, tokens}, kInt64);
  model.input("mask", {batch, std::string("total_sequence_length")}, kInt64);
  model.weight("embedding", {1000, kWidth}, kHalf);
  model.node("Gather", {"embedding", "ids"}, {"h0"}).named("/model/embed_tokens/Gather");
  model.node("Cast", {"mask"}, {"mask_f"}).set("to", kHalf).named("/model/Cast");
  for (int i = 0; i < kLayers; ++i) {
    const auto at = [i](const char* name) { return fmt::format("{}{}", name, i); };
    const auto path = [i](const char* op) { return fmt::format("/model/layers.{}/self_attn/{}", i, op); };
    for (const char* name : {"q", "k", "v", "o"}) {
      model.weight(at(name) + "_w", {kWidth, kWidth}, kHalf);
      if (*name == 'o') continue;
      model.node("MatMul", {at("h"), at(name) + "_w"}, {at(name)}).named(path(name));
    }
    for (const char* name : {"k", "v"}) {
      model.input("past_" + at(name), {batch, past, kWidth}, kHalf);
      model.node("Concat", {"past_" + at(name), at(name)}, {"all_" + at(name)}).set("axis", 1).named(path("Concat"));
      model.output("all_" + at(name));
    }
    model.node("Transpose", {"all_" + at("k")}, {at("kt")})
        .set("perm", std::vector<std::int64_t>{0, 2, 1})
        .named(path("Transpose"));
    model.node("MatMul", {at("q"), at("kt")}, {at("scores")}).named(path("scores"));
    model.node("Softmax", {at("scores")}, {at("weights")}).set("axis", -1).named(path("Softmax"));
    model.node("MatMul", {at("weights"), "all_" + at("v")}, {at("mixed")}).named(path("mixed"));
    model.node("MatMul", {at("mixed"), at("o") + "_w"}, {at("out")}).named(path("o"));
    model.node("Add", {at("h"), at("out")}, {fmt::format("h{}", i + 1)}).named(path("Add"));
  }
  model.weight("head", {kWidth, 1000}, kHalf);
  model.node("MatMul", {fmt::format("h{}", kLayers), "head"}, {"logits"}).named("/lm_head/MatMul");
  model.output("logits");
  return model.bytes();
}

constexpr const char* kNames = R"(, "dimensions": [{"name": "batch_size", "is": "batch"},
    {"name": "sequence_length", "is": "tokens"}, {"name": "past_sequence_length", "is": "past"},
    {"name": "total_sequence_length", "is": "past + tokens"}])";

sim::Node served(const std::string& path, const std::string& names, const std::string& more = "") {
  static const experiments::test::Scratch scratch;
  static const std::string config = scratch
                                        .write("config.json", R"({"architectures": ["LlamaForCausalLM"],
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 2048})")
                                        .string();
  return experiments::read_experiment(test_systems(), sim::parse_json(R"({"kind": "experiment", "version": 1,
    "system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 1}]},
    "model": {"config": ")" + config + R"(", "dtype": "fp16", "import": {"path": ")" +
                                                                          path + R"(")" + names + R"(}},
    "workload": {"generator": {"requests": 20, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 64, "output": 10}}}},
    "run": {"timeline": {"enabled": false}})" + more + "}",
                                                                      "test"))
      ->run({})
      .summary;
}

std::string reason(const sim::Node& summary) {
  REQUIRE(summary.find("status")->as_string() == "infeasible");
  return summary.find("reason")->as_string();
}

}  // namespace

TEST_CASE("an ONNX decoder with a cache is served, and passes change it", "[unit]") {
  const models::test::TemporaryFile file("decoder.onnx", decoder_onnx());
  const sim::Node plain = served(file.path().string(), kNames);
  REQUIRE(plain.find("status")->as_string() == "ok");
  CHECK(plain.at("requests.completed")->as_integer() == 20);
  // Embedding and head of 1000 x 256, four products of 256 x 256 a layer, two bytes each.
  CHECK(plain.at("memory_bytes.weights")->as_integer() == 2 * (2 * 1000 * 256 + kLayers * 4 * 256 * 256));
  // One prompt of 64 tokens and its 9 outputs that are cached, in blocks of 16: five; a key and a value of 256 halves
  // in four layers each. The mask is no cache.
  const auto block = 16 * 2 * 256 * 2 * kLayers;
  CHECK(plain.at("memory_bytes.kv_peak")->as_integer() % block == 0);
  CHECK(plain.at("memory_bytes.kv_peak")->as_integer() >= 5 * block);
  const sim::Node fused =
      served(file.path().string(), kNames, R"(, "policies": {"passes": {"order": ["loop_fusion"]}})");
  CHECK(fused.at("tbt_s.mean")->as_number() < plain.at("tbt_s.mean")->as_number());
}

TEST_CASE("a graph without a batch, or with other names, says why it is no service", "[unit]") {
  const models::test::TemporaryFile file("decoder.onnx", decoder_onnx());
  CHECK(reason(served(file.path().string(), "")) ==
        "graph 'm' has the dimensions [batch_size, past_sequence_length, sequence_length, total_sequence_length]: a "
        "decoder with a cache has batch, tokens and past (model.import.dimensions gives them other names)");
  const std::string chakra = (experiments::home_folder() / "traces/samples/training_step/step.0.json").string();
  CHECK(reason(served(chakra, "")).find("has no dimensions: it stands for one size, and no batch") !=
        std::string::npos);
}

TEST_CASE("names of dimensions are checked", "[unit]") {
  const models::test::TemporaryFile file("decoder.onnx", decoder_onnx());
  const auto fault = [&](const char* dimensions) {
    try {
      (void)served(file.path().string(), dimensions);
    } catch (const sim::ConfigError& error) {
      return error.faults().front().text();
    }
    return std::string("none");
  };
  CHECK(fault(R"(, "dimensions": [{"name": "bach", "is": "batch"}])") ==
        "test:/model/import/dimensions/0: graph 'm' has no dimension 'bach', only [batch_size, past_sequence_length, "
        "sequence_length, total_sequence_length]");
  CHECK(fault(R"(, "dimensions": [{"name": "batch_size", "is": "2 +"}])").find("/model/import/dimensions/0: '2 +': ") !=
        std::string::npos);
}

TEST_CASE("a dimension is another everywhere: shapes, attributes, regions, facts", "[unit]") {
  using namespace orrery::models;
  OpGraph inner;
  inner.mark_output(inner.emit(OpKind::relu, {inner.input("x", {SymExpr(Symbol("n")), 4}, ElementType::fp16)}));
  OpGraph graph;
  graph.facts.divisible(Symbol("n"), 8);
  graph.facts.in_range(Symbol("m"), {1, 64});
  const TensorId x = graph.input("x", {SymExpr(Symbol("n")), 4}, ElementType::fp16);
  graph.input("y", {SymExpr(Symbol("m")), 4}, ElementType::fp16);
  OpNode loop{.kind = OpKind::loop, .name = "loop", .inputs = {x}};
  loop.set("trips", SymExpr(Symbol("n")) + 1);
  loop.regions.push_back(std::make_shared<const OpGraph>(inner));
  Tensor out;
  out.shape = {SymExpr(Symbol("n")), 4};
  graph.mark_output(graph.op(graph.add(std::move(loop), {out})).outputs.front());
  const OpGraph renamed = with_dimension(graph, Symbol("n"), SymExpr(Symbol("tokens")));
  CHECK(renamed.symbols() == std::vector<Symbol>{Symbol("m"), Symbol("tokens")});
  CHECK(renamed.facts.divisors().front() == std::pair(Symbol("tokens"), std::int64_t{8}));
  CHECK(renamed.facts.ranges().front().first == Symbol("m"));
  CHECK(renamed.op(static_cast<OpId>(0)).expr("trips", 0) == SymExpr(Symbol("tokens")) + 1);
  CHECK(renamed.op(static_cast<OpId>(0)).regions.front()->symbols() == std::vector<Symbol>{Symbol("tokens")});
  CHECK(graph.op(static_cast<OpId>(0)).regions.front()->symbols() == std::vector<Symbol>{Symbol("n")});
  // By a formula, what was known of it alone is forgotten.
  const OpGraph formula = with_dimension(graph, Symbol("n"), SymExpr(Symbol("a")) + SymExpr(Symbol("b")));
  CHECK(formula.facts.divisors().empty());
  CHECK(formula.tensor(x).shape.front() == SymExpr(Symbol("a")) + SymExpr(Symbol("b")));
}

}  // namespace test_imported_graph
