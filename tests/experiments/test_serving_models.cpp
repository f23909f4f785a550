// What a serving config says of a model: number formats, router, expert parallelism.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_serving_models {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// Summary of the small config with these changes; requests one by one, or many at once.
sim::Node summary_of(std::vector<std::string> assignments, bool at_once = false) {
  const Scratch scratch;
  std::string together = "arrived_s,prompt_tokens,output_tokens\n";
  for (int i = 0; i < 64; ++i) together += "0,20,60\n";
  scratch.write("trace.csv", at_once ? together : small_trace());
  const fs::path config = scratch.write("c.json", small_config());
  assignments.insert(assignments.begin(), "machine.devices.0.part=h100-sxm5-80gb");
  return read_experiment(test_systems(), config, assignments)->run({}).summary;
}

double mean_tbt(const std::vector<std::string>& assignments, bool at_once = false) {
  return summary_of(assignments, at_once).find("tbt_s")->find("mean")->as_number();
}

std::int64_t weights_of(const std::vector<std::string>& assignments) {
  return summary_of(assignments).find("memory_bytes")->find("weights")->as_integer();
}

}  // namespace

TEST_CASE("weights and cache take the formats that the config gives", "[unit]") {
  const std::int64_t wide = weights_of({}), fp8 = weights_of({"model.weight_dtype=fp8"});
  CHECK(fp8 < wide);
  CHECK(2 * fp8 > wide);  // embedding, head and norms stay
  CHECK(weights_of({"model.weight_dtype=int4"}) < fp8);
  CHECK(mean_tbt({"model.weight_dtype=fp8"}) < mean_tbt({}));
  CHECK(mean_tbt({"model.kv_dtype=fp8"}) < mean_tbt({}));
  CHECK(weights_of({"model.expert_dtype=int4"}) == wide);  // a dense model has no experts
}

TEST_CASE("a published format holds unless the config says otherwise", "[unit]") {
  const std::vector<std::string> oss{"model.config=catalog:gpt-oss-20b", "model.dtype=bf16"};
  std::vector<std::string> widened = oss;
  widened.emplace_back("model.expert_dtype=bf16");
  CHECK(weights_of(widened) > 2 * weights_of(oss));  // mxfp4 as published
}

TEST_CASE("a router that spreads tokens reads more experts", "[unit]") {
  const std::vector<std::string> model{"model.config=catalog:qwen3-30b-a3b", "model.dtype=bf16"};
  std::vector<std::string> uniform = model;
  uniform.insert(uniform.end(), {"model.router.skew=0", "model.router.correlation=0"});
  // 64 decodes: 99 % of the experts against some 73 %.
  CHECK(mean_tbt(uniform, true) > 1.1 * mean_tbt(model, true));
}

TEST_CASE("experts divide over the groups, or the design does not fit", "[unit]") {
  const std::vector<std::string> model{"model.config=catalog:qwen3-30b-a3b", "model.dtype=bf16",
                                       "machine.devices.0.count=4"};
  std::vector<std::string> four = model, three = model;
  four.emplace_back("replica.expert_parallel=4");
  three.emplace_back("replica.expert_parallel=3");
  CHECK(weights_of(four) == weights_of(model));  // other slices, as many bytes
  const sim::Node odd = summary_of(three);
  CHECK(odd.find("status")->as_string() == "infeasible");
  CHECK_THAT(odd.find("reason")->as_string(), Catch::Contains("groups of experts that divide the 4 ranks"));
}

}  // namespace test_serving_models
