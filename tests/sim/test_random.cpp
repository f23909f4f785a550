#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

using namespace orrery::sim;

namespace {

struct Moments {
  double mean = 0, variance = 0;
};
template <class Draw>
Moments moments(int n, Draw draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  return {sum / n, squares / n - (sum / n) * (sum / n)};
}

/// Largest distance between the empirical distribution of n draws and `cdf`.
template <class Draw, class Cdf>
double ks_distance(int n, Draw draw, Cdf cdf) {
  std::vector<double> xs(static_cast<std::size_t>(n));
  for (double& x : xs) x = draw();
  std::sort(xs.begin(), xs.end());
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const double f = cdf(xs[static_cast<std::size_t>(i)]);
    worst = std::max({worst, std::fabs(f - static_cast<double>(i) / n), std::fabs(f - static_cast<double>(i + 1) / n)});
  }
  return worst;
}

constexpr int kDraws = 200'000;
// Kolmogorov-Smirnov at significance 0.001: 1.95 / sqrt(n).
const double kKsLimit = 1.95 / std::sqrt(static_cast<double>(kDraws));

}  // namespace

TEST_CASE("a stream is decided by seed and name alone", "[unit]") {
  RandomStream a(7, "arrivals"), same(7, "arrivals"), other_name(7, "lengths"), other_seed(8, "arrivals");
  const std::uint64_t first = a.bits();
  CHECK(first == same.bits());
  CHECK(first != other_name.bits());
  CHECK(first != other_seed.bits());
}

TEST_CASE("streams are unrelated", "[prop]") {
  // Correlation of 1e5 pairs of uniforms: standard error 1/sqrt(1e5) = 0.0032; four of them bound it.
  RandomStream a(1, "a"), b(1, "b");
  double product = 0;
  for (int i = 0; i < 100'000; ++i) product += (a.uniform() - 0.5) * (b.uniform() - 0.5);
  CHECK(std::fabs(product / 100'000 * 12) < 4 * 0.0032);
}

TEST_CASE("distributions have their moments", "[prop]") {
  RandomStream r(3, "moments");
  SECTION("uniform: mean 1/2, variance 1/12") {
    const Moments m = moments(kDraws, [&] { return r.uniform(); });
    CHECK(m.mean == Approx(0.5).margin(0.003));
    CHECK(m.variance == Approx(1.0 / 12).epsilon(0.01));
  }
  SECTION("exponential of mean 2: variance 4") {
    const Moments m = moments(kDraws, [&] { return r.exponential(2); });
    CHECK(m.mean == Approx(2).epsilon(0.01));
    CHECK(m.variance == Approx(4).epsilon(0.03));
  }
  SECTION("normal") {
    const Moments m = moments(kDraws, [&] { return r.normal(); });
    CHECK(m.mean == Approx(0).margin(0.01));
    CHECK(m.variance == Approx(1).epsilon(0.015));
  }
  SECTION("gamma of shape k and scale s: mean ks, variance ks^2") {
    for (const double shape : {0.25, 0.5, 1.0, 4.0}) {
      const Moments m = moments(kDraws, [&] { return r.gamma(shape, 2); });
      CHECK(m.mean == Approx(2 * shape).epsilon(0.02));
      CHECK(m.variance == Approx(4 * shape).epsilon(0.04));
    }
  }
  SECTION("log-normal: mean exp(mu + sigma^2 / 2)") {
    const Moments m = moments(kDraws, [&] { return r.log_normal(1, 0.5); });
    CHECK(m.mean == Approx(std::exp(1.125)).epsilon(0.01));
  }
}

TEST_CASE("distributions have their shape", "[prop]") {
  RandomStream r(5, "shape");
  CHECK(ks_distance(
            kDraws, [&] { return r.uniform(); }, [](double x) { return x; }) < kKsLimit);
  CHECK(ks_distance(
            kDraws, [&] { return r.exponential(1); }, [](double x) { return 1 - std::exp(-x); }) < kKsLimit);
  CHECK(ks_distance(
            kDraws, [&] { return r.normal(); }, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }) <
        kKsLimit);
  // Gamma(1) is exponential; Gamma(1/2, 2) is the square of a normal.
  CHECK(ks_distance(
            kDraws, [&] { return r.gamma(1, 1); }, [](double x) { return 1 - std::exp(-x); }) < kKsLimit);
  CHECK(ks_distance(
            kDraws, [&] { return r.gamma(0.5, 2); }, [](double x) { return std::erf(std::sqrt(x / 2)); }) < kKsLimit);
}

TEST_CASE("bounded integers are even", "[prop]") {
  RandomStream r(9, "below");
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts[r.below(7)];
  // Each is binomial with mean 10,000 and deviation sqrt(70,000 * 6/49) = 93.
  for (const int count : counts) CHECK(std::abs(count - 10'000) < 4 * 93);
}
