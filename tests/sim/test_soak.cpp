// Long runs: memory stays flat. Labelled slow; by hand: build/release/tests/sim/test_sim "[slow]".
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <vector>

#include "sim/engine.hpp"
#include "sim/statistics.hpp"

using namespace orrery::sim;

namespace {

std::size_t resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, pages = 0;
  file >> total >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// A fleet with timeouts: every event of a client sets a timeout far off and cancels the one before, as a simulation of
/// requests does; one in 64 lets it fire.
class Clients final : public EventHandler {
 public:
  Clients(Engine& engine, std::size_t clients)
      : engine_(engine), random_(engine.stream("clients")), timeouts_(clients) {
    for (std::size_t i = 0; i < clients; ++i) engine_.schedule_in(Duration{random_.integer(1, 1000)}, *this, i);
  }
  void on_event(std::uint64_t payload) override {
    if ((payload & kTimeout) != 0) {
      ++fired;
      return;
    }
    EventId& timeout = timeouts_[payload];
    if (!random_.bernoulli(1.0 / 64)) cancelled += engine_.cancel(timeout) ? 1 : 0;
    timeout = engine_.schedule_in(Duration{1'000'000}, *this, payload | kTimeout);
    const std::int64_t wait = random_.integer(1, 1000);
    engine_.schedule_in(Duration{wait}, *this, payload);
    waits.add(wait);
    pending.set(engine_.now(), static_cast<std::int64_t>(engine_.pending()));
    most_queued = std::max(most_queued, engine_.queued());
  }

  std::int64_t fired = 0, cancelled = 0;
  std::size_t most_queued = 0;
  SampleStats waits;
  TimeAverage pending;

 private:
  static constexpr std::uint64_t kTimeout = 1ULL << 40;
  Engine& engine_;
  RandomStream random_;
  std::vector<EventId> timeouts_;
};

}  // namespace

TEST_CASE("ten million events with cancellations leave memory flat", "[slow]") {
  constexpr std::size_t kClients = 1000;
  Engine engine(5);
  Clients clients(engine, kClients);
  const auto run_until = [&](std::uint64_t events) {
    while (engine.events() < events && engine.step()) {
    }
  };
  run_until(3'000'000);  // past the exact samples, and some timeouts fire
  CHECK_FALSE(clients.waits.exact());
  const std::size_t before = resident();
  const std::size_t queued_before = clients.most_queued;
  run_until(10'000'000);
  CHECK(engine.events() == 10'000'000);
  CHECK(clients.cancelled > 9'000'000);
  CHECK(clients.fired > 1000);
  // A client acts every 500 ticks and drops one timeout in 64, which lasts 10^6 ticks: up to 1 + 1 + 10^6 / 500 / 64 =
  // 33 live events a client. Cancelled keys are swept when they are half of all.
  const std::size_t live = kClients * 34;
  CHECK(clients.pending.max() < static_cast<std::int64_t>(live));
  CHECK(clients.most_queued <= 2 * live + 1024);
  CHECK(clients.most_queued <= queued_before + queued_before / 4);
  // Nothing is allocated in steady state; the slack is the C library's.
  CHECK(resident() <= before + (1U << 20));
}
