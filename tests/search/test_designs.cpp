// Latin hypercube and Sobol: how evenly points lie.
#include <catch2/catch.hpp>
#include <set>

#include "experiments/search/sobol.hpp"
#include "quality.hpp"

namespace orrery::experiments::search::test_designs {
namespace {

using namespace test;

Space cube(std::size_t n) {
  Space space;
  for (std::size_t i = 0; i < n; ++i) add(space, real(fmt::format("x{}", i), 0, 1));
  return space;
}

/// The error of the mean of a figure over the first n points, as root mean square over seeds.
template <class Figure>
double mean_error(const std::string& driver, std::size_t dimensions, int n, double truth, Figure figure) {
  const Space space = cube(dimensions);
  double squares = 0;
  for (int seed = 1; seed <= 9; ++seed) {
    const auto source = make_driver(
        driver, {.space = &space, .budget = n, .random = sim::RandomStream(static_cast<std::uint64_t>(seed), "d")});
    double sum = 0;
    int count = 0;
    while (count < n)
      for (const Proposal& p : source->ask(static_cast<std::size_t>(n - count))) {
        sum += figure(p.point);
        ++count;
      }
    squares += (sum / n - truth) * (sum / n - truth) / 9;
  }
  return std::sqrt(squares);
}

TEST_CASE("a Latin hypercube has a point in every stratum of every parameter", "[search][designs]") {
  Space space = cube(3);
  add(space, integer("n", 1, 10));
  const auto driver = make_driver("latin_hypercube", {.space = &space, .budget = 50}, R"({"designs": 4})");
  const auto batch = driver->ask(50);
  REQUIRE(batch.size() == 50);
  std::vector<std::set<int>> strata(3);
  std::map<double, int> counts;
  for (const Proposal& p : batch) {
    for (std::size_t d = 0; d < 3; ++d) strata[d].insert(static_cast<int>(p.point[d] * 50));
    ++counts[p.point[3]];
  }
  for (const auto& seen : strata) CHECK(seen.size() == 50);
  for (const auto& [value, count] : counts) CHECK(count == 5);  // 50 points over 10 values
}

TEST_CASE("the kept design of several is spread wider", "[search][designs]") {
  const Space space = cube(2);
  const auto gap = [&](const char* params) {
    const auto batch = make_driver("latin_hypercube", {.space = &space, .budget = 30}, params)->ask(30);
    double least = 1e300;
    for (std::size_t i = 0; i < batch.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        least =
            std::min(least, std::hypot(batch[i].point[0] - batch[j].point[0], batch[i].point[1] - batch[j].point[1]));
    return least;
  };
  CHECK(gap(R"({"designs": 50})") > gap("{}"));
}

TEST_CASE("Sobol's polynomials are primitive, all of them up to degree 7", "[search][designs]") {
  // phi(2^d - 1) / d primitive polynomials of degree d: 1, 1, 2, 2, 6, 6, 18.
  const std::array<int, 7> known{1, 1, 2, 2, 6, 6, 18};
  for (unsigned degree = 1; degree <= 7; ++degree) {
    int count = 0;
    for (std::uint32_t inner = 0; inner < (1U << (degree - 1)); ++inner) count += primitive_polynomial(degree, inner);
    CHECK(count == known[degree - 1]);
  }
}

TEST_CASE("the plain sequence is the published one", "[search][designs]") {
  // Computed with scipy 1.10, stats.qmc.Sobol(8, scramble=False): points 1, 2, 3 and 5.
  SobolSequence sequence(8, false, 0);
  std::vector<std::vector<double>> points;
  for (int i = 0; i < 6; ++i) points.push_back(sequence.next());
  CHECK(points[1] == std::vector<double>(8, 0.5));
  CHECK(points[2] == std::vector<double>{0.75, 0.25, 0.25, 0.25, 0.75, 0.75, 0.25, 0.75});
  CHECK(points[3] == std::vector<double>{0.25, 0.75, 0.75, 0.75, 0.25, 0.25, 0.75, 0.25});
  CHECK(points[5] == std::vector<double>{0.875, 0.875, 0.125, 0.375, 0.875, 0.625, 0.875, 0.375});
}

TEST_CASE("2^k points fall into 2^k parts of each of 40 dimensions, scrambled or not", "[search][designs][prop]") {
  for (const bool scrambled : {false, true}) {
    SobolSequence sequence(40, scrambled, 11);
    std::vector<std::set<int>> parts(40);
    for (int i = 0; i < 1024; ++i) {
      const auto point = sequence.next();
      for (std::size_t d = 0; d < 40; ++d) parts[d].insert(static_cast<int>(point[d] * 1024));
    }
    for (const auto& seen : parts) CHECK(seen.size() == 1024);
  }
}

TEST_CASE("the first two dimensions fill every elementary rectangle", "[search][designs][prop]") {
  for (int k = 0; k <= 8; ++k) {
    SobolSequence sequence(2, true, 5);
    std::set<int> seen;
    for (int i = 0; i < 256; ++i) {
      const auto point = sequence.next();
      seen.insert(static_cast<int>(point[0] * (1 << k)) * 1000 + static_cast<int>(point[1] * (1 << (8 - k))));
    }
    CHECK(seen.size() == 256);
  }
}

TEST_CASE("means over designs are far closer than over random points", "[search][designs]") {
  const auto sum = [](const Point& x) { return x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]; };  // mean 4/3
  const auto product = [](const Point& x) { return 16 * x[0] * x[1] * x[2] * x[3]; };                     // mean 1
  const double random = mean_error("random", 4, 256, 4.0 / 3, sum);
  CHECK(mean_error("latin_hypercube", 4, 256, 4.0 / 3, sum) < random / 20);
  CHECK(mean_error("sobol", 4, 256, 4.0 / 3, sum) < random / 20);
  CHECK(mean_error("sobol", 4, 256, 1, product) < mean_error("random", 4, 256, 1, product) / 5);
}

TEST_CASE("designs skip what is not allowed", "[search][designs]") {
  const Space space = mixed_space();
  for (const char* name : {"latin_hypercube", "sobol"}) {
    const auto batch = make_driver(name, {.space = &space, .budget = 100})->ask(100);
    CHECK(batch.size() == 100);
    for (const Proposal& p : batch) CHECK(space.allowed(p.point));
  }
}

}  // namespace
}  // namespace orrery::experiments::search::test_designs
