// Timelines of one replica against the run's other files.
#include <set>

#include "timeline_run.hpp"

namespace test_serving_timelines {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;

namespace {

TimelineRun small_run(const Scratch& scratch, const std::vector<std::string>& assignments = {},
                      const std::string& name = "run") {
  scratch.write("trace.csv", small_trace());
  return run_timeline(scratch, small_config(), assignments, name);
}

}  // namespace

TEST_CASE("requests of a timeline are those of requests.csv", "[unit]") {
  const Scratch scratch;
  check_requests(small_run(scratch));
}

TEST_CASE("iterations of a timeline add up to busy time and tokens", "[unit]") {
  const Scratch scratch;
  const TimelineRun run = small_run(scratch);
  const auto iterations = run.on("iterations");
  CHECK(static_cast<double>(iterations.size()) == run.number("iterations"));
  const double busy = run.number("utilisation.busy") * run.number("simulated_s");
  CHECK(busy_seconds(run).at("replica 0") == Approx(busy).margin(1e-9 * static_cast<double>(iterations.size())));
  std::int64_t prefill = 0, decodes = 0, chunks = 0;
  for (const Timeline::Slice* slice : iterations) {
    CHECK(slice->depth == 0);
    const std::int64_t tokens = run.argument(*slice, "prefill_tokens");
    CHECK((tokens > 0) == (run.argument(*slice, "chunks") > 0));
    prefill += tokens;
    chunks += run.argument(*slice, "chunks");
    decodes += run.argument(*slice, "decodes");
  }
  // Nothing is computed twice here; a request's first token comes with its prompt.
  CHECK(static_cast<double>(prefill) == run.number("tokens.prompt"));
  CHECK(static_cast<double>(decodes) == run.number("tokens.output") - 10);
  // Each chunk is a stop of an arrow from a request, and each request's last iteration ends one.
  std::int64_t stops = 0;
  for (const Timeline::Arrow& arrow : run.timeline.arrows)
    stops += run.track(run.timeline.slices[arrow.to]) == "iterations" ? 1 : 0;
  CHECK(stops == chunks + 10);
}

TEST_CASE("counters of a timeline are those of its iterations", "[unit]") {
  const Scratch scratch;
  const TimelineRun run = small_run(scratch);
  std::map<std::int64_t, std::int64_t> tokens;
  for (const Timeline::Slice* slice : run.on("iterations"))
    tokens[slice->begin_ns] = run.argument(*slice, "prefill_tokens") + run.argument(*slice, "decodes");
  std::map<std::int64_t, double> counted;  // a counter is drawn where it changes
  const auto batch_tokens = run.counter("batch tokens");
  for (const Timeline::Value& value : batch_tokens.at("replica 0")) counted[value.at_ns] = value.value;
  CHECK(counted.size() > 10);
  CHECK(counted.size() < tokens.size());
  for (const auto& [at, of_it] : tokens)
    CHECK(std::prev(counted.upper_bound(at))->second == static_cast<double>(of_it));
  double most = 0;
  const auto kv = run.counter("KV cache");
  for (const Timeline::Value& value : kv.at("replica 0")) most = std::max(most, value.value);
  CHECK(most * 1073741824.0 <= run.number("memory_bytes.kv_peak"));
  CHECK(most * 1073741824.0 > 0.9 * run.number("memory_bytes.kv_peak"));
  const std::set<std::string> wanted{"running", "waiting", "batch tokens", "KV cache", "power"};
  for (const std::string& name : wanted) CHECK(run.counter(name).size() == 1);
}

TEST_CASE("operators fill their iteration, layer by layer", "[unit]") {
  const Scratch scratch;
  const TimelineRun run = small_run(scratch, {"run.timeline.operators=7"});
  std::vector<const Timeline::Slice*> iterations = run.on("iterations");
  iterations.resize(7);
  std::size_t at = 0;
  std::int64_t until = iterations.front()->begin_ns;
  int layers = 0;
  std::set<std::string> names;
  for (const Timeline::Slice* slice : run.on("operators")) {
    if (slice->depth == 1) {
      names.insert(run.name(*slice));
      continue;
    }
    REQUIRE(at < iterations.size());
    CHECK(slice->begin_ns == until);  // one after another, without a gap
    until = slice->end_ns;
    layers += run.name(*slice).starts_with("layer ") ? 1 : 0;
    if (run.name(*slice) != "head") continue;
    CHECK(until == iterations[at]->end_ns);
    CHECK(layers == 32);
    layers = 0;
    if (++at < iterations.size()) until = iterations[at]->begin_ns;
  }
  CHECK(at == 7);
  for (const char* name : {"embedding", "qkv_proj", "attention_prefill", "ffn_up", "ffn_down", "lm_head"})
    CHECK(names.contains(name));
  // Operators within a layer leave no gap either.
  std::map<std::uint32_t, std::int64_t> inside;
  for (const Timeline::Slice* slice : run.on("operators"))
    if (slice->depth == 1) inside[slice->parent] += slice->end_ns - slice->begin_ns;
  for (const auto& [layer, length] : inside) {
    const Timeline::Slice& outer = run.timeline.slices[layer];
    CHECK(length == outer.end_ns - outer.begin_ns);
  }
  CHECK(small_run(scratch, {"run.timeline.operators=0"}, "none").on("operators").empty());
  const TimelineRun late = small_run(scratch, {"run.timeline.operators_begin=2 s"}, "late");
  REQUIRE_FALSE(late.on("operators").empty());
  CHECK(late.on("operators").front()->begin_ns >= 2'000'000'000);
}

TEST_CASE("leaping and stepping draw the same timeline", "[prop]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(60, 0.2, 1500, 100));
  for (const char* policies : {R"("batching": {"policy": "sarathi"})", R"("batching": {"policy": "vllm_v0"})",
                               R"("batching": {"policy": "vllm_v1"}, "kvcache": {"policy": "block_hash"})"}) {
    CAPTURE(policies);
    const std::string config =
        small_config(std::string(R"(, "policies": {)") + policies + R"(}, "replica": {"kv_blocks": 300})");
    const TimelineRun leap = run_timeline(scratch, config, {}, "leap");
    const TimelineRun step = run_timeline(scratch, config, {"run.leap=false"}, "step");
    CHECK((slurp(leap.folder / "timeline.pftrace") == slurp(step.folder / "timeline.pftrace")));
    check_requests(leap);
    fs::remove_all(leap.folder);
    fs::remove_all(step.folder);
  }
}

TEST_CASE("preempted requests show when they were", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(60, 0.1, 1500, 100));
  const TimelineRun run = run_timeline(
      scratch, small_config(R"(, "policies": {"batching": {"policy": "vllm_v0"}}, "replica": {"kv_blocks": 300})"));
  check_requests(run);
  REQUIRE(run.number("requests.preemptions") > 0);
  std::int64_t preempted = 0;
  for (const Timeline::Slice* slice : run.on("slot ")) preempted += run.name(*slice) == "preempted" ? 1 : 0;
  // One that is preempted and admitted at the same instant has no such slice.
  CHECK(preempted > 0);
  CHECK(static_cast<double>(preempted) <= run.number("requests.preemptions"));
}

TEST_CASE("rejected requests are marked", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", "arrived_s,prompt_tokens,output_tokens\n0,100,5\n1,9000,5\n2,100,5\n");
  const TimelineRun run = run_timeline(scratch, small_config());
  const auto rejected = run.on("rejected");
  REQUIRE(rejected.size() == 1);
  CHECK(run.name(*rejected.front()).starts_with("rejected:"));
  CHECK(rejected.front()->begin_ns == 1'000'000'000);
}

TEST_CASE("a timeline keeps to its size and says what it left out", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(400, 0.02, 500, 200));
  const TimelineRun run = run_timeline(scratch, small_config(), {"run.timeline.limit=64 KiB"});
  CHECK(fs::file_size(run.folder / "timeline.pftrace") <= 65'536);
  CHECK(fs::file_size(run.folder / "timeline.pftrace") > 5'000);
  REQUIRE(run.outcome.notes.size() == 1);
  CHECK_THAT(run.outcome.notes[0], Catch::Contains("timeline.pftrace is full (run.timeline.limit, 65536 bytes)") &&
                                       Catch::Contains("events are left out"));
  CHECK_THROWS_WITH(small_run(scratch, {"run.timeline.limit=1 KiB"}, "none"), Catch::Contains("/run/timeline/limit"));
}

TEST_CASE("cut timelines are whole: by iterations, by a window, by the end of the run", "[unit]") {
  const Scratch scratch;
  scratch.write("trace.csv", busy_trace(100, 0.05, 500, 200));
  const TimelineRun few = run_timeline(scratch, small_config(), {"run.timeline.iterations=50"}, "few");
  CHECK(few.on("iterations").size() == 50);
  CHECK_FALSE(few.on("slot ").empty());  // those under way are shown as far as they came
  const TimelineRun window =
      run_timeline(scratch, small_config(), {"run.timeline.begin=1 s", "run.timeline.end=2 s"}, "window");
  for (const Timeline::Slice& slice : window.timeline.slices) {
    CHECK(slice.begin_ns >= 1'000'000'000);
    CHECK(slice.end_ns <= 2'000'000'000);
  }
  const TimelineRun cut = run_timeline(scratch, small_config(), {"run.until=1500 ms"}, "cut");
  std::size_t open = 0;
  for (const Timeline::Slice* slice : cut.on("slot ")) open += slice->end_ns == 1'500'000'000 ? 1 : 0;
  CHECK(open > 0);
}

}  // namespace test_serving_timelines
