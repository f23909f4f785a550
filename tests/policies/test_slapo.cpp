#include <catch2/catch.hpp>

#include "hw/cost/cost_model.hpp"
#include "hw/network/library_collective.hpp"
#include "models/autodiff/autodiff.hpp"
#include "models/builders/builder.hpp"
#include "models/graph/liveness.hpp"
#include "models/graph/op_work.hpp"
#include "policies/fusion/marks.hpp"
#include "policies/placement/slapo_schedule.hpp"
#include "tests/policies/pass_run.hpp"

namespace test_slapo {

using namespace orrery;
using namespace orrery::models;
using policies::test::figure;
using policies::test::make_pass;
namespace slapo = policies::slapo;

namespace {

OpGraph bert(const std::string& params = R"({"layers": 2, "hidden": 64, "heads": 4, "intermediate": 256, "vocab": 128,
    "positions": 64, "head": "mlm", "loss": true})") {
  BuilderRegistry registry("builder");
  register_builders(registry);
  const sim::Node node = sim::parse_json(params, "bert.json");
  sim::Faults faults;
  const BuilderRegistry::Choice choice = registry.prepare("bert", &node, {}, faults);
  faults.throw_if_any();
  return choice.make()->build();
}

policies::PassContext sizes(std::int64_t batch = 4, std::int64_t tokens = 16) {
  policies::PassContext context;
  context.typical = {{"batch", batch}, {"tokens", tokens}};
  return context;
}

/// Megatron-LM's layers: columns, then rows, for attention and feed-forward.
std::string megatron(int ranks, bool backward, const std::string& more = "") {
  std::string list;
  for (const char* name : {"query", "key", "value"})
    for (const char* what : {"weight", "bias"})
      list += std::string(R"({"shard": {"scope": "layer.*.attention", "param": ")") + name + "." + what + R"("}}, )";
  list += R"({"shard": {"scope": "layer.*.attention", "param": "output.weight", "axis": 1}},
             {"shard": {"scope": "layer.*.ffn", "param": "intermediate.*"}},
             {"shard": {"scope": "layer.*.ffn", "param": "output.weight", "axis": 1}},
             {"sync": {"scope": "layer.*"}})";
  if (backward) list += R"(, {"sync": {"scope": "layer.*", "direction": "backward"}})";
  return R"({"ranks": )" + std::to_string(ranks) + R"(, "schedule": [)" + list + more + "]}";
}

std::string one(const std::string& primitive, int ranks = 2) {
  return R"({"ranks": )" + std::to_string(ranks) + R"(, "schedule": [)" + primitive + "]}";
}

OpGraph applied(const OpGraph& graph, const std::string& params, policies::PassReport* report = nullptr) {
  policies::PassReport unheard;
  return make_pass("slapo", params)->run(graph, sizes(), report == nullptr ? unheard : *report);
}

std::string fault(const OpGraph& graph, const std::string& params) {
  try {
    static_cast<void>(applied(graph, params));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

std::size_t count(const OpGraph& graph, OpKind kind, std::optional<Phase> phase = {}) {
  std::size_t n = 0;
  for (const OpId op : graph.ops()) n += graph.op(op).kind == kind && (!phase || graph.op(op).phase == *phase) ? 1 : 0;
  return n;
}

double matrix_flops(const OpGraph& graph) {
  return static_cast<double>(*total_work(graph, sizes().typical).matrix_flops.constant());
}

}  // namespace

TEST_CASE("Patterns of scopes", "[unit]") {
  CHECK(slapo::module_of("layer.*", "layer.3.attention") == "layer.3");
  CHECK(slapo::module_of("layer.*.attention", "layer.12.attention") == "layer.12.attention");
  CHECK(slapo::module_of("l*r.1*", "layer.12.x") == "layer.12");
  CHECK_FALSE(slapo::module_of("layer.*.attention", "layer.3"));
  CHECK_FALSE(slapo::module_of("layer.1", "layer.12"));
  CHECK_FALSE(slapo::module_of("head", ""));
}

TEST_CASE("Column-row sharding of a forward pass: two sums a layer", "[unit]") {
  const OpGraph graph = bert();
  policies::PassReport report;
  const OpGraph split = applied(graph, megatron(4, false), &report);
  REQUIRE(verify(split).empty());
  // After attention's and after the feed-forward's second product, in each of 2 layers, [4, 16, 64] of 2 bytes.
  CHECK(figure(report, "all_reduces") == 4);
  CHECK(figure(report, "all_reduce_bytes") == 4 * 4 * 16 * 64 * 2);
  // A layer's parameters: 3 (64x64 + 64) / 4 + 64x64 / 4 + 64 and (64x256 + 256) / 4 + 256x64 / 4 + 64, and two norms.
  const double layer = 3 * (4096 + 64) / 4 + 1024 + 64 + (16384 + 256) / 4 + 4096 + 64 + 2 * 128;
  const double rest = figure(report, "parameter_bytes") / 2 - 2 * layer;
  policies::PassReport whole;
  static_cast<void>(applied(graph, R"({"schedule": []})", &whole));
  const double full = 4 * (4096 + 64) + 2 * 16384 + 256 + 64 + 2 * 128;
  CHECK(rest == figure(whole, "parameter_bytes") / 2 - 2 * full);
  // Heads: 4 ranks have one each.
  for (const OpId op : split.ops())
    if (split.op(op).kind == OpKind::attention) CHECK(split.tensor(split.op(op).inputs[0]).shape[1].constant() == 1);
}

TEST_CASE("Sharding divides the work of layers, of the backward pass too", "[prop]") {
  const OpGraph forward = bert();
  const OpGraph training = differentiate(forward).graph;
  for (const bool trains : {false, true}) {
    const OpGraph& graph = trains ? training : forward;
    // Products outside of the layers (the head) stay whole: from the difference of two and of four ranks.
    const double whole = matrix_flops(graph), half = matrix_flops(applied(graph, megatron(2, trains))),
                 quarter = matrix_flops(applied(graph, megatron(4, trains)));
    CHECK((whole - half) == Approx(2 * (half - quarter)));
    CHECK(half < whole);
    const OpGraph same = applied(graph, megatron(1, trains));
    CHECK(to_string(same) == to_string(graph));
  }
  const OpGraph split = applied(training, megatron(2, true));
  REQUIRE(verify(split).empty());
  // Gradients of what a layer's two column products read: one sum each, also where three products read it.
  CHECK(count(split, OpKind::all_reduce, Phase::forward) == 4);
  CHECK(count(split, OpKind::all_reduce, Phase::backward) == 4);
  // A parameter, its gradient and its states lie alike.
  for (const OpId op : split.ops()) {
    const OpNode& node = split.op(op);
    if (node.kind != OpKind::optimizer_step) continue;
    for (const TensorId input : node.inputs) CHECK(split.tensor(input).shape == split.tensor(node.inputs[0]).shape);
  }
  CHECK(to_string(applied(training, megatron(2, true))) == to_string(split));
}

TEST_CASE("A checkpointed module keeps its inputs and runs again", "[unit]") {
  const OpGraph training = differentiate(bert()).graph;
  std::vector<double> saved, flops, live;
  for (const char* ratio : {"0", "0.5", "1"}) {
    policies::PassReport report;
    const OpGraph graph =
        applied(training, one(R"({"checkpoint": {"scope": "layer.*", "ratio": )" + std::string(ratio) + "}}"), &report);
    REQUIRE(verify(graph).empty());
    saved.push_back(figure(report, "saved_bytes"));
    flops.push_back(matrix_flops(graph));
    live.push_back(figure(report, "live_bytes"));
  }
  CHECK(saved[1] < saved[0]);
  CHECK(saved[2] < saved[1]);
  CHECK(live[2] < live[0]);
  CHECK(flops[0] == matrix_flops(training));
  // Both layers are alike: each recomputation costs the same. A layer's forward pass but for its last product, whose
  // result leaves the module through the norm: 2 * 64 tokens * (4 * 64^2 + 2 * 64 * 256) and attention.
  CHECK(flops[2] - flops[1] == Approx(flops[1] - flops[0]));
  CHECK(flops[1] > flops[0]);
  // Parameters' gradients are made from what was saved or made again: as many ops of each kind of the optimizer.
  CHECK(
      fault(bert(), one(R"({"checkpoint": {"scope": "layer.*"}})")) ==
      "/slapo/schedule/0/checkpoint: expected a training graph (put 'autodiff' before 'slapo' in the order of passes)");
}

TEST_CASE("Stages of a pipeline send what crosses", "[unit]") {
  const OpGraph graph = bert(R"({"layers": 4, "hidden": 64, "heads": 4, "intermediate": 256, "vocab": 128,
      "positions": 64, "head": "none"})");
  policies::PassReport report;
  const OpGraph staged = applied(graph, one(R"({"pipeline": {"cuts": ["layer.2"]}})"), &report);
  REQUIRE(verify(staged).empty());
  // One tensor of [4, 16, 64] crosses; the embeddings do little, so both stages do about half.
  CHECK(count(staged, OpKind::send) == 1);
  CHECK(count(staged, OpKind::recv) == 1);
  CHECK(figure(report, "sent_bytes") == 4 * 16 * 64 * 2);
  CHECK(figure(report, "stages") == 2);
  CHECK(figure(report, "stage_imbalance") == Approx(1).epsilon(0.02));
  CHECK(matrix_flops(staged) == matrix_flops(graph));
  CHECK(fault(graph, one(R"({"pipeline": {"cuts": ["layer.2", "layer.1"]}})")) ==
        "/slapo/schedule/0/pipeline/cuts: expected modules in order of execution, got 'layer.1' after 'layer.2'");
  CHECK(fault(graph, one(R"({"pipeline": {"cuts": ["layer.2", "layer.2"]}})")) ==
        "/slapo/schedule/0/pipeline/cuts: expected modules in order of execution, got 'layer.2' after 'layer.2'");
}

TEST_CASE("a training step in stages sends activations there and their gradients back, and nothing of the optimizer",
          "[unit]") {
  const OpGraph forward = bert(R"({"layers": 4, "hidden": 64, "heads": 4, "intermediate": 256, "vocab": 128,
      "positions": 64, "head": "none"})");
  const OpGraph graph = models::differentiate(forward, {.optimizer = models::OptimizerKind::adam}).graph;
  policies::PassReport report;
  const OpGraph staged = applied(graph, one(R"({"pipeline": {"cuts": ["layer.2"]}})"), &report);
  REQUIRE(verify(staged).empty());
  CHECK(count(staged, OpKind::send) == 2);
  CHECK(figure(report, "sent_bytes") == 2 * 4 * 16 * 64 * 2);
  // Each parameter's step is where the parameter is.
  for (const OpId op : staged.ops()) {
    if (staged.op(op).phase != Phase::optimizer) continue;
    for (const TensorId input : staged.op(op).inputs)
      if (staged.tensor(input).role == TensorRole::parameter)
        CHECK(staged.op(op).target == staged.op(staged.consumers(input).front()).target);
  }
}

TEST_CASE("Modules and chains become kernels", "[unit]") {
  const OpGraph eager =
      bert(R"({"layers": 2, "hidden": 64, "heads": 4, "intermediate": 256, "vocab": 128, "positions": 64,
      "head": "none", "attention": "eager"})");
  const OpGraph fast = applied(eager, one(R"({"replace": {"scope": "layer.*.ffn", "kernel": "whole_ffn"}})"));
  REQUIRE(verify(fast).empty());
  CHECK(count(fast, OpKind::fused) == 2);
  CHECK(matrix_flops(fast) == matrix_flops(eager));
  for (const OpId op : fast.ops()) CHECK((fast.op(op).dialect == "whole_ffn") == (fast.op(op).kind == OpKind::fused));
  // The mask's sum lies between scale and softmax: they cannot run as one without it.
  CHECK(
      fault(eager,
            one(R"({"replace": {"scope": "layer.*.attention", "kernel": "flash", "ops": ["scale", "softmax"]}})")) ==
      "/slapo/schedule/0/replace/scope: expected ops that can run as one: a path leaves them and comes back (name the "
      "kinds that the kernel takes over in 'ops')");
}

TEST_CASE("Chains of a scope are fused, launches captured", "[unit]") {
  const OpGraph graph =
      bert(R"({"layers": 2, "hidden": 64, "heads": 4, "intermediate": 256, "vocab": 128, "positions": 64,
      "head": "none"})");
  policies::PassReport report;
  const OpGraph fused = applied(
      graph, one(R"({"fuse": {"scope": "layer.*", "ops": "add + layer_norm"}}, {"cudagraph": {"scope": "layer.*"}})"),
      &report);
  REQUIRE(verify(fused).empty());
  CHECK(count(fused, OpKind::fused) == 4);
  CHECK(to_string(unfuse(fused)).size() > 0);
  CHECK(figure(report, "flops_ratio") == 1);
  std::size_t layers = 0;
  for (const OpId op : fused.ops()) layers += fused.op(op).scope.starts_with("layer.") ? 1 : 0;
  CHECK(figure(report, "captured_ops") == static_cast<double>(layers));
  // Two layers are two launches, whatever is in them; in training, the backward pass of each is another.
  const auto launches = [&](const OpGraph& of, const std::string& scope) {
    const OpGraph captured = applied(of, one(R"({"cudagraph": {"scope": ")" + scope + R"("}})"));
    CHECK(policies::count_kernels(captured) == policies::count_kernels(of));
    std::int64_t outside = 0;
    for (const OpId op : of.ops())
      outside += !slapo::module_of(scope, of.op(op).scope) && !launches_nothing(of.op(op)) ? 1 : 0;
    return policies::count_launches(captured) - outside;
  };
  CHECK(launches(graph, "layer.*") == 2);
  CHECK(launches(differentiate(bert()).graph, "layer.*") == 4);
  const std::string halves =
      R"({"cudagraph": {"scope": "layer.*.attention"}}, {"cudagraph": {"scope": "layer.*.ffn"}})";
  CHECK(policies::count_launches(applied(graph, one(halves))) ==
        policies::count_launches(applied(graph, one(R"({"cudagraph": {"scope": "layer.*"}})"))) + 2);
  CHECK(fault(graph, one(R"({"fuse": {"scope": "layer.*", "ops": "add+relu"}})")) ==
        "/slapo/schedule/0/fuse/ops: expected a chain that is in 'layer.*', got 'add+relu' (inner tensors of a chain "
        "have "
        "one reader)");
}

TEST_CASE("Faults of a schedule say which primitive, which field and what is near", "[unit]") {
  const OpGraph graph = bert();
  CHECK(
      fault(graph, one(R"({"shard": {"scope": "layr.*.ffn"}})"))
          .starts_with(
              "/slapo/schedule/0/shard/scope: expected a module of the model, got 'layr.*.ffn' (did you mean 'layer."));
  CHECK(fault(graph, one(R"({"shard": {"scope": "layer.*.ffn", "param": "intermediate.wieght"}})")) ==
        "/slapo/schedule/0/shard/param: expected a parameter of 'layer.*.ffn', got 'intermediate.wieght' (did you mean "
        "'intermediate.weight'?)");
  CHECK(fault(graph, one(R"({"shard": {"scope": "layer.*.ffn", "param": "output.bias", "axis": 1}})")) ==
        "/slapo/schedule/0/shard/axis: expected an axis of layer.0.ffn.output.bias fp16[64], got 1");
  CHECK(fault(graph, one(R"({"shard": {"scope": "layer.*.ffn", "param": "output.weight"}})", 3)) ==
        "/slapo/schedule/0/shard/axis: expected a size that 3 ranks divide, got 64 of layer.0.ffn.output.weight");
  CHECK(fault(graph, one(R"({"shard": {"scope": "layer.*.ffn", "param": "output.weight", "ranks": 4}})")) ==
        "/slapo/schedule/0/shard/ranks: expected the schedule's 2 ranks, got 4");
  CHECK(fault(graph, one(R"({"sync": {"scope": "head"}})")) ==
        "/slapo/schedule/0/sync/scope: expected a module that makes partial sums, got 'head' (shard the axis that a "
        "product sums over)");
  CHECK(fault(graph, R"({"schedule": [{}]})") ==
        "/slapo/schedule/0: expected one primitive, got 0 (one of replace, fuse, shard, sync, checkpoint, pipeline, "
        "cudagraph)");
  CHECK(fault(graph, one(R"({"fuse": {"scope": "layer.*", "ops": "add+layer_nrm"}})")) ==
        "/slapo/schedule/0/fuse/ops: expected a kind of op, got 'layer_nrm' (did you mean 'layer_norm'?)");
  // What would compute something else is refused.
  CHECK_THAT(fault(graph, one(R"({"shard": {"scope": "embeddings", "param": "words.weight"}})")),
             Catch::Contains("sync"));
  const std::string columns = R"({"shard": {"scope": "layer.*.ffn", "param": "intermediate.weight"}})";
  CHECK_THAT(fault(graph, one(columns)), Catch::Contains("its columns are divided, its bias is not; shard "
                                                         "'layer.0.ffn.intermediate.bias' too"));
  const std::string both = R"({"shard": {"scope": "layer.*.ffn", "param": "intermediate.*"}})";
  CHECK_THAT(fault(graph, one(both)), Catch::Contains("expected operands divided along the axis that it sums over"));
  const std::string rows = both + R"(, {"shard": {"scope": "layer.*.ffn", "param": "output.weight", "axis": 1}})";
  CHECK_THAT(fault(graph, one(rows)),
             Catch::Contains("add {\"sync\": {\"scope\": \"layer.0.ffn\", \"direction\": \"forward\"}}"));
}

TEST_CASE("ZeRO divides what its stage says", "[unit]") {
  policies::PassReport forward;
  static_cast<void>(applied(bert(), R"({"zero": {"ranks": 4, "stage": 0}})", &forward));
  CHECK(figure(forward, "live_bytes") == static_cast<double>(models::liveness(bert(), sizes().typical, false).peak));
  const OpGraph training = differentiate(bert()).graph;
  double last = 0;
  for (int stage = 3; stage >= 0; --stage) {
    policies::PassReport report;
    static_cast<void>(applied(training, R"({"zero": {"ranks": 4, "stage": )" + std::to_string(stage) + "}}", &report));
    CHECK(figure(report, "memory_bytes") > last);
    last = figure(report, "memory_bytes");
    if (stage == 0)
      CHECK(last == figure(report, "parameter_bytes") + figure(report, "state_bytes") +
                        figure(report, "gradient_bytes") + figure(report, "live_bytes"));
    // AdamW in fp32 beside fp16 parameters: two moments of 4 bytes each; gradients as parameters.
    CHECK(figure(report, "state_bytes") == 4 * figure(report, "parameter_bytes"));
    CHECK(figure(report, "gradient_bytes") == figure(report, "parameter_bytes"));
  }
}

TEST_CASE("Partial sums go through what is linear, and are summed once", "[unit]") {
  // Two row products of one column product, added, seen in another shape, then through a relu.
  OpGraph graph;
  graph.set_scope("ffn");
  const auto weight = [&](const char* name, std::int64_t from, std::int64_t to) {
    return graph.parameter(std::string("ffn.") + name, {from, to}, ElementType::fp16);
  };
  const TensorId x = graph.input("x", {8, 64}, ElementType::fp16);
  const TensorId h = graph.emit(OpKind::relu, {graph.emit(OpKind::matmul, {x, weight("up", 64, 128)})});
  const TensorId a = graph.emit(OpKind::matmul, {h, weight("a", 128, 32)});
  const TensorId b = graph.emit(OpKind::matmul, {h, weight("b", 128, 32)});
  const TensorId sum = graph.emit(OpKind::reshape, {graph.emit(OpKind::add, {a, b})}, {4, 64}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::relu, {sum}));
  policies::PassReport report;
  const OpGraph split = applied(graph, one(R"({"shard": {"scope": "ffn", "param": "up", "axis": 1}},
      {"shard": {"scope": "ffn", "param": "a"}}, {"shard": {"scope": "ffn", "param": "b"}},
      {"sync": {"scope": "ffn"}})"),
                                &report);
  REQUIRE(verify(split) == std::vector<std::string>{});
  CHECK(figure(report, "all_reduces") == 1);
  CHECK(figure(report, "all_reduce_bytes") == 8 * 32 * 2);
  std::vector<OpKind> kinds;
  for (const OpId op : split.ops()) kinds.push_back(split.op(op).kind);
  CHECK(kinds == std::vector<OpKind>{OpKind::matmul, OpKind::relu, OpKind::matmul, OpKind::matmul, OpKind::add,
                                     OpKind::reshape, OpKind::all_reduce, OpKind::relu});
}

TEST_CASE("A slice of what is divided begins at its share, other ops keep what they are told", "[unit]") {
  // 128 columns on two ranks: the slice from 64 on is that from 32 on of 64. Rows are not divided.
  OpGraph graph;
  graph.set_scope("ffn");
  const TensorId x = graph.input("x", {4, 64}, ElementType::fp16);
  const TensorId h = graph.emit(OpKind::matmul, {x, graph.parameter("ffn.w", {64, 128}, ElementType::fp16)});
  const auto slice = [&](std::vector<SymExpr> shape, std::int64_t axis, std::int64_t start) {
    graph.mark_output(graph.emit(OpKind::slice, {h}, std::move(shape), ElementType::fp16,
                                 {{"axis", SymExpr(axis)}, {"start", SymExpr(start)}}));
  };
  slice({4, 64}, 1, 64);
  slice({2, 128}, 0, 2);
  graph.mark_output(graph.emit(OpKind::relu, {h}, {{"axis", SymExpr(1)}}));
  const OpGraph split = applied(graph, one(R"({"shard": {"scope": "ffn", "param": "w", "axis": 1}})"));
  REQUIRE(split.op_count() == 4);
  const auto shape = [&](int op) { return split.tensor(split.op(OpId{op}).outputs.front()).shape; };
  CHECK(split.op(OpId{1}).integer("start", -1) == 32);
  CHECK(shape(1) == std::vector<SymExpr>{4, 32});
  CHECK(split.op(OpId{2}).integer("start", -1) == 2);
  CHECK(shape(2) == std::vector<SymExpr>{2, 64});
  CHECK(split.op(OpId{3}).attributes == graph.op(OpId{3}).attributes);
  CHECK(shape(3) == std::vector<SymExpr>{4, 64});
}

namespace {

/// Every kernel takes a second.
class Second final : public hw::CostModel {
 public:
  hw::Cost cost(const hw::Kernel&) const override { return {.time_s = 1}; }
};

}  // namespace

TEST_CASE("A step takes as long as its kernels and, over a link, its sums", "[unit]") {
  const Second cost;
  policies::PassContext context = sizes();
  context.cost = &cost;
  const auto run = [&](const OpGraph& graph, std::string params, bool linked) {
    if (linked) params.insert(params.size() - 1, R"(, "link": {"bandwidth": "100 GB/s"})");
    policies::PassReport report;
    static_cast<void>(make_pass("slapo", params)->run(graph, context, report));
    CHECK(figure(report, "time_s") == figure(report, "kernels_s") + figure(report, "collectives_s"));
    CHECK(figure(report, "kernels_s") > 0);
    return report;
  };
  hw::LinkParams link;
  link.bandwidth = 100e9;
  // Four sums over four ranks, of [4, 16, 64] of 2 bytes each.
  const double each = hw::library_collective(link, hw::LibraryCall::all_reduce, 4, 4 * 16 * 64 * 2).time_s;
  REQUIRE(each > 0);
  CHECK(figure(run(bert(), megatron(4, false), true), "collectives_s") == Approx(4 * each));
  CHECK(figure(run(bert(), megatron(4, false), false), "collectives_s") == 0);
  CHECK(figure(run(bert(), megatron(1, false), true), "collectives_s") == 0);
  // What else goes over a link is not a sum.
  OpGraph gathers;
  const TensorId x = gathers.input("x", {8, 64}, ElementType::fp16);
  const TensorId all = gathers.emit(OpKind::all_gather, {x}, {32, 64}, ElementType::fp16, {{"ranks", SymExpr(4)}});
  gathers.mark_output(gathers.emit(OpKind::relu, {all}));
  CHECK(figure(run(gathers, R"({"schedule": []})", true), "collectives_s") == 0);
}

TEST_CASE("Terms that are partial are added before they are summed over ranks", "[unit]") {
  // Of x + a + b, where a and b are row products, a and b are added first: one sum over ranks. A single one is summed
  // as it is.
  const auto kinds = [](bool both) {
    OpGraph graph;
    graph.set_scope("ffn");
    const auto weight = [&](const char* name, std::int64_t from, std::int64_t to) {
      return graph.parameter(std::string("ffn.") + name, {from, to}, ElementType::fp16);
    };
    const TensorId x = graph.input("x", {8, 64}, ElementType::fp16);
    const TensorId h = graph.emit(OpKind::matmul, {x, weight("up", 64, 128)});
    const TensorId a = graph.emit(OpKind::matmul, {h, weight("a", 128, 64)});
    const TensorId b = both ? graph.emit(OpKind::matmul, {h, weight("b", 128, 64)}) : x;
    graph.mark_output(graph.emit(both ? OpKind::add_n : OpKind::add,
                                 both ? std::vector<TensorId>{x, a, b} : std::vector<TensorId>{x, a}));
    std::string list = R"({"shard": {"scope": "ffn", "param": "up", "axis": 1}},
        {"shard": {"scope": "ffn", "param": "a"}}, {"sync": {"scope": "ffn"}})";
    if (both) list += R"(, {"shard": {"scope": "ffn", "param": "b"}})";
    const OpGraph split = applied(graph, one(list));
    REQUIRE(verify(split) == std::vector<std::string>{});
    std::vector<OpKind> all;
    for (const OpId op : split.ops()) all.push_back(split.op(op).kind);
    return all;
  };
  using Kinds = std::vector<OpKind>;
  CHECK(kinds(true) ==
        Kinds{OpKind::matmul, OpKind::matmul, OpKind::matmul, OpKind::add_n, OpKind::all_reduce, OpKind::add_n});
  CHECK(kinds(false) == Kinds{OpKind::matmul, OpKind::matmul, OpKind::all_reduce, OpKind::add});
  // A slice along the first axis, of a parameter that is divided along it.
  OpGraph rows;
  rows.set_scope("ffn");
  const TensorId w = rows.parameter("ffn.w", {64, 16}, ElementType::fp16);
  rows.mark_output(
      rows.emit(OpKind::slice, {w}, {32, 16}, ElementType::fp16, {{"axis", SymExpr(0)}, {"start", SymExpr(32)}}));
  const OpGraph split = applied(rows, one(R"({"shard": {"scope": "ffn", "param": "w"}})"));
  CHECK(split.op(OpId{0}).integer("start", -1) == 16);
  CHECK(split.tensor(split.op(OpId{0}).outputs.front()).shape == std::vector<SymExpr>{16, 16});
}

}  // namespace test_slapo
