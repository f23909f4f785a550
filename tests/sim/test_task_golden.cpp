// The layered graph of peers.md, and job shops.
#include <catch2/catch.hpp>

#include "sim/task_executor.hpp"
#include "tests/sim/layered_dag.hpp"

using namespace orrery::sim;
using namespace orrery::test;

TEST_CASE("the layered graph takes as long as elsewhere", "[golden]") {
  // SimGrid 3.32 says 11.005491 s and 4.183137 s; it serves tasks that arrive at one instant in another order.
  for (const auto& [hosts, seconds] : {std::pair{16, 11.005491}, std::pair{64, 4.183137}}) {
    TaskGraph graph = layered_dag(100'000, static_cast<std::uint64_t>(hosts));
    Engine engine;
    TaskExecutor executor(engine, graph);
    executor.run();
    CHECK(engine.scale().seconds(executor.makespan()) == Approx(seconds).epsilon(1e-3));
  }
}
