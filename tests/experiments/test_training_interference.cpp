// Training steps in which kernels, collectives and copies that run at once slow each other.
#include <catch2/catch.hpp>

#include "experiments/systems/training/layer_exchange.hpp"
#include "experiments/systems/training/run.hpp"
#include "hw/interference/shares.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_interference {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;
using hw::CollectiveReach;

namespace {

/// A decoder of four layers on A100 in nodes of eight; `machine` and `plan` go on after a comma.
training::TrainingConfig config(const std::string& plan, const std::string& machine = "", int devices = 8,
                                const std::string& model = "") {
  const std::string count = std::to_string(devices);
  const sim::Node root = sim::parse_json(
      R"({"system": "training", "machine": {"devices": [{"part": "a100-sxm4-40gb", "count": )" + count +
          R"(}], "node": {"devices": 8, "nic": "ib-hdr-4x"}, "host_link": "pcie4-x16")" + machine +
          R"(}, "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 2048, "heads": 16,
              "kv_heads": 16, "head_dim": 128, "intermediate": 8192, "vocab": 32000, "tied": false, "loss": true)" +
          model + R"(}}}, "workload": {"sequence": 1024, "global_batch": 32}, "plan": {)" + plan + "}}",
      "training.json");
  sim::Faults faults;
  training::TrainingConfig read = training::read_training_config(root, *test_systems().registries(), faults);
  faults.throw_if_any();
  return read;
}

double step_s(const std::string& plan, const std::string& machine = "", int devices = 8,
              const std::string& model = "") {
  const training::TrainingResult result = training::train(config(plan, machine, devices, model));
  REQUIRE(result.reason.empty());
  return result.run.times.time_s;
}

constexpr const char* kShares = R"(, "interference": {"policy": "shares"})";

/// Kernels for 9 s, gathers for 10 s beside them, in a stage of so many layers.
training::StageCosts stage(bool slowed, CollectiveReach reach = CollectiveReach::node, std::int64_t layers = 4) {
  training::ChunkCosts chunk;
  chunk.layers = layers;
  chunk.forward.kernel_s = chunk.backward_input.kernel_s = 9;
  chunk.gathers_beside_s = 10;
  if (slowed) chunk.overlap = {hw::make_shares({}), reach};
  training::StageCosts stage;
  stage.chunks.push_back(chunk);
  return stage;
}

}  // namespace

TEST_CASE("A pass and the gathers beside it share the device", "[unit][training]") {
  // Together at 1 / 1.44 until the kernels are done: 12.96 s, and 1 s of gathers.
  CHECK(stage(false).forward_s() == 10);
  CHECK(stage(true).forward_s() == Approx(1.44 * 9 + 1));
  CHECK(stage(true, CollectiveReach::network).forward_s() == Approx(1.15 * 9 + 1));
  training::ChunkCosts chunk = stage(true).chunks.front();
  chunk.scatters_beside_s = 2;
  CHECK(chunk.backward_s() == Approx(1.44 * 9 + 3));
  CHECK(chunk.backward_input_s() == Approx(1.44 * 9 + 1));
  CHECK(chunk.backward_weight_s() == Approx(12));  // no kernels: nothing to share with
  CHECK(chunk.interference_s() == Approx(1.44 * 9 + 1 - 10 + 1.44 * 9 + 3 - 12));
  CHECK(stage(false).chunks.front().interference_s() == 0);
}

TEST_CASE("What goes to the host and back shares the host", "[unit][training]") {
  training::ChunkCosts chunk = stage(true).chunks.front();
  chunk.gathers_beside_s = 0;
  chunk.forward_host = {.in_s = 8, .out_s = 7, .first_s = 2, .last_s = 1};
  // 2 s before anything, 1 s after all; between them 6 s in and 6 s out, both at 1 / 1.72, kernels meanwhile.
  CHECK(chunk.forward_s() == Approx(2 + 1.72 * 6 + 1));
  chunk.overlap = {};
  CHECK(chunk.forward_s() == Approx(2 + 9 + 1));
}

TEST_CASE("Gradients summed layer by layer slow the pass that makes them", "[unit][training]") {
  // A layer takes 2 s of the pass and 1 s of sums; three layers, 6 and 3 s, run at once.
  CHECK(training::beside_pass_s(stage(false), {0, 4, 0, 0}, 8) == Approx(3 + 6));
  CHECK(training::beside_pass_s(stage(true), {0, 4, 0, 0}, 8) == Approx(3 + 1.44 * 3 + 3));
  CHECK(training::beside_pass_s(stage(true), {0, 0, 0, 0}, 8) == 8);
  CHECK(training::beside_pass_s(stage(true, CollectiveReach::node, 1), {0, 4, 0, 0}, 8) == Approx(12));
  // Longer sums than passes: what is left of them runs alone.
  CHECK(training::beside_pass_s(stage(false), {0, 16, 0, 0}, 8) == Approx(6 + 12));
  CHECK(training::beside_pass_s(stage(true), {0, 16, 0, 0}, 8) == Approx(6 + 1.44 * 6 + 6));
}

TEST_CASE("Pieces of a collective beside pieces of a product", "[unit][training]") {
  // Of four pieces three are beside: 6 and 6 s at 1 / 1.44, where the product alone takes 6.
  const training::Overlap shared{hw::make_shares({}), CollectiveReach::node};
  CHECK(training::exposed_beside({}, 8, 8, 4) == Approx(2));
  CHECK(training::exposed_beside(shared, 8, 8, 4) == Approx(2 + 1.44 * 6 - 6));
  const training::Overlap nothing{hw::make_shares({.node_collective = 0, .host_copy = 0}), CollectiveReach::node};
  CHECK(training::exposed_beside(nothing, 8, 6, 4) == Approx(training::exposed_beside({}, 8, 6, 4)));
}

TEST_CASE("Steps of every plan that overlaps take longer, in events as in closed form", "[unit][training]") {
  struct Case {
    const char* plan;
    int devices;
    const char* model;
  };
  const Case cases[] = {
      {R"("data_parallel": 8, "zero": "weights")", 8, ""},
      {R"("data_parallel": 8)", 8, ""},
      {R"("data_parallel": 8, "zero": "optimizer", "overlap_gathers": true)", 8, ""},
      {R"("data_parallel": 16, "zero": "weights")", 16, ""},
      {R"("tensor_parallel": 8, "sequence_parallel": true, "async_tensor_parallel": true)", 8, ""},
      {R"("context_parallel": 8)", 8, ""},
      {R"("data_parallel": 8, "expert_parallel": 8, "overlap_experts": true)", 8,
       R"(, "experts": 8, "experts_per_token": 2)"},
  };
  for (const Case& of : cases) {
    INFO(of.plan);
    const double alone = step_s(of.plan, "", of.devices, of.model);
    const training::TrainingResult shared = training::train(config(of.plan, kShares, of.devices, of.model));
    CHECK(shared.run.times.time_s > alone * (1 + 1e-9));
    CHECK(shared.run.times.time_s < 1.5 * alone);
    CHECK(shared.closed.time_s == Approx(shared.run.times.time_s).epsilon(1e-6));
    // Shares of nothing are the model `none`.
    CHECK(step_s(of.plan, R"(, "interference": {"policy": "shares", "shares": {"node_collective": 0,
        "network_collective": 0, "network_link": 0, "host_copy": 0}})",
                 of.devices, of.model) == alone);
  }
}

TEST_CASE("A plan with nothing at once is slowed by nothing", "[unit][training]") {
  for (const char* plan : {R"("tensor_parallel": 8)", R"("data_parallel": 8, "overlap_gradients": false)"}) {
    INFO(plan);
    CHECK(step_s(plan, kShares) == step_s(plan));
  }
}

TEST_CASE("Copies to the host slow kernels only where these need the host", "[unit][training]") {
  const char* plan = R"("data_parallel": 1, "offload_activations": [1])";
  CHECK(step_s(plan, kShares, 1) == Approx(step_s(plan, "", 1)).epsilon(1e-12));
  CHECK(step_s(plan, R"(, "interference": {"policy": "shares", "shares": {"host_copy": 1, "host_kernels": 0.36}})", 1) >
        1.001 * step_s(plan, "", 1));
}

TEST_CASE("Copies of the model in one node or in several", "[unit][training]") {
  const auto reach = [](const char* plan, int devices) {
    return training::train(config(plan, kShares, devices)).costs.stages.front().chunks.front().overlap.reach;
  };
  CHECK(reach(R"("data_parallel": 8, "zero": "weights")", 8) == CollectiveReach::node);
  CHECK(reach(R"("data_parallel": 16, "zero": "weights")", 16) == CollectiveReach::network);
  CHECK(reach(R"("data_parallel": 2, "tensor_parallel": 8, "zero": "weights")", 16) == CollectiveReach::network);
  CHECK(reach(R"("data_parallel": 4, "tensor_parallel": 2, "pipeline_parallel": 2, "zero": "weights")", 16) ==
        CollectiveReach::node);
}

TEST_CASE("A run says how much longer its passes are for it", "[unit][training]") {
  const auto figure = [](const std::string& machine) {
    const sim::Node root = config(R"("data_parallel": 8, "zero": "weights")", machine).resolved;
    return read_experiment(test_systems(), root)
        ->run({})
        .summary.find("stages")
        ->items()
        .front()
        .at("interference_s")
        ->as_number();
  };
  const double alone = step_s(R"("data_parallel": 8, "zero": "weights")"),
               shared = step_s(R"("data_parallel": 8, "zero": "weights")", kShares);
  CHECK(figure("") == 0);
  CHECK(figure(kShares) == Approx(shared - alone).epsilon(1e-6));
}

TEST_CASE("Interference that does not go with the rest of a config", "[unit][training]") {
  CHECK_THROWS_WITH(config("", R"(, "interference": {"policy": "shares"}, "in_situ": {"overlapped": 0.7})"),
                    Contains("/machine/interference: expected `none` beside in_situ.overlapped"));
  CHECK_THROWS_WITH(config("", R"(, "interference": {"policy": "factors", "factors": {"factors": [1.2, 1.1]}})"),
                    Contains("/machine/interference: expected 28 factors, got 2"));
  CHECK_THROWS_WITH(config("", R"(, "interference": {"policy": "share"})"), Contains("'shares'"));
}

}  // namespace test_training_interference
