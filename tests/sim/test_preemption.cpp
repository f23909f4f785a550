// Preemption at a station: by hand, and against a simulation tick by tick.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "actors.hpp"
#include "sim/resources.hpp"

namespace test_preemption {

using namespace orrery::sim;
using namespace orrery::test;

TEST_CASE("preemption resumes or restarts the least urgent", "[unit][resources]") {
  const auto run = [](Discipline discipline) {
    Engine engine;
    Server server(engine, "desk", 1, discipline);
    Log log;
    engine.processes().spawn("low", customer(engine, server, log, "low", 0, 10, 9));
    engine.processes().spawn("low2", customer(engine, server, log, "low2", 1, 4, 9));
    engine.processes().spawn("high", customer(engine, server, log, "high", 3, 5, 1));
    engine.processes().spawn("mid", customer(engine, server, log, "mid", 4, 2, 5));
    engine.run();
    CHECK(server.statistics().preempted == 1);
    return log;
  };
  // high 3 … 8, mid 8 … 10, then low before low2: it came first.
  CHECK(run(Discipline::preempt_resume) == Log{at(8, "high"), at(10, "mid"), at(17, "low"), at(21, "low2")});
  CHECK(run(Discipline::preempt_restart) == Log{at(8, "high"), at(10, "mid"), at(20, "low"), at(24, "low2")});
}

TEST_CASE("a service that ends at this instant is not preempted", "[unit][resources]") {
  Engine engine;
  Server server(engine, "desk", 1, Discipline::preempt_restart);
  Log log;
  engine.processes().spawn("high", customer(engine, server, log, "high", 10, 5, 1));  // its delay ends first at 10
  engine.processes().spawn("low", customer(engine, server, log, "low", 0, 10, 9));
  engine.run();
  CHECK(log == Log{at(10, "low"), at(15, "high")});
  CHECK(server.statistics().preempted == 0);
}

TEST_CASE("of several servers the least urgent job is preempted, of equal ones the last", "[unit][resources]") {
  Engine engine;
  Server server(engine, "desk", 2, Discipline::preempt_resume);
  Log log;
  engine.processes().spawn("a", customer(engine, server, log, "a", 0, 10, 5));
  engine.processes().spawn("b", customer(engine, server, log, "b", 1, 10, 5));
  engine.processes().spawn("c", customer(engine, server, log, "c", 2, 10, 1));  // preempts b, with 9 left
  engine.run();
  CHECK(log == Log{at(10, "a"), at(12, "c"), at(19, "b")});  // b goes on when a ends
}

TEST_CASE("arrivals put off by an end preempt the next least urgent job", "[unit][resources]") {
  Engine engine;
  Server server(engine, "desk", 2, Discipline::preempt_resume);
  Log log;
  for (const char* name : {"u", "v"})  // come at 10, before the end of a
    engine.processes().spawn(name, customer(engine, server, log, name, 10, 5, 0));
  engine.processes().spawn("a", customer(engine, server, log, "a", 0, 10, 9));
  engine.processes().spawn("b", customer(engine, server, log, "b", 0, 100, 8));
  engine.run();
  // u gets a's server, v preempts b: with 90 left, b goes on at 15.
  CHECK(log == Log{at(10, "a"), at(15, "u"), at(15, "v"), at(105, "b")});
  CHECK(server.statistics().preempted == 1);
}

TEST_CASE("arrivals put off by an end preempt when that job is cancelled, too", "[unit][resources]") {
  Engine engine;
  Server server(engine, "desk", 2, Discipline::preempt_restart);
  Log log;
  ProcessHandle a;
  for (const char* name : {"u", "v"}) engine.processes().spawn(name, customer(engine, server, log, name, 10, 5, 0));
  const auto canceller = [&](Engine& e) -> Process {
    co_await e.delay(Duration{10});
    a.cancel();  // its end is due at this instant
  };
  engine.processes().spawn("canceller", canceller(engine));
  a = engine.processes().spawn("a", customer(engine, server, log, "a", 0, 10, 9));
  engine.processes().spawn("b", customer(engine, server, log, "b", 0, 100, 8));
  engine.run();
  CHECK(log == Log{at(15, "u"), at(15, "v"), at(115, "b")});  // b starts again at 15
}

TEST_CASE("no job waits while a less urgent one is served, tick by tick", "[prop][resources]") {
  // In the reference the most urgent jobs, of equal ones the first to arrive, are served for each tick.
  struct Plan {
    std::int64_t at, service, priority, left, ended = -1;
  };
  const auto job = [](Engine& e, Server& server, Plan& plan) -> Process {
    co_await e.delay(Duration{plan.at});
    co_await server.use(Duration{plan.service}, plan.priority);
    plan.ended = e.now().ticks;
  };
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    RandomStream random(seed, "jobs");
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random.below(n)); };
    std::vector<Plan> jobs;
    for (int i = 0; i < 80; ++i) {
      const std::int64_t service = 1 + below(10);
      jobs.push_back({.at = 1 + below(100), .service = service, .priority = below(4), .left = service});
    }
    const std::int64_t servers = 1 + below(4);
    Engine engine;
    Server server(engine, "desk", servers, Discipline::preempt_resume);
    for (Plan& plan : jobs) engine.processes().spawn("job", job(engine, server, plan));
    engine.run();

    std::vector<Plan*> order;
    for (Plan& plan : jobs) order.push_back(&plan);
    std::stable_sort(order.begin(), order.end(), [](const Plan* a, const Plan* b) {
      return a->priority != b->priority ? a->priority < b->priority : a->at < b->at;
    });
    for (std::int64_t tick = 0, left = std::ssize(jobs); left > 0; ++tick) {
      std::int64_t free = servers;
      for (Plan* const plan : order) {
        if (plan->at > tick || plan->left == 0 || free-- <= 0) continue;
        if (--plan->left > 0) continue;
        --left;
        CAPTURE(seed, servers, plan->at, plan->priority);
        CHECK(plan->ended == tick + 1);
      }
    }
  }
}

}  // namespace test_preemption
