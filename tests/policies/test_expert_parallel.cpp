// Experts shared out over ranks: what one rank holds, multiplies and sends, and that tokens stay divided on the way.
#include <catch2/catch.hpp>

#include "models/autodiff/autodiff.hpp"
#include "models/builders/builder.hpp"
#include "models/graph/op_work.hpp"
#include "policies/placement/expert_parallel.hpp"
#include "policies/placement/tensor_parallel.hpp"

namespace test_expert_parallel {

using namespace orrery;
using namespace orrery::models;

namespace {

constexpr std::int64_t kHidden = 64, kInner = 32, kExperts = 16, kChoices = 4, kBatch = 2, kTokens = 16;
constexpr std::int64_t kRows = kBatch * kTokens * kChoices;

OpGraph decoder(const std::string& more = R"("experts": 16, "experts_per_token": 4, "expert_intermediate": 32)") {
  BuilderRegistry registry("builder");
  register_builders(registry);
  const sim::Node node =
      sim::parse_json(R"({"layers": 1, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 128,
    "vocab": 256, "loss": true, "tied": false, )" +
                          more + "}",
                      "model.json");
  sim::Faults faults;
  const BuilderRegistry::Choice choice = registry.prepare("decoder", &node, {}, faults);
  faults.throw_if_any();
  return choice.make()->build();
}

OpGraph trained(const OpGraph& forward) {
  return differentiate(forward, {.optimizer = OptimizerKind::adam, .master_weights = true}).graph;
}

const Bindings& sizes() {
  static const Bindings all{{"batch", kBatch}, {"tokens", kTokens}};
  return all;
}

/// FLOPs of experts' products, gradients included.
std::int64_t expert_flops(const OpGraph& graph) {
  std::int64_t sum = 0;
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == OpKind::grouped_matmul || graph.op(id).kind == OpKind::grouped_matmul_grad_weight)
      sum += work(graph, id, sizes()).matrix_flops.eval(sizes());
  return sum;
}

std::int64_t expert_weights(const OpGraph& graph) {
  std::int64_t sum = 0;
  for (const TensorId id : graph.with_role(TensorRole::parameter))
    if (graph.tensor(id).name.find("experts.") != std::string::npos) sum += graph.tensor(id).elements().eval(sizes());
  return sum;
}

/// Bytes of each exchange of a phase.
std::vector<std::int64_t> sent(const OpGraph& graph, Phase phase) {
  std::vector<std::int64_t> bytes;
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (op.kind == OpKind::all_to_all && op.phase == phase)
      bytes.push_back(graph.tensor(op.inputs.front()).bytes().eval(sizes()));
  }
  return bytes;
}

}  // namespace

TEST_CASE("Ranks hold a share of the experts and multiply as many rows as they route", "[golden]") {
  const OpGraph whole = decoder();
  // Gate, up and down: 3 x 64 x 32 a row of an expert.
  REQUIRE(expert_weights(whole) == kExperts * 3 * kHidden * kInner);
  REQUIRE(expert_flops(trained(whole)) == 3 * 2 * kRows * 3 * kHidden * kInner);
  for (const std::int64_t ranks : {2, 4, 16}) {
    CAPTURE(ranks);
    const OpGraph own = policies::expert_parallel(whole, ranks);
    CHECK(verify(own).empty());
    CHECK(expert_weights(own) * ranks == expert_weights(whole));
    const OpGraph step = trained(own);
    CHECK(verify(step).empty());
    CHECK(expert_flops(step) == expert_flops(trained(whole)));
    // There and back, and the same of gradients: all rows, 64 wide in bf16.
    const std::vector<std::int64_t> both(2, kRows * kHidden * 2);
    CHECK(sent(step, Phase::forward) == both);
    CHECK(sent(step, Phase::backward) == both);
    // No more experts are read than the rank has.
    for (const OpId id : step.ops())
      if (step.op(id).kind == OpKind::grouped_matmul)
        CHECK(step.op(id).expr("active_groups", 0).eval(sizes()) == kExperts / ranks);
  }
  CHECK(to_string(policies::expert_parallel(whole, 1)) == to_string(whole));
}

TEST_CASE("Rows that arrive for several experts are sorted, and sorted back, in both passes", "[unit]") {
  const OpGraph step = trained(policies::expert_parallel(decoder(), 4));
  int sorts[2] = {0, 0};
  for (const OpId id : step.ops())
    if (step.op(id).kind == OpKind::copy && step.op(id).text("backward") == "copy")
      ++sorts[0];
    else if (step.op(id).kind == OpKind::copy && step.op(id).phase == Phase::backward)
      ++sorts[1];
  CHECK(sorts[0] == 2);
  CHECK(sorts[1] == 2);
  // Rows of one expert are in order as they come.
  const OpGraph alone = policies::expert_parallel(decoder(), kExperts);
  for (const OpId id : alone.ops()) CHECK(alone.op(id).kind != OpKind::copy);
}

TEST_CASE("Ranks of sequence parallelism route their own tokens to whole experts", "[golden]") {
  const OpGraph whole = trained(policies::expert_parallel(decoder(), 4));
  const OpGraph own = policies::tensor_parallel(whole, {.ranks = 2, .sequence = true});
  CHECK(verify(own).empty());
  CHECK(expert_weights(own) == expert_weights(whole));
  CHECK(expert_flops(own) * 2 == expert_flops(whole));
  const std::vector<std::int64_t> half(2, kRows / 2 * kHidden * 2);
  CHECK(sent(own, Phase::forward) == half);
  CHECK(sent(own, Phase::backward) == half);
  int gathers = 0, router_sums = 0;
  for (const OpId id : own.ops()) {
    const OpNode& op = own.op(id);
    // Nothing is gathered in front of experts, nor their gradients summed here; those of the router are.
    if (op.scope.ends_with(".ffn") && op.kind == OpKind::all_gather) ++gathers;
    if (op.kind != OpKind::all_reduce || op.phase != Phase::backward || !op.scope.ends_with(".ffn")) continue;
    const auto& shape = own.tensor(op.inputs.front()).shape;
    CHECK(shape.size() < 3);
    if (shape.size() == 2) ++router_sums;
  }
  CHECK(gathers == 0);
  CHECK(router_sums == 1);
}

TEST_CASE("Experts that cannot be shared out say why", "[unit]") {
  CHECK_FALSE(policies::expert_parallel_obstacle(decoder(), 8));
  CHECK_FALSE(policies::expert_parallel_obstacle(decoder(R"("experts": 0)"), 1));
  CHECK(policies::expert_parallel_obstacle(decoder(), 3) == "3 ranks of expert parallelism do not divide 16 experts");
  CHECK(policies::expert_parallel_obstacle(decoder(R"("experts": 0)"), 2) ==
        "2 ranks of expert parallelism have no experts to share out: the model has none");
}

}  // namespace test_expert_parallel
