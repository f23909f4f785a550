#include "tests/policies/fusion_support.hpp"

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
