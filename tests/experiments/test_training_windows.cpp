// Training of models whose layers attend to a window, to all tokens, or to both in turns; sinks and biases of experts.
#include <catch2/catch.hpp>

#include "experiments/systems/training/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_windows {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;
using training::PartName;

namespace {

/// Four layers of 16 heads on eight H100, 8,192 tokens a sequence.
training::TrainingConfig config(const std::string& model, const std::string& plan = "{}", int layers = 4) {
  const sim::Node root = sim::parse_json(
      R"({"system": "training",
    "machine": {"devices": [{"part": "h100-sxm5-80gb", "count": 8}], "node": {"devices": 8}},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": )" +
          std::to_string(layers) + R"(, "hidden": 1024, "heads": 16, "kv_heads": 4,
              "head_dim": 64, "intermediate": 4096, "vocab": 32768, "tied": false, "loss": true)" +
          model + R"(}}},
    "workload": {"sequence": 8192, "global_batch": 8}, "plan": )" +
          plan + "}",
      "training.json");
  sim::Faults faults;
  training::TrainingConfig read = training::read_training_config(root, *test_systems().registries(), faults);
  faults.throw_if_any();
  return read;
}

training::ModelCosts costs(const std::string& model, std::int64_t context = 1, bool balanced = true) {
  const training::TrainingConfig read = config(model);
  training::CostTable table(read.machine, read.model);
  return table.costs({.context = context, .balanced = balanced});
}

constexpr const char* kTurns = R"(, "window": 256, "full_every": 2)";
constexpr const char* kAll = R"(, "window": 256)";

}  // namespace

TEST_CASE("Layers with and without a window in turns cost the mean of both", "[unit][training]") {
  const training::ModelCosts full = costs(""), windows = costs(kAll), turns = costs(kTurns);
  const training::PartCosts &a = full.part(PartName::layer), &b = windows.part(PartName::layer),
                            &mean = turns.part(PartName::layer);
  CHECK(turns.layers == 4);
  for (const auto pass : {&training::PartCosts::forward, &training::PartCosts::backward_input}) {
    CHECK((b.*pass).kernel_s < 0.9 * (a.*pass).kernel_s);
    CHECK((mean.*pass).kernel_s == Approx(((a.*pass).kernel_s + (b.*pass).kernel_s) / 2));
    CHECK((mean.*pass).flops == Approx(((a.*pass).flops + (b.*pass).flops) / 2));
    CHECK((mean.*pass).energy_j == Approx(((a.*pass).energy_j + (b.*pass).energy_j) / 2));
    CHECK((mean.*pass).kernels == (a.*pass).kernels);
    CHECK((mean.*pass).host_s == Approx((a.*pass).host_s));
  }
  // What they hold is the same: a kernel of attention keeps no scores.
  CHECK(mean.saved_bytes == a.saved_bytes);
  CHECK(mean.working_bytes == a.working_bytes);
  CHECK(mean.all().parameters == a.all().parameters);
  CHECK(mean.by_op_kept_bytes == a.by_op_kept_bytes);
  // 4 x 16 x 64 FLOPs a pair of query and key, of which there are 8,192 x 8,193 / 2, or 256 x 257 / 2 + 7,936 x 256.
  CHECK(a.forward.flops - b.forward.flops == 4.0 * 16 * 64 * (8192.0 * 8193 / 2 - (256.0 * 257 / 2 + 7936 * 256)));
  // Three windows of four: a quarter of the way back.
  const training::ModelCosts four = costs(R"(, "window": 256, "full_every": 4)");
  CHECK(four.part(PartName::layer).forward.kernel_s == Approx(0.25 * a.forward.kernel_s + 0.75 * b.forward.kernel_s));
}

TEST_CASE("Passes that fuse attention with others leave each layer its window", "[unit][training]") {
  const auto layer = [](const std::string& model) {
    training::TrainingConfig read = config(model);
    sim::Node block = sim::parse_json(R"({"order": ["greedy_fusion"]})", "passes");
    sim::Faults faults;
    (void)read_passes(block, test_systems().registry<policies::PassRegistry>(), read.model.passes, faults);
    faults.throw_if_any();
    training::CostTable table(read.machine, read.model);
    return table.costs({}).part(PartName::layer);
  };
  const training::PartCosts full = layer(""), windows = layer(kAll), turns = layer(kTurns);
  CHECK(turns.forward.flops == Approx((full.forward.flops + windows.forward.flops) / 2).epsilon(1e-12));
  CHECK(turns.forward.kernel_s == Approx((full.forward.kernel_s + windows.forward.kernel_s) / 2).epsilon(1e-12));
}

TEST_CASE("A run counts windows: FLOPs of all layers, whatever the stages", "[unit][training]") {
  // Five layers, three of them with a window (0, 2, 4): on one stage, and on stages of two and three.
  const training::TrainingResult one = training::train(config(kTurns, R"({"data_parallel": 8})", 5));
  REQUIRE(one.reason.empty());
  const training::PassCost& forward = one.costs.stages.front().chunks.front().forward;
  const double full = costs("").part(PartName::layer).forward.flops,
               windows = costs(kAll).part(PartName::layer).forward.flops;
  const double edges = costs("").part(PartName::embedding).forward.flops + costs("").part(PartName::head).forward.flops;
  CHECK(forward.flops == Approx(2 * full + 3 * windows + edges));
  const training::TrainingResult two =
      training::train(config(kTurns, R"({"data_parallel": 4, "pipeline_parallel": 2})", 5));
  REQUIRE(two.reason.empty());
  double sum = 0;
  for (const training::StageCosts& stage : two.costs.stages) sum += stage.chunks.front().forward.flops;
  CHECK(sum == Approx(forward.flops));
}

TEST_CASE("Context parallelism that is not balanced: in a window the last rank has its share, no more",
          "[unit][training]") {
  const auto attention = [](const std::string& model, bool balanced) {
    return costs(model, 4, balanced).part(PartName::layer).forward.flops;
  };
  // Full attention: the last quarter has 1 - (3/4)^2 = 7/16 of the pairs. In a window of 256 it has 2,048 x 256 of
  // them, of 256 x 257 / 2 + 7,936 x 256.
  const double quarter = 4.0 * 16 * 64 * 8192 * 8193 / 2;
  CHECK(attention("", false) - attention("", true) == Approx((7.0 / 16 - 1.0 / 4) * quarter).epsilon(1e-4));
  const double pairs = 256.0 * 257 / 2 + 7936 * 256;
  CHECK(attention(kAll, false) - attention(kAll, true) ==
        Approx(4.0 * 16 * 64 * (2048.0 * 256 - pairs / 4)).epsilon(1e-4));
}

TEST_CASE("Sinks are divided with the heads, biases of experts with the experts", "[unit][training]") {
  const std::string experts =
      R"(, "experts": 16, "experts_per_token": 2, "expert_intermediate": 512, "sinks": true, "router_bias": true)";
  const auto parameters = [&](const std::string& more, const std::string& plan) {
    const training::TrainingResult result = training::train(config(experts + more, plan));
    REQUIRE(result.reason.empty());
    return result.costs.stages.front().parameters;
  };
  const char* const alone = R"({"data_parallel": 8})";
  const char* const shared = R"({"data_parallel": 8, "expert_parallel": 8})";
  // gate and up of 512, down of 1,024, for each of 16 experts in four layers; two experts on each of eight ranks.
  const std::int64_t biases = 4 * (2 * 512 + 1024);
  CHECK(parameters(R"(, "expert_bias": true)", alone) - parameters("", alone) == 16 * biases);
  CHECK(parameters(R"(, "expert_bias": true)", shared) - parameters("", shared) == 2 * biases);
  // A rank of two has eight of the sixteen sinks of each layer, of two halves of everything that is divided.
  const auto dense = [](const std::string& more, std::int64_t tensor) {
    const training::TrainingResult result =
        training::train(config(more, R"({"sequence_parallel": true, "tensor_parallel": )" + std::to_string(tensor) +
                                         R"(, "data_parallel": )" + std::to_string(8 / tensor) + "}"));
    REQUIRE(result.reason.empty());
    return result.costs.stages.front().parameters;
  };
  CHECK(dense(R"(, "sinks": true)", 1) - dense("", 1) == 4 * 16);
  CHECK(dense(R"(, "sinks": true)", 2) - dense("", 2) == 4 * 8);
  const char* const eager = R"(, "attention": "eager")";
  CHECK(dense(std::string(eager) + R"(, "sinks": true)", 2) - dense(eager, 2) == 4 * 8);
}

}  // namespace test_training_windows
