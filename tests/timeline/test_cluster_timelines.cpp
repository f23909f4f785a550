// Timelines of several replicas: routing, transfers, migrations, failures, scaling, pipelines.
#include "timeline_run.hpp"

namespace test_cluster_timelines {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

std::string cluster_config(const std::string& cluster, const std::string& policies = "{}",
                           const std::string& part = "a100-sxm4-80gb") {
  return R"({"kind": "experiment", "version": 1, "system": "serving",
  "machine": {"devices": [{"part": ")" +
         part + R"(", "count": 4}]},
  "model": {"config": "catalog:llama-2-7b"},
  "workload": {"trace": {"path": "trace.csv", "format": "orrery_csv"}},
  "cluster": )" +
         cluster + R"(, "policies": )" + policies + "}";
}

/// Busy time of each replica, as far as iterations show it.
void check_busy(const TimelineRun& run) {
  std::map<std::string, double> busy = busy_seconds(run);
  const std::vector<sim::Node>& rows = run.outcome.summary.find("replicas")->items();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double expected = rows[i].find("busy")->as_number() * run.number("simulated_s");
    CHECK(busy[fmt::format("replica {}", i)] == Approx(expected).margin(1e-5));
  }
}

std::size_t ways(const TimelineRun& run, std::string_view prefix) {
  std::size_t count = 0;
  for (const Timeline::Slice* slice : run.on(prefix)) count += slice->depth == 0 ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("timeline: a router's choices and replicas that fail", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(100, 0.1, 1000, 200));
  const TimelineRun run = run_timeline(scratch, cluster_config(R"({"replicas": [{"count": 4}],
        "failures": {"at": [{"replica": 1, "time": "3 s", "duration": "2 s"}]}})"));
  check_requests(run);
  check_busy(run);
  CHECK(static_cast<double>(run.on("router").size()) >= run.number("requests.arrived"));
  std::size_t failed = 0;
  for (const Timeline::Slice* slice : run.on("state")) {
    CHECK(run.group(*slice) == "replica 1");
    CHECK(run.name(*slice) == "failed");
    CHECK(slice->begin_ns == 3'000'000'000);
    CHECK(slice->end_ns == 5'000'000'000);
    ++failed;
  }
  CHECK(failed == 1);
  const auto up = run.counter("replicas up").at("cluster");
  REQUIRE(up.size() == 3);  // from the start, 3 s, 5 s
  CHECK(up[0].value == 4);
  CHECK(up[1].value == 3);
  CHECK(up[2].value == 4);
}

TEST_CASE("timeline: KV caches go from prefill to decode", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(80, 0.1, 1000, 100));
  const TimelineRun run = run_timeline(scratch, cluster_config(R"({"replicas": [{"count": 2, "role": "prefill"},
                                                            {"count": 2, "role": "decode"}]})"));
  check_requests(run);
  check_busy(run);
  CHECK(static_cast<double>(ways(run, "KV transfer")) == run.number("cluster.kv_transfers.count"));
  std::int64_t bytes = 0;
  for (const Timeline::Slice* slice : run.on("KV transfer")) {
    bytes += run.argument(*slice, "bytes");
    CHECK(run.argument(*slice, "from") < 2);
    CHECK(run.argument(*slice, "to") >= 2);
  }
  CHECK(static_cast<double>(bytes) == run.number("cluster.kv_transfers.bytes"));
}

TEST_CASE("timeline: migrations, with failures in between", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(120, 0.2, 1500, 400));
  const std::string policies = R"({"batching": {"policy": "vllm_v0"}, "routing": {"policy": "llumnix"},
                   "migration": {"policy": "llumnix", "llumnix": {"threshold": 40}}})";
  for (const char* cluster : {R"({"replicas": [{"count": 4}]})",
                              R"({"replicas": [{"count": 4}], "failures": {"mtbf": "20 s", "mttr": "3 s"}})"}) {
    const TimelineRun run =
        run_timeline(scratch, cluster_config(cluster, policies, "a10g"), {"replica.memory_margin=0.25"});
    check_requests(run);
    check_busy(run);
    REQUIRE(run.number("cluster.migrations.completed") > 0);
    CHECK(static_cast<double>(ways(run, "migration")) == run.number("cluster.migrations.completed"));
    fs::remove_all(run.folder);
  }
}

TEST_CASE("timeline: replicas that come and go", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(120, 0.1, 1000, 200));
  const TimelineRun run = run_timeline(
      scratch,
      cluster_config(
          R"({"replicas": [{"count": 4}], "scaling": {"interval": "1 s"}, "failures": {"mtbf": "20 s", "mttr": "3 s"}})",
          R"({"scaling": {"policy": "target", "target": {"metric": "utilisation", "target": 0.7, "stabilisation": "3 s"}},
                         "admission": {"policy": "queue_limit", "queue_limit": {"requests": 12}}})"));
  check_requests(run);
  check_busy(run);
  std::size_t starts = 0, rejected = run.on("rejected").size();
  for (const Timeline::Slice* slice : run.on("state")) {
    CHECK(slice->depth == 0);
    starts += run.name(*slice) == "starting" ? 1 : 0;
  }
  CHECK(starts > 0);
  CHECK(static_cast<double>(rejected) == run.number("requests.rejected"));
}

TEST_CASE("timeline: stages of a pipeline take one micro-batch at a time", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(60, 0.1, 1000, 50));
  const TimelineRun run = run_timeline(
      scratch, cluster_config(R"({"replicas": [{"pipeline_parallel": 4}]})", R"({"batching": {"policy": "vllm_v0"}})"));
  check_requests(run);
  double busy = 0;
  std::size_t passes = 0;
  for (const Timeline::Slice* slice : run.on("stage ")) {
    CHECK(slice->depth == 0);  // or two would overlap
    busy += static_cast<double>(slice->end_ns - slice->begin_ns) * 1e-9;
    ++passes;
  }
  CHECK(static_cast<double>(passes) == 4 * run.number("iterations"));
  CHECK(busy / 4 == Approx(run.number("utilisation.busy") * run.number("simulated_s")).margin(1e-5));
  CHECK(run.on("operators").empty());
}

}  // namespace test_cluster_timelines
