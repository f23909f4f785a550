// The experts system on several ranks: bounds of their rows, placements, exchanges, halves in turns, faults.
#include <catch2/catch.hpp>

#include "hw/network/node_collective.hpp"
#include "tests/experiments/experts_support.hpp"

namespace test_experts_ranks {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

/// Mixtral on ranks of one H100, experts all alike.
std::vector<std::string> on_ranks(std::vector<std::string> more = {}) {
  std::vector<std::string> out{"machine.part=h100-sxm5-80gb",
                               "machine.host.part=",
                               "machine.ranks=4",
                               "model.config=catalog:mixtral-8x7b",
                               "model.weight_format=fp8",
                               "policies.share=null",
                               "workload.router.generator.tokens=4096",
                               "workload.router.generator.layers=2",
                               "workload.batch=64",
                               "workload.skip=16"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace

TEST_CASE("experts: ranks wait for the fullest, and for the fullest way of rows", "[theory]") {
  const sim::Node got = run_experts(on_ranks());
  const experts::Config c = parsed_experts(on_ranks());
  const experts::Prices prices(c);
  CHECK(number(got, "steps") == 48);
  // Every layer's slowest rank has at least the mean of 64 x 2 rows in 4 ranks, and at most all of its two experts'.
  const std::vector<std::int64_t> even{16, 16}, all{64, 64};
  CHECK(number(got, "layer_s.experts.mean") >= 0.999e-12 * static_cast<double>(prices.gpu_ps(even)));
  CHECK(number(got, "layer_s.experts.max") <= 1e-12 * static_cast<double>(prices.gpu_ps(all)));
  // Nothing overlaps: a step is its parts, a layer's means are a step's over 32 layers.
  CHECK(number(got, "step_s.dense") == Approx(1e-12 * static_cast<double>(prices.dense_ps())));
  CHECK(number(got, "step_s.total") ==
        Approx(number(got, "step_s.dense") + number(got, "step_s.gpu_experts") + number(got, "step_s.exchange")));
  CHECK(number(got, "step_s.gpu_experts") == Approx(32 * number(got, "layer_s.experts.mean")));
  CHECK(number(got, "throughput.tokens_per_s") == Approx(64 / number(got, "step_s.total")));
  CHECK(number(got, "throughput.gpu_tokens_per_s") == Approx(16 / number(got, "step_s.total")));
  CHECK(number(got, "energy_j.idle") == Approx(4 * c.gpu->power.idle_w * number(got, "simulated_s")));
  CHECK(number(got, "energy_j.dense") == Approx(48 * 4 * prices.dense_j()));
  // Row bytes on links, there and back: no more than all rows of 4,096 bf16 twice.
  CHECK(number(got, "energy_j.exchange") > 0);
  CHECK(number(got, "energy_j.exchange") <= 48 * 32 * 2 * 64 * 2 * 4096.0 * 2 * c.gpu->link.byte_j);
  // Rows that travel once a rank, and in half the type, are never slower; on their way home they are not there onward.
  const double exchange = number(got, "step_s.exchange");
  CHECK(number(run_experts(on_ranks({"policies.exchange.once=rank"})), "step_s.exchange") < exchange);
  CHECK(number(run_experts(on_ranks({"policies.exchange.dispatch=fp8"})), "step_s.exchange") < exchange);
  CHECK(number(run_experts(on_ranks({"policies.exchange.rows=onward"})), "step_s.exchange") < 0.75 * exchange);
  // Nodes of two GPUs: rows cross adapters of a ninth of the link's rate.
  const auto nodes = [&](const char* once) {
    return number(run_experts(on_ranks({"machine.node.devices=2", "machine.node.nics=2", "workload.chunk=16",
                                        std::string("policies.exchange.once=") + once, "workload.skip=1"})),
                  "step_s.exchange");
  };
  CHECK(nodes("node") < nodes("rank"));
  CHECK(nodes("rank") < nodes("expert"));
}

TEST_CASE("experts: placements even out ranks, and gain nothing where experts are alike", "[theory]") {
  const auto imbalance = [](const char* rule, const char* router) {
    return number(run_experts(on_ranks({std::string("policies.placement.policy=") + rule, router, "workload.chunk=16",
                                        "workload.skip=1", "workload.router.generator.context=4096"})),
                  "imbalance");
  };
  const char* const skewed = "workload.router.generator.spread=1";
  CHECK(imbalance("contiguous", skewed) > 0.2);
  CHECK(imbalance("balanced", skewed) < 0.5 * imbalance("contiguous", skewed));
  CHECK(imbalance("moetuner", skewed) < 0.5 * imbalance("contiguous", skewed));
  // Four slots an expert in the mean, the more loaded ones more, whose replicas take turns.
  CHECK(number(run_experts(on_ranks({"policies.placement.policy=eplb", "policies.redundant=24", "workload.chunk=16",
                                     "workload.skip=1"})),
               "imbalance") < 0.05);
  const std::vector<std::string> even =
      on_ranks({"workload.router.generator.popularity=[1,1,1,1,1,1,1,1]", "workload.router.generator.common=1",
                "workload.router.generator.previous=0", "workload.chunk=16", "workload.router.generator.earlier=0",
                "workload.skip=1"});
  std::vector<std::string> balanced = even;
  balanced.emplace_back("policies.placement.policy=balanced");
  CHECK(number(run_experts(balanced), "throughput.tokens_per_s") ==
        Approx(number(run_experts(even), "throughput.tokens_per_s")).epsilon(0.02));
}

TEST_CASE("experts: halves in turns hide rows behind kernels, and never all of both", "[prop]") {
  for (const char* chunk : {"1", "16"}) {
    const std::vector<std::string> as = on_ranks(
        {std::string("workload.chunk=") + chunk, "workload.skip=1", "machine.node.devices=2", "machine.node.nics=2"});
    std::vector<std::string> turns = as;
    turns.emplace_back("policies.exchange.in_turns=true");
    const sim::Node got = run_experts(turns);
    CAPTURE(chunk);
    const double dense = number(got, "step_s.dense"), experts = number(got, "step_s.gpu_experts"),
                 exchange = number(got, "step_s.exchange"), total = number(got, "step_s.total");
    CHECK(total >= 0.999 * std::max(dense + experts, 1.43 * exchange));
    CHECK(total <= 1.001 * (dense + experts + 1.43 * exchange));
    // A prompt's halves cost what the whole did, nearly; a few decodes read all weights twice.
    const double whole = number(run_experts(as), "step_s.gpu_experts");
    CHECK(experts >= whole);
    if (std::string(chunk) == "1") CHECK(experts > 1.3 * whole);
  }
}

TEST_CASE("experts: rows of experts alike take what the closed form of a routed exchange says", "[theory]") {
  // Four nodes of two GPUs, many tokens, popularity all the same: 3 % is chance. Dispatch and combine are as long.
  const std::vector<std::string> as = on_ranks(
      {"machine.ranks=8", "machine.node.devices=2", "machine.node.nics=2", "workload.chunk=32", "workload.skip=1",
       "workload.router.generator.tokens=8192", "workload.router.generator.popularity=[1,1,1,1,1,1,1,1]",
       "workload.router.generator.common=1", "workload.router.generator.previous=0",
       "workload.router.generator.earlier=0", "policies.exchange.once=node"});
  const experts::Config c = parsed_experts(as);
  REQUIRE(c.nic);
  const hw::NodeFabric fabric{c.gpu->link, 2, &*c.nic, 2};
  // Each rank's 8 texts of 32 tokens, two experts each, 4,096 numbers of two bytes.
  const double bytes = 8 * 32 * 2 * 4096.0 * 2;
  const double way = hw::routed_exchange(fabric, hw::rank_group(fabric, 8, 1), bytes, 2).time_s;
  CHECK(number(run_experts(as), "layer_s.exchange.mean") == Approx(2 * way).epsilon(0.15));
}

TEST_CASE("experts: faults of ranks", "[unit]") {
  CHECK_THAT(experts_fault(on_ranks({"workload.batch=63"})),
             Contains("expected as many texts on each of 4 ranks, got 63"));
  CHECK_THAT(experts_fault(on_ranks({"policies.share=0.5"})),
             Contains("expected neither a share of them nor prefetch"));
  CHECK_THAT(experts_fault(on_ranks({"machine.host.part=xeon-6454s"})), Contains("the experts of ranks have no host"));
  CHECK_THAT(experts_fault(on_ranks({"policies.pool=2"})), Contains("stay where their keys are"));
  CHECK_THAT(experts_fault(on_ranks({"workload.skip=0"})), Contains("to plan a placement on"));
  CHECK_THAT(experts_fault(on_ranks({"machine.ranks=3", "workload.batch=63"})),
             Contains("8 slots do not share out over 3 GPUs (policies.redundant adds slots)"));
  CHECK_THAT(experts_fault(on_ranks({"machine.node.devices=3"})), Contains("expected whole nodes of whole ranks"));
  CHECK_THAT(experts_fault(on_ranks({"policies.placement.policy=moetuner", "policies.redundant=4"})),
             Contains("moetuner keeps each expert once"));
  // Sixteen-bit weights of DeepSeek-V3 on four GPUs are a result, not a fault.
  CHECK_THAT(text(run_experts(on_ranks(
                      {"model.config=catalog:deepseek-v3", "workload.router.generator.tokens=256", "workload.skip=1"})),
                  "reason"),
             Contains("of the experts needs"));
}

}  // namespace test_experts_ranks
