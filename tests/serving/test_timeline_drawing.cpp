// What a serving timeline draws of what it is told, event by event.
#include <fmt/format.h>

#include "experiments/systems/serving/observe/serving_timeline.hpp"
#include "sim/timeline/reader.hpp"
#include "tests/experiments/support.hpp"

#include <catch2/catch.hpp>

namespace test_timeline_drawing {

using namespace orrery;
using namespace orrery::experiments;
using namespace orrery::experiments::test;
using Kind = ClusterEvent::Kind;

namespace {

/// A timeline of ticks of 1 ns that the test tells things.
struct Drawing {
  explicit Drawing(std::vector<StreamFacts> streams = {{.replica = 0, .name = "a"}},
                   const std::function<void(TimelineFacts&)>& change = {}) {
    TimelineFacts facts;
    facts.iterations = 100;
    if (change) change(facts);
    timeline.emplace(scratch / "t.pftrace", facts, sim::TickScale{1000}, streams);
  }
  void step(std::int64_t at, std::int64_t request, RequestPhase phase, std::int32_t stream = -1) {
    timeline->request_step({request, sim::Time{at}, phase, 0, stream});
  }
  void iterate(std::int64_t from, std::int64_t length, std::int64_t prompt, std::int64_t decodes,
               std::int32_t stream = 0, std::int64_t count = 1, std::vector<StageTime> stages = {}) {
    IterationRun run;
    run.start = sim::Time{from};
    run.count = count;
    run.time_ps = 1000 * length;
    run.stream = stream;
    run.prefill_tokens = prompt;
    run.chunks = prompt > 0 ? 1 : 0;
    run.decodes = decodes;
    run.running = decodes + run.chunks;
    run.waiting = 2;
    run.kv_used_bytes = 1 << 29;
    run.energy_pj = 5000 * length;  // 5 W
    run.stages = stages;
    timeline->iterations_ended(run, 10);
  }
  void chunks(std::int32_t stream, std::vector<ChunkStep> planned) { timeline->chunks_planned(stream, planned); }
  void end(std::int64_t at, std::int64_t request, std::string_view status = "completed") {
    RequestRecord record;
    record.id = request;
    record.prompt_tokens = 30;
    record.output_tokens = 4;
    record.status = status;
    if (status == "completed") record.finished = sim::Time{at};
    timeline->request_ended(record);
  }
  void happens(std::int64_t at, Kind kind, std::int32_t replica, std::int64_t request = -1, std::int64_t since = 0) {
    timeline->cluster_event({.kind = kind,
                             .at = sim::Time{at},
                             .replica = replica,
                             .from = 1 - replica,
                             .request = request,
                             .bytes = 77,
                             .since = sim::Time{since}});
  }
  /// All of it: slices with what lies in them, instants, counters, arrows from slice to slice.
  std::string text(std::int64_t end) {
    timeline->finish(sim::Time{end});
    const sim::Timeline read = sim::read_timeline(scratch / "t.pftrace");
    CHECK(read.faults == std::vector<std::string>{});
    const auto track = [&](std::uint32_t number) {
      const sim::Timeline::Track& of = read.tracks[number];
      return read.tracks[of.group].name + "/" + of.name;
    };
    std::string all;
    for (const sim::Timeline::Slice& slice : read.slices) {
      all += fmt::format("{} {}", track(slice.track), slice.begin_ns);
      if (!slice.instant) all += fmt::format("-{}", slice.end_ns);
      all += fmt::format(" {}{}", slice.depth > 0 ? "> " : "", read.names[slice.name]);
      for (const sim::Timeline::Argument& argument : read.arguments_of(slice))
        all += fmt::format(" {}={}", read.names[argument.name], argument.value);
      all += "\n";
    }
    for (const sim::Timeline::Value& value : read.values)
      if (counters || read.tracks[value.track].name == "replicas up")
        all += fmt::format("{} {}: {:g}\n", track(value.track), value.at_ns, value.value);
    for (const sim::Timeline::Arrow& arrow : read.arrows) {
      const auto of = [&](std::uint32_t slice) {
        return fmt::format("{} {} {}", track(read.slices[slice].track), read.names[read.slices[slice].name],
                           read.slices[slice].begin_ns);
      };
      all += of(arrow.from) + " -> " + of(arrow.to) + "\n";
    }
    return all;
  }

  Scratch scratch;
  std::optional<ServingTimeline> timeline;
  bool counters = false;
};

}  // namespace

TEST_CASE("timeline: a request from its arrival through its chunk to the iteration that ends it", "[unit]") {
  Drawing d;
  d.counters = true;
  d.step(10, 7, RequestPhase::queued);
  d.step(12, 7, RequestPhase::queued);
  d.step(20, 7, RequestPhase::prefill, 0);
  d.chunks(0, {{7, 30}});
  d.iterate(20, 30, 30, 0);
  d.step(50, 7, RequestPhase::decode, 0);
  d.chunks(0, {});
  d.iterate(50, 10, 0, 1, 0, 2);
  d.end(70, 7);
  d.iterate(80, 10, 4, 1);
  CHECK(d.text(100) ==
        "requests/arrivals 10 request 7 request=7\n"
        "requests/slot 0 10-70 request 7 request=7 prompt_tokens=30 output_tokens=4 cached_tokens=0 preemptions=0 "
        "replica=0\n"
        "requests/slot 0 10-20 > queued\n"
        "a/iterations 20-50 prefill prefill_tokens=30 chunks=1 decodes=0 waiting=2\n"
        "requests/slot 0 20-50 > prefill\n"
        "a/iterations 50-60 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "requests/slot 0 50-70 > decode\n"
        "a/iterations 60-70 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "a/iterations 80-90 mixed prefill_tokens=4 chunks=1 decodes=1 waiting=2\n"
        "a/running 20: 1\n"
        "a/waiting 20: 2\n"
        "a/batch tokens 20: 30\n"
        "a/KV cache 20: 0.5\n"
        "a/power 20: 15\n"
        "a/batch tokens 50: 1\n"
        "a/running 80: 2\n"
        "a/batch tokens 80: 5\n"
        "requests/arrivals request 7 10 -> requests/slot 0 request 7 10\n"
        "requests/slot 0 request 7 10 -> a/iterations prefill 20\n"
        "a/iterations prefill 20 -> requests/slot 0 decode 50\n"
        "requests/slot 0 decode 50 -> a/iterations decode 60\n");
  CHECK(d.timeline->notes(4).empty());
}

TEST_CASE("timeline: phases that come again, those of no length, and a request that goes on", "[unit]") {
  Drawing d;
  d.step(10, 1, RequestPhase::queued);
  d.step(10, 1, RequestPhase::prefill, 0);
  d.step(20, 1, RequestPhase::decode, 0);
  d.step(30, 1, RequestPhase::preempted, 0);
  d.step(30, 1, RequestPhase::prefill, 0);
  d.step(35, 1, RequestPhase::loading, 0);
  d.step(40, 1, RequestPhase::decode, 0);
  d.step(45, 1, RequestPhase::moving, 0);
  d.step(15, 2, RequestPhase::queued);
  d.step(25, 3, RequestPhase::queued);
  d.end(0, 3, "unfinished");
  d.end(60, 1);
  d.end(60, 9);  // nobody knows of it
  CHECK(d.text(90) ==
        "requests/slot 0 10-60 request 1 request=1 prompt_tokens=30 output_tokens=4 cached_tokens=0 preemptions=0 "
        "replica=0\n"
        "requests/slot 0 10-20 > prefill\n"
        "requests/slot 1 15-90 request 2 request=2 goes_on=1\n"
        "requests/slot 1 15-90 > queued\n"
        "requests/slot 0 20-30 > decode\n"
        "requests/slot 2 25-90 request 3 request=3 goes_on=1\n"
        "requests/slot 2 25-90 > queued\n"
        "requests/slot 0 30-35 > prefill\n"
        "requests/slot 0 35-40 > loading KV\n"
        "requests/slot 0 40-45 > decode\n"
        "requests/slot 0 45-60 > moving KV\n"
        "what this timeline leaves out/arrows that go on 90 goes on\n"
        "requests/slot 0 decode 20 -> what this timeline leaves out/arrows that go on goes on 90\n");
}

TEST_CASE("timeline: rejected requests are marked where their last phase began", "[unit]") {
  Drawing d;
  d.step(10, 1, RequestPhase::queued);
  d.step(20, 2, RequestPhase::queued);
  d.step(35, 2, RequestPhase::prefill, 0);
  d.end(0, 2, "rejected:late");
  d.end(0, 1, "rejected:full");
  CHECK(d.text(90) ==
        "requests/rejected 10 rejected:full request=1 prompt_tokens=30\n"
        "requests/rejected 35 rejected:late request=2 prompt_tokens=30\n");
}

TEST_CASE("timeline: two streams; the arrow of a request that moved on ends where it ended", "[unit]") {
  Drawing d({{.replica = 0, .name = "a"}, {.replica = 1, .name = "b"}});
  d.step(0, 4, RequestPhase::prefill, 0);
  d.chunks(0, {{4, 8}});
  d.iterate(0, 10, 8, 0, 0);
  d.step(10, 4, RequestPhase::moving);
  d.step(12, 4, RequestPhase::prefill, 1);
  d.chunks(1, {{4, 2}, {99, 5}});
  d.iterate(12, 5, 2, 3, 1);
  d.step(17, 4, RequestPhase::decode, 1);
  d.iterate(17, 5, 0, 4, 1);
  d.end(22, 4);
  // One that ends between iterations is tied to none.
  d.step(20, 5, RequestPhase::decode, 0);
  d.iterate(20, 10, 0, 1, 0);
  d.end(29, 5);
  CHECK(d.text(40) ==
        "requests/arrivals 0 request 4 request=4\n"
        "a/iterations 0-10 prefill prefill_tokens=8 chunks=1 decodes=0 waiting=2\n"
        "requests/slot 0 0-22 request 4 request=4 prompt_tokens=30 output_tokens=4 cached_tokens=0 preemptions=0 "
        "replica=0\n"
        "requests/slot 0 0-10 > prefill\n"
        "requests/slot 0 10-12 > moving KV\n"
        "b/iterations 12-17 mixed prefill_tokens=2 chunks=1 decodes=3 waiting=2\n"
        "requests/slot 0 12-17 > prefill\n"
        "requests/slot 0 17-22 > decode\n"
        "b/iterations 17-22 decode prefill_tokens=0 chunks=0 decodes=4 waiting=2\n"
        "requests/slot 1 20-29 request 5 request=5 prompt_tokens=30 output_tokens=4 cached_tokens=0 preemptions=0 "
        "replica=0\n"
        "requests/slot 1 20-29 > decode\n"
        "a/iterations 20-30 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "what this timeline leaves out/arrows that go on 30 goes on\n"
        "requests/arrivals request 4 0 -> a/iterations prefill 0\n"
        "a/iterations prefill 0 -> b/iterations mixed 12\n"
        "b/iterations mixed 12 -> requests/slot 0 decode 17\n"
        "requests/slot 0 decode 17 -> b/iterations decode 17\n"
        "requests/slot 1 decode 20 -> what this timeline leaves out/arrows that go on goes on 30\n");
}

TEST_CASE("timeline: only what is in the window, and iterations up to a number", "[unit]") {
  Drawing window({{.replica = 0, .name = "a"}}, [](TimelineFacts& facts) { facts.options.window = {20, 60}; });
  for (std::int64_t at = 0; at < 80; at += 10) window.iterate(at, 10, 0, 1);
  window.step(59, 1, RequestPhase::queued);
  window.step(60, 2, RequestPhase::queued);
  CHECK(window.text(80) ==
        "a/iterations 20-30 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "what this timeline leaves out/limits 20 window: events outside are left out begin_ns=20 end_ns=60 left_out=0\n"
        "a/iterations 30-40 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "a/iterations 40-50 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "a/iterations 50-60 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "requests/slot 0 59-60 request 1 request=1 goes_on=1\n"
        "requests/slot 0 59-60 > queued\n");
  Drawing across({{.replica = 0, .name = "a"}}, [](TimelineFacts& facts) { facts.options.window = {25, 45}; });
  across.iterate(0, 10, 0, 1, 0, 8);
  CHECK(across.text(80) ==
        "a/iterations 25-30 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "what this timeline leaves out/limits 25 window: events outside are left out begin_ns=25 end_ns=45 left_out=5\n"
        "a/iterations 30-40 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "a/iterations 40-45 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n");
  Drawing few({{.replica = 0, .name = "a"}}, [](TimelineFacts& facts) { facts.iterations = 3; });
  few.step(5, 1, RequestPhase::decode, 0);
  few.iterate(0, 10, 0, 1, 0, 2);
  few.iterate(20, 10, 0, 1, 0, 2);
  few.step(50, 2, RequestPhase::queued);
  few.end(60, 1);
  few.iterate(60, 10, 0, 1);
  CHECK(few.text(80) ==
        "a/iterations 0-10 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "requests/slot 0 5-30 request 1 request=1 goes_on=1\n"
        "requests/slot 0 5-30 > decode\n"
        "a/iterations 10-20 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "a/iterations 20-30 decode prefill_tokens=0 chunks=0 decodes=1 waiting=2\n"
        "what this timeline leaves out/arrows that go on 30 goes on\n"
        "requests/slot 0 decode 5 -> what this timeline leaves out/arrows that go on goes on 30\n");
  CHECK(few.timeline->notes(9) ==
        std::vector<std::string>{"timeline.pftrace shows the first 3 of 9 iterations (run.timeline.iterations)"});
  Drawing exact({{.replica = 0, .name = "a"}}, [](TimelineFacts& facts) { facts.iterations = 2; });
  exact.iterate(0, 10, 0, 1, 0, 2);
  CHECK(exact.text(20).size() > 0);
  CHECK(exact.timeline->notes(2).empty());
}

TEST_CASE("timeline: stages of a pipeline, by lane, up to the end of the iteration", "[unit]") {
  Drawing d({{.replica = 0, .name = "a", .stages = 2},
             {.replica = 0, .name = "a2", .stages = 2},
             {.replica = 1, .name = "b", .stages = 1},
             {.replica = 2, .name = "c", .stages = 2},
             {.replica = 2, .name = "c2", .stages = 2}});
  d.iterate(0, 20, 3, 0, 0, 1, {{0, 10}, {10, 30}});
  d.iterate(5, 20, 0, 2, 1, 1, {{10, 15}, {25, 30}});
  d.iterate(5, 20, 1, 2, 4, 1, {{5, 15}, {15, 25}, {25, 26}});
  CHECK(d.text(40) ==
        "a/stage 0 0-10 lane 0 prefill_tokens=3 decodes=0\n"
        "a/iterations 0-20 prefill prefill_tokens=3 chunks=1 decodes=0 waiting=2\n"
        "c/stage 0 5-15 lane 1 prefill_tokens=1 decodes=2\n"
        "a2/iterations 5-25 decode prefill_tokens=0 chunks=0 decodes=2 waiting=2\n"
        "c2/iterations 5-25 mixed prefill_tokens=1 chunks=1 decodes=2 waiting=2\n"
        "a/stage 1 10-20 lane 0 prefill_tokens=3 decodes=0\n"
        "a/stage 0 10-15 lane 1 prefill_tokens=0 decodes=2\n"
        "c/stage 1 15-25 lane 1 prefill_tokens=1 decodes=2\n");
}

TEST_CASE("timeline: what happens in a cluster", "[unit]") {
  Drawing d({{.replica = 0, .name = "a"}, {.replica = 1, .name = "b"}});
  d.step(5, 3, RequestPhase::queued);
  d.happens(5, Kind::routed, 1, 3);
  d.happens(8, Kind::routed, 0, 4);
  d.happens(30, Kind::transferred, 1, 3, 20);
  d.happens(32, Kind::transferred, 0, 8, 22);
  d.happens(40, Kind::migrated, 1, 8, 35);
  d.happens(41, Kind::draining, 1);
  d.happens(45, Kind::off, 1);
  d.happens(50, Kind::failed, 0);
  d.happens(52, Kind::failed, 1);
  d.happens(55, Kind::returned, 0);
  d.happens(60, Kind::returned, 1);
  d.happens(60, Kind::starting, 1);
  d.happens(70, Kind::on, 1);
  d.happens(75, Kind::off, 0);
  CHECK(d.text(90) ==
        "cluster/router 5 to replica 1 request=3 replica=1\n"
        "requests/slot 0 5-90 request 3 request=3 goes_on=1\n"
        "requests/slot 0 5-90 > queued\n"
        "cluster/router 8 to replica 0 request=4 replica=0\n"
        "cluster/KV transfer 0 20-30 KV transfer request=3 from=0 to=1 bytes=77\n"
        "cluster/KV transfer 1 22-32 KV transfer request=8 from=1 to=0 bytes=77\n"
        "cluster/migration 0 35-40 migration request=8 from=0 to=1 bytes=77\n"
        "b/state 41-45 draining\n"
        "b/state 45-52 off\n"
        "a/state 50-55 failed\n"
        "b/state 52-60 failed\n"
        "b/state 60-70 starting\n"
        "a/state 75-90 off\n"
        "what this timeline leaves out/arrows that go on 90 goes on\n"
        "cluster/replicas up 0: 2\n"
        "cluster/replicas up 41: 2\n"
        "cluster/replicas up 45: 1\n"
        "cluster/replicas up 50: 0\n"
        "cluster/replicas up 52: 0\n"
        "cluster/replicas up 55: 1\n"
        "cluster/replicas up 60: 1\n"
        "cluster/replicas up 60: 1\n"
        "cluster/replicas up 70: 2\n"
        "cluster/replicas up 75: 1\n"
        "cluster/router to replica 1 5 -> cluster/KV transfer 0 KV transfer 20\n"
        "cluster/KV transfer 0 KV transfer 20 -> what this timeline leaves out/arrows that go on goes on 90\n");
  // One replica has no cluster.
  Drawing alone;
  alone.happens(50, Kind::failed, 0);
  CHECK(alone.text(90) == "");
}

TEST_CASE("timeline: more requests at once than there are places for are counted", "[unit]") {
  Drawing d;
  for (std::int64_t i = 0; i < 514; ++i) d.step(i, i, RequestPhase::queued);
  for (std::int64_t i = 0; i < 514; ++i) d.end(1000, i);
  d.text(1000);
  CHECK(d.timeline->notes(0) ==
        std::vector<std::string>{"timeline.pftrace shows 512 requests at once: 2 are left out"});
}

}  // namespace test_timeline_drawing
