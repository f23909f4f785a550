// Distributions against their moments and their shape.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "goodness.hpp"
#include "sim/base/distributions.hpp"
#include "sim/base/random.hpp"

namespace test_distributions {

using namespace orrery::sim;

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}
double poisson_probability(long long k, double mean) {
  return k < 0 ? 0 : std::exp(static_cast<double>(k) * std::log(mean) - mean - std::lgamma(static_cast<double>(k) + 1));
}
}  // namespace

TEST_CASE("continuous distributions have their shape", "[prop]") {
  RandomStream r(5, "shape of more");
  SECTION("uniform on an interval") {
    CHECK(ks_distance(
              kDraws, [&] { return r.uniform(-3, 5); }, [](double x) { return (x + 3) / 8; }) < kKsLimit);
  }
  SECTION("normal of mean 3 and deviation 2") {
    CHECK(ks_distance(
              kDraws, [&] { return r.normal(3, 2); }, [](double x) { return normal_cdf((x - 3) / 2); }) < kKsLimit);
  }
  SECTION("log-normal") {
    CHECK(ks_distance(
              kDraws, [&] { return r.log_normal(1, 0.5); },
              [](double x) { return normal_cdf((std::log(x) - 1) / 0.5); }) < kKsLimit);
  }
  SECTION("Weibull") {
    for (const double shape : {0.5, 1.0, 3.0})
      CHECK(ks_distance(
                kDraws, [&] { return r.weibull(shape, 2); },
                [&](double x) { return 1 - std::exp(-std::pow(x / 2, shape)); }) < kKsLimit);
  }
  SECTION("Pareto") {
    for (const double shape : {0.8, 2.5})
      CHECK(ks_distance(
                kDraws, [&] { return r.pareto(3, shape); }, [&](double x) { return 1 - std::pow(3 / x, shape); }) <
            kKsLimit);
  }
  SECTION("Lomax") {
    CHECK(ks_distance(
              kDraws, [&] { return r.lomax(3, 1.5); }, [](double x) { return 1 - std::pow(1 + x / 3, -1.5); }) <
          kKsLimit);
  }
  SECTION("triangular: below the mode (x-a)^2 / ((b-a)(c-a))") {
    for (const double mode : {-1.0, 0.5, 4.0})
      CHECK(ks_distance(
                kDraws, [&] { return r.triangular(-1, mode, 4); },
                [&](double x) {
                  return x < mode ? (x + 1) * (x + 1) / (5 * (mode + 1)) : 1 - (4 - x) * (4 - x) / (5 * (4 - mode));
                }) < kKsLimit);
  }
  SECTION("hyper-exponential of mean 2 and variation 3: phases p = (1 + sqrt(8/10)) / 2 and 1 - p") {
    const double p = (1 + std::sqrt(0.8)) / 2;
    CHECK(ks_distance(
              kDraws, [&] { return r.hyper_exponential(2, 3); },
              [&](double x) { return 1 - p * std::exp(-p * x) - (1 - p) * std::exp(-(1 - p) * x); }) < kKsLimit);
  }
  SECTION("Gamma of shape 3 (Erlang): 1 - e^-x (1 + x + x^2/2)") {
    CHECK(ks_distance(
              kDraws, [&] { return r.gamma(3, 1); }, [](double x) { return 1 - std::exp(-x) * (1 + x + x * x / 2); }) <
          kKsLimit);
  }
}

TEST_CASE("truncated normals have their shape in every branch", "[prop]") {
  RandomStream r(6, "truncated");
  struct Case {
    double low, high;
  };
  // Wide, half-line, one-sided, narrow about the mean, narrow off it, right tail, left tail, far and narrow tail.
  for (const Case c : {Case{-2, 3}, Case{0, kInf}, Case{-kInf, 1}, Case{-0.5, 0.7}, Case{0.2, 0.4}, Case{3, kInf},
                       Case{-kInf, -4}, Case{5, 5.1}, Case{-7, -2}}) {
    CAPTURE(c.low, c.high);
    // In the right tail differences of the complement keep their digits.
    const auto above = [](double x) { return std::isinf(x) ? (x > 0 ? 0.0 : 1.0) : normal_cdf(-x); };
    const bool right = c.low > 0;
    const double total = right ? above(c.low) - above(c.high) : above(-c.high) - above(-c.low);
    const auto cdf = [&](double x) {
      const double z = (x - 10) / 2;
      return right ? (above(c.low) - above(z)) / total : (above(-z) - above(-c.low)) / total;
    };
    CHECK(ks_distance(
              kDraws / 4, [&] { return r.truncated_normal(10, 2, 10 + 2 * c.low, 10 + 2 * c.high); }, cdf) <
          2 * kKsLimit);
  }
}

TEST_CASE("further distributions have their moments", "[prop]") {
  RandomStream r(3, "moments of more");
  SECTION("Weibull of shape 2 and scale 3: mean 3 Gamma(3/2), variance 9 (1 - pi/4)") {
    const Moments m = moments(kDraws, [&] { return r.weibull(2, 3); });
    CHECK(m.mean == Approx(3 * 0.8862269254527580).epsilon(0.01));
    CHECK(m.variance == Approx(9 * (1 - 0.7853981633974483)).epsilon(0.02));
  }
  SECTION("Pareto of minimum 2 and shape 5: mean 2.5, variance 4 * 5 / (16 * 3)") {
    const Moments m = moments(kDraws, [&] { return r.pareto(2, 5); });
    CHECK(m.mean == Approx(2.5).epsilon(0.01));
    CHECK(m.variance == Approx(20.0 / 48).epsilon(0.1));
  }
  SECTION("Lomax of scale 4 and shape 5: mean 1, variance 16 * 5 / (16 * 3)") {
    const Moments m = moments(kDraws, [&] { return r.lomax(4, 5); });
    CHECK(m.mean == Approx(1).epsilon(0.02));
    CHECK(m.variance == Approx(5.0 / 3).epsilon(0.15));
  }
  SECTION("hyper-exponential: mean and variation as asked for") {
    for (const double variation : {1.0, 2.0, 4.0}) {
      const Moments m = moments(kDraws, [&] { return r.hyper_exponential(3, variation); });
      CHECK(m.mean == Approx(3).epsilon(0.03));
      CHECK(std::sqrt(m.variance) / m.mean == Approx(variation).epsilon(0.04));
    }
  }
  SECTION("triangular on 1, 2, 6: mean 3, variance (a^2+b^2+c^2-ab-ac-bc)/18 = 21/18") {
    const Moments m = moments(kDraws, [&] { return r.triangular(1, 2, 6); });
    CHECK(m.mean == Approx(3).epsilon(0.01));
    CHECK(m.variance == Approx(21.0 / 18).epsilon(0.02));
  }
  SECTION("Poisson: mean and variance alike, however large") {
    for (const double mean : {0.3, 4.0, 9.99, 10.0, 55.0, 1e4, 1e9, 1e15}) {
      const Moments m = moments(kDraws, [&] { return r.poisson(mean) - static_cast<std::int64_t>(mean); });
      const double fraction = mean - std::floor(mean);
      // Four standard errors of the mean: 4 sqrt(mean / n).
      CHECK(std::fabs(m.mean - fraction) < 4 * std::sqrt(mean / kDraws));
      CHECK(m.variance == Approx(mean).epsilon(0.02));
    }
  }
  SECTION("geometric: mean 1/p, variance (1-p)/p^2") {
    for (const double p : {0.9, 0.2, 1e-3, 1e-12}) {
      const Moments m = moments(kDraws, [&] { return r.geometric(p); });
      CHECK(m.mean == Approx(1 / p).epsilon(0.01));
      CHECK(m.variance == Approx((1 - p) / (p * p)).epsilon(0.03));
    }
  }
  SECTION("bernoulli") {
    CHECK(moments(kDraws, [&] { return r.bernoulli(0.3) ? 1 : 0; }).mean == Approx(0.3).epsilon(0.015));
    CHECK_FALSE(r.bernoulli(0));
    CHECK(r.bernoulli(1));
  }
}

TEST_CASE("counts have their shape", "[prop]") {
  RandomStream r(8, "counts");
  SECTION("Poisson by inversion and by rejection, the border between them included") {
    for (const double mean : {0.2, 3.0, 9.9, 10.0, 10.5, 12.0, 30.0, 200.0, 5000.0}) {
      CAPTURE(mean);
      const auto reach = static_cast<long long>(6 * std::sqrt(mean) + 6);
      CHECK(chi_square_ratio(
                5 * kDraws, [&] { return r.poisson(mean); }, [&](long long k) { return poisson_probability(k, mean); },
                std::max(0LL, static_cast<long long>(mean) - reach), static_cast<long long>(mean) + reach) < 1);
    }
  }
  SECTION("large Poisson means are normal: (k - mean + 1/2) / sqrt(mean), skewness 1e-6") {
    CHECK(ks_distance(
              kDraws, [&] { return static_cast<double>(r.poisson(1e12) - 1'000'000'000'000) * 1e-6; }, normal_cdf) <
          kKsLimit);
  }
  SECTION("geometric") {
    for (const double p : {0.7, 0.1}) {
      CAPTURE(p);
      CHECK(chi_square_ratio(
                kDraws, [&] { return r.geometric(p); },
                [&](long long k) { return std::pow(1 - p, static_cast<double>(k - 1)) * p; }, 1, 200) < 1);
    }
    CHECK(r.geometric(1) == 1);
  }
}

TEST_CASE("Zipf's law has its shape", "[prop]") {
  RandomStream r(8, "ranks");
  SECTION("Zipf, every exponent") {
    for (const double exponent : {0.0, 0.3, 0.99, 1.0, 1.01, 2.0, 7.0})
      for (const std::int64_t n : {1, 2, 10, 1000}) {
        CAPTURE(exponent, n);
        const Zipf zipf(n, exponent);
        double sum = 0;
        for (std::int64_t k = 1; k <= n; ++k) sum += std::pow(static_cast<double>(k), -exponent);
        CHECK(chi_square_ratio(
                  kDraws, [&] { return zipf(r); },
                  [&](long long k) { return std::pow(static_cast<double>(k), -exponent) / sum; }, 1, n) < 1);
      }
  }
  SECTION("Zipf over 1e12: by the integral of the density beyond 1000, half an integer either way") {
    const std::int64_t n = 1'000'000'000'000;
    for (const double exponent : {0.5, 1.0, 1.2}) {
      const Zipf zipf(n, exponent);
      const auto area = [&](double from, double to) {
        return exponent == 1 ? std::log(to / from)
                             : (std::pow(to, 1 - exponent) - std::pow(from, 1 - exponent)) / (1 - exponent);
      };
      double head = 0;
      for (int k = 1; k <= 1000; ++k) head += std::pow(k, -exponent);
      const double total = head + area(1000.5, static_cast<double>(n) + 0.5);
      std::vector<std::int64_t> counts(12);
      for (int i = 0; i < kDraws; ++i) {
        const auto k = static_cast<double>(zipf(r));
        ++counts[k <= 1000 ? 0 : static_cast<std::size_t>(std::log10(k / 1000.5)) + 1];
      }
      for (int decade = 0; decade < 10; ++decade) {
        const double p =
            decade == 0 ? head / total : area(1000.5 * std::pow(10, decade - 1), 1000.5 * std::pow(10, decade)) / total;
        CHECK(std::fabs(static_cast<double>(counts[static_cast<std::size_t>(decade)]) - kDraws * p) <
              4 * std::sqrt(kDraws * p * (1 - p)) + 1);
      }
    }
  }
}

TEST_CASE("choices have their shape", "[prop]") {
  RandomStream r(8, "choices");
  SECTION("weights, zeros among them") {
    const std::vector<double> weights{1, 0, 4, 0.5, 0, 2.5, 1e-6};
    const Discrete discrete(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    CHECK(chi_square_ratio(
              5 * kDraws, [&] { return static_cast<long long>(discrete(r)); },
              [&](long long k) { return weights[static_cast<std::size_t>(k)] / sum; }, 0, 6) < 1);
    const Discrete one(std::vector<double>{3.0});
    CHECK(one(r) == 0);
    std::vector<double> many(10'000);
    for (std::size_t i = 0; i < many.size(); i += 3) many[i] = static_cast<double>(i % 7);
    const Discrete sparse(many);
    for (int i = 0; i < kDraws; ++i) REQUIRE(many[sparse(r)] > 0);
  }
  SECTION("integers of a range") {
    CHECK(chi_square_ratio(
              kDraws, [&] { return r.integer(-3, 9); }, [](long long) { return 1.0 / 13; }, -3, 9) < 1);
    CHECK(r.integer(5, 5) == 5);
    constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    bool low = false, high = false;
    for (int i = 0; i < 100; ++i) {
      const std::int64_t draw = r.integer(kMin, kMax);
      low |= draw < kMin / 2;
      high |= draw > kMax / 2;
    }
    CHECK((low && high));
  }
  SECTION("shuffles: all 24 orders of 4 alike") {
    CHECK(chi_square_ratio(
              kDraws,
              [&] {
                std::vector<int> order{0, 1, 2, 3};
                r.shuffle(std::span<int>(order));
                long long rank = 0;  // in the factorial number system
                for (std::size_t i = 0; i < 4; ++i) {
                  long long smaller = 0;
                  for (std::size_t j = i + 1; j < 4; ++j) smaller += order[j] < order[i] ? 1 : 0;
                  rank = rank * static_cast<long long>(4 - i) + smaller;
                }
                return rank;
              },
              [](long long) { return 1.0 / 24; }, 0, 23) < 1);
  }
}

TEST_CASE("a draw just at a probability is not below it", "[unit]") {
  // A uniform draw u is below p for u < p: the chance of that is p to the last digit, as u is one of k / 2^53, k from 0.
  // One stream tells which u the other is about to draw.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomStream ahead(seed, "bound"), at(seed, "bound"), above(seed, "bound"), never(seed, "bound");
    const double u = ahead.uniform();
    REQUIRE((u > 0 && u < 1));
    CHECK_FALSE(at.bernoulli(u));
    CHECK(above.bernoulli(std::nextafter(u, 1.0)));
    CHECK_FALSE(never.bernoulli(0));
    CHECK(never.bernoulli(1));
  }
  // Weights u/2 and 1 - u/2 make two columns of 1/2; the first holds index 0 up to u, and index 1 from there on.
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    RandomStream ahead(seed, "column"), at(seed, "column"), above(seed, "column");
    const bool first = ahead.below(2) == 0;
    const double u = ahead.uniform();
    const double rest = 1 - u / 2;
    if (!first || u / 2 + rest != 1 || 1 - rest != u / 2) continue;  // rounded
    ++tried;
    CHECK(Discrete(std::vector<double>{u / 2, rest})(at) == 1);
    const double more = u * (1 + 1e-9);
    CHECK(Discrete(std::vector<double>{more / 2, 1 - more / 2})(above) == 0);
  }
  CHECK(tried > 10);  // or the check saw too little
}

TEST_CASE("parameters out of range are refused by name", "[unit]") {
  RandomStream r(1, "refusals");
  CHECK_THROWS_WITH(r.exponential(0), "exponential: expected mean > 0, got 0");
  CHECK_THROWS_AS(r.exponential(kNan), std::invalid_argument);
  CHECK_THROWS_AS(r.exponential(kInf), std::invalid_argument);
  CHECK_THROWS_AS(r.below(0), std::invalid_argument);
  CHECK_THROWS_AS(r.integer(2, 1), std::invalid_argument);
  CHECK_THROWS_AS(r.uniform(2, 1), std::invalid_argument);
  CHECK_THROWS_WITH(r.uniform(0, kInf), "uniform: expected a finite high, got inf");
  CHECK_THROWS_AS(r.uniform(-kInf, 0), std::invalid_argument);
  CHECK_THROWS_AS(r.uniform(kNan, 1), std::invalid_argument);
  CHECK_THROWS_WITH(r.bernoulli(1.5), "bernoulli: expected p in [0, 1], got 1.5");
  CHECK_THROWS_WITH(r.bernoulli(-0.25), "bernoulli: expected p in [0, 1], got -0.25");
  CHECK_THROWS_AS(r.bernoulli(kNan), std::invalid_argument);
  CHECK_THROWS_AS(r.normal(0, -1), std::invalid_argument);
  CHECK_THROWS_AS(r.normal(kInf, 1), std::invalid_argument);
  CHECK_THROWS_AS(r.normal(0, kInf), std::invalid_argument);
  CHECK_THROWS_AS(r.log_normal(0, -1), std::invalid_argument);
  CHECK_THROWS_AS(r.truncated_normal(kInf, 1, 0, 2), std::invalid_argument);
  CHECK_THROWS_AS(r.truncated_normal(0, 1, kNan, 2), std::invalid_argument);
  CHECK_THROWS_AS(r.truncated_normal(0, 1, 2, 2), std::invalid_argument);
  CHECK_THROWS_AS(r.truncated_normal(0, 0, 1, 2), std::invalid_argument);
  CHECK_THROWS_AS(r.gamma(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(r.gamma(1, 0), std::invalid_argument);
  CHECK_THROWS_AS(r.weibull(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(r.weibull(1, 0), std::invalid_argument);
  CHECK(r.weibull(1, 0.5) >= 0);
  CHECK(r.weibull(0.5, 1) >= 0);
  CHECK_THROWS_AS(r.pareto(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(r.pareto(1, 0), std::invalid_argument);
  CHECK_THROWS_AS(r.lomax(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(r.lomax(1, -1), std::invalid_argument);
  CHECK_THROWS_AS(r.triangular(0, 2, 1), std::invalid_argument);
  CHECK_THROWS_AS(r.triangular(2, 1, 3), std::invalid_argument);
  CHECK_THROWS_WITH(r.triangular(0, 1, kInf), "triangular: expected a finite high, got inf");
  CHECK_THROWS_AS(r.hyper_exponential(0, 2), std::invalid_argument);
  CHECK_THROWS_AS(r.hyper_exponential(1, 0.9), std::invalid_argument);
  CHECK_THROWS_AS(r.poisson(-1), std::invalid_argument);
  CHECK_THROWS_AS(r.poisson(2e15), std::invalid_argument);
  CHECK_THROWS_AS(r.poisson(kNan), std::invalid_argument);
  CHECK_THROWS_AS(r.geometric(0), std::invalid_argument);
  CHECK_THROWS_AS(r.geometric(1.1), std::invalid_argument);
  CHECK_THROWS_AS(Zipf(0, 1), std::invalid_argument);
  CHECK_THROWS_AS(Zipf(10, -0.1), std::invalid_argument);
  CHECK_THROWS_AS(Zipf(2'000'000'000'000, 1), std::invalid_argument);
  CHECK_THROWS_AS(Discrete(std::vector<double>{}), std::invalid_argument);
  CHECK_THROWS_AS(Discrete(std::vector<double>{0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(Discrete(std::vector<double>{1, -1}), std::invalid_argument);
}

TEST_CASE("distributions draw these bits everywhere", "[golden]") {
  // Hash of the first 1,000 draws. Golden values are this implementation's own, written down once.
  const Zipf zipf(1'000'000, 1.1);
  const Discrete discrete(std::vector<double>{1, 2, 3, 4.5});
  const auto hash = [](auto draw) {
    RandomStream r(42, "golden");
    std::uint64_t h = 0xcbf29ce484222325ULL;
    for (int i = 0; i < 1000; ++i) h = (h ^ std::bit_cast<std::uint64_t>(draw(r))) * 0x100000001b3ULL;
    return h;
  };
  using R = RandomStream;
  CHECK(hash([](R& r) { return r.uniform(); }) == 0x55c0564df188b20aULL);
  CHECK(hash([](R& r) { return r.uniform(-3, 5); }) == 0xb5feb0a5bb60db35ULL);
  CHECK(hash([](R& r) { return r.exponential(2); }) == 0xb279868099cef279ULL);
  CHECK(hash([](R& r) { return r.hyper_exponential(2, 3); }) == 0xf31d7c3b6e05a25bULL);
  CHECK(hash([](R& r) { return r.normal(); }) == 0x7f74083047b0185dULL);
  CHECK(hash([](R& r) { return r.normal(3, 2); }) == 0xc35aaa820132dfc3ULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, 2, 4); }) == 0x9d6387bd17d07576ULL);
  CHECK(hash([](R& r) { return r.log_normal(1, 0.5); }) == 0x1efe59cd6ad5a63bULL);
  CHECK(hash([](R& r) { return r.gamma(0.5, 2); }) == 0xb96ec95bdc96c19eULL);
  CHECK(hash([](R& r) { return r.gamma(4, 2); }) == 0xd9131ac7af845d43ULL);
  CHECK(hash([](R& r) { return r.weibull(0.7, 2); }) == 0xa0c18a9b365b6412ULL);
  CHECK(hash([](R& r) { return r.pareto(3, 1.5); }) == 0x5789c7c05904bac6ULL);
  CHECK(hash([](R& r) { return r.lomax(3, 1.5); }) == 0xe06604485432dd1aULL);
  CHECK(hash([](R& r) { return r.triangular(0, 1, 3); }) == 0x95fc9fd0060365d1ULL);
  CHECK(hash([](R& r) { return r.poisson(3); }) == 0x5ce94514dd9aee79ULL);
  CHECK(hash([](R& r) { return r.poisson(300); }) == 0x9142e057e4b3834dULL);
  // Mean and counts share fourteen digits: how likely a count is must be told without taking one from the other.
  CHECK(hash([](R& r) { return r.poisson(7e14); }) == 0xef934312fa807821ULL);
  CHECK(hash([](R& r) { return r.geometric(0.01); }) == 0x1b4c6f3d7a0a42e0ULL);
  CHECK(hash([](R& r) { return r.integer(-7, 12); }) == 0x14ec70f07e912bb3ULL);
  CHECK(hash([](R& r) { return static_cast<std::int64_t>(r.below(1000)); }) == 0xc2baeb9c9345c7d3ULL);
  CHECK(hash([&](R& r) { return zipf(r); }) == 0x5904c411378448f8ULL);
  CHECK(hash([&](R& r) { return static_cast<std::int64_t>(discrete(r)); }) == 0x61adcf3262e1ab83ULL);
}

namespace {

/// Of the first 5,000 draws of a stream, and of what the stream gives after them: as many were taken from it.
template <class Draw>
std::uint64_t hash_of_draws(Draw draw) {
  RandomStream r(43, "golden branches");
  std::uint64_t h = 0xcbf29ce484222325ULL;
  const auto add = [&](auto value) {
    h = (h ^ static_cast<std::uint64_t>(std::bit_cast<std::int64_t>(value))) * 0x100000001b3ULL;
  };
  for (int i = 0; i < 5000; ++i) add(draw(r));
  add(r.uniform());
  return h;
}

}  // namespace

TEST_CASE("distributions draw these bits everywhere, in every branch", "[golden]") {
  // Golden values are this implementation's own, written down once.
  const auto hash = [](auto draw) { return hash_of_draws(draw); };
  using R = RandomStream;
  CHECK(hash([](R& r) { return r.truncated_normal(1, 2, -3, 7); }) == 0xe4df546f52e9a6e3ULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, 0, 1e9); }) == 0x2aabc79580061e22ULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, -1e9, 1); }) == 0xc413320c76a26f09ULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, -0.5, 0.7); }) == 0x90ff73b02797edbeULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, 0.2, 0.4); }) == 0xe783f9075022294eULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, 0.5, 1.5); }) == 0x69cce064ad66ee2eULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, 0, 2.5); }) == 0xdf282fbe550a4f25ULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, -0.1, 2.6); }) == 0x0b4c6bb18d8b2cb9ULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, 3, 1e9); }) == 0xb38db2edddd2fc84ULL);
  CHECK(hash([](R& r) { return r.truncated_normal(5, 2, -9, -3); }) == 0x2e71e2412bb2f565ULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, 5, 5.1); }) == 0x4b5d9fcb0cb8229bULL);
  CHECK(hash([](R& r) { return r.truncated_normal(0, 1, 1, 1.7); }) == 0xa76a272a95d25fe5ULL);
  CHECK(hash([](R& r) { return r.poisson(0.2); }) == 0x2d2a79d7e7e990baULL);
  CHECK(hash([](R& r) { return r.poisson(9.99); }) == 0xb67260c7d772f1feULL);
  CHECK(hash([](R& r) { return r.poisson(10); }) == 0x4a170e24ee0a0c51ULL);
  CHECK(hash([](R& r) { return r.poisson(12); }) == 0xc3630723971efefcULL);
  CHECK(hash([](R& r) { return r.poisson(30); }) == 0xe870bf2bafa52ac1ULL);
  CHECK(hash([](R& r) { return r.poisson(1e6); }) == 0x881c452c820f12b2ULL);
  CHECK(hash([](R& r) { return r.poisson(0); }) == 0x94f2d19c4ceacc8fULL);
  CHECK(hash([](R& r) { return r.gamma(0.05, 1); }) == 0xcc666e661bd79eaaULL);
  CHECK(hash([](R& r) { return r.gamma(1, 3); }) == 0xb901517e42842ff0ULL);
  CHECK(hash([](R& r) { return r.gamma(1.5, 0.5); }) == 0x88858f8656c99640ULL);
  CHECK(hash([](R& r) { return r.gamma(400, 1); }) == 0x338cc222fbb02669ULL);
  CHECK(hash([](R& r) { return r.hyper_exponential(3, 1); }) == 0x8cefd6b0a814f09aULL);
  CHECK(hash([](R& r) { return r.hyper_exponential(3, 10); }) == 0x6091c49deaf53464ULL);
  CHECK(hash([](R& r) { return r.triangular(-1, -1, 4); }) == 0x5e1e00d7b2d26405ULL);
  CHECK(hash([](R& r) { return r.triangular(-1, 4, 4); }) == 0x26e191b5b2d05b03ULL);
  CHECK(hash([](R& r) { return r.triangular(2, 2, 2); }) == 0x94f2d19c4ceacc8fULL);
  CHECK(hash([](R& r) { return r.geometric(0.5); }) == 0xb4cf1f92cde697c3ULL);
  CHECK(hash([](R& r) { return r.geometric(1e-12); }) == 0x7e8f458258823c1eULL);
  CHECK(hash([](R& r) { return r.weibull(7, 0.5); }) == 0x7381ed7af076dacbULL);
  CHECK(hash([](R& r) { return r.pareto(0.5, 0.3); }) == 0x8b7286b20d70dcf0ULL);
  CHECK(hash([](R& r) { return r.lomax(0.5, 20); }) == 0xb33c2598c2a9ef9aULL);
  CHECK(hash([](R& r) { return r.log_normal(1, 0); }) == 0x25ba48611a73a09eULL);
  CHECK(hash([](R& r) { return r.uniform(3, 3); }) == 0xacc2d19c4ceacc8fULL);
  CHECK(hash([](R& r) { return r.normal(-1, 50); }) == 0x49436412d142f891ULL);
  CHECK(hash([](R& r) { return static_cast<double>(r.bernoulli(0.3)); }) == 0x0372d19c4ceacc8fULL);
  CHECK(hash([](R& r) { return r.exponential(1e-9); }) == 0x3bc9d3d27febcdb0ULL);
  CHECK(hash([](R& r) { return r.integer(-9'000'000, 1); }) == 0x0e0cfab607a816a9ULL);
  CHECK(hash([](R& r) { return static_cast<std::int64_t>(r.below(3)); }) == 0x26a4e07f27888239ULL);
  CHECK(hash([](R& r) { return static_cast<std::int64_t>(r.below(0xc000000000000000ULL) >> 1); }) ==
        0xc41a113c238fd1c9ULL);
}

TEST_CASE("ranks and weights draw these bits everywhere", "[golden]") {
  struct Ranks {
    std::int64_t n;
    double exponent;
    std::uint64_t hash;
  };
  for (const Ranks& row : std::vector<Ranks>{
           {1, 0, 0xbf3408b830223527ULL},
           {2, 1, 0x635c95511342f8acULL},
           {10, 0.5, 0x30560e189a588d93ULL},
           {10, 7, 0x93835db52202ea30ULL},
           {1000, 0, 0x4f735ab79b7d15c2ULL},
           {1000, 1, 0xc4463a176de710faULL},
           {1000, 100, 0xbf3408b830223527ULL},
           {1'000'000'000'000, 1, 0x95a65c60e212d9f0ULL},
           {1'000'000'000'000, 0.99999999999, 0xf12a5933cd18b5cdULL},
           {1'000'000'000'000, 2.5, 0xc1520d2e7da05b03ULL},
           {3, 0.3, 0x889fd281da670dc8ULL},
       }) {
    const Zipf zipf(row.n, row.exponent);
    CAPTURE(row.n, row.exponent);
    CHECK(hash_of_draws([&](RandomStream& r) { return zipf(r); }) == row.hash);
  }
  struct Weights {
    std::vector<double> weights;
    std::uint64_t hash;
  };
  for (const Weights& row : std::vector<Weights>{
           {{3}, 0x416323ce29524c5eULL},
           {{1, 1, 1, 1}, 0xae996244d9f4bc5eULL},
           {{0, 0, 5, 0}, 0x84a3a8c3d8d8ce3eULL},
           {{1, 2, 3, 4, 5, 6, 7}, 0xce5aad217ae3146cULL},
           {{1e-9, 1, 1e9}, 0x84a3a8c3d8d8ce3eULL},
           {{0.1, 0.2, 0.3, 0.4}, 0x0bb26154137ca471ULL},
           {{8, 1, 1, 1, 1, 1, 1, 1, 1}, 0x13f88ce65554ad5dULL},
       }) {
    const Discrete discrete(row.weights);
    CAPTURE(row.weights);
    CHECK(discrete.size() == row.weights.size());
    CHECK(hash_of_draws([&](RandomStream& r) { return static_cast<std::int64_t>(discrete(r)); }) == row.hash);
  }
}

TEST_CASE("what a distribution refuses, word by word", "[unit]") {
  RandomStream r(1, "words");
  CHECK_THROWS_WITH(r.uniform(2, 1), "uniform: expected low <= high, got 2");
  CHECK_THROWS_WITH(r.below(0), "below: expected n >= 1, got 0");
  CHECK_THROWS_WITH(r.integer(2, 1), "integer: expected low <= high, got 2");
  CHECK_THROWS_WITH(r.hyper_exponential(0, 2), "hyper_exponential: expected mean > 0, got 0");
  CHECK_THROWS_WITH(r.hyper_exponential(1, 0.5), "hyper_exponential: expected variation >= 1, got 0.5");
  CHECK_THROWS_WITH(r.normal(kNan, 1), "normal: expected a finite mean, got nan");
  CHECK_THROWS_WITH(r.normal(0, -1), "normal: expected deviation >= 0, got -1");
  CHECK_THROWS_WITH(r.truncated_normal(kInf, 1, 0, 1), "truncated_normal: expected a finite mean, got inf");
  CHECK_THROWS_WITH(r.truncated_normal(0, 0, 0, 1), "truncated_normal: expected deviation > 0, got 0");
  CHECK_THROWS_WITH(r.truncated_normal(0, 1, 1, 1), "truncated_normal: expected low < high, got 1");
  CHECK_THROWS_WITH(r.log_normal(0, -1), "log_normal: expected log_sigma >= 0, got -1");
  CHECK_THROWS_WITH(r.gamma(0, 1), "gamma: expected shape > 0, got 0");
  CHECK_THROWS_WITH(r.gamma(1, 0), "gamma: expected scale > 0, got 0");
  CHECK_THROWS_WITH(r.weibull(0, 1), "weibull: expected shape > 0, got 0");
  CHECK_THROWS_WITH(r.weibull(1, 0), "weibull: expected scale > 0, got 0");
  CHECK_THROWS_WITH(r.pareto(0, 1), "pareto: expected minimum > 0, got 0");
  CHECK_THROWS_WITH(r.pareto(1, 0), "pareto: expected shape > 0, got 0");
  CHECK_THROWS_WITH(r.lomax(0, 1), "lomax: expected scale > 0, got 0");
  CHECK_THROWS_WITH(r.lomax(1, 0), "lomax: expected shape > 0, got 0");
  CHECK_THROWS_WITH(r.triangular(1, 0, 2), "triangular: expected low <= mode, got 1");
  CHECK_THROWS_WITH(r.triangular(0, 3, 2), "triangular: expected mode <= high, got 3");
  CHECK_THROWS_WITH(r.poisson(-1), "poisson: expected mean in [0, 2^50], got -1");
  CHECK_THROWS_WITH(r.geometric(0), "geometric: expected p in [1e-15, 1], got 0");
  CHECK_THROWS_WITH(Zipf(0, 1), "zipf: expected n in 1 … 1e12, got 0");
  CHECK_THROWS_WITH(Zipf(1'000'000'000'001, 1), "zipf: expected n in 1 … 1e12, got 1000000000001");
  CHECK_THROWS_WITH(Zipf(3, 100.5), "zipf: expected an exponent in [0, 100], got 100.5");
  CHECK_THROWS_WITH(Zipf(3, -0.5), "zipf: expected an exponent in [0, 100], got -0.5");
  CHECK_THROWS_WITH(Discrete(std::vector<double>{1, -1}), "discrete: expected weights >= 0, got -1");
  CHECK_THROWS_WITH(Discrete(std::vector<double>{1, kInf}), "discrete: expected weights >= 0, got inf");
  CHECK_THROWS_WITH(Discrete(std::vector<double>{0}), "discrete: expected weights with a finite sum > 0, got 0");
  CHECK_THROWS_WITH(Discrete(std::vector<double>{1e308, 1e308}),
                    "discrete: expected weights with a finite sum > 0, got inf");
  // The ends of the ranges are in.
  CHECK(r.poisson(0) == 0);
  CHECK(r.poisson(0x1p50) > 0);
  CHECK(r.geometric(1e-15) >= 1);
  CHECK(r.below(1) == 0);
  CHECK(r.hyper_exponential(1, 1) > 0);
  CHECK(r.normal(4, 0) == 4);
  CHECK(r.uniform(5, 5) == 5);
  CHECK(r.triangular(5, 5, 5) == 5);
}

}  // namespace test_distributions
