#include "experiments/systems/serving/cluster/cold_start.hpp"
#include "experiments/systems/serving/cluster/outages.hpp"
#include "tests/experiments/bench_cluster.hpp"
#include "tests/experiments/support.hpp"

namespace test_cluster_changes {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using orrery::policies::test::make_batching;

namespace {

std::unique_ptr<policies::AdmissionControl> make_admission(const std::string& name, const std::string& params) {
  policies::AdmissionRegistry registry("admission");
  policies::register_admission_controls(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

std::unique_ptr<policies::Scaling> make_scaling(const std::string& name, const std::string& params) {
  policies::ScalingRegistry registry("scaling");
  policies::register_scalings(registry);
  sim::Faults faults;
  const sim::Node node = sim::parse_json(params, "test");
  const auto choice = registry.prepare(name, &node, {}, faults);
  faults.throw_if_any();
  return choice.make();
}

std::unique_ptr<policies::Batching> sarathi() {
  return make_batching("sarathi");
}

std::string cluster_config(const std::string& cluster, const std::string& policies = "{}") {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
  "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 4}]},
  "model": {"config": "catalog:llama-2-7b"},
  "workload": {"trace": {"path": "trace.csv", "format": "orrery_csv"}},
  "cluster": )" +
         cluster + R"(, "policies": )" + policies + "}";
}

double figure(const fs::path& folder, const std::vector<std::string>& path) {
  sim::Node root = sim::parse_json(slurp(folder / "summary.json"), "summary");
  const sim::Node* node = &root;
  for (const std::string& name : path) node = node->find(name);
  return node->as_number();
}

}  // namespace

TEST_CASE("prefill here, decode there, by hand", "[unit]") {
  // Iterations of 1 s. 100 prompt tokens: first token at 1 s. 100 x 1000 bytes at 50,000 bytes/s: 2 s. The decode
  // replica has it at 3 s; tokens at 4 and 5.
  BenchCluster bench;
  bench.add(sarathi, 100, Role::prefill);
  bench.add(sarathi, 100, Role::decode);
  bench.load.entries.push_back({0, 100, 3});
  bench.load.entries.push_back({0, 10, 1});  // ends with its prefill
  ClusterParams params;
  params.transfer = {.bandwidth = 50'000, .latency_s = 0, .fixed_s = 0};
  bench.run(params);
  REQUIRE(bench.log.requests.size() == 2);
  CHECK(bench.log.requests[0].id == 1);
  CHECK(bench.log.requests[0].replica == 0);
  const RequestRecord& r = bench.log.requests[1];
  CHECK(r.first_token->ticks == kSecond);
  // Rates are whole units of 2^-50 bytes a ps: some 1e-8 too slow at 50 kB/s.
  CHECK(bench.seconds(*r.finished) == Approx(5).epsilon(1e-7));
  CHECK(r.replica == 1);
  CHECK(static_cast<double>(bench.metrics.tbt.max()) == Approx(3 * kSecond).epsilon(1e-7));
  CHECK(bench.metrics.processed_tokens == 110 + 2);  // nothing is computed twice
  CHECK(bench.cluster.totals().transfers.count == 1);
  CHECK(bench.cluster.totals().transfers.bytes == 100'000);
  CHECK(static_cast<double>(bench.cluster.totals().transfers.ps) == Approx(2 * kSecond).epsilon(1e-7));
  CHECK(bench.free_blocks() == bench.total_blocks);
}

TEST_CASE("transfers from one replica share its link", "[unit]") {
  // Two of 100,000 bytes over 50,000 bytes/s, together: 4 s instead of 2.
  BenchCluster bench;
  bench.add(sarathi, 100, Role::prefill);
  bench.add(sarathi, 100, Role::decode);
  bench.add(sarathi, 100, Role::decode);
  bench.load.entries.push_back({0, 100, 2});
  bench.load.entries.push_back({0, 100, 2});
  ClusterParams params;
  params.transfer = {.bandwidth = 50'000, .latency_s = 0, .fixed_s = 0};
  bench.run(params);
  CHECK(static_cast<double>(bench.cluster.totals().transfers.ps) == Approx(8 * kSecond).epsilon(1e-7));
}

TEST_CASE("a prefill replica waits for blocks that are on their way", "[unit]") {
  // 8 blocks: a prompt of 100 tokens takes 7. The second waits until the first has been sent, and is not turned away.
  BenchCluster bench;
  bench.add(sarathi, 8, Role::prefill);
  bench.add(sarathi, 100, Role::decode);
  bench.load.entries.push_back({0, 100, 2});
  bench.load.entries.push_back({0, 100, 2});
  ClusterParams params;
  params.transfer = {.bandwidth = 50'000, .latency_s = 0, .fixed_s = 0};
  bench.run(params);
  CHECK(bench.metrics.completed == 2);
  CHECK(bench.seconds(*bench.log.requests[1].first_token) == Approx(4).epsilon(1e-7));  // 1 s, 2 s of sending, 1 s
}

TEST_CASE("a replica that fails: its requests start over elsewhere", "[unit]") {
  // Both replicas get one request. Replica 0 fails at 2.5 s, with 2 tokens out: replica 1 recomputes 10 + 2 tokens
  // beside its own decode in the iteration that starts at 3, and emits the third at 4, the fourth at 5.
  BenchCluster bench({.router = make_router("round_robin")});
  bench.add(sarathi, 100);
  bench.add(sarathi, 100);
  bench.load.entries.push_back({0, 10, 4});
  bench.load.entries.push_back({0, 20, 8});
  ClusterParams params;
  params.failures.at.push_back({.replica = 0, .time_s = 2.5, .duration_s = 1});
  bench.run(params);
  CHECK(bench.metrics.completed == 2);
  CHECK(bench.cluster.totals().failures == 1);
  CHECK(bench.cluster.totals().rerouted == 1);
  const RequestRecord& r = bench.log.requests[0];
  CHECK(r.id == 0);
  CHECK(r.replica == 1);
  CHECK(r.finished->ticks == 5 * kSecond);
  // 10 + 1 were booked on replica 0 (the iteration that was cut is not), 12 and 1 on replica 1, 20 + 7 of the other.
  CHECK(bench.metrics.processed_tokens == 10 + 1 + 12 + 1 + 27);
  CHECK(bench.free_blocks() == bench.total_blocks);
  CHECK(bench.metrics.tbt.count() == 3 + 7);
}

TEST_CASE("a request that lost its replica is told as waiting at none", "[unit]") {
  // Two replicas, a request each. Replica 0 fails at 2.5 s: its request goes to replica 1. That fails at 3.5 s: both
  // wait, as they came to it, for somebody to be up, from 4.5 s on.
  struct Steps final : RunObserver {
    struct Step {
      std::int64_t request, at_ms;
      std::int32_t replica;
      bool operator==(const Step&) const = default;
    };
    std::vector<Step> queued, running;
    bool wants_steps() const override { return true; }
    void request_step(const RequestStep& step) override {
      auto& steps = step.phase == RequestPhase::queued ? queued : running;
      steps.push_back({step.request, step.at.ticks / (kSecond / 1000), step.replica});
    }
  } steps;
  sim::Engine engine;
  FakeModel model;
  ServingMetrics metrics;
  ListLoad load;
  Cluster cluster(engine, metrics, &steps, load, {.router = make_router("round_robin")});
  for (int i = 0; i < 2; ++i) {
    ReplicaParts parts;
    parts.model = &model;
    parts.batching = sarathi();
    parts.kv = policies::test::paged_cache(100);
    parts.limits = {.max_context = 4096, .layers = 32};
    cluster.add(std::move(parts));
  }
  load.entries.push_back({0, 10, 4});
  load.entries.push_back({0, 20, 8});
  ClusterParams params;
  params.failures.at.push_back({.replica = 0, .time_s = 2.5, .duration_s = 2});
  params.failures.at.push_back({.replica = 1, .time_s = 3.5, .duration_s = 100});
  cluster.start(params);
  engine.run();
  cluster.finish();
  CHECK(metrics.completed == 2);
  using Queue = std::vector<Steps::Step>;
  CHECK(steps.queued == Queue{{0, 0, -1}, {1, 0, -1}, {0, 2500, -1}, {1, 3500, -1}, {0, 3500, -1}});
  for (const Steps::Step& step : steps.running) CHECK(step.replica >= 0);
  CHECK_FALSE(steps.running.empty());
}

TEST_CASE("with nobody up, requests wait; a run does not go on from failure to failure", "[unit]") {
  BenchCluster bench;
  bench.add(sarathi, 100);
  bench.load.entries.push_back({kSecond, 10, 2});
  ClusterParams params;
  params.failures = {.mtbf_s = 1000, .mttr_s = 1, .at = {{.replica = 0, .time_s = 0.5, .duration_s = 4}}};
  bench.run(params);
  CHECK(bench.metrics.completed == 1);
  CHECK(bench.log.requests[0].finished->ticks == 4 * kSecond + kSecond / 2 + 2 * kSecond);
  CHECK(bench.cluster.totals().parked == 1);
  CHECK(bench.engine.now().ticks == bench.log.requests[0].finished->ticks);
}

TEST_CASE("outages have their mean times", "[theory]") {
  FailureParams params;
  params.mtbf_s = 100;
  params.mttr_s = 10;
  Outages outages(params, sim::TickScale{1}, sim::RandomStream(1, "failures"), 2);
  sim::Time now{0};
  double down = 0;
  int count = 0;
  while (now.ticks < 100'000 * kSecond) {
    const Outage outage = *outages.next(1, now);
    down += static_cast<double>((outage.end - outage.begin).ticks);
    now = outage.end;
    ++count;
  }
  // 100,000 / 110 = 909 outages, a share of 1 / 11 of the time.
  CHECK(count == Approx(909).epsilon(0.1));
  CHECK(down / static_cast<double>(now.ticks) == Approx(1.0 / 11).epsilon(0.1));
}

TEST_CASE("requests, tokens and blocks are conserved whatever replicas do", "[prop]") {
  const auto [roles, failures, scaling] = GENERATE(table<bool, bool, bool>(
      {{true, false, false}, {true, true, false}, {false, true, false}, {false, false, true}, {false, true, true}}));
  CAPTURE(roles, failures, scaling);
  sim::RandomStream random(23, "conserve");
  for (int round = 0; round < 4; ++round) {
    ClusterPolicies policies{.router = make_router("power_of_two"), .decode_router = make_router("random")};
    if (scaling) policies.scaling = make_scaling("keep_alive", R"({"keep_alive": "3 s", "concurrency": 4})");
    BenchCluster bench(std::move(policies));
    bench.model.cost_ps = [](const BatchShape& shape) {
      return kSecond / 20 + shape.segments[0].tokens * kSecond / 5000;
    };
    for (int i = 0; i < 4; ++i)
      bench.add([] { return make_batching("vllm_v0"); }, 300,
                !roles  ? Role::both
                : i < 2 ? Role::prefill
                        : Role::decode);
    std::int64_t prompt = 0, output = 0;
    for (int i = 0; i < 150; ++i) {
      ListLoad::Entry entry{
          static_cast<std::int64_t>(random.below(60)) * kSecond + static_cast<std::int64_t>(random.below(1000)),
          static_cast<std::int64_t>(1 + random.below(1200)), static_cast<std::int64_t>(1 + random.below(150))};
      prompt += entry.prompt;
      output += entry.output;
      bench.load.entries.push_back(entry);
    }
    ClusterParams params;
    params.transfer = {.bandwidth = 1e6, .latency_s = 0.01, .fixed_s = 0};
    if (failures) {
      params.failures.mtbf_s = 8;
      params.failures.mttr_s = 4;
    }
    params.scaling.least = 0;
    params.scaling.interval_s = 1;
    bench.run(params);
    const ServingMetrics& m = bench.metrics;
    CHECK(m.completed == 150);
    CHECK(m.prompt_tokens == prompt);
    CHECK(m.output_tokens == output);
    CHECK(m.tbt.count() == output - 150);
    CHECK(m.processed_tokens >= prompt + output - 150);
    CHECK(bench.free_blocks() == bench.total_blocks);
    for (std::size_t i = 0; i < bench.cluster.size(); ++i) {
      CHECK(bench.cluster.facts(i).requests == 0);
      CHECK(bench.cluster.facts(i).queued_tokens == 0);
      CHECK(bench.cluster.facts(i).tokens == 0);
    }
    if (roles && !failures) CHECK(bench.cluster.totals().transfers.count <= 150);
    if (failures) CHECK(bench.cluster.totals().rerouted > 0);
    if (scaling) CHECK(bench.cluster.totals().cold_starts > 0);
  }
}

TEST_CASE("admission controls by hand", "[unit]") {
  std::vector<policies::ReplicaFacts> facts(2);
  facts[0].requests = 3;
  facts[1].requests = 4;
  policies::AdmissionView view;
  view.replicas = facts;
  view.request.prefill_tokens = 100;
  // 7 there and one more: 8 at 2 replicas.
  CHECK_FALSE(make_admission("queue_limit", R"({"requests": 4})")->reject(view));
  CHECK(make_admission("queue_limit", R"({"requests": 3})")->reject(view) == "queue_full");
  facts[0].queued_tokens = 150;
  CHECK(make_admission("queue_limit", R"({"requests": null, "queued_tokens": 124})")->reject(view) == "queue_full");
  CHECK_FALSE(make_admission("queue_limit", R"({"requests": null, "queued_tokens": 125})")->reject(view));
  // A bucket of 2 at 1 a second: two at once, the third after a second.
  const auto bucket = make_admission("token_bucket", R"({"rate": 1, "burst": 2})");
  CHECK_FALSE(bucket->reject(view));
  CHECK_FALSE(bucket->reject(view));
  CHECK(bucket->reject(view) == "rate_limited");
  view.now = sim::Time{kSecond - 1};
  CHECK(bucket->reject(view));
  view.now = sim::Time{2 * kSecond};
  CHECK_FALSE(bucket->reject(view));
  // 250 tokens at 100 a second against a target of 2 s, 200 against it at the other.
  view.ttft_ps = 2 * kSecond;
  facts[0].prefill_tokens_per_s = facts[1].prefill_tokens_per_s = 100;
  facts[1].queued_tokens = 101;
  const auto slo = make_admission("slo", "{}");
  CHECK(slo->reject(view) == "slo");
  facts[1].queued_tokens = 100;
  CHECK_FALSE(slo->reject(view));
}

TEST_CASE("scaling policies by hand", "[unit]") {
  std::vector<policies::ReplicaFacts> facts(4);
  for (auto& f : facts) f.requests = 48;
  std::vector<sim::Time> idle(4, sim::kNever);
  policies::ScalingView view;
  view.replicas = facts;
  view.idle_since = idle;
  view.most = 100;
  const auto target = make_scaling("target", R"({"target": 32, "stabilisation": "60 s"})");
  CHECK(target->wanted(view) == 6);  // ceil(192 / 32)
  for (auto& f : facts) f.requests = 10;
  view.now = sim::Time{30 * kSecond};
  CHECK(target->wanted(view) == 6);  // wanted within the last minute
  view.now = sim::Time{91 * kSecond};
  CHECK(target->wanted(view) == 2);  // ceil(40 / 32)
  for (auto& f : facts) f.requests = 34;
  CHECK(make_scaling("target", R"({"target": 32})")->wanted(view) == 4);  // within a tenth

  for (auto& f : facts) f.requests = 0;
  facts[0].requests = 5;
  idle = {sim::kNever, sim::Time{31 * kSecond}, sim::Time{30 * kSecond}, sim::Time{0}};
  view.now = sim::Time{91 * kSecond};
  const auto keep = make_scaling("keep_alive", R"({"keep_alive": "61 s", "concurrency": 2})");
  CHECK(keep->wanted(view) == 3);  // 5 requests at 2 each; kept for idleness: the busy one and the one from 31 s
  facts[0].requests = 1;
  CHECK(keep->wanted(view) == 2);
}

TEST_CASE("cold starts queue stage by stage", "[unit]") {
  ColdStartParams params;
  params.scheduling_s = 1;
  params.reserved = 1;
  params.select_s = 2;
  params.create_s = 10;
  params.code_s = 3;
  params.storage_bandwidth = 1e9;
  params.loads = 1;
  ColdStarts starts(params, sim::TickScale{1});
  const auto s = [](sim::Duration d) { return static_cast<double>(d.ticks) / kSecond; };
  // First: scheduled [0,1), the reserved pod [1,3), code [3,6), 4 GB [6,10).
  const ColdStart first = starts.start(sim::Time{0}, 4'000'000'000);
  CHECK(s(first.total()) == 10);
  // Second, at once: scheduled [1,2), made from scratch [2,12), code [12,15), load [15,19).
  const ColdStart second = starts.start(sim::Time{0}, 4'000'000'000);
  CHECK(s(second.scheduling) == 2);
  CHECK(s(second.allocation) == 10);
  CHECK(s(second.load) == 4);
  CHECK(s(second.total()) == 19);
  // Third at 10.5 s: scheduled at 11.5; the pool has another pod since 11; code until 16.5; the disk is busy until 19.
  const ColdStart third = starts.start(sim::Time{kSecond * 21 / 2}, 4'000'000'000);
  CHECK(s(third.allocation) == 2);
  CHECK(s(third.load) == 23 - 16.5);
}

TEST_CASE("a replica that is scaled to zero: a cold start, then off again", "[unit]") {
  // Weights of 10 GB at 5 GB/s: the request that comes at 1 s waits until 3 s, its tokens come at 4 and 5. The next
  // comes at 40 s; the replica went at the tick of 16 s, the first at least 10 s after 5 s.
  ClusterPolicies policies;
  policies.scaling = make_scaling("keep_alive", R"({"keep_alive": "10 s"})");
  BenchCluster bench(std::move(policies));
  bench.add(sarathi, 100);
  bench.load.entries.push_back({kSecond, 10, 2});
  bench.load.entries.push_back({40 * kSecond, 10, 2});
  ClusterParams params;
  params.scaling.least = 0;
  params.scaling.interval_s = 8;
  params.scaling.off_power = 0.25;
  params.scaling.start.storage_bandwidth = 5e9;
  bench.run(params);
  CHECK(bench.log.requests[0].finished->ticks == 5 * kSecond);
  CHECK(bench.log.requests[1].finished->ticks == 44 * kSecond);
  const ClusterTotals& totals = bench.cluster.totals();
  CHECK(totals.cold_starts == 2);
  CHECK(totals.parked == 2);
  CHECK(totals.cold.load.ticks == 4 * kSecond);
  // Up from 1 to 16 and from 40 to the end of the run, busy in [3, 5) and [42, 44).
  CHECK(bench.engine.now().ticks == 48 * kSecond);  // the last tick finds nothing left to do
  CHECK(totals.up_ticks == (15 + 8) * kSecond);
  CHECK(totals.busy_ticks == 4 * kSecond);
  CHECK(bench.cluster.result(0).off_ps == (48 - 23) * kSecond);
  CHECK(bench.cluster.result(0).off_power == 0.25);
}

TEST_CASE("leaping and stepping give the same files whatever the cluster does", "[prop][cli]") {
  Scratch scratch;
  std::string trace = "arrived_s,prompt_tokens,output_tokens\n";
  sim::RandomStream random(12, "trace");
  double at = 0;
  for (int i = 0; i < 200; ++i) {
    at += random.exponential(i % 50 < 40 ? 0.05 : 4);
    trace += std::to_string(at) + "," + std::to_string(20 + random.below(1500)) + "," +
             std::to_string(1 + random.below(300)) + "\n";
  }
  scratch.write("trace.csv", trace);
  const char* roles = R"("replicas": [{"count": 2, "role": "prefill"}, {"count": 2, "role": "decode"}])";
  const char* four = R"("replicas": [{"count": 4}])";
  const std::vector<std::pair<std::string, std::string>> configs{
      {std::string("{") + roles + "}", "{}"},
      {std::string("{") + roles + R"(, "failures": {"mtbf": "5 s", "mttr": "1 s"}})", "{}"},
      {std::string("{") + four + R"(, "scaling": {"least": 0, "interval": "1 s"}})",
       R"({"scaling": {"policy": "keep_alive", "keep_alive": {"keep_alive": "2 s", "concurrency": 4}}})"},
      {std::string("{") + four + R"(, "scaling": {"interval": "1 s"}, "failures": {"mtbf": "20 s", "mttr": "3 s"}})",
       R"({"scaling": {"policy": "target", "target": {"metric": "utilisation", "target": 0.7, "stabilisation": "3 s"}},
           "admission": {"policy": "queue_limit", "queue_limit": {"requests": 12}}})"},
      {R"({"replicas": [{"pipeline_parallel": 4}]})", R"({"batching": {"policy": "vllm_v0"}})"}};
  for (const auto& [cluster, policies] : configs) {
    CAPTURE(cluster, policies);
    scratch.write("run.json", cluster_config(cluster, policies));
    REQUIRE(command(scratch, "run run.json --force --quiet --out leap").exit_code == 0);
    REQUIRE(command(scratch, "run run.json --force --quiet --out step --set run.leap=false").exit_code == 0);
    for (const char* file : {"requests.csv", "series.csv", "energy.csv", "distributions.csv"})
      CHECK(slurp(scratch / "leap" / file) == slurp(scratch / "step" / file));
    // Power over time and energy by device are two views of one sum.
    double series = 0, energy = 0;
    std::map<std::string, double> last;
    for (const Row& row : read_csv(scratch / "leap" / "series.csv")) {
      double& before = last[row.at("replica")];
      const double time = std::stod(row.at("time_s"));
      series += std::stod(row.at("power_w")) * (time - before);
      before = time;
    }
    for (const Row& row : read_csv(scratch / "leap" / "energy.csv")) energy += std::stod(row.at("energy_j"));
    CHECK(energy == Approx(figure(scratch / "leap", {"energy_j", "total"})).epsilon(1e-6));
    if (cluster.find("pipeline") == std::string::npos) CHECK(series == Approx(energy).epsilon(1e-3));
  }
}

TEST_CASE("faults of a cluster's config say where", "[unit]") {
  Scratch scratch;
  scratch.write("trace.csv", small_trace());
  const auto fault = [&](const std::string& cluster, const std::string& policies = "{}") {
    scratch.write("run.json", cluster_config(cluster, policies));
    const CommandResult result = command(scratch, "run run.json --quiet --force --out o");
    CHECK(result.exit_code == 2);
    return result.err;
  };
  CHECK_THAT(fault(R"({"replicas": [{"count": 0}]})"), Catch::Contains("/cluster/replicas/0/count"));
  CHECK_THAT(fault(R"({"replicas": [{"role": "prefill"}]})"), Catch::Contains("expected a group of role 'decode'"));
  CHECK_THAT(fault(R"({"replicas": [{"role": "decode"}]})"), Catch::Contains("expected a group of role 'prefill'"));
  CHECK_THAT(fault(R"({"replicas": [{"device_group": 1}]})"), Catch::Contains("/cluster/replicas/0/device_group"));
  CHECK_THAT(fault(R"({"failures": {"at": [{"replica": 1, "time": "1 s"}]}})"),
             Catch::Contains("/cluster/failures/at/0"));
  CHECK_THAT(fault(R"({"replicas": [{"count": 2}], "scaling": {"least": 3}})", R"({"scaling": {"policy": "target"}})"),
             Catch::Contains("/cluster/scaling/least"));
  CHECK_THAT(fault("{}", R"({"routing": {"policy": "jsk"}})"), Catch::Contains("jsq"));
}

TEST_CASE("clusters that do not fit are a result", "[unit]") {
  Scratch scratch;
  scratch.write("trace.csv", small_trace());
  const auto reason = [&](const std::string& cluster) {
    scratch.write("run.json", cluster_config(cluster));
    CHECK(command(scratch, "run run.json --quiet --force --out o").exit_code == 0);
    return slurp(scratch / "o" / "summary.json");
  };
  CHECK_THAT(reason(R"({"replicas": [{"count": 5}]})"), Catch::Contains("the replicas need 5 devices"));
  CHECK_THAT(reason(R"({"replicas": [{"count": 2, "tensor_parallel": 2}, {"count": 1}]})"),
             Catch::Contains("the replicas need 5 devices"));
  CHECK_THAT(reason(R"({"replicas": [{"pipeline_parallel": 64}]})"), Catch::Contains("infeasible"));
  // Four devices: what is said is which figure asks for more.
  const char* const needs = "the replicas need 8 devices of part a100-sxm4-80gb, the machine has 4";
  CHECK_THAT(reason(R"({"replicas": [{"pipeline_parallel": 8}]})"), Catch::Contains(needs));
  CHECK_THAT(reason(R"({"replicas": [{"count": 2, "tensor_parallel": 4}]})"), Catch::Contains(needs));
  CHECK_THAT(reason(R"({"replicas": [{"tensor_parallel": 4}, {"tensor_parallel": 4}]})"), Catch::Contains(needs));
  CHECK_THAT(reason(R"({"replicas": [{"tensor_parallel": 8}]})"),
             Catch::Contains("tensor parallelism of 8 needs as many devices, the machine has 4"));
}

TEST_CASE("a partition that is none of the model's is a result that says what it gives", "[unit]") {
  Scratch scratch;
  scratch.write("trace.csv", small_trace());
  const auto summary = [&](const std::string& layers) {
    scratch.write("run.json",
                  cluster_config(R"({"replicas": [{"pipeline_parallel": 4}]})",
                                 R"({"partition": {"policy": "listed", "listed": {"layers": )" + layers + "}}}"));
    CHECK(command(scratch, "run run.json --quiet --force --out o").exit_code == 0);
    return slurp(scratch / "o" / "summary.json");
  };
  // The model has 32 layers: too many, too few, too few stages.
  CHECK_THAT(summary("[8, 8, 8, 9]"),
             Catch::Contains("policies.partition gives stages of [8, 8, 8, 9] layers, the model "
                             "has 32 layers and the replica 4 stages"));
  CHECK_THAT(summary("[8, 8, 8, 7]"), Catch::Contains("infeasible"));
  CHECK_THAT(summary("[16, 16]"), Catch::Contains("infeasible"));
  CHECK_THAT(summary("[9, 8, 8, 7]"), Catch::Contains(R"("status": "ok")"));
}

TEST_CASE("stages hold the weights of their own layers, dense ones and those with experts", "[unit]") {
  // Sixteen devices hold DeepSeek-V3, whose first three layers have no experts and so far fewer parameters than the
  // others. The fullest device holds at least the mean.
  Scratch scratch;
  const auto weights = [&](const std::string& replica) {
    scratch.write("run.json", R"({"system": "serving",
      "machine": {"devices": [{"part": "catalog:b200-sxm", "count": 16}]}, "model": {"config": "catalog:deepseek-v3"},
      "workload": {"generator": {"requests": 1, "lengths": {"policy": "fixed"}, "arrivals": {"policy": "poisson"}}},
      "cluster": {"replicas": [)" +
                                  replica + "]}}");
    const CommandResult done = command(scratch, "run run.json --quiet --force --out o");
    INFO(done.err);
    REQUIRE(done.exit_code == 0);
    return figure(scratch / "o", {"memory_bytes", "weights"});
  };
  const double apart = weights(R"({"tensor_parallel": 16})");
  const double staged = weights(R"({"tensor_parallel": 4, "pipeline_parallel": 4})");
  CHECK(staged > apart);
  CHECK(staged < 1.3 * apart);
}

}  // namespace test_cluster_changes
