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

/// Arrows of a training step: from the pass that makes a message over the message to the pass that waits for it, and
/// from the slowest stage's gradients to the optimizer of every other stage.
struct StepArrows {
  std::size_t left = 0, reached = 0, optimizers = 0;
};
StepArrows step_arrows(const TimelineRun& run) {
  StepArrows found;
  for (const Timeline::Arrow& arrow : run.timeline.arrows) {
    const Timeline::Slice& from = run.timeline.slices[arrow.from];
    const Timeline::Slice& to = run.timeline.slices[arrow.to];
    CHECK(from.end_ns <= to.begin_ns + 1);  // both rounded down
    if (run.name(to) == "optimizer") {
      CHECK(run.name(from) == "gradients summed");
      ++found.optimizers;
      continue;
    }
    CHECK(run.argument(from, "micro_batch") == run.argument(to, "micro_batch"));
    if (run.track(to) == "passes") {  // it reaches the stage that its name says
      CHECK("to " + run.group(to) == run.name(from));
      CHECK(run.name(to).starts_with(run.track(from) == "activations sent" ? "forward " : "backward "));
      ++found.reached;
    } else {  // it leaves its own stage
      CHECK(run.track(from) == "passes");
      CHECK(run.group(from) == run.group(to));
      ++found.left;
    }
  }
  return found;
}

TEST_CASE("timeline: a pipeline's messages lead from the pass that makes them to the pass that waits", "[unit]") {
  const std::string study = slurp(fs::path(ORRERY_SOURCE_DIR) / "experiments/studies/training_gpt3.json");
  for (const char* devices : {"64", "128"}) {  // one copy of the model, and two
    const Scratch scratch;
    const TimelineRun run =
        run_timeline(scratch, study, {std::string("machine.devices.0.count=") + devices, "workload.global_batch=32"});
    std::size_t sent = 0;
    for (const Timeline::Slice& slice : run.timeline.slices) sent += run.name(slice).starts_with("to stage ") ? 1 : 0;
    const StepArrows arrows = step_arrows(run);
    // 32 micro-batches, or 16 of two copies, pass 24 chunks of eight stages: 23 messages each way.
    CHECK(sent == (std::string(devices) == "64" ? 32 : 16) * 23 * 2);
    CHECK(arrows.left == sent);
    CHECK(arrows.reached == sent);
    CHECK(arrows.optimizers == 7);  // of all stages but the slowest
  }
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
