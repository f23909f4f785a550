#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "experiments/rl/envs/job_shop.hpp"
#include "sim/engine.hpp"
#include "sim/task/executor.hpp"
#include "tests/rl/job_shop_optimum.hpp"
#include "tests/rl/support.hpp"

namespace test_job_shop {

using namespace orrery;
using namespace orrery::experiments::rl;

namespace {

/// Makespan of an order of dispatches by the task-graph executor: a machine is a resource that serves strictly in the
/// order in which its tasks were added.
std::int64_t executed(const JobShop& shop, const std::vector<std::size_t>& order) {
  sim::TaskGraph graph;
  std::vector<sim::ResourceId> machines;
  for (std::size_t m = 0; m < shop.machines; ++m)
    machines.push_back(graph.add_resource({.order = sim::TaskOrder::program}));
  std::vector<std::size_t> next(shop.jobs.size(), 0);
  std::vector<std::optional<sim::TaskId>> last(shop.jobs.size());
  for (const std::size_t job : order) {
    const JobShopOperation operation = shop.jobs[job][next[job]++];
    const std::vector<sim::Demand> on{machines[operation.machine]};
    std::vector<sim::TaskId> after;
    if (last[job]) after.push_back(*last[job]);
    last[job] = graph.add({.duration = sim::Duration{operation.duration}, .on = on, .after = after});
  }
  sim::Engine engine;
  sim::TaskExecutor executor(engine, graph);
  executor.start();
  engine.run();
  return engine.now().ticks;
}

}  // namespace

TEST_CASE("job shop: two jobs by hand", "[unit]") {
  // Job 0: machine 0 for 3, machine 1 for 2. Job 1: machine 1 for 4, machine 0 for 1.
  const JobShop shop{2, {{{0, 3}, {1, 2}}, {{1, 4}, {0, 1}}}};
  JobShopSchedule schedule;
  schedule.reset(shop);
  CHECK(schedule.bound() == 6);  // machine 1: 2 + 4
  schedule.dispatch(0);          // machine 0 until 3
  schedule.dispatch(0);          // machine 1 from 3 to 5
  CHECK(schedule.start(1) == 5);
  CHECK(schedule.bound() == 9);  // machine 1 free at 5, with 4 to do
  schedule.dispatch(1);          // machine 1 from 5 to 9
  schedule.dispatch(1);          // machine 0 from 9 to 10
  CHECK(schedule.done());
  CHECK(schedule.bound() == 10);
  CHECK(test::job_shop_optimum(shop) == 6);  // 0 first on machine 0, 1 first on machine 1: 0 ends at 6, 1 at 5
}

TEST_CASE("job shop: an episode's makespan is that of the task-graph executor, its return 1 - makespan / bound",
          "[prop]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const bool ft06 = seed % 4 == 0;
    const JobShop shop =
        ft06 ? ft06_job_shop() : random_job_shop(5, 5, sim::RandomStream(seed, "rl/job_shop/instance"));
    const auto env = test::make_env(
        "job_shop", ft06 ? R"({"instance": "ft06"})" : R"({"instance_seed": )" + std::to_string(seed) + "}");
    sim::RandomStream random(seed, "actions");
    TimeStep now;
    env->reset(seed, now);
    const double bound = now.info[1];
    std::vector<std::size_t> order;
    double sum = 0;
    while (!now.ended()) {
      const auto action = test::random_action(env->spec(), now, random);
      order.push_back(static_cast<std::size_t>(action[0]));
      env->step(action, now);
      sum += now.rewards[0];
    }
    CHECK(now.info[0] == static_cast<double>(executed(shop, order)));
    CHECK(sum == Approx(1 - now.info[0] / bound));
  }
}

TEST_CASE("FT06: the known optimum of 55 is no better than the bound, and rules are no better than it", "[golden]") {
  const JobShop shop = ft06_job_shop();
  CHECK(test::job_shop_optimum(shop) == 55);
  for (const char* rule : {"spt", "mwkr", "fifo"}) {
    JobShopSchedule schedule;
    schedule.reset(shop);
    CHECK(schedule.bound() <= 55);
    while (!schedule.done()) schedule.dispatch(job_shop_rule(rule, shop, schedule));
    CHECK(schedule.bound() >= 55);
  }
  JobShopSchedule schedule;
  schedule.reset(shop);
  CHECK_THROWS(job_shop_rule("best", shop, schedule));
}

TEST_CASE("job shop: fresh instances need random ones", "[unit]") {
  CHECK_THROWS_WITH(test::make_env("job_shop", R"({"instance": "ft06", "fresh": true})"), Catch::Contains("fresh"));
}

}  // namespace test_job_shop
