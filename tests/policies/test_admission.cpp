// Admission controls by themselves: who is turned away, by hand.
#include <catch2/catch.hpp>

#include "policies/admission/admission.hpp"
#include "tests/policies/registry_support.hpp"

namespace test_admission {

using namespace orrery;
using namespace orrery::policies;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;

std::unique_ptr<AdmissionControl> control(const std::string& name, const std::string& params = "{}") {
  return test::made(register_admission_controls, name, params);
}

/// Asks for a prompt of so many tokens at a time, in ticks of 1,000 ps; true: it came in.
bool comes_in(AdmissionControl& bucket, std::int64_t ms, std::int64_t tokens = 1, std::int32_t tenant = 0) {
  AdmissionView view;
  view.now = sim::Time{ms * (kSecond / 1'000'000)};
  view.ps_per_tick = 1000;
  view.request.prefill_tokens = tokens;
  view.request.tenant = tenant;
  const auto reason = bucket.reject(view);
  if (reason) CHECK(*reason == "rate_limited");
  return !reason;
}

}  // namespace

TEST_CASE("admission: everybody may come in where nobody asks", "[unit]") {
  CHECK_FALSE(control("all")->reject({}));
}

TEST_CASE("token_bucket: a burst, then a request at each refill", "[unit]") {
  const auto bucket = control("token_bucket", R"({"rate": 2, "burst": 3})");
  for (int i = 0; i < 3; ++i) CHECK(comes_in(*bucket, 0));
  CHECK_FALSE(comes_in(*bucket, 0));
  CHECK_FALSE(comes_in(*bucket, 499));
  CHECK(comes_in(*bucket, 501));  // half a second is one
  CHECK_FALSE(comes_in(*bucket, 501));
  // After a long time it is full, and not more than that.
  for (int i = 0; i < 3; ++i) CHECK(comes_in(*bucket, 100'000));
  CHECK_FALSE(comes_in(*bucket, 100'000));
}

TEST_CASE("token_bucket: whoever was turned away took nothing", "[unit]") {
  const auto bucket = control("token_bucket", R"({"rate": 1, "burst": 1})");
  CHECK(comes_in(*bucket, 0));
  for (const std::int64_t ms : {300, 600, 900}) CHECK_FALSE(comes_in(*bucket, ms));
  CHECK(comes_in(*bucket, 1001));
}

TEST_CASE("token_bucket: tokens of prompts, of which one may cost more than a full bucket", "[unit]") {
  const auto bucket = control("token_bucket", R"({"rate": 100, "burst": 100, "cost": "prompt_tokens"})");
  CHECK(comes_in(*bucket, 0, 60));
  CHECK_FALSE(comes_in(*bucket, 0, 41));
  CHECK(comes_in(*bucket, 0, 40));
  CHECK_FALSE(comes_in(*bucket, 0, 1));
  // Full again after a second: 250 come in and leave a debt of 150, which with the next token takes 1.51 s.
  CHECK_FALSE(comes_in(*bucket, 999, 250));
  CHECK(comes_in(*bucket, 1001, 250));
  CHECK_FALSE(comes_in(*bucket, 2500, 1));
  CHECK(comes_in(*bucket, 2512, 1));
}

TEST_CASE("token_bucket: one for all, or one for each tenant", "[unit]") {
  const auto one = control("token_bucket", R"({"rate": 1, "burst": 1})");
  CHECK(comes_in(*one, 0, 1, 1));
  CHECK_FALSE(comes_in(*one, 0, 1, 2));
  const auto each = control("token_bucket", R"({"rate": 1, "burst": 1, "per_tenant": true})");
  CHECK(comes_in(*each, 0, 1, 1));
  CHECK(comes_in(*each, 0, 1, 2));
  CHECK_FALSE(comes_in(*each, 0, 1, 1));
  CHECK(comes_in(*each, 500, 1, 3));  // full from the first
}

TEST_CASE("queue_limit: requests a replica on the mean, the new one and those that wait for a replica included",
          "[unit]") {
  std::vector<ReplicaFacts> facts(2);
  AdmissionView view;
  view.replicas = facts;
  const auto limit = control("queue_limit", R"({"requests": 4})");
  for (const auto& [first, second, parked, full] :
       {std::tuple(7, 0, 0, false), std::tuple(7, 1, 0, true), std::tuple(3, 3, 1, false), std::tuple(3, 3, 2, true)}) {
    facts[0].requests = first;
    facts[1].requests = second;
    view.parked = parked;
    CHECK(limit->reject(view).has_value() == full);
    if (full) CHECK(limit->reject(view) == "queue_full");
  }
  // No replica takes requests: as if there were one.
  view.replicas = {};
  view.parked = 3;
  CHECK_FALSE(limit->reject(view));
  view.parked = 4;
  CHECK(limit->reject(view) == "queue_full");
}

TEST_CASE("queue_limit: tokens to prefill a replica on the mean, and no bound where there is none", "[unit]") {
  std::vector<ReplicaFacts> facts(2);
  facts[0].queued_tokens = 100;
  facts[1].queued_tokens = 60;
  facts[0].requests = 10'000;
  AdmissionView view;
  view.replicas = facts;
  view.request.prefill_tokens = 40;
  const auto limit = control("queue_limit", R"({"requests": null, "queued_tokens": 100})");
  CHECK_FALSE(limit->reject(view));  // 200
  view.request.prefill_tokens = 41;
  CHECK(limit->reject(view) == "queue_full");
  CHECK_FALSE(control("queue_limit", R"({"requests": null})")->reject(view));
  CHECK(control("queue_limit")->reject(view) == "queue_full");
}

TEST_CASE("slo admission: turned away where no replica would be in time", "[unit]") {
  std::vector<ReplicaFacts> facts(2);
  facts[0].queued_tokens = 300;
  facts[0].prefill_tokens_per_s = 100;  // with 100 more: 4 s
  facts[1].queued_tokens = 500;
  facts[1].prefill_tokens_per_s = 200;  // 3 s
  AdmissionView view;
  view.replicas = facts;
  view.request.prefill_tokens = 100;
  const auto slo = control("slo");
  CHECK_FALSE(slo->reject(view));  // no target
  view.ttft_ps = 3 * kSecond;
  CHECK_FALSE(slo->reject(view));
  view.ttft_ps = 2'990'000'000'000;
  CHECK(slo->reject(view) == "slo");
  facts[1].queued_tokens = 490;
  CHECK_FALSE(slo->reject(view));
  // Its own target goes first, and its share of it.
  CHECK(control("slo", R"({"ttft": "2 s"})")->reject(view) == "slo");
  CHECK(control("slo", R"({"ttft": "4 s", "headroom": 0.7})")->reject(view) == "slo");
  CHECK_FALSE(control("slo", R"({"ttft": "4 s", "headroom": 0.75})")->reject(view));
  // One that was not measured yet counts as idle, one that is slow does not; without replicas nobody knows.
  facts[0].prefill_tokens_per_s = 0.5;
  CHECK(control("slo", R"({"ttft": "2 s"})")->reject(view) == "slo");
  facts[0].prefill_tokens_per_s = 0;
  CHECK_FALSE(control("slo", R"({"ttft": "2 s"})")->reject(view));
  view.replicas = {};
  CHECK_FALSE(slo->reject(view));
}

}  // namespace test_admission
