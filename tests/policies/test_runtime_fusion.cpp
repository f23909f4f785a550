// Passes over the stream of launches, rule by rule: what closes a segment, a capture or a stack, and what counts as one
// kernel for proximity.
#include "tests/policies/fusion_support.hpp"

namespace test_runtime_fusion {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using models::ElementType;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::SymExpr;
using models::TensorId;
using Marks = std::vector<std::int64_t>;

namespace {

/// Adds ops of these kinds over 64 elements, one after another.
TensorId extend(OpGraph& graph, TensorId x, std::initializer_list<OpKind> kinds) {
  for (const OpKind kind : kinds)
    x = models::info(kind).rule == models::ShapeRule::given ? graph.emit(kind, {x}, {64}, ElementType::fp16)
                                                            : graph.emit(kind, {x});
  return x;
}
OpGraph row(std::initializer_list<OpKind> kinds) {
  OpGraph graph;
  graph.mark_output(extend(graph, graph.input("x", {64}, ElementType::fp16), kinds));
  return graph;
}

Marks marks(const OpGraph& graph, std::string_view mark) {
  Marks all;
  for (const OpId id : graph.ops())
    if (!models::launches_nothing(graph.op(id))) all.push_back(graph.op(id).integer(mark, -1));
  return all;
}
Marks captures(const OpGraph& graph, const std::string& params = "{}") {
  return marks(apply("graph_capture", graph, {}, params), kCaptureMark);
}
Marks stacks(const OpGraph& graph, const std::string& params = "{}") {
  return marks(apply("stacking", graph, {}, params), kStackMark);
}
Marks chains(const OpGraph& graph, const std::string& params) {
  return marks(apply("proximity_fusion", graph, {}, params), kStackMark);
}

/// Ops of each launch of the graph after runtime fusion.
std::vector<std::size_t> segments(const OpGraph& graph, const PassContext& context = {},
                                  const std::string& params = "{}") {
  std::vector<std::size_t> sizes;
  const OpGraph fused = apply("runtime_fusion", graph, context, params);
  for (const OpId id : fused.ops())
    if (!models::launches_nothing(fused.op(id)))
      sizes.push_back(fused.op(id).kind == OpKind::fused ? count_kernels(*fused.op(id).regions.front()) : 1);
  return sizes;
}
using Sizes = std::vector<std::size_t>;

}  // namespace

TEST_CASE("a segment holds so many ops, the next starts after it", "[unit]") {
  const OpGraph graph = row({OpKind::relu, OpKind::exp, OpKind::relu, OpKind::exp, OpKind::relu});
  CHECK(segments(graph, {}, R"({"max_ops": 2})") == Sizes{2, 2, 1});
  CHECK(segments(graph, {}, R"({"max_ops": 3})") == Sizes{3, 2});
  CHECK(segments(graph, {}, R"({"max_ops": 1})") == Sizes{1, 1, 1, 1, 1});
  CHECK(segments(graph) == Sizes{5});
}

TEST_CASE("an op that the compiler does not know ends a segment and is in none", "[unit]") {
  CHECK(segments(row({OpKind::relu, OpKind::exp, OpKind::custom, OpKind::relu, OpKind::exp})) == Sizes{2, 1, 2});
  CHECK(segments(row({OpKind::custom, OpKind::relu, OpKind::exp})) == Sizes{1, 2});
  // A type that it does not know: the cast makes one, the cast back does not.
  OpGraph graph;
  TensorId x = extend(graph, graph.input("x", {64}, ElementType::fp16), {OpKind::relu, OpKind::exp});
  x = graph.emit(OpKind::cast, {x}, {{"to", std::string("fp64")}});
  x = graph.emit(OpKind::cast, {x}, {{"to", std::string("fp16")}});
  graph.mark_output(graph.emit(OpKind::relu, {x}));
  CHECK(segments(graph) == Sizes{2, 1, 2});
  CHECK(segments(graph, {}, R"({"types": ["fp16", "fp64"]})") == Sizes{5});
}

TEST_CASE("a product starts a segment and a reduction ends one", "[unit]") {
  OpGraph graph;
  TensorId x = graph.emit(OpKind::relu, {graph.input("x", {8, 64}, ElementType::fp16)});
  x = graph.emit(OpKind::matmul, {x, graph.parameter("w", {64, 64}, ElementType::fp16)});
  x = graph.emit(OpKind::gelu, {x});
  x = graph.emit(OpKind::softmax, {x});
  x = graph.emit(OpKind::softmax, {x});
  graph.mark_output(graph.emit(OpKind::relu, {x}));
  CHECK(segments(graph) == Sizes{1, 3, 1, 1});
}

TEST_CASE("a segment is of one phase and over one number of elements", "[unit]") {
  OpGraph graph;
  const TensorId x = extend(graph, graph.input("x", {64}, ElementType::fp16), {OpKind::relu, OpKind::exp});
  graph.set_phase(models::Phase::backward);
  graph.mark_output(extend(graph, x, {OpKind::relu, OpKind::exp, OpKind::relu}));
  CHECK(segments(graph) == Sizes{2, 3});

  OpGraph sizes;
  for (const std::int64_t size : {64, 65, 64}) {
    const TensorId y = sizes.input("y" + std::to_string(sizes.tensor_count()), {size}, ElementType::fp16);
    sizes.mark_output(sizes.emit(OpKind::exp, {sizes.emit(OpKind::relu, {y})}));
  }
  CHECK(segments(sizes) == Sizes{2, 2, 2});
}

TEST_CASE("reading an alias of what the segment made starts the next, of what another made does not", "[unit]") {
  const auto doubled = [](OpGraph& graph, TensorId of) {  // the first half of 64 elements twice
    const TensorId half = graph.emit(OpKind::slice, {of}, {32}, ElementType::fp16);
    return graph.emit(OpKind::expand, {half}, {2, 32}, ElementType::fp16);
  };
  OpGraph own;
  TensorId x = own.emit(OpKind::relu, {own.input("x", {2, 32}, ElementType::fp16)});
  own.mark_output(own.emit(OpKind::exp, {doubled(own, x)}));
  CHECK(segments(own) == Sizes{1, 1});

  OpGraph earlier;  // relu and a softmax that ends its segment; then exp, and a difference that reads the relu's alias
  x = earlier.emit(OpKind::relu, {earlier.input("x", {2, 32}, ElementType::fp16)});
  earlier.mark_output(earlier.emit(OpKind::softmax, {x}));
  const TensorId y = earlier.emit(OpKind::exp, {earlier.input("y", {2, 32}, ElementType::fp16)});
  earlier.mark_output(earlier.emit(OpKind::sub, {y, doubled(earlier, x)}));
  CHECK(segments(earlier) == Sizes{2, 2});

  OpGraph plain;  // a reshape keeps every element in its place
  x = plain.emit(OpKind::relu, {plain.input("x", {2, 32}, ElementType::fp16)});
  plain.mark_output(plain.emit(OpKind::exp, {plain.emit(OpKind::reshape, {x}, {64}, ElementType::fp16)}));
  CHECK(segments(plain) == Sizes{2});
}

TEST_CASE("sizes that come most often decide, of equals the last", "[unit]") {
  OpGraph graph;  // two passes over a elements, two over b: one segment where a is b
  const TensorId x = graph.input("x", {SymExpr::dim("a")}, ElementType::fp16),
                 y = graph.input("y", {SymExpr::dim("b")}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {x})}));
  graph.mark_output(graph.emit(OpKind::exp, {graph.emit(OpKind::relu, {y})}));
  const models::Bindings same{{"a", 64}, {"b", 64}}, other{{"a", 64}, {"b", 32}};
  PassContext context;
  context.typical = same;
  CHECK(segments(graph, context) == Sizes{4});
  const auto seen = [&](std::vector<models::Bindings> sizes) {
    context.seen = std::move(sizes);
    return segments(graph, context);
  };
  CHECK(seen({same, other}) == Sizes{2, 2});
  CHECK(seen({other, same}) == Sizes{4});
  CHECK(seen({same, same, other}) == Sizes{4});
  CHECK(seen({other, same, same, other}) == Sizes{2, 2});
  CHECK(seen({same, other, other, same}) == Sizes{4});

  const auto figures = [&](const char* params) {
    PassReport report;
    apply("runtime_fusion", graph, context, params, &report);
    return std::vector<double>{figure(report, "sizes"), figure(report, "compiled_sizes"),
                               figure(report, "compiled_share")};
  };
  using Figures = std::vector<double>;
  context.seen = {same, same, other, same};
  CHECK(figures("{}") == Figures{2, 2, 1});
  CHECK(figures(R"({"sightings": 3})") == Figures{2, 1, 0.75});
  CHECK(figures(R"({"sightings": 4})") == Figures{2, 0, 0});
  CHECK(figures(R"({"sightings": 4, "symbolic": true})") == Figures{2, 2, 1});
  CHECK(figures(R"({"sightings": 5, "symbolic": true})") == Figures{2, 0, 0});
  context.seen.clear();
  CHECK(figures("{}") == Figures{1, 1, 1});  // the typical sizes, once
  CHECK(figures(R"({"sightings": 2})") == Figures{1, 0, 0});
}

TEST_CASE("what cannot be captured stands between captures", "[unit]") {
  for (const OpKind kind : {OpKind::to_host, OpKind::to_device}) {
    const OpGraph graph = row({OpKind::relu, OpKind::exp, kind, OpKind::relu, OpKind::exp});
    CHECK(captures(graph) == Marks{0, 0, -1, 1, 1});
    CHECK(captures(graph, R"({"communication": false})") == Marks{0, 0, -1, 1, 1});
  }
  const OpGraph reduced = row({OpKind::relu, OpKind::exp, OpKind::all_reduce, OpKind::relu, OpKind::exp});
  CHECK(captures(reduced) == Marks{0, 0, 0, 0, 0});
  CHECK(captures(reduced, R"({"communication": false})") == Marks{0, 0, -1, 1, 1});
  CHECK(captures(reduced, R"({"communication": false, "whole": true})") == Marks{-1, -1, -1, -1, -1});
  CHECK(captures(reduced, R"({"whole": true})") == Marks{0, 0, 0, 0, 0});

  OpGraph branching;
  TensorId x = extend(branching, branching.input("x", {64}, ElementType::fp16), {OpKind::relu, OpKind::exp});
  OpNode branch;
  branch.kind = OpKind::branch;
  branch.inputs = {x};
  branch.regions = {std::make_shared<const OpGraph>(row({OpKind::relu})),
                    std::make_shared<const OpGraph>(row({OpKind::exp}))};
  branch.set("condition", SymExpr(1));
  x = branching.op(branching.add(std::move(branch), {branching.tensor(x)})).outputs.front();
  branching.mark_output(extend(branching, x, {OpKind::relu}));
  CHECK(captures(branching) == Marks{0, 0, -1, -1});
}

TEST_CASE("a capture has so many kernels at least, of one target", "[unit]") {
  OpGraph graph = row({OpKind::relu, OpKind::to_host, OpKind::relu, OpKind::exp, OpKind::relu});
  CHECK(captures(graph) == Marks{-1, -1, 0, 0, 0});
  CHECK(captures(graph, R"({"min_kernels": 1})") == Marks{0, -1, 1, 1, 1});
  CHECK(captures(graph, R"({"min_kernels": 3})") == Marks{-1, -1, 0, 0, 0});
  CHECK(captures(graph, R"({"min_kernels": 4})") == Marks{-1, -1, -1, -1, -1});
  graph.annotate(OpId{4}).target = "npu";
  CHECK(captures(graph) == Marks{-1, -1, 0, 0, -1});
  CHECK(captures(graph, R"({"min_kernels": 1})") == Marks{0, -1, 1, 1, 2});
}

TEST_CASE("a capture costs the host a launch and a node a kernel for every size", "[unit]") {
  const OpGraph graph = row({OpKind::relu, OpKind::exp, OpKind::relu});
  PassContext context;
  context.launch_s = 5e-6;
  const auto told = [&](const char* params) {
    PassReport report;
    apply("graph_capture", graph, context, params, &report);
    CHECK(figure(report, "captures") == 1);
    CHECK(figure(report, "nodes") == 3);
    CHECK(figure(report, "launches_before") == 3);
    CHECK(figure(report, "launches_after") == 1);
    return std::pair(figure(report, "sizes"), figure(report, "capture_s"));
  };
  CHECK(told("{}").first == 1);  // none was seen: the one it runs with
  CHECK(told("{}").second == Approx(3 * (5e-6 + 2e-6)));
  CHECK(told(R"({"node_time": "1 us"})").second == Approx(3 * (5e-6 + 1e-6)));
  context.seen = {{{"b", 1}}, {{"b", 2}}, {{"b", 1}}, {{"b", 3}}};
  CHECK(told("{}").first == 3);
  CHECK(told("{}").second == Approx(3 * 3 * 7e-6));
}

TEST_CASE("stacks hold passes, reductions and products, and fused ones", "[unit]") {
  CHECK(stacks(row({OpKind::relu, OpKind::softmax, OpKind::copy})) == Marks{0, 0, 0});
  CHECK(stacks(row({OpKind::relu, OpKind::exp, OpKind::custom, OpKind::relu, OpKind::exp})) == Marks{0, 0, -1, 1, 1});
  CHECK(stacks(row({OpKind::relu, OpKind::all_reduce, OpKind::exp, OpKind::tanh})) == Marks{-1, -1, 0, 0});
  CHECK(stacks(row({OpKind::custom, OpKind::custom, OpKind::relu})) == Marks{-1, -1, -1});
  const OpGraph fused = apply("loop_fusion", row({OpKind::relu, OpKind::exp, OpKind::custom}), {});
  OpGraph more = fused;
  more.mark_output(more.emit(OpKind::neg, {more.op(OpId{0}).outputs.front()}));
  CHECK(stacks(more) == Marks{-1, -1, -1});  // the opaque op stands between
  OpGraph next = apply("loop_fusion", row({OpKind::relu, OpKind::exp}), {});
  next.mark_output(next.emit(OpKind::neg, {next.outputs()[0]}));
  CHECK(stacks(next) == Marks{0, 0});
}

TEST_CASE("a parallel stack ends before a leaf that reads one of it, and not where it reads an older one", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {64}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::relu, {x});  // 0
  const TensorId b = graph.emit(OpKind::exp, {x});   // 1
  const TensorId c = graph.emit(OpKind::neg, {b});   // 2 reads 1
  graph.mark_output(graph.emit(OpKind::tanh, {a}));  // 3 reads 0, which is in the stack before
  graph.mark_output(graph.emit(OpKind::abs, {c}));   // 4 reads 2
  CHECK(stacks(graph, R"({"form": "parallel"})") == Marks{0, 0, 1, 1, -1});
  PassReport report;
  const OpGraph stacked = apply("stacking", graph, {}, R"({"form": "parallel"})", &report);
  CHECK(figure(report, "parallel") == 2);
  CHECK(stacked.op(OpId{0}).text("stack_form") == "parallel");
  CHECK(stacks(graph, R"({"max_leaves": 4})") == Marks{0, 0, 0, 0, -1});
  PassReport sequence;
  CHECK(apply("stacking", graph, {}, "{}", &sequence).op(OpId{0}).text("stack_form") == "sequence");
  CHECK(figure(sequence, "parallel") == 0);
  CHECK(figure(sequence, "stacks") == 1);
}

TEST_CASE("kernels of one kind and other sizes are different kernels for proximity", "[unit]") {
  const auto made = [](std::int64_t last) {
    OpGraph graph;  // relu and exp over 64 elements, twice; the third time over `last`
    for (const std::int64_t size : {std::int64_t{64}, std::int64_t{64}, last}) {
      const TensorId x = graph.input("x" + std::to_string(graph.tensor_count()), {size}, ElementType::fp16);
      const TensorId a = graph.emit(OpKind::relu, {x});
      graph.mark_output(size == last && graph.op_count() > 4 ? graph.emit(OpKind::neg, {a})
                                                             : graph.emit(OpKind::exp, {a}));
    }
    return graph;
  };
  // relu goes to exp two times of three, and to neg; over another size it is another kernel, which goes to neg alone.
  CHECK(chains(made(64), R"({"length": 2})") == Marks{-1, 0, 0, 1, 1, -1});
  CHECK(chains(made(32), R"({"length": 2})") == Marks{0, 0, 1, 1, 2, 2});
}

TEST_CASE("fused kernels of the same ops, sizes and wiring are one kernel for proximity, whatever their tensors' names",
          "[unit]") {
  using Inner = std::initializer_list<OpKind>;
  const auto found = [](const Inner& first, const Inner& second, std::int64_t size) {
    OpGraph graph;  // two runs of ops that are fused, each before an op that is not
    const auto add = [&graph](const char* name, const Inner& kinds, std::int64_t n) {
      const TensorId x = extend(graph, graph.input(name, {n}, ElementType::fp16), kinds);
      graph.mark_output(graph.emit(OpKind::custom, {x}, {64}, ElementType::fp16));
    };
    add("x", first, 64);
    add("y", second, size);
    const OpGraph fused = apply("loop_fusion", graph, {});
    REQUIRE(fused.op(OpId{0}).kind == OpKind::fused);
    PassReport report;
    apply("proximity_fusion", fused, {}, R"({"length": 2})", &report);
    return figure(report, "chains");
  };
  // fused, custom, fused, custom: the fused kernel always goes to the custom one.
  CHECK(found({OpKind::relu, OpKind::exp}, {OpKind::relu, OpKind::exp}, 64) == 1);
  // Two fused kernels, each always before a custom one.
  CHECK(found({OpKind::relu, OpKind::exp}, {OpKind::exp, OpKind::relu}, 64) == 2);
  CHECK(found({OpKind::relu, OpKind::exp}, {OpKind::relu, OpKind::exp, OpKind::neg}, 64) == 2);
  // Over other sizes: fused, custom, fused', custom', of which each has one successor.
  CHECK(found({OpKind::relu, OpKind::exp}, {OpKind::relu, OpKind::exp}, 32) == 3);
}

TEST_CASE("chains end at copies to the host", "[unit]") {
  const OpGraph graph = row({OpKind::relu, OpKind::exp, OpKind::to_host, OpKind::relu, OpKind::exp});
  // exp goes to the host the first time and nowhere the second: with the cut after the copy relu exp is sure.
  CHECK(chains(graph, R"({"length": 2})") == Marks{0, 0, -1, 1, 1});
  CHECK(chains(graph, R"({"length": 3})") == Marks{-1, -1, -1, -1, -1});
  CHECK(chains(graph, R"({"length": 3, "threshold": 0.5})") == Marks{0, 0, 0, -1, -1});
  PassReport report;
  apply("proximity_fusion", graph, {}, R"({"length": 2})", &report);
  CHECK(figure(report, "chains") == 1);
  CHECK(figure(report, "chains_fused") == 2);
  CHECK(figure(report, "ideal_launches") == 3);
  CHECK(chains(row({OpKind::relu, OpKind::to_host}), R"({"length": 2})") == Marks{0, 0});  // nothing after the copy
}

}  // namespace test_runtime_fusion
