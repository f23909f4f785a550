// Products in fp8: what is cast, how often, and what travels and is kept in 8 bits.
#include <catch2/catch.hpp>
#include <map>

#include "models/autodiff/autodiff.hpp"
#include "models/builders/builder.hpp"
#include "models/graph/op_work.hpp"
#include "policies/placement/tensor_parallel.hpp"
#include "tests/policies/pass_run.hpp"

namespace test_fp8 {

using namespace orrery;
using namespace orrery::models;
using policies::test::figure;
using policies::test::make_pass;

namespace {

/// A decoder of one layer: products of q, k and v merged, out, gate and up merged, down; an untied head.
OpGraph decoder() {
  BuilderRegistry registry("builder");
  register_builders(registry);
  const sim::Node node = sim::parse_json(R"({"layers": 1, "hidden": 64, "heads": 4, "kv_heads": 4, "head_dim": 16,
    "intermediate": 256, "vocab": 256, "tied": false, "merged": true, "loss": true})",
                                         "model.json");
  sim::Faults faults;
  const BuilderRegistry::Choice choice = registry.prepare("decoder", &node, {}, faults);
  faults.throw_if_any();
  return differentiate(choice.make()->build(), {.optimizer = OptimizerKind::adam, .master_weights = true}).graph;
}

OpGraph cast(const OpGraph& graph, const std::string& params, policies::PassReport& report) {
  OpGraph done = make_pass("fp8", params)->run(graph, {}, report);
  CHECK(verify(done).empty());
  return done;
}

int count(const OpGraph& graph, OpKind kind, hw::OpClass op_class) {
  int found = 0;
  for (const OpId id : graph.ops()) found += graph.op(id).kind == kind && graph.op(id).op_class == op_class ? 1 : 0;
  return found;
}

}  // namespace

TEST_CASE("Operands of weighted products are fp8, and nothing else is", "[unit]") {
  policies::PassReport report;
  const OpGraph graph = cast(decoder(), "{}", report);
  CHECK(figure(report, "products") == 12);  // four forward, and two backward for each
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (op.kind != OpKind::matmul) continue;
    const bool eight = op.op_class != hw::OpClass::lm_head;
    CHECK((graph.tensor(op.inputs[0]).type == ElementType::fp8) == eight);
    CHECK((graph.tensor(op.inputs[1]).type == ElementType::fp8) == eight);
    CHECK(graph.tensor(op.outputs[0]).type != ElementType::fp8);
  }
  // Each of four products reads a weight, an activation and a gradient: twelve tensors. Weights are read along either
  // axis, and so are the other two: a cast and a turned copy each, but that two products never share one.
  CHECK(figure(report, "casts") == 12);
  CHECK(count(graph, OpKind::copy, hw::OpClass::quantise) == 12);
}

TEST_CASE("Weights that are kept in fp8 are not cast, and weigh half", "[unit]") {
  policies::PassReport report;
  const OpGraph graph = cast(decoder(), R"({"weights": "kept"})", report);
  CHECK(figure(report, "casts") == 8);
  std::int64_t eight = 0;
  for (const TensorId id : graph.with_role(TensorRole::parameter))
    if (graph.tensor(id).type == ElementType::fp8) eight += graph.tensor(id).elements().eval(Bindings{});
  // 3 h^2 + h^2 of attention, 2 x 256 h + 256 h of the feed-forward.
  CHECK(eight == 4 * 64 * 64 + 3 * 256 * 64);
}

TEST_CASE("A scale of the tensor costs a pass, scales of rows a cast for either axis", "[unit]") {
  policies::PassReport tensor, row, block;
  const OpGraph one = cast(decoder(), R"({"scaling": "tensor"})", tensor);
  CHECK(count(one, OpKind::reduce_max, hw::OpClass::quantise) == 12);
  const OpGraph rows = cast(decoder(), R"({"scaling": "row"})", row);
  CHECK(figure(row, "casts") == 24);
  CHECK(count(rows, OpKind::reduce_max, hw::OpClass::quantise) == 12);  // of columns
  CHECK(count(rows, OpKind::copy, hw::OpClass::quantise) == 0);
  const OpGraph blocks = cast(decoder(), R"({"scaling": "block"})", block);
  CHECK(figure(block, "casts") == 24);
  CHECK(count(blocks, OpKind::reduce_max, hw::OpClass::quantise) == 0);
}

TEST_CASE("Gathers that only products read carry 8 bits, unless scales are of rows", "[unit]") {
  const OpGraph rank = policies::tensor_parallel(decoder(), {.ranks = 4, .sequence = true});
  const auto gathered = [&](const std::string& params) {
    policies::PassReport report;
    const OpGraph graph = cast(rank, params, report);
    std::map<std::string, int> found;
    for (const OpId id : graph.ops()) {
      const OpNode& op = graph.op(id);
      if (op.kind == OpKind::all_gather && op.scope.starts_with("layer."))
        ++found[std::string(to_string(graph.tensor(op.outputs[0]).type))];
    }
    return found;
  };
  // Forward two; backward two of gradients and two of what the products read.
  CHECK(gathered("{}") == std::map<std::string, int>{{"fp8", 6}});
  CHECK(gathered(R"({"scaling": "row"})") == std::map<std::string, int>{{"bf16", 6}});
}

}  // namespace test_fp8
