#include "sim/timeline/reader.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "decode_timeline.hpp"
#include "sim/base/random.hpp"
#include "sim/timeline/timeline.hpp"
#include "timeline_file.hpp"

namespace test_timeline_reader {

using namespace orrery::sim;
namespace timeline = orrery::timeline;
using timeline::TrackEvent;
using File = orrery::test::TimelineFile;

namespace {

/// A file with these packets, uncompressed: the viewer takes them so as well.
void write(const File& file, const timeline::Trace& trace) {
  std::ofstream(file.path, std::ios::binary) << trace.SerializeAsString();
}
/// A group, a track of slices and a counter, numbers 1 to 3.
timeline::Trace described() {
  timeline::Trace trace;
  auto* group = trace.add_packet();
  group->set_trusted_packet_sequence_id(1);
  group->set_sequence_flags(1);
  group->mutable_track_descriptor()->set_uuid(1);
  group->mutable_track_descriptor()->mutable_process()->set_pid(1);
  group->mutable_track_descriptor()->mutable_process()->set_process_name("g");
  auto* track = trace.add_packet();
  track->set_trusted_packet_sequence_id(1);
  track->mutable_track_descriptor()->set_uuid(2);
  track->mutable_track_descriptor()->set_parent_uuid(1);
  track->mutable_track_descriptor()->mutable_thread()->set_pid(1);
  track->mutable_track_descriptor()->mutable_thread()->set_tid(2);
  track->mutable_track_descriptor()->mutable_thread()->set_thread_name("t");
  auto* counter = trace.add_packet();
  counter->set_trusted_packet_sequence_id(1);
  counter->mutable_track_descriptor()->set_uuid(3);
  counter->mutable_track_descriptor()->set_parent_uuid(1);
  counter->mutable_track_descriptor()->set_name("c");
  counter->mutable_track_descriptor()->mutable_counter()->set_unit_name("B");
  return trace;
}
TrackEvent& add(timeline::Trace& trace, std::uint64_t at, TrackEvent::Type type, std::uint64_t track = 2) {
  auto* packet = trace.add_packet();
  packet->set_trusted_packet_sequence_id(1);
  packet->set_timestamp(at);
  packet->mutable_track_event()->set_type(type);
  packet->mutable_track_event()->set_track_uuid(track);
  if (type == TrackEvent::SLICE_BEGIN || type == TrackEvent::INSTANT) packet->mutable_track_event()->set_name("s");
  return *packet->mutable_track_event();
}
std::string faults_of(const timeline::Trace& trace) {
  const File file;
  write(file, trace);
  std::string all;
  for (const std::string& fault : read_timeline(file.path).faults) all += fault + "\n";
  return all;
}

}  // namespace

TEST_CASE("a timeline reads back as it was drawn", "[unit]") {
  const File file;
  {
    TimelineWriter writer(file.path);
    const TrackId group = writer.group("replica 0");
    const TrackId track = writer.track(group, "iterations");
    const TrackId level = writer.counter(group, "running", "sequences");
    const std::uint64_t flow = writer.new_flow();
    // The outer slice first, and the second before the first's time: the viewer sorts.
    writer.slice(track, 500, 900, "late");
    writer.slice(track, 100, 400, "outer", {{"tokens", -7}, {"more", 8}}, {flow});
    writer.slice(track, 100, 200, "inner", {}, {flow, true});
    writer.instant(track, 150, "mark");
    writer.count(level, 100, 2.5);
    writer.close();
  }
  const Timeline read = read_timeline(file.path);
  CHECK(read.faults.empty());
  REQUIRE(read.tracks.size() == 3);
  CHECK(read.tracks[1].group == 0);
  CHECK(read.tracks[2].unit == "sequences");
  REQUIRE(read.slices.size() == 4);
  const auto name = [&](std::size_t i) { return read.names[read.slices[i].name]; };
  CHECK(name(0) == "outer");
  CHECK(name(1) == "inner");
  CHECK(name(2) == "mark");
  CHECK(name(3) == "late");
  CHECK(read.slices[0].end_ns == 400);
  CHECK(read.slices[1].depth == 1);
  CHECK(read.slices[1].parent == 0);
  CHECK(read.slices[1].end_ns == 200);
  CHECK(read.slices[2].instant);
  CHECK(read.slices[2].depth == 2);
  CHECK(read.slices[3].depth == 0);
  REQUIRE(read.arguments_of(read.slices[0]).size() == 2);
  CHECK(read.arguments_of(read.slices[0])[0].value == -7);
  CHECK(read.names[read.arguments_of(read.slices[0])[1].name] == "more");
  REQUIRE(read.values.size() == 1);
  CHECK(read.values[0].value == 2.5);
  REQUIRE(read.arrows.size() == 1);
  CHECK(read.arrows[0].from == 0);
  CHECK(read.arrows[0].to == 1);
}

TEST_CASE("a reader agrees with protobuf on every packet", "[prop]") {
  const File file;
  RandomStream random(5, "timelines");
  {
    TimelineWriter writer(file.path);
    std::vector<TrackId> tracks, counters;
    for (int g = 0; g < 3; ++g) {
      const TrackId group = writer.group("g" + std::to_string(g));
      for (int t = 0; t < 3; ++t) tracks.push_back(writer.track(group, "t" + std::to_string(t)));
      counters.push_back(writer.counter(group, "c", "1"));
    }
    std::int64_t at = 0;
    for (int i = 0; i < 20'000; ++i) {
      at += random.integer(1, 50);
      const TrackId track = tracks[static_cast<std::size_t>(random.integer(0, 8))];
      const std::string name = "n" + std::to_string(random.integer(0, 6000));  // more than are kept by number
      const TimelineFlow flow{.id = i % 7 == 0 ? writer.new_flow() : 0, .last = false};
      writer.slice(track, at, at + random.integer(0, 40), name, {{"a", random.integer(-5, 5)}, {name, i}}, flow);
      if (flow.id != 0) writer.instant(track, at + 100'000'000, "end", {}, {flow.id, true});
      if (i % 5 == 0) writer.count(counters[static_cast<std::size_t>(i % 3)], at, random.uniform());
    }
    writer.close();
  }
  const timeline::Trace trace = orrery::test::decode_timeline(file.path);
  const Timeline read = read_timeline(file.path);
  CHECK(read.packets == trace.packet_size());
  using Row = std::tuple<std::int64_t, std::uint64_t, std::string, std::vector<std::pair<std::string, std::int64_t>>>;
  std::vector<Row> expected, found;
  std::map<std::uint64_t, std::vector<std::pair<std::int64_t, double>>> levels, found_levels;
  for (const timeline::TracePacket& packet : trace.packet()) {
    if (!packet.has_track_event()) continue;
    const TrackEvent& event = packet.track_event();
    const auto time = static_cast<std::int64_t>(packet.timestamp());
    if (event.type() == TrackEvent::COUNTER)
      levels[event.track_uuid()].emplace_back(time, event.double_counter_value());
    if (event.type() != TrackEvent::SLICE_BEGIN && event.type() != TrackEvent::INSTANT) continue;
    Row row{time, event.track_uuid(), event.name(), {}};
    for (const auto& a : event.debug_annotations()) std::get<3>(row).emplace_back(a.name(), a.int_value());
    expected.push_back(std::move(row));
  }
  for (const Timeline::Slice& slice : read.slices) {
    Row row{slice.begin_ns, read.tracks[slice.track].uuid, read.names[slice.name], {}};
    for (const auto& a : read.arguments_of(slice)) std::get<3>(row).emplace_back(read.names[a.name], a.value);
    found.push_back(std::move(row));
  }
  for (const Timeline::Value& v : read.values) found_levels[read.tracks[v.track].uuid].emplace_back(v.at_ns, v.value);
  std::stable_sort(expected.begin(), expected.end(),
                   [](const Row& a, const Row& b) { return std::get<0>(a) < std::get<0>(b); });
  CHECK((found == expected));
  CHECK((found_levels == levels));
  CHECK(read.arrows.size() == (20'000 + 6) / 7);
}

TEST_CASE("what the viewer would misread is a fault", "[unit]") {
  CHECK(faults_of(described()).empty());
  auto trace = described();
  add(trace, 5, TrackEvent::SLICE_BEGIN);
  CHECK_THAT(faults_of(trace), Catch::Contains("the slice 's' at 5 ns has no end"));
  trace = described();
  add(trace, 5, TrackEvent::SLICE_END);
  CHECK_THAT(faults_of(trace), Catch::Contains("at 5 ns: an end without a slice"));
  trace = described();
  add(trace, 5, TrackEvent::INSTANT, 9);
  CHECK_THAT(faults_of(trace), Catch::Contains("track 9 is unknown"));
  trace = described();
  add(trace, 5, TrackEvent::INSTANT, 3);
  CHECK_THAT(faults_of(trace), Catch::Contains("does not suit track 3"));
  trace = described();
  add(trace, 5, TrackEvent::INSTANT).set_name_iid(4);
  trace.mutable_packet(3)->mutable_track_event()->clear_name();
  CHECK_THAT(faults_of(trace), Catch::Contains("name 4 was never given"));
  trace = described();
  add(trace, 5, TrackEvent::COUNTER, 3);
  CHECK_THAT(faults_of(trace), Catch::Contains("a counter without a value"));
  trace = described();
  add(trace, 5, TrackEvent::COUNTER, 3).set_double_counter_value(1);
  add(trace, 4, TrackEvent::COUNTER, 3).set_counter_value(1);
  CHECK_THAT(faults_of(trace), Catch::Contains("time runs backwards at 4 ns"));
  trace = described();
  trace.mutable_packet(2)->mutable_track_descriptor()->mutable_counter()->clear_unit_name();
  CHECK_THAT(faults_of(trace), Catch::Contains("counter c: it has no unit"));
  trace = described();
  trace.mutable_packet(2)->mutable_track_descriptor()->set_parent_uuid(7);
  CHECK_THAT(faults_of(trace), Catch::Contains("track c: its group 7 is not one"));
  trace = described();
  trace.mutable_packet(2)->mutable_track_descriptor()->set_uuid(2);
  CHECK_THAT(faults_of(trace), Catch::Contains("track 2: described twice"));
  trace = described();
  trace.mutable_packet(1)->clear_trusted_packet_sequence_id();
  CHECK_THAT(faults_of(trace), Catch::Contains("it names no sequence"));
}

TEST_CASE("names by number are looked up only by packets that say that they need them", "[unit]") {
  for (const bool needs : {true, false}) {
    auto trace = described();
    add(trace, 5, TrackEvent::INSTANT).set_name_iid(4);
    auto& packet = *trace.mutable_packet(3);
    packet.mutable_track_event()->clear_name();
    auto& name = *packet.mutable_interned_data()->add_event_names();
    name.set_iid(4);
    name.set_name("four");
    if (needs) packet.set_sequence_flags(2);
    if (needs) {
      CHECK(faults_of(trace).empty());
    } else {
      CHECK_THAT(faults_of(trace), Catch::Contains("name 4"));
    }
  }
}

TEST_CASE("fields of an event may come in any order", "[unit]") {
  // The type before the argument, where protobuf writes it after.
  TrackEvent first, argument;
  first.set_type(TrackEvent::INSTANT);
  first.set_track_uuid(2);
  first.set_name("s");
  auto& value = *argument.add_debug_annotations();
  value.set_name("bytes");
  value.set_int_value(7);
  const std::string event = first.SerializeAsString() + argument.SerializeAsString();
  timeline::TracePacket packet;
  packet.set_trusted_packet_sequence_id(1);
  packet.set_timestamp(5);
  const auto nested = [](char key, const std::string& bytes) {  // a field of fewer than 128 bytes
    return std::string{key, static_cast<char>(bytes.size())} + bytes;
  };
  const File file;
  std::ofstream(file.path, std::ios::binary)
      << described().SerializeAsString() + nested(0x0a, packet.SerializeAsString() + nested(0x5a, event));
  const auto read = read_timeline(file.path);
  CHECK(read.faults.empty());
  REQUIRE(read.slices.size() == 1);
  CHECK(read.arguments_of(read.slices[0]).size() == 1);
}

TEST_CASE("arrows begin and end", "[unit]") {
  auto trace = described();
  add(trace, 5, TrackEvent::INSTANT).add_flow_ids(1);
  CHECK_THAT(faults_of(trace),
             Catch::Contains("flow 1: it goes from one event to nowhere") && Catch::Contains("flow 1: it has no end"));
  add(trace, 6, TrackEvent::INSTANT).add_terminating_flow_ids(1);
  CHECK(faults_of(trace).empty());
  add(trace, 7, TrackEvent::INSTANT).add_terminating_flow_ids(1);
  CHECK_THAT(faults_of(trace), Catch::Contains("flow 1: it goes on after its end"));
}

TEST_CASE("fields that are not ours are told", "[unit]") {
  const File file;
  timeline::Trace trace = described();
  std::string bytes = trace.SerializeAsString();
  // A packet with a field 99 (99 << 3 | 0 = 792: 0x98 0x06) and a sequence.
  bytes += std::string("\x0a\x05\x50\x01\x98\x06\x07", 7);
  std::ofstream(file.path, std::ios::binary) << bytes;
  const Timeline read = read_timeline(file.path);
  REQUIRE(read.faults.size() == 1);
  CHECK_THAT(read.faults[0], Catch::Contains("TracePacket has a field 99"));
}

TEST_CASE("a file that is no timeline is refused", "[unit]") {
  CHECK_THROWS_WITH(read_timeline("/no/such.pftrace"), Catch::Contains("/no/such.pftrace: expected a timeline"));
  CHECK_THROWS_WITH(read_timeline("/"), Catch::Contains("/: expected a timeline"));
  const File file;
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(file.path, std::ios::binary) << bytes;
    CHECK_THROWS_WITH(read_timeline(file.path), Catch::Contains("not a whole timeline"));
  };
  refused("id,arrived_s\n1,2\n");
  refused(described().SerializeAsString().substr(0, 20));
  timeline::Trace packed;
  packed.add_packet()->set_compressed_packets("not zlib");
  refused(packed.SerializeAsString());
  refused(std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12));
  // Field 1 + 2^29, whose key has the lowest 32 bits of field 1's.
  refused(std::string("\x8a\x80\x80\x80\x10\x00", 6));
}

/// What holds of every timeline that is handed out: numbers point at what there is, and slices lie inside their
/// parents.
void check_whole(const Timeline& timeline) {
  const auto track_of = [&](std::uint32_t track, Timeline::Kind kind) {
    return track < timeline.tracks.size() && timeline.tracks[track].kind == kind;
  };
  const auto slices = std::ssize(timeline.slices);
  for (const Timeline::Track& track : timeline.tracks)
    CHECK((track.group == Timeline::kNone || track_of(track.group, Timeline::Kind::group)));
  for (const Timeline::Slice& slice : timeline.slices) {
    CHECK(track_of(slice.track, Timeline::Kind::slices));
    CHECK(slice.name < timeline.names.size());
    CHECK(slice.begin_ns <= slice.end_ns);
    CHECK(std::uint64_t{slice.first_argument} + slice.arguments <= timeline.arguments.size());
    CHECK((slice.parent == Timeline::kNone) == (slice.depth == 0));
    if (slice.parent == Timeline::kNone) continue;
    REQUIRE(slice.parent < slices);
    const Timeline::Slice& around = timeline.slices[slice.parent];
    CHECK((around.track == slice.track && around.depth + 1 == slice.depth && around.begin_ns <= slice.begin_ns &&
           slice.end_ns <= around.end_ns));
  }
  for (const Timeline::Argument& argument : timeline.arguments) CHECK(argument.name < timeline.names.size());
  for (const Timeline::Value& value : timeline.values) {
    REQUIRE(value.track < timeline.tracks.size());
    // What says that a track is a counter may be what was cut.
    CHECK((track_of(value.track, Timeline::Kind::counter) || !timeline.faults.empty()));
  }
  for (const Timeline::Arrow& arrow : timeline.arrows) CHECK((arrow.from < slices && arrow.to < slices));
  CHECK(timeline.faults.size() <= 100);
}

TEST_CASE("a file with cut and flipped bits is refused by name or read with every number in place", "[prop]") {
  const File file;
  {
    TimelineWriter writer(file.path);
    const TrackId group = writer.group("g"), track = writer.track(group, "t");
    const TrackId counter = writer.counter(group, "c", "tokens");
    for (int i = 0; i < 50; ++i) {
      writer.slice(track, 10 * i, 10 * i + 5, "s", {{"i", i}});
      writer.count(counter, 10 * i, i);
    }
    writer.close();
  }
  std::ifstream written(file.path, std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(written), {}};
  const std::string plain = orrery::test::decode_timeline(file.path).SerializeAsString();
  RandomStream random(1, "bits");
  for (const auto& [whole, checked] : {std::pair(plain, false), std::pair(packed, true)}) {
    std::int64_t refused = 0, read = 0;
    for (int i = 0; i < 400; ++i) {
      const bool cut = random.bernoulli(0.5);
      std::string bytes = cut ? whole.substr(0, static_cast<std::size_t>(random.integer(1, std::ssize(whole)))) : whole;
      const auto at = static_cast<std::size_t>(random.integer(0, std::ssize(bytes) - 1));
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.integer(0, 7)));
      std::ofstream(file.path, std::ios::binary) << bytes;
      try {
        const Timeline timeline = read_timeline(file.path);
        check_whole(timeline);
        if (!checked || timeline.faults.empty()) ++read;
      } catch (const std::runtime_error& error) {
        CHECK_THAT(error.what(), Catch::StartsWith(file.path.string() + ": "));
        ++refused;
      }
    }
    CHECK(refused > 100);           // a cut falls inside a packet or a block, nearly always
    CHECK((read > 0) == !checked);  // a compressed block has a checksum, and what is around it is known
  }
}

}  // namespace test_timeline_reader
