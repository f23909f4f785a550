#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "sim/base/random.hpp"
#include "sim/batch_means.hpp"

namespace test_batch_means {

using namespace orrery::sim;

TEST_CASE("batch means give the mean and a fair interval", "[unit]") {
  BatchMeans means(2);
  for (const double x : {1.0, 3.0, 5.0, 7.0, 100.0}) means.add(x);  // the last batch is not whole
  CHECK(means.batches() == 2);
  CHECK(means.mean() == 4);  // of the batch means 2 and 6
  // Deviation of {2, 6} is sqrt(8); t for one degree of freedom is 12.706: half width 12.706 sqrt(8 / 2).
  CHECK(means.half_width() == Approx(12.7062047 * 2));
  BatchMeans one(10);
  for (int i = 0; i < 19; ++i) one.add(3);
  CHECK(one.half_width() == 0);
}

TEST_CASE("quantiles of Student's t and of the normal are those of the tables", "[unit]") {
  struct Row {
    std::int64_t degrees;
    double p95, p99, p90;
  };
  // Two-sided, from any book; 1 degree: tan(0.475 pi); 2 degrees: sqrt(2) c / sqrt(1 - c^2) for confidence c.
  for (const Row& row : {Row{1, 12.706205, 63.656741, 6.313752}, Row{2, 4.302653, 9.924843, 2.919986},
                         Row{3, 3.182446, 5.840909, 2.353363}, Row{10, 2.228139, 3.169273, 1.812461},
                         Row{31, 2.039513, 2.744042, 1.695519}, Row{120, 1.979930, 2.617421, 1.657651},
                         Row{400, 1.965912, 2.588176, 1.648672}, Row{1000, 1.962339, 2.580755, 1.646379}}) {
    CAPTURE(row.degrees);
    CHECK(student_t(0.95, row.degrees) == Approx(row.p95).margin(1e-6));
    CHECK(student_t(0.99, row.degrees) == Approx(row.p99).margin(1e-6));
    CHECK(student_t(0.90, row.degrees) == Approx(row.p90).margin(1e-6));
  }
  CHECK(normal_z(0.95) == Approx(1.959963984540054).epsilon(1e-14));
  CHECK(normal_z(0.999999) == Approx(4.891638475699).epsilon(1e-11));
  CHECK(student_t(0.95, 1'000'000'000) == Approx(normal_z(0.95)).epsilon(1e-8));
  // The two ways to compute meet where one takes over.
  CHECK(student_t(0.999, 400) - student_t(0.999, 401) ==
        Approx(student_t(0.999, 401) - student_t(0.999, 402)).epsilon(0.01));
  // At the end of the range that the error is stated for: 1 degree tan(0.4995 pi), 2 as above.
  CHECK(student_t(0.999, 1) == Approx(636.61924876871956).margin(1e-8));
  CHECK(student_t(0.999, 2) == Approx(31.599054576443621).margin(1e-8));
  CHECK_THROWS_AS(student_t(1, 5), std::invalid_argument);
  CHECK_THROWS_AS(student_t(0.95, 0), std::invalid_argument);
}

TEST_CASE("batches double as the series grows", "[unit]") {
  SteadyMean mean;
  CHECK(mean.interval().mean == 0);
  mean.add(4);
  CHECK(mean.interval().mean == 4);
  CHECK(mean.interval().half_width == 0);
  double sum = 4;
  for (int i = 1; i < 100'000; ++i) {
    mean.add(i % 10);
    sum += i % 10;
  }
  const SteadyMean::Interval interval = mean.interval();
  CHECK(interval.batches == 32);
  // 2,048 batches of 5 make 1,024 of 10 after 10,240 samples, of 20 after 20,480, 40 after 40,960, 80 after 81,920.
  // 1,250 of 80 make 30 groups of 39 and two of 40.
  CHECK(interval.samples == 100'000);
  CHECK(interval.skipped == 0);
  CHECK(interval.mean == Approx(sum / 100'000).epsilon(1e-12));
}

TEST_CASE("no sample is lost to the cutting into groups", "[unit]") {
  // Half zeros, half ones. 316 samples make 63 batches of 5, one of which is 3 zeros and 2 ones, and one sample over:
  // 157 ones of 315.
  SteadyMean mean;
  for (int i = 0; i < 316; ++i) mean.add(i < 158 ? 0 : 1);
  const SteadyMean::Interval interval = mean.interval();
  CHECK(interval.batches == 32);
  CHECK(interval.samples == 315);
  CHECK(interval.skipped == 0);
  CHECK(interval.mean == Approx(157 / 315.0).epsilon(1e-12));
  // 33 batches 0, 1, 2 … 32 (five of each): 32 groups, the last of two. Mean 16; squares by length, each off by i - 16,
  // the last by 15.5: (sum over i = -16 … 14 of i^2, 1496 + 1015 = 2511, + 2 * 15.5^2) 32 / 33 = 2900.84848.
  SteadyMean climbing;
  for (int i = 0; i < 165; ++i) climbing.add(i / 5);
  CHECK(climbing.interval().mean == Approx(16).epsilon(1e-12));
  CHECK(climbing.interval().half_width ==
        Approx(student_t(0.95, 31) * std::sqrt(2900.8484848 / 31 / 32)).epsilon(1e-9));
}

TEST_CASE("a transient is cut where it ends", "[unit]") {
  // Falls from 100 to noise of deviation 1 about 10 within some 500 samples.
  RandomStream random(21, "transient");
  SteadyMean cut(Transient::cut), kept;
  for (int i = 0; i < 20'000; ++i) {
    const double x = 10 + 90 * std::exp(-i / 100.0) + random.normal();
    cut.add(x);
    kept.add(x);
  }
  const SteadyMean::Interval interval = cut.interval();
  CHECK_FALSE(interval.unsettled);
  CHECK(interval.skipped > 200);
  CHECK(interval.skipped < 2000);
  CHECK(std::fabs(interval.mean - 10) < 3 * interval.half_width);
  CHECK(interval.half_width < 0.03);  // 2 / sqrt(19,000) = 0.015
  // The whole transient, the integral of 90 e^(-i / 100), 9,000, is spread over 20,000.
  CHECK(kept.interval().skipped == 0);
  CHECK(kept.interval().mean - 10 == Approx(9000 / 20'000.0).epsilon(0.1));
  // A series that only climbs never settles.
  SteadyMean climbing(Transient::cut);
  for (int i = 0; i < 5000; ++i) climbing.add(i);
  CHECK(climbing.interval().unsettled);
}

TEST_CASE("the last five batches may be all that is steady, the last four not", "[unit]") {
  // Ten batches of five samples: 0 and 2 by turns, then ones. Of the last five, all 1, the squared error is 0: the cut
  // lies before them, after 25 samples, and half of the run is not too much to cut.
  SteadyMean five(Transient::cut), four(Transient::cut);
  for (int i = 0; i < 50; ++i) five.add(i < 25 ? i / 5 % 2 * 2 : 1);
  CHECK(five.interval().skipped == 25);
  CHECK_FALSE(five.interval().unsettled);
  // With four ones the best cut is of five batches, 2 and the ones, 0.8 / 25; of the four alone nothing is said.
  for (int i = 0; i < 50; ++i) four.add(i < 30 ? i / 5 % 2 * 2 : 1);
  CHECK(four.interval().skipped == 25);
  CHECK_FALSE(four.interval().unsettled);
}

namespace {

/// How many of `runs` intervals hold the truth.
template <class Series>
int covered(int runs, std::int64_t samples, double truth, Transient transient, Series series) {
  int hits = 0;
  for (int run = 0; run < runs; ++run) {
    RandomStream random = RandomStream(33, "coverage").child(static_cast<std::uint64_t>(run));
    SteadyMean mean(transient);
    series(random, samples, [&](double x) { mean.add(x); });
    const SteadyMean::Interval interval = mean.interval();
    hits += std::fabs(interval.mean - truth) <= interval.half_width ? 1 : 0;
  }
  return hits;
}

}  // namespace

// 1,200 intervals of 95 %: binomial with mean 1,140 and deviation 7.5; four of them on either side.
TEST_CASE("95 % of the intervals of an AR(1) series hold its mean", "[theory]") {
  const auto ar1 = [](RandomStream& random, std::int64_t n, auto add) {
    double x = random.normal() / std::sqrt(1 - 0.81);  // stationary from the start: variance 1 / (1 - 0.9^2)
    for (std::int64_t i = 0; i < n; ++i) {
      add(7 + x);
      x = 0.9 * x + random.normal();
    }
  };
  const int kept = covered(1200, 15'000, 7, Transient::keep, ar1);
  CAPTURE(kept);
  CHECK(kept >= 1110);
  CHECK(kept <= 1170);
  const int cut = covered(1200, 15'000, 7, Transient::cut, ar1);
  CAPTURE(cut);
  CHECK(cut >= 1098);  // the cut looks at the data, which costs a percent
  CHECK(cut <= 1170);
}

TEST_CASE("95 % of the intervals of M/M/1 waits hold the mean wait", "[theory]") {
  // Lindley: W' = max(0, W + S - A). Load 0.5, service 1: mean wait 1. Starts empty: the cut may serve.
  const auto waits = [](RandomStream& random, std::int64_t n, auto add) {
    double wait = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      add(wait);
      wait = std::fmax(0.0, wait + random.exponential(1) - random.exponential(2));
    }
  };
  const int hits = covered(1200, 20'000, 1, Transient::keep, waits);
  CAPTURE(hits);
  CHECK(hits >= 1110);
  CHECK(hits <= 1170);
}

TEST_CASE("what is no confidence, and no degree of freedom, is refused", "[unit]") {
  for (const double confidence : {0.0, 1.0, -0.1, 1.1, std::nan("")}) {
    CHECK_THROWS_WITH(student_t(confidence, 3), "expected a confidence in (0, 1)");
    CHECK_THROWS_WITH(normal_z(confidence), "expected a confidence in (0, 1)");
    CHECK_THROWS_WITH(SteadyMean().interval(confidence), "expected a confidence in (0, 1)");
  }
  CHECK_THROWS_WITH(student_t(0.5, 0), "expected at least one degree of freedom");
  CHECK(student_t(0.5, 1) == Approx(1).epsilon(1e-12));  // tan(pi / 4)
  CHECK(student_t(0.5, 2) == Approx(std::sqrt(2.0 / 3)).epsilon(1e-12));
}

TEST_CASE("quantiles give these bits everywhere", "[golden]") {
  // Golden values are this implementation's own, written down once.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&](double value) { hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x100000001b3ULL; };
  for (const double confidence : {0.1, 0.5, 0.9, 0.95, 0.999}) {
    add(normal_z(confidence));
    for (std::int64_t degrees = 1; degrees <= 12; ++degrees) add(student_t(confidence, degrees));
    for (const std::int64_t degrees : {31, 120, 399, 400, 401, 402, 5000, 1'000'000})
      add(student_t(confidence, degrees));
  }
  CHECK(hash == 0x36e9083ced5561f5ULL);
}

TEST_CASE("batch means as they come: none, one, two and a half", "[unit]") {
  BatchMeans means(3);
  CHECK(means.mean() == 0);
  CHECK(means.batches() == 0);
  CHECK(means.half_width() == 0);
  for (const double x : {1.0, 2.0, 6.0}) means.add(x);
  CHECK(means.batches() == 1);
  CHECK(means.mean() == 3);
  CHECK(means.half_width() == 0);
  for (const double x : {4.0, 5.0}) means.add(x);
  CHECK(means.mean() == 3);  // two of three
  means.add(6);
  CHECK(means.batches() == 2);
  CHECK(means.mean() == 4);  // of 3 and 5
  for (const double x : {9.0, 10.0, 11.0}) means.add(x);
  CHECK(means.mean() == Approx(6));  // of 3, 5 and 10
  // Squares about 6: 9 + 1 + 16 = 26; t of two degrees 4.302653: 4.302653 sqrt(26 / 2 / 3).
  CHECK(means.half_width() == Approx(4.302653 * std::sqrt(26.0 / 6)).epsilon(1e-6));
  BatchMeans single(1);
  single.add(5);
  single.add(7);
  CHECK(single.batches() == 2);
}

TEST_CASE("a steady mean of few samples", "[unit]") {
  // Batches of five: up to nine samples there is one batch at most, and the mean is that of all samples.
  SteadyMean mean;
  CHECK(mean.count() == 0);
  for (int i = 1; i <= 9; ++i) {
    mean.add(i);
    const SteadyMean::Interval interval = mean.interval();
    CHECK(interval.mean == Approx((i + 1) / 2.0).epsilon(1e-15));
    CHECK(interval.samples == i);
    CHECK(interval.batches == 0);
    CHECK(interval.half_width == 0);
  }
  mean.add(10);  // 3 and 8: mean 5.5, squares 12.5, t of one degree 12.7062: 12.7062 sqrt(12.5 / 1 / 2)
  const SteadyMean::Interval two = mean.interval();
  CHECK(two.mean == 5.5);
  CHECK(two.batches == 2);
  CHECK(two.samples == 10);
  CHECK(two.half_width == Approx(12.7062047 * 2.5));
  CHECK(mean.interval(0.9).half_width == Approx(6.3137515 * 2.5));
  mean.add(100);  // alone in its batch
  CHECK(mean.interval().mean == 5.5);
  CHECK(mean.interval().samples == 10);
  CHECK(mean.count() == 11);
}

TEST_CASE("small batches are joined in pairs when there are 2,048 of them", "[unit]") {
  SteadyMean mean;
  const auto add = [&](int count) {
    for (int i = 0; i < count; ++i) mean.add(static_cast<double>(mean.count() % 7));
    return mean.interval().samples;
  };
  CHECK(add(10'239) == 10'235);  // 2,047 of five
  CHECK(add(1) == 10'240);       // 1,024 of ten
  CHECK(add(9) == 10'240);
  CHECK(add(1) == 10'250);
  double sum = 0;
  for (int i = 0; i < 10'250; ++i) sum += i % 7;
  CHECK(mean.interval().mean == Approx(sum / 10'250).epsilon(1e-13));
}

TEST_CASE("a cut that falls into the second half says that the run is too short", "[unit]") {
  // Twelve batches: four of 9, then eight of 1: all that is steady begins in the first half. With seven of 9 it does
  // not.
  const auto cut = [](int high, Transient transient) {
    SteadyMean mean(transient);
    for (int i = 0; i < 60; ++i) mean.add(i < 5 * high ? 9 : 1);
    return mean.interval();
  };
  const SteadyMean::Interval early = cut(4, Transient::cut);
  CHECK(early.skipped == 20);
  CHECK(early.samples == 40);
  CHECK(early.mean == 1);
  CHECK(early.half_width == 0);
  CHECK(early.batches == 8);
  CHECK_FALSE(early.unsettled);
  const SteadyMean::Interval late = cut(7, Transient::cut);
  CHECK(late.unsettled);
  CHECK(late.skipped == 30);  // half of them at most
  CHECK(late.samples == 30);
  CHECK(late.mean == Approx((9 + 5 * 1) / 6.0));
  const SteadyMean::Interval kept = cut(7, Transient::keep);
  CHECK_FALSE(kept.unsettled);
  CHECK(kept.skipped == 0);
  CHECK(kept.samples == 60);
}

TEST_CASE("intervals of a correlated series give these bits everywhere", "[golden]") {
  // Golden values are this implementation's own, written down once; lengths that leave batches and groups uneven.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&](double value) { hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x100000001b3ULL; };
  for (const Transient transient : {Transient::keep, Transient::cut})
    for (const int length : {23, 50, 165, 999, 12'345, 30'001}) {
      RandomStream random(3, "golden intervals");
      SteadyMean mean(transient);
      double x = 20;
      for (int i = 0; i < length; ++i) mean.add(x = 0.95 * x + random.normal());
      const SteadyMean::Interval interval = mean.interval(0.9);
      add(interval.mean);
      add(interval.half_width);
      add(static_cast<double>(1'000'000 * interval.batches + 2 * interval.skipped + (interval.unsettled ? 1 : 0)));
    }
  CHECK(hash == 0x79665f16be970009ULL);
}

}  // namespace test_batch_means
