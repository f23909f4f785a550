// When a rank is fullest: in its passes, when its last gradients are made, in the optimizer's update; by hand.
#include <catch2/catch.hpp>

#include "experiments/systems/training/run.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_training_memory {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// The one stage of a decoder of four layers on one H100.
sim::Node stage(const std::string& plan, int sequence = 512, int global_batch = 1) {
  const sim::Node root = sim::parse_json(R"({"system": "training",
    "machine": {"devices": [{"part": "h100-sxm5-80gb"}]},
    "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "intermediate": 4096,
              "heads": 16, "kv_heads": 16, "head_dim": 64, "vocab": 32000, "tied": false, "loss": true}}},
    "workload": {"sequence": )" + std::to_string(sequence) +
                                             R"(, "global_batch": )" + std::to_string(global_batch) +
                                             R"(}, "plan": {)" + plan + "}}",
                                         "training.json");
  return read_experiment(test_systems(), root)->run({}).summary.find("stages")->items().front();
}

double bytes(const sim::Node& stage, const std::string& what) {
  return stage.at("memory_bytes." + what)->as_number();
}
std::string moment(const sim::Node& stage) {
  return stage.find("memory_moment")->as_string();
}

// Four layers of 4 x 1024^2 + 3 x 1024 x 4096 and two norms, a norm, two tables of 32,000 x 1,024.
constexpr double kTable = 32000.0 * 1024;
constexpr double kParameters = 4 * (4.0 * 1024 * 1024 + 3.0 * 1024 * 4096 + 2 * 1024) + 1024 + 2 * kTable;

}  // namespace

TEST_CASE("An update with casts of its own holds gradients in fp32 and one more in 16 bits", "[unit][training]") {
  const sim::Node plain = stage(""), apart = stage(R"("update_apart": true)");
  CHECK(plain.find("parameters")->as_number() == kParameters);
  CHECK(moment(plain) == "passes");
  // Weights 2, states 12, gradients 4 bytes a parameter; the last one cast is a table.
  CHECK(moment(apart) == "update");
  CHECK(bytes(apart, "gradients") == 4 * kParameters);
  CHECK(bytes(apart, "working") == 2 * kTable);
  CHECK(bytes(apart, "activations") == 0);
  CHECK(bytes(apart, "peak") == 18 * kParameters + 2 * kTable);
  // Gradients that are kept in fp32 need no cast: the passes are the fullest again.
  const sim::Node wide = stage(R"("update_apart": true, "gradients_fp32": true)");
  CHECK(moment(wide) == "passes");
  CHECK(bytes(wide, "gradients") == 4 * kParameters);
  // The casts take time: 30 bytes a parameter in one kernel, 40 in three.
  CHECK(apart.find("optimizer_s")->as_number() > 1.25 * plain.find("optimizer_s")->as_number());
  CHECK(apart.find("optimizer_s")->as_number() > wide.find("optimizer_s")->as_number());
}

TEST_CASE("Gradients made anew are not there when the one backward pass begins", "[unit][training]") {
  const sim::Node kept = stage("", 16384), anew = stage(R"("gradients_anew": true)", 16384);
  CHECK(bytes(kept, "gradients") == 2 * kParameters);
  CHECK(bytes(anew, "gradients") == 0);
  CHECK(bytes(anew, "peak") == bytes(kept, "peak") - 2 * kParameters);
  // With few activations the end of the backward pass is fuller, when all gradients are made.
  const sim::Node few = stage(R"("gradients_anew": true)", 16);
  CHECK(moment(few) == "last_gradients");
  CHECK(bytes(few, "gradients") == 2 * kParameters);
  CHECK(bytes(few, "activations") == 0);
  // From the second micro-batch on they are there.
  const sim::Node two = stage(R"("gradients_anew": true)", 16384, 2);
  CHECK(bytes(two, "peak") == bytes(kept, "peak"));
}

TEST_CASE("States in the host's memory are updated there: no gradients in fp32 on the device", "[unit][training]") {
  const auto with = [](const std::string& plan) {
    const sim::Node root = sim::parse_json(R"({"system": "training",
      "machine": {"devices": [{"part": "h100-sxm5-80gb"}], "host_link": "pcie5-x16"},
      "model": {"builder": {"policy": "decoder", "decoder": {"layers": 4, "hidden": 1024, "intermediate": 4096,
                "heads": 16, "kv_heads": 16, "head_dim": 64, "vocab": 32000, "tied": false, "loss": true}}},
      "workload": {"sequence": 64, "global_batch": 1}, "plan": {)" +
                                               plan + "}}",
                                           "training.json");
    return read_experiment(test_systems(), root)->run({}).summary.find("stages")->items().front();
  };
  CHECK(moment(with(R"("update_apart": true)")) == "update");
  CHECK(bytes(with(R"("update_apart": true, "offload_optimizer": [0.5])"), "gradients") == 2 * kParameters);
}

}  // namespace test_training_memory
