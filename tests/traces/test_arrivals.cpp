// Arrival processes against theory, with fixed seeds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support.hpp"
#include "traces/summary.hpp"

namespace test_arrivals {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

GeneratorParams with_arrivals(int requests, std::string_view block) {
  return generator(fmt::format(
      R"({{"requests": {}, "arrivals": {}, "lengths": {{"policy": "fixed", "fixed": {{"prompt": 1, "output": 1}}}}}})",
      requests, block));
}

std::vector<double> arrivals(int requests, std::string_view block, std::uint64_t seed = 1) {
  const auto source = make_generated_trace(with_arrivals(requests, block), seed);
  std::vector<double> times;
  for (const TraceRecord& record : read_all(*source)) times.push_back(static_cast<double>(record.arrival_ns) * 1e-9);
  REQUIRE(times.size() == static_cast<std::size_t>(requests));
  REQUIRE(std::is_sorted(times.begin(), times.end()));
  return times;
}

std::vector<double> gaps(std::vector<double> times) {
  for (std::size_t i = times.size(); i-- > 1;) times[i] -= times[i - 1];
  return times;
}

/// Kolmogorov-Smirnov statistic times sqrt(n): above 1.63 in one of a hundred samples of the true distribution.
double kolmogorov(std::vector<double> sample, const std::function<double(double)>& cdf) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double worst = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double f = cdf(sample[i]);
    worst = std::max({worst, f - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - f});
  }
  return worst * std::sqrt(n);
}

double mean_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}
double cv_of(const std::vector<double>& x) {
  const double mean = mean_of(x);
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(x.size() - 1)) / mean;
}

constexpr int kMany = 40'000;

}  // namespace

TEST_CASE("a trace without its first requests counts from the last of them") {
  const auto whole = arrivals(5, R"({"policy": "fixed", "fixed": {"rate": "2 1/s"}})");
  const auto cut = [&](std::int64_t count) {
    const auto source =
        without_first(make_generated_trace(with_arrivals(5, R"({"policy": "fixed", "fixed": {"rate": "2 1/s"}})"), 1),
                      count, "t.csv");
    std::vector<double> times;
    for (const TraceRecord& record : read_all(*source)) times.push_back(static_cast<double>(record.arrival_ns) * 1e-9);
    return times;
  };
  CHECK(cut(0) == whole);
  // Two a second: the third comes half a second after the second.
  CHECK(cut(2) == std::vector<double>{0.5, 1, 1.5});
  CHECK(cut(4) == std::vector<double>{0.5});
  CHECK_THROWS_WITH(cut(5), "t.csv: expected more than the 5 requests that are left out, got 5");
  CHECK_THROWS_WITH(cut(9), "t.csv: expected more than the 9 requests that are left out, got 5");
}

TEST_CASE("poisson gaps are exponential and independent", "[unit][prop]") {
  const auto g = gaps(arrivals(kMany, R"({"policy": "poisson", "poisson": {"rate": "2.5 req/s"}})"));
  CHECK(kolmogorov(g, [](double x) { return 1 - std::exp(-2.5 * x); }) < 1.63);
  CHECK(mean_of(g) == Approx(0.4).epsilon(0.015));  // deviation of the mean: 1 / sqrt(40000) = 0.5 %
  CHECK(cv_of(g) == Approx(1).epsilon(0.02));
  // Lag-one correlation of independent gaps has deviation 1 / sqrt(n) = 0.005.
  double product = 0, square = 0;
  for (std::size_t i = 0; i + 1 < g.size(); ++i) product += (g[i] - 0.4) * (g[i + 1] - 0.4);
  for (const double v : g) square += (v - 0.4) * (v - 0.4);
  CHECK(std::fabs(product / square) < 0.015);
}

TEST_CASE("gamma gaps have the given rate and spread", "[unit][prop]") {
  // cv^2 = 1/2: shape 2, scale 0.25 s at 2 req/s; F(x) = 1 - e^(-4x) (1 + 4x).
  const auto even =
      gaps(arrivals(kMany, R"({"policy": "gamma", "gamma": {"rate": "2 req/s", "cv": 0.70710678118654752}})"));
  CHECK(kolmogorov(even, [](double x) { return 1 - std::exp(-4 * x) * (1 + 4 * x); }) < 1.63);
  // cv^2 = 2: shape 1/2, scale 1 s; F(x) = erf(sqrt x).
  const auto bursty =
      gaps(arrivals(kMany, R"({"policy": "gamma", "gamma": {"rate": "2 req/s", "cv": 1.4142135623730951}})"));
  CHECK(kolmogorov(bursty, [](double x) { return std::erf(std::sqrt(x)); }) < 1.63);
  CHECK(mean_of(bursty) == Approx(0.5).epsilon(0.022));  // 3 deviations of 1.41 / sqrt(40000)
  CHECK(cv_of(bursty) == Approx(std::sqrt(2.0)).epsilon(0.04));
}

TEST_CASE("fixed arrivals do not drift", "[unit]") {
  const auto source =
      make_generated_trace(with_arrivals(3'000'000, R"({"policy": "fixed", "fixed": {"rate": "3 req/s"}})"), 1);
  TraceRecord record;
  std::int64_t last = 0;
  for (int k = 1; source->next(record); ++k) {
    if (k == 1) CHECK(record.arrival_ns == 333'333'333);
    if (k == 2) CHECK(record.arrival_ns == 666'666'667);
    last = record.arrival_ns;
  }
  CHECK(last == 1'000'000'000'000'000);  // 3 million at 3 a second: a million seconds, to the nanosecond
}

TEST_CASE("diurnal arrivals follow the sine", "[unit][prop]") {
  // Mean 10 req/s, period 100 s, peak 1.8 times the mean; 40,000 requests are some 40 periods.
  const auto times = arrivals(kMany, R"({"policy": "diurnal",
      "diurnal": {"rate": "10 req/s", "peak_to_mean": 1.8, "period": "100 s", "phase": 0.25}})");
  const double periods = std::floor(times.back() / 100);
  CHECK(times.back() == Approx(4000).epsilon(0.02));
  std::vector<double> parts;
  for (const double t : times)
    if (t < periods * 100) parts.push_back(std::fmod(t, 100) / 100);
  // Phase 0.25 starts at the peak: density 1 + 0.8 cos(2 pi u), F(u) = u + 0.8 sin(2 pi u) / (2 pi).
  constexpr double kTwoPi = 6.283185307179586;
  CHECK(kolmogorov(parts, [](double u) { return u + 0.8 * std::sin(kTwoPi * u) / kTwoPi; }) < 1.63);
  // Tenth around the peak (u in 0.95 … 1.05): 0.1 + 0.8 * 2 sin(0.1 pi) / (2 pi) = 0.17869 of all; trough: 0.02131.
  const auto share = [&](double from, double to) {
    return static_cast<double>(
               std::count_if(parts.begin(), parts.end(), [&](double u) { return u >= from && u < to; })) /
           static_cast<double>(parts.size());
  };
  CHECK(share(0, 0.05) + share(0.95, 1) == Approx(0.17869).epsilon(0.04));
  CHECK(share(0.45, 0.55) == Approx(0.02131).epsilon(0.12));
  // A flat day is a Poisson process.
  const auto flat =
      gaps(arrivals(kMany, R"({"policy": "diurnal", "diurnal": {"rate": "10 req/s", "peak_to_mean": 1}})"));
  CHECK(kolmogorov(flat, [](double x) { return 1 - std::exp(-10 * x); }) < 1.63);
}

TEST_CASE("arrivals past what nanoseconds hold are a fault", "[unit]") {
  const auto source =
      make_generated_trace(with_arrivals(100'000, R"({"policy": "fixed", "fixed": {"rate": "1e-6 req/s"}})"), 1);
  CHECK(fault_of([&] { read_all(*source); }) ==
        "generated trace: arrivals pass 292 years, the most that 64 bits of nanoseconds hold (raise the rate or ask "
        "for fewer requests)");
}

namespace {

std::vector<double> gaps_of(std::string_view arrivals, int count) {
  const auto source =
      make_generated_trace(generator(std::string(R"({"requests": )") + std::to_string(count) +
                                     R"(, "lengths": {"policy": "fixed"}, "arrivals": )" + std::string(arrivals) + "}"),
                           7);
  std::vector<double> gaps;
  TraceRecord record;
  std::int64_t last = 0;
  while (source->next(record)) {
    gaps.push_back(static_cast<double>(record.arrival_ns - last) * 1e-9);
    last = record.arrival_ns;
  }
  return gaps;
}

}  // namespace

TEST_CASE("at_once brings a batch", "[unit]") {
  CHECK(gaps_of(R"({"policy": "at_once"})", 5) == std::vector<double>(5, 0.0));
}

TEST_CASE("windowed_gamma keeps the rate and has the shape's variation", "[theory]") {
  // CV of gamma gaps: 1 / sqrt(shape). 20,000 gaps: the mean of a rate of 2 is 0.5 +- 2 %.
  for (const double shape : {0.25, 0.5, 1.0, 4.0}) {
    const auto gaps = gaps_of(R"({"policy": "windowed_gamma", "windowed_gamma": {"rate": "2 req/s", "shape": )" +
                                  std::to_string(shape) + "}}",
                              20'000);
    CHECK(mean_of(gaps) == Approx(0.5).epsilon(0.04));
    CHECK(cv_of(gaps) == Approx(1 / std::sqrt(shape)).epsilon(0.06));
  }
}

TEST_CASE("windowed_gamma: windows have their own rates, mean as given", "[theory]") {
  // Rates 3 : 1 in windows of 100 s around 10 a second: 15 and 5 a second, so three quarters of all come in even ones.
  const auto gaps = gaps_of(
      R"({"policy": "windowed_gamma", "windowed_gamma": {"rate": "10 req/s", "window": "100 s", "shape": 1, "rates": [3, 1]}})",
      40'000);
  double at = 0;
  int even = 0;
  for (const double gap : gaps) even += static_cast<int>((at += gap) / 100) % 2 == 0;
  CHECK(even / 40'000.0 == Approx(0.75).epsilon(0.02));
  CHECK(at == Approx(4000).epsilon(0.03));
}

TEST_CASE("windowed_gamma follows the day of BurstGPT's conversations", "[theory]") {
  // 20 days at one a second. Peak hour over mean hour of the profile: 188.2 / 81.5 (its mean) = 2.31; the night falls
  // below a thirtieth of the peak.
  const auto gaps = gaps_of(
      R"({"policy": "windowed_gamma", "windowed_gamma": {"rate": "0.05 req/s", "shape": 1, "day": "chatgpt_conversation"}})",
      86'400);
  std::vector<double> hours(24, 0);
  double at = 0;
  for (const double gap : gaps) hours[static_cast<std::size_t>((at += gap) / 3600) % 24] += 1;
  const double mean = mean_of(hours);
  CHECK(hours[16] / mean == Approx(2.31).epsilon(0.05));
  CHECK(hours[16] / hours[4] > 30);
  CHECK(at == Approx(86'400 / 0.05).epsilon(0.03));
}

}  // namespace test_arrivals
