// Tempo's rewrites: which tensors are no longer kept, by bytes; when AutoTempo declines. RAF's dialects beside it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "models/autodiff/autodiff.hpp"
#include "models/graph/liveness.hpp"
#include "policies/base/graph_pass.hpp"
#include "policies/memory/tempo_curve.hpp"
#include "policies/memory/tempo_rewrite.hpp"
#include "tests/models/random_graph.hpp"

namespace orrery::policies {
void add_raf_dialect(PassRegistry& registry);
void add_tempo(PassRegistry& registry);
}  // namespace orrery::policies

namespace orrery::policies::test_tempo {
namespace {

using namespace models;

constexpr std::int64_t kB = 4, kA = 2, kS = 16, kH = 32;

/// Post-norm layers in fp32, attention by products with dropout: sizes B, A, S, H.
OpGraph layers(std::int64_t count, const SymExpr& batch) {
  OpGraph graph;
  const auto heads = [&](TensorId x) {
    return graph.emit(OpKind::reshape, {x}, {batch, kA, kS, kH / kA}, ElementType::fp32);
  };
  TensorId x = graph.input("x", {batch, kS, kH}, ElementType::fp32);
  for (std::int64_t i = 0; i < count; ++i) {
    graph.set_scope("layer." + std::to_string(i));
    const auto weight = [&](const char* name, std::vector<SymExpr> shape) {
      return graph.parameter(std::to_string(i) + name, std::move(shape), ElementType::fp32);
    };
    const TensorId q = heads(graph.emit(OpKind::matmul, {x, weight("q", {kH, kH})}));
    const TensorId k = heads(graph.emit(OpKind::matmul, {x, weight("k", {kH, kH})}));
    const TensorId v = heads(graph.emit(OpKind::matmul, {x, weight("v", {kH, kH})}));
    const TensorId scores = graph.emit(OpKind::matmul, {q, k}, {{"trans_b", SymExpr(1)}});
    const TensorId p = graph.emit(OpKind::dropout, {graph.emit(OpKind::softmax, {scores})}, {{"p", 0.1}});
    TensorId y = graph.emit(OpKind::reshape, {graph.emit(OpKind::matmul, {p, v})}, {batch, kS, kH}, ElementType::fp32);
    y = graph.emit(OpKind::add, {graph.emit(OpKind::matmul, {y, weight("o", {kH, kH})}), x});
    y = graph.emit(OpKind::layer_norm, {y, weight("g1", {kH}), weight("b1", {kH})});
    const TensorId up = graph.emit(OpKind::matmul, {y, weight("up", {kH, 4 * kH})});
    const TensorId down = graph.emit(OpKind::matmul, {graph.emit(OpKind::gelu, {up}), weight("down", {4 * kH, kH})});
    x = graph.emit(OpKind::layer_norm, {graph.emit(OpKind::add, {down, y}), weight("g2", {kH}), weight("b2", {kH})});
  }
  graph.set_scope("head");
  graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter("head", {kH, 8}, ElementType::fp32)}));
  return graph;
}

OpGraph layer() {
  return layers(1, kB);
}

std::int64_t saved_bytes(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (const TensorId id : graph.tensors())
    if (graph.tensor(id).saved) bytes += *graph.tensor(id).bytes().constant();
  return bytes;
}

TEST_CASE("Tempo saves what its arithmetic says", "[unit][tempo]") {
  const OpGraph training = differentiate(layer(), {.optimizer = OptimizerKind::sgd}).graph;
  const std::int64_t before = saved_bytes(training), bsh = kB * kS * kH;
  const auto freed = [&](TempoRewrites how, std::int64_t rewrites) {
    TempoCounts counts;
    const OpGraph done = rewrite_saved_tensors(training, how, counts);
    REQUIRE(verify(done) == std::vector<std::string>{});
    CHECK(counts.all() == rewrites);
    CHECK(liveness(done, {}).peak <= liveness(training, {}).peak);
    return before - saved_bytes(done);
  };
  // GELU: 4BSH elements of 4 bytes become masks of 1 byte. Norms: the inputs (BSH each) and the means (BS each).
  // Attention: the dropout's output, BAS^2.
  CHECK(freed({true, false, false}, 1) == 4 * bsh * 4 - 4 * bsh);
  CHECK(freed({false, true, false}, 2) == 2 * bsh * 4 + 2 * kB * kS * 4);
  CHECK(freed({false, false, true}, 1) == kB * kA * kS * kS * 4);
  CHECK(freed({true, true, true}, 4) == 12 * bsh + 8 * bsh + 8 * kB * kS + 4 * kB * kA * kS * kS);
  CHECK(freed({true, true, true, 0}, 0) == 0);
  CHECK(freed({true, true, true, 1}, 4) > 0);
}

OpGraph run_pass(PassRegistry& registry, const std::string& name, const OpGraph& graph, const PassContext& context,
                 const std::string& params, PassReport& report) {
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  OpGraph done = choice.make()->run(graph, context, report);
  REQUIRE(verify(done) == std::vector<std::string>{});
  return done;
}

double figure(const PassReport& report, const std::string& name) {
  for (const auto& [key, value] : report.figures)
    if (key == name) return value;
  FAIL("no figure " << name);
  return 0;
}

TEST_CASE("Tempo looks through the cast that mixed precision puts behind a dropout", "[unit][tempo]") {
  PassRegistry registry("pass");
  register_training_passes(registry);
  PassReport unheard;
  const OpGraph mixed = run_pass(registry, "amp", layer(), {}, "{}", unheard);
  const OpGraph training = differentiate(mixed, {.optimizer = OptimizerKind::sgd}).graph;
  TempoCounts counts;
  const OpGraph done = rewrite_saved_tensors(training, {false, false, true}, counts);
  REQUIRE(verify(done) == std::vector<std::string>{});
  CHECK(counts.attentions == 1);
  // What reads the dropout's result reads it made again and cast again.
  std::size_t casts = 0;
  for (const OpId id : done.ops()) {
    const OpNode& op = done.op(id);
    if (op.phase != models::Phase::backward) continue;
    if (op.kind == OpKind::cast && op.name.ends_with(".again")) ++casts;
    if (op.kind == OpKind::matmul)
      for (const TensorId input : op.inputs) CHECK(done.tensor(input).type == ElementType::fp16);
  }
  CHECK(casts == 1);
  CHECK(saved_bytes(training) - saved_bytes(done) == kB * kA * kS * kS * 2);  // the fp16 copy of the dropout's output
}

TEST_CASE("Tempo leaves alone what others keep too", "[unit][tempo]") {
  OpGraph graph;
  const TensorId x = graph.emit(
      OpKind::matmul, {graph.input("x", {8, 8}, ElementType::fp32), graph.parameter("w", {8, 8}, ElementType::fp32)});
  const TensorId y = graph.emit(OpKind::mul, {graph.emit(OpKind::gelu, {x}), x});  // the product keeps x as well
  graph.mark_output(y);
  const OpGraph training = differentiate(graph, {.loss = LossKind::sum}).graph;
  TempoCounts counts;
  CHECK(to_string(rewrite_saved_tensors(training, {}, counts)) == to_string(training));
  CHECK(counts.all() == 0);
  CHECK_THROWS_WITH(rewrite_saved_tensors(graph, {}, counts), "tempo: expected a training graph; run autodiff before");
}

TEST_CASE("Tempo leaves a norm alone whose statistics are not its own", "[unit][tempo]") {
  // The gradient reads a mean that the caller gives: nobody knows the norm that goes with it. With the mean that the
  // norm made it is rewritten, unless something else of the backward pass keeps its input.
  for (int how = 0; how < 3; ++how) {
    const bool given = how == 0, kept = how == 1;
    OpGraph graph;
    const auto input = [&](const char* name, std::vector<SymExpr> shape) {
      return graph.input(name, std::move(shape), ElementType::fp32);
    };
    const TensorId in = input("in", {8, 16}), dy = input("dy", {8, 16}), mean = input("mean", {8}),
                   deviation = input("deviation", {8});
    const TensorId gain = graph.parameter("gain", {16}, ElementType::fp32),
                   shift = graph.parameter("shift", {16}, ElementType::fp32);
    const TensorId x = graph.emit(OpKind::relu, {in});
    Tensor wide, rows;
    wide.shape = {8, 16};
    rows.shape = {8};
    wide.type = rows.type = ElementType::fp32;
    OpNode norm;
    norm.kind = OpKind::layer_norm;
    norm.inputs = {x, gain, shift};
    const std::vector<TensorId> made = graph.op(graph.add(std::move(norm), {wide, rows, rows})).outputs;
    graph.mark_output(made[0]);
    graph.set_phase(models::Phase::backward);
    OpNode grad;
    grad.kind = OpKind::layer_norm_grad;
    grad.inputs = {dy, x, given ? mean : made[1], given ? deviation : made[2], gain};
    const OpId id = graph.add(std::move(grad), {wide});
    graph.mark_output(graph.op(id).outputs.front());
    if (kept) graph.mark_output(graph.emit(OpKind::neg, {x}));
    TempoCounts counts;
    const OpGraph done = rewrite_saved_tensors(graph, {}, counts);
    CHECK(counts.norms == (given || kept ? 0 : 1));
    std::vector<std::string> names;
    for (const TensorId read : done.op(id).inputs) names.push_back(done.tensor(read).name);
    const auto name = [&](TensorId of) { return graph.tensor(of).name; };
    if (given)
      CHECK(names == std::vector<std::string>{"dy", name(x), "mean", "deviation", "gain"});
    else if (kept)
      CHECK(names == std::vector<std::string>{"dy", name(x), name(made[1]), name(made[2]), "gain"});
    else
      CHECK(names == std::vector<std::string>{"dy", name(made[0]), name(made[2]), "gain", "shift"});
  }
}

TEST_CASE("Tempo makes only dropouts of probabilities again", "[unit][tempo]") {
  for (const OpKind kind : {OpKind::softmax, OpKind::relu}) {
    OpGraph graph;
    const auto weight = [&](const char* name) { return graph.parameter(name, {8, 8}, ElementType::fp32); };
    const TensorId x = graph.emit(OpKind::matmul, {graph.input("x", {8, 8}, ElementType::fp32), weight("w")});
    const TensorId kept = graph.emit(OpKind::dropout, {graph.emit(kind, {x})}, {{"p", 0.1}});
    graph.mark_output(graph.emit(OpKind::matmul, {kept, weight("v")}));
    TempoCounts counts;
    static_cast<void>(rewrite_saved_tensors(differentiate(graph, {.loss = LossKind::sum}).graph, {}, counts));
    CHECK(counts.attentions == (kind == OpKind::softmax ? 1 : 0));
  }
}

TEST_CASE("AutoTempo-Fast declines where doubling the batch nearly doubles the time", "[unit][tempo]") {
  CHECK(should_rewrite({{1, 1}}, 0.85));
  CHECK(should_rewrite({{1, 1}, {2, 2}}, 0.85));                    // too short a curve to know
  CHECK(should_rewrite({{1, 1}, {2, 1.5}, {4, 2.4}}, 0.85));        // 1.5 and 1.6 for 2, below 1.7
  CHECK_FALSE(should_rewrite({{1, 1}, {2, 1.5}, {4, 2.7}}, 0.85));  // 1.8
  CHECK_FALSE(should_rewrite({{1, 1}, {2, 1.8}, {4, 2.9}}, 0.85));  // the pair before
  CHECK(should_rewrite({{1, 1}, {2, 1.8}, {4, 3.5}}, 1.0));
  CHECK_FALSE(should_rewrite({{1, 1}, {2, 2}, {4, 4}, {8, 8}}, 0.85));
}

/// Every kernel takes a second.
class Second final : public hw::CostModel {
 public:
  hw::Cost cost(const hw::Kernel&) const override { return {.time_s = 1}; }
};

TEST_CASE("AutoTempo-Smart rewrites as many layers as pay at their largest batch", "[unit][tempo]") {
  PassRegistry registry("pass");
  register_memory_passes(registry);
  const OpGraph training = differentiate(layers(2, SymExpr::dim("batch")), {.optimizer = OptimizerKind::sgd}).graph;
  const Second cost;
  PassContext context{.cost = &cost, .typical = {{"batch", 2}}};
  const Liveness one = liveness(training, {{"batch", 1}});
  const auto best = [&](std::int64_t memory, const std::string& more) {
    context.memory_bytes = memory;
    PassReport report;
    run_pass(registry, "tempo", training, context, R"({"apply": "smart")" + more + "}", report);
    return figure(report, "layers");
  };
  // A step takes as long at any batch, so each layer that makes room for more samples pays; attention's second dropout
  // is a kernel more a layer, and where the memory that it frees holds no further sample it does not.
  std::map<double, int> chosen;
  for (std::int64_t part = 0; part < 32; ++part)
    ++chosen[best(one.persistent + one.peak * (64 + part) / 8, R"(, "gelu": false, "norm": false)")];
  CHECK(chosen[0] > 0);
  CHECK(chosen[1] > 0);  // the last point that halving comes to
  CHECK(best(one.persistent + 64 * one.peak, "") == 2);
}

TEST_CASE("Dialects go by registered priority; patterns first, rules after", "[unit][raf_dialect]") {
  PassRegistry registry("pass");
  add_raf_dialect(registry);
  const auto run = [&](sim::Node params, PassReport& report) {
    sim::Faults faults;
    const auto choice = registry.prepare("raf_dialect", &params, {}, faults);
    faults.throw_if_any();
    OpGraph done = choice.make()->run(layer(), {}, report);
    REQUIRE(verify(done) == std::vector<std::string>{});
    return done;
  };
  PassReport report;
  const OpGraph graph = run(sim::Node::object(), report);
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (op.kind == OpKind::matmul) CHECK(op.dialect == "cublas");  // alone, it is the vendor's
    if (op.kind == OpKind::softmax) CHECK(op.dialect == "cudnn");
    if (op.kind == OpKind::layer_norm) CHECK(op.dialect == "tvm");
  }
  // Without a dialect to fuse by rule nothing is; by default something is.
  sim::Node unfused = sim::Node::object();
  unfused.set("fuse", sim::Node::string(""));
  PassReport rest;
  const OpGraph single = run(unfused, rest);
  CHECK(figure(report, "fused_by_rule") > 0);
  CHECK(figure(rest, "fused_by_rule") == 0);
  CHECK(figure(rest, "base_ops") == figure(report, "base_ops"));
  CHECK(static_cast<double>(single.op_count()) == figure(rest, "base_ops") - figure(rest, "fused_by_pattern"));
  sim::Node only = sim::Node::object(), list = sim::Node::array();
  list.push(sim::Node::string("tvm"));
  only.set("enabled", list);
  PassReport alone;
  for (const OpGraph done = run(only, alone); const OpId id : done.ops())
    if (!launches_nothing(done.op(id))) CHECK(done.op(id).dialect == "tvm");
  CHECK(total_work(graph).bytes().constant().value() <= total_work(layer()).bytes().constant().value());
  sim::Node nobody = sim::Node::object(), cublas = sim::Node::array();
  cublas.push(sim::Node::string("cublas"));
  nobody.set("enabled", cublas);
  CHECK_THROWS_WITH(run(nobody, alone), Catch::Contains("raf_dialect: no enabled dialect has softmax"));
}

TEST_CASE("The layer of a scope is the number behind its beginning", "[unit][tempo]") {
  CHECK(layer_of("layer.3", "layer.") == 3);
  CHECK(layer_of("layer.12.attention", "layer.") == 12);
  CHECK(layer_of("layer.0", "layer.") == 0);
  CHECK(layer_of("block.3", "layer.") < 0);
  CHECK(layer_of("layer.x", "layer.") < 0);
  CHECK(layer_of("layer.", "layer.") < 0);
  CHECK(layer_of("", "layer.") < 0);
  CHECK(layer_of("5.x", "") == 5);
}

TEST_CASE("Tempo rewrites the first layers, by the scopes of their ops", "[unit][tempo]") {
  const OpGraph training = differentiate(layers(3, kB), {.optimizer = OptimizerKind::sgd}).graph;
  const auto counts = [&](std::int64_t scopes, const std::string& layer = "layer.") {
    TempoCounts found;
    static_cast<void>(rewrite_saved_tensors(training, {true, true, true, scopes, layer}, found));
    CHECK(found.all() == found.gelus + found.norms + found.attentions);
    return std::tuple(found.gelus, found.norms, found.attentions);
  };
  using Counts = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  CHECK(counts(-1) == Counts{3, 6, 3});
  CHECK(counts(3) == Counts{3, 6, 3});
  CHECK(counts(9) == Counts{3, 6, 3});
  CHECK(counts(2) == Counts{2, 4, 2});
  CHECK(counts(1) == Counts{1, 2, 1});
  CHECK(counts(0) == Counts{0, 0, 0});
  CHECK(counts(1, "block.") == Counts{0, 0, 0});
  CHECK(counts(-1, "block.") == Counts{3, 6, 3});  // all is all
  // The first layer's gradients read a mask as well, the others' do not.
  TempoCounts found;
  const OpGraph one = rewrite_saved_tensors(training, {true, false, false, 1}, found);
  for (const OpId id : one.ops()) {
    const OpNode& op = one.op(id);
    if (op.kind == OpKind::gelu) {
      CHECK(op.outputs.size() == (op.scope == "layer.0" ? 2 : 1));
      if (op.outputs.size() == 2) {
        const Tensor &made = one.tensor(op.outputs[0]), &mask = one.tensor(op.outputs[1]);
        CHECK(mask.type == ElementType::boolean);
        CHECK(mask.shape == made.shape);
        CHECK(mask.name == made.name + ".mask");
      }
    }
    if (op.kind == OpKind::gelu_grad) CHECK(op.inputs.size() == (op.scope == "layer.0" ? 3 : 2));
  }
}

TEST_CASE("Tempo rewrites no GELU whose input is there anyway", "[unit][tempo]") {
  const auto gelus = [](bool made, bool given) {
    OpGraph graph;
    TensorId x = graph.input("x", {8, 8}, ElementType::fp32);
    const TensorId w = graph.parameter("w", {8, 8}, ElementType::fp32);
    x = graph.emit(OpKind::matmul, {x, w});
    if (!made) x = w;
    const TensorId y = graph.emit(OpKind::gelu, {x});
    graph.mark_output(graph.emit(OpKind::matmul, {y, graph.parameter("v", {8, 8}, ElementType::fp32)}));
    OpGraph training = differentiate(graph, {.loss = LossKind::sum, .optimizer = OptimizerKind::none}).graph;
    if (given) training.mark_output(*training.find_tensor(graph.tensor(x).name));
    TempoCounts counts;
    static_cast<void>(rewrite_saved_tensors(training, {}, counts));
    return counts.gelus;
  };
  CHECK(gelus(true, false) == 1);
  CHECK(gelus(false, false) == 0);  // of a parameter
  CHECK(gelus(true, true) == 0);    // the graph gives it
}

TEST_CASE("The pass tells what it rewrote, and measures only where there is a device with memory", "[unit][tempo]") {
  PassRegistry registry("pass");
  register_memory_passes(registry);
  const OpGraph training = differentiate(layers(2, kB), {.optimizer = OptimizerKind::sgd}).graph;
  const auto told = [&](const std::string& params) {
    PassReport report;
    run_pass(registry, "tempo", training, {}, params, report);
    CHECK(std::ranges::none_of(report.figures, [](const auto& one) { return one.first == "layers"; }));
    return std::vector<double>{figure(report, "gelus"), figure(report, "norms"), figure(report, "attentions"),
                               figure(report, "applied")};
  };
  using Told = std::vector<double>;
  CHECK(told("{}") == Told{2, 4, 2, 1});
  CHECK(told(R"({"layers": 1})") == Told{1, 2, 1, 1});
  CHECK(told(R"({"layers": 0})") == Told{0, 0, 0, 0});
  CHECK(told(R"({"layers": 1, "layer": "block."})") == Told{0, 0, 0, 0});
  CHECK(told(R"({"gelu": false})") == Told{0, 4, 2, 1});
  CHECK(told(R"({"norm": false, "attention": false})") == Told{2, 0, 0, 1});
  const Second cost;
  PassReport report;
  const std::string needs = "tempo: 'fast' and 'smart' measure steps: they need a device with memory";
  PassContext priced{.cost = &cost}, roomy{.memory_bytes = 1 << 30};
  for (const std::string params : {R"({"apply": "fast"})", R"({"apply": "smart"})"}) {
    CHECK_THROWS_WITH(run_pass(registry, "tempo", training, priced, params, report), needs);
    CHECK_THROWS_WITH(run_pass(registry, "tempo", training, roomy, params, report), needs);
  }
}

/// A pass takes as long as it writes, whatever the batch; nothing else takes time.
class Saturated final : public hw::CostModel {
 public:
  hw::Cost cost(const hw::Kernel& kernel) const override {
    const auto* pass = std::get_if<hw::Streaming>(&kernel.shape);
    return {.time_s = pass == nullptr ? 0 : static_cast<double>(pass->write_bytes)};
  }
};

TEST_CASE("AutoTempo-Fast rewrites where the device has room, or where no more than two batches fit", "[unit][tempo]") {
  PassRegistry registry("pass");
  register_memory_passes(registry);
  const OpGraph training = differentiate(layers(1, SymExpr::dim("n")), {.optimizer = OptimizerKind::none}).graph;
  const Liveness one = liveness(training, {{"n", 1}});
  const auto applied = [&](const hw::CostModel& cost, std::int64_t memory, const std::string& more) {
    PassContext context{.cost = &cost, .memory_bytes = memory, .typical = {{"n", 2}}};
    PassReport report;
    run_pass(registry, "tempo", training, context, R"({"apply": "fast", "symbol": "n")" + more + "}", report);
    return figure(report, "applied");
  };
  const Second idle;
  const Saturated busy;
  const std::int64_t ample = one.persistent + 40 * one.peak, tight = one.persistent + 3 * one.peak;
  CHECK(applied(idle, ample, "") == 1);
  CHECK(applied(busy, ample, "") == 0);  // time doubles with the batch
  CHECK(applied(busy, ample, R"(, "saturation": 1.5)") == 1);
  CHECK(applied(busy, tight, "") == 1);  // a curve of batches of one and two
}

TEST_CASE("AutoTempo-Smart rewrites nothing where nothing fits, and the fewest layers of equals", "[unit][tempo]") {
  PassRegistry registry("pass");
  register_memory_passes(registry);
  const OpGraph training = differentiate(layers(2, SymExpr::dim("batch")), {.optimizer = OptimizerKind::none}).graph;
  const Second cost;
  PassContext context{.cost = &cost, .memory_bytes = 1, .typical = {{"batch", 2}}};
  PassReport report;
  run_pass(registry, "tempo", training, context, R"({"apply": "smart"})", report);
  CHECK(figure(report, "layers") == 0);
  CHECK(figure(report, "applied") == 0);
}

TEST_CASE("Dialects: who runs an op, what is counted, and what a bias becomes", "[unit][raf_dialect]") {
  PassRegistry registry("pass");
  add_raf_dialect(registry);
  OpGraph graph;  // a product with a bias, relu, softmax
  const TensorId x = graph.input("x", {8, 16}, ElementType::fp16);
  const TensorId y =
      graph.emit(OpKind::matmul,
                 {x, graph.parameter("w", {16, 16}, ElementType::fp16), graph.parameter("b", {16}, ElementType::fp16)},
                 {}, "linear");
  graph.mark_output(graph.emit(OpKind::softmax, {graph.emit(OpKind::relu, {y})}));
  const auto run = [&](const std::string& params, PassReport& report) {
    return run_pass(registry, "raf_dialect", graph, {}, params, report);
  };
  const auto dialects = [](const OpGraph& of) {
    std::vector<std::string> all;
    for (const OpId id : of.ops()) all.push_back(of.op(id).dialect);
    return all;
  };
  using Names = std::vector<std::string>;
  PassReport patterned;
  CHECK(run("{}", patterned).op_count() == 2);
  CHECK(figure(patterned, "base_ops") == 4);  // the bias is an addition
  CHECK(figure(patterned, "fused_by_pattern") == 2);
  CHECK(figure(patterned, "fused_by_rule") == 0);
  CHECK(figure(patterned, "cudnn_kernels") == 1);
  CHECK(figure(patterned, "cublas_kernels") == 0);
  CHECK(figure(patterned, "tvm_kernels") == 0);

  PassReport plain;
  const OpGraph apart = run(R"({"enabled": ["cublas", "cudnn", "tvm"]})", plain);
  CHECK(dialects(apart) == Names{"cublas", "tvm", "cudnn"});
  CHECK(figure(plain, "base_ops") == 4);
  CHECK(figure(plain, "fused_by_pattern") == 0);  // without CUTLASS
  CHECK(figure(plain, "fused_by_rule") == 1);     // the addition and the relu
  CHECK(figure(plain, "tvm_kernels") == 1);
  CHECK(figure(plain, "cublas_kernels") == 1);
  PassReport without;
  CHECK(dialects(run(R"({"patterns": [], "fuse": ""})", without)) == Names{"cublas", "tvm", "tvm", "cudnn"});
  CHECK(figure(without, "tvm_kernels") == 2);
  PassReport kept;
  const OpGraph whole = run(R"({"patterns": [], "fuse": "", "split_bias": false})", kept);
  CHECK(dialects(whole) == Names{"cublas", "tvm", "cudnn"});
  CHECK(whole.op(OpId{0}).inputs.size() == 3);
  CHECK(figure(kept, "base_ops") == 3);

  const OpGraph split = run(R"({"patterns": [], "fuse": ""})", without);
  CHECK(split.op(OpId{0}).inputs.size() == 2);
  CHECK(split.op(OpId{0}).name == graph.op(OpId{0}).name + ".product");
  CHECK(split.op(OpId{1}).kind == OpKind::add);
  CHECK(split.op(OpId{1}).inputs[0] == split.op(OpId{0}).outputs.front());
  CHECK(split.tensor(split.op(OpId{1}).inputs[1]).name == "b");
  CHECK(split.tensor(split.op(OpId{1}).outputs.front()).name == graph.tensor(y).name);

  // Entries of a registry: kinds, classes of them, or all; the highest priority, of equals the first.
  const auto by = [&](const std::string& entries, const std::string& enabled = R"(["a", "b"])") {
    PassReport report;
    return dialects(run(R"({"patterns": [], "fuse": "", "split_bias": false, "enabled": )" + enabled +
                            R"(, "registry": [)" + entries + "]}",
                        report));
  };
  const std::string a = R"({"dialect": "a", "ops": "*"})";
  CHECK(by(a + R"(, {"dialect": "b", "ops": "*"})") == Names{"a", "a", "a"});
  CHECK(by(a + R"(, {"dialect": "b", "ops": "*", "priority": 11})") == Names{"b", "b", "b"});
  CHECK(by(a + R"(, {"dialect": "b", "ops": "*", "priority": 9})") == Names{"a", "a", "a"});
  CHECK(by(a + R"(, {"dialect": "b", "ops": "*", "priority": 11})", R"(["a"])") == Names{"a", "a", "a"});
  CHECK(by(a + R"(, {"dialect": "b", "ops": ["elementwise"], "priority": 11})") == Names{"a", "b", "a"});
  CHECK(by(a + R"(, {"dialect": "b", "ops": ["softmax", "matrix"], "priority": 11})") == Names{"b", "a", "b"});
  CHECK_THROWS_WITH(by(R"({"dialect": "a", "ops": ["matmul", "softmax"]})"),
                    Catch::StartsWith("raf_dialect: no enabled dialect has relu '"));
}

}  // namespace
}  // namespace orrery::policies::test_tempo
