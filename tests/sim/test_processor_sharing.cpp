// Shared service at the ends of its ranges: weights, rates, many jobs, the end of time.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "actors.hpp"
#include "sim/resources.hpp"

namespace test_processor_sharing {

using namespace orrery::sim;
using namespace orrery::test;

namespace {

constexpr std::int64_t kHeaviest = std::int64_t{1} << 16;

/// When the last of `jobs` equal jobs ends, which all come at 0.
std::int64_t last_end(double servers, int jobs, std::int64_t work, std::int64_t weight) {
  Engine engine;
  ProcessorSharing shared(engine, "cpu", servers);
  Log log;
  for (int i = 0; i < jobs; ++i) engine.processes().spawn("job", sharer(engine, shared, log, "job", 0, work, weight));
  engine.run();
  return log.back().first;
}

}  // namespace

TEST_CASE("shared service does not depend on the unit of weights and rates", "[theory][resources]") {
  CHECK(last_end(1, 1, 1, kHeaviest) == 1);  // alone, it has the whole server
  CHECK(last_end(1, 256, 1, kHeaviest) == 256);
  CHECK(last_end(1, 256, 1000, kHeaviest) == 256'000);
  CHECK(last_end(0x1p-16, 1, 10, 1) == 655'360);  // 10 / 2^-16
  CHECK(last_end(0x1p-16, 1, 10, kHeaviest) == 655'360);
  CHECK(last_end(0x1p-17, 1, 1, 1) == 65'536);  // rounded to 2^-16
  CHECK(last_end(0x1p16, 1, 1000, 1) == 1000);  // capped at one server
}

TEST_CASE("ends of shared service do not drift with the number of jobs", "[theory][resources]") {
  // n jobs of works 3, 6, … 3n at 1.5 servers: at the end of job k, n-k have done 3k and all below their own work, so
  // (3 * (1 + … + k) + 3k(n-k)) / 1.5 ticks have gone.
  constexpr std::int64_t n = 2000;
  Engine engine;
  ProcessorSharing shared(engine, "cpu", 1.5, 1.5);
  std::vector<std::int64_t> ended;
  const auto job = [&](Engine& e, std::int64_t work) -> Process {
    co_await shared.use(Duration{work});
    ended.push_back(e.now().ticks);
  };
  for (std::int64_t k = 1; k <= n; ++k) engine.processes().spawn("job", job(engine, 3 * k));
  engine.run();
  REQUIRE(ended.size() == n);
  std::int64_t wrong = 0;
  for (std::int64_t k = 1; k <= n; ++k)
    if (ended[static_cast<std::size_t>(k - 1)] != k * (k + 1) + 2 * k * (n - k)) ++wrong;
  CHECK(wrong == 0);
}

TEST_CASE("jobs that are over at this instant do not count among the weights", "[unit][resources]") {
  Engine engine;
  ProcessorSharing shared(engine, "cpu");
  Log log;
  engine.processes().spawn("late", sharer(engine, shared, log, "late", 2560, 1));  // its delay ends first at 2560
  for (int i = 0; i < 256; ++i)  // weights of 2^24 in all: no more fits before they end, 2560 / 1 server
    engine.processes().spawn("full", sharer(engine, shared, log, "full", 0, 10, kHeaviest));
  engine.run();
  CHECK(log.size() == 257);
  CHECK(log.front() == at(2560, "full"));
  CHECK(log.back() == at(2561, "late"));
  engine.processes().spawn("more", sharer(engine, shared, log, "more", 0, 10));
  for (int i = 0; i < 256; ++i) engine.processes().spawn("full", sharer(engine, shared, log, "full", 0, 10, kHeaviest));
  CHECK_THROWS_WITH(engine.run(), "'cpu': the weights in service sum to more than 2^24");
}

TEST_CASE("shared service beyond the end of time fails where it is asked, or when time ends", "[unit][resources]") {
  Engine engine;
  ProcessorSharing shared(engine, "cpu");
  Log log;
  engine.processes().spawn("a", sharer(engine, shared, log, "a", 0, kNever.ticks));  // alone it could end
  const ProcessHandle b = engine.processes().spawn("b", sharer(engine, shared, log, "b", 0, 1000));
  engine.processes().spawn("c", sharer(engine, shared, log, "c", 5, kNever.ticks - 4));  // cannot end in any case
  CHECK_THROWS_AS(engine.run(), std::overflow_error);
  CHECK(engine.now() == Time{5});
  CHECK(shared.jobs() == 2);
  CHECK(shared.statistics().arrived == 2);
  engine.run(Time{10});
  b.cancel();  // a has done 5 of its work at 10
  engine.processes().spawn("d", sharer(engine, shared, log, "d", 0, 4));
  engine.run(Time{100});
  CHECK(log == Log{at(18, "d")});  // halves: 10 … 18
  CHECK_THROWS_AS(engine.run(), std::overflow_error);
  CHECK(engine.now() == kNever);
  CHECK(shared.jobs() == 1);
  CHECK_THROWS_AS(engine.run(), Deadlock);
}

TEST_CASE("rates and weights of shared service have their ends", "[unit][resources]") {
  Engine engine;
  const auto make = [&](double servers, double cap) { ProcessorSharing(engine, "p", servers, cap); };
  for (const double rate : {0x1p-17, 0x1p16, 1.0}) {
    CHECK_NOTHROW(make(rate, 1));
    CHECK_NOTHROW(make(1, rate));
  }
  for (const double rate : {0x1p-18, 65'537.0, 0.0, -1.0, std::nan("")}) {
    CHECK_THROWS_WITH(make(rate, 1), "'p': servers and cap must be 2^-17 to 2^16");
    CHECK_THROWS_WITH(make(1, rate), "'p': servers and cap must be 2^-17 to 2^16");
  }
  ProcessorSharing shared(engine, "p");
  CHECK_NOTHROW(shared.use(Duration{0}, 65'536));
  CHECK_THROWS_WITH(shared.use(Duration{0}, 65'537), "'p': a weight is outside 1 to 2^16");
  CHECK_THROWS_WITH(shared.use(Duration{0}, 0), "'p': a weight is outside 1 to 2^16");
  CHECK_THROWS_WITH(shared.use(Duration{-1}), "'p': a job has negative work");
}

}  // namespace test_processor_sharing
