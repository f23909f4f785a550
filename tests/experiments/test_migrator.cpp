// Live migration: staging by hand, every abort, conservation on random loads, and leaping against stepping.
#include "experiments/systems/serving/cluster/migrator.hpp"
#include "tests/experiments/bench_cluster.hpp"
#include "tests/experiments/support.hpp"

namespace test_migrator {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

std::unique_ptr<policies::Batching> sarathi() {
  return make_batching("sarathi");
}

std::unique_ptr<policies::Migration> llumnix(const std::string& params) {
  policies::MigrationRegistry registry("migration");
  policies::register_migrations(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare("llumnix", &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

/// The first running decode goes from 0 to 1, at the first look.
class Once final : public policies::Migration {
 public:
  std::vector<policies::MigrationPair> pair(std::span<const policies::LoadReport>) override {
    if (asked_) return {};
    asked_ = true;
    return {{0, 1}};
  }
  std::optional<policies::SeqId> victim(const policies::BatchView& source) override {
    for (const policies::SeqId id : source.running)
      if (source[id].phase == policies::Phase::decode) return id;
    return std::nullopt;
  }

 private:
  bool asked_ = false;
};

// A block is 16 tokens of 1,000 bytes: one a second.
constexpr MigrationParams kLink{.bandwidth = 16'000, .handshake_s = 0.5, .interval_s = 2.25};

std::int64_t aborted(const Cluster& cluster, MigrationAbort reason) {
  return cluster.totals().migrations.aborted[static_cast<std::size_t>(reason)];
}

std::int64_t aborted(const Cluster& cluster) {
  std::int64_t sum = 0;
  for (const std::int64_t count : cluster.totals().migrations.aborted) sum += count;
  return sum;
}

}  // namespace

TEST_CASE("a migration in two stages, by hand", "[unit]") {
  // Iterations of 1 s. At 2.25 s the request has 34 tokens in the cache: 3 blocks, 2 of them full. Stage 0: 2 s and the
  // handshake, until 4.75 s; the iteration under way ends at 5 s with the fifth token, 37 in the cache. Stage 1: the
  // third block, 1.5 s, until 6.5 s. Tokens 6 ... 20 come from there, at 7.5 ... 21.5 s.
  BenchCluster bench;
  bench.add(sarathi, 100);
  bench.add(sarathi, 100);
  bench.cluster.migrate(std::make_unique<Once>(), kLink);
  bench.load.entries.push_back({0, 33, 20});
  bench.run();
  REQUIRE(bench.log.requests.size() == 1);
  const RequestRecord& r = bench.log.requests[0];
  CHECK(bench.log.statuses[0] == "completed");
  CHECK(r.first_token->ticks == kSecond);
  CHECK(r.finished->ticks == 21 * kSecond + kSecond / 2);
  CHECK(r.replica == 1);
  const MigrationTotals& totals = bench.cluster.totals().migrations;
  CHECK(totals.completed == 1);
  CHECK(aborted(bench.cluster) == 0);
  CHECK(totals.bytes == 3 * 16'000);
  CHECK(totals.downtime_ps == kSecond + kSecond / 2);
  CHECK(bench.metrics.tbt.max() == 2 * kSecond + kSecond / 2);
  CHECK(bench.metrics.processed_tokens == 33 + 19);  // nothing is computed twice
  CHECK(bench.free_blocks() == bench.total_blocks);
}

TEST_CASE("migrations that come to nothing, by reason", "[unit]") {
  ClusterPolicies policies;
  policies.router = make_router("round_robin");
  BenchCluster bench(std::move(policies));
  bench.add(sarathi, 100);
  SECTION("the request has ended before stage 0, at 4 s") {
    bench.add(sarathi, 100);
    bench.load.entries.push_back({0, 33, 4});
    bench.cluster.migrate(std::make_unique<Once>(), kLink);
    bench.run();
    CHECK(aborted(bench.cluster, MigrationAbort::ended) == 1);
  }
  SECTION("the destination lacks room: 34 tokens and a block are 4 blocks") {
    bench.add(sarathi, 3);
    bench.load.entries.push_back({0, 33, 20});
    bench.cluster.migrate(std::make_unique<Once>(), kLink);
    bench.run();
    CHECK(aborted(bench.cluster, MigrationAbort::destination_full) == 1);
  }
  SECTION("a request waits at the destination") {
    bench.add(sarathi, 4);
    bench.load.entries.push_back({0, 33, 20});
    bench.load.entries.push_back({0, 50, 8});  // all four blocks
    bench.load.entries.push_back({0, 10, 1});
    bench.load.entries.push_back({0, 50, 8});  // waits
    bench.cluster.migrate(std::make_unique<Once>(), kLink);
    bench.run();
    CHECK(aborted(bench.cluster, MigrationAbort::destination_queue) == 1);
  }
  CHECK(aborted(bench.cluster) == 1);
  CHECK(bench.cluster.totals().migrations.completed == 0);
  for (const std::string& status : bench.log.statuses) CHECK(status == "completed");
  for (const RequestRecord& record : bench.log.requests) CHECK(record.replica == record.id % 2);
  CHECK(bench.free_blocks() == bench.total_blocks);
}

TEST_CASE("under migration nothing is lost and no block leaks", "[prop]") {
  std::int64_t completed = 0, stopped = 0, preempted = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    ClusterPolicies policies;
    policies.router = make_router("llumnix");
    BenchCluster bench(std::move(policies));
    for (int i = 0; i < 4; ++i) bench.add([] { return make_batching("vllm_v0"); }, 60);
    bench.cluster.migrate(llumnix(R"({"threshold": 4})"), {.bandwidth = 200'000, .handshake_s = 0.25, .interval_s = 1});
    sim::RandomStream random(seed, "load");
    double at = 0;
    std::int64_t tokens = 0;
    for (int i = 0; i < 120; ++i) {
      at += random.exponential(8);
      const std::int64_t output = 1 + static_cast<std::int64_t>(random.below(random.below(4) == 0 ? 600 : 60));
      tokens += output;
      bench.load.entries.push_back(
          {static_cast<std::int64_t>(at * 1e12), 1 + static_cast<std::int64_t>(random.below(300)), output});
    }
    bench.run();
    REQUIRE(bench.log.requests.size() == 120);
    for (const RequestRecord& record : bench.log.requests) tokens -= record.output_tokens;
    CHECK(tokens == 0);
    for (const std::string& status : bench.log.statuses) CHECK(status == "completed");
    CHECK(bench.free_blocks() == bench.total_blocks);
    completed += bench.cluster.totals().migrations.completed;
    stopped += aborted(bench.cluster);
    for (std::size_t i = 0; i < 4; ++i) preempted += bench.cluster.replica(i).counts().preemptions;
  }
  CHECK(completed > 50);
  CHECK(stopped > 10);
  CHECK(preempted > 10);
}

TEST_CASE("with migration, leaping and stepping give the same files", "[prop][cli]") {
  Scratch scratch;
  std::string trace = "arrived_s,prompt_tokens,output_tokens\n";
  sim::RandomStream random(12, "trace");
  double at = 0;
  for (int i = 0; i < 200; ++i) {
    at += random.exponential(0.25);
    trace += std::to_string(at) + "," + std::to_string(20 + random.below(1500)) + "," +
             std::to_string(1 + random.below(random.below(5) == 0 ? 2000 : 100)) + "\n";
  }
  scratch.write("trace.csv", trace);
  for (const char* cluster : {R"("replicas": [{"count": 4}])",
                              R"("replicas": [{"count": 4}], "failures": {"mtbf": "20 s", "mttr": "3 s"})"}) {
    CAPTURE(cluster);
    scratch.write("run.json", std::string(R"({"kind": "experiment", "version": 1, "system": "serving",
      "machine": {"devices": [{"part": "a10g", "count": 4}]}, "model": {"config": "catalog:llama-2-7b"},
      "workload": {"trace": {"path": "trace.csv", "format": "orrery_csv"}}, "replica": {"memory_margin": 0.25},
      "policies": {"batching": {"policy": "vllm_v0"}, "routing": {"policy": "llumnix"},
                   "migration": {"policy": "llumnix", "llumnix": {"threshold": 40}}},
      "cluster": {)") + cluster + "}}");
    REQUIRE(command(scratch, "run run.json --force --quiet --out leap").exit_code == 0);
    REQUIRE(command(scratch, "run run.json --force --quiet --out step --set run.leap=false").exit_code == 0);
    for (const char* file : {"requests.csv", "series.csv", "energy.csv", "distributions.csv"})
      CHECK(slurp(scratch / "leap" / file) == slurp(scratch / "step" / file));
    const sim::Node summary = sim::parse_json(slurp(scratch / "leap" / "summary.json"), "summary");
    CHECK(summary.find("cluster")->find("migrations")->find("completed")->as_number() > 10);
  }
}

}  // namespace test_migrator
