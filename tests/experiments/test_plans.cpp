// Sweeps of targets and plans: orders that must hold, fronts that must be fronts, the same rows for any threads.
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/base/experiment.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace test_plans {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

sim::Node base(const std::string& system, const std::string& extra) {
  return sim::parse_json(R"({"system": ")" + system +
                             R"(", "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 4}]},
    "model": {"config": "catalog:llama-2-7b"}, "slo": {"ttft": "300 ms"}, "replica": {"tensor_parallel": 1},
    "workload": {"generator": {"requests": 200, "arrivals": {"policy": "poisson", "poisson": {"rate": "4 1/s"}},
      "lengths": {"policy": "fixed", "fixed": {"prompt": 512, "output": 64}}}}, )" +
                             extra + "}",
                         "plans");
}
sim::Node run(const sim::Node& root) {
  return read_experiment(test_systems(), root)->run({}).summary;
}
double number(const sim::Node& node, std::string_view path) {
  const sim::Node* value = node.at(path);
  REQUIRE(value != nullptr);
  return value->as_number();
}

}  // namespace

TEST_CASE("Attainment never rises with the rate nor falls with the scale", "[prop]") {
  const sim::Node summary = run(base("slo_sweep", R"("slo_sweep": {"rates": ["2 1/s", "8 1/s", "32 1/s"],
    "scales": [0.25, 1, 4], "replications": 2})"));
  double above = 2;
  for (const sim::Node& row : summary.find("by_rate")->items()) {
    double before = -1;
    for (const auto& [scale, value] : row.find("attainment")->members()) {
      CHECK(value.as_number() >= before);  // the same requests against longer targets: exact
      before = value.as_number();
    }
    CHECK(row.at("attainment.1")->as_number() <= above + 0.02);
    above = row.at("attainment.1")->as_number();
  }
  CHECK_THROWS_AS(read_experiment(test_systems(), base("slo_sweep", R"("slo_sweep": {"scales": []})")),
                  sim::ConfigError);
}

TEST_CASE("Plans: every row, the infeasible ones with a reason, and a front that nothing beats", "[unit][prop]") {
  const std::string lists = R"("plans": {"parts": [{"part": "a100-sxm4-80gb"}, {"part": "t4"}],
    "prices": [{"part": "a100-sxm4-80gb", "per_hour": 2}],
    "devices": [2, 4], "batching": ["sarathi", "vllm_v0"], "objectives": ["latency", "energy", "cost"])";
  const sim::Node summary = run(base("plans", lists + "}"));
  // Two parts x (2 devices: TP 1, 2; 4 devices: TP 1, 2, 4) x two batchings.
  CHECK(number(summary, "plan_count") == 2 * 5 * 2);
  for (const sim::Node& plan : summary.find("plans")->items()) {
    const bool ok = plan.find("status")->as_string() == "ok";
    if (!ok) CHECK(!plan.find("reason")->as_string().empty());
    if (plan.find("part")->as_string() == "t4" && number(plan, "tensor_parallel") == 1) CHECK(!ok);  // 13.5 GB of 15
    CHECK(number(plan, "tensor_parallel") * number(plan, "replicas") == number(plan, "devices"));
    if (!plan.find("pareto")->as_boolean()) continue;
    for (const sim::Node& other : summary.find("plans")->items()) {
      if (other.find("status")->as_string() != "ok") continue;
      const bool beats = number(other, "e2e_s") < number(plan, "e2e_s") &&
                         number(other, "energy_per_output_token_j") < number(plan, "energy_per_output_token_j") &&
                         other.find("cost_per_million_tokens")->is_number() &&
                         number(other, "cost_per_million_tokens") < number(plan, "cost_per_million_tokens");
      CHECK(!beats);
    }
  }
  // Cost: 2 an hour and device over tokens a second.
  const sim::Node& best = *summary.find("best");
  CHECK(number(best, "cost_per_million_tokens") ==
        Approx(2 * number(best, "devices") / 3600 / number(best, "output_tokens_per_s") * 1e6));
  for (const sim::Node& plan : summary.find("plans")->items())
    if (plan.find("status")->as_string() == "ok") CHECK(number(plan, "e2e_s") >= number(best, "e2e_s"));
  CHECK(run(base("plans", lists + R"(, "jobs": 3})")).dump() == summary.dump());
}

TEST_CASE("Plans may be judged at their capacity", "[unit]") {
  const sim::Node summary = run(base("plans", R"("capacity": {"attainment": 0.9, "tolerance": 0.2, "replications": 1},
    "plans": {"tensor_parallel": [1, 4], "capacity": true, "rank": "capacity"})"));
  CHECK(number(summary, "plan_count") == 2);
  for (const sim::Node& plan : summary.find("plans")->items()) CHECK(number(plan, "capacity_per_s") > 0);
  CHECK(number(summary, "best.capacity_per_s") >= number(summary, "widest.capacity_per_s"));
}

TEST_CASE("Plans with expert parallelism: what divides, and what the model forbids", "[unit]") {
  sim::Node root = base("plans", R"("plans": {"tensor_parallel": [1, 2, 4], "data_parallel": [1, 2, 4],
    "expert_parallel": [1, 4]})");
  sim::assign(root, "model.config", sim::Node::string("catalog:qwen3-30b-a3b"));
  sim::assign(root, "workload.generator.requests", sim::Node::integer(40));
  const sim::Node summary = run(root);
  // 4 devices, tp x lanes: 1x1, 1x2, 1x4, 2x1, 2x2, 4x1; four groups of experts divide only the three of 4 ranks.
  CHECK(number(summary, "plan_count") == 6 + 3);
  std::int64_t four = 0;
  for (const sim::Node& plan : summary.find("plans")->items()) {
    CHECK(number(plan, "tensor_parallel") * number(plan, "data_parallel") * number(plan, "replicas") == 4);
    if (number(plan, "expert_parallel") == 4 && plan.find("status")->as_string() == "ok") ++four;
  }
  CHECK(four == 3);
  // A dense model has no experts to meet in.
  const sim::Node dense = run(base("plans", R"("plans": {"tensor_parallel": [1], "data_parallel": [4]})"));
  CHECK(dense.find("status")->as_string() == "infeasible");
  CHECK(!dense.find("plans")->items()[0].find("reason")->as_string().empty());
}

TEST_CASE("Plans of unlike replicas: divided between prefill and decode, and as the config says", "[unit][prop]") {
  const sim::Node summary = run(base("plans", R"("plans": {"tensor_parallel": [1, 2], "disaggregated": true, "jobs": 2,
    "mixes": [{"name": "one wide, two narrow", "replicas": [{"tensor_parallel": 2}, {"count": 2}]}]})"));
  // Equal: TP 1, 2. Divided, prefill TP x decode TP: 1x1: 1, 2 or 3 prefill replicas, 1x2:
  // 2, for an even number must be left, 2x1 and 2x2: 1. And the mix.
  CHECK(number(summary, "plan_count") == 2 + (3 + 1 + 1 + 1) + 1);
  std::int64_t mixed = 0;
  for (const sim::Node& plan : summary.find("plans")->items()) {
    CHECK(plan.find("status")->as_string() == "ok");
    CHECK(number(plan, "devices") == 4);
    if (!plan.find("mix")->is_string()) continue;
    ++mixed;
    CHECK(plan.find("tensor_parallel")->is_null());
    if (plan.find("mix")->as_string() == "one wide, two narrow") CHECK(number(plan, "replicas") == 3);
    if (plan.find("mix")->as_string() == "1 prefill TP 2 + 2 decode TP 1") CHECK(number(plan, "replicas") == 3);
  }
  CHECK(mixed == 7);
  CHECK_THROWS_AS(
      read_experiment(test_systems(), base("plans", R"("plans": {"mixes": [{"name": "other parts", "replicas":
    [{"device_group": 1}]}]})")),
      sim::ConfigError);
}

TEST_CASE("When no plan fits, that is the result", "[unit]") {
  const sim::Node none = run(base("plans", R"("plans": {"parts": [{"part": "t4"}], "devices": [1]})"));
  CHECK(none.find("status")->as_string() == "infeasible");
  const sim::Node odd = run(base("plans", R"("plans": {"devices": [3], "tensor_parallel": [2]})"));
  CHECK(odd.find("status")->as_string() == "infeasible");
  CHECK(number(odd, "plan_count") == 0);
}

TEST_CASE("A plan of names that nothing has, or ranked by what nobody told, is a fault", "[unit]") {
  const auto fault = [](const std::string& extra) {
    try {
      (void)read_experiment(test_systems(), base("plans", R"("plans": {)" + extra + "}"));
    } catch (const sim::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(fault(R"("batching": ["sarahti"])").find("/plans/batching: unknown batching policy 'sarahti'") !=
        std::string::npos);
  CHECK(fault(R"("dtypes": ["fp17"])").find("/plans/dtypes: unknown number format 'fp17'") != std::string::npos);
  CHECK(fault(R"("parts": [{"part": "h1000"}])").find("/plans/parts/0/part") != std::string::npos);
  CHECK(fault(R"("rank": "cost")").find("/plans/rank: expected prices") != std::string::npos);
  CHECK(fault(R"("once": true, "capacity": true)").find("/plans/once: expected either 'once' or") != std::string::npos);
  CHECK(fault(R"("rank": "capacity")").find("/plans/rank: expected capacities") != std::string::npos);
  CHECK(fault(R"("rank": "cost", "prices": [{"part": "a10g", "per_hour": 1}])") == "none");
}

TEST_CASE("A rate so low that time does not reach as far is a fault of the config", "[unit]") {
  CHECK_THROWS_AS(run(base("slo_sweep", R"("slo_sweep": {"rates": ["1e-9 1/s"], "scales": [1], "replications": 1})")),
                  sim::ConfigError);
}

TEST_CASE("A plan that cannot take the load is told, and is not the best", "[unit]") {
  // One device of four gets 60 requests a second, four at tensor parallel 1 share them.
  sim::Node root = base("plans", R"("plans": {"devices": [1, 4], "tensor_parallel": [1], "rank": "energy"})");
  sim::assign(root, "workload.rate_scale", sim::Node::real(15));
  const sim::Node summary = run(root);
  const sim::Node& one = summary.find("plans")->items()[0];
  const sim::Node& four = summary.find("plans")->items()[1];
  CHECK(one.find("status")->as_string() == "overloaded");
  CHECK_THAT(one.find("reason")->as_string(), Catch::Contains("longer and longer"));
  CHECK(number(one, "e2e_s") > 0);
  CHECK(!one.find("pareto")->as_boolean());
  CHECK(four.find("status")->as_string() == "ok");
  CHECK(number(summary, "best.devices") == 4);
  // As a job that is to be done it is served all the same, in the time that its requests take.
  sim::assign(root, "plans.once", sim::Node::boolean(true));
  const sim::Node job = run(root);
  CHECK(job.find("plans")->items()[0].find("status")->as_string() == "ok");
  CHECK(number(job.find("plans")->items()[0], "e2e_s") < number(one, "e2e_s"));  // of fewer requests
}

TEST_CASE("As many devices as take the workload, and what they cost an hour", "[unit]") {
  sim::Node root = base("plans", R"("capacity": {"attainment": 0.9, "tolerance": 0.2, "replications": 1},
    "plans": {"devices": [1], "tensor_parallel": [1], "capacity": true, "prices": [{"per_hour": 3}]})");
  sim::assign(root, "workload.rate_scale", sim::Node::real(25));  // 100 a second
  const sim::Node summary = run(root);
  const sim::Node& plan = summary.find("plans")->items()[0];
  CHECK(number(plan, "fleet_devices") == std::ceil(100 / number(plan, "capacity_per_s")));
  CHECK(number(plan, "fleet_cost_per_hour") == 3 * number(plan, "fleet_devices"));
}

}  // namespace test_plans
