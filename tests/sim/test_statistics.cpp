#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/statistics.hpp"

namespace test_statistics {

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

TEST_CASE("no sample of count 0 counts, and negative ones are refused, exact or not", "[unit]") {
  for (const std::int64_t ones : {std::int64_t{1}, SampleStats::kExactSamples + 1}) {
    SampleStats stats;
    stats.add(1, ones);
    stats.add(100, 0);
    stats.add_run(100, 3, 0);
    CHECK(stats.exact() == (ones == 1));
    CHECK(stats.count() == ones);
    CHECK(stats.max() == 1);
    CHECK(stats.quantile(1) == 1);
    CHECK_THROWS_AS(stats.add(-5), std::logic_error);
    CHECK_THROWS_AS(stats.add(5, -1), std::logic_error);
    CHECK_THROWS_AS(stats.add_run(5, 0, -1), std::logic_error);
    CHECK_THROWS_AS(stats.add_run(-5, 1, 3), std::logic_error);
    CHECK(stats.count() == ones);
  }
}

TEST_CASE("samples with and without counts, in a row and apart, sorted and added to again", "[unit]") {
  // 3 1 2, then 2 again (a count), a 5 twice, and after a percentile 0: 0 1 2 2 3 5 5.
  SampleStats stats, parts, more;
  for (const std::int64_t value : {3, 1, 2}) stats.add(value);
  CHECK(stats.quantile(0.5) == 2);  // all once: 1 2 3
  stats.add(3);                     // equal to the last of those sorted
  CHECK(stats.quantile(0.75) == 3);
  parts.add(3);
  parts.add(1);
  parts.add(2, 2);
  more.add(5);
  more.add(5);
  parts.merge(more);
  CHECK(parts.quantile(1) == 5);
  parts.add(0);
  for (int i = 0; i < 7; ++i)
    CHECK(parts.quantile(i / 6.0) == Approx(std::vector<double>{0, 1, 2, 2, 3, 5, 5}[static_cast<std::size_t>(i)]));
  CHECK(parts.count() == 7);
  // What has counts is merged into what has none, and the other way round.
  SampleStats plain, counted;
  plain.add(7);
  plain.add(4);
  counted.add(6, 3);
  SampleStats both = plain;
  both.merge(counted);
  counted.merge(plain);
  for (const SampleStats* all : {&both, &counted}) {
    CHECK(all->count() == 5);
    CHECK(all->quantile(0) == 4);
    CHECK(all->quantile(0.25) == 6);
    CHECK(all->quantile(0.75) == 6);
    CHECK(all->quantile(1) == 7);
  }
}

TEST_CASE("merged with itself every sample counts twice", "[unit]") {
  // 1,500 runs and a slope of 6 samples, doubled twice; then past the exact limit.
  SampleStats stats, twice;
  for (std::int64_t value = 0; value < 1500; ++value) stats.add(value * 7 % 1000);
  stats.add_run(2000, 5, 6);
  for (int i = 0; i < 4; ++i) twice.merge(stats);
  stats.merge(stats);
  stats.merge(stats);
  CHECK(stats.count() == 4 * 1506);
  CHECK((stats.sum() == twice.sum()));
  for (double q = 0; q <= 1; q += 0.01) CHECK(stats.quantile(q) == twice.quantile(q));
  SampleStats large;
  large.add(3, SampleStats::kExactSamples - 1);
  for (int i = 0; i < 2; ++i) large.merge(large);
  CHECK_FALSE(large.exact());
  CHECK(large.count() == 4 * (SampleStats::kExactSamples - 1));
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

TEST_CASE("arithmetic runs count as their samples one by one", "[prop]") {
  RandomStream random(6, "slopes");
  for (const bool large : {false, true}) {
    SampleStats runs, singles;
    if (large) {  // both past the exact limit from the start, or on the way
      runs.add(77, SampleStats::kExactSamples - 20'000);
      singles.add(77, SampleStats::kExactSamples - 20'000);
    }
    for (int i = 0; i < 300; ++i) {
      const std::int64_t count = random.integer(0, 300);
      const std::int64_t slope = random.integer(-1000, 1000) * (i % 3 == 0 ? 1 : 0) + random.integer(-2, 2);
      const std::int64_t first = random.integer(0, 1LL << random.integer(1, 50)) + (slope < 0 ? -slope * count : 0);
      runs.add_run(first, slope, count);
      for (std::int64_t k = 0; k < count; ++k) singles.add(first + k * slope);
      if (i % 50 == 0) CHECK(runs.quantile(0.5) == singles.quantile(0.5));  // asking in between changes nothing
    }
    CHECK(runs.exact() == !large);
    CHECK(singles.exact() == !large);
    CHECK(runs.count() == singles.count());
    CHECK((runs.sum() == singles.sum()));
    CHECK(runs.max() == singles.max());
    for (double q = 0; q <= 1; q += 0.003) CHECK(runs.quantile(q) == singles.quantile(q));
  }
}

TEST_CASE("a run by hand", "[unit]") {
  SampleStats stats;
  stats.add_run(10, 5, 4);  // 10, 15, 20, 25
  CHECK(stats.count() == 4);
  CHECK((stats.sum() == 70));
  CHECK(stats.max() == 25);
  CHECK(stats.quantile(0.5) == 17.5);
  stats.add_run(25, -5, 4);  // the same, downwards
  CHECK(stats.quantile(0.5) == 17.5);
  CHECK(stats.quantile(0) == 10);
  CHECK_THROWS_AS(stats.add_run(10, -5, 4), std::logic_error);  // would reach -5
  CHECK(stats.count() == 8);
}

TEST_CASE("merged statistics are those of one pass", "[prop]") {
  RandomStream random(12, "merge");
  for (const std::int64_t weight :
       {std::int64_t{1}, std::int64_t{200}, std::int64_t{3000}}) {  // the last pass the limit
    SampleStats parts[3], whole;
    for (int i = 0; i < 1500; ++i) {
      const auto value = static_cast<std::int64_t>(random.log_normal(12, 3));
      SampleStats& part = parts[random.below(3)];
      if (i % 5 == 0) {
        part.add_run(value, 3, 4);
        whole.add_run(value, 3, 4);
      } else {
        part.add(value, weight);
        whole.add(value, weight);
      }
    }
    SampleStats left = parts[0], right = parts[1], swapped = parts[2];
    left.merge(parts[1]);
    left.merge(parts[2]);  // (a + b) + c
    right.merge(parts[2]);
    SampleStats first = parts[0];
    first.merge(right);  // a + (b + c)
    swapped.merge(parts[1]);
    swapped.merge(parts[0]);  // c + b + a
    SampleStats onto_empty;
    onto_empty.merge(left);
    onto_empty.merge(SampleStats{});
    for (const SampleStats* merged : {&left, &first, &swapped, &onto_empty}) {
      CHECK(merged->exact() == whole.exact());
      CHECK(merged->count() == whole.count());
      CHECK((merged->sum() == whole.sum()));
      CHECK(merged->max() == whole.max());
      for (double q = 0; q <= 1; q += 0.01) CHECK(merged->quantile(q) == whole.quantile(q));
    }
    CHECK(whole.exact() == (weight < 1000));
  }
}

TEST_CASE("statistics stay exact up to the limit and not beyond", "[unit]") {
  SampleStats a, b;
  a.add(1, SampleStats::kExactSamples / 2);
  b.add(2, SampleStats::kExactSamples / 2);
  a.merge(b);
  CHECK(a.exact());
  CHECK(a.quantile(0.5) == 1.5);
  a.add(3);
  CHECK_FALSE(a.exact());
}

TEST_CASE("statistics are exact up to the limit that was asked for", "[unit]") {
  SampleStats few(3);
  for (const std::int64_t value : {1'000'003, 5, 7}) few.add(value);
  CHECK(few.exact());
  CHECK(few.quantile(0.5) == 7);
  SampleStats two(2);
  two.add(7);
  two.add(8);
  few.merge(two);  // five are more than three
  CHECK_FALSE(few.exact());
  CHECK(few.quantile(0.5) == 7);
  CHECK(few.quantile(1) == 1'000'003);
  two.add_run(9, 1, 2);
  CHECK_FALSE(two.exact());
  CHECK(two.sum() == 7 + 8 + 9 + 10);
}

TEST_CASE("a histogram answers within its error at every size", "[prop]") {
  RandomStream random(13, "histogram");
  LogHistogram histogram;
  std::vector<std::int64_t> all;
  for (int i = 0; i < 50'000; ++i) {
    const std::int64_t value = random.integer(0, std::int64_t{1} << random.integer(0, 62));
    histogram.add(value);
    all.push_back(value);
  }
  std::sort(all.begin(), all.end());
  for (std::size_t rank = 0; rank < all.size(); rank += 97) {
    const auto exact = static_cast<double>(all[rank]);
    const double q = static_cast<double>(rank) / static_cast<double>(all.size() - 1);
    // Rounding of the rank may reach into the next sample.
    const double next = static_cast<double>(all[std::min(rank + 1, all.size() - 1)]);
    const double got = histogram.quantile(q);
    CHECK(got >= exact * (1 - LogHistogram::kRelativeError) - 1e-6 * (next - exact) - 1e-9);
    CHECK(got <= exact * (1 + LogHistogram::kRelativeError) + 1e-6 * (next - exact) + 1e-9);
  }
  CHECK(histogram.min() == all.front());
  CHECK(histogram.max() == all.back());
}

TEST_CASE("a histogram of small values by hand", "[unit]") {
  // Below 2,048 every value has its own bucket: ranks 0, 1, 2 are 5, 100, 1000, and between them it is linear.
  LogHistogram histogram;
  CHECK(histogram.quantile(0.5) == 0);
  for (const std::int64_t value : {100, 1000, 5}) histogram.add(value);
  CHECK(histogram.quantile(0) == 5);
  CHECK(histogram.quantile(0.5) == 100);
  CHECK(histogram.quantile(1) == 1000);
  CHECK(histogram.quantile(0.25) == 52.5);
  CHECK(histogram.quantile(0.75) == 550);
  CHECK(histogram.mean() == Approx(1105.0 / 3));
  // Rank 1 is the second of three that are 5 now, rank 3 is 100.
  histogram.add(5, 2);
  CHECK(histogram.quantile(0.25) == 5);
  CHECK(histogram.quantile(0.5) == 5);
  CHECK(histogram.quantile(0.75) == 100);
  // The ends are exact at any size: 1,000,000 shares a bucket of 512 values that begins at 999,936.
  LogHistogram large;
  for (const std::int64_t value : {3'000'000, 2'000'000, 1'000'000}) large.add(value);
  CHECK(large.quantile(0) == 1'000'000);
  CHECK(large.quantile(0.5) == Approx(2'000'000).epsilon(LogHistogram::kRelativeError));
  CHECK(large.quantile(1) == 3'000'000);
}

TEST_CASE("histograms merge exactly in any order", "[prop]") {
  RandomStream random(14, "merge");
  LogHistogram parts[3], whole;
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t value = random.integer(0, std::int64_t{1} << random.integer(0, 60));
    const std::int64_t count = random.integer(0, 5);
    parts[i % 3].add(value, count);
    whole.add(value, count);
  }
  LogHistogram forwards = parts[0], backwards = parts[2];
  forwards.merge(parts[1]);
  forwards.merge(parts[2]);
  backwards.merge(parts[1]);
  backwards.merge(parts[0]);
  CHECK(forwards == whole);
  CHECK(backwards == whole);
  forwards.add(0);
  CHECK_FALSE(forwards == whole);
  CHECK_THROWS_AS(whole.add(-1), std::logic_error);
}

TEST_CASE("a run fills the buckets that its samples would", "[prop]") {
  RandomStream random(15, "runs of buckets");
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t count = random.integer(0, 40);
    std::int64_t slope = random.integer(0, std::int64_t{1} << random.integer(0, 50));
    std::int64_t first = random.integer(0, std::int64_t{1} << random.integer(0, 50));
    LogHistogram run, singles;
    for (std::int64_t k = 0; k < count; ++k) singles.add(first + k * slope);
    if (i % 2 != 0) {
      first += slope * std::max<std::int64_t>(count - 1, 0);
      slope = -slope;
    }
    run.add_run(first, slope, count);
    CHECK(run == singles);
  }
}

TEST_CASE("a time average by hand", "[unit]") {
  // Level 2 for 10 ticks, 5 for 20, 0 for 10: area 20 + 100 + 0 = 120 over 40 ticks.
  TimeAverage average(Time{100}, 2, 3);
  average.set(Time{110}, 5);
  average.set(Time{130}, 7);  // overwritten at once: never lasted
  average.set(Time{130}, 0);
  CHECK((average.area(Time{140}) == 120));
  CHECK(average.mean(Time{140}) == 3);
  CHECK(average.mean(Time{130}) == 4);
  CHECK(average.min() == 0);
  CHECK(average.max() == 5);
  CHECK(average.at_or_above(Time{140}) == Duration{20});
  average.add(Time{150}, 4);
  CHECK(average.level() == 4);
  CHECK(average.at_or_above(Time{155}) == Duration{25});
  average.restart(Time{160});
  CHECK(average.mean(Time{170}) == 4);
  CHECK(average.min() == 4);
  CHECK(average.at_or_above(Time{170}) == Duration{10});
  CHECK_THROWS_AS(average.set(Time{159}, 1), std::logic_error);
  CHECK_THROWS_AS(average.restart(Time{159}), std::logic_error);
  CHECK(average.mean(Time{170}) == 4);
  CHECK(TimeAverage(Time{7}, 3).mean(Time{7}) == 3);
}

TEST_CASE("a time average is exact where doubles are not", "[unit]") {
  // 2^61 for 2^60 ticks, then 1 for one tick: 2^121 + 1 needs 122 bits.
  TimeAverage average(Time{0}, std::int64_t{1} << 61);
  average.set(Time{std::int64_t{1} << 60}, 1);
  CHECK((average.area(Time{(std::int64_t{1} << 60) + 1}) == (static_cast<__int128>(1) << 121) + 1));
}

TEST_CASE("a time average agrees with samples at every tick", "[prop]") {
  RandomStream random(16, "levels");
  TimeAverage average(Time{0}, 0, 10);
  std::int64_t level = 0, area = 0, above = 0, now = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t length = random.integer(0, 5);
    area += level * length;
    above += level >= 10 ? length : 0;
    now += length;
    level = random.integer(0, 20);
    average.set(Time{now}, level);
    CHECK((average.area(Time{now}) == area));
    CHECK(average.at_or_above(Time{now}).ticks == above);
  }
}

TEST_CASE("what is refused says so, exact or not", "[unit]") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t limit : {SampleStats::kExactSamples, std::int64_t{0}}) {
    SampleStats stats(limit);
    stats.add(7);
    const std::string of = limit == 0 ? "histogram: " : "statistics: ";
    CHECK(stats.exact() == (limit > 0));
    CHECK_THROWS_WITH(stats.add(-1), of + "a negative sample or count");
    CHECK_THROWS_WITH(stats.add(1, -1), of + "a negative sample or count");
    CHECK_THROWS_WITH(stats.add_run(1, 1, 2, -1), "statistics: a negative sample or count");
    CHECK_THROWS_WITH(stats.add_run(1, 1, -2), "statistics: a negative sample or count");
    CHECK_THROWS_WITH(stats.add_run(-1, 5, 2), of + "a run leaves the range of samples");
    CHECK_THROWS_WITH(stats.add_run(4, -5, 2), of + "a run leaves the range of samples");
    CHECK_THROWS_WITH(stats.add_run(kMost - 4, 5, 2), of + "a run leaves the range of samples");
    CHECK(stats.count() == 1);
    stats.add_run(5, -5, 2);  // to 0
    stats.add_run(kMost - 5, 5, 2);
    CHECK(stats.count() == 5);
    CHECK(stats.max() == kMost);
    CHECK((stats.sum() == static_cast<__int128>(kMost) * 2 - 5 + 5 + 7));
    stats.add_run(1, 1, 5, 0);  // nothing
    stats.add_run(1, 1, 0, 5);
    CHECK(stats.count() == 5);
    stats.add_run(9, 0, 3, 2);    // six of one value
    stats.add_run(9, 100, 1, 2);  // a run of one has no slope
    CHECK(stats.count() == 13);
    CHECK((stats.sum() == static_cast<__int128>(kMost) * 2 + 7 + 8 * 9));
    CHECK(stats.quantile(0.5) == 9);
  }
}

TEST_CASE("a run of weight three is its samples three times", "[unit]") {
  SampleStats stats;
  stats.add_run(10, 10, 3, 3);  // 10 10 10 20 20 20 30 30 30
  CHECK(stats.count() == 9);
  CHECK((stats.sum() == 180));
  CHECK(stats.mean() == 20);
  CHECK(stats.quantile(0.25) == 10);    // rank 2
  CHECK(stats.quantile(0.375) == 20);   // rank 3
  CHECK(stats.quantile(0.3125) == 15);  // rank 2.5
  CHECK(stats.quantile(0.625) == 20);
  CHECK(stats.quantile(0.75) == 30);
  stats.add(20);
  stats.add(5, 2);  // 5 5, then as above with another 20
  CHECK(stats.quantile(0) == 5);
  CHECK(stats.quantile(1.0 / 11) == 5);
  CHECK(stats.quantile(2.0 / 11) == Approx(10));
  CHECK(stats.quantile(1) == 30);
}

TEST_CASE("the last that is exact, one by one, as a run and merged", "[unit]") {
  SampleStats ones(4), run(4), merged(4), few(4);
  for (int i = 0; i < 4; ++i) ones.add(3000 + i);
  run.add_run(3000, 1, 4);
  merged.add_run(3000, 1, 2);
  few.add(3002);
  few.add(3003);
  merged.merge(few);
  for (SampleStats* stats : {&ones, &run, &merged}) {
    CHECK(stats->exact());
    CHECK(stats->quantile(0.5) == 3001.5);
    CHECK(stats->max() == 3003);
    stats->merge(SampleStats{});  // nothing changes
    CHECK(stats->exact());
  }
  ones.add(3004);
  run.add_run(3004, 1, 1);
  merged.merge(ones);  // of a histogram
  for (SampleStats* stats : {&ones, &run, &merged}) CHECK_FALSE(stats->exact());
  CHECK(ones.count() == 5);
  CHECK(run.count() == 5);
  CHECK(merged.count() == 9);
  CHECK((merged.sum() == 9 * 3000 + 6 + 10));
  SampleStats onto(4);
  onto.add(1);
  onto.merge(run);
  CHECK_FALSE(onto.exact());
  CHECK(onto.count() == 6);
  SampleStats by_runs(4);
  by_runs.add_run(10, 10, 5, 2);  // past the limit at once
  CHECK_FALSE(by_runs.exact());
  by_runs.merge(few);  // exact ones onto a histogram
  CHECK(by_runs.count() == 12);
  CHECK(by_runs.max() == 3003);
  CHECK(by_runs.quantile(0) == 10);
}

TEST_CASE("samples added after a percentile was asked for count", "[unit]") {
  SampleStats stats;
  stats.add(10);
  CHECK(stats.quantile(1) == 10);
  stats.add(10);
  stats.add(30);
  CHECK(stats.quantile(0.5) == 10);
  CHECK(stats.quantile(1) == 30);
  stats.add_run(40, 10, 2);  // 10 10 30 40 50
  CHECK(stats.quantile(0.5) == 30);
  stats.add_run(60, 10, 2);
  CHECK(stats.quantile(0.5) == 40);
  stats.add(0, 4);  // 0 0 0 0 10 10 30 40 50 60 70
  CHECK(stats.quantile(0.5) == 10);
  SampleStats other;
  other.add(5, 2);
  stats.merge(other);
  CHECK(stats.quantile(0.5) == 10);  // of 13 the seventh
  CHECK(stats.quantile(5.0 / 12) == Approx(5));
}

TEST_CASE("what a rank's bucket holds, and what is below it", "[unit]") {
  // From 2,048 on a bucket has two values, from 4,096 on four: 2,048 and 2,049, 4,100 to 4,103.
  LogHistogram histogram;
  for (const std::int64_t value : {0, 5, 5, 2047, 2048, 2049, 4101}) histogram.add(value);
  const auto place = [&](std::int64_t rank) {
    const LogHistogram::Place at = histogram.place_of(rank);
    return std::vector<std::int64_t>{at.low, at.high, at.before};
  };
  using Row = std::vector<std::int64_t>;
  CHECK(place(0) == Row{0, 0, 0});
  CHECK(place(1) == Row{5, 5, 1});
  CHECK(place(2) == Row{5, 5, 1});
  CHECK(place(3) == Row{2047, 2047, 3});
  CHECK(place(4) == Row{2048, 2049, 4});
  CHECK(place(5) == Row{2048, 2049, 4});
  CHECK(place(6) == Row{4100, 4103, 6});
  CHECK(histogram.quantile(4.0 / 6) == 2049);  // the middle of two is the upper
  CHECK(histogram.min() == 0);
  CHECK(histogram.max() == 4101);
  CHECK(LogHistogram().mean() == 0);
  histogram.add(7, 0);
  histogram.add_run(7, 1, 0);
  histogram.add_run(7, 1, 5, 0);
  CHECK(histogram.count() == 7);
  histogram.add_run(7, 0, 2, 3);
  histogram.add_run(9, -9, 1, 3);
  CHECK(histogram.count() == 16);
  CHECK((histogram.sum() == 0 + 5 + 5 + 2047 + 2048 + 2049 + 4101 + 6 * 7 + 3 * 9));
  CHECK_THROWS_WITH(histogram.add_run(7, 1, 2, -1), "histogram: a negative sample or count");
  CHECK_THROWS_WITH(histogram.add_run(7, 1, -2), "histogram: a negative sample or count");
}

TEST_CASE("histograms are equal by what they hold, not by how far they reach", "[unit]") {
  LogHistogram a, b;
  a.add(3);
  b.add(3);
  CHECK(a == b);
  b.merge(LogHistogram{});
  CHECK(a == b);
  LogHistogram c;
  c.add(4);
  CHECK_FALSE(a == c);
  // Count, sum, least and greatest alike, and the middle ones not: 1 + 5 = 2 + 4.
  LogHistogram d, e;
  for (const std::int64_t value : {0, 1, 5, 6}) d.add(value);
  for (const std::int64_t value : {0, 2, 4, 6}) e.add(value);
  CHECK_FALSE(d == e);
  d.add_run(1, 1, 2);  // 1 and 2, and a run that reaches no further than before
  e.add(1);
  e.add(2);
  CHECK(d.quantile(0.2) == 1);
}

TEST_CASE("a time average: levels that lasted, the mark and a restart", "[unit]") {
  TimeAverage average(Time{10}, 4, 4);
  average.set(Time{10}, 9);  // before any time had passed
  average.set(Time{10}, 2);
  CHECK(average.min() == 2);
  CHECK(average.max() == 2);
  CHECK(average.at_or_above(Time{20}) == Duration{0});
  average.set(Time{20}, 4);  // at the mark
  CHECK(average.at_or_above(Time{25}) == Duration{5});
  CHECK(average.max() == 4);
  average.add(Time{25}, -1);
  CHECK(average.level() == 3);
  CHECK(average.at_or_above(Time{40}) == Duration{5});
  CHECK((average.area(Time{30}) == 2 * 10 + 4 * 5 + 3 * 5));
  CHECK(average.mean(Time{30}) == 2.75);  // 55 of 20
  average.restart(Time{30});
  CHECK((average.area(Time{30}) == 0));
  CHECK(average.mean(Time{30}) == 3);
  CHECK(average.at_or_above(Time{40}) == Duration{0});
  average.set(Time{32}, 5);
  CHECK(average.at_or_above(Time{40}) == Duration{8});  // the mark stays
  CHECK(average.min() == 3);
  CHECK_THROWS_WITH(average.set(Time{31}, 1), "time average: time runs backwards");
  CHECK(TimeAverage(Time{0}, 9).at_or_above(Time{50}) == Duration{0});  // without a mark
}

}  // namespace test_statistics
