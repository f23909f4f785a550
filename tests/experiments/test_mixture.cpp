// Training on several domains: the problem's optimum, what looking costs, what cannot be.
#include <catch2/catch.hpp>

#include "experiments/systems/mixture/domains.hpp"
#include "tests/experiments/support.hpp"
#include "tests/experiments/system_run.hpp"

namespace test_mixture {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

sim::Node run(const std::vector<std::string>& assignments = {}) {
  return summary_of(R"({"system": "mixture"})", assignments);
}
std::string fault(const std::vector<std::string>& assignments) {
  return faults_of_run([&] { return run(assignments); });
}

}  // namespace

TEST_CASE("mixture: gradients are those of the losses, the best loss is the least") {
  const auto problem = mixture::draw_domains(5, 4, 3, 2, 10, 1, sim::RandomStream(3, "domains"));
  sim::RandomStream random(4, "places");
  const double best = problem.best_task_loss();
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> x(5);
    for (double& value : x) value = random.normal();
    const std::vector<double> gradient = problem.task_gradient(1, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::vector<double> above = x, below = x;
      above[i] += 1e-5, below[i] -= 1e-5;
      CHECK(gradient[i] == Approx((problem.task_loss(1, above) - problem.task_loss(1, below)) / 2e-5).margin(1e-8));
    }
    double mean = 0;
    for (std::size_t j = 0; j < 3; ++j) mean += problem.task_loss(j, x) / 3;
    CHECK(mean >= best);
  }
}

TEST_CASE("mixture: shares of the tasks' own domains reach the optimum, looking costs what it says") {
  // All domains are the one task's, in unlike weights; without noise alignment finds it, even shares do not.
  const std::vector<std::string> all{"problem.tasks=1", "problem.relevant=2", "problem.noise=0"};
  auto with = all;
  with.push_back("policies.mixture.policy=alignment");
  const sim::Node aligned = run(with);
  with.back() = "policies.mixture.policy=uniform";
  const sim::Node even = run(with);
  CHECK(figure(aligned, "gap") < 0.05);
  CHECK(figure(even, "gap") > 0.2);
  CHECK(figure(even, "overhead") == 0);
  CHECK(figure(even, "domains_used") == Approx(8));
  CHECK(figure(aligned, "overhead") == Approx(2.0 * (8 + 1) * 100 / 4000));
  CHECK(figure(aligned, "loss.first") == figure(even, "loss.first"));
  // A policy that looks leaves the noise of the steps alone: one domain leaves nothing to choose.
  const std::vector<std::string> one{"problem.domains=1", "problem.relevant=1", "problem.tasks=1"};
  auto uniform = one;
  uniform.push_back("policies.mixture.policy=uniform");
  CHECK(figure(run(one), "loss.final") == figure(run(uniform), "loss.final"));
}

TEST_CASE("mixture: what cannot be is said") {
  CHECK_THAT(fault({"problem.relevant=9"}), Contains("/problem/relevant: expected at most 8 domains, got 9"));
  CHECK_THAT(fault({"training.rounds=100000", "problem.parameters=10000"}),
             Contains("/training/rounds: expected at most 2e+10 operations"));
  CHECK_THAT(fault({"policies.mixture.policy=did"}), Contains("did you mean 'dids'?"));
}

}  // namespace test_mixture
