#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "goodness.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace test_random {

using namespace orrery::sim;

TEST_CASE("a stream is decided by seed and name alone", "[unit]") {
  RandomStream a(7, "arrivals"), same(7, "arrivals"), other_name(7, "lengths"), other_seed(8, "arrivals");
  const std::uint64_t first = a.bits();
  CHECK(first == same.bits());
  CHECK(first != other_name.bits());
  CHECK(first != other_seed.bits());
}

TEST_CASE("a stream's draws are these everywhere", "[golden]") {
  RandomStream r(7, "arrivals");
  CHECK(r.bits() == 0x0016b37418721d76ULL);
  CHECK(r.bits() == 0x7a7fe2c371abc968ULL);
  CHECK(r.child(7).bits() == 0x9d5c86d260f2e2eeULL);
  CHECK(r.child("prompt").bits() == 0x87f55005b4d2e8ffULL);
}

TEST_CASE("children hang on the name, not on what was drawn", "[unit]") {
  RandomStream parent(7, "fleet");
  RandomStream before = parent.child(3);
  for (int i = 0; i < 100; ++i) parent.bits();
  RandomStream after = parent.child(3);
  for (int i = 0; i < 10; ++i) CHECK(before.bits() == after.bits());
  // Asking for children shifts nothing in the parent.
  RandomStream quiet(7, "fleet"), busy(7, "fleet");
  (void)busy.child(1);
  (void)busy.child("x");
  CHECK(quiet.bits() == busy.bits());
}

TEST_CASE("no two of many streams start alike", "[prop]") {
  std::set<std::uint64_t> first;
  std::size_t streams = 0;
  const auto note = [&](RandomStream stream) {
    first.insert(stream.bits());
    ++streams;
  };
  for (std::uint64_t seed = 0; seed < 30; ++seed)
    for (const char* name : {"", "a", "b", "ab", "7", "replica"}) {
      const RandomStream stream(seed, name);
      note(stream);
      for (std::uint64_t i = 0; i < 30; ++i) {
        note(stream.child(i));
        note(stream.child(i).child(i));
        note(stream.child(std::to_string(i)));
        note(stream.child("a").child(i));
      }
    }
  CHECK(first.size() == streams);
}

TEST_CASE("neighbouring children are unrelated", "[prop]") {
  // As below: correlation of pairs of uniforms of child i and child i+1.
  const RandomStream parent(11, "replicas");
  double product = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    RandomStream a = parent.child(i), b = parent.child(i + 1);
    for (int k = 0; k < 100; ++k) product += (a.uniform() - 0.5) * (b.uniform() - 0.5);
  }
  CHECK(std::fabs(product / 100'000 * 12) < 4 * 0.0032);
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

}  // namespace test_random
