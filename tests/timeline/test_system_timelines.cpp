// Timelines of the systems launch, graph and network.
#include "tests/experiments/network_support.hpp"
#include "timeline_run.hpp"

namespace test_system_timelines {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

/// Every arrow leads from a call of the host to a kernel of its name's stream, and no kernel runs beside another.
void check_calls(const TimelineRun& run) {
  std::size_t arrows = 0;
  for (const Timeline::Arrow& arrow : run.timeline.arrows) {
    const Timeline::Slice& call = run.timeline.slices[arrow.from];
    const Timeline::Slice& kernel = run.timeline.slices[arrow.to];
    CHECK(run.track(call) == "dispatching thread");
    CHECK(run.name(call) == "launch");
    CHECK(run.track(kernel) == "stream 0");
    CHECK(run.group(call) == run.group(kernel));
    ++arrows;
  }
  CHECK(arrows > 0);
  for (const Timeline::Slice* kernel : run.on("stream 0")) CHECK(kernel->depth == 0);
  for (const Timeline::Slice* call : run.on("dispatching thread")) CHECK(call->depth == 0);
}

}  // namespace

TEST_CASE("timeline: calls of the host and kernels", "[unit]") {
  const Scratch scratch;
  const TimelineRun run =
      run_timeline(scratch, slurp(fs::path(ORRERY_SOURCE_DIR) / "experiments/studies/skip_batch_sweep.json"),
                   {"workload.batches=[1, 8]", "workload.models=[\"gpt2\"]"});
  check_calls(run);
  std::map<std::string, double> busy, first_call, last_end;
  for (const Timeline::Slice* kernel : run.on("stream 0"))
    busy[run.group(*kernel)] += static_cast<double>(kernel->end_ns - kernel->begin_ns) * 1e-9;
  std::size_t rows = 0;
  for (const Row& row : read_csv(run.folder / "points.csv")) {
    if (row.at("batch") != "1") continue;
    ++rows;
    CHECK(busy.at(row.at("platform")) == Approx(std::stod(row.at("gpu_busy_s"))).margin(1e-6));
  }
  CHECK(rows == busy.size());
}

TEST_CASE("timeline: the operators of a graph", "[unit]") {
  const Scratch scratch;
  const TimelineRun run = run_timeline(scratch, R"({"kind": "experiment", "version": 1, "system": "graph",
  "machine": {"device": {"part": "a100-sxm4-80gb"},
              "dispatch": {"operator": "10 us", "view": "0 s", "call": "3 us", "latency": "2 us"}},
  "model": {"builder": {"policy": "mlp", "mlp": {"widths": [64, 64, 64, 64], "bias": false, "dtype": "fp16"}}},
  "workload": {"bind": {"batch": 16}, "requests": 4}, "run": {"timeline": true}})");
  check_calls(run);
  const auto kernels = run.on("stream 0");
  CHECK(kernels.size() == 5);
  const Row first = read_csv(run.folder / "requests.csv").front();
  CHECK(kernels.back()->end_ns == ns_of(first.at("finished_s")));
}

TEST_CASE("timeline: collectives, ranks and links", "[unit]") {
  const Scratch scratch;
  const TimelineRun run = run_timeline(
      scratch,
      star_config(
          R"("jobs": [{"name": "grads", "collective": "all_reduce", "bytes": "1 MB", "repeat": 3, "mode": "chunks"}])"));
  const auto repetitions = run.on("repetitions");
  const auto rows = read_csv(run.folder / "jobs.csv");
  REQUIRE(repetitions.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(repetitions[i]->begin_ns == ns_of(rows[i].at("started_s")));
    CHECK(repetitions[i]->end_ns == ns_of(rows[i].at("finished_s")));
  }
  CHECK(run.on("rank ").size() == 3 * 8);
  for (const Timeline::Value& value : run.timeline.values) {
    CHECK(run.timeline.tracks[value.track].unit == "%");
    CHECK(value.value >= 0);
    CHECK(value.value <= 100.01);
  }
  CHECK_FALSE(run.timeline.values.empty());
}

}  // namespace test_system_timelines
