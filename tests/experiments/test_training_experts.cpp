// Training with experts: what ranks hold, whose gradients are summed with whom, and the plans that can be.
#include <catch2/catch.hpp>

#include "experiments/systems/training/launch_flags.hpp"
#include "experiments/systems/training/planner.hpp"
#include "experiments/systems/training/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_experts {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;
using training::PartName;

namespace {

/// A decoder of four layers with sixteen experts on sixteen H100 in two nodes.
training::TrainingConfig config(const std::string& plan = "{}") {
  const sim::Node root = sim::parse_json(
      R"({"system": "training",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 16}], "node": {"devices": 8, "nic": "ib-ndr-4x", "nics": 8}},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 4,
              "head_dim": 64, "vocab": 32768, "tied": false, "loss": true, "experts": 16, "experts_per_token": 2,
              "expert_intermediate": 2048}}},
    "workload": {"sequence": 2048, "global_batch": 64}, "plan": )" +
          plan + "}",
      "training.json");
  sim::Faults faults;
  training::TrainingConfig read = training::read_training_config(root, *test_systems().registries(), faults);
  faults.throw_if_any();
  return read;
}

training::TrainingResult run(const std::string& plan) {
  return training::train(config(plan));
}

constexpr std::int64_t kExpert = 3 * 1024 * 2048;                           // gate, up, down
constexpr std::int64_t kAttention = 1024 * (1024 + 2 * 256) + 1024 * 1024;  // q, k, v; out
constexpr std::int64_t kLayer = kAttention + 2 * 1024 + 16 * 1024;          // two norms, a router
constexpr std::int64_t kEdges = 2 * 32768 * 1024 + 1024;                    // embedding, head and its norm

}  // namespace

TEST_CASE("A rank holds its experts, and ZeRO shares each kind of parameter out over those that hold it",
          "[golden][training]") {
  for (const std::int64_t ranks : {1, 2, 4, 16}) {
    CAPTURE(ranks);
    const std::string plan = R"({"expert_parallel": )" + std::to_string(ranks);
    const training::StageCosts own = run(plan + "}").costs.stages.front();
    CHECK(own.parameters == 4 * (kLayer + 16 / ranks * kExpert) + kEdges);
    CHECK(own.weight_bytes == 2 * own.parameters);
    CHECK(own.state_bytes == 12 * own.parameters);  // fp32 weights, mean and variance
    // Sixteen copies of what all have, 16 / ranks of an expert.
    const training::StageCosts shared = run(plan + R"(, "zero": "optimizer"})").costs.stages.front();
    CHECK(shared.state_bytes == 12 * (4 * kLayer + kEdges) / 16 + 12 * 4 * (16 / ranks) * kExpert / (16 / ranks));
    const training::StageCosts weights = run(plan + R"(, "zero": "weights"})").costs.stages.front();
    CHECK(weights.weight_bytes == (4 * kLayer + kEdges) * 2 / 16 + 2 * 4 * kExpert);
  }
}

TEST_CASE("An expert's gradients are summed over its copies alone", "[unit][training]") {
  const auto gradients = [](std::int64_t ranks) {
    return run(R"({"expert_parallel": )" + std::to_string(ranks) + "}").costs.stages.front().gradients_s;
  };
  const training::TrainingConfig read = config();
  const auto sum = [&](std::int64_t ranks, std::int64_t stride, std::int64_t parameters) {
    return training::collective(read.machine, hw::LibraryCall::all_reduce,
                                training::rank_group(read.machine, ranks, stride), 2.0 * double(parameters))
        .time_s;
  };
  const double dense = sum(16, 1, 4 * kLayer + kEdges);
  CHECK(gradients(1) == Approx(dense + sum(16, 1, 4 * 16 * kExpert)));
  CHECK(gradients(4) == Approx(dense + sum(4, 4, 4 * 4 * kExpert)));
  CHECK(gradients(16) == Approx(dense));  // nobody else has them
}

TEST_CASE("Experts that only ranks of tensor parallelism hold twice are gathered and summed among them",
          "[unit][training]") {
  const char* plan =
      R"({"tensor_parallel": 16, "sequence_parallel": true, "expert_parallel": 8, "data_parallel": 1, "zero": ")";
  // Four heads of keys: sixteen ranks do not divide them.
  CHECK_THAT(run(std::string(plan) + "none\"}").reason, Contains("do not divide 4 heads of keys"));
  const std::string four =
      R"({"tensor_parallel": 4, "sequence_parallel": true, "pipeline_parallel": 4, "expert_parallel": 2, "zero": ")";
  const training::StageCosts none = run(four + "none\"}").costs.stages[1],
                             all = run(four + "weights\"}").costs.stages[1];
  CHECK(none.weight_bytes - all.weight_bytes == 2 * 8 * kExpert / 2);  // one layer of eight experts, two copies of each
  CHECK(all.chunks.front().gathers_beside_s > 0);
  CHECK(none.chunks.front().gathers_beside_s == 0);
  CHECK(none.gradients_s > 0);
}

TEST_CASE("The same tokens are multiplied however experts are shared out", "[prop][training]") {
  const double flops = run("{}").model_flops;
  for (const char* plan :
       {R"({"expert_parallel": 8})", R"({"expert_parallel": 8, "tensor_parallel": 2, "sequence_parallel": true})",
        R"({"expert_parallel": 4, "pipeline_parallel": 2})", R"({"expert_parallel": 16, "context_parallel": 2})"}) {
    CAPTURE(plan);
    const training::TrainingResult result = run(plan);
    CHECK(result.reason.empty());
    CHECK(result.model_flops == Approx(flops).epsilon(1e-9));
    CHECK(result.closed.time_s == Approx(result.run.times.time_s).epsilon(0.02));
  }
}

TEST_CASE("Rows wait for links of a node, then for adapters; tokens that travel once wait less", "[unit][training]") {
  const auto waits = [](const std::string& plan) { return run(plan).run.times.collective_s; };
  const double inside = waits(R"({"expert_parallel": 8})"), across = waits(R"({"expert_parallel": 16})");
  CHECK(inside > 0);
  CHECK(across > 2 * inside);
  CHECK(waits(R"({"expert_parallel": 16, "expert_dispatch": "tokens"})") < across);
  CHECK(waits(R"({"expert_parallel": 1})") == 0);
}

TEST_CASE("Plans of experts that cannot be say why", "[unit][training]") {
  CHECK(run(R"({"expert_parallel": 3})").reason ==
        "3 ranks of expert parallelism do not divide the 16 ranks of stage 0");
  CHECK(run(R"({"expert_parallel": 16, "pipeline_parallel": 2})").reason ==
        "16 ranks of expert parallelism do not divide the 8 ranks of stage 0");
  CHECK_THAT(run(R"({"tensor_parallel": 2, "expert_parallel": 2})").reason, Contains("needs sequence_parallel"));
}

TEST_CASE("The planner shares experts out where that is sooner, and names the plan", "[unit][training]") {
  const training::TrainingConfig read = config(R"({"expert_dispatch": "tokens"})");
  training::PlannerParams params;
  params.show = params.run = 5;
  const training::PlannerResult found = training::find_plans(read, params, *test_systems().registries());
  REQUIRE(!found.best.empty());
  // By hand: every plan of one stage, no ZeRO, nothing run again, is no sooner.
  for (const std::int64_t ranks : {1, 2, 4, 8, 16}) {
    const training::TrainingResult own =
        run(R"({"expert_dispatch": "tokens", "expert_parallel": )" + std::to_string(ranks) + "}");
    CHECK(found.best.front().time_s <= own.run.times.time_s * (1 + 1e-9));
  }
  for (const training::ScoredPlan& plan : found.best) CHECK((plan.plan.tensor == 1 || plan.plan.sequence));
  const training::PlanParams named = training::parse_plan("1 1 16e8 4 no none optimizer");
  CHECK(named.data_parallel == 16);
  CHECK(named.expert_parallel == 8);
  CHECK_THROWS_WITH(training::parse_plan("1 1 16ex 4 no none optimizer"),
                    "expected ranks that share experts behind the e in the plan '1 1 16ex 4 no none optimizer'");
  std::optional<std::string> why;
  const training::Plan plan = training::make_plan(named, 16, 64, why);
  const std::vector<std::string> flags =
      training::megatron_flags(plan, {.global_batch = 64, .sequence = 2048, .layers = 4});
  CHECK(std::ranges::find(flags, "--expert-model-parallel-size 8") != flags.end());
  CHECK(std::ranges::find(flags, "--expert-tensor-parallel-size 1") != flags.end());
}

}  // namespace test_training_experts
