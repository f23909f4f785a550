// Processes on everything that they share.
#include <string>
#include <vector>

#include "sim/resources.hpp"
#include "sim/when.hpp"
#include "tests/determinism/digest.hpp"

namespace orrery::determinism {
namespace {

using namespace sim;

struct World {
  World(Engine& engine_, Digest& digest_) : engine(engine_), digest(digest_) {}
  Engine& engine;
  Digest& digest;
  Server fifo{engine, "fifo", 2};
  Server priority{engine, "priority", 2, Discipline::priority};
  Server resuming{engine, "resuming", 2, Discipline::preempt_resume};
  Server restarting{engine, "restarting", 1, Discipline::preempt_restart};
  TokenPool strict{engine, "strict", 10};
  TokenPool loose{engine, "loose", 10, Admission::best_effort};
  ProcessorSharing shared{engine, "shared", 1.5, 1};
  Channel<std::int64_t> channel{engine, "channel", 3};
  Signal signal{engine, "signal"};
  std::vector<ProcessHandle> handles;
};

/// Ticks that often coincide, or seldom.
Duration some(Engine& engine, RandomStream& random) {
  return random.bernoulli(0.5) ? Duration{random.integer(0, 20)} : engine.scale().duration(random.exponential(2e-11));
}

Process act(Engine& engine, World& world, RandomStream& random) {
  const std::int64_t urgency = random.integer(0, 2);
  switch (random.below(9)) {
    case 0:
      co_await world.fifo.use(some(engine, random));
      break;
    case 1: {
      const Hold hold = co_await world.priority.acquire(urgency);
      co_await engine.delay(some(engine, random));
      break;
    }
    case 2:
      co_await world.resuming.use(some(engine, random), urgency);
      break;
    case 3:
      co_await world.restarting.use(some(engine, random), urgency);
      break;
    case 4: {
      const Tokens tokens = co_await world.strict.acquire(random.integer(0, 10));
      co_await engine.delay(some(engine, random));
      break;
    }
    case 5: {
      const Tokens tokens = co_await world.loose.acquire(random.integer(0, 10));
      co_await engine.delay(some(engine, random));
      break;
    }
    case 6:
      co_await world.shared.use(some(engine, random), 1 + urgency);
      break;
    case 7:
      if (random.bernoulli(0.5)) {
        co_await world.channel.send(engine.now().ticks);
      } else {
        world.digest.add((co_await world.channel.receive()).value_or(-1));
      }
      break;
    default:
      if (random.bernoulli(0.25)) {
        world.signal.set();
        world.signal.reset();
      } else {
        co_await world.signal.wait();
      }
  }
}

Process actor(Engine& engine, World& world, RandomStream random, std::uint64_t id) {
  for (int i = 0; i < 60; ++i) {
    co_await engine.delay(some(engine, random));
    const Duration patience = Duration{5} + some(engine, random);
    std::size_t first = 0;
    if (random.bernoulli(0.3)) {
      auto both = when_all(act(engine, world, random), act(engine, world, random));
      first = (co_await when_any(std::move(both), engine.delay(patience))).index;
    } else {
      first = (co_await when_any(act(engine, world, random), engine.delay(patience))).index;
    }
    world.digest.add(id);
    world.digest.add(first);
    world.digest.add(engine.now().ticks);
    if (random.bernoulli(0.01)) world.digest.add(world.handles[random.below(world.handles.size())].cancel());
  }
}

}  // namespace

void processes_on_resources(Digest& digest) {
  Engine engine(21);
  World world(engine, digest);
  const RandomStream random = engine.stream("actors");
  for (std::uint64_t id = 0; id < 60; ++id)
    world.handles.push_back(
        engine.processes().spawn("actor " + std::to_string(id), actor(engine, world, random.child(id), id)));
  engine.run();
  for (const Server* server : {&world.fifo, &world.priority, &world.resuming, &world.restarting}) {
    const ServerStatistics statistics = server->statistics();
    for (const std::int64_t n : {statistics.arrived, statistics.served, statistics.cancelled, statistics.preempted})
      digest.add(n);
    digest.add(statistics.busy_ticks);
    digest.add(statistics.queued_ticks);
    digest.add(statistics.utilisation);
  }
  for (const TokenPool* pool : {&world.strict, &world.loose}) {
    digest.add(pool->used_over_time().area(engine.now()));
    digest.add(pool->waiting_over_time().area(engine.now()));
  }
  digest.add(world.shared.statistics().served);
  digest.add(world.shared.statistics().job_ticks);
  digest.add(engine.events());
}

}  // namespace orrery::determinism
