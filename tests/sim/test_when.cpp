// Waiting for all or any of several things.
#include "sim/when.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "sim/resources.hpp"

namespace test_when {

using namespace orrery::sim;

namespace {

Task<int> after(Engine& engine, std::int64_t delay, int value) {
  co_await engine.delay(Duration{delay});
  co_return value;
}

Task<int> at_once(Engine&, int value) {
  co_return value;
}

Task<int> fails(Engine& engine, std::int64_t delay) {
  if (delay > 0) co_await engine.delay(Duration{delay});
  throw std::runtime_error("branch failed");
}

/// Ends when its frame does.
struct Witness {
  int& ended;
  explicit Witness(int& ended_) : ended(ended_) {}
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  ~Witness() { ++ended; }
};

Task<int> watched(Engine& engine, std::int64_t delay, int& ended) {
  Witness witness(ended);
  co_await engine.delay(Duration{delay});
  co_return 1;
}

Task<int> nested(Engine& engine, int levels) {
  if (levels == 0) co_return co_await after(engine, 1, 0);
  const auto [below] = co_await when_all(nested(engine, levels - 1));
  co_return below + 1;
}

/// Runs `body` as a process of `engine`, to the end of all events.
template <class Body>
void run(Engine& engine, Body body) {
  engine.processes().spawn("test", body(engine));
  engine.run();
  CHECK(engine.processes().frames().live() == 0);
}

}  // namespace

TEST_CASE("when_all waits for the last and gives all values", "[unit][when]") {
  Engine engine;
  bool done = false;
  run(engine, [&](Engine& e) -> Process {
    Server server(e, "server");
    const auto [a, b, c, d] =
        co_await when_all(after(e, 5, 1), at_once(e, 2), e.delay(Duration{3}), server.use(Duration{7}));
    CHECK(a == 1);
    CHECK(b == 2);
    CHECK(c == std::monostate{});
    CHECK(d == std::monostate{});
    CHECK(e.now() == Time{7});
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 4; ++i) tasks.push_back(after(e, 10 - i, i));
    const std::vector<int> values = co_await when_all(std::move(tasks));
    CHECK(values == std::vector<int>{0, 1, 2, 3});
    CHECK(e.now() == Time{17});
    std::vector<Delay> delays;
    for (int i = 0; i < 4; ++i) delays.push_back(e.delay(Duration{i}));
    co_await when_all(std::move(delays));
    CHECK(e.now() == Time{20});
    const std::vector<int> none = co_await when_all(std::vector<Task<int>>());
    CHECK(none.empty());
    const std::tuple<int, int> two = co_await when_all(at_once(e, 1), at_once(e, 2));  // nothing waits
    CHECK(two == std::tuple(1, 2));
    CHECK(e.now() == Time{20});
    done = true;
  });
  CHECK(done);
}

TEST_CASE("when_any gives the first and cancels the others", "[unit][when]") {
  Engine engine;
  bool done = false;
  run(engine, [&](Engine& e) -> Process {
    int ended = 0;
    const auto first = co_await when_any(watched(e, 9, ended), after(e, 4, 42), watched(e, 8, ended));
    CHECK(first.index == 1);
    CHECK(std::get<1>(first.value) == 42);
    CHECK(ended == 2);  // before this goes on
    CHECK(e.now() == Time{4});
    CHECK(e.pending() == 0);
    std::vector<Task<int>> tasks;
    tasks.push_back(watched(e, 5, ended));
    tasks.push_back(at_once(e, 7));
    tasks.push_back(watched(e, 5, ended));
    const auto now = co_await when_any(std::move(tasks));
    CHECK(now.index == 1);
    CHECK(now.value == 7);
    CHECK(ended == 3);  // the third never started
    // Equal times: the order of scheduling, which is the order given.
    const auto tie = co_await when_any(e.delay(Duration{3}), after(e, 3, 1));
    CHECK(tie.index == 0);
    done = true;
  });
  CHECK(done);
}

TEST_CASE("a timeout is an any of two, and the loser leaves its queue", "[unit][when]") {
  Engine engine;
  Channel<int> channel(engine, "requests");
  bool done = false;
  run(engine, [&](Engine& e) -> Process {
    const auto late = co_await when_any(channel.receive(), e.delay(Duration{5}));
    CHECK(late.index == 1);
    CHECK(channel.try_send(1));  // goes to nobody: the receiver has left
    CHECK(channel.size() == 1);
    const auto early = co_await when_any(channel.receive(), e.delay(Duration{5}));
    CHECK(early.index == 0);
    CHECK(std::get<0>(early.value) == 1);
    TokenPool pool(e, "memory", 4);
    {
      auto taken = co_await when_any(pool.acquire(3), e.delay(Duration{1}));
      CHECK(taken.index == 0);
      CHECK(pool.free() == 1);
      const auto late_tokens = co_await when_any(pool.acquire(2), e.delay(Duration{1}));
      CHECK(late_tokens.index == 1);
      CHECK(pool.waiting() == 0);
    }
    CHECK(pool.free() == 4);
    done = true;
  });
  CHECK(done);
}

TEST_CASE("groups stand in groups", "[unit][when]") {
  Engine engine;
  bool done = false;
  run(engine, [&](Engine& e) -> Process {
    int ended = 0;
    const auto result =
        co_await when_all(when_any(watched(e, 50, ended), after(e, 2, 5)), when_all(after(e, 1, 6), after(e, 3, 7)));
    CHECK(std::get<1>(std::get<0>(result).value) == 5);
    CHECK(std::get<1>(result) == std::tuple{6, 7});
    CHECK(ended == 1);
    CHECK(e.now() == Time{3});
    done = true;
  });
  CHECK(done);
}

TEST_CASE("the first exception ends a group", "[unit][when]") {
  Engine engine;
  int caught = 0;
  run(engine, [&](Engine& e) -> Process {
    int ended = 0;
    for (const std::int64_t delay : {0, 3}) {
      try {
        (void)co_await when_all(watched(e, 100, ended), fails(e, delay), watched(e, 100, ended));
      } catch (const std::runtime_error&) {
        ++caught;
      }
      try {
        (void)co_await when_any(watched(e, 100, ended), fails(e, delay));
      } catch (const std::runtime_error&) {
        ++caught;
      }
    }
    CHECK(ended == 2 + 4 - 1);  // with delay 0 the third branch of when_all never started
    CHECK(e.now() == Time{6});
  });
  CHECK(caught == 4);
}

TEST_CASE("a group is cancelled with its process", "[unit][when]") {
  Engine engine;
  int ended = 0;
  ProcessHandle self;
  const auto parent = [&](Engine& e) -> Process {
    (void)co_await when_all(watched(e, 100, ended), when_any(watched(e, 100, ended), watched(e, 100, ended)));
  };
  const ProcessHandle handle = engine.processes().spawn("parent", parent(engine));
  engine.run(Time{5});
  CHECK(handle.cancel());
  CHECK(ended == 3);
  CHECK(engine.pending() == 0);
  // From inside a branch: the process ends when the branch waits; the branches behind it never start.
  const auto branch = [&](Engine& e) -> Task<int> {
    Witness witness(ended);
    CHECK(self.cancel());
    co_await e.delay(Duration{1});
    co_return 1;
  };
  const auto from_inside = [&](Engine& e) -> Process {
    (void)co_await when_all(watched(e, 9, ended), branch(e), watched(e, 9, ended));
  };
  self = engine.processes().spawn("from inside", from_inside(engine));
  engine.run();
  CHECK(self.done());
  CHECK(ended == 5);
  CHECK(engine.processes().frames().live() == 0);
}

TEST_CASE("what makes no group says so", "[unit][when]") {
  Engine engine;
  CHECK_THROWS_WITH(when_any(std::vector<Task<int>>{}), "when_any was given nothing to wait for");
  CHECK_THROWS_WITH(when_all(Task<int>{}), "a group was given a task that is empty, or was awaited before");
  CHECK_THROWS_WITH(when_all(std::vector<Delay>{}).engine(), "an empty group stands in another group");
}

TEST_CASE("move-only values pass through groups", "[unit][when]") {
  Engine engine;
  int sum = 0;
  run(engine, [&](Engine& e) -> Process {
    const auto make = [](Engine& e2, int value) -> Task<std::unique_ptr<int>> {
      co_await e2.delay(Duration{1});
      co_return std::make_unique<int>(value);
    };
    auto [a, b] = co_await when_all(make(e, 1), make(e, 2));
    auto c = co_await when_any(make(e, 4), make(e, 8));
    sum = *a + *b + *std::get<0>(c.value);
  });
  CHECK(sum == 7);
}

TEST_CASE("a thousand groups may stand in each other", "[unit][when]") {
  Engine engine;
  int depth = 0;
  run(engine, [&](Engine& e) -> Process { depth = co_await nested(e, 1000); });
  CHECK(depth == 1000);
}

}  // namespace test_when
