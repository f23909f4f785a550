// Tasks, processes, delays, joins, cancellation, deadlock.
#include "sim/process.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "allocations.hpp"
#include "sim/server.hpp"

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
