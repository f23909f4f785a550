// Requests that failures keep from ending, and migrations that nobody waits for: a run ends all the same.
#include "experiments/systems/serving/cluster/migrator.hpp"
#include "tests/experiments/bench_cluster.hpp"

namespace test_cluster_mix {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

/// A running decode goes from 0 to 1, at every look.
class Always final : public policies::Migration {
 public:
  std::vector<policies::MigrationPair> pair(std::span<const policies::LoadReport>) override { return {{0, 1}}; }
  std::optional<policies::SeqId> victim(const policies::BatchView& source) override {
    for (const policies::SeqId id : source.running)
      if (source[id].phase == policies::Phase::decode) return id;
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("a request that needs longer than replicas stay up is given up", "[unit]") {
  // 100 tokens at 1 s each; the only replica fails every 2 s. After 3 starts over it is rejected at the fourth failure.
  BenchCluster bench;
  bench.add([] { return make_batching("sarathi", R"({"token_budget": 10})"); }, 100);
  bench.load.entries.push_back({0, 100, 5});  // 10 chunks of 1 s
  ClusterParams params;
  params.failures.retries = 3;
  for (int i = 1; i < 20; ++i) params.failures.at.push_back({.replica = 0, .time_s = 2.5 * i, .duration_s = 0.5});
  bench.run(params);
  REQUIRE(bench.log.requests.size() == 1);
  CHECK(bench.log.statuses[0] == "rejected:failures");
  CHECK(bench.cluster.totals().failures == 4);
  CHECK(bench.cluster.totals().rerouted == 3);
  CHECK(bench.seconds(bench.engine.now()) == 10);  // it ends there
  CHECK(bench.free_blocks() == bench.total_blocks);
}

TEST_CASE("a copy for a request that has ended does not keep the run going", "[unit]") {
  // One replica decodes 60 tokens, 1 s each; a copy that would take 1000 s begins while it runs.
  BenchCluster bench;
  bench.add([] { return make_batching("sarathi"); }, 100);
  bench.add([] { return make_batching("sarathi"); }, 100);
  bench.cluster.migrate(std::make_unique<Always>(), {.bandwidth = 10, .handshake_s = 0, .interval_s = 1});
  bench.load.entries.push_back({0, 100, 60});
  bench.run();
  CHECK(bench.cluster.totals().migrations.aborted[static_cast<std::size_t>(MigrationAbort::ended)] == 1);
  CHECK(bench.seconds(bench.engine.now()) == 60);
  CHECK(bench.free_blocks() == bench.total_blocks);
}

}  // namespace test_cluster_mix
