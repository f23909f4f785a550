// The operator graph: work by hand for each family of kinds, kernels that hold the same work, control flow, rewriting.
#include <catch2/catch.hpp>

#include "models/graph/graph_lowering.hpp"
#include "models/graph/graph_rewrite.hpp"
#include "models/graph/op_work.hpp"
#include "tests/models/random_graph.hpp"

namespace test_op_graph {

using namespace orrery;
using namespace orrery::models;
using Catch::Contains;

namespace {

const SymExpr kBatch = SymExpr::dim("batch");
constexpr ElementType kHalf = ElementType::fp16;

OpNode node(OpKind kind, std::vector<TensorId> inputs, Attributes attributes = {}) {
  OpNode op;
  op.kind = kind;
  op.name = std::string(to_string(kind)) + "_op";
  op.inputs = std::move(inputs);
  for (auto& [key, value] : attributes) op.set(key, value);
  return op;
}

/// Work of the last op under bindings, and that of its kernel, must agree.
void check_lowered(const OpGraph& graph, const Bindings& bindings) {
  const auto last = static_cast<OpId>(graph.op_count() - 1);
  const OpWork counted = work(graph, last, bindings);
  GraphLaunches launches;
  lower(graph, last, bindings, launches);
  REQUIRE(launches.kernels.size() == 1);
  const hw::Work kernel = hw::work_of(launches.kernels.front().kernel);
  CAPTURE(to_string(graph));
  CHECK(kernel.flops == static_cast<double>(*counted.flops().constant()));
  CHECK(kernel.read_bytes == static_cast<double>(*counted.read_bytes.constant()));
  CHECK(kernel.write_bytes == static_cast<double>(*counted.write_bytes.constant()));
}

std::string graph_fault(const std::function<void()>& action) {
  try {
    action();
  } catch (const GraphError& error) {
    return error.what();
  }
  return "no fault";
}

std::int64_t total_bytes(const OpGraph& graph, const Bindings& bindings) {
  return *total_work(graph, bindings).bytes().constant();
}

}  // namespace

TEST_CASE("op work: products, by hand, and their kernels", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 4, 8}, kHalf), w = graph.parameter("w", {8, 16}, kHalf);
  const TensorId bias = graph.parameter("b", {16}, kHalf);
  graph.emit(OpKind::matmul, {x, w});
  // 2 * (b * 4) * 16 * 8 FLOPs; reads b*4*8 and 8*16, writes b*4*16 elements of 2 bytes.
  const OpWork plain = work(graph, OpId{0});
  CHECK(plain.matrix_flops == kBatch * (2 * 4 * 16 * 8));
  CHECK(plain.vector_flops == SymExpr(0));
  CHECK(plain.read_bytes == kBatch * 64 + 256);
  CHECK(plain.write_bytes == kBatch * 128);
  check_lowered(graph, {{"batch", 3}});
  // A bias is an addition an output and 16 elements more; the plain kernel leaves both out (they ride in its epilogue).
  graph.emit(OpKind::matmul, {x, w, bias});
  CHECK(work(graph, OpId{1}).flops() == kBatch * (2 * 4 * 16 * 8 + 4 * 16));
  CHECK(work(graph, OpId{1}).read_bytes == kBatch * 64 + 256 + 32);
  // Batched, both transposed: [2, 8, 4]^T [2, 16, 8]^T.
  const TensorId a = graph.input("a", {2, 8, 4}, kHalf), c = graph.input("c", {2, 16, 8}, kHalf);
  graph.emit(OpKind::matmul, {a, c}, {{"trans_a", SymExpr(1)}, {"trans_b", SymExpr(1)}});
  CHECK(work(graph, OpId{2}).flops() == SymExpr(2 * 2 * 4 * 16 * 8));
  check_lowered(graph, {});
  // Complex numbers: four real products; 8 FLOPs a multiply-add.
  const TensorId z = graph.input("z", {4, 8}, ElementType::complex32),
                 v = graph.input("v", {8, 2}, ElementType::complex32);
  graph.emit(OpKind::matmul, {z, v});
  CHECK(work(graph, OpId{3}).flops() == SymExpr(8 * 4 * 8 * 2));
  CHECK(work(graph, OpId{3}).read_bytes == SymExpr(4 * 8 * 4 + 8 * 2 * 4));
}

TEST_CASE("op work: attention, by hand, and its kernels", "[unit]") {
  OpGraph graph;
  const SymExpr past = SymExpr::dim("past"), tokens = SymExpr::dim("tokens");
  const TensorId q = graph.input("q", {kBatch, 8, tokens, 64}, kHalf);
  const TensorId k = graph.input("k", {kBatch, 2, past + tokens, 64}, kHalf);
  const TensorId v = graph.input("v", {kBatch, 2, past + tokens, 64}, kHalf);
  graph.emit(OpKind::attention, {q, k, v}, {kBatch, 8, tokens, 64}, kHalf, {{"causal", SymExpr(1)}});
  // 3 new tokens after 5: they see 6 + 7 + 8 = 21 keys; 4 * 64 FLOPs a pair and head, 2 sequences of 8 heads.
  const OpWork bound = work(graph, OpId{0}, {{"batch", 2}, {"tokens", 3}, {"past", 5}});
  CHECK(bound.flops() == SymExpr(21 * 4 * 64 * 2 * 8));
  CHECK(bound.read_bytes == SymExpr(2 * (8 * 3 + 2 * 2 * 8) * 64 * 2));
  CHECK(bound.write_bytes == SymExpr(2 * 8 * 3 * 64 * 2));
  check_lowered(graph, {{"batch", 2}, {"tokens", 3}, {"past", 5}});
  check_lowered(graph, {{"batch", 2}, {"tokens", 7}, {"past", 0}});
  check_lowered(graph, {{"batch", 4}, {"tokens", 1}, {"past", 100}});  // a decode kernel
  // The gradient: five products where the forward pass has two.
  const TensorId out = graph.op(OpId{0}).outputs.front(), dy = graph.input("dy", {kBatch, 8, tokens, 64}, kHalf);
  std::vector<Tensor> grads(3);
  for (int i = 0; i < 3; ++i) grads[static_cast<std::size_t>(i)] = graph.tensor(i == 0 ? q : i == 1 ? k : v);
  graph.add(node(OpKind::attention_grad, {q, k, v, out, dy}, {{"causal", SymExpr(1)}}), grads);
  CHECK(work(graph, OpId{1}, {{"batch", 2}, {"tokens", 3}, {"past", 5}}).flops() == SymExpr(21 * 10 * 64 * 2 * 8));
  check_lowered(graph, {{"batch", 2}, {"tokens", 3}, {"past", 5}});
}

TEST_CASE("op work: convolutions and their gradients, by hand", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8, 16, 16}, kHalf), w = graph.parameter("w", {4, 4, 3, 3}, kHalf);
  const TensorId y =
      graph.emit(OpKind::conv2d, {x, w}, {{"stride", SymExpr(2)}, {"pad", SymExpr(1)}, {"groups", SymExpr(2)}});
  CHECK(shape_string(graph.tensor(y)) == "fp16[batch, 4, 8, 8]");
  CHECK(work(graph, OpId{0}).flops() == kBatch * (4 * 8 * 8 * 4 * 9 * 2));
  CHECK(work(graph, OpId{0}).read_bytes == kBatch * (8 * 256 * 2) + 4 * 4 * 9 * 2);
  check_lowered(graph, {{"batch", 5}});
  // Rows and columns padded differently: the kernel's image comes padded, its FLOPs are the op's.
  graph.emit(OpKind::conv2d, {x, w}, {{"pad", SymExpr(0)}, {"pad_w", SymExpr(2)}, {"groups", SymExpr(2)}});
  CHECK(shape_string(graph.tensor(graph.op(OpId{1}).outputs[0])) == "fp16[batch, 4, 14, 18]");
  const GraphLaunches launches = lower(graph, {{"batch", 5}});
  CHECK(hw::work_of(launches.kernels[1].kernel).flops == 5.0 * 4 * 14 * 18 * 4 * 9 * 2);
  // Gradients cost what the convolution does.
  const std::vector<SymExpr> x_shape = graph.tensor(x).shape, w_shape = graph.tensor(w).shape;
  const Attributes same{{"groups", SymExpr(2)}, {"pad", SymExpr(1)}, {"stride", SymExpr(2)}};
  graph.emit(OpKind::conv2d_grad_input, {y, w}, x_shape, kHalf, same);
  graph.emit(OpKind::conv2d_grad_weight, {x, y}, w_shape, kHalf, same);
  for (const OpId id : {OpId{2}, OpId{3}}) CHECK(work(graph, id).flops() == work(graph, OpId{0}).flops());
  const GraphLaunches gradients = lower(graph, {{"batch", 5}});
  for (const std::size_t i : {2UL, 3UL})
    CHECK(hw::work_of(gradients.kernels[i].kernel).flops == hw::work_of(gradients.kernels[0].kernel).flops);
}

TEST_CASE("op work: experts, sparse products, transforms", "[unit]") {
  OpGraph graph;
  const TensorId rows = graph.input("rows", {kBatch * 2, 64}, kHalf),
                 experts = graph.parameter("e", {8, 64, 128}, kHalf);
  graph.emit(OpKind::grouped_matmul, {rows, experts}, {kBatch * 2, 128}, kHalf, {{"active_groups", kBatch}});
  const OpWork few = work(graph, OpId{0}, {{"batch", 3}});
  CHECK(few.flops() == SymExpr(2 * 6 * 64 * 128));
  CHECK(few.read_bytes == SymExpr(6 * 64 * 2 + 3 * 64 * 128 * 2));  // weights of three experts
  check_lowered(graph, {{"batch", 3}});
  CHECK(work(graph, OpId{0}, {{"batch", 100}}).read_bytes == SymExpr(200 * 64 * 2 + 8 * 64 * 128 * 2));
  const TensorId values = graph.input("values", {1000}, kHalf), features = graph.input("f", {50, 16}, kHalf);
  graph.emit(OpKind::spmm, {values, features}, {40, 16}, kHalf,
             {{"nonzeros", SymExpr(1000)}, {"rows", SymExpr(40)}, {"columns", SymExpr(50)}});
  CHECK(work(graph, OpId{1}).flops() == SymExpr(2 * 1000 * 16));
  // Values and 4-byte columns, 4-byte row pointers, features: the kernel counts one pointer more, to the last row's
  // end.
  CHECK(work(graph, OpId{1}).read_bytes == SymExpr(1000 * 2 + 1000 * 4 + 40 * 4 + 50 * 16 * 2));
  const TensorId image = graph.input("image", {kBatch, 64, 64}, ElementType::fp32);
  graph.emit(OpKind::fft, {image}, {kBatch, 64, 33}, ElementType::complex64,
             {{"n0", SymExpr(64)}, {"n1", SymExpr(64)}, {"transforms", kBatch}, {"form", std::string("to_complex")}});
  // 5 N log2 N for N = 4096, halved for real ones.
  CHECK(work(graph, OpId{2}, {{"batch", 3}}).flops() == SymExpr(3 * 5 * 4096 * 12 / 2));
  check_lowered(graph, {{"batch", 3}});
}

TEST_CASE("op work: passes, reductions, partial reads, views", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 64}, kHalf);
  graph.emit(OpKind::gelu, {x});
  graph.emit(OpKind::add, {x, x});
  graph.emit(OpKind::softmax, {x});
  graph.emit(OpKind::reduce_sum, {x}, {{"axes", std::vector<SymExpr>{-1}}});
  const TensorId table = graph.parameter("t", {1000, 64}, kHalf),
                 ids = graph.input("ids", {kBatch}, ElementType::int64);
  graph.emit(OpKind::embedding, {table, ids}, {kBatch, 64}, kHalf);
  const SymExpr bytes = kBatch * 128;
  for (const OpId id : {OpId{0}, OpId{1}, OpId{2}}) {
    CHECK(work(graph, id).read_bytes == bytes);  // x + x reads x once
    CHECK(work(graph, id).write_bytes == bytes);
  }
  CHECK(work(graph, OpId{0}).flops() == kBatch * 64 * info(OpKind::gelu).flops);
  CHECK(work(graph, OpId{1}).flops() == kBatch * 64);
  CHECK(work(graph, OpId{2}).flops() == kBatch * 64 * 5);
  CHECK(work(graph, OpId{3}).flops() == kBatch * 64);
  CHECK(work(graph, OpId{3}).write_bytes == kBatch * 2);
  CHECK(work(graph, OpId{4}).read_bytes == bytes + kBatch * 8);  // the rows that are picked, and their numbers
  CHECK(total_work(graph).flops() == kBatch * (64 * (info(OpKind::gelu).flops + 1 + 5 + 1)));
  for (const OpId id : graph.ops()) {
    OpGraph one = graph;
    GraphLaunches launches;
    lower(one, id, {{"batch", 7}}, launches);
    const OpWork counted = work(graph, id, {{"batch", 7}});
    const hw::Work kernel = hw::work_of(launches.kernels.at(0).kernel);
    CHECK(kernel.flops == static_cast<double>(*counted.flops().constant()));
    CHECK(kernel.read_bytes + kernel.write_bytes == static_cast<double>(*counted.bytes().constant()));
  }
  // Views move nothing and launch nothing; an expanded operand is read as what it was expanded from.
  OpGraph views;
  const TensorId row = views.input("row", {1, 64}, kHalf), other = views.input("other", {kBatch, 64}, kHalf);
  const TensorId wide = views.emit(OpKind::expand, {row}, {kBatch, 64}, kHalf);
  views.emit(OpKind::mul, {views.emit(OpKind::reshape, {wide}, {kBatch, 64}, kHalf), other});
  CHECK(total_work(views).bytes() == SymExpr(128) + kBatch * 256);
  const GraphLaunches launches = lower(views, {{"batch", 2}});
  CHECK(launches.kernels.size() == 1);
  CHECK(launches.kernels[0].views == 2);
  // Also where the view is fused to what reads it, or stands at the end of a fused op.
  const TensorId made = views.emit(OpKind::relu, {row});
  views.mark_output(views.emit(OpKind::add, {views.emit(OpKind::expand, {made}, {kBatch, 64}, kHalf), other}));
  const Bindings at{{"batch", 1000}};
  for (const Grouping& groups :
       {Grouping{0, 0, 0, -1, -1, -1}, Grouping{0, 0, -1, -1, -1, -1}, Grouping{-1, 0, 0, 1, 1, -1},
        Grouping{-1, -1, -1, 0, 0, 0}, Grouping{-1, -1, -1, -1, 0, 0}})
    CHECK(total_bytes(fuse_groups(views, groups), at) <= total_bytes(views, at));
}

TEST_CASE("op graph: control flow", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8}, kHalf);
  const auto region = [&](OpKind kind, int ops) {
    OpGraph body;
    TensorId now = body.input("i", {kBatch, 8}, kHalf);
    for (int i = 0; i < ops; ++i) now = body.emit(kind, {now});
    body.mark_output(now);
    return std::make_shared<const OpGraph>(std::move(body));
  };
  OpNode loop = node(OpKind::loop, {x}, {{"trips", SymExpr::dim("trips")}});
  loop.regions = {region(OpKind::relu, 2)};
  graph.add(loop, {graph.tensor(x)});
  OpNode branch = node(OpKind::branch, {x}, {{"condition", SymExpr::dim("flag")}});
  branch.regions = {region(OpKind::relu, 1), region(OpKind::tanh, 1)};
  graph.add(branch, {graph.tensor(x)});
  CHECK(verify(graph).empty());
  CHECK(work(graph, OpId{0}).flops() == kBatch * 16 * SymExpr::dim("trips"));
  CHECK(work(graph, OpId{1}, {{"batch", 2}, {"flag", 1}}).flops() == SymExpr(2 * 8 * 1));  // the side that runs
  CHECK(work(graph, OpId{1}, {{"batch", 2}, {"flag", 0}}).flops() == SymExpr(2 * 8 * 5));
  CHECK(work(graph, OpId{1}, {{"batch", 2}}).flops() == SymExpr(2 * 8 * 5));  // the costlier side
  // Symbols of regions are symbols of the graph.
  OpGraph inner;
  inner.mark_output(inner.emit(OpKind::relu, {inner.input("i", {SymExpr::dim("hidden")}, kHalf)}));
  OpGraph outer;
  OpNode twice = node(OpKind::loop, {outer.input("x", {8}, kHalf)});
  twice.regions = {std::make_shared<const OpGraph>(std::move(inner))};
  outer.add(twice, {outer.tensor(TensorId{0})});
  REQUIRE(outer.symbols().size() == 1);
  CHECK(outer.symbols()[0].name() == "hidden");
  const auto kernels = [&](std::int64_t trips, std::int64_t flag) {
    return lower(graph, {{"batch", 2}, {"trips", trips}, {"flag", flag}}).kernels;
  };
  CHECK(kernels(3, 1).size() == 7);
  CHECK(kernels(0, 1).size() == 1);
  CHECK(hw::work_of(kernels(0, 1)[0].kernel).flops == 2 * 8 * 1);  // the side that is taken
  CHECK(hw::work_of(kernels(0, 0)[0].kernel).flops == 2 * 8 * 5);
  for (const GraphKernel& kernel : kernels(3, 0)) CHECK((kernel.op == OpId{0} || kernel.op == OpId{1}));
  // A sum in a loop inside a fused op: its region's traffic stays.
  CHECK(total_bytes(fuse_groups(graph, {0, 0}), {{"batch", 2}, {"trips", 3}, {"flag", 1}}) <=
        total_bytes(graph, {{"batch", 2}, {"trips", 3}, {"flag", 1}}));
  CHECK_THROWS_AS(lower(graph, {{"batch", 2}, {"flag", 1}}), UnboundSymbol);
  CHECK_THROWS_WITH(total_work(graph, {{"batch", 2}, {"flag", 1}}), "no value for dimension 'trips'");
}

TEST_CASE("op graph: every fault is one clear line", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8}, kHalf), w = graph.parameter("w", {9, 4}, kHalf);
  CHECK(graph_fault([&] {
          graph.emit(OpKind::matmul, {x, w}, {}, "up");
        }) == "matmul 'up': [batch, 8] times [9, 4]: the inner sizes 8 and 9 differ");
  CHECK(graph_fault([&] {
          graph.emit(OpKind::add, {x, w}, {}, "sum");
        }) == "add 'sum': [batch, 8] and [9, 4] do not broadcast");
  CHECK(graph_fault([&] { graph.emit(OpKind::relu, {x, w}, {}, "r"); }) == "relu 'r': expected 1 inputs, got 2");
  CHECK(graph_fault([&] { graph.emit(OpKind::concat, {}, {}, "c"); }) ==
        "concat 'c': expected at least 1 inputs, got 0");
  CHECK(graph_fault([&] { graph.emit(OpKind::relu, {TensorId{99}}, {}, "r"); }) ==
        "relu 'r': input 99 is not a tensor of the graph");
  CHECK(graph_fault([&] { graph.emit(OpKind::reshape, {x}, Attributes{}, "v"); }) ==
        "reshape 'v': its output shape has to be given");
  CHECK(graph_fault([&] { graph.emit(OpKind::reduce_sum, {x}, {}, "s"); }) ==
        "reduce_sum 's': expected attribute 'axes', a list");
  CHECK_THAT(graph_fault([&] {
               graph.emit(OpKind::reduce_sum, {x}, {{"axes", std::vector<SymExpr>{2}}}, "s");
             }),
             Contains("reduce_sum 's': axis 2 of [batch, 8]"));
  CHECK_THAT(graph_fault([&] {
               graph.emit(OpKind::conv2d, {x, w}, {}, "c");
             }),
             Contains("conv2d 'c': expected [n, c, h, w] and"));
  CHECK_THAT(graph_fault([&] {
               graph.emit(OpKind::cast, {x}, {{"to", std::string("fp12")}}, "c");
             }),
             Contains("attribute 'to': expected an element type, got 'fp12'"));
  CHECK_THAT(graph_fault([&] { graph.input("x", {1}, kHalf); }), Contains("tensor 'x': the name is taken"));
  CHECK_THAT(graph_fault([&] { graph.add_tensor({.name = "a"}); }), Contains("an activation is made by an op"));
  // What only verify() sees: outputs that contradict the rule, elements that a reshape loses, regions that do not fit.
  OpGraph wrong;
  const TensorId y = wrong.input("y", {kBatch, 8}, kHalf);
  wrong.emit(OpKind::relu, {y}, {kBatch, 9}, kHalf, {}, "r");
  wrong.emit(OpKind::reshape, {y}, {kBatch, 9}, kHalf, {}, "v");
  wrong.add(node(OpKind::loop, {y}), {wrong.tensor(y)});
  OpNode branch = node(OpKind::branch, {y});
  OpGraph body;
  body.input("a", {kBatch, 4}, kHalf);
  branch.regions = {std::make_shared<const OpGraph>(body), std::make_shared<const OpGraph>(body)};
  wrong.add(branch, {});
  CHECK(verify(wrong) ==
        std::vector<std::string>{"relu 'r': expected an output of [batch, 8], got [batch, 9]",
                                 "reshape 'v': 8*batch elements in, 9*batch out",
                                 "loop 'loop_op': expected 1 regions, got 0",
                                 "branch 'branch_op': input 0 is fp16[batch, 8], its region takes fp16[batch, 4]",
                                 "branch 'branch_op': input 0 is fp16[batch, 8], its region takes fp16[batch, 4]"});
  // Names of ops are kept apart.
  OpGraph names;
  const TensorId z = names.input("z", {8}, kHalf);
  names.emit(OpKind::relu, {z}, {}, "same");
  names.emit(OpKind::relu, {z}, {}, "same");
  CHECK(names.op(OpId{1}).name == "same.1");
  names.emit(OpKind::relu, {z}, {}, "same.2");
  names.emit(OpKind::relu, {z}, {}, "same");
  CHECK(names.op(OpId{3}).name == "same.3");
  CHECK(names.tensor(names.op(OpId{3}).outputs[0]).name == "same.3");
  CHECK(verify(names).empty());
}

TEST_CASE("op work: sizes that cannot be are faults", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch - 4, 8}, kHalf);
  graph.emit(OpKind::relu, {x});
  const std::string fault = "tensor 'x': a dimension (batch - 4) has size -3";
  CHECK(graph_fault([&] { sizes(graph, x, {{"batch", 1}}); }) == fault);
  CHECK(graph_fault([&] {
          work(graph, OpId{0}, {{"batch", 1}});
        }) == "tensor 'relu_0': a dimension (batch - 4) has size -3");
  CHECK(sizes(graph, x, {{"batch", 4}}) == std::vector<std::int64_t>{0, 8});
  const OpId step = graph.add(node(OpKind::optimizer_step, {x, x}, {{"parameters", SymExpr(3)}}), {graph.tensor(x)});
  CHECK(graph_fault([&] { work(graph, step); }) ==
        "optimizer_step 'optimizer_step_op': attribute 'parameters' is 3, of 2 inputs");
}

TEST_CASE("op graph: fusing and taking apart", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {kBatch, 8}, kHalf);
  const TensorId a = graph.emit(OpKind::relu, {x}, {}, "a"), b = graph.emit(OpKind::exp, {a}, {}, "b");
  const TensorId c = graph.emit(OpKind::neg, {a}, {}, "c");
  graph.mark_output(graph.emit(OpKind::add, {b, c}, {}, "d"));
  // a and d without b and c: a path leaves and comes back.
  CHECK_FALSE(is_convex(graph, {0, -1, -1, 0}));
  CHECK_THAT(graph_fault([&] { fuse_groups(graph, {0, -1, -1, 0}); }), Contains("would make a cycle"));
  // Two groups that each wait for the other.
  OpGraph cross;
  const TensorId p = cross.input("p", {8}, kHalf);
  const TensorId first = cross.emit(OpKind::relu, {p}), second = cross.emit(OpKind::exp, {p});
  cross.mark_output(cross.emit(OpKind::neg, {second}));
  cross.mark_output(cross.emit(OpKind::abs, {first}));
  CHECK(is_convex(cross, {0, 1, 0, 1}) == false);
  const OpGraph fused = fuse_groups(graph, {0, 0, -1, -1});
  REQUIRE(fused.op_count() == 3);
  CHECK(fused.op(OpId{0}).outputs.size() == 2);  // a is read outside too
  CHECK(verify(fused).empty());
  CHECK(to_string(unfuse(fused)) == to_string(graph));
  // All of it: one launch, x read and d written.
  const OpGraph whole = fuse_groups(graph, {0, 0, 0, 0});
  CHECK(work(whole, OpId{0}).bytes() == kBatch * 32);
  CHECK(work(whole, OpId{0}).flops() == total_work(graph).flops());
  CHECK(lower(whole, {{"batch", 2}}).kernels.size() == 1);
  // A fused op in a group is dissolved into it.
  const OpGraph again = fuse_groups(fused, {0, 0, 0});
  CHECK(again.op(OpId{0}).regions.front()->op_count() == 4);
  const Subgraph part = extract(graph, std::vector<OpId>{OpId{1}, OpId{2}}, "part");
  CHECK(part.inputs == std::vector<TensorId>{a});
  CHECK(part.outputs == std::vector<TensorId>{b, c});
  CHECK(verify(part.graph).empty());
}

TEST_CASE("attributes that name a further input need it, of the right rank", "[unit]") {
  // Attention with sinks, a grouped product with a bias: without the input, with one that has too few dimensions.
  const auto fault = [](OpKind kind, std::vector<std::vector<SymExpr>> shapes, const Attributes& attributes) {
    OpGraph graph;
    OpNode node;
    node.kind = kind;
    node.attributes = attributes;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      node.inputs.push_back(graph.input("x" + std::to_string(i), shapes[i], ElementType::fp16));
    const OpId id = graph.add(std::move(node), {{.shape = {1, 8, 16, 64}, .type = ElementType::fp16}});
    const std::vector<std::string> all = verify(graph, id);
    return all.empty() ? std::string() : all.front();
  };
  using Catch::Contains;
  const std::vector<SymExpr> heads{1, 8, 16, 64};
  const Attributes sinks{{"causal", SymExpr(1)}, {"sinks", SymExpr(1)}};
  CHECK(fault(OpKind::attention, {heads, heads, heads, {1, 8, 1, 1}}, sinks).empty());
  CHECK_THAT(fault(OpKind::attention, {heads, heads, heads}, sinks),
             Contains("attribute 'sinks' says that there is an input 3"));
  CHECK_THAT(fault(OpKind::attention, {heads, heads, heads, {8}}, sinks), Contains("expected at least 4 dimensions"));
  CHECK_THAT(fault(OpKind::attention, {heads, heads, heads}, {{"window", SymExpr(-5)}}),
             Contains("expected a window of at least 0 keys"));
  const Attributes bias{{"bias", SymExpr(1)}};
  CHECK(fault(OpKind::grouped_matmul, {{32, 8}, {4, 8, 16}, {4, 1, 16}}, bias).empty());
  CHECK_THAT(fault(OpKind::grouped_matmul, {{32, 8}, {4, 8, 16}}, bias),
             Contains("attribute 'bias' says that there is an input 2"));
  CHECK_THAT(fault(OpKind::grouped_matmul, {{32, 8}, {4, 8, 16}, {16}}, bias),
             Contains("expected at least 3 dimensions"));
}

TEST_CASE("op graph: fusing convex groups never raises bytes moved and keeps FLOPs", "[prop]") {
  std::int64_t fused_groups = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    sim::RandomStream random(seed, "fuse");
    const OpGraph graph = test::random_graph(random, {.ops = 10 + static_cast<int>(seed), .view = 0.2});
    CHECK(verify(graph).empty());
    const Bindings at{{"batch", 1 + static_cast<std::int64_t>(seed) * 7}};
    for (const double join : {0.3, 0.7, 0.95}) {
      // An op joins the group of one of its makers by chance, if that keeps the grouping convex.
      Grouping groups(graph.op_count(), -1);
      for (const OpId id : graph.ops()) {
        if (random.uniform() >= join) continue;
        for (const TensorId input : graph.op(id).inputs)
          if (const auto maker = graph.producer(input)) {
            Grouping trial = groups;
            if (trial[index(*maker)] < 0) trial[index(*maker)] = static_cast<std::int32_t>(index(*maker));
            trial[index(id)] = trial[index(*maker)];
            if (is_convex(graph, trial)) groups = trial;
            break;
          }
      }
      const OpGraph fused = fuse_groups(graph, groups);
      CHECK(verify(fused).empty());
      CHECK(total_bytes(fused, at) <= total_bytes(graph, at));
      CHECK(total_work(fused, at).flops() == total_work(graph, at).flops());
      // The sizes do not matter: the symbolic counts agree with the numbers.
      CHECK(total_work(fused).bytes().eval(at) == total_bytes(fused, at));
      const OpGraph back = unfuse(fused);
      CHECK(back.op_count() == graph.op_count());
      CHECK(verify(back).empty());
      CHECK(total_work(back, at).bytes() == total_work(graph, at).bytes());
      CHECK(total_work(back, at).flops() == total_work(graph, at).flops());
      CHECK(lower(fused, at).kernels.size() <= lower(graph, at).kernels.size());
      CHECK(to_string(fused) == to_string(fuse_groups(graph, groups)));
      fused_groups += static_cast<std::int64_t>(graph.op_count() - fused.op_count());
    }
    sim::RandomStream again(seed, "fuse");
    CHECK(to_string(test::random_graph(again, {.ops = 10 + static_cast<int>(seed), .view = 0.2})) == to_string(graph));
  }
  CHECK(fused_groups > 1000);  // the property was tried on something
}

}  // namespace test_op_graph
