// The pim system: schedules that must agree, what does not fit, faults.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test_pim_system {
namespace {

using test::Scratch;

Outcome run(const std::vector<std::string>& set) {
  const Scratch scratch;
  const auto file = scratch.write("p.json", R"({"kind": "experiment", "version": 1, "system": "pim",
  "machine": {"device": {"part": "a100-sxm4-80gb"}, "pim": {"part": "attacc-bank"}},
  "model": {"config": "catalog:llama-2-7b"}, "workload": {"batch": 32, "context": 2048}})");
  return read_experiment(test_systems(), file, set)->run({});
}

double figure(const std::vector<std::string>& set, const char* path = "step_s") {
  const Outcome outcome = run(set);
  REQUIRE(outcome.feasible());
  return outcome.summary.at(path)->as_number();
}

TEST_CASE("split of none and of all are the schedules that they mean", "[unit][pim]") {
  const double gpu = figure({"policies.schedule=gpu_only"}), serial = figure({"policies.schedule=serial"});
  CHECK(figure({"policies.schedule=split", "policies.share=0"}) == Approx(gpu).epsilon(1e-9));
  CHECK(figure({"policies.schedule=split", "policies.share=1"}) == Approx(serial).epsilon(1e-9));
  CHECK(serial < gpu);  // 32 sequences of 2,048 tokens: attention in memory pays
  CHECK(figure({"policies.schedule=serial"}, "gain") == Approx(gpu / serial));
  CHECK(figure({"policies.schedule=serial"}, "throughput.output_tokens_per_s") == Approx(32 / serial));
  // More stacks never slow it down; control: without the device they do nothing.
  CHECK(figure({"policies.schedule=serial", "machine.pim.override.stacks=10"}) <= serial);
  CHECK(figure({"policies.schedule=gpu_only", "machine.pim.override.stacks=10"}) == Approx(gpu).epsilon(1e-12));
  // A short context gains nothing: the launch and the link cost more than the keys.
  CHECK(figure({"workload.context=16", "workload.batch=1"}, "gain") < 1);
}

TEST_CASE("keys that do not fit are a result", "[unit][pim]") {
  // 2,048 tokens x 2 x 32 heads x 128 x 32 layers x 2 bytes = 1 GiB a sequence; one stack of 16 GB, a tenth kept free.
  const Outcome outcome = run({"machine.pim.override.stacks=1"});
  CHECK_FALSE(outcome.feasible());
  CHECK_THAT(outcome.summary.find("reason")->as_string(), Catch::Contains("keys in the stacks need 32 GiB"));
  CHECK(run({"machine.pim.override.stacks=1", "workload.batch=4"}).feasible());
  CHECK_FALSE(run({"policies.schedule=gpu_only", "workload.batch=128"}).feasible());  // 128 GiB beside the weights
}

TEST_CASE("faults of a pim config", "[unit][pim]") {
  CHECK_THROWS_WITH(run({"machine.device.part=ddr4-3200"}), Catch::Contains("expected a part that computes (gpu, npu, cpu, "));
  CHECK_THROWS_WITH(run({"policies.share=1.5"}), Catch::Contains("/policies/share"));
  CHECK_THROWS_WITH(run({"model.config=catalog:mixtral-8x7b"}), Catch::Contains("dense model"));
  CHECK_THROWS_WITH(run({"machine.pim.part=attacc-bnk"}), Catch::Contains("attacc-bank"));
}

}  // namespace
}  // namespace orrery::experiments::test_pim_system
