// Long runs: memory stays flat. Labelled slow; by hand: build/release/tests/sim/test_sim "[slow]".
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <vector>

#include "sim/engine.hpp"
#include "sim/resources.hpp"
#include "sim/statistics.hpp"
#include "sim/when.hpp"
#include "tests/bench/star.hpp"

namespace test_soak {

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
    if (keep_waits) waits.add(wait);
    pending.set(engine_.now(), static_cast<std::int64_t>(engine_.pending()));
    most_queued = std::max(most_queued, engine_.queued());
  }

  bool keep_waits = true;
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

/// A closed loop of flows on a star, each under a deadline that cancels it; links slow down, fail and come back.
class Traffic final : public EventHandler {
 public:
  Traffic(Engine& engine, std::uint64_t window)
      : engine_(engine), random_(engine.stream("traffic")), star_(engine, kHosts, Duration{100}), deadlines_(window) {
    for (std::uint64_t i = 0; i < window; ++i) start(i);
    engine_.schedule_in(Duration{1000}, *this, kChange);
  }
  void on_event(std::uint64_t payload) override {
    if (payload == kChange) {
      star_.network.set_bandwidth(changed_, 12.5e9);
      changed_ = static_cast<FlowNetwork::Link>(random_.below(2 * kHosts));
      star_.network.set_bandwidth(changed_, 3e9 * static_cast<double>(random_.below(4)));
      engine_.schedule_in(Duration{random_.integer(1, 20'000)}, *this, kChange);
      return;
    }
    const std::uint64_t place = payload & ~kDeadline;
    if ((payload & kDeadline) != 0) {
      cancelled += star_.network.cancel(deadlines_[place].flow) ? 1 : 0;
    } else {
      engine_.cancel(deadlines_[place].event);
      ++ended;
    }
    start(place);
  }
  std::int64_t ended = 0, cancelled = 0;

 private:
  static constexpr std::uint32_t kHosts = 32;
  static constexpr std::uint64_t kDeadline = 1ULL << 40, kChange = 1ULL << 41;
  struct Deadline {
    FlowId flow;
    EventId event;
  };
  void start(std::uint64_t place) {
    const auto from = static_cast<std::uint32_t>(random_.below(kHosts));
    const auto to = static_cast<std::uint32_t>((from + 1 + random_.below(kHosts - 1)) % kHosts);
    deadlines_[place].flow = star_.network.start(star_.path(from, to), random_.integer(1, 60), *this, place);
    deadlines_[place].event = engine_.schedule_in(Duration{15'000}, *this, place | kDeadline);
  }

  Engine& engine_;
  RandomStream random_;
  orrery::bench::Star star_;
  std::vector<Deadline> deadlines_;
  FlowNetwork::Link changed_ = 0;
};

struct Shop {
  explicit Shop(Engine& engine)
      : desk(engine, "desk", 4),
        urgent(engine, "urgent", 2, Discipline::preempt_resume),
        pool(engine, "pool", 16),
        shared(engine, "shared", 4),
        channel(engine, "channel", 8) {}
  Server desk, urgent;
  TokenPool pool;
  ProcessorSharing shared;
  Channel<int> channel;
  std::int64_t served = 0, timed_out = 0;
};

Process visit(Engine& engine, Shop& shop, std::int64_t work, std::int64_t kind) {
  const Tokens tokens = co_await shop.pool.acquire(1 + kind);
  if (kind == 0) co_await shop.desk.use(Duration{work});
  if (kind == 1) co_await shop.urgent.use(Duration{work}, work % 3);
  if (kind == 2) co_await shop.shared.use(Duration{work}, 1 + work % 4);
  if (kind == 3) co_await when_all(shop.channel.send(1), shop.channel.receive());
  co_await engine.delay(Duration{1});
}

/// Visits for ever, each under a timeout; now and then as a process of its own that may be cancelled.
Process customer(Engine& engine, Shop& shop, RandomStream random) {
  while (true) {
    co_await engine.delay(Duration{random.integer(1, 2000)});
    const std::int64_t work = random.integer(1, 200), kind = random.integer(0, 3), patience = random.integer(1, 2000);
    if (random.bernoulli(0.1)) {
      const ProcessHandle child = engine.processes().spawn("visit", visit(engine, shop, work, kind));
      co_await when_any(child.join(), engine.delay(Duration{patience}));
      (child.cancel() ? shop.timed_out : shop.served) += 1;
    } else {
      const auto first = co_await when_any(visit(engine, shop, work, kind), engine.delay(Duration{patience}));
      (first.index == 1 ? shop.timed_out : shop.served) += 1;
    }
  }
}

}  // namespace

TEST_CASE("ten million events of timers, processes and flows leave memory flat", "[slow]") {
  Engine engine(6);
  Clients clients(engine, 20);
  clients.keep_waits = false;  // the first 2^20 would be kept one by one
  Traffic traffic(engine, 64);
  Shop shop(engine);
  for (std::uint64_t i = 0; i < 40; ++i)
    engine.processes().spawn("customer", customer(engine, shop, engine.stream("customer").child(i)));
  std::array<std::size_t, 10> memory{};  // after each tenth
  for (std::uint64_t tenth = 0; tenth < memory.size(); ++tenth) {
    while (engine.events() < (tenth + 1) * 1'000'000 && engine.step()) {
    }
    memory[tenth] = resident();
  }
  CHECK(engine.events() == 10'000'000);
  CHECK(clients.cancelled > 500'000);
  CHECK(traffic.ended > 100'000);
  CHECK(traffic.cancelled > 1000);
  CHECK(shop.served > 100'000);
  CHECK(shop.timed_out > 10'000);
  // Tables reach their largest in the first two tenths, and after that at most a few double once more.
  CHECK(*std::max_element(memory.begin() + 1, memory.end()) <= memory[1] + (2U << 20));
}

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

}  // namespace test_soak
