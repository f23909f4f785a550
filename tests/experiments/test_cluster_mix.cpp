// What must hold when everything comes together: every batching policy on every cache, replicas that fail, requests
// that migrate. Each request ends once, no block leaks, nobody waits for ever, and leaping gives what stepping gives.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/serving/migrator.hpp"
#include "tests/experiments/bench_cluster.hpp"

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

/// 20 ms and more, growing with contexts; what follows is known for some iterations.
class RampModel final : public IterationModel {
 public:
  void cost(const BatchShape& shape, IterationCost& out) override {
    out.time_ps = kSecond / 50;
    for (const Segment& s : shape.segments)
      out.time_ps += (s.last - s.first) * (s.tokens * 900'000 + s.decode.context_tokens * 7'001 + s.prefill.pairs * 11);
  }
  IterationPrice price(const BatchShape& shape) override {
    IterationPrice price = IterationModel::price(shape);
    const Segment& s = shape.segments.front();
    if (shape.segments.size() > 1 || s.tokens != s.decode.sequences) return price;
    price.step_ps = (s.last - s.first) * s.decode.sequences * 7'001;
    price.horizon = 1 + s.decode.context_tokens % 37;
    return price;
  }
};

struct Job {
  std::int64_t at_ms = 0, prompt = 1, output = 1, shared = 0;
  std::int32_t priority = 0, tenant = 0;
};

class JobLoad final : public Load, public sim::EventHandler {
 public:
  std::vector<Job> jobs;
  void start(sim::Engine& engine, RequestPort& port) override {
    port_ = &port;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      engine.schedule_at(sim::Time{0} + engine.scale().duration(1e-3 * static_cast<double>(jobs[i].at_ms)), *this, i);
  }
  void on_event(std::uint64_t i) override {
    const Job& job = jobs[i];
    Request& request = port_->make_request();
    request.prompt_tokens = job.prompt;
    request.output_tokens = request.predicted_tokens = job.output;
    request.priority = job.priority;
    request.tenant = job.tenant;
    // A head that others have too, and a rest like no other.
    const std::int64_t head = std::min(job.prompt, 40 * (1 + job.shared));
    request.text = {{1 + static_cast<std::uint64_t>(job.shared), head}};
    if (job.prompt > head) request.text.push_back({1000 + 2 * i, job.prompt - head});
    request.text.push_back({1001 + 2 * i, job.output});
    port_->send(request);
    port_->flush();
  }

 private:
  RequestPort* port_ = nullptr;
};

std::vector<Job> random_jobs(std::uint64_t seed, int count) {
  sim::RandomStream random(seed, "jobs");
  std::vector<Job> jobs;
  for (int i = 0; i < count; ++i)
    jobs.push_back({.at_ms = static_cast<std::int64_t>(random.below(8000)),
                    .prompt = 1 + static_cast<std::int64_t>(random.below(random.below(4) == 0 ? 500 : 120)),
                    .output = 1 + static_cast<std::int64_t>(random.below(random.below(4) == 0 ? 300 : 40)),
                    .shared = static_cast<std::int64_t>(random.below(4)),
                    .priority = static_cast<std::int32_t>(random.below(3)),
                    .tenant = static_cast<std::int32_t>(random.below(3))});
  return jobs;
}

std::unique_ptr<policies::KvCache> make_cache(const std::string& name, std::int64_t tokens) {
  policies::KvCacheRegistry registry("kvcache");
  policies::register_kv_caches(registry);
  sim::Faults faults;
  return registry.prepare(name, nullptr, {}, faults).make({.bytes_per_token = 1, .bytes_available = tokens});
}

std::unique_ptr<policies::Migration> llumnix() {
  policies::MigrationRegistry registry("migration");
  policies::register_migrations(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(R"({"threshold": 0})", "test");
  return registry.prepare("llumnix", &node, {}, faults).make();
}

struct Variant {
  std::string policy, params, cache;
};
std::vector<Variant> all_variants() {
  policies::BatchingRegistry batching("batching");
  policies::register_batching_policies(batching);
  policies::KvCacheRegistry caches("kvcache");
  policies::register_kv_caches(caches);
  std::vector<Variant> all;
  for (const std::string& policy : batching.names())
    for (const std::string& cache : caches.names())
      all.push_back({policy,
                     policy == "priority"            ? R"({"preemptive": true, "token_budget": 64})"
                     : policy == "fairness_priority" ? R"({"period": 3, "preemption": "recompute"})"
                                                     : "{}",
                     cache});
  return all;
}

/// Runs the jobs on three replicas and tells all of it as text.
std::string story(const Variant& variant, const std::vector<Job>& jobs, const ClusterParams& params, bool migrates,
                  std::int64_t ps_per_tick, bool leap) {
  constexpr std::int64_t kTokens = 1024;
  sim::Engine engine(1, sim::TickScale{ps_per_tick});
  RampModel model;
  ServingMetrics metrics;
  metrics.ps_per_tick = ps_per_tick;
  Log log;
  JobLoad load;
  load.jobs = jobs;
  ClusterPolicies deciders;
  deciders.router = make_router("round_robin");
  Cluster cluster(engine, metrics, &log, load, std::move(deciders));
  for (int i = 0; i < 3; ++i) {
    MemberParts member;
    member.kv_bytes_per_token = 1000;
    ReplicaParts& parts = member.lanes.emplace_back();
    parts.model = &model;
    parts.batching = make_batching(variant.policy, variant.params);
    parts.kv = make_cache(variant.cache, kTokens);
    parts.limits = {.max_context = 800, .layers = 32};
    parts.leap = leap;
    cluster.add(std::move(member));
  }
  if (migrates) cluster.migrate(llumnix(), {.bandwidth = 1e6, .handshake_s = 0.01, .interval_s = 0.1});
  cluster.start(params);
  engine.run();
  cluster.finish();

  std::vector<int> ends(jobs.size(), 0);
  std::int64_t tokens = 0;
  std::string text;
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    const RequestRecord& r = log.requests[i];
    ++ends[static_cast<std::size_t>(r.id)];
    CHECK(log.statuses[i] == "completed");
    tokens += r.output_tokens;
    text += fmt::format("{} {} {} {} {}\n", r.id, r.admitted ? r.admitted->ticks : -1,
                        r.first_token ? r.first_token->ticks : -1, r.finished ? r.finished->ticks : -1, r.replica);
  }
  CHECK(std::all_of(ends.begin(), ends.end(), [](int n) { return n == 1; }));
  // Every token but the first of each has a gap, whatever happened to its request.
  CHECK(metrics.tbt.count() == tokens - static_cast<std::int64_t>(jobs.size()));
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    CHECK(cluster.replica(i).kv().available_blocks() == cluster.replica(i).kv().total_blocks());
    text += fmt::format("{} {}\n", cluster.result(i).iterations, static_cast<double>(cluster.result(i).busy_ps));
  }
  const ClusterTotals& totals = cluster.totals();
  return text + fmt::format("{} {} {}", totals.rerouted, totals.migrations.completed, metrics.preemptions);
}

}  // namespace

TEST_CASE("every policy on every cache, with failures at whole ticks: all ends, leaping as stepping", "[prop]") {
  ClusterParams params;
  params.failures = {.mtbf_s = 2, .mttr_s = 0.5, .at = {{.replica = 1, .time_s = 1, .duration_s = 2}}};
  const std::vector<Job> jobs = random_jobs(7, 60);
  for (const Variant& variant : all_variants()) {
    CAPTURE(variant.policy, variant.cache);
    const std::string leaping = story(variant, jobs, params, false, 1'000'000'000, true);
    CHECK(leaping == story(variant, jobs, params, false, 1'000'000'000, false));
  }
}

TEST_CASE("every policy on every cache, with failures and migrations: all ends, leaping as stepping", "[prop]") {
  ClusterParams params;
  params.failures = {.mtbf_s = 4, .mttr_s = 0.5};
  const std::vector<Job> jobs = random_jobs(8, 60);
  for (const Variant& variant : all_variants()) {
    CAPTURE(variant.policy, variant.cache);
    const std::string leaping = story(variant, jobs, params, true, 1, true);
    CHECK(leaping == story(variant, jobs, params, true, 1, false));
  }
}

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
  bench.cluster.migrate(llumnix(), {.bandwidth = 10, .handshake_s = 0, .interval_s = 1});
  bench.load.entries.push_back({0, 100, 60});
  bench.run();
  CHECK(bench.cluster.totals().migrations.aborted[static_cast<std::size_t>(MigrationAbort::ended)] == 1);
  CHECK(bench.seconds(bench.engine.now()) == 60);
  CHECK(bench.free_blocks() == bench.total_blocks);
}
