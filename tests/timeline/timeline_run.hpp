// Whole runs and their timelines, checked for what holds in each: a file that the viewer reads without a doubt.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "sim/base/document.hpp"
#include "sim/base/random.hpp"
#include "sim/timeline/reader.hpp"
#include "tests/experiments/support.hpp"
#include "tests/sim/decode_timeline.hpp"
#include "tests/systems.hpp"

namespace orrery::experiments::test {

using sim::Timeline;

struct TimelineRun {
  fs::path folder;
  Outcome outcome;
  Timeline timeline;

  double number(std::string_view path) const { return outcome.summary.at(path)->as_number(); }
  const std::string& track(const Timeline::Slice& slice) const { return timeline.tracks[slice.track].name; }
  const std::string& group(const Timeline::Slice& slice) const {
    return timeline.tracks[timeline.tracks[slice.track].group].name;
  }
  const std::string& name(const Timeline::Slice& slice) const { return timeline.names[slice.name]; }
  /// Slices and instants of all tracks whose name begins so.
  std::vector<const Timeline::Slice*> on(std::string_view prefix) const {
    std::vector<const Timeline::Slice*> found;
    for (const Timeline::Slice& slice : timeline.slices)
      if (track(slice).starts_with(prefix)) found.push_back(&slice);
    return found;
  }
  std::int64_t argument(const Timeline::Slice& slice, std::string_view wanted) const {
    for (const Timeline::Argument& argument : timeline.arguments_of(slice))
      if (timeline.names[argument.name] == wanted) return argument.value;
    FAIL(std::string("no argument ") + std::string(wanted));
    return 0;
  }
  /// Values of a counter, by group.
  std::map<std::string, std::vector<Timeline::Value>> counter(std::string_view wanted) const {
    std::map<std::string, std::vector<Timeline::Value>> found;
    for (const Timeline::Value& value : timeline.values)
      if (timeline.tracks[value.track].name == wanted)
        found[timeline.tracks[timeline.tracks[value.track].group].name].push_back(value);
    return found;
  }
};

/// Whole nanoseconds of a cell of requests.csv, rounded down as the timeline does.
inline std::int64_t ns_of(const std::string& seconds) {
  const std::size_t dot = std::min(seconds.find('.'), seconds.size());
  std::string digits = dot < seconds.size() ? seconds.substr(dot + 1, 9) : "";
  digits.resize(9, '0');
  return std::stoll(seconds.substr(0, dot)) * 1'000'000'000 + std::stoll(digits);
}

/// Every message of a file by protobuf: no field is unknown, and every track has its own number.
inline void check_packets(const fs::path& path, const Timeline& read) {
  const timeline::Trace trace = orrery::test::decode_timeline(path);
  CHECK(trace.unknown_fields().empty());
  CHECK(trace.packet_size() == read.packets);
  std::size_t unknown = 0, slices = 0, values = 0, tracks = 0;
  for (const timeline::TracePacket& packet : trace.packet()) {
    unknown += packet.unknown_fields().size() + packet.track_event().unknown_fields().size() +
               packet.track_descriptor().unknown_fields().size() + packet.interned_data().unknown_fields().size();
    tracks += packet.has_track_descriptor() ? 1 : 0;
    const auto type = packet.track_event().type();
    slices += type == timeline::TrackEvent::SLICE_BEGIN || type == timeline::TrackEvent::INSTANT ? 1 : 0;
    values += type == timeline::TrackEvent::COUNTER ? 1 : 0;
  }
  CHECK(unknown == 0);
  CHECK(tracks == read.tracks.size());
  CHECK(slices == read.slices.size());
  CHECK(values == read.values.size());
}

/// Slices inside another end with it at the latest, and are on its track.
inline void check_nesting(const Timeline& timeline) {
  for (const Timeline::Slice& slice : timeline.slices) {
    if (slice.parent == Timeline::kNone) continue;
    const Timeline::Slice& parent = timeline.slices[slice.parent];
    if (slice.track != parent.track || slice.begin_ns < parent.begin_ns || slice.end_ns > parent.end_ns ||
        slice.depth != parent.depth + 1)
      FAIL_CHECK("a slice does not lie in its parent");
  }
  for (const Timeline::Arrow& arrow : timeline.arrows)
    if (timeline.slices[arrow.from].begin_ns > timeline.slices[arrow.to].begin_ns)
      FAIL_CHECK("an arrow goes back in time");
}

/// Runs a config and reads its timeline. Checks all that must hold whatever the run.
inline TimelineRun run_timeline(const Scratch& scratch, const std::string& config,
                                const std::vector<std::string>& assignments = {}, const std::string& name = "run") {
  scratch.write("c.json", config);
  TimelineRun run;
  run.folder = scratch / name;
  fs::create_directory(run.folder);
  run.outcome =
      read_experiment(test_systems(), scratch / "c.json", assignments)->run({.folder = run.folder, .progress = {}});
  const fs::path path = run.folder / "timeline.pftrace";
  run.timeline = sim::read_timeline(path);
  CHECK(run.timeline.faults == std::vector<std::string>{});
  check_packets(path, run.timeline);
  check_nesting(run.timeline);
  return run;
}

/// Requests at random, in bursts.
inline std::string busy_trace(int requests, double mean_gap_s, int prompt_most, int output_most) {
  std::string trace = "arrived_s,prompt_tokens,output_tokens\n";
  sim::RandomStream random(12, "trace");
  double at = 0;
  for (int i = 0; i < requests; ++i) {
    at += random.exponential(mean_gap_s);
    trace += fmt::format("{},{},{}\n", at, 20 + random.integer(0, prompt_most), 1 + random.integer(0, output_most));
  }
  return trace;
}

/// What must hold of the requests of any serving run that shows all of them: one slice each as in requests.csv, phases
/// without a gap in it, and an arrow from it to the iteration that ended it.
inline void check_requests(const TimelineRun& run) {
  std::map<std::int64_t, const Timeline::Slice*> slices;
  std::map<std::uint32_t, std::vector<const Timeline::Slice*>> phases;
  for (const Timeline::Slice* slice : run.on("slot ")) {
    if (slice->depth == 0) {
      CHECK(slices.emplace(run.argument(*slice, "request"), slice).second);
    } else {
      phases[slice->parent].push_back(slice);
    }
  }
  std::map<std::uint32_t, std::uint64_t> flow_of;  // by slice that it begins at or passes
  std::map<std::uint64_t, std::uint32_t> last_of;
  for (const Timeline::Arrow& arrow : run.timeline.arrows) {
    flow_of.try_emplace(arrow.from, arrow.id);
    last_of[arrow.id] = arrow.to;  // by time
  }
  std::map<std::int64_t, const Timeline::Slice*> arrivals;
  for (const Timeline::Slice* instant : run.on("arrivals"))
    CHECK(arrivals.emplace(run.argument(*instant, "request"), instant).second);
  std::size_t completed = 0;
  for (const Row& row : read_csv(run.folder / "requests.csv")) {
    if (row.at("status") != "completed") continue;
    ++completed;
    const auto at = slices.find(std::stoll(row.at("id")));
    REQUIRE(at != slices.end());
    const Timeline::Slice& slice = *at->second;
    CHECK(slice.begin_ns == ns_of(row.at("arrived_s")));
    CHECK(slice.end_ns == ns_of(row.at("finished_s")));
    CHECK(run.argument(slice, "preemptions") == std::stoll(row.at("preemptions")));
    const auto number = static_cast<std::uint32_t>(&slice - run.timeline.slices.data());
    std::int64_t until = slice.begin_ns;
    std::int64_t first_prefill = -1;
    bool first_token = false;  // a prefill ends with it
    for (const Timeline::Slice* phase : phases[number]) {
      CHECK(phase->begin_ns == until);
      until = phase->end_ns;
      if (run.name(*phase) == "prefill" && first_prefill < 0) first_prefill = phase->begin_ns;
      first_token |= run.name(*phase) == "prefill" && until == ns_of(row.at("first_token_s"));
    }
    CHECK(until == slice.end_ns);
    CHECK(first_prefill == ns_of(row.at("admitted_s")));
    CHECK(first_token);
    const Timeline::Slice& arrival = *arrivals.at(std::stoll(row.at("id")));
    CHECK(arrival.begin_ns == slice.begin_ns);
    const std::uint64_t flow = flow_of.at(static_cast<std::uint32_t>(&arrival - run.timeline.slices.data()));
    // It passes the request itself where that waited.
    if (first_prefill > slice.begin_ns) CHECK(flow_of.at(number) == flow);
    const Timeline::Slice& end = run.timeline.slices[last_of.at(flow)];
    CHECK(run.track(end) == "iterations");
    CHECK(end.end_ns == slice.end_ns);
  }
  CHECK(static_cast<double>(completed) == run.number("requests.completed"));
}

/// Iterations by group, and their summed length.
inline std::map<std::string, double> busy_seconds(const TimelineRun& run) {
  std::map<std::string, double> busy;
  for (const Timeline::Slice* slice : run.on("iterations"))
    busy[run.group(*slice)] += static_cast<double>(slice->end_ns - slice->begin_ns) * 1e-9;
  return busy;
}

}  // namespace orrery::experiments::test
