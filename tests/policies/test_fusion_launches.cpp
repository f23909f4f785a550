// Passes that share launches or decide at run time: stacking, graph capture, proximity, runtime fusion.
#include <algorithm>

#include "policies/fusion/launch_graph.hpp"
#include "policies/fusion/prices.hpp"
#include "tests/policies/fusion_support.hpp"

namespace test_fusion_launches {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using models::ElementType;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::SymExpr;
using models::TensorId;

namespace {

const SymExpr kBatch = SymExpr::dim("batch");

PassContext sized(std::int64_t batch) {
  PassContext context;
  context.typical = {{"batch", batch}};
  return context;
}

std::vector<std::int64_t> marks(const OpGraph& graph, std::string_view mark) {
  std::vector<std::int64_t> all;
  for (const OpId id : graph.ops())
    if (!models::launches_nothing(graph.op(id))) all.push_back(graph.op(id).integer(mark, -1));
  return all;
}
using Marks = std::vector<std::int64_t>;

/// relu, exp, copy to the host, relu, exp, relu
OpGraph with_host_copy() {
  OpGraph graph;
  TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  x = graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})});
  graph.mark_output(graph.emit(OpKind::to_host, {x}, {kBatch, 64}, ElementType::fp16));
  x = graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})});
  graph.mark_output(graph.emit(OpKind::relu, {x}));
  return graph;
}

}  // namespace

TEST_CASE("a price that is remembered is the one that the device gave", "[unit]") {
  OpGraph graph;
  TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {64, 64}, ElementType::fp16);
  for (int i = 0; i < 3; ++i) x = graph.emit(OpKind::relu, {graph.emit(OpKind::matmul, {x, w})});
  graph.mark_output(x);
  const auto gpu = round_gpu();
  PassContext context = sized(4096);
  context.cost = gpu.get();
  PricedOps prices(context);
  for (int round = 0; round < 2; ++round)
    for (const OpId id : graph.ops()) {
      const double direct = context.time_s(graph, id, context.typical);
      CHECK(direct > 0);
      CHECK(prices.time_s(graph, id) == direct);
    }
}

TEST_CASE("stacking shares launches and leaves work and bytes", "[unit]") {
  const OpGraph graph = with_host_copy();
  PassReport report;
  const OpGraph stacked = apply("stacking", graph, sized(8), "{}", &report);
  CHECK(marks(stacked, kStackMark) == Marks{0, 0, -1, 1, 1, 1});
  CHECK(count_launches(graph) == 6);
  CHECK(count_launches(stacked) == 3);
  CHECK(count_kernels(stacked) == 6);
  CHECK(moved(stacked, {{"batch", 8}}) == moved(graph, {{"batch", 8}}));
  CHECK(figure(report, "stacks") == 2);
  CHECK(figure(report, "parallel") == 0);
  CHECK(stacked.op(OpId{0}).text("stack_form") == "sequence");
  CHECK(to_string(apply("stacking", graph, sized(8), R"({"max_leaves": 1})")) == to_string(graph));
}

TEST_CASE("parallel stacks hold independent leaves only", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16),
                 y = graph.input("y", {64, 64}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::relu, {x});
  const TensorId b = graph.emit(OpKind::exp, {y});
  graph.mark_output(graph.emit(OpKind::matmul, {a, b}));
  CHECK(marks(apply("stacking", graph, sized(8), R"({"form": "parallel"})"), kStackMark) == Marks{0, 0, -1});
  CHECK(marks(apply("stacking", graph, sized(8)), kStackMark) == Marks{0, 0, 0});
}

TEST_CASE("captures end where the host is needed", "[unit]") {
  const OpGraph graph = with_host_copy();
  PassContext context = sized(8);
  context.seen = {{{"batch", 8}}, {{"batch", 9}}, {{"batch", 8}}};
  context.launch_s = 3e-6;
  PassReport report;
  const OpGraph captured = apply("graph_capture", graph, context, "{}", &report);
  CHECK(marks(captured, kCaptureMark) == Marks{0, 0, -1, 1, 1, 1});
  CHECK(count_launches(captured) == 3);
  CHECK(figure(report, "captures") == 2);
  CHECK(figure(report, "nodes") == 5);
  CHECK(figure(report, "sizes") == 2);
  CHECK(figure(report, "capture_s") == Approx(2 * 5 * (3e-6 + 2e-6)));
  CHECK(to_string(apply("graph_capture", graph, context, R"({"whole": true})")) == to_string(graph));
  CHECK(marks(apply("graph_capture", graph, context, R"({"min_kernels": 3})"), kCaptureMark) ==
        Marks{-1, -1, -1, 0, 0, 0});

  OpGraph plain;
  plain.mark_output(
      plain.emit(OpKind::relu, {plain.emit(OpKind::exp, {plain.input("x", {kBatch}, ElementType::fp16)})}));
  CHECK(count_launches(apply("graph_capture", plain, context, R"({"whole": true})")) == 1);
}

TEST_CASE("a loop of unknown length and a branch are not captured", "[unit]") {
  OpGraph body;
  body.mark_output(body.emit(OpKind::relu, {body.input("x", {64}, ElementType::fp16)}));
  for (const SymExpr& trips : {SymExpr(4), kBatch}) {
    OpGraph graph;
    TensorId x = graph.emit(OpKind::exp, {graph.input("x", {64}, ElementType::fp16)});
    models::OpNode loop;
    loop.kind = OpKind::loop;
    loop.inputs = {x};
    loop.regions = {std::make_shared<const OpGraph>(body)};
    loop.set("trips", trips);
    models::Tensor out;
    out.shape = {64};
    x = graph.op(graph.add(std::move(loop), {out})).outputs.front();
    graph.mark_output(graph.emit(OpKind::exp, {x}));
    CHECK(count_launches(apply("graph_capture", graph, sized(4), R"({"whole": true})")) == (trips.constant() ? 1 : 3));
  }
}

TEST_CASE("chains that always follow each other share a launch", "[unit]") {
  OpGraph graph;  // (relu exp tanh) four times, then relu and gelu
  TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  for (int i = 0; i < 4; ++i)
    for (const OpKind kind : {OpKind::relu, OpKind::exp, OpKind::tanh}) x = graph.emit(kind, {x});
  graph.mark_output(graph.emit(OpKind::gelu, {graph.emit(OpKind::relu, {x})}));
  PassReport report;
  const OpGraph marked = apply("proximity_fusion", graph, sized(8), R"({"length": 3})", &report);
  // relu goes to exp four times of five, exp always to tanh and relu: (exp tanh relu) is deterministic.
  CHECK(figure(report, "chains_fused") == 4);
  CHECK(figure(report, "launches_before") == 14);
  CHECK(figure(report, "launches_after") == 6);
  CHECK(figure(report, "ideal_launches") == 6);
  CHECK(moved(marked, {{"batch", 8}}) == moved(graph, {{"batch", 8}}));
}

TEST_CASE("runtime fusion closes segments by DVM's rules", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})});                            // one segment
  const TensorId m = graph.emit(OpKind::matmul, {a, graph.parameter("w", {64, 64}, ElementType::fp16)});  // the next
  const TensorId g = graph.emit(OpKind::gelu, {m});
  const TensorId s = graph.emit(OpKind::softmax, {g});                            // ends it
  graph.mark_output(graph.emit(OpKind::tanh, {graph.emit(OpKind::scale, {s})}));  // a third
  PassReport report;
  const OpGraph fused = apply("runtime_fusion", graph, sized(8), "{}", &report);
  CHECK(count_launches(fused) == 3);
  CHECK(figure(report, "groups") == 3);
  check_fusion(graph, fused, {{{"batch", 8}}, {{"batch", 1}}});
}

TEST_CASE("runtime fusion sees sizes that are equal by value", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch}, ElementType::fp16),
                 y = graph.input("y", {SymExpr::dim("tokens")}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::relu, {x}), b = graph.emit(OpKind::relu, {y});
  graph.mark_output(graph.emit(OpKind::exp, {a}));
  graph.mark_output(graph.emit(OpKind::exp, {b}));
  PassContext context;
  context.typical = {{"batch", 128}, {"tokens", 128}};
  CHECK(count_launches(apply("runtime_fusion", graph, context)) == 1);
  context.typical = {{"batch", 128}, {"tokens", 64}};
  CHECK(count_launches(apply("runtime_fusion", graph, context)) == 4);
}

TEST_CASE("kernels are compiled after so many sightings", "[unit]") {
  OpGraph graph;
  graph.mark_output(
      graph.emit(OpKind::relu, {graph.emit(OpKind::exp, {graph.input("x", {kBatch}, ElementType::fp16)})}));
  PassContext context = sized(8);
  context.seen = {{{"batch", 8}}, {{"batch", 16}}, {{"batch", 8}}};
  PassReport report;
  CHECK(count_launches(apply("runtime_fusion", graph, context, R"({"sightings": 2})", &report)) == 1);
  CHECK(figure(report, "sizes") == 2);
  CHECK(figure(report, "compiled_sizes") == 1);
  CHECK(figure(report, "compiled_share") == Approx(2.0 / 3));
  CHECK(to_string(apply("runtime_fusion", graph, context, R"({"sightings": 3})")) == to_string(graph));
  CHECK(count_launches(apply("runtime_fusion", graph, context, R"({"sightings": 3, "symbolic": true})")) == 1);
  CHECK_THROWS_WITH(apply("runtime_fusion", graph, context, R"({"types": ["fp15"]})"),
                    Catch::Contains("/types: unknown element type 'fp15'"));
}

TEST_CASE("passes that share launches keep work and bytes of random graphs", "[prop]") {
  const auto gpu = round_gpu();
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    sim::RandomStream random(seed, "launches");
    const OpGraph graph = models::test::random_graph(random, {.ops = static_cast<int>(5 + 3 * seed)});
    PassContext context = sized(16);
    if (seed % 2 == 0) context.cost = gpu.get();
    for (const char* name : {"stacking", "graph_capture", "proximity_fusion", "runtime_fusion"}) {
      CAPTURE(seed, name);
      const OpGraph after = apply(name, graph, context);
      check_fusion(graph, after, {{{"batch", 1}}, {{"batch", 16}}, {{"batch", 4096}}});
      CHECK(to_string(after) == to_string(apply(name, graph, context)));
    }
    // Passes after each other, as a config lists them.
    const OpGraph both =
        apply("stacking", apply("loop_fusion", apply("pattern_fusion", graph, context), context), context);
    check_fusion(graph, both, {{{"batch", 16}}});
  }
}

TEST_CASE("kernels of different targets do not share a launch", "[unit]") {
  OpGraph graph;
  TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  for (const char* target : {"", "", "npu", "npu", "dsp", ""}) {
    x = graph.emit(OpKind::relu, {x});
    graph.annotate(OpId{static_cast<std::int32_t>(graph.op_count() - 1)}).target = target;
  }
  graph.mark_output(x);
  PassReport report;
  CHECK(marks(apply("stacking", graph, sized(8), "{}", &report), kStackMark) == Marks{0, 0, 1, 1, -1, -1});
  CHECK(figure(report, "stacks") == 2);
}

TEST_CASE("a view that a group makes for itself is made once, and left to others where they read it", "[unit]") {
  // relu, a view of it that exp alone reads, one that tanh, neg and, outside, sigmoid read.
  OpGraph graph;
  const TensorId x = graph.input("x", {64, 64}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::relu, {x});
  const TensorId own = graph.emit(OpKind::reshape, {a}, {4096}, ElementType::fp16);
  const TensorId shared = graph.emit(OpKind::reshape, {a}, {32, 128}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::exp, {own}));
  graph.mark_output(graph.emit(OpKind::tanh, {shared}));
  graph.mark_output(graph.emit(OpKind::neg, {shared}));
  graph.mark_output(graph.emit(OpKind::sigmoid, {shared}));
  const auto kinds = [](const OpGraph& of) {
    std::vector<OpKind> all;
    for (const OpId id : of.ops()) all.push_back(of.op(id).kind);
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto sorted = [](std::vector<OpKind> all) {
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto region = [](const OpGraph& of) {
    for (const OpId id : of.ops())
      if (of.op(id).kind == OpKind::fused) return *of.op(id).regions.front();
    return OpGraph{};
  };
  OpGraph fused = contract(graph, launch_graph(graph), {0, 0, 0, 0, -1});
  check_fusion(graph, fused, {{}});
  CHECK(kinds(fused) == sorted({OpKind::fused, OpKind::reshape, OpKind::sigmoid}));
  const auto outside_reads = [](const OpGraph& of) {
    for (const OpId id : of.ops())
      if (of.op(id).kind == OpKind::sigmoid) return of.op(*of.producer(of.op(id).inputs.front())).kind;
    return OpKind::custom;
  };
  CHECK(outside_reads(fused) == OpKind::reshape);
  CHECK(kinds(region(fused)) ==
        sorted({OpKind::relu, OpKind::reshape, OpKind::exp, OpKind::reshape, OpKind::tanh, OpKind::neg}));

  // A view of a view: both are made for the group, and both stay for whoever reads the second outside.
  OpGraph deep;
  const TensorId b = deep.emit(OpKind::relu, {deep.input("x", {64, 64}, ElementType::fp16)});
  const TensorId flat = deep.emit(OpKind::reshape, {b}, {32, 128}, ElementType::fp16);
  const TensorId turned =
      deep.emit(OpKind::transpose, {flat}, {128, 32}, ElementType::fp16, {{"perm", std::vector<SymExpr>{1, 0}}});
  deep.mark_output(deep.emit(OpKind::exp, {turned}));
  deep.mark_output(deep.emit(OpKind::sigmoid, {turned}));
  fused = contract(deep, launch_graph(deep), {0, 0, -1});
  check_fusion(deep, fused, {{}});
  CHECK(kinds(fused) == sorted({OpKind::fused, OpKind::reshape, OpKind::transpose, OpKind::sigmoid}));
  CHECK(kinds(region(fused)) == sorted({OpKind::relu, OpKind::reshape, OpKind::transpose, OpKind::exp}));
  CHECK(outside_reads(fused) == OpKind::transpose);

  // A view of what somebody else made belongs to the one group that reads it, if it takes such views.
  OpGraph given;
  const TensorId seen =
      given.emit(OpKind::reshape, {given.input("x", {64, 64}, ElementType::fp16)}, {4096}, ElementType::fp16);
  given.mark_output(given.emit(OpKind::tanh, {given.emit(OpKind::exp, {seen})}));
  const LaunchGraph launches = launch_graph(given);
  fused = contract(given, launches, {0, 0});
  CHECK(kinds(fused) == std::vector<OpKind>{OpKind::fused});
  CHECK(kinds(region(fused)) == sorted({OpKind::reshape, OpKind::exp, OpKind::tanh}));
  const std::vector<GroupLabel> labels{{.name = "pair", .dialect = "tvm", .own_views_only = true}};
  fused = contract(given, launches, {0, 0}, labels);
  CHECK(kinds(fused) == sorted({OpKind::reshape, OpKind::fused}));
  CHECK(kinds(region(fused)) == sorted({OpKind::exp, OpKind::tanh}));
  CHECK(fused.op(OpId{1}).name == "pair_1");
  CHECK(fused.op(OpId{1}).dialect == "tvm");
}

TEST_CASE("stacks are full at so many leaves, each from its own first", "[unit]") {
  OpGraph graph;
  TensorId x = graph.input("x", {kBatch, 64}, ElementType::fp16);
  for (int i = 0; i < 7; ++i) x = graph.emit(OpKind::relu, {x});
  graph.mark_output(x);
  CHECK(marks(apply("stacking", graph, sized(8), R"({"max_leaves": 3})"), kStackMark) == Marks{0, 0, 0, 1, 1, 1, -1});
  // Leaves that do not read each other are parallel whatever was asked for; the next stack is judged by itself.
  OpGraph beside;
  for (int i = 0; i < 4; ++i)
    beside.mark_output(beside.emit(OpKind::relu, {beside.input("x" + std::to_string(i), {kBatch}, ElementType::fp16)}));
  PassReport report;
  const OpGraph stacked = apply("stacking", beside, sized(8), R"({"max_leaves": 2})", &report);
  CHECK(marks(stacked, kStackMark) == Marks{0, 0, 1, 1});
  CHECK(figure(report, "parallel") == 2);
  for (const OpId id : stacked.ops()) CHECK(stacked.op(id).text("stack_form") == "parallel");
}

}  // namespace test_fusion_launches
