#include "models/autodiff/autodiff.hpp"
#include "models/graph/graph_lowering.hpp"
#include "tests/policies/fusion_support.hpp"

namespace test_fusion_adopter {

using namespace orrery;
using namespace orrery::policies;
using namespace orrery::policies::test;
using models::ElementType;
using models::OpGraph;
using models::OpKind;
using models::SymExpr;
using models::TensorId;

namespace {

/// Two blocks of scale, mask, softmax over [batch, 4, 64, 64].
OpGraph scores() {
  OpGraph graph;
  const SymExpr batch = SymExpr::dim("batch");
  TensorId x = graph.input("x", {batch, 4, 64, 64}, ElementType::fp16);
  const TensorId mask = graph.input("mask", {batch, 1, 1, 64}, ElementType::fp16);
  for (int i = 0; i < 2; ++i)
    x = graph.emit(OpKind::softmax, {graph.emit(OpKind::add, {graph.emit(OpKind::scale, {x}), mask})});
  graph.mark_output(x);
  return graph;
}

PassContext sized(std::int64_t batch) {
  PassContext context;
  context.typical = {{"batch", batch}};
  return context;
}

}  // namespace

TEST_CASE("a subset of rules is applied, and kernels made at run time are charged once each", "[unit]") {
  const OpGraph graph = scores();
  PassReport report;
  const OpGraph all = apply("adopter", graph, sized(2), R"({"rules": ["softmax"], "compile_time": "3 s"})", &report);
  CHECK(count_launches(all) == 2);
  CHECK(figure(report, "matches.softmax") == 2);
  CHECK(figure(report, "compile_s") == 3);  // two matches of one kernel
  check_fusion(graph, all, {{{"batch", 1}}, {{"batch", 64}}});

  PassReport none;
  CHECK(to_string(apply("adopter", graph, sized(2), R"({"rules": []})", &none)) == to_string(graph));
  CHECK(figure(none, "compile_s") == 0);
}

TEST_CASE("a file of rules that cannot be read is a fault that names it", "[unit]") {
  CHECK_THROWS_WITH(apply("adopter", scores(), sized(2), R"({"rules": [], "files": ["/none/rule.json"]})"),
                    Catch::Contains("/none/rule.json"));
}

TEST_CASE("bias and GELU fuse where the bias is the product's, also in a training graph", "[unit]") {
  OpGraph graph;
  const SymExpr batch = SymExpr::dim("batch");
  const TensorId x = graph.input("x", {batch, 64}, ElementType::fp16);
  const TensorId up = graph.emit(OpKind::matmul, {x, graph.parameter("w", {64, 256}, ElementType::fp16),
                                                  graph.parameter("b", {256}, ElementType::fp16)});
  graph.mark_output(graph.emit(OpKind::gelu, {up}));
  const char* rules = R"({"rules": ["bias_gelu"]})";
  const OpGraph forward = apply("adopter", graph, sized(4), rules);
  check_fusion(graph, forward, {{{"batch", 16}}});
  CHECK(count_launches(forward) == 1);
  CHECK(moved(graph, {{"batch", 16}}) - moved(forward, {{"batch", 16}}) == 2 * 16 * 256 * 2);  // the sum is not there

  const OpGraph training = models::differentiate(graph, {.loss = models::LossKind::sum}).graph;
  const OpGraph fused = apply("adopter", training, sized(4), rules);
  check_fusion(training, fused, {{{"batch", 16}}});
  CHECK(count_launches(fused) == count_launches(training) - 1);
  // The backward pass reads the sum: it is written, but the GELU does not read it back.
  CHECK(moved(training, {{"batch", 16}}) - moved(fused, {{"batch", 16}}) == 16 * 256 * 2);
}

TEST_CASE("a convolution in a fused op is priced as the product that computes it", "[unit]") {
  OpGraph graph;
  const TensorId x = graph.input("x", {SymExpr::dim("batch"), 8, 32, 32}, ElementType::fp16);
  const TensorId y = graph.emit(OpKind::conv2d, {x, graph.parameter("w", {16, 8, 3, 3}, ElementType::fp16)},
                                {{"stride", SymExpr(1)}, {"pad", SymExpr(1)}});
  const auto width = [&](const char* name) { return graph.parameter(name, {16}, ElementType::fp16); };
  graph.mark_output(graph.emit(OpKind::batch_norm, {y, width("gain"), width("shift")}));
  const OpGraph fused = apply("adopter", graph, sized(4), R"({"rules": ["conv_batch_norm"]})");
  const models::GraphLaunches launches = models::lower(fused, {{"batch", 4}});
  REQUIRE(launches.kernels.size() == 1);
  const auto& kernel = std::get<hw::Fused>(launches.kernels.front().kernel.shape);
  CHECK(kernel.gemm.m == 4 * 32 * 32);
  CHECK(kernel.gemm.n == 16);
  CHECK(kernel.gemm.k == 8 * 3 * 3);
  CHECK(kernel.other_matrix_flops == 0);
}

TEST_CASE("Adopter's rules keep the work of random graphs and move no more", "[prop]") {
  const auto gpu = round_gpu();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::RandomStream random(seed, "adopter");
    const OpGraph graph = models::test::random_graph(random, {.ops = static_cast<int>(5 + 5 * seed), .matmul = 0.4});
    PassContext context = sized(16);
    context.cost = gpu.get();
    CAPTURE(seed);
    const char* rules = R"({"rules": ["bias_gelu", "dropout_layer_norm", "fused_qkv"]})";
    const OpGraph after = apply("adopter", graph, context, rules);
    check_fusion(graph, after, {{{"batch", 1}}, {{"batch", 16}}, {{"batch", 4096}}});
    CHECK(to_string(after) == to_string(apply("adopter", graph, context, rules)));
  }
}

}  // namespace test_fusion_adopter
