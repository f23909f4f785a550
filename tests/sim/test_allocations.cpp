// Nothing is allocated by event in a steady state: the flow network, the executor of task graphs.
// (Processes and resources: test_process.cpp, test_resources.cpp.)
#include "tests/allocations.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "layered_dag.hpp"
#include "sim/engine.hpp"
#include "sim/task_executor.hpp"
#include "tests/bench/star.hpp"

using namespace orrery::sim;
using orrery::test::allocations;

namespace {

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
    using orrery::bench::mix;
    if (started_ == total_) return;
    const std::uint64_t k = started_++;
    const auto from = static_cast<std::uint32_t>(mix(3 * k) % kHosts);
    const auto to = static_cast<std::uint32_t>((from + 1 + mix(3 * k + 1) % (kHosts - 1)) % kHosts);
    const auto bytes = static_cast<std::int64_t>(1'000'000 + mix(3 * k + 2) % 9'000'000);
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
    return static_cast<std::int64_t>(orrery::test::mix(task.index) % 1000);
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
