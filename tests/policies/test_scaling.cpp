// Scaling policies by themselves: how many replicas they want, by hand.
#include <catch2/catch.hpp>

#include "policies/scaling/scaling.hpp"
#include "tests/policies/registry_support.hpp"

namespace test_scaling {

using namespace orrery;
using namespace orrery::policies;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;

std::unique_ptr<Scaling> scaling(const std::string& name, const std::string& params = "{}") {
  return test::made(register_scalings, name, params);
}

/// What a fresh target policy without a window wants of two replicas with so many requests together.
struct Asked {
  std::vector<ReplicaFacts> facts{2};
  ScalingView view;
  Asked() {
    view.replicas = facts;
    view.most = 100;
  }
  std::int64_t operator()(std::int64_t requests, const std::string& params) {
    facts[0].requests = requests - requests / 2;
    facts[1].requests = requests / 2;
    return scaling("target", R"({"stabilisation": "0 s", )" + params + "}")->wanted(view);
  }
};

}  // namespace

TEST_CASE("fixed: as many as there may be", "[unit]") {
  ScalingView view;
  view.most = 7;
  CHECK(scaling("fixed")->wanted(view) == 7);
}

TEST_CASE("target: nothing is done within the tolerance, its ends included", "[unit]") {
  Asked asked;
  const std::string half = R"("target": 10, "tolerance": 0.5)";
  CHECK(asked(20, half) == 2);
  CHECK(asked(30, half) == 2);  // 15 each
  CHECK(asked(31, half) == 4);  // 3.1
  CHECK(asked(40, half) == 4);
  CHECK(asked(10, half) == 2);  // 5 each
  CHECK(asked(9, half) == 1);   // 0.9
  CHECK(asked(0, half) == 0);
  const std::string none = R"("target": 10, "tolerance": 0)";
  CHECK(asked(20, none) == 2);
  CHECK(asked(21, none) == 3);
  CHECK(asked(19, none) == 2);
  CHECK(asked(10, none) == 1);
}

TEST_CASE("target: those on their way up count, and requests that wait for one", "[unit]") {
  Asked asked;
  const std::string half = R"("target": 10, "tolerance": 0.5)";
  asked.view.starting = 1;
  CHECK(asked(45, half) == 3);  // 15 each of three
  CHECK(asked(46, half) == 5);
  asked.view.parked = 1;
  CHECK(asked(45, half) == 5);
  // Nobody is up: as many as those who wait need.
  asked.view.replicas = {};
  asked.view.starting = 0;
  for (const auto& [parked, wanted] : {std::pair(0, 0), std::pair(1, 1), std::pair(10, 1), std::pair(11, 2)}) {
    asked.view.parked = parked;
    CHECK(asked(0, half) == wanted);
  }
}

TEST_CASE("target: load is requests, tokens to prefill, or the time that replicas are busy", "[unit]") {
  Asked asked;
  asked.facts[0].queued_tokens = 150;
  asked.facts[1].queued_tokens = 60;
  CHECK(asked(1000, R"("target": 100, "tolerance": 0, "metric": "queued_tokens")") == 3);  // 210
  asked.view.busy = 0.75;
  const std::string busy = R"("target": 0.5, "tolerance": 0, "metric": "utilisation")";
  CHECK(asked(1000, busy) == 3);  // 1.5 of 0.5
  // Whoever waits is as good as one replica more that is always busy, however many they are: 2.5 of 0.5.
  for (const std::int64_t parked : {1, 7}) {
    asked.view.parked = parked;
    CHECK(asked(1000, busy) == 5);
  }
}

TEST_CASE("target: replicas stay as long as an answer of the window wanted them", "[unit]") {
  // Ticks of 1,000 ps; a window of 10 s. Answers are the requests of one replica, at a target of 1.
  const auto policy = scaling("target", R"({"target": 1, "tolerance": 0, "stabilisation": "10 s"})");
  std::vector<ReplicaFacts> facts(1);
  const auto at = [&](std::int64_t ms, std::int64_t requests) {
    facts[0].requests = requests;
    ScalingView view;
    view.now = sim::Time{ms * (kSecond / 1'000'000)};
    view.ps_per_tick = 1000;
    view.replicas = facts;
    return policy->wanted(view);
  };
  CHECK(at(0, 5) == 5);
  CHECK(at(1000, 3) == 5);
  CHECK(at(2000, 4) == 5);
  CHECK(at(10'000, 1) == 5);  // just in the window
  CHECK(at(10'001, 1) == 4);  // of 2 s: that of 1 s wanted less
  CHECK(at(12'000, 1) == 4);
  CHECK(at(12'001, 1) == 1);
  CHECK(at(12'002, 6) == 6);
  CHECK(at(13'000, 6) == 6);  // it counts from the later of equals
  CHECK(at(22'500, 2) == 6);
  CHECK(at(23'000, 2) == 6);
  CHECK(at(23'001, 2) == 2);
}

TEST_CASE("keep_alive: who has requests, or had some just now, and as many as all need", "[unit]") {
  const auto policy = scaling("keep_alive", R"({"keep_alive": "10 s", "concurrency": 4})");
  std::vector<ReplicaFacts> facts(3);
  std::vector<sim::Time> idle(3, sim::kNever);
  ScalingView view;
  view.now = sim::Time{20 * kSecond / 1000};
  view.ps_per_tick = 1000;
  view.replicas = facts;
  view.idle_since = idle;
  CHECK(policy->wanted(view) == 3);  // all have something
  idle[0] = sim::Time{10 * kSecond / 1000};
  CHECK(policy->wanted(view) == 2);  // idle for 10 s
  idle[0] = sim::Time{10 * kSecond / 1000 + 1};
  CHECK(policy->wanted(view) == 3);
  for (sim::Time& since : idle) since = sim::Time{0};
  CHECK(policy->wanted(view) == 0);
  view.starting = 2;
  CHECK(policy->wanted(view) == 2);
  // 4 requests are for one replica, 5 for two, wherever they are.
  view.starting = 0;
  for (const auto& [parked, wanted] :
       {std::pair(1, 1), std::pair(2, 1), std::pair(3, 2), std::pair(6, 2), std::pair(7, 3)}) {
    facts[0].requests = facts[2].requests = 1;
    view.parked = parked;
    CHECK(policy->wanted(view) == wanted);
  }
}

TEST_CASE("llumnix scaling: bounds themselves change nothing, and what is missing is rounded up", "[unit]") {
  const auto wanted = [](std::int64_t used, std::int64_t running, std::int64_t starting = 0) {
    std::vector<ReplicaFacts> facts(2);
    facts[0].load = {.total_blocks = 100, .used_blocks = used, .running = running};
    facts[1].load = {.total_blocks = 100};
    ScalingView view;
    view.replicas = facts;
    view.starting = starting;
    return scaling("llumnix", R"({"threshold": 10, "band": 50, "freeness": {"formula": "artefact"}})")->wanted(view);
  };
  CHECK(wanted(100, 10) == 2);  // 100 / 10
  CHECK(wanted(100, 11) == 3);  // 10 blocks are missing of 100
  CHECK(wanted(100, 20) == 3);  // 100 of 100
  CHECK(wanted(100, 21) == 4);
  CHECK(wanted(80, 2) == 2);  // 120 / 2
  CHECK(wanted(79, 2) == 1);
  CHECK(wanted(100, 20, 1) == 3);  // one is on its way: 200 / 20
  CHECK(wanted(100, 21, 1) == 4);
}

}  // namespace test_scaling
