// CMA-ES: the distribution that learns, the margin of whole numbers, restarts.
#include <catch2/catch.hpp>
#include <map>

#include "experiments/search/cma.hpp"
#include "quality.hpp"

namespace orrery::experiments::search::test_cma_es {
namespace {

using namespace test;

TEST_CASE("the distribution learns an ellipsoid that lies askew", "[search][cma]") {
  // Axes of lengths 1 : 1000, turned by 45 degrees: no single coordinate is of use.
  const auto cost = [](const Eigen::VectorXd& x) {
    const double a = (x[0] + x[1]) / std::sqrt(2.0), b = (x[0] - x[1]) / std::sqrt(2.0);
    return a * a + 1e6 * b * b;
  };
  CmaDistribution cma(Eigen::VectorXd::Constant(2, 1.0), 0.5, 8);
  sim::RandomStream random(1, "test");
  for (int generation = 0; generation < 120; ++generation) {
    std::vector<std::pair<double, Eigen::VectorXd>> samples;
    for (std::size_t i = 0; i < cma.lambda(); ++i) {
      const Eigen::VectorXd step = cma.draw(random);
      samples.emplace_back(cost(cma.mean() + cma.sigma() * step), step);
    }
    std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Eigen::VectorXd> steps;
    for (auto& [value, step] : samples) steps.push_back(std::move(step));
    cma.learn(steps, Eigen::VectorXd::Ones(2));
  }
  CHECK(cost(cma.mean()) < 1e-12);
  CHECK(cma.elongation() > 100);  // towards 1000
  CHECK(cma.elongation() < 10'000);
}

/// Reals that matter much, whole numbers that matter little and late: they freeze before their turn comes.
Quality late_integers(const std::string& params) {
  Space space;
  for (int i = 0; i < 3; ++i) add(space, real(fmt::format("x{}", i), 0, 1));
  for (int i = 0; i < 5; ++i) add(space, integer(fmt::format("n{}", i), 0, 9));
  const auto cost = [](const Proposal& p) {
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += 1000 * (p.point[i] - 0.3) * (p.point[i] - 0.3);
    for (std::size_t i = 3; i < 8; ++i) sum += 0.1 * std::abs(p.point[i] - 7);
    return Evaluation{.objectives = {sum}};
  };
  std::vector<double> best;
  for (std::uint64_t seed = 1; seed <= 9; ++seed) {
    UniqueDriver driver(
        make_driver("cma_es", {.space = &space, .budget = 1500, .random = sim::RandomStream(seed, "driver")}, params),
        space, {seed, "unique"});
    best.push_back(best_of(run_search(driver, on_threads(cost, 1), {.budget = 1500, .batch = 10})));
  }
  return quartiles(std::move(best));
}

TEST_CASE("a margin keeps whole numbers from freezing", "[search][cma]") {
  const Quality with = late_integers("{}"), without = late_integers(R"({"margin": false})");
  INFO("with " << text_of(with) << ", without " << text_of(without));
  CHECK(with.median < 1e-3);
  CHECK(without.median > 0.1);  // at least one number off by one
}

TEST_CASE("runs that have ended begin anew with twice the population", "[search][cma]") {
  Space space;
  for (int i = 0; i < 3; ++i) add(space, real(fmt::format("x{}", i), 0, 1));
  const auto driver = make_driver("cma_es", {.space = &space, .budget = 3000});
  const auto bowl = [](const Proposal& p) {
    double sum = 0;
    for (const double x : p.point) sum += (x - 0.6) * (x - 0.6);
    return Evaluation{.objectives = {sum}};
  };
  (void)run_search(*driver, on_threads(bowl, 1), {.budget = 3000, .batch = 7});
  const auto figures = driver->statistics();
  const std::map<std::string, double> found(figures.begin(), figures.end());
  CHECK(found.at("restarts") >= 1);
  CHECK(found.at("population") == Approx(7 * std::pow(2, found.at("restarts"))));  // 4 + floor(3 ln 3) = 7
}

}  // namespace
}  // namespace orrery::experiments::search::test_cma_es
