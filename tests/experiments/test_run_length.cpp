// How long runs have to be: hand-made runs whose arrivals span so many times in system, and whose queues grow or not.
#include <catch2/catch.hpp>

#include "experiments/capacity/run_length.hpp"

namespace test_run_length {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::capacity;

namespace {

/// `requests` arrivals one a second; request i takes time(i) seconds. Ticks are picoseconds.
template <class F>
ServingResult run_of(std::int64_t requests, const F& time) {
  ServingResult result;
  ServingMetrics& m = result.metrics;
  constexpr double kTicks = 1e12;
  m.arrived = requests;
  m.arrivals.first = sim::Time{0};
  m.arrivals.last = sim::Time{static_cast<std::int64_t>(static_cast<double>(requests - 1) * kTicks)};
  for (std::int64_t i = 0; i < requests; ++i) {
    m.e2e.add(static_cast<std::int64_t>(time(i) * kTicks));
    m.arrivals.e2e_s.add(i, time(i));
  }
  return result;
}
double two_seconds(std::int64_t) {
  return 2;
}

Arrivals arrivals(std::int64_t requests, std::int64_t most) {
  return {.per_s = 1, .requests = requests, .most = most};
}

}  // namespace

TEST_CASE("Arrivals over 20 times in system say enough, over fewer they do not", "[unit]") {
  RunLength length(arrivals(41, 1000));
  length.add(run_of(41, two_seconds));  // 40 s of arrivals, 2 s each: 20
  CHECK(length.spans() == Approx(20));
  CHECK(length.load() == LoadState::steady);
  RunLength brief(arrivals(40, 1000));
  brief.add(run_of(40, two_seconds));  // 19.5
  CHECK(brief.load() == LoadState::too_short);
}

TEST_CASE("The next run is as long as this one calls for, at least twice and at most eight times as long", "[unit]") {
  RunLength near(arrivals(31, 1000));
  near.add(run_of(31, two_seconds));  // 15 of 20: 1.1 * 20 / 15 * 31 = 45.5, but twice 31
  REQUIRE(near.lengthen());
  CHECK(near.requests() == 62);
  CHECK(near.spans() == 0);  // forgets what was shorter
  RunLength far(arrivals(21, 1000));
  far.add(run_of(21, [](std::int64_t) { return 5.0; }));  // 4 of 20: 1.1 * 5 * 21 = 115.5
  REQUIRE(far.lengthen());
  CHECK(far.requests() == 115);
  RunLength farther(arrivals(21, 1000));
  farther.add(run_of(21, [](std::int64_t) { return 100.0; }));  // 0.2 of 20: 8 * 21
  REQUIRE(farther.lengthen());
  CHECK(farther.requests() == 168);
}

TEST_CASE("No run is longer than the longest, and it says why", "[unit]") {
  RunLength length(arrivals(30, 50));
  length.add(run_of(30, two_seconds));
  REQUIRE(length.lengthen());
  CHECK(length.requests() == 50);
  length.add(run_of(50, [](std::int64_t) { return 10.0; }));
  CHECK(length.load() == LoadState::too_short);
  CHECK(!length.lengthen());
  CHECK(length.limit_text() == "a run has at most 50 requests (max_requests, or workload.limit)");
  // A trace that ends sooner than it was asked to.
  RunLength trace(arrivals(100, 1000));
  trace.add(run_of(30, two_seconds));
  CHECK(trace.load() == LoadState::too_short);
  CHECK(!trace.lengthen());
  CHECK(trace.limit_text() == "only 30 requests arrive");
}

TEST_CASE("A queue that grows from nothing, and twice as long in runs twice as long, is overloaded", "[unit]") {
  // Each request waits 50 ms longer than the one before: at the end 50 s, far more than the 0.1 s of the first.
  const auto grows = [](std::int64_t i) { return 0.1 + 0.05 * static_cast<double>(i); };
  RunLength length(arrivals(1000, 100'000));
  length.add(run_of(1000, grows));
  CHECK(length.load() == LoadState::too_short);  // one run may be a wave
  REQUIRE(length.lengthen());
  REQUIRE(length.requests() == 2000);  // its arrivals span 40 mean times, and yet: twice as many
  length.add(run_of(2000, grows));
  CHECK(length.load() == LoadState::overloaded);
  // A wave: as steep, but in the longer run it is over.
  RunLength wave(arrivals(1000, 100'000));
  wave.add(run_of(1000, grows));
  REQUIRE(wave.lengthen());
  wave.add(run_of(2000, [&](std::int64_t i) { return grows(i % 1000); }));
  CHECK(wave.load() != LoadState::overloaded);
  // In the longest run there is no other to compare with.
  RunLength longest(arrivals(1000, 1000));
  longest.add(run_of(1000, grows));
  CHECK(longest.load() == LoadState::overloaded);
}

TEST_CASE("A queue that grows slowly asks for longer runs, and is overloaded only in the longest", "[unit]") {
  // From 2 s to 3 s over 1,000 requests: the last quarter over the second is 1.25, not the 1.8 of a queue from nothing.
  const auto slowly = [](std::int64_t i) { return 2 + 0.001 * static_cast<double>(i); };
  RunLength length(arrivals(1000, 4000));
  length.add(run_of(1000, slowly));
  CHECK(length.spans() > 20);
  CHECK(length.load() == LoadState::too_short);
  RunLength longest(arrivals(1000, 1000));
  longest.add(run_of(1000, slowly));
  CHECK(longest.load() == LoadState::overloaded);
}

TEST_CASE("A system that fills at the start does not count as growing", "[unit]") {
  // The first 5 % rise from nothing, the rest is level.
  RunLength length(arrivals(1000, 4000));
  length.add(run_of(1000, [](std::int64_t i) { return i < 50 ? 0.04 * static_cast<double>(i) : 2.0; }));
  CHECK(length.load() == LoadState::steady);
}

TEST_CASE("Replications are taken together", "[unit]") {
  RunLength length(arrivals(41, 1000));
  length.add(run_of(41, two_seconds));                       // 20 times
  length.add(run_of(41, [](std::int64_t) { return 3.0; }));  // 13.3
  CHECK(length.spans() == Approx(80.0 / 5));                 // 40 + 40 over 2 + 3
  CHECK(length.load() == LoadState::too_short);
}

TEST_CASE("Of programs, their own time counts, and their calls what a run may hold", "[unit]") {
  const auto programs = [](std::int64_t count, double time_s, std::int64_t calls) {
    ServingResult result;
    ProgramMetrics& m = result.programs.emplace();
    m.started = count;
    m.calls = count * calls;
    for (std::int64_t i = 0; i < count; ++i) {
      ProgramRecord& record = m.records.emplace_back();
      record.id = i;
      record.started = sim::Time{i * 1'000'000'000'000};
      record.finished = record.started + sim::Duration{static_cast<std::int64_t>(time_s * 1e12)};
      record.completed = true;
    }
    return result;
  };
  Arrivals of_programs = arrivals(41, 1000);
  of_programs.programs = true;
  RunLength length(of_programs);
  length.add(programs(41, 4, 10));
  CHECK(length.spans() == Approx(10));
  // 1,000 requests are 100 programs of ten calls.
  REQUIRE(length.lengthen());
  CHECK(length.requests() == 90);  // 1.1 * 2 * 41
  length.add(programs(90, 40, 10));
  REQUIRE(length.lengthen());
  CHECK(length.requests() == 100);
  length.add(programs(100, 40, 10));
  CHECK(!length.lengthen());
}

}  // namespace test_run_length
