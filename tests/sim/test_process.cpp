// Tasks, processes, delays, joins, cancellation, deadlock.
#include "sim/process.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sim/server.hpp"
#include "tests/allocations.hpp"

namespace test_process {

using namespace orrery::sim;
using Log = std::vector<std::pair<std::int64_t, std::string>>;

namespace {

Process ticker(Engine& engine, Log& log, std::string name, Duration gap, int times) {
  for (int i = 0; i < times; ++i) {
    co_await engine.delay(gap);
    log.emplace_back(engine.now().ticks, name);
  }
}

Task<int> answer(Engine& engine, int value) {
  co_await engine.delay(Duration{1});
  co_return value;
}

Task<int> at_once(Engine&, int value) {
  co_return value;
}

Task<std::int64_t> deep(Engine& engine, std::int64_t levels) {
  if (levels == 0) {
    co_await engine.delay(Duration{1});
    co_return 0;
  }
  co_return 1 + co_await deep(engine, levels - 1);
}

/// Appends to a log when it ends: shows when, and how often, a frame's locals are destroyed.
struct Witness {
  std::vector<int>& ended;
  int id;
  Witness(std::vector<int>& ended_, int id_) : ended(ended_), id(id_) {}
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() { ended.push_back(id); }
};

}  // namespace

TEST_CASE("processes take turns by time, equal times by order of scheduling", "[unit][process]") {
  Engine engine;
  Log log;
  engine.processes().spawn("a", ticker(engine, log, "a", Duration{2}, 3));
  engine.processes().spawn("b", ticker(engine, log, "b", Duration{3}, 2));
  CHECK(log.empty());  // they start by events
  engine.run();
  // a: 2, 4, 6; b: 3, 6. At 6 b comes first: it scheduled at 3, a at 4.
  CHECK(log == Log{{2, "a"}, {3, "b"}, {4, "a"}, {6, "b"}, {6, "a"}});
  CHECK(engine.processes().live() == 0);
  CHECK(engine.processes().frames().live() == 0);
}

TEST_CASE("a child gives its value to the parent", "[unit][process]") {
  Engine engine;
  int sum = 0;
  const auto parent = [](Engine& e, int& out) -> Process { out = co_await answer(e, 40) + co_await at_once(e, 2); };
  engine.processes().spawn("parent", parent(engine, sum));
  engine.run();
  CHECK(sum == 42);
  CHECK(engine.now() == Time{1});
}

TEST_CASE("neither many children nor deep ones grow the stack", "[unit][process]") {
  Engine engine;
  std::int64_t sum = 0, depth = 0;
  const auto many = [](Engine& e, std::int64_t& out) -> Process {
    for (int i = 0; i < 1'000'000; ++i) out += co_await at_once(e, 1);
  };
  const auto chain = [](Engine& e, std::int64_t& out) -> Process { out = co_await deep(e, 100'000); };
  engine.processes().spawn("many", many(engine, sum));
  engine.processes().spawn("chain", chain(engine, depth));
  engine.run();
  CHECK(sum == 1'000'000);
  CHECK(depth == 100'000);
  // The same chain, destroyed while it waits.
  const ProcessHandle handle = engine.processes().spawn("chain", chain(engine, depth));
  engine.step();
  CHECK(handle.cancel());
  CHECK(engine.processes().frames().live() == 0);
}

TEST_CASE("a member function and a lambda with captures are processes", "[unit][process]") {
  struct Machine {
    int starts = 0;
    Process run(Engine& engine) {
      co_await engine.delay(Duration{1});
      ++starts;
    }
  };
  Engine engine;
  Machine machine;
  int seen = 0;
  const auto lambda = [&seen](Engine& e) -> Process {  // lives as long as its coroutines: they use its captures
    co_await e.delay(Duration{2});
    seen = 7;
  };
  engine.processes().spawn("machine", machine.run(engine));
  engine.processes().spawn("lambda", lambda(engine));
  engine.run();
  CHECK(machine.starts == 1);
  CHECK(seen == 7);
}

TEST_CASE("an exception leaves a child for its parent, and a process for run()", "[unit][process]") {
  Engine engine;
  Log log;
  const auto fails = [](Engine& e) -> Task<int> {
    co_await e.delay(Duration{1});
    throw std::runtime_error("the child failed");
  };
  bool caught = false;
  const auto catches = [&](Engine& e) -> Process {
    try {
      (void)co_await fails(e);
    } catch (const std::runtime_error&) {
      caught = true;
    }
    co_await e.delay(Duration{1});
    (void)co_await fails(e);  // ends at 3
  };
  const ProcessHandle failing = engine.processes().spawn("catches", catches(engine));
  engine.processes().spawn("ticker", ticker(engine, log, "t", Duration{5}, 2));
  CHECK_THROWS_WITH(engine.run(), "the child failed");
  CHECK(caught);
  CHECK(engine.now() == Time{3});
  CHECK(failing.done());
  engine.run();  // the others go on
  CHECK(log == Log{{5, "t"}, {10, "t"}});
}

TEST_CASE("what cannot be awaited or spawned says so", "[unit][process]") {
  Engine engine, other;
  CHECK_THROWS_WITH(engine.processes().spawn("nothing", Process{}), "an empty task was spawned as 'nothing'");
  CHECK_THROWS_WITH(engine.processes().spawn("lost", [](Engine&) -> Process { co_return; }(other)),
                    "'lost' was spawned on another engine than it was made for");
  std::string message;
  const auto twice = [&](Engine& e) -> Process {
    Task<int> task = at_once(e, 1);
    (void)co_await std::move(task);
    try {
      (void)co_await std::move(task);
    } catch (const std::logic_error& error) {
      message = error.what();
    }
    try {
      co_await e.delay(Duration{-1});
    } catch (const std::logic_error& error) {
      message += std::string("; ") + error.what();
    }
  };
  engine.processes().spawn("twice", twice(engine));
  engine.run();
  CHECK(message == "a task was awaited that is empty, or was awaited before; an event was scheduled in the past");
}

TEST_CASE("join waits for the end, however it comes", "[unit][process]") {
  Engine engine;
  Log log;
  const auto joiner = [&](Engine& e, ProcessHandle handle, std::string name) -> Process {
    co_await handle.join();
    log.emplace_back(e.now().ticks, name);
  };
  std::vector<int> ended;
  const auto worker = [&](Engine& e, int id) -> Process {
    Witness witness(ended, id);
    co_await e.delay(Duration{10 * id});
  };
  const ProcessHandle first = engine.processes().spawn("first", worker(engine, 1));
  const ProcessHandle second = engine.processes().spawn("second", worker(engine, 2));
  engine.processes().spawn("a", joiner(engine, first, "a"));
  engine.processes().spawn("b", joiner(engine, first, "b"));
  engine.processes().spawn("c", joiner(engine, second, "c"));
  engine.processes().spawn("d", joiner(engine, ProcessHandle{}, "d"));  // names nothing: done
  engine.run(Time{15});
  CHECK(first.done());
  CHECK_FALSE(first.cancel());
  CHECK(second.cancel());
  CHECK(second.done());
  CHECK(ended == std::vector<int>{1, 2});
  engine.run();
  CHECK(log == Log{{0, "d"}, {10, "a"}, {10, "b"}, {15, "c"}});
  // The row of a process that ended is used again; the old handle stays done.
  const ProcessHandle third = engine.processes().spawn("third", worker(engine, 3));
  CHECK_FALSE(third.done());
  CHECK(first.done());
  CHECK_FALSE(first.cancel());
  CHECK_FALSE(second.cancel());
}

TEST_CASE("cancelling destroys frames innermost first and cancels the event", "[unit][process]") {
  Engine engine;
  std::vector<int> ended;
  const auto inner = [&](Engine& e) -> Process {
    Witness witness(ended, 2);
    co_await e.delay(Duration{100});
  };
  const auto outer = [&](Engine& e) -> Process {
    Witness witness(ended, 1);
    co_await inner(e);
  };
  const ProcessHandle handle = engine.processes().spawn("outer", outer(engine));
  CHECK(engine.pending() == 1);
  engine.run(Time{10});
  CHECK(engine.pending() == 1);
  CHECK(handle.cancel());
  CHECK(ended == std::vector<int>{2, 1});
  CHECK(engine.pending() == 0);
  const ProcessHandle unstarted = engine.processes().spawn("outer", outer(engine));
  CHECK(unstarted.cancel());
  CHECK(engine.pending() == 0);
  CHECK(ended.size() == 2);  // it never ran
  CHECK(engine.processes().frames().live() == 0);
}

TEST_CASE("a process that cancels itself ends when it next waits", "[unit][process]") {
  Engine engine;
  std::vector<int> ended;
  ProcessHandle self, root;
  bool ran_on = false, too_far = false;
  const auto suicide = [&](Engine& e) -> Process {
    Witness witness(ended, 1);
    CHECK(self.cancel());
    CHECK_FALSE(self.done());
    ran_on = true;
    co_await e.delay(Duration{1});
    too_far = true;
  };
  const auto child = [&](Engine& e) -> Process {
    Witness witness(ended, 3);
    CHECK(root.cancel());
    co_await at_once(e, 1);  // a wait as well: the child suspends to let its own child run
    too_far = true;
  };
  const auto parent = [&](Engine& e) -> Process {
    Witness witness(ended, 2);
    co_await child(e);
    too_far = true;
  };
  const auto returns = [&](Engine&) -> Process {
    Witness witness(ended, 4);
    CHECK(self.cancel());
    co_return;
  };
  self = engine.processes().spawn("suicide", suicide(engine));
  engine.run();
  CHECK(self.done());
  root = engine.processes().spawn("parent", parent(engine));
  engine.run();
  CHECK(root.done());
  self = engine.processes().spawn("returns", returns(engine));
  engine.run();
  CHECK(ran_on);
  CHECK_FALSE(too_far);
  CHECK(ended == std::vector<int>{1, 3, 2, 4});
  CHECK(engine.processes().frames().live() == 0);
}

TEST_CASE("a handler and another process can cancel", "[unit][process]") {
  struct Canceller : EventHandler {
    ProcessHandle target;
    void on_event(std::uint64_t) override { CHECK(target.cancel()); }
  };
  Engine engine;
  Log log;
  Canceller canceller;
  canceller.target = engine.processes().spawn("a", ticker(engine, log, "a", Duration{2}, 100));
  engine.schedule_at(Time{5}, canceller);
  const ProcessHandle b = engine.processes().spawn("b", ticker(engine, log, "b", Duration{4}, 100));
  const auto killer = [](Engine& e, ProcessHandle target) -> Process {
    co_await e.delay(Duration{7});
    CHECK(target.cancel());
  };
  engine.processes().spawn("killer", killer(engine, b));
  engine.run();
  CHECK(log == Log{{2, "a"}, {4, "b"}, {4, "a"}});  // at 4, b's event is the older one
  CHECK(engine.now() == Time{7});
}

TEST_CASE("an engine ends with its processes unfinished, and a task after it", "[unit][process]") {
  std::vector<int> ended;
  Log log;
  Process never_run;
  {
    Engine engine;
    const auto worker = [&](Engine& e, int id) -> Process {
      Witness witness(ended, id);
      while (true) co_await e.delay(Duration{1});
    };
    for (int id = 0; id < 3; ++id) engine.processes().spawn("worker", worker(engine, id));
    engine.run(Time{10});
    never_run = ticker(engine, log, "late", Duration{1}, 1);
    CHECK(ended.empty());
  }
  CHECK(ended == std::vector<int>{0, 1, 2});
  CHECK_FALSE(never_run.empty());
}

TEST_CASE("a deadlock names who waits for what", "[unit][process]") {
  Engine engine;
  const auto forever = [](Engine&, ProcessHandle handle) -> Process { co_await handle.join(); };
  const auto outer = [&](Engine& e, ProcessHandle handle) -> Process { co_await forever(e, handle); };
  ProcessHandle a;
  const auto late = [&](Engine& e) -> Process {
    co_await e.delay(Duration{3'200'000'000'000});
    co_await a.join();
  };
  a = engine.processes().spawn("late", late(engine));
  const ProcessHandle b = engine.processes().spawn("outer", outer(engine, a));
  engine.processes().spawn_daemon("daemon", forever(engine, b));
  const std::string expected =
      "deadlock at 3.2 s: 2 processes wait and no event is left\n"
      "  late waits for the end of process 'late'\n"
      "  outer waits for the end of process 'late'";
  CHECK_THROWS_AS(engine.run(), Deadlock);
  CHECK_THROWS_WITH(engine.run(), expected);  // nothing changed: the engine can be asked again
  CHECK(a.cancel());
  engine.run();
  CHECK(b.done());
  CHECK(engine.processes().live() == 0);  // the daemon waited for b
  engine.processes().spawn_daemon("daemon",
                                  forever(engine, engine.processes().spawn_daemon("x", [](Engine& e) -> Process {
                                    co_await ProcessHandle(*e.processes().running()).join();
                                  }(engine))));
  engine.run();  // daemons may wait for ever
  CHECK(engine.processes().live() == 2);
}

TEST_CASE("the report of a deadlock is bounded", "[unit][process]") {
  Engine engine;
  const auto self = [](Engine& e) -> Process { co_await ProcessHandle(*e.processes().running()).join(); };
  for (int i = 0; i < 25; ++i) engine.processes().spawn("p" + std::to_string(i), self(engine));
  try {
    engine.run();
    FAIL("no deadlock");
  } catch (const Deadlock& deadlock) {
    const std::string text = deadlock.what();
    CHECK(std::count(text.begin(), text.end(), '\n') == 21);
    CHECK(text.starts_with("deadlock at 0 s: 25 processes wait and no event is left\n  p0 waits for the end of"));
    CHECK(text.ends_with("\n  p19 waits for the end of process 'p19'\n  and 5 more"));
  }
  struct Foreign {
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<>) const {}
    void await_resume() const {}
  };
  Engine second;
  second.processes().spawn("odd", [](Engine&) -> Process { co_await Foreign{}; }(second));
  CHECK_THROWS_WITH(second.run(),
                    "deadlock at 0 s: 1 process waits and no event is left\n"
                    "  odd waits for something that the engine does not know");
}

TEST_CASE("processes allocate nothing in a steady state", "[unit][process]") {
  Engine engine;
  const auto leaf = [](Engine& e, int value) -> Task<int> {
    co_await e.delay(Duration{1});
    co_return value;
  };
  const auto loop = [&](Engine& e, int rounds) -> Process {
    for (int i = 0; i < rounds; ++i) {
      (void)co_await leaf(e, i);
      co_await e.processes()
          .spawn("a name that is too long for the string itself",
                 [](Engine& e2) -> Process { co_await e2.delay(Duration{2}); }(e))
          .join();
    }
  };
  engine.processes().spawn("warm-up", loop(engine, 100));
  engine.run();
  engine.processes().spawn("measured", loop(engine, 10'000));
  const std::int64_t before = orrery::test::allocations();
  const std::size_t reserved = engine.processes().frames().reserved();
  engine.run();
  const std::int64_t allocated = orrery::test::allocations() - before;
  CHECK(allocated == 0);
  CHECK(engine.processes().frames().reserved() == reserved);
  CHECK(engine.now() == Time{3 * 10'100});  // each round: 1 tick in the child, 2 in the process
}

}  // namespace test_process
