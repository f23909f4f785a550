// Runs that end before their time: certain means certain, and what comes before the end is as ever.
#include <catch2/catch.hpp>

#include "experiments/base/early_end.hpp"
#include "experiments/base/figures.hpp"
#include "sim/base/random.hpp"
#include "support.hpp"
#include "system_run.hpp"

namespace test_early_end {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Catch::Contains;

namespace {

double statistic_of(const std::vector<double>& values, const std::string& name) {
  sim::SampleStats samples;
  for (const double value : values) samples.add(static_cast<std::int64_t>(value));
  return distribution_figures(samples, 1, kLatencyQuantiles).find(name)->as_number();
}

/// Sixty prompts of 500 tokens at once on a part that takes a second and more for them: each waits for those before it.
const char* const kBusy = R"({"system": "serving",
  "machine": {"devices": [{"part": "catalog:a100-sxm4-80gb", "count": 1}]}, "model": {"config": "catalog:llama-2-7b"},
  "workload": {"generator": {"requests": 60, "arrivals": {"policy": "poisson", "poisson": {"rate": "50 1/s"}},
               "lengths": {"policy": "fixed", "fixed": {"prompt": 500, "output": 8}}}},
  "slo": {"ttft": "0.5 s", "tbt": "10 s"}, "run": {"timeline": {"enabled": false}}})";

sim::Node run_with(const std::vector<RunEnd>& ends, const std::vector<std::string>& set = {}) {
  sim::Node root = sim::parse_json(kBusy, "config.json");
  for (const std::string& one : set) sim::assign(root, one);
  return read_experiment(test_systems(), root)->run({.ends = ends}).summary;
}

}  // namespace

TEST_CASE("A quantile is certain once enough values are above the bound", "[unit]") {
  // Of 100 values the P90 lies at or above place floor(0.9 * 99) = 89 of 0 … 99: eleven above the bound reach it.
  CertainlyAbove p90("p90", 5, 100);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(p90.add(6));
  CHECK_FALSE(p90.add(5));  // not above
  CHECK(p90.add(6));
  CHECK(CertainlyAbove("max", 5, 100).add(5.1));
  CertainlyAbove mean("mean", 5, 10);  // more than 50 in sum
  CHECK_FALSE(mean.add(50));
  CHECK(mean.add(0.1));
}

TEST_CASE("What is certain stays so whatever follows", "[unit][prop]") {
  sim::RandomStream random(1, "early");
  int certain = 0;
  for (int round = 0; round < 400; ++round) {
    const auto most = static_cast<std::int64_t>(1 + random.below(300));
    const char* names[] = {"mean", "p50", "p90", "p95", "p99", "max"};
    const std::string name = names[random.below(6)];
    const double bound = static_cast<double>(random.below(1000));
    CertainlyAbove above(name, bound, most);
    std::vector<double> values;
    bool sure = false;
    while (!sure && std::ssize(values) < most) {
      values.push_back(static_cast<double>(random.below(1000)));
      sure = above.add(values.back());
    }
    if (!sure) {
      if (name == "max" || name == "mean") CHECK(statistic_of(values, name) <= bound);  // all have come
      continue;
    }
    ++certain;
    CHECK(statistic_of(values, name) > bound);  // so far
    while (std::ssize(values) < most) {         // the best that can follow, up to any number of values
      values.push_back(0);
      CHECK(statistic_of(values, name) > bound);
    }
  }
  CHECK(certain > 50);
}

TEST_CASE("Paths of distributions", "[unit]") {
  CHECK(distribution_path("ttft_s.p99") == std::pair<std::string, std::string>("ttft_s", "p99"));
  CHECK_FALSE(distribution_path("ttft_s"));
  CHECK_FALSE(distribution_path("ttft_s.p98"));
  CHECK_FALSE(distribution_path("priorities.1.ttft_s.p99"));
}

TEST_CASE("A serving run ends on each figure, and only if it would break the bound", "[cluster]") {
  const sim::Node whole = run_with({});
  for (const char* path :
       {"ttft_s.p99", "ttft_s.mean", "tpot_s.p50", "e2e_s.p90", "queueing_s.max", "normalised_latency_s.p95"}) {
    INFO(path);
    const double value = figure(whole, path);
    const sim::Node ended = run_with({{path, value * 0.7}});
    CHECK(ended.at("status")->as_string() == "ended");
    CHECK_THAT(ended.at("reason")->as_string(),
               Contains(std::string(path) + " is above ") && Contains("of at most 60 requests"));
    CHECK(figure(ended, path) > value * 0.7);  // so far
    CHECK(run_with({{path, value * 1.001}}).dump() == whole.dump());
  }
  const double attained = figure(whole, "slo.attainment");
  REQUIRE(attained > 0.1);
  REQUIRE(attained < 0.9);
  const sim::Node ended = run_with({{"slo.attainment", attained * 1.1, true}});
  CHECK_THAT(ended.at("reason")->as_string(), Contains("slo.attainment is below "));
  CHECK(figure(ended, "slo.attainment") < attained * 1.1);
  CHECK(run_with({{"slo.attainment", attained * 0.99, true}}).dump() == whole.dump());
  CHECK(run_with({{"slo.attainment", attained, true}}).dump() == whole.dump());  // not below it
}

TEST_CASE("How many requests there will be at most", "[cluster]") {
  const test::Scratch scratch;
  const std::string lines = "arrived_s,prompt_tokens,output_tokens\n0,400,8\n0.1,400,8\n0.2,400,8\n0.3,400,8";
  const auto ended = [&](const std::string& name, const std::string& text, const std::vector<std::string>& more = {}) {
    std::vector<std::string> set{"workload.generator=null", R"(workload.trace={"format": "orrery_csv", "path": ")" +
                                                                scratch.write(name, text).string() + "\"}"};
    set.insert(set.end(), more.begin(), more.end());
    // Of n values the P50 needs n - floor((n-1) / 2) above the bound.
    return run_with({{"ttft_s.p50", 1e-9}}, set).at("reason")->as_string();
  };
  CHECK_THAT(ended("a.csv", lines), Contains("ended after 3 of at most 5 requests"));  // the header counts
  CHECK_THAT(ended("b.csv", lines + "\n"), Contains("ended after 4 of at most 6 requests"));
  CHECK_THAT(ended("c.csv", lines, {"workload.limit=3"}), Contains("ended after 2 of at most 3 requests"));
  CHECK_THAT(ended("d.csv", lines, {"workload.skip=1"}), Contains("ended after 3 of at most 4 requests"));
}

TEST_CASE("What a serving run does not end on", "[cluster]") {
  const sim::Node whole = run_with({});
  // Figures that are not one of a request, and the wrong side of one that is.
  CHECK(run_with({{"tbt_s.p99", 0}}).dump() == whole.dump());
  CHECK(run_with({{"slo.attainment", 0}}).dump() == whole.dump());
  CHECK(run_with({{"ttft_s.p99", 1e9, true}}).dump() == whole.dump());
  // Requests of the warm-up: all but the last few, which are late too.
  const std::vector<std::string> warm{"run.warmup=100 s"};
  CHECK(run_with({{"ttft_s.max", 1e-9}}, warm).dump() == run_with({}, warm).dump());
}

}  // namespace test_early_end
