// Clocks by themselves: which one the next iteration runs at.
#include "policies/power/power.hpp"
#include "tests/policies/registry_support.hpp"
#include "tests/policies/view.hpp"

namespace test_power {

using namespace orrery;
using namespace orrery::policies;
using orrery::policies::test::PaperReplica;

namespace {

std::unique_ptr<ClockPolicy> clocks(const std::string& name, const std::string& params = "{}") {
  return test::made(register_clock_policies, name, params);
}

constexpr std::array kClocks{2e9, 1.5e9, 1e9};

/// 100 ps at the highest clock, 200 and 300 at the next.
struct Slower final : ClockPricer {
  ClockPrice price(const BatchSketch& sketch, std::int32_t clock) const override {
    return {.time_ps = (clock + 1) * sketch.decodes, .energy_pj = 1};
  }
};

}  // namespace

TEST_CASE("highest: the first clock whatever comes", "[unit]") {
  PaperReplica replica(10);
  const BatchView batch = replica.view();
  CHECK(clocks("highest")->choose({.batch = batch, .clock = 2, .clocks_hz = kClocks}) == 0);
  CHECK(clocks("highest")->holds());
}

TEST_CASE("prefill_high: the highest clock with prompts in the batch or the queue, else the lowest", "[unit]") {
  PaperReplica replica(10);
  const auto policy = clocks("prefill_high");
  const auto chosen = [&](std::int64_t chunk) {
    const BatchView batch = replica.view();
    return policy->choose({.batch = batch, .next = {.decodes = 3, .chunk_tokens = chunk}, .clocks_hz = kClocks});
  };
  CHECK(chosen(0) == 2);
  CHECK(chosen(1) == 0);
  replica.wait(10);
  CHECK(chosen(0) == 0);
  CHECK(chosen(1) == 0);
  CHECK(policy->holds());
}

TEST_CASE("tbt_target: the lowest clock that keeps within its share of the target", "[unit]") {
  PaperReplica replica(10);
  const BatchView batch = replica.view();
  const Slower slower;
  const auto chosen = [&](std::optional<std::int64_t> tbt_ps, const std::string& params, const ClockPricer* pricer) {
    return clocks("tbt_target", params)
        ->choose({.batch = batch, .next = {.decodes = 100}, .clocks_hz = kClocks, .tbt_ps = tbt_ps, .pricer = pricer});
  };
  CHECK(chosen(300, R"({"share": 1})", &slower) == 2);
  CHECK(chosen(299, R"({"share": 1})", &slower) == 1);
  CHECK(chosen(200, R"({"share": 1})", &slower) == 1);
  CHECK(chosen(199, R"({"share": 1})", &slower) == 0);
  CHECK(chosen(50, R"({"share": 1})", &slower) == 0);  // nothing is fast enough
  CHECK(chosen(600, R"({"share": 0.5})", &slower) == 2);
  CHECK(chosen(598, R"({"share": 0.5})", &slower) == 1);
  CHECK(chosen(std::nullopt, "{}", &slower) == 0);
  CHECK(chosen(1000, "{}", nullptr) == 0);
  CHECK_FALSE(clocks("tbt_target")->holds());  // contexts grow
}

}  // namespace test_power
