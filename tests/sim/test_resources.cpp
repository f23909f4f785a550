// Stations, pools, shared service, channels, signals: by hand.
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors.hpp"
#include "sim/base/document.hpp"
#include "sim/resources.hpp"
#include "sim/when.hpp"
#include "tests/allocations.hpp"

namespace test_resources {

using namespace orrery::sim;
using namespace orrery::test;

TEST_CASE("a station serves in the order of arrival", "[unit][resources]") {
  Engine engine;
  Server server(engine, "desk", 2);
  Log log;
  const auto add = [&](const char* name, std::int64_t when, std::int64_t service) {
    return engine.processes().spawn(name, customer(engine, server, log, name, when, service));
  };
  add("a", 0, 10);
  add("b", 1, 3);
  add("c", 2, 5);  // waits for b: 4 … 9
  add("d", 3, 1);  // waits for c: 9 … 10
  engine.run();
  CHECK(log == Log{at(4, "b"), at(9, "c"), at(10, "a"), at(10, "d")});
  const ServerStatistics statistics = server.statistics();
  CHECK(statistics.arrived == 4);
  CHECK(statistics.served == 4);
  CHECK(static_cast<std::int64_t>(statistics.busy_ticks) == 10 + 3 + 5 + 1);
  CHECK(static_cast<std::int64_t>(statistics.queued_ticks) == (4 - 2) + (9 - 3));
  CHECK(statistics.utilisation == Approx(19.0 / 20));
  CHECK(statistics.mean_queue == Approx(0.8));
  CHECK(engine.events() == 4 + 4 + 4);  // start, delay, and one for each service
}

TEST_CASE("a station with priorities is stable, and does not preempt", "[unit][resources]") {
  Engine engine;
  Server server(engine, "desk", 1, Discipline::priority);
  Log log;
  int n = 0;
  for (const std::int64_t priority : {5, 1, 0, 1, 5, 0}) {
    const std::string name = std::to_string(priority) + static_cast<char>('a' + n++);
    engine.processes().spawn(name, customer(engine, server, log, name, 0, 10, priority));
  }
  engine.run();
  // The first finds the desk free; then 0 before 1 before 5, equal ones as they came.
  CHECK(log == Log{at(10, "5a"), at(20, "0c"), at(30, "0f"), at(40, "1b"), at(50, "1d"), at(60, "5e")});
}

TEST_CASE("a hold keeps a server until it ends", "[unit][resources]") {
  Engine engine;
  Server server(engine, "room", 1);
  Log log;
  engine.processes().spawn("a", holder(engine, server, log, "a", 10));
  engine.processes().spawn("b", holder(engine, server, log, "b", 5));
  engine.processes().spawn("u", customer(engine, server, log, "u", 0, 3));
  engine.run(Time{12});
  CHECK(server.busy() == 1);
  CHECK(server.waiting() == 1);
  CHECK_FALSE(server.try_acquire().has_value());
  engine.run();
  CHECK(log == Log{at(0, "a"), at(10, "b"), at(18, "u")});
  {
    std::optional<Hold> hold = server.try_acquire();
    REQUIRE(hold.has_value());
    CHECK(hold->holder() == nullptr);
    Hold moved = std::move(*hold);
    CHECK(hold->units() == 0);
    CHECK(moved.units() == 1);
    CHECK(server.busy() == 1);
    moved = Hold();
    CHECK(server.busy() == 0);
  }
  CHECK(server.statistics().served == 4);
}

TEST_CASE("tokens are given in the order of arrival, or to whatever fits", "[unit][resources]") {
  const auto run = [](Admission admission) {
    Engine engine;
    TokenPool pool(engine, "memory", 8, admission);
    Log log;
    engine.processes().spawn("a", taker(engine, pool, log, "a", 0, 6, 10));
    engine.processes().spawn("b", taker(engine, pool, log, "b", 1, 4, 10));  // 2 are free: waits until 10
    engine.processes().spawn("c", taker(engine, pool, log, "c", 2, 2, 3));   // fits, but came behind b
    engine.run();
    CHECK(pool.free() == 8);
    // a and b hold 6 and 4 for 10 ticks each, c 2 for 3.
    CHECK(static_cast<std::int64_t>(pool.used_over_time().area(engine.now())) == 60 + 40 + 6);
    pool.restart_statistics();
    CHECK(pool.used_over_time().mean(engine.now()) == 0);
    return log;
  };
  CHECK(run(Admission::fifo) == Log{at(0, "a"), at(10, "b"), at(10, "c")});
  CHECK(run(Admission::best_effort) == Log{at(0, "a"), at(2, "c"), at(10, "b")});
}

TEST_CASE("cancelling the head of a pool lets those behind it through", "[unit][resources]") {
  Engine engine;
  TokenPool pool(engine, "memory", 8);
  Log log;
  engine.processes().spawn("a", taker(engine, pool, log, "a", 0, 6, 10));
  const ProcessHandle b = engine.processes().spawn("b", taker(engine, pool, log, "b", 1, 4, 10));
  engine.processes().spawn("c", taker(engine, pool, log, "c", 2, 2, 3));
  engine.run(Time{5});
  CHECK(pool.waiting() == 2);
  b.cancel();
  engine.run();
  CHECK(log == Log{at(0, "a"), at(5, "c")});
}

TEST_CASE("a grant that was not yet taken goes to the next", "[unit][resources]") {
  Engine engine;
  Later later(engine);
  Server server(engine, "room");
  TokenPool pool(engine, "memory", 1);
  Log log;
  std::optional<Hold> hold = server.try_acquire();
  std::optional<Tokens> tokens = pool.try_acquire(1);
  const ProcessHandle first = engine.processes().spawn("first", holder(engine, server, log, "first", 1));
  engine.processes().spawn("second", holder(engine, server, log, "second", 1));
  const ProcessHandle third = engine.processes().spawn("third", taker(engine, pool, log, "third", 0, 1, 1));
  engine.processes().spawn("fourth", taker(engine, pool, log, "fourth", 0, 1, 1));
  engine.run(Time{5});
  hold.reset();
  tokens.reset();
  CHECK(server.busy() == 1);  // set aside for the first
  CHECK(pool.free() == 0);
  first.cancel();
  third.cancel();
  engine.run();
  CHECK(log == Log{at(5, "second"), at(5, "fourth")});
  CHECK(server.statistics().cancelled == 1);
}

TEST_CASE("shared service divides the rate", "[unit][resources]") {
  Engine engine;
  ProcessorSharing shared(engine, "cpu");
  Log log;
  engine.processes().spawn("a", sharer(engine, shared, log, "a", 0, 10));
  engine.processes().spawn("b", sharer(engine, shared, log, "b", 4, 3));
  engine.run();
  // a alone to 4 (4 done); then halves: b ends after 6 at 10 (a has done 7); a alone: 3 left, at 13.
  CHECK(log == Log{at(10, "b"), at(13, "a")});
  CHECK(static_cast<std::int64_t>(shared.statistics().busy_ticks) == 13);
  CHECK(static_cast<std::int64_t>(shared.statistics().job_ticks) == 13 + 6);
}

TEST_CASE("shared service by weight, and capped", "[unit][resources]") {
  {
    Engine engine;
    ProcessorSharing shared(engine, "cpu");
    Log log;
    engine.processes().spawn("a", sharer(engine, shared, log, "a", 0, 9, 3));
    engine.processes().spawn("b", sharer(engine, shared, log, "b", 0, 9, 1));
    engine.run();
    CHECK(log == Log{at(12, "a"), at(18, "b")});  // a at 3/4: 12; b then did 3, its other 6 alone
  }
  {
    Engine engine;
    ProcessorSharing shared(engine, "cpu", 2, 1);
    Log log;
    for (const char* name : {"a", "b", "c"}) engine.processes().spawn(name, sharer(engine, shared, log, name, 0, 10));
    engine.processes().spawn("d", sharer(engine, shared, log, "d", 20, 10));
    engine.run();
    CHECK(log == Log{at(15, "a"), at(15, "b"), at(15, "c"), at(30, "d")});  // 3 jobs on 2 servers; alone, 1 at most
  }
  {
    Engine engine;
    ProcessorSharing shared(engine, "cpu");
    Log log;
    engine.processes().spawn("a", sharer(engine, shared, log, "a", 0, 1));
    engine.processes().spawn("b", sharer(engine, shared, log, "b", 0, 1, 2));
    engine.run();
    CHECK(log == Log{at(2, "b"), at(2, "a")});  // b at 2/3: 1.5, rounded up to 2; a has 1/2 left at 1.5: ends at 2
  }
}

TEST_CASE("a channel keeps the order, bounds its values and ends", "[unit][resources]") {
  Engine engine;
  Channel<int> channel(engine, "requests", 2);
  Log log;
  const auto sender = [&](Engine& e) -> Process {
    for (int i = 0; i < 5; ++i) {
      co_await channel.send(i);
      log.emplace_back(e.now().ticks, "sent" + std::to_string(i));
    }
    channel.close();
  };
  const auto slow = [&](Engine& e) -> Process {
    co_await e.delay(Duration{10});
    while (const std::optional<int> x = co_await channel.receive()) {
      log.emplace_back(e.now().ticks, "got" + std::to_string(*x));
      co_await e.delay(Duration{10});
    }
    log.emplace_back(e.now().ticks, "end");
  };
  engine.processes().spawn("sender", sender(engine));
  engine.processes().spawn("slow", slow(engine));
  engine.run();
  CHECK(log == Log{at(0, "sent0"), at(0, "sent1"), at(10, "got0"), at(10, "sent2"), at(20, "got1"), at(20, "sent3"),
                   at(30, "got2"), at(30, "sent4"), at(40, "got3"), at(50, "got4"), at(60, "end")});
  CHECK_THROWS_WITH(channel.try_send(1), "'requests': a value was sent after the channel was closed");
  CHECK_FALSE(channel.try_receive().has_value());
}

TEST_CASE("receivers are served as they came, and a cancelled one's value keeps its place", "[unit][resources]") {
  Engine engine;
  Later later(engine);
  Channel<int> channel(engine, "requests");
  Log log;
  const ProcessHandle a = engine.processes().spawn("a", receiver(engine, channel, log, "a"));
  const ProcessHandle b = engine.processes().spawn("b", receiver(engine, channel, log, "b"));
  engine.run(Time{1});
  for (int i = 1; i <= 4; ++i) CHECK(channel.try_send(std::move(i)));
  CHECK(channel.size() == 2);  // 1 and 2 are a's and b's
  a.cancel();
  b.cancel();
  CHECK(channel.size() == 4);
  engine.processes().spawn("c", receiver(engine, channel, log, "c"));
  engine.run(Time{2});
  channel.close();
  engine.run();
  CHECK(log == Log{at(1, "c1"), at(1, "c2"), at(1, "c3"), at(1, "c4"), at(2, "c ends")});
}

TEST_CASE("a closed channel gives a cancelled receiver's value to the next", "[unit][resources]") {
  Engine engine;
  Channel<int> channel(engine, "requests");
  Log log;
  ProcessHandle first, third;
  const auto driver = [&](Engine& e) -> Process {
    co_await e.delay(Duration{5});
    for (int i = 7; i <= 8; ++i) CHECK(channel.try_send(std::move(i)));  // r1's and r2's
    channel.close();                                                     // r3 and r4 get nothing, so far
    first.cancel();                                                      // 7 is r3's
    third.cancel();                                                      // r4's
    CHECK(channel.size() == 0);
  };
  first = engine.processes().spawn("r1", receiver(engine, channel, log, "r1"));
  engine.processes().spawn("r2", receiver(engine, channel, log, "r2"));
  third = engine.processes().spawn("r3", receiver(engine, channel, log, "r3"));
  engine.processes().spawn("r4", receiver(engine, channel, log, "r4"));
  engine.processes().spawn("driver", driver(engine));
  engine.run();
  CHECK(log == Log{at(5, "r28"), at(5, "r2 ends"), at(5, "r47"), at(5, "r4 ends")});
}

TEST_CASE("a rendezvous is over though its receiver is then cancelled", "[unit][resources]") {
  Engine engine;
  Channel<int> channel(engine, "hand-over", 0);
  Log log;
  const ProcessHandle cancelled = engine.processes().spawn("r", receiver(engine, channel, log, "r"));
  const auto sender = [&](Engine& e) -> Process {
    co_await e.delay(Duration{1});
    co_await channel.send(7);
    log.emplace_back(e.now().ticks, "sent");
    cancelled.cancel();
    CHECK(channel.size() == 1);
    co_await e.delay(Duration{1});
    engine.processes().spawn_daemon("next", receiver(engine, channel, log, "next "));
  };
  engine.processes().spawn("sender", sender(engine));
  engine.run();
  CHECK(log == Log{at(1, "sent"), at(2, "next 7")});
}

TEST_CASE("a channel without room is a rendezvous; values may be move-only", "[unit][resources]") {
  Engine engine;
  Channel<std::unique_ptr<int>> channel(engine, "hand-over", 0);
  Log log;
  const auto sender = [&](Engine& e) -> Process {
    for (int i = 1; i <= 2; ++i) {
      co_await channel.send(std::make_unique<int>(i));
      log.emplace_back(e.now().ticks, "sent");
    }
  };
  const auto slow = [&](Engine& e) -> Process {
    for (int i = 1; i <= 2; ++i) {
      co_await e.delay(Duration{5});
      const std::optional<std::unique_ptr<int>> x = co_await channel.receive();
      log.emplace_back(e.now().ticks, "got" + std::to_string(**x));
    }
  };
  engine.processes().spawn("sender", sender(engine));
  engine.processes().spawn("slow", slow(engine));
  engine.run();
  CHECK(log == Log{at(5, "got1"), at(5, "sent"), at(10, "got2"), at(10, "sent")});
  std::unique_ptr<int> kept = std::make_unique<int>(3);
  CHECK_FALSE(channel.try_send(kept));
  CHECK(kept != nullptr);
}

TEST_CASE("a signal wakes all who wait, and lets through who comes later", "[unit][resources]") {
  Engine engine;
  Signal ready(engine, "ready");
  Log log;
  const auto waiter = [&](Engine& e, std::string name, std::int64_t when) -> Process {
    co_await e.delay(Duration{when});
    co_await ready.wait();
    log.emplace_back(e.now().ticks, name);
  };
  engine.processes().spawn("a", waiter(engine, "a", 1));
  engine.processes().spawn("b", waiter(engine, "b", 2));
  engine.processes().spawn("c", waiter(engine, "c", 7));
  const ProcessHandle d = engine.processes().spawn("d", waiter(engine, "d", 9));
  const auto setter = [&](Engine& e) -> Process {
    co_await e.delay(Duration{5});
    ready.set();
    ready.reset();  // a and b go on; c waits
    co_await e.delay(Duration{5});
    CHECK(d.cancel());
    ready.set();
    co_await ready.wait();  // at once
    log.emplace_back(e.now().ticks, "setter");
  };
  engine.processes().spawn("setter", setter(engine));
  engine.run();
  CHECK(log == Log{at(5, "a"), at(5, "b"), at(10, "setter"), at(10, "c")});
}

TEST_CASE("resources allocate nothing in a steady state", "[unit][resources]") {
  Engine engine;
  Server server(engine, "server", 2);
  Server urgent(engine, "urgent", 1, Discipline::preempt_resume);
  TokenPool pool(engine, "pool", 4);
  ProcessorSharing shared(engine, "shared");
  Channel<int> channel(engine, "channel", 2);
  Signal signal(engine, "signal");
  const auto loop = [&](Engine& e, int rounds, int id) -> Process {
    for (int i = 0; i < rounds; ++i) {
      co_await server.use(Duration{2});
      co_await urgent.use(Duration{1 + id}, id);
      const Tokens tokens = co_await pool.acquire(1 + id);
      co_await shared.use(Duration{3}, 1 + id);
      co_await channel.send(i);
      (void)co_await channel.receive();
      signal.reset();
      co_await when_any(signal.wait(), e.delay(Duration{1}));
      co_await when_all(e.delay(Duration{1}), server.use(Duration{1}));
      const Hold hold = co_await server.acquire();
      signal.set();
    }
  };
  for (int id = 0; id < 3; ++id) engine.processes().spawn("warm-up", loop(engine, 100, id));
  engine.run();
  for (int id = 0; id < 3; ++id) engine.processes().spawn("measured", loop(engine, 2000, id));
  const std::int64_t before = orrery::test::allocations();
  const std::size_t reserved = engine.processes().frames().reserved();
  engine.run();
  const std::int64_t allocated = orrery::test::allocations() - before;
  CHECK(allocated == 0);
  CHECK(engine.processes().frames().reserved() == reserved);
}

TEST_CASE("statistics can start after a warm-up", "[unit][resources]") {
  Engine engine;
  Server server(engine, "desk");
  ProcessorSharing shared(engine, "cpu");
  Log log;
  for (const char* name : {"a", "b"}) {
    engine.processes().spawn(name, customer(engine, server, log, name, 0, 10));
    engine.processes().spawn(name, sharer(engine, shared, log, name, 0, 10));
  }
  engine.run(Time{5});
  server.restart_statistics();
  shared.restart_statistics();
  engine.run();
  const ServerStatistics desk = server.statistics();
  CHECK(desk.arrived == 2);  // one in service, one in the queue
  CHECK(desk.served == 2);
  CHECK(desk.utilisation == Approx(1.0));
  CHECK(desk.mean_queue == Approx(5.0 / 15));
  CHECK(shared.statistics().arrived == 2);
  CHECK(shared.statistics().mean_jobs == Approx(2.0));
}

TEST_CASE("a station that preempts: who goes, who comes back, and what it counts", "[unit][resources]") {
  // a (priority 5) 0 … 10; b (3) at 4 takes its server until 7; c (5) at 5 waits behind a, which came before it.
  const auto run = [](Discipline discipline, ServerStatistics& statistics) {
    Engine engine;
    Server server(engine, "gpu", 1, discipline);
    Log log;
    engine.processes().spawn("a", customer(engine, server, log, "a", 0, 10, 5));
    engine.processes().spawn("b", customer(engine, server, log, "b", 4, 3, 3));
    engine.processes().spawn("c", customer(engine, server, log, "c", 5, 2, 5));
    engine.processes().spawn("d", customer(engine, server, log, "d", 6, 1, 3));  // as urgent as b: waits
    engine.run();
    statistics = server.statistics();
    return log;
  };
  ServerStatistics of;
  // d 7 … 8; a has 6 left: 8 … 14; c 14 … 16.
  CHECK(run(Discipline::preempt_resume, of) == Log{at(7, "b"), at(8, "d"), at(14, "a"), at(16, "c")});
  CHECK(of.preempted == 1);
  CHECK(of.arrived == 4);
  CHECK(of.served == 4);
  CHECK(static_cast<std::int64_t>(of.busy_ticks) == 16);
  CHECK(static_cast<std::int64_t>(of.queued_ticks) == (8 - 4) + (14 - 5) + (7 - 6));
  CHECK(of.utilisation == 1);
  // From the start: 8 … 18.
  CHECK(run(Discipline::preempt_restart, of) == Log{at(7, "b"), at(8, "d"), at(18, "a"), at(20, "c")});
  CHECK(of.preempted == 1);
  CHECK(static_cast<std::int64_t>(of.queued_ticks) == (8 - 4) + (18 - 5) + (7 - 6));
}

TEST_CASE("of several in service the least urgent goes, of equal ones the last to arrive", "[unit][resources]") {
  Engine engine;
  Server server(engine, "gpu", 3, Discipline::preempt_resume);
  Log log;
  engine.processes().spawn("a", customer(engine, server, log, "a", 0, 20, 5));
  engine.processes().spawn("b", customer(engine, server, log, "b", 1, 20, 5));
  engine.processes().spawn("c", customer(engine, server, log, "c", 2, 20, 4));
  engine.processes().spawn("d", customer(engine, server, log, "d", 3, 10, 1));  // in place of b, until 13
  engine.processes().spawn("e", customer(engine, server, log, "e", 5, 2, 1));   // in place of a, until 7
  engine.processes().spawn("f", customer(engine, server, log, "f", 6, 1, 4));   // c is as urgent: waits
  engine.run();
  // At 7: f (4) goes before a and b, 7 … 8; a has 15 left: 8 … 23; b 18 from 13: 31; c 2 … 22.
  CHECK(log == Log{at(7, "e"), at(8, "f"), at(13, "d"), at(22, "c"), at(23, "a"), at(31, "b")});
  CHECK(server.statistics().preempted == 2);
  CHECK(server.capacity() == 3);
}

TEST_CASE("a job that ends just then is not preempted", "[unit][resources]") {
  // a ends at 10, when the urgent b comes; b begins then, and a was served in full.
  Engine engine;
  Server server(engine, "gpu", 1, Discipline::preempt_restart);
  Log log;
  engine.processes().spawn("b", customer(engine, server, log, "b", 10, 5, 0));  // its delay ends before a's service
  engine.processes().spawn("a", customer(engine, server, log, "a", 0, 10, 9));
  engine.run();
  CHECK(log == Log{at(10, "a"), at(15, "b")});
  CHECK(server.statistics().preempted == 0);
}

TEST_CASE("jobs that are cancelled leave from wherever they are", "[unit][resources]") {
  for (const Discipline discipline :
       {Discipline::fifo, Discipline::priority, Discipline::preempt_resume, Discipline::preempt_restart}) {
    Engine engine;
    Server server(engine, "desk", 1, discipline);
    Log log;
    std::vector<ProcessHandle> jobs;
    for (const char* name : {"a", "b", "c", "d"})
      jobs.push_back(engine.processes().spawn(name, customer(engine, server, log, name, 0, 10)));
    engine.run(Time{4});
    CHECK(server.busy() == 1);
    CHECK(server.waiting() == 3);
    jobs[2].cancel();  // waits
    CHECK(server.waiting() == 2);
    CHECK(server.busy() == 1);
    jobs[0].cancel();  // is served: b begins at 4
    CHECK(server.waiting() == 1);
    CHECK(server.busy() == 1);
    engine.run();
    CHECK(log == Log{at(14, "b"), at(24, "d")});
    const ServerStatistics statistics = server.statistics();
    CHECK(statistics.arrived == 4);
    CHECK(statistics.served == 2);
    CHECK(statistics.cancelled == 2);
    CHECK(static_cast<std::int64_t>(statistics.busy_ticks) == 24);
    CHECK(static_cast<std::int64_t>(statistics.queued_ticks) == 4 + 4 + 14);
    CHECK(statistics.mean_queue == Approx(22.0 / 24));
    server.restart_statistics();
    CHECK(server.statistics().arrived == 0);
    CHECK(server.statistics().cancelled == 0);
  }
}

TEST_CASE("servers that are taken and given back are counted", "[unit][resources]") {
  Engine engine;
  Server server(engine, "room", 2);
  {
    const std::optional<Hold> one = server.try_acquire(), two = server.try_acquire();
    CHECK(server.busy() == 2);
    CHECK_FALSE(server.try_acquire());
    CHECK(server.statistics().arrived == 2);
    CHECK(server.statistics().served == 0);
    server.restart_statistics();
    CHECK(server.statistics().arrived == 2);  // those inside
  }
  CHECK(server.busy() == 0);
  CHECK(server.statistics().served == 2);
}

TEST_CASE("a pool gives all that there is, and nothing too", "[unit][resources]") {
  Engine engine;
  TokenPool pool(engine, "memory", 4);
  CHECK(pool.capacity() == 4);
  std::optional<Tokens> all = pool.try_acquire(4);
  REQUIRE(all);
  CHECK(all->units() == 4);
  CHECK(pool.free() == 0);
  CHECK_FALSE(pool.try_acquire(1));
  const std::optional<Tokens> nothing = pool.try_acquire(0);
  REQUIRE(nothing);
  CHECK(nothing->units() == 0);
  all.reset();
  CHECK(pool.free() == 4);
  CHECK_THROWS_WITH(pool.acquire(-1), "'memory': a negative number of tokens was asked for");
  CHECK_THROWS_WITH(pool.try_acquire(5), "'memory': 5 tokens were asked for, of 4 there are");
  TokenPool none(engine, "none", 0);
  CHECK(none.try_acquire(0));
  CHECK_FALSE(none.free());
}

TEST_CASE("a pool does not let anybody pass who came later, unless it is told to", "[unit][resources]") {
  for (const Admission admission : {Admission::fifo, Admission::best_effort}) {
    Engine engine;
    TokenPool pool(engine, "memory", 4, admission);
    Log log;
    engine.processes().spawn("a", taker(engine, pool, log, "a", 0, 3, 10));
    engine.processes().spawn("b", taker(engine, pool, log, "b", 1, 2, 10));  // waits until 10
    engine.run(Time{2});
    CHECK(pool.waiting() == 1);
    CHECK(pool.try_acquire(1).has_value() == (admission == Admission::best_effort));
    engine.processes().spawn("c", taker(engine, pool, log, "c", 0, 3, 10));
    engine.processes().spawn("d", taker(engine, pool, log, "d", 0, 1, 20));
    engine.run();
    // In order: b at 10 and then c at 20, d behind it. Else d at 2; at 10 three are free: b and not c, at 20 c.
    CHECK(log == (admission == Admission::fifo ? Log{at(0, "a"), at(10, "b"), at(20, "c"), at(20, "d")}
                                               : Log{at(0, "a"), at(2, "d"), at(10, "b"), at(20, "c")}));
    // Requests waited 1 … 10, 2 … 20 and, in order, 2 … 20.
    CHECK(static_cast<std::int64_t>(pool.waiting_over_time().area(engine.now())) ==
          9 + 18 + (admission == Admission::fifo ? 18 : 0));
    CHECK(pool.free() == 4);
  }
}

TEST_CASE("shared service: cancelled jobs leave their share to the others", "[unit][resources]") {
  Engine engine;
  ProcessorSharing shared(engine, "cpu");
  Log log;
  engine.processes().spawn("a", sharer(engine, shared, log, "a", 0, 10));
  const ProcessHandle b = engine.processes().spawn("b", sharer(engine, shared, log, "b", 0, 10));
  engine.run(Time{8});  // four each
  CHECK(shared.jobs() == 2);
  b.cancel();
  CHECK(shared.jobs() == 1);
  engine.run();
  CHECK(log == Log{at(14, "a")});  // six alone
  const SharingStatistics of = shared.statistics();
  CHECK(of.arrived == 2);
  CHECK(of.served == 1);
  CHECK(of.cancelled == 1);
  CHECK(static_cast<std::int64_t>(of.job_ticks) == 2 * 8 + 6);
  CHECK(static_cast<std::int64_t>(of.busy_ticks) == 14);
  CHECK(of.mean_jobs == Approx(22.0 / 14));
}

namespace {

/// Jobs that come at random, a few of which are cancelled; what happened in the end.
template <class Spawn>
Log random_traffic(Engine& engine, Log& log, Spawn spawn) {
  RandomStream random(31, "traffic");
  std::vector<ProcessHandle> jobs;
  std::int64_t when = 0;
  for (int i = 0; i < 400; ++i) {
    when += static_cast<std::int64_t>(random.below(12));
    const auto length = static_cast<std::int64_t>(random.below(30));
    const auto third = static_cast<std::int64_t>(1 + random.below(4));
    jobs.push_back(spawn(std::to_string(i), when, length, third));
  }
  for (std::int64_t now = 50; now < 2500; now += 50) {
    engine.run(Time{now});
    jobs[random.below(jobs.size())].cancel();
  }
  engine.run();
  return log;
}
std::uint64_t hash_of(const Log& log) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const auto& [when, name] : log)
    hash = hash_text(name, (hash ^ static_cast<std::uint64_t>(when)) * 0x100000001b3ULL);
  return hash;
}

}  // namespace

TEST_CASE("random traffic at a station adds up, and is the same everywhere", "[golden][resources]") {
  // Golden values are this implementation's own, written down once.
  struct Row {
    Discipline discipline;
    std::uint64_t hash;
    std::int64_t preempted, busy, queued;
  };
  for (const Row& row : std::vector<Row>{{Discipline::fifo, 0x501ea956901385f7ULL, 0, 5822, 2279},
                                         {Discipline::priority, 0x4dd18aa047c6cb32ULL, 0, 5821, 2283},
                                         {Discipline::preempt_resume, 0x9bbb55767577b997ULL, 127, 5813, 2781},
                                         {Discipline::preempt_restart, 0x234422d3e02dbbdbULL, 215, 7140, 31143}}) {
    Engine engine;
    Server server(engine, "desk", 3, row.discipline);
    Log log;
    random_traffic(engine, log,
                   [&](const std::string& name, std::int64_t when, std::int64_t length, std::int64_t urgency) {
                     return engine.processes().spawn(name, customer(engine, server, log, name, when, length, urgency));
                   });
    const ServerStatistics of = server.statistics();
    CHECK(of.arrived == of.served + of.cancelled);
    CHECK(of.served == static_cast<std::int64_t>(log.size()));
    CHECK(hash_of(log) == row.hash);
    CHECK(of.preempted == row.preempted);
    CHECK(static_cast<std::int64_t>(of.busy_ticks) == row.busy);
    CHECK(static_cast<std::int64_t>(of.queued_ticks) == row.queued);
  }
}

TEST_CASE("random traffic in shared service adds up, and is the same everywhere", "[golden][resources]") {
  struct Row {
    double servers, cap;
    std::uint64_t hash;
    std::int64_t jobs, busy;
  };
  for (const Row& row : std::vector<Row>{{3, 1, 0x419b961c51e50bf7ULL, 8142, 2146},
                                         {2.5, 2.5, 0x49d18a72dfe3c49aULL, 22260, 2328},
                                         {0.7, 0.3, 0x0dc16a2a8da6ae0cULL, 1352459, 7830}}) {
    Engine engine;
    ProcessorSharing shared(engine, "cpu", row.servers, row.cap);
    Log log;
    random_traffic(engine, log,
                   [&](const std::string& name, std::int64_t when, std::int64_t work, std::int64_t weight) {
                     return engine.processes().spawn(name, sharer(engine, shared, log, name, when, work, weight));
                   });
    const SharingStatistics of = shared.statistics();
    CHECK(of.arrived == of.served + of.cancelled);
    CHECK(of.served == static_cast<std::int64_t>(log.size()));
    CHECK(hash_of(log) == row.hash);
    CHECK(static_cast<std::int64_t>(of.job_ticks) == row.jobs);
    CHECK(static_cast<std::int64_t>(of.busy_ticks) == row.busy);
  }
}

TEST_CASE("a resource that is made late counts from then on", "[unit][resources]") {
  Engine engine;
  Later later(engine);  // at 1000
  engine.run();
  REQUIRE(engine.now() == Time{1000});
  Server server(engine, "late", 2);
  TokenPool pool(engine, "late", 4);
  ProcessorSharing shared(engine, "late");
  Log log;
  engine.processes().spawn("a", customer(engine, server, log, "a", 0, 10));
  engine.processes().spawn("b", taker(engine, pool, log, "b", 0, 3, 10));
  engine.processes().spawn("c", sharer(engine, shared, log, "c", 0, 10));
  engine.run();
  CHECK(server.statistics().utilisation == 0.5);
  CHECK(server.statistics().mean_queue == 0);
  CHECK(pool.used_over_time().mean(engine.now()) == 3);
  CHECK(pool.waiting_over_time().mean(engine.now()) == 0);
  CHECK(shared.statistics().mean_jobs == 1);
}

}  // namespace test_resources
