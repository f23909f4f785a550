// What resources say when asked for the impossible, in a deadlock, and when things end in any order.
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "actors.hpp"
#include "sim/resources.hpp"
#include "sim/when.hpp"

namespace test_resource_ends {

using namespace orrery::sim;
using namespace orrery::test;

TEST_CASE("what cannot be asked of a resource says so", "[unit][resources]") {
  Engine engine;
  CHECK_THROWS_WITH(Server(engine, "s", 0), "'s': a station needs at least one server");
  CHECK_THROWS_WITH(TokenPool(engine, "t", -1), "'t': a pool has a negative capacity");
  CHECK_THROWS_WITH(Channel<int>(engine, "c", -1), "'c': a channel has a negative capacity");
  CHECK_THROWS_WITH(ProcessorSharing(engine, "p", 0), "'p': servers and cap must be 2^-17 to 2^16");
  Server server(engine, "gpu", 1, Discipline::preempt_resume);
  CHECK_THROWS_WITH(server.acquire(), "'gpu' preempts: it serves use(), not acquire()");
  CHECK_THROWS_WITH(server.try_acquire(), "'gpu' preempts: it serves use(), not try_acquire()");
  CHECK_THROWS_WITH(server.use(Duration{-1}), "'gpu': a service has a negative duration");
  TokenPool pool(engine, "memory", 8);
  CHECK_THROWS_WITH(pool.acquire(9), "'memory': 9 tokens were asked for, of 8 there are");
  CHECK_THROWS_WITH(pool.try_acquire(-1), "'memory': a negative number of tokens was asked for");
  ProcessorSharing shared(engine, "cpu");
  CHECK_THROWS_WITH(shared.use(Duration{-1}), "'cpu': a job has negative work");
  CHECK_THROWS_WITH(shared.use(Duration{1}, 0), "'cpu': a weight is outside 1 to 2^16");
  CHECK_THROWS_WITH(ProcessHandle().join().engine(), "a handle was joined that names no process");
}

TEST_CASE("a deadlock names who holds what is waited for", "[unit][resources]") {
  Engine engine;
  TokenPool pool(engine, "memory", 8);
  Server server(engine, "gpu");
  Channel<int> channel(engine, "requests", 1);
  Signal ready(engine, "ready");
  const auto trainer = [&](Engine&) -> Process {
    const Tokens tokens = co_await pool.acquire(7);
    const Hold hold = co_await server.acquire();
    co_await ready.wait();
  };
  const auto loader = [&](Engine& e) -> Process {
    co_await e.delay(Duration{3'200'000'000'000});
    const Tokens tokens = co_await pool.acquire(3);
  };
  const auto small = [&](Engine&) -> Process { (void)co_await pool.acquire(1); };
  const auto user = [&](Engine&) -> Process { co_await server.use(Duration{1}); };
  const auto sender = [&](Engine&) -> Process {
    co_await channel.send(1);
    co_await channel.send(2);
  };
  const auto both = [&](Engine&) -> Process {
    co_await when_all(ready.wait(), when_any(server.acquire(), ready.wait()));
  };
  Channel<int> empty(engine, "answers");
  const auto reader = [&](Engine&) -> Process { (void)co_await empty.receive(); };
  engine.processes().spawn("trainer", trainer(engine));
  engine.processes().spawn("loader", loader(engine));
  while (engine.step()) continue;  // to 3.2 s
  engine.processes().spawn("small", small(engine));
  engine.processes().spawn("user", user(engine));
  engine.processes().spawn("sender", sender(engine));
  engine.processes().spawn("both", both(engine));
  engine.processes().spawn("reader", reader(engine));
  CHECK_THROWS_WITH(
      engine.run(),
      "deadlock at 3.2 s: 7 processes wait and no event is left\n"
      "  trainer waits for signal 'ready'\n"
      "  loader waits for 3 tokens of 'memory' (1 of 8 free; held by trainer 7)\n"
      "  small waits for 1 token of 'memory' (1 of 8 free, behind a larger request; held by trainer 7)\n"
      "  user waits for server 'gpu' (0 of 1 free; held by trainer)\n"
      "  sender waits for room in channel 'requests' (1 of 1 values)\n"
      "  both waits for all of [signal 'ready'; any of [server 'gpu' (0 of 1 free; held by trainer); signal 'ready']]\n"
      "  reader waits for a value from channel 'answers' (empty)");
}

TEST_CASE("resources may end before those who wait for them or hold them", "[unit][resources]") {
  Engine engine;
  Log log;
  auto server = std::make_unique<Server>(engine, "server");
  auto urgent = std::make_unique<Server>(engine, "urgent", 1, Discipline::preempt_resume);
  auto pool = std::make_unique<TokenPool>(engine, "pool", 2);
  auto shared = std::make_unique<ProcessorSharing>(engine, "shared");
  auto channel = std::make_unique<Channel<int>>(engine, "channel", 1);
  auto fed = std::make_unique<Channel<int>>(engine, "fed");
  auto signal = std::make_unique<Signal>(engine, "signal");
  const auto fill = [&](Engine& e) -> Process {
    for (int i = 0; i < 2; ++i) {
      co_await channel->send(i);
      log.emplace_back(e.now().ticks, "sent");
    }
  };
  engine.processes().spawn("holder", holder(engine, *server, log, "holder", 50));
  engine.processes().spawn("waiter", holder(engine, *server, log, "waiter", 50));
  for (const char* name : {"u1", "u2"}) engine.processes().spawn(name, customer(engine, *urgent, log, name, 0, 20));
  for (const char* name : {"t1", "t2"}) engine.processes().spawn(name, taker(engine, *pool, log, name, 0, 2, 50));
  for (const char* name : {"s1", "s2"}) engine.processes().spawn(name, sharer(engine, *shared, log, name, 0, 20));
  engine.processes().spawn("fill", fill(engine));
  engine.processes().spawn("r", receiver(engine, *fed, log, "r"));
  engine.processes().spawn("w", waits_for(engine, *signal));
  engine.run(Time{10});
  CHECK(log == Log{at(0, "holder"), at(0, "sent"), at(0, "t1")});
  server.reset();
  urgent.reset();
  pool.reset();
  shared.reset();
  channel.reset();
  fed.reset();
  signal.reset();
  CHECK_THROWS_WITH(engine.run(),
                    "deadlock at 50 ps: 9 processes wait and no event is left\n"
                    "  waiter waits for a server that is gone\n"
                    "  u1 waits for a server that is gone\n"
                    "  u2 waits for a server that is gone\n"
                    "  t2 waits for tokens of a pool that is gone\n"
                    "  s1 waits for a resource that is gone\n"
                    "  s2 waits for a resource that is gone\n"
                    "  fill waits for room in a channel that is gone\n"
                    "  r waits for a value from a channel that is gone\n"
                    "  w waits for a signal that is gone");
}

TEST_CASE("a grant outlives its resource as an empty guard", "[unit][resources]") {
  Engine engine;
  Later later(engine);
  Log log;
  auto server = std::make_unique<Server>(engine, "server");
  auto pool = std::make_unique<TokenPool>(engine, "pool", 1);
  auto channel = std::make_unique<Channel<int>>(engine, "channel");
  std::optional<Hold> hold = server->try_acquire();
  std::optional<Tokens> tokens = pool->try_acquire(1);
  engine.processes().spawn("h", holder(engine, *server, log, "h", 5));
  engine.processes().spawn("t", taker(engine, *pool, log, "t", 0, 1, 5));
  const auto one = [](Engine& e, Channel<int>& c, Log& l) -> Process {
    const std::optional<int> x = co_await c.receive();
    l.emplace_back(e.now().ticks, std::to_string(x.value()));
  };
  engine.processes().spawn("r", one(engine, *channel, log));
  engine.run(Time{1});
  hold.reset();  // granted, by an event that is due now
  tokens.reset();
  channel->try_send(7);
  server.reset();
  pool.reset();
  channel.reset();
  engine.run();
  CHECK(log == Log{at(1, "h"), at(1, "t"), at(1, "7")});
}

TEST_CASE("an engine may end before its resources and guards", "[unit][resources]") {
  auto engine = std::make_unique<Engine>();
  Server server(*engine, "server");
  TokenPool pool(*engine, "pool", 4);
  ProcessorSharing shared(*engine, "shared");
  Channel<int> channel(*engine, "channel", 1);
  Signal signal(*engine, "signal");
  Log log;
  engine->processes().spawn("a", holder(*engine, server, log, "a", 50));
  engine->processes().spawn("b", holder(*engine, server, log, "b", 50));
  engine->processes().spawn("t", taker(*engine, pool, log, "t", 0, 3, 50));
  engine->processes().spawn("s", sharer(*engine, shared, log, "s", 0, 50));
  engine->processes().spawn("r", receiver(*engine, channel, log, "r"));
  engine->processes().spawn("w", waits_for(*engine, signal));
  std::optional<Tokens> outside = pool.try_acquire(1);
  engine->run(Time{10});
  engine.reset();
  CHECK(server.now() == Time{10});
  CHECK(server.statistics().utilisation == Approx(1.0));  // a held it all the time
  CHECK(pool.free() == 3);
  outside.reset();
  CHECK(pool.free() == 4);
  CHECK(shared.statistics().cancelled == 1);
  signal.set();
  channel.close();
  CHECK_THROWS_WITH(server.engine(), "'server' was used after its engine had ended");
}

TEST_CASE("a process may end the resource it just used", "[unit][resources]") {
  Engine engine;
  auto server = std::make_unique<Server>(engine, "server");
  auto shared = std::make_unique<ProcessorSharing>(engine, "shared");
  const auto user = [&](Engine&) -> Process {
    co_await server->use(Duration{1});
    server.reset();
    co_await shared->use(Duration{1});
    shared.reset();
  };
  engine.processes().spawn("user", user(engine));
  engine.run();
  CHECK(engine.now() == Time{2});
}

TEST_CASE("a service that would end after the end of time fails in its own process", "[unit][resources]") {
  Engine engine;
  Server server(engine, "server");
  Log log;
  const auto user = [&](Engine& e, std::int64_t service, const char* name) -> Process {
    const char* end = " served";
    try {
      co_await server.use(Duration{service});
    } catch (const std::overflow_error&) {
      end = " fails";
    }
    log.emplace_back(e.now().ticks, name + std::string(end));
  };
  engine.processes().spawn("a", user(engine, 10, "a"));
  engine.processes().spawn("b", user(engine, kNever.ticks - 9, "b"));  // could end if it began at 0 … 9
  engine.processes().spawn("c", user(engine, 5, "c"));
  engine.run();
  CHECK(log == Log{at(10, "a served"), at(10, "b fails"), at(15, "c served")});
  engine.processes().spawn("d", user(engine, kNever.ticks - 14, "d"));  // can never end: does not arrive
  engine.processes().spawn("e", user(engine, 1, "e"));
  engine.run();
  CHECK(log.size() == 5);
  CHECK(log[3] == at(15, "d fails"));
  CHECK(log[4] == at(16, "e served"));
  const ServerStatistics statistics = server.statistics();
  CHECK(statistics.arrived == 4);
  CHECK(statistics.served == 3);
  CHECK(statistics.cancelled == 1);
}

TEST_CASE("a service that cannot end any longer is told so when its turn comes", "[unit][resources]") {
  // c could have begun at 9 at the latest; b is before it, from 10 to 15. The queue is one of 10 + 15 + 15 ticks.
  for (const Discipline discipline : {Discipline::fifo, Discipline::priority}) {
    Engine engine;
    Server server(engine, "server", 1, discipline);
    Log log;
    const auto user = [&](Engine& e, std::int64_t service, const char* name) -> Process {
      const char* end = " served";
      try {
        co_await server.use(Duration{service});
      } catch (const std::overflow_error&) {
        end = " fails";
      }
      log.emplace_back(e.now().ticks, name + std::string(end));
    };
    engine.processes().spawn("a", user(engine, 10, "a"));
    engine.processes().spawn("b", user(engine, 5, "b"));
    engine.processes().spawn("c", user(engine, kNever.ticks - 9, "c"));
    engine.processes().spawn("d", user(engine, 1, "d"));
    engine.run(Time{12});
    CHECK(server.waiting() == 2);
    engine.run();
    CHECK(log == Log{at(10, "a served"), at(15, "b served"), at(15, "c fails"), at(16, "d served")});
    const ServerStatistics statistics = server.statistics();
    CHECK((statistics.queued_ticks == 40));
    CHECK((statistics.busy_ticks == 16));
    CHECK(statistics.served == 3);
    CHECK(statistics.cancelled == 1);
  }
}

TEST_CASE("a guard may end before a service that would end after the end of time", "[unit][resources]") {
  Engine engine;
  Log log;
  auto server = std::make_unique<Server>(engine, "server");
  std::optional<Hold> hold = server->try_acquire();
  engine.processes().spawn("a", customer(engine, *server, log, "a", 0, kNever.ticks));
  engine.processes().spawn("b", customer(engine, *server, log, "b", 0, 1));
  const auto releaser = [&](Engine& e) -> Process {
    co_await e.delay(Duration{5});
    hold.reset();
    CHECK(server->busy() == 1);  // b
    server.reset();              // a's failure is still to come
  };
  engine.processes().spawn("releaser", releaser(engine));
  CHECK_THROWS_AS(engine.run(), std::overflow_error);
  CHECK(engine.now() == Time{5});
  CHECK(engine.processes().live() == 1);  // b waits for a server that is gone
  CHECK(log.empty());
}

TEST_CASE("a hold has no holder once the engine is gone", "[unit][resources]") {
  auto engine = std::make_unique<Engine>();
  Server server(*engine, "server");
  Hold kept;
  const auto keeper = [&](Engine& e) -> Process {
    kept = co_await server.acquire();
    co_await e.delay(Duration{100});
  };
  engine->processes().spawn("keeper", keeper(*engine));
  engine->run(Time{1});
  REQUIRE(kept.holder() != nullptr);
  CHECK(kept.holder()->name == "keeper");
  engine.reset();
  CHECK(kept.holder() == nullptr);
  CHECK(kept.units() == 1);
}

}  // namespace test_resource_ends
