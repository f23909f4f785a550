// Random mixes of use, acquire, timeouts and cancellation: what must hold whatever happens.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "sim/resources.hpp"
#include "sim/when.hpp"

namespace test_process_random {

using namespace orrery::sim;

namespace {

struct World {
  std::unique_ptr<Engine> owner = std::make_unique<Engine>();
  Engine& engine = *owner;
  Server fifo{engine, "fifo", 2};
  Server priority{engine, "priority", 2, Discipline::priority};
  Server preemptive{engine, "preemptive", 2, Discipline::preempt_resume};
  Server restarting{engine, "restarting", 1, Discipline::preempt_restart};
  TokenPool strict{engine, "strict", 10};
  TokenPool loose{engine, "loose", 10, Admission::best_effort};
  ProcessorSharing shared{engine, "shared", 1.5, 1};
  Channel<int> channel{engine, "channel", 3};
  Signal signal{engine, "signal"};
  RandomStream random{1, "world"};
  std::vector<ProcessHandle> handles;
  std::int64_t in_use[2] = {0, 0};  // tokens, by our own count
  std::int64_t sent = 0, received = 0;
  std::string trace;

  explicit World(std::uint64_t seed) : random(seed, "world") {}
  Duration some() { return Duration{static_cast<std::int64_t>(random.below(20))}; }
  std::int64_t urgency() { return static_cast<std::int64_t>(random.below(3)); }
};

/// Counts tokens as held while it lives.
struct Count {
  std::int64_t& total;
  std::int64_t n;
  Count(std::int64_t& total_, std::int64_t n_) : total(total_), n(n_) { total += n; }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;
  ~Count() { total -= n; }
};

Process take(Engine& engine, World& world, TokenPool& pool, std::int64_t& in_use) {
  const auto n = static_cast<std::int64_t>(world.random.below(11));
  const Tokens tokens = co_await pool.acquire(n);
  const Count count(in_use, n);
  CHECK(tokens.units() == n);
  CHECK(in_use <= pool.capacity());
  co_await engine.delay(world.some());
}

Process act(Engine& engine, World& world) {
  switch (world.random.below(9)) {
    case 0:
      co_await world.fifo.use(world.some());
      break;
    case 1: {
      const Hold hold = co_await world.priority.acquire(world.urgency());
      co_await engine.delay(world.some());
      break;
    }
    case 2:
      co_await world.preemptive.use(world.some(), world.urgency());
      break;
    case 3:
      co_await world.restarting.use(world.some(), world.urgency());
      break;
    case 4:
      co_await take(engine, world, world.strict, world.in_use[0]);
      break;
    case 5:
      co_await take(engine, world, world.loose, world.in_use[1]);
      break;
    case 6:
      co_await world.shared.use(world.some(), 1 + world.urgency());
      break;
    case 7:
      if (world.random.below(2) == 0) {
        co_await world.channel.send(1);
        ++world.sent;
      } else if (co_await world.channel.receive()) {
        ++world.received;
      }
      break;
    default:
      if (world.random.below(4) == 0) {
        world.signal.set();
        world.signal.reset();
      } else {
        co_await world.signal.wait();
      }
  }
}

Process actor(Engine& engine, World& world, int id) {
  for (int i = 0; i < 20; ++i) {
    co_await engine.delay(world.some());
    switch (world.random.below(4)) {
      case 0:
        co_await when_any(act(engine, world), engine.delay(world.some()));
        break;
      case 1:
        co_await when_any(when_all(act(engine, world), act(engine, world)), engine.delay(world.some()));
        break;
      default:
        co_await when_any(act(engine, world), engine.delay(Duration{60}));
    }
    world.trace += std::to_string(id) + "@" + std::to_string(engine.now().ticks) + " ";
    if (world.random.below(12) == 0) world.handles[world.random.below(world.handles.size())].cancel();
  }
}

void check_conserved(const Server& server) {
  const ServerStatistics statistics = server.statistics();
  CHECK(statistics.arrived == statistics.served + statistics.cancelled + server.busy() + server.waiting());
  CHECK(server.busy() <= server.capacity());
  CHECK((server.waiting() == 0 || server.busy() == server.capacity()));  // nobody waits while a server is free
}

std::string simulate(std::uint64_t seed) {
  World world(seed);
  for (int id = 0; id < 40; ++id)
    world.handles.push_back(world.engine.processes().spawn("actor", actor(world.engine, world, id)));
  while (world.engine.step()) {
    for (const Server* server : {&world.fifo, &world.priority, &world.preemptive, &world.restarting})
      check_conserved(*server);
    CHECK(world.in_use[0] <= world.strict.capacity() - world.strict.free());
    CHECK(world.strict.free() >= 0);
    CHECK(world.loose.free() >= 0);
    CHECK(world.channel.size() <= 3 + 40);
  }
  CHECK(world.engine.processes().live() == 0);
  CHECK(world.engine.processes().frames().live() == 0);
  for (const Server* server : {&world.fifo, &world.priority, &world.preemptive, &world.restarting}) {
    CHECK(server->busy() + server->waiting() == 0);
    CHECK(server->statistics().served > 0);
    CHECK(server->statistics().cancelled > 0);
  }
  CHECK(world.preemptive.statistics().preempted > 0);
  CHECK(world.strict.free() == 10);
  CHECK(world.loose.free() == 10);
  CHECK(world.in_use[0] == 0);
  CHECK(world.in_use[1] == 0);
  const SharingStatistics shared = world.shared.statistics();
  CHECK(shared.arrived == shared.served + shared.cancelled);
  CHECK(world.shared.jobs() == 0);
  // Who was cancelled behind a send that had gone through, or before taking what was received, did not count.
  CHECK(world.received > 0);
  return world.trace;
}

}  // namespace

TEST_CASE("nothing is lost in random mixes, and a seed gives one history", "[prop][process]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const std::string first = simulate(seed);
    CHECK(first.size() > 1000);
    CHECK(first == simulate(seed));
  }
}

TEST_CASE("engine and resources end in the middle of a random mix, in either order", "[prop][process]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    World world(seed);
    for (int id = 0; id < 40; ++id)
      world.handles.push_back(world.engine.processes().spawn("actor", actor(world.engine, world, id)));
    for (std::uint64_t i = 0; i < 20 * seed; ++i) world.engine.step();
    CHECK(world.engine.processes().live() > 0);
    if (seed % 2 == 0) continue;  // the resources end first
    world.owner.reset();
    for (const Server* server : {&world.fifo, &world.priority, &world.preemptive, &world.restarting}) {
      check_conserved(*server);
      CHECK(server->busy() == 0);
    }
    CHECK(world.strict.free() + world.loose.free() == 20);
    CHECK(world.shared.jobs() == 0);
  }
}

TEST_CASE("shared service agrees with a simulation tick by tick", "[prop][process]") {
  // Each tick is cut in `kParts` equal steps; a job of weight w does w * min(cap, servers / W) / kParts of work in one.
  constexpr int kParts = 64;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomStream random(seed, "jobs");
    struct Plan {
      std::int64_t at, work, weight, ended = -1;
      double left = 0;
    };
    std::vector<Plan> jobs;
    for (int i = 0; i < 12; ++i)
      jobs.push_back({.at = static_cast<std::int64_t>(random.below(60)),
                      .work = static_cast<std::int64_t>(1 + random.below(30)),
                      .weight = static_cast<std::int64_t>(1 + random.below(3))});
    const double servers = 0.5 * static_cast<double>(1 + random.below(6));
    Engine engine;
    ProcessorSharing shared(engine, "shared", servers, 1);
    const auto job = [&](Engine& e, Plan& plan) -> Process {
      co_await e.delay(Duration{plan.at});
      co_await shared.use(Duration{plan.work}, plan.weight);
      plan.ended = e.now().ticks;
    };
    for (Plan& plan : jobs) engine.processes().spawn("job", job(engine, plan));
    engine.run();

    for (Plan& plan : jobs) plan.left = static_cast<double>(plan.work);
    std::size_t left = jobs.size();
    for (std::int64_t part = 0; left > 0; ++part) {
      double weights = 0;
      for (const Plan& plan : jobs)
        if (plan.at * kParts <= part && plan.left > 0) weights += static_cast<double>(plan.weight);
      for (Plan& plan : jobs) {
        if (plan.at * kParts > part || plan.left <= 0) continue;
        plan.left -= static_cast<double>(plan.weight) * std::min(1.0, servers / weights) / kParts;
        if (plan.left > 1e-9) continue;
        plan.left = 0;
        --left;
        // The steps are coarse: a job gets its share late by up to a step at every end before its own.
        const double ended = static_cast<double>(part + 1) / kParts;
        CAPTURE(seed, servers, ended, plan.ended);
        CHECK(static_cast<double>(plan.ended) >= ended - 12.0 / kParts);
        CHECK(static_cast<double>(plan.ended) < ended + 1 + 12.0 / kParts);
      }
    }
  }
}

}  // namespace test_process_random
