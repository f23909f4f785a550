// Length samplers against theory, with fixed seeds.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "support.hpp"
#include "traces/summary.hpp"

namespace test_lengths {

using namespace orrery::traces;
using namespace orrery::traces::test;

namespace {

constexpr int kMany = 40'000;

GeneratorParams with_lengths(std::string_view block, std::string_view limits = "{}", int requests = kMany) {
  return generator(fmt::format(R"({{"requests": {}, "arrivals": {{"policy": "fixed"}}, "lengths": {}, "limits": {}}})",
                               requests, block, limits));
}

std::vector<TraceRecord> draw(std::string_view block, std::string_view limits = "{}", int requests = kMany) {
  return read_all(*make_generated_trace(with_lengths(block, limits, requests), 1));
}

struct Moments {
  double mean = 0, cv = 0;
};
Moments moments(const std::vector<TraceRecord>& records, std::int64_t TraceRecord::*field) {
  double sum = 0, squares = 0;
  for (const TraceRecord& record : records) sum += static_cast<double>(record.*field);
  const auto n = static_cast<double>(records.size());
  for (const TraceRecord& record : records) squares += std::pow(static_cast<double>(record.*field) - sum / n, 2);
  return {sum / n, std::sqrt(squares / (n - 1)) / (sum / n)};
}

/// Kolmogorov distance of a whole-number sample from P(n <= k) = cdf(k), times sqrt(n); conservative for steps.
double kolmogorov(const std::vector<TraceRecord>& records, std::int64_t TraceRecord::*field,
                  const std::function<double(std::int64_t)>& cdf) {
  std::map<std::int64_t, int> counts;
  for (const TraceRecord& record : records) ++counts[record.*field];
  const auto n = static_cast<double>(records.size());
  double below = 0, worst = 0;
  for (const auto& [value, count] : counts) {
    worst = std::max(worst, std::fabs(below / n - cdf(value - 1)));
    below += count;
    worst = std::max(worst, std::fabs(below / n - cdf(value)));
  }
  return worst * std::sqrt(n);
}

constexpr auto kPrompt = &TraceRecord::prompt_tokens;
constexpr auto kOutput = &TraceRecord::output_tokens;

}  // namespace

TEST_CASE("log-normal lengths have the given means and spreads", "[unit][prop]") {
  const auto records = draw(R"({"policy": "log_normal",
      "log_normal": {"prompt_mean": 600, "prompt_cv": 1.2, "output_mean": 220, "output_cv": 0.5}})");
  CHECK(moments(records, kPrompt).mean == Approx(600).epsilon(0.018));  // 3 deviations of 1.2 / sqrt(40000)
  CHECK(moments(records, kPrompt).cv == Approx(1.2).epsilon(0.08));
  CHECK(moments(records, kOutput).mean == Approx(220).epsilon(0.0075));
  CHECK(moments(records, kOutput).cv == Approx(0.5).epsilon(0.03));
  // sigma^2 = ln(1 + 1.44), mu = ln 600 - sigma^2 / 2; rounded to nearest: n <= k is x < k + 1/2.
  const double variance = std::log(2.44), mu = std::log(600) - variance / 2;
  CHECK(kolmogorov(records, kPrompt, [&](std::int64_t k) {
          return k < 1 ? 0 : 0.5 * std::erfc((mu - std::log(static_cast<double>(k) + 0.5)) / std::sqrt(2 * variance));
        }) < 1.63);
}

TEST_CASE("geometric lengths are memoryless in whole tokens", "[unit][prop]") {
  const auto records =
      draw(R"({"policy": "geometric", "geometric": {"prompt_mean": 50.4, "output_mean": 20, "fixed_prompt": true}})");
  CHECK(moments(records, kPrompt).mean == 50);
  CHECK(moments(records, kPrompt).cv == 0);
  CHECK(moments(records, kOutput).mean == Approx(20).epsilon(0.015));
  CHECK(moments(records, kOutput).cv == Approx(std::sqrt(0.95)).epsilon(0.02));  // cv^2 = 1 - p
  CHECK(kolmogorov(records, kOutput, [](std::int64_t k) { return 1 - std::pow(0.95, static_cast<double>(k)); }) < 1.63);
  const auto both = draw(R"({"policy": "geometric", "geometric": {"prompt_mean": 3, "output_mean": 1}})");
  CHECK(kolmogorov(both, kPrompt, [](std::int64_t k) { return 1 - std::pow(2.0 / 3, static_cast<double>(k)); }) < 1.63);
  CHECK(moments(both, kOutput).mean == 1);
}

TEST_CASE("uniform lengths reach both ends", "[unit][prop]") {
  const auto records = draw(
      R"({"policy": "uniform", "uniform": {"prompt_min": 3, "prompt_max": 12, "output_min": 7, "output_max": 7}})");
  CHECK(kolmogorov(records, kPrompt, [](std::int64_t k) { return static_cast<double>(k - 2) / 10; }) < 1.63);
  CHECK(moments(records, kOutput).mean == 7);
  CHECK(fault_of([] { draw(R"({"policy": "uniform", "uniform": {"prompt_min": 3, "prompt_max": 2}})"); }) ==
        "uniform lengths: expected each minimum not above its maximum");
}

TEST_CASE("zipf lengths follow the power law", "[unit][prop]") {
  const auto records = draw(R"({"policy": "zipf",
      "zipf": {"prompt_max": 100, "prompt_exponent": 1.5, "output_max": 4, "output_exponent": 0}})");
  const auto weight = [](std::int64_t max) {
    double sum = 0;
    for (std::int64_t n = 1; n <= max; ++n) sum += std::pow(static_cast<double>(n), -1.5);
    return sum;
  };
  CHECK(kolmogorov(records, kPrompt, [&](std::int64_t k) { return weight(k) / weight(100); }) < 1.63);
  CHECK(kolmogorov(records, kOutput, [](std::int64_t k) { return static_cast<double>(k) / 4; }) <
        1.63);  // exponent 0: uniform
}

TEST_CASE("empirical lengths are rows of the trace, kept together", "[unit]") {
  const Scratch scratch;
  const std::string path =
      scratch.file("t.csv", "arrived_s,prompt_tokens,output_tokens\n0,10,1\n1,20,2\n2,30,3\n3,40,4\n");
  const auto records = draw(fmt::format(R"({{"policy": "empirical", "empirical": {{"path": "{}"}}}})", path));
  std::set<std::int64_t> seen;
  for (const TraceRecord& record : records) {
    REQUIRE(record.prompt_tokens == 10 * record.output_tokens);
    seen.insert(record.output_tokens);
  }
  CHECK(seen == std::set<std::int64_t>{1, 2, 3, 4});
  CHECK(moments(records, kOutput).mean == Approx(2.5).epsilon(0.01));
  CHECK_THAT(fault_of([] { draw(R"({"policy": "empirical", "empirical": {"path": "/none.csv"}})"); }),
             Catch::StartsWith("/none.csv: cannot read the trace"));
  CHECK_THAT(fault_of([] { draw(R"({"policy": "empirical"})"); }),
             Catch::Contains("expected the path of a trace file, got none"));
}

TEST_CASE("limits cut the distribution and do not pile it up", "[unit][prop]") {
  const auto records = draw(
      R"({"policy": "uniform", "uniform": {"prompt_min": 1, "prompt_max": 100, "output_min": 1, "output_max": 10}})",
      R"({"prompt_min": 11, "prompt_max": 20, "output_min": 3, "output_max": 9, "total_max": 28})");
  int at_top = 0;
  for (const TraceRecord& record : records) {
    REQUIRE((record.prompt_tokens >= 11 && record.prompt_tokens <= 20));
    REQUIRE((record.output_tokens >= 3 && record.output_tokens <= 9));
    REQUIRE(record.prompt_tokens + record.output_tokens <= 28);
    at_top += record.prompt_tokens == 20 && record.output_tokens == 8 ? 1 : 0;
  }
  // 10 * 7 pairs less the one past 28 (20 + 9): each has probability 1/69.
  CHECK(at_top == Approx(kMany / 69.0).epsilon(0.12));
  CHECK(fault_of(
            [] { draw(R"({"policy": "fixed", "fixed": {"prompt": 10, "output": 5}})", R"({"total_max": 14})", 1); }) ==
        "generated trace: no lengths within the limits in 100000 draws (widen limits, or bring the distribution closer "
        "to them)");
}

TEST_CASE("burstgpt's answers have the medians and bands of the figure they come from", "[theory]") {
  // Prompts of 500 tokens (cv 0): median 167, 5 % below 22 and 5 % above 488.
  const auto source = make_generated_trace(
      generator(R"({"requests": 40000, "arrivals": {"policy": "fixed"}, "lengths": {"policy": "burstgpt", "burstgpt":
        {"prompt_mean": 500, "prompt_cv": 0}}})"),
      1);
  std::vector<std::int64_t> outputs;
  TraceRecord record;
  while (source->next(record)) {
    CHECK(record.prompt_tokens == 500);
    outputs.push_back(record.output_tokens);
  }
  std::sort(outputs.begin(), outputs.end());
  CHECK(outputs[20'000] == Approx(167).epsilon(0.03));
  CHECK(outputs[2'000] == Approx(22).epsilon(0.05));
  CHECK(outputs[38'000] == Approx(488).epsilon(0.05));
}

TEST_CASE("rank_power: quantiles of the law, and samples that keep the mean", "[unit][prop]") {
  // Ranks 1 ... 511 with P ~ r^-1.5: half of the mass is below rank 2 (1 / 2.52 = 0.397, and 0.140 more); the scale is
  // 256 / 17.2 = 14.9. So the least length is 15, the median two ranks, and the longest are cut at the cap.
  constexpr const char* kLaw = R"({"policy": "rank_power", "rank_power": {"prompt_mean": 256, "prompt_exponent": 1.5,
      "output_mean": 256, "output_exponent": 1.5, "sample": SAMPLE}})";
  const auto block = [&](const std::string& sample) {
    std::string text = kLaw;
    return text.replace(text.find("SAMPLE"), 6, sample);
  };
  const auto law = draw(block("0"));
  std::vector<std::int64_t> prompts;
  for (const TraceRecord& record : law) prompts.push_back(record.prompt_tokens);
  std::sort(prompts.begin(), prompts.end());
  CHECK(prompts.front() == 15);
  CHECK(prompts[prompts.size() / 2] == 30);
  CHECK(prompts.back() == 6144);
  // Rounding up adds at most 1, half of it on average; the cap takes some 3 tokens away.
  double spread = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    const auto free = read_all(*make_generated_trace(with_lengths(block("0"), "{}", 3000), seed));
    const auto kept = read_all(*make_generated_trace(with_lengths(block("3000"), "{}", 3000), seed));
    spread = std::max(spread, std::fabs(moments(free, kPrompt).mean - 256));
    CHECK(moments(kept, kPrompt).mean == Approx(254.5).margin(3));
    CHECK(moments(kept, kOutput).mean == Approx(254.5).margin(3));
  }
  CHECK(spread > 8);  // the law's own mean is that far from those of samples
}

}  // namespace test_lengths
