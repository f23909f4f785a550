// Nothing is allocated by event in a steady state: the engine, the flow network, the executor of task graphs.
// (Processes and resources: test_process.cpp, test_resources.cpp.)
#include "tests/allocations.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "layered_dag.hpp"
#include "sim/engine.hpp"
#include "sim/task/executor.hpp"
#include "tests/bench/star.hpp"

namespace test_allocations {

using namespace orrery::sim;
using orrery::test::allocations;

namespace {

/// Every event sets a timeout and cancels the one before; one in 16 lets it fire.
class Timeouts final : public EventHandler {
 public:
  Timeouts(Engine& engine, std::size_t clients)
      : engine_(engine), random_(engine.stream("timeouts")), timeouts_(clients) {
    for (std::size_t i = 0; i < clients; ++i) engine_.schedule_in(Duration{random_.integer(1, 1000)}, *this, i);
  }
  void on_event(std::uint64_t payload) override {
    if ((payload & kTimeout) != 0) return;
    EventId& timeout = timeouts_[payload];
    if (!random_.bernoulli(1.0 / 16)) cancelled += engine_.cancel(timeout) ? 1 : 0;
    timeout = engine_.schedule_in(Duration{20'000}, *this, payload | kTimeout);
    engine_.schedule_in(Duration{random_.integer(1, 1000)}, *this, payload);
  }
  std::int64_t cancelled = 0;

 private:
  static constexpr std::uint64_t kTimeout = 1ULL << 40;
  Engine& engine_;
  RandomStream random_;
  std::vector<EventId> timeouts_;
};

/// Flows of the closed star (tests/bench/star.hpp), the same ones in every round; some are cancelled on the way.
class Rounds final : public EventHandler {
 public:
  explicit Rounds(Engine& engine) : engine_(engine), star_(engine, kHosts, Duration{1'000'000}) {}
  void run(std::uint64_t flows, std::uint64_t window) {
    started_ = 0;
    total_ = flows;
    for (std::uint64_t i = 0; i < window; ++i) next();
    engine_.run();
  }
  void on_event(std::uint64_t) override {
    ++ended;
    next();
  }
  std::int64_t ended = 0, cancelled = 0;

 private:
  static constexpr std::uint32_t kHosts = 64;
  void next() {
    using orrery::sim::mix64;
    if (started_ == total_) return;
    const std::uint64_t k = started_++;
    const auto from = static_cast<std::uint32_t>(mix64(3 * k) % kHosts);
    const auto to = static_cast<std::uint32_t>((from + 1 + mix64(3 * k + 1) % (kHosts - 1)) % kHosts);
    const auto bytes = static_cast<std::int64_t>(1'000'000 + mix64(3 * k + 2) % 9'000'000);
    const FlowId flow = star_.network.start(star_.path(from, to), bytes, *this);
    if (k % 8 != 0) return;
    if (star_.network.cancel(last_)) {
      ++cancelled;
      next();
    }
    last_ = flow;
  }

  Engine& engine_;
  orrery::bench::Star star_;
  std::uint64_t started_ = 0, total_ = 0;
  FlowId last_;
};

struct ByHash final : TaskKey {
  std::int64_t key(const TaskGraph&, TaskId task, Time) override {
    return static_cast<std::int64_t>(orrery::test::mix64(task.index) % 1000);
  }
};

/// Allocations of building and running the layered graph.
std::int64_t taken_by(std::uint64_t tasks, TaskOrder order) {
  ByHash by_hash;
  const std::int64_t before = allocations();
  TaskGraph graph = orrery::test::layered_dag(
      tasks, 16, {.capacity = 2, .order = order, .key = order == TaskOrder::custom ? &by_hash : nullptr});
  Engine engine;
  TaskExecutor executor(engine, graph);
  executor.run();
  CHECK(executor.unfinished() == 0);
  return allocations() - before;
}

}  // namespace

#ifndef __SANITIZE_ADDRESS__
TEST_CASE("allocations are counted", "[unit]") {
  const std::int64_t before = allocations();
  void* volatile block = ::operator new(100);
  ::operator delete(block);
  CHECK(allocations() == before + 1);
  block = PageAllocator<int>().allocate(100);
  PageAllocator<int>().deallocate(static_cast<int*>(block), 100);
  CHECK(allocations() == before + 2);
}
#endif

TEST_CASE("events and cancellations allocate nothing in a steady state", "[unit]") {
  Engine engine(5);
  // Live: an event, a timeout and 20,000 / 500 / 16 = 2.5 more to fire a client, 3,150 in all. Cancelled keys are swept
  // when they are half of the queue and 1,024 more: tables stay clear of 8,192, where they would double.
  Timeouts timeouts(engine, 700);
  const auto run_until = [&](std::uint64_t events) {
    while (engine.events() < events && engine.step()) {
    }
  };
  run_until(200'000);
  const std::int64_t before = allocations(), cancelled_before = timeouts.cancelled;
  run_until(1'000'000);
  CHECK(allocations() == before);
  CHECK(engine.events() == 1'000'000);
  CHECK(timeouts.cancelled - cancelled_before > 600'000);
}

TEST_CASE("flows allocate nothing in a steady state", "[unit]") {
  Engine engine;
  Rounds rounds(engine);
  rounds.run(3000, 256);  // meets every path and every queue at its longest
  const std::int64_t before = allocations();
  for (int i = 0; i < 3; ++i) rounds.run(3000, 256);
  CHECK(allocations() == before);
  CHECK(rounds.ended + rounds.cancelled == 4 * 3000);
  CHECK(rounds.cancelled > 400);
}

TEST_CASE("running a graph allocates tables, not tasks", "[unit]") {
  for (const TaskOrder order : {TaskOrder::fifo, TaskOrder::priority, TaskOrder::lifo, TaskOrder::shortest,
                                TaskOrder::longest, TaskOrder::program, TaskOrder::custom}) {
    const std::int64_t small = taken_by(2'000, order), large = taken_by(64'000, order);
    // 32 = 2^5 times the tasks: a table that grows by doubling is taken five times more. Per resource (16): the
    // queue of those waiting, and for `program` the list of its tasks; a few more for the executor.
    INFO("order " << static_cast<int>(order) << ": " << small << ", " << large);
    CHECK(large - small <= 5 * (16 + 16 + 8));
  }
}

}  // namespace test_allocations
