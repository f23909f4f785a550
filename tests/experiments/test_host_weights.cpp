// Weights in host memory that come over the host link in every iteration.
#include <fmt/format.h>

#include "experiments/base/experiment.hpp"
#include "hw/coupling/platform.hpp"
#include "tests/experiments/leaps.hpp"
#include "tests/serving/run_config.hpp"

namespace test_host_weights {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// A model on some A100 of 80 GB, prompts of 64 tokens and answers of 16.
std::string config(const std::string& replica, const std::string& plan = R"("tensor_parallel": 1)",
                   const std::string& model = "llama-2-7b", int devices = 1, int requests = 4) {
  return fmt::format(R"({{"system": "serving",
    "machine": {{"devices": [{{"part": "a100-sxm4-80gb", "count": {}}}]}}, "model": {{"config": "catalog:{}"}},
    "workload": {{"generator": {{"requests": {}, "arrivals": {{"policy": "at_once"}},
      "lengths": {{"policy": "fixed", "fixed": {{"prompt": 64, "output": 16}}}}}}}},
    "policies": {{"batching": {{"policy": "vllm_v0"}}}}, "cluster": {{"replicas": [{{{}}}]}}, "replica": {{{}}}}})",
                     devices, model, requests, plan, replica);
}
std::string on_host(double share, const std::string& bandwidth) {
  return fmt::format(R"("max_context": 1024, "host_weights": {{"share": {}, "bandwidth": "{}"}})", share, bandwidth);
}

/// Weights of a layer of Llama-2-7B in 16 bits: four products of 4,096 by 4,096, three of 4,096 by 11,008; two norms.
constexpr double kProducts = (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008) * 2, kNorms = 2.0 * 4096 * 2;

}  // namespace

TEST_CASE("weights that come over a slow link set the pace", "[unit]") {
  // 32 layers at 1 GB/s, whatever the batch; half of them in half the time.
  CHECK(number(summary_of(config(on_host(1, "1 GB/s"))), "tbt_s.mean") ==
        Approx(32 * (kProducts + kNorms) / 1e9).epsilon(1e-6));
  CHECK(number(summary_of(config(on_host(0.5, "1 GB/s"))), "tbt_s.mean") ==
        Approx(16 * (kProducts + kNorms) / 1e9).epsilon(1e-6));
  // Each of two ranks has a link of its own, and half of the products.
  CHECK(number(summary_of(config(on_host(1, "1 GB/s"), R"("tensor_parallel": 2)", "llama-2-7b", 2)), "tbt_s.mean") ==
        Approx(32 * (kProducts / 2 + kNorms) / 1e9).epsilon(1e-6));
  // Each of two stages has half of the layers; a token passes both.
  const std::string stages = R"("tensor_parallel": 1, "pipeline_parallel": 2, "micro_batches": 2)";
  CHECK(number(summary_of(config(on_host(1, "1 GB/s"), stages, "llama-2-7b", 2)), "tbt_s.p50") ==
        Approx(32 * (kProducts + kNorms) / 1e9).epsilon(1e-3));
}

TEST_CASE("weights that come in time cost nothing, and none on the host change nothing", "[unit]") {
  const sim::Node without = summary_of(config(R"("max_context": 1024)"));
  CHECK(summary_of(config(on_host(0, "1 GB/s"))).dump() == without.dump());
  const sim::Node fast = summary_of(config(on_host(1, "100 TB/s")));
  for (const char* figure : {"tbt_s.mean", "ttft_s.mean", "e2e_s.max"})
    CHECK(number(fast, figure) == Approx(number(without, figure)).epsilon(1e-9));
  // 30 of 32 layers are not on the device; two buffers are.
  CHECK(number(without, "memory_bytes.weights") - number(fast, "memory_bytes.weights") == 30 * (kProducts + kNorms));
}

TEST_CASE("a model that does not fit is served with some of its weights on the host", "[unit]") {
  const std::string model = "llama-2-70b";
  const auto setup = [&](const std::string& replica) {
    sim::Faults faults;
    const ServingConfig read =
        read_serving_config(sim::parse_json(config(replica, R"("tensor_parallel": 1)", model), "test"),
                            test_systems().registries(), faults);
    faults.throw_if_any();
    return ServingSetup(read).infeasible().has_value();
  };
  CHECK(setup(R"("max_context": 1024)"));
  CHECK_FALSE(setup(on_host(0.6, "25 GB/s")));
  const sim::Node half = summary_of(config(on_host(0.6, "25 GB/s"), R"("tensor_parallel": 1)", model));
  CHECK(number(half, "tbt_s.mean") > 0.6 * 130e9 / 25e9);
}

TEST_CASE("without a bandwidth weights come over the platform's link", "[unit]") {
  // A GH200 copies to its device at what its platform says; an A100 without a platform at 25 GB/s.
  const std::string share = R"("max_context": 1024, "host_weights": {"share": 1})";
  std::string text = config(share);
  CHECK(summary_of(text).dump() == summary_of(config(on_host(1, "25 GB/s"))).dump());
  const std::string a100 = R"("devices": [{"part": "a100-sxm4-80gb", "count": 1}])";
  text.replace(text.find(a100), a100.size(),
               R"("devices": [{"part": "gh200-96gb", "count": 1}], "platform": {"part": "platform-gh200"})");
  const double coupled = number(summary_of(text), "tbt_s.p50");
  const auto copies = hw::read_platform("platform-gh200", home_folder() / "hw/catalog").params.copies.to_device;
  CHECK(coupled == Approx(32 * (kProducts + kNorms) / copies.bandwidth).epsilon(1e-3));
}

TEST_CASE("weights on the host leap as they step", "[prop]") {
  for (const char* bandwidth : {"1 GB/s", "500 GB/s", "1.7 TB/s", "5 TB/s"})
    (void)same_with_leaps(config(on_host(1, bandwidth), R"("tensor_parallel": 1)", "llama-2-7b", 1, 20));
}

TEST_CASE("faults of weights on the host", "[unit]") {
  CHECK(faults_of(config(R"("host_weights": {"share": 1.5})")) ==
        "my.json:/replica/host_weights/share: expected 0 to 1, got 1.5\n");
  CHECK(faults_of(config(R"("host_weights": {"bandwidth": "1 GB/s"})")) ==
        "my.json:/replica/host_weights/share: missing: expected a number\n");
}

}  // namespace test_host_weights
