#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/statistics.hpp"

using namespace orrery::sim;

TEST_CASE("percentiles interpolate between ranks", "[unit]") {
  SampleStats stats;
  for (const std::int64_t value : {40, 10, 30, 20}) stats.add(value);
  CHECK(stats.mean() == 25);
  CHECK(stats.max() == 40);
  CHECK(stats.quantile(0) == 10);
  CHECK(stats.quantile(1) == 40);
  CHECK(stats.quantile(0.5) == 25);          // rank 1.5: between 20 and 30
  CHECK(stats.quantile(0.9) == Approx(37));  // rank 2.7: 30 + 0.7 * 10
}

TEST_CASE("without samples everything is zero", "[unit]") {
  const SampleStats stats;
  CHECK(stats.mean() == 0);
  CHECK(stats.quantile(0.99) == 0);
}

TEST_CASE("runs of equal samples count as that many", "[prop]") {
  RandomStream random(2, "runs");
  SampleStats runs, singles;
  for (int i = 0; i < 300; ++i) {
    const auto value = static_cast<std::int64_t>(random.below(1000));
    const auto count = static_cast<std::int64_t>(1 + random.below(5));
    runs.add(value, count);
    for (std::int64_t k = 0; k < count; ++k) singles.add(value);
    if (i % 50 == 0) (void)runs.quantile(0.5);  // asking in between changes nothing
  }
  CHECK(runs.count() == singles.count());
  for (double q = 0; q <= 1; q += 0.01) CHECK(runs.quantile(q) == singles.quantile(q));
}

TEST_CASE("past the exact limit a histogram answers within 0.1 %", "[prop]") {
  RandomStream random(4, "histogram");
  SampleStats stats;
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < SampleStats::kExactSamples + 200'000; ++i) {
    const auto value = static_cast<std::int64_t>(random.log_normal(20, 2));
    stats.add(value);
    all.push_back(value);
  }
  CHECK_FALSE(stats.exact());
  std::sort(all.begin(), all.end());
  for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999}) {
    const auto exact = static_cast<double>(all[static_cast<std::size_t>(q * static_cast<double>(all.size() - 1))]);
    CHECK(stats.quantile(q) == Approx(exact).epsilon(0.001));
  }
  CHECK(stats.max() == all.back());
  CHECK(stats.quantile(1) == static_cast<double>(all.back()));
}

TEST_CASE("small values keep their own buckets", "[unit]") {
  SampleStats stats;
  stats.add(3, 700'000);
  stats.add(2047, 400'000);
  CHECK_FALSE(stats.exact());
  CHECK(stats.quantile(0.5) == 3);
  CHECK(stats.quantile(0.9) == 2047);
}

TEST_CASE("no percentile leaves the range of the samples", "[unit]") {
  SampleStats stats;
  stats.add(10'001'000'420, 1'400'000);  // not the middle of its bucket
  CHECK_FALSE(stats.exact());
  CHECK(stats.quantile(0.5) == 10'001'000'420);
  CHECK(stats.quantile(0.99) == 10'001'000'420);
}

TEST_CASE("batch means give the mean and a fair interval", "[unit]") {
  BatchMeans means(2);
  for (const double x : {1.0, 3.0, 5.0, 7.0, 100.0}) means.add(x);  // the last batch is not whole
  CHECK(means.batches() == 2);
  CHECK(means.mean() == 4);  // of the batch means 2 and 6
  // Deviation of {2, 6} is sqrt(8); half width 1.96 sqrt(8 / 2).
  CHECK(means.half_width() == Approx(1.96 * 2));
}
