#include "policies/fusion/loops.hpp"
#include "tests/policies/fusion_support.hpp"

namespace test_fusion_loop {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using models::Bindings;
using models::ElementType;
using models::OpGraph;
using models::OpKind;
using models::SymExpr;
using models::TensorId;

namespace {

/// x [batch, 64] -> relu -> exp -> softmax -> scale -> out
OpGraph chain() {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  TensorId t = graph.emit(OpKind::relu, {x});
  t = graph.emit(OpKind::exp, {t});
  t = graph.emit(OpKind::softmax, {t});
  graph.mark_output(graph.emit(OpKind::scale, {t}));
  return graph;
}

PassContext sized(std::int64_t batch) {
  PassContext context;
  context.typical = {{"batch", batch}};
  return context;
}

/// Kinds of the ops in the fused ops of a graph, a list each, in order.
std::vector<std::vector<OpKind>> fused_kinds(const OpGraph& graph) {
  std::vector<std::vector<OpKind>> all;
  for (const models::OpId id : graph.ops()) {
    if (graph.op(id).kind != OpKind::fused) continue;
    std::vector<OpKind> kinds;
    const OpGraph& region = *graph.op(id).regions.front();
    for (const models::OpId inner : region.ops()) kinds.push_back(region.op(inner).kind);
    all.push_back(kinds);
  }
  return all;
}

using Kinds = std::vector<std::vector<OpKind>>;

}  // namespace

TEST_CASE("a reduction ends its group, unless the group may go on over the same elements", "[unit]") {
  const OpGraph graph = chain();
  PassReport report;
  const OpGraph fused = apply("loop_fusion", graph, sized(8), "{}", &report);
  CHECK(fused_kinds(fused) == Kinds{{OpKind::relu, OpKind::exp, OpKind::softmax}});
  CHECK(fused.op_count() == 2);
  // Four passes read and write 8 x 64 x 2 B each: 8 KiB; two kernels: 4 KiB.
  CHECK(figure(report, "bytes_before") == 8192);
  CHECK(figure(report, "bytes_after") == 4096);
  CHECK(figure(report, "launches_before") == 4);
  CHECK(figure(report, "launches_after") == 2);
  CHECK(figure(report, "groups") == 1);

  const OpGraph whole = apply("loop_fusion", graph, sized(8), R"({"past_reductions": true})");
  CHECK(fused_kinds(whole) == Kinds{{OpKind::relu, OpKind::exp, OpKind::softmax, OpKind::scale}});
  CHECK(moved(whole, {{"batch", 8}}) == 2048);

  const OpGraph apart = apply("loop_fusion", graph, sized(8), R"({"max_ops": 1})");
  CHECK(to_string(apart) == to_string(graph));
}

TEST_CASE("a product takes its epilogue and no second product", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 32}, ElementType::fp16);
  const TensorId w = graph.parameter("w", {32, 64}, ElementType::fp16);
  const TensorId bias = graph.parameter("bias", {64}, ElementType::fp16);
  TensorId a = graph.emit(OpKind::matmul, {x, w});
  a = graph.emit(OpKind::add, {a, bias});
  a = graph.emit(OpKind::gelu, {a});
  const TensorId b = graph.emit(OpKind::matmul, {x, graph.parameter("v", {32, 64}, ElementType::fp16)});
  graph.mark_output(graph.emit(OpKind::mul, {a, b}));
  const OpGraph fused = apply("loop_fusion", graph, sized(4));
  // The second product joins the last op, or the first group does; never both.
  const Kinds kinds = fused_kinds(fused);
  REQUIRE(kinds.size() >= 1);
  for (const auto& group : kinds) CHECK(std::count(group.begin(), group.end(), OpKind::matmul) == 1);
  CHECK(count_launches(fused) == 2);
  check_fusion(graph, fused, {{{"batch", 1}}, {{"batch", 4096}}});
  CHECK(count_launches(apply("loop_fusion", graph, sized(4), R"({"epilogues": false})")) == 3);
}

TEST_CASE("a broadcast operand stays an operand", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  const TensorId s = graph.input("s", {64}, ElementType::fp16);
  const TensorId small = graph.emit(OpKind::exp, {s});  // of 64 elements: computed once, read by every row
  graph.mark_output(graph.emit(OpKind::mul, {x, small}));
  const OpGraph fused = apply("loop_fusion", graph, sized(8));
  CHECK(to_string(fused) == to_string(graph));
}

TEST_CASE("a group that a path leaves and comes back to is not made", "[unit]") {
  // a -> opaque -> c and a -> b -> c: a and b may merge, c only with what does not reach it round the opaque op.
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 64}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::relu, {x});
  const TensorId far = graph.emit(OpKind::custom, {a}, {SymExpr::dim("batch"), 64}, ElementType::fp16);
  const TensorId b = graph.emit(OpKind::exp, {a});
  graph.mark_output(graph.emit(OpKind::add, {b, far}));
  const OpGraph fused = apply("loop_fusion", graph, sized(8));
  check_fusion(graph, fused, {{{"batch", 8}}});
  CHECK(count_launches(fused) == 3);  // {a, b}, custom, add or a, custom, {b, add}
}

TEST_CASE("views inside a group stay inside; others keep the original", "[unit]") {
  OpGraph graph;
  const SymExpr batch = SymExpr::dim("batch");
  const TensorId x = graph.input("x", {batch, 64}, ElementType::fp16);
  const TensorId a = graph.emit(OpKind::relu, {x});
  const TensorId view = graph.emit(OpKind::reshape, {a}, {batch * 2, 32}, ElementType::fp16);
  const TensorId wide = graph.emit(OpKind::expand, {view}, {3, batch * 2, 32}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::exp, {view}));
  graph.mark_output(graph.emit(OpKind::custom, {view}, {batch}, ElementType::fp16));
  graph.mark_output(graph.emit(OpKind::custom, {wide}, {batch}, ElementType::fp16));
  const OpGraph fused = apply("loop_fusion", graph, sized(8));
  CHECK(fused_kinds(fused) == Kinds{{OpKind::relu, OpKind::reshape, OpKind::exp}});
  check_fusion(graph, fused, {{{"batch", 8}}});
  // relu and exp: read x, write both; the second pass' read of 8 x 64 x 2 B is gone.
  CHECK(moved(graph, {{"batch", 8}}) - moved(fused, {{"batch", 8}}) == 1024);
}

TEST_CASE("loop fusion of random graphs keeps the work and moves no more", "[prop]") {
  const auto gpu = round_gpu();
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    sim::RandomStream random(seed, "loop");
    const OpGraph graph = models::test::random_graph(random, {.ops = static_cast<int>(5 + 3 * seed)});
    PassContext context = sized(16);
    if (seed % 2 == 0) context.cost = gpu.get();
    for (const char* params : {"{}", R"({"past_reductions": true})", R"({"epilogues": false, "max_ops": 4})"}) {
      CAPTURE(seed, params);
      const OpGraph fused = apply("loop_fusion", graph, context, params);
      check_fusion(graph, fused, {{{"batch", 1}}, {{"batch", 16}}, {{"batch", 4096}}});
      CHECK(to_string(fused) == to_string(apply("loop_fusion", graph, context, params)));
    }
  }
}

TEST_CASE("a graph without passes is left as it is, and sizes must be bound", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 32}, ElementType::fp16);
  graph.mark_output(graph.emit(OpKind::matmul, {x, graph.parameter("w", {32, 32}, ElementType::fp16)}));
  CHECK(to_string(apply("loop_fusion", graph, sized(1))) == to_string(graph));
  CHECK_THROWS_WITH(apply("loop_fusion", graph, PassContext{}), "no value for dimension 'batch'");
}

TEST_CASE("rows are alike that run along the last size, or along the same sizes", "[unit]") {
  OpGraph graph;
  const SymExpr batch = SymExpr::dim("batch");
  const TensorId x = graph.input("x", {batch, 64}, ElementType::fp16);
  const TensorId cube = graph.input("cube", {batch, 4, 64}, ElementType::fp16);
  const TensorId narrow = graph.input("narrow", {batch, 32}, ElementType::fp16);
  const auto sum = [&](TensorId of, std::vector<SymExpr> axes) {
    graph.mark_output(graph.emit(OpKind::reduce_sum, {of}, {{"axes", std::move(axes)}}));
  };
  graph.mark_output(graph.emit(OpKind::softmax, {x}));  // rows of 64
  sum(x, {1});
  sum(x, {-1});
  sum(cube, {2});
  sum(cube, {-1});
  sum(x, {-2});  // 5: columns
  sum(x, {0});
  sum(cube, {1});  // 7: the middle size
  sum(x, {0, 1});
  graph.mark_output(graph.emit(OpKind::softmax, {narrow}));  // rows of 32
  const LaunchGraph launches = launch_graph(graph);
  Domains domains(graph, nullptr);
  const std::vector<Loop> loops = loops_of(graph, launches, domains);
  REQUIRE(loops.size() == 10);
  for (std::size_t i = 0; i < loops.size(); ++i) {
    CAPTURE(i);
    CHECK(loops[i].role == LoopRole::row);
    CHECK((loops[i].rows == loops[0].rows) == (i < 5));
    for (std::size_t j = 7; j < i; ++j) CHECK(loops[i].rows != loops[j].rows);
  }
  CHECK(loops[7].rows != loops[5].rows);
}

TEST_CASE("one kernel has one phase, one target and one dialect", "[unit]") {
  const models::OpNode plain;
  models::OpNode phase, target, dialect;
  phase.phase = models::Phase::backward;
  target.target = "npu";
  dialect.dialect = "tvm";
  CHECK(same_place(plain, plain));
  for (const models::OpNode& other : {phase, target, dialect}) {
    CHECK(same_place(other, other));
    CHECK_FALSE(same_place(plain, other));
    CHECK_FALSE(same_place(other, plain));
  }
}

TEST_CASE("the largest saving is taken first, of equals the first", "[unit]") {
  const char* pairs = R"({"max_ops": 2})";
  const auto row = [](std::initializer_list<OpKind> kinds) {
    OpGraph graph;
    TensorId x = graph.input("x", {64}, ElementType::fp16);
    for (const OpKind kind : kinds)
      x = kind == OpKind::cast ? graph.emit(kind, {x}, {{"to", std::string("fp32")}}) : graph.emit(kind, {x});
    graph.mark_output(x);
    return graph;
  };
  const OpGraph plain = row({OpKind::relu, OpKind::exp, OpKind::tanh});
  CHECK(fused_kinds(apply("loop_fusion", plain, {}, pairs)) == Kinds{{OpKind::relu, OpKind::exp}});
  // The cast's result has four bytes an element, what it reads two.
  const OpGraph wide = row({OpKind::relu, OpKind::cast, OpKind::exp});
  CHECK(fused_kinds(apply("loop_fusion", wide, {}, pairs)) == Kinds{{OpKind::cast, OpKind::exp}});
  // What is given or read elsewhere too is written all the same: half is saved.
  OpGraph given = row({OpKind::relu, OpKind::exp, OpKind::tanh});
  given.mark_output(given.op(models::OpId{0}).outputs.front());
  CHECK(fused_kinds(apply("loop_fusion", given, {}, pairs)) == Kinds{{OpKind::exp, OpKind::tanh}});
  OpGraph read = row({OpKind::relu, OpKind::exp, OpKind::tanh});
  read.mark_output(read.emit(OpKind::custom, {read.op(models::OpId{0}).outputs.front()}, {64}, ElementType::fp16));
  CHECK(fused_kinds(apply("loop_fusion", read, {}, pairs)) == Kinds{{OpKind::exp, OpKind::tanh}});
}

TEST_CASE("groups grow up to so many ops", "[unit]") {
  OpGraph graph;
  TensorId x = graph.input("x", {64}, ElementType::fp16);
  for (int i = 0; i < 5; ++i) x = graph.emit(OpKind::relu, {x});
  graph.mark_output(x);
  const auto sizes = [&](const char* params) {
    std::vector<std::size_t> all;
    for (const auto& group : fused_kinds(apply("loop_fusion", graph, {}, params))) all.push_back(group.size());
    return all;
  };
  using Sizes = std::vector<std::size_t>;
  CHECK(sizes(R"({"max_ops": 3})") == Sizes{3, 2});
  CHECK(sizes(R"({"max_ops": 4})") == Sizes{4});
  CHECK(sizes(R"({"max_ops": 5})") == Sizes{5});
  // A group of two that the next two have joined: the fifth is a third of the last.
  CHECK(sizes(R"({"max_ops": 2})") == Sizes{2, 2});
}

TEST_CASE("reductions along different rows are not in one loop, along the same rows they are", "[unit]") {
  const auto groups = [](OpKind second, models::Attributes attributes, const char* params = "{}") {
    OpGraph graph;
    const TensorId a = graph.emit(OpKind::relu, {graph.input("x", {8, 64}, ElementType::fp16)});
    graph.mark_output(graph.emit(OpKind::softmax, {a}));
    graph.mark_output(graph.emit(second, {a}, std::move(attributes)));
    return fused_kinds(apply("loop_fusion", graph, {}, params));
  };
  CHECK(groups(OpKind::layer_norm, {}) == Kinds{{OpKind::relu, OpKind::softmax, OpKind::layer_norm}});
  CHECK(groups(OpKind::reduce_sum, {{"axes", std::vector<SymExpr>{1}}}) ==
        Kinds{{OpKind::relu, OpKind::softmax, OpKind::reduce_sum}});
  CHECK(groups(OpKind::reduce_sum, {{"axes", std::vector<SymExpr>{0}}}) == Kinds{{OpKind::relu, OpKind::softmax}});
}

TEST_CASE("a product takes passes after it, no reduction and nothing before it", "[unit]") {
  const auto groups = [](std::initializer_list<OpKind> kinds, const char* params = "{}") {
    OpGraph graph;
    TensorId x = graph.input("x", {8, 64}, ElementType::fp16);
    for (const OpKind kind : kinds)
      x = kind == OpKind::matmul ? graph.emit(kind, {x, graph.parameter("w", {64, 64}, ElementType::fp16)})
                                 : graph.emit(kind, {x});
    graph.mark_output(x);
    return fused_kinds(apply("loop_fusion", graph, {}, params));
  };
  CHECK(groups({OpKind::relu, OpKind::matmul}).empty());
  CHECK(groups({OpKind::matmul, OpKind::softmax}).empty());
  CHECK(groups({OpKind::matmul, OpKind::relu, OpKind::softmax}) == Kinds{{OpKind::matmul, OpKind::relu}});
  CHECK(groups({OpKind::matmul, OpKind::relu, OpKind::softmax}, R"({"epilogues": false})") ==
        Kinds{{OpKind::relu, OpKind::softmax}});
  CHECK(groups({OpKind::matmul, OpKind::softmax, OpKind::relu}, R"({"past_reductions": true})") ==
        Kinds{{OpKind::softmax, OpKind::relu}});
  CHECK(groups({OpKind::softmax, OpKind::relu}).empty());
  CHECK(groups({OpKind::softmax, OpKind::softmax}, R"({"past_reductions": true})") ==
        Kinds{{OpKind::softmax, OpKind::softmax}});
}

TEST_CASE("what a reduction made smaller is not gone on with", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {8, 64}, ElementType::fp16);
  const TensorId sum = graph.emit(OpKind::reduce_sum, {x}, {{"axes", std::vector<SymExpr>{1}}});
  graph.mark_output(graph.emit(OpKind::relu, {sum}));
  CHECK(to_string(apply("loop_fusion", graph, {}, R"({"past_reductions": true})")) == to_string(graph));
}

TEST_CASE("an edge through a view that moves elements keeps two ops apart, whatever else joins them", "[unit]") {
  // 64 elements, half of them twice: as many as before, in other places.
  OpGraph graph;
  const TensorId a = graph.emit(OpKind::relu, {graph.input("x", {64}, ElementType::fp16)});
  const TensorId half = graph.emit(OpKind::slice, {a}, {32}, ElementType::fp16);
  const TensorId twice = graph.emit(OpKind::expand, {half}, {2, 32}, ElementType::fp16);
  const TensorId again = graph.emit(OpKind::reshape, {twice}, {64}, ElementType::fp16);
  OpGraph both = graph;
  graph.mark_output(graph.emit(OpKind::exp, {again}));
  CHECK(to_string(apply("loop_fusion", graph, {})) == to_string(graph));
  both.mark_output(both.emit(OpKind::sub, {a, again}));
  CHECK(to_string(apply("loop_fusion", both, {})) == to_string(both));
}

TEST_CASE("a forward and a backward pass are two kernels", "[unit]") {
  OpGraph graph;
  TensorId x = graph.input("x", {64}, ElementType::fp16);
  for (int i = 0; i < 4; ++i) {
    if (i == 2) graph.set_phase(models::Phase::backward);
    x = graph.emit(OpKind::relu, {x});
  }
  graph.mark_output(x);
  CHECK(fused_kinds(apply("loop_fusion", graph, {})) ==
        Kinds{{OpKind::relu, OpKind::relu}, {OpKind::relu, OpKind::relu}});
}

TEST_CASE("a product counts wherever in its group it came from", "[unit]") {
  // A relu joins the group of a product and the sum after it: a softmax and a second product stay out as before.
  OpGraph graph;
  const TensorId x = graph.input("x", {8, 64}, ElementType::fp16), y = graph.input("y", {8, 64}, ElementType::fp16);
  const auto times = [&](TensorId of, const char* name) {
    return graph.emit(OpKind::matmul, {of, graph.parameter(name, {64, 64}, ElementType::fp16)});
  };
  const TensorId sum = graph.emit(OpKind::add, {times(x, "w"), graph.emit(OpKind::relu, {y})});
  graph.mark_output(graph.emit(OpKind::softmax, {graph.emit(OpKind::mul, {sum, times(y, "v")})}));
  const Kinds kinds = fused_kinds(apply("loop_fusion", graph, {}));
  REQUIRE(!kinds.empty());
  for (const auto& group : kinds) {
    CHECK(std::count(group.begin(), group.end(), OpKind::matmul) <= 1);
    if (std::count(group.begin(), group.end(), OpKind::matmul) == 1)
      CHECK(std::count(group.begin(), group.end(), OpKind::softmax) == 0);
  }
  CHECK(kinds.front() == std::vector<OpKind>{OpKind::matmul, OpKind::relu, OpKind::add, OpKind::mul});
}

}  // namespace test_fusion_loop
