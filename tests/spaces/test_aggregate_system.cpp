// The aggregate system: the tuner against every division, phases that add up, what does not fit, faults.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "tests/experiments/support.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test_aggregate_system {
namespace {

using test::Scratch;

Outcome run(const std::vector<std::string>& set) {
  const Scratch scratch;
  const auto file = scratch.write("a.json", R"({"kind": "experiment", "version": 1, "system": "aggregate",
  "workload": {"nodes": 20000, "edges": 4000000, "features": 64}})");
  return read_experiment(test_systems(), file, set)->run({});
}

double figure(const std::vector<std::string>& set, const char* path = "simulated_s") {
  const Outcome outcome = run(set);
  REQUIRE(outcome.feasible());
  return outcome.summary.at(path)->as_number();
}

TEST_CASE("the tuner finds the fastest division, phases add up", "[unit][pim]") {
  double best = 1e9;
  for (const char* parts : {"1", "2", "4", "8", "16", "32"})
    best = std::min(best, figure({"policies.sparse_parts=" + std::string(parts)}));
  CHECK(figure({}) == best);
  const Outcome outcome = run({});
  const sim::Node& phases = *outcome.summary.find("phase_s");
  double sum = 0;
  for (const auto& [name, value] : phases.members()) sum += value.as_number();
  CHECK(sum == Approx(figure({})).epsilon(1e-12));
  CHECK(figure({}, "sparse_parts") * figure({}, "dense_parts") == 32);
  // CPU: 4 M (4 + 4 + 256) bytes and 20,000 rows of 256 written, at 23.1 GB/s.
  CHECK(figure({}, "cpu_s") == Approx((4e6 * 264 + 20000 * 256) / 23.1e9));
  CHECK(figure({}, "gain") == Approx(figure({}, "cpu_s") / figure({})));
}

TEST_CASE("balance counts where nodes differ, and only there", "[unit][pim]") {
  const std::vector<std::string> rows{"policies.over_dpus=row", "policies.over_tasklets=row"};
  const auto with = [&](std::vector<std::string> set, bool by_row) {
    if (by_row) set.insert(set.end(), rows.begin(), rows.end());
    return figure(set, "phase_s.kernel");
  };
  CHECK(with({}, true) == Approx(with({}, false)).epsilon(0.02));
  const std::vector<std::string> skewed{"workload.degree_cv=2", "workload.order=by_degree", "policies.sparse_parts=2"};
  CHECK(with(skewed, true) > 5 * with(skewed, false));
  // Another seed draws other degrees.
  const std::vector<std::string> drawn{"workload.degree_cv=2", "policies.over_dpus=row"};
  std::vector<std::string> again = drawn;
  again.push_back("run.seed=2");
  CHECK(figure(drawn) == figure(drawn));
  CHECK(figure(drawn) != figure(again));
}

TEST_CASE("parts that no DPU holds are a result", "[unit][pim]") {
  // 16 M nodes of 1,024 columns in 32 parts: 16 M x 32 x 4 bytes a DPU.
  const Outcome outcome = run({"workload.nodes=16000000", "workload.features=1024"});
  CHECK_FALSE(outcome.feasible());
  CHECK_THAT(outcome.summary.find("reason")->as_string(), Catch::Contains("a DPU would hold"));
}

TEST_CASE("faults of an aggregate config", "[unit][pim]") {
  CHECK_THROWS_WITH(run({"policies.sparse_parts=5"}),
                    Catch::Contains("/policies/sparse_parts: expected a divisor of the part's 32 groups, got 5"));
  CHECK_THROWS_WITH(run({"policies.tasklets=25"}),
                    Catch::Contains("/policies/tasklets: expected at most the 24 tasklets of a DPU, got 25"));
  CHECK_THROWS_WITH(run({"machine.part=pygim-upmen"}), Catch::Contains("pygim-upmem"));
  CHECK_THROWS_WITH(run({"machine.part=a100-sxm4-80gb"}), Catch::Contains("expected \"pim_spmm\""));
  CHECK_THROWS_WITH(run({"machine.override.mramm=3"}), Catch::Contains("did you mean 'mram'?"));
  CHECK_THROWS_WITH(run({"policies.format=cssr"}), Catch::Contains("csr"));
}

}  // namespace
}  // namespace orrery::experiments::test_aggregate_system
