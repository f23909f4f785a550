#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "experiments/systems/serving/observe/metrics.hpp"
#include "sim/base/random.hpp"

namespace test_metrics {

using namespace orrery;
using namespace orrery::experiments;

TEST_CASE("the verdict on a P99 needs no samples, and agrees with sorting them", "[prop]") {
  sim::RandomStream random(8, "verdict");
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t n = 1 + random.below(400);
    std::vector<std::int64_t> gaps(n);
    TbtVerdict verdict;
    const std::int64_t target = 1000;
    const std::uint64_t spread = 1001 + random.below(60);
    for (std::int64_t& gap : gaps) {
      gap = random.below(50) == 0 ? static_cast<std::int64_t>(1000 + random.below(200))
                                  : static_cast<std::int64_t>(random.below(spread));
      verdict.add(gap, target);
    }
    std::sort(gaps.begin(), gaps.end());
    const double h = 0.99 * static_cast<double>(n - 1);
    const auto k = static_cast<std::size_t>(h);
    double p99 = static_cast<double>(gaps[k]);
    if (k + 1 < n) p99 += (h - std::floor(h)) * static_cast<double>(gaps[k + 1] - gaps[k]);
    REQUIRE(verdict.attained(target) == (p99 <= static_cast<double>(target)));
  }
}

TEST_CASE("a request without gaps attains any TBT", "[unit]") {
  CHECK(TbtVerdict{}.attained(1));
}

TEST_CASE("an SLO wants both targets, and rejected requests miss it", "[unit]") {
  ServingMetrics m;
  m.slo.ttft = sim::Duration{10};
  m.slo.tbt_ps = 5;
  const auto done = [](std::int64_t first, std::int64_t last) {
    RequestRecord record;
    record.asked() = {.prompt_tokens = 3, .output_tokens = 2};
    record.admitted = sim::Time{1};
    record.first_token = sim::Time{first};
    record.finished = sim::Time{last};
    record.status = "completed";
    return record;
  };
  TbtVerdict good, bad;
  good.add(5, 5);
  bad.add(6, 5);
  m.request_ended(done(10, 15), good);  // both within
  m.request_ended(done(11, 16), good);  // TTFT late
  m.request_ended(done(10, 16), bad);   // TBT late
  RequestRecord rejected;
  rejected.status = "rejected:context_exceeded";
  m.request_ended(rejected, {});
  CHECK(m.measured == 4);
  CHECK(m.verdicts.attained == 1);
  CHECK(m.completed == 3);
  CHECK(m.rejected_by_reason.at("context_exceeded") == 1);
  CHECK(m.ttft.mean() == Approx((10 + 11 + 10) / 3.0));
  CHECK(m.queueing.max() == 1);
  CHECK(m.normalised.max() == 8);  // 16 ticks over 2 tokens
}

TEST_CASE("warm-up requests count in totals, not in latencies", "[unit]") {
  ServingMetrics m;
  m.warmup = sim::Time{100};
  RequestRecord r;
  r.asked() = {.prompt_tokens = 1, .output_tokens = 1};
  r.arrived = r.admitted.emplace(sim::Time{99});
  r.first_token = r.finished = sim::Time{120};
  r.status = "completed";
  m.request_ended(r, {});
  CHECK(m.completed == 1);
  CHECK(m.ttft.count() == 0);
  r.arrived = sim::Time{100};
  r.admitted = sim::Time{100};
  m.request_ended(r, {});
  CHECK(m.ttft.count() == 1);
  CHECK(m.tpot.count() == 0);  // undefined for one output token
}

}  // namespace test_metrics
