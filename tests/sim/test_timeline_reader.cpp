#include "sim/timeline/reader.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <tuple>
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

namespace {

/// A field of bytes (fewer than 128) by its number.
std::string field(unsigned number, const std::string& bytes) {
  std::string out;
  for (unsigned key = number << 3 | 2; key > 0; key >>= 7)
    out += static_cast<char>((key & 0x7f) | (key > 0x7f ? 0x80 : 0));
  return out + static_cast<char>(bytes.size()) + bytes;
}
std::string packet(const std::string& fields) {
  return field(1, "\x50\x01" + fields);  // of sequence 1
}
Timeline read_bytes(const std::string& bytes) {
  const File file;
  std::ofstream(file.path, std::ios::binary) << bytes;
  return read_timeline(file.path);
}
Timeline read_trace(const timeline::Trace& trace) {
  return read_bytes(trace.SerializeAsString());
}
/// The faults of these bytes behind a described group, track and counter: three packets.
std::string faults_behind(const std::string& bytes) {
  std::string all;
  for (const std::string& fault : read_bytes(described().SerializeAsString() + bytes).faults) all += fault + "\n";
  return all;
}
/// A packet with a name by number, of a sequence.
timeline::TracePacket& named(timeline::Trace& trace, std::uint64_t number, std::uint32_t sequence,
                             std::uint32_t flags) {
  add(trace, 5, TrackEvent::INSTANT).set_name_iid(number);
  timeline::TracePacket& last = *trace.mutable_packet(trace.packet_size() - 1);
  last.mutable_track_event()->clear_name();
  last.set_trusted_packet_sequence_id(sequence);
  if (flags != 0) last.set_sequence_flags(flags);
  return last;
}
void give_name(timeline::TracePacket& to, std::uint64_t number, const std::string& name) {
  auto& entry = *to.mutable_interned_data()->add_event_names();
  entry.set_iid(number);
  entry.set_name(name);
}

}  // namespace

TEST_CASE("faults of a timeline, word by word", "[unit]") {
  auto trace = described();
  add(trace, 5, TrackEvent::SLICE_BEGIN);
  CHECK(faults_of(trace) == "track t: the slice 's' at 5 ns has no end\n");
  trace = described();
  add(trace, 5, TrackEvent::SLICE_END);
  CHECK(faults_of(trace) == "track t at 5 ns: an end without a slice\n");
  trace = described();
  add(trace, 5, TrackEvent::INSTANT, 9);
  CHECK(faults_of(trace) == "packet 4: track 9 is unknown\n");
  for (const std::uint64_t track : {1, 3}) {
    trace = described();
    add(trace, 5, TrackEvent::INSTANT, track);
    CHECK(faults_of(trace) == "packet 4: the event does not suit track " + std::to_string(track) + "\n");
  }
  trace = described();
  add(trace, 5, TrackEvent::COUNTER, 2).set_counter_value(1);
  CHECK(faults_of(trace) == "packet 4: the event does not suit track 2\n");
  trace = described();
  add(trace, 5, TrackEvent::COUNTER, 3);
  CHECK(faults_of(trace) == "packet 4: a counter without a value\n");
  trace = described();
  add(trace, 5, TrackEvent::UNSPECIFIED);
  CHECK(faults_of(trace) == "packet 4: an event of type 0\n");
  CHECK(faults_behind(packet(field(11, "\x48\x05\x58\x02"))) == "packet 4: an event of type 5\n");
  trace = described();
  add(trace, 5, TrackEvent::COUNTER, 3).set_double_counter_value(1);
  add(trace, 5, TrackEvent::COUNTER, 3).set_counter_value(2);
  CHECK(faults_of(trace).empty());
  add(trace, 4, TrackEvent::COUNTER, 3).set_counter_value(1);
  add(trace, 4, TrackEvent::COUNTER, 3).set_counter_value(1);  // not before the one before it
  CHECK(faults_of(trace) == "counter c: time runs backwards at 4 ns\n");
  trace = described();
  auto& argument = *add(trace, 5, TrackEvent::INSTANT).add_debug_annotations();
  argument.set_int_value(3);
  CHECK(faults_of(trace) == "packet 4: an argument has no name\n");
  argument.set_name_iid(6);
  CHECK(faults_of(trace) == "packet 4: name 6 was never given\n");
}

TEST_CASE("faults of descriptions, word by word", "[unit]") {
  const auto with = [](int index, const auto& change) {
    auto trace = described();
    change(*trace.mutable_packet(index)->mutable_track_descriptor());
    return faults_of(trace);
  };
  using Descriptor = timeline::TrackDescriptor;
  CHECK(with(2, [](Descriptor& d) { d.clear_name(); }) == "track 3: it has no name\n");
  CHECK(with(1, [](Descriptor& d) { d.mutable_thread()->clear_thread_name(); }) == "track 2: it has no name\n");
  CHECK(with(0, [](Descriptor& d) { d.mutable_process()->clear_process_name(); }) == "track 1: it has no name\n");
  CHECK(with(2, [](Descriptor& d) { d.mutable_counter()->clear_unit_name(); }) == "counter c: it has no unit\n");
  CHECK(with(2, [](Descriptor& d) { d.set_parent_uuid(7); }) == "track c: its group 7 is not one\n");
  CHECK(with(2, [](Descriptor& d) { d.set_parent_uuid(2); }) == "track c: its group 2 is not one\n");  // a track
  CHECK(with(1, [](Descriptor& d) { d.clear_parent_uuid(); }) == "track t: its group 0 is not one\n");
  CHECK(with(0, [](Descriptor& d) { d.set_parent_uuid(5); }).empty());  // of a group nobody knows
  CHECK(with(2, [](Descriptor& d) { d.clear_counter(); }) ==
        "track 3: it is not one of process, thread and counter\ntrack c: its group 1 is not one\n");
  CHECK(with(1, [](Descriptor& d) { d.mutable_process()->set_process_name("p"); }) ==
        "track 2: it is not one of process, thread and counter\n");
  auto trace = described();
  auto* inner = trace.add_packet();
  inner->set_trusted_packet_sequence_id(1);
  inner->mutable_track_descriptor()->set_uuid(4);
  inner->mutable_track_descriptor()->set_parent_uuid(1);
  inner->mutable_track_descriptor()->mutable_process()->set_process_name("inner");
  CHECK(faults_of(trace) == "track inner: its group 1 is not one\n");  // groups lie in none
  inner->mutable_track_descriptor()->set_uuid(3);
  CHECK_THAT(faults_of(trace), Catch::StartsWith("track 3: described twice\n"));
  trace = described();
  trace.mutable_packet(1)->clear_trusted_packet_sequence_id();
  CHECK(faults_of(trace) == "packet 2: it names no sequence\n");
}

TEST_CASE("a field that is not ours is told with its message, wherever it stands", "[unit]") {
  const std::string number("\x78\x07", 2);  // field 15, a number
  const auto told = [](const std::string& packet_number, const std::string& message, const std::string& field_number) {
    return "packet " + packet_number + ": " + message + " has a field " + field_number +
           " that a timeline of ours has not\n";
  };
  CHECK(faults_behind(number) == told("3", "Trace", "15"));
  CHECK(faults_behind(field(2, "x")) == told("3", "Trace", "2"));
  CHECK(faults_behind(packet(number)) == told("3", "TracePacket", "15"));        // the one before is counted
  CHECK(faults_behind(packet(field(8, "x"))) == told("3", "TracePacket", "8"));  // a number is wanted there
  const std::string instant("\x48\x03\x58\x02\xba\x01\x01s", 8);                 // type, track and name
  CHECK(faults_behind(packet(field(11, instant))).empty());
  CHECK(faults_behind(packet(field(11, instant + number))) == told("4", "TrackEvent", "15"));
  CHECK(faults_behind(packet(field(11, instant + field(4, field(10, "a") + number)))) ==
        told("4", "DebugAnnotation", "15"));
  CHECK(faults_behind(packet(field(12, number))) == told("4", "InternedData", "15"));
  CHECK(faults_behind(packet(field(12, field(2, number)))) == told("4", "EventName", "15"));
  CHECK(faults_behind(packet(field(12, field(3, number)))) == told("4", "EventName", "15"));
  // Uuid 4, parent 1, and a thread, a process or a counter.
  const std::string uuid("\x08\x04", 2), parent("\x28\x01", 2);
  const std::string thread = field(4, field(5, "u"));
  CHECK(faults_behind(packet(field(60, uuid + parent + thread))).empty());
  CHECK(faults_behind(packet(field(60, uuid + parent + thread + number))) == told("4", "TrackDescriptor", "15"));
  CHECK(faults_behind(packet(field(60, uuid + parent + field(4, field(5, "u") + "\x10\x03")))).empty());  // its tid
  CHECK(faults_behind(packet(field(60, uuid + parent + field(4, field(5, "u") + "\x18\x03")))) ==
        told("4", "ThreadDescriptor", "3"));
  CHECK(faults_behind(packet(field(60, uuid + field(3, field(6, "p") + "\x08\x03")))).empty());  // its pid
  CHECK(faults_behind(packet(field(60, uuid + field(3, field(6, "p") + "\x10\x03")))) ==
        told("4", "ProcessDescriptor", "2"));
  CHECK(faults_behind(packet(field(60, uuid + parent + field(2, "c") + field(8, field(6, "B") + "\x08\x03")))) ==
        told("4", "CounterDescriptor", "1"));
  CHECK(faults_behind(packet(field(60, uuid + parent + field(2, "c") + field(8, field(6, "B") + field(1, "x"))))) ==
        told("4", "CounterDescriptor", "1"));
}

TEST_CASE("names by number belong to their sequence, and go when it is cleared", "[unit]") {
  auto trace = described();
  give_name(named(trace, 4, 1, 2), 4, "one");
  give_name(named(trace, 4, 2, 3), 4, "two");  // cleared, and in need
  named(trace, 4, 1, 2);
  named(trace, 4, 2, 2);
  const Timeline read = read_trace(trace);
  CHECK(read.faults.empty());
  REQUIRE(read.slices.size() == 4);
  std::string all;
  for (const Timeline::Slice& slice : read.slices) all += read.names[slice.name] + " ";
  CHECK(all == "one two one two ");
  CHECK(read.packets == 7);
  // Sequence 3 was never cleared: what it gives is not looked up.
  give_name(named(trace, 4, 3, 2), 4, "three");
  CHECK(faults_of(trace) == "packet 8: name 4 was never given\n");
  trace.mutable_packet()->RemoveLast();
  give_name(named(trace, 4, 4, 1), 4, "four");  // cleared, and in no need
  CHECK(faults_of(trace) == "packet 8: name 4 was never given\n");
  trace.mutable_packet()->RemoveLast();
  named(trace, 4, 1, 3);  // cleared: gone
  CHECK(faults_of(trace) == "packet 8: name 4 was never given\n");
  trace.mutable_packet()->RemoveLast();
  give_name(named(trace, 4, 1, 3), 4, "new");  // cleared: may be given again
  CHECK(faults_of(trace).empty());
  trace.mutable_packet()->RemoveLast();
  give_name(named(trace, 4, 1, 2), 4, "again");
  CHECK(faults_of(trace) == "packet 8: name 4 is given twice\n");
}

TEST_CASE("names of events and of arguments are counted apart", "[unit]") {
  auto trace = described();
  timeline::TracePacket& given = named(trace, 4, 1, 2);
  give_name(given, 4, "event");
  auto& entry = *given.mutable_interned_data()->add_debug_annotation_names();
  entry.set_iid(4);
  entry.set_name("argument");
  auto& first = *given.mutable_track_event()->add_debug_annotations();
  first.set_name_iid(4);
  first.set_int_value(-3);
  const Timeline read = read_trace(trace);
  CHECK(read.faults.empty());
  REQUIRE(read.slices.size() == 1);
  CHECK(read.names[read.slices[0].name] == "event");
  REQUIRE(read.arguments_of(read.slices[0]).size() == 1);
  CHECK(read.names[read.arguments_of(read.slices[0])[0].name] == "argument");
  CHECK(read.arguments_of(read.slices[0])[0].value == -3);
  given.clear_sequence_flags();  // nothing is looked up
  CHECK(faults_of(trace) == "packet 4: name 4 was never given\npacket 4: name 4 was never given\n");
}

TEST_CASE("slices nest by time and then by their order in the file", "[unit]") {
  // Written: c 20-30, a 10-40, b 10-15, an instant at 12, then d from 50, which never ends, with an instant in it.
  auto trace = described();
  const auto begin = [&](std::uint64_t at, const char* name) {
    add(trace, at, TrackEvent::SLICE_BEGIN).set_name(name);
  };
  begin(20, "c");
  add(trace, 30, TrackEvent::SLICE_END);
  begin(10, "a");
  begin(10, "b");
  add(trace, 15, TrackEvent::SLICE_END);
  add(trace, 40, TrackEvent::SLICE_END);
  add(trace, 12, TrackEvent::INSTANT).set_name("i");
  begin(50, "d");
  add(trace, 55, TrackEvent::INSTANT).set_name("j");
  add(trace, 53, TrackEvent::INSTANT).set_name("k");
  const Timeline read = read_trace(trace);
  std::string all;
  for (const Timeline::Slice& slice : read.slices)
    all += read.names[slice.name] + " " + std::to_string(slice.begin_ns) + "-" + std::to_string(slice.end_ns) + " at " +
           std::to_string(slice.depth) +
           (slice.parent == Timeline::kNone ? "" : " in " + read.names[read.slices[slice.parent].name]) + "\n";
  CHECK(all ==
        "a 10-40 at 0\n"
        "b 10-15 at 1 in a\n"
        "i 12-12 at 2 in b\n"
        "c 20-30 at 1 in a\n"
        "d 50-55 at 0\n"  // to the last event of its track
        "k 53-53 at 1 in d\n"
        "j 55-55 at 1 in d\n");
  CHECK(read.faults == std::vector<std::string>{"track t: the slice 'd' at 50 ns has no end"});
}

TEST_CASE("tracks do not mix, and each slice knows its own", "[unit]") {
  auto trace = described();
  auto* second = trace.add_packet();
  second->set_trusted_packet_sequence_id(1);
  second->mutable_track_descriptor()->set_uuid(4);
  second->mutable_track_descriptor()->set_parent_uuid(1);
  second->mutable_track_descriptor()->mutable_thread()->set_thread_name("u");
  add(trace, 10, TrackEvent::SLICE_BEGIN, 4);
  add(trace, 12, TrackEvent::SLICE_BEGIN, 2);
  add(trace, 20, TrackEvent::SLICE_END, 4);
  add(trace, 22, TrackEvent::SLICE_END, 2);
  const Timeline read = read_trace(trace);
  CHECK(read.faults.empty());
  REQUIRE(read.tracks.size() == 4);
  CHECK(read.tracks[0].kind == Timeline::Kind::group);
  CHECK(read.tracks[0].group == Timeline::kNone);
  CHECK(read.tracks[0].name == "g");
  CHECK(read.tracks[1].kind == Timeline::Kind::slices);
  CHECK(read.tracks[2].kind == Timeline::Kind::counter);
  CHECK(read.tracks[3].uuid == 4);
  CHECK(read.tracks[3].group == 0);
  REQUIRE(read.slices.size() == 2);
  CHECK(read.slices[0].track == 3);
  CHECK(read.slices[0].end_ns == 20);
  CHECK(read.slices[0].depth == 0);
  CHECK(read.slices[1].track == 1);
  CHECK(read.slices[1].end_ns == 22);
  CHECK(read.slices[1].depth == 0);
}

TEST_CASE("arrows run in the order of time, however they were written", "[unit]") {
  // 7 goes 10 -> 20 -> 30, 3 goes 20 -> 30; the one that ends 7 stands first in the file.
  auto trace = described();
  add(trace, 30, TrackEvent::INSTANT).add_terminating_flow_ids(7);
  add(trace, 20, TrackEvent::INSTANT).add_flow_ids(7);
  add(trace, 10, TrackEvent::INSTANT).add_flow_ids(7);
  trace.mutable_packet(4)->mutable_track_event()->add_flow_ids(3);
  trace.mutable_packet(3)->mutable_track_event()->add_terminating_flow_ids(3);
  const Timeline read = read_trace(trace);
  CHECK(read.faults.empty());
  std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> arrows;
  for (const Timeline::Arrow& arrow : read.arrows) arrows.emplace_back(arrow.id, arrow.from, arrow.to);
  CHECK(arrows ==
        std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>>{{3, 1, 2}, {7, 0, 1}, {7, 1, 2}});
}

TEST_CASE("faults of arrows, word by word", "[unit]") {
  const auto faults = [](const std::vector<bool>& ends) {
    auto trace = described();
    std::uint64_t at = 5;
    for (const bool last : ends) {
      TrackEvent& event = add(trace, at++, TrackEvent::INSTANT);
      last ? event.add_terminating_flow_ids(9) : event.add_flow_ids(9);
    }
    return faults_of(trace);
  };
  CHECK(faults({false, true}).empty());
  CHECK(faults({false, false, true}).empty());
  CHECK(faults({true}) == "flow 9: it goes from one event to nowhere\n");
  CHECK(faults({false}) == "flow 9: it goes from one event to nowhere\nflow 9: it has no end\n");
  CHECK(faults({false, false}) == "flow 9: it has no end\n");
  CHECK(faults({false, true, true}) == "flow 9: it goes on after its end\n");
  CHECK(faults({true, true, true}) == "flow 9: it goes on after its end\nflow 9: it goes on after its end\n");
}

TEST_CASE("a hundred faults are told at most", "[unit]") {
  for (const int count : {99, 100, 101}) {
    auto trace = described();
    for (int i = 0; i < count; ++i) add(trace, static_cast<std::uint64_t>(i), TrackEvent::INSTANT, 9);
    const Timeline read = read_trace(trace);
    CHECK(read.faults.size() == static_cast<std::size_t>(std::min(count, 100)));
    CHECK(read.faults.back() == "packet " + std::to_string(3 + std::min(count, 100)) + ": track 9 is unknown");
  }
}

TEST_CASE("counters hold reals and whole numbers, in the order of the file", "[unit]") {
  auto trace = described();
  add(trace, 5, TrackEvent::COUNTER, 3).set_double_counter_value(0.25);
  add(trace, 6, TrackEvent::COUNTER, 3).set_counter_value(-4);
  const Timeline read = read_trace(trace);
  CHECK(read.faults.empty());
  REQUIRE(read.values.size() == 2);
  CHECK(read.values[0].at_ns == 5);
  CHECK(read.values[0].track == 2);
  CHECK(read.values[0].value == 0.25);
  CHECK(read.values[1].value == -4);
}

TEST_CASE("compressed blocks of any size are inflated, one in another is refused", "[unit]") {
  const auto packed = [](const timeline::Trace& trace) {
    const std::string plain = trace.SerializeAsString();
    std::string out(::compressBound(plain.size()), '\0');
    uLongf size = out.size();
    REQUIRE(::compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(plain.data()),
                       plain.size()) == Z_OK);
    timeline::Trace outer;
    outer.add_packet()->set_compressed_packets(out.substr(0, size));
    return outer;
  };
  auto trace = described();
  add(trace, 5, TrackEvent::INSTANT).set_name(std::string(3'000'000, 'n'));  // more than is made room for at once
  const Timeline read = read_trace(packed(trace));
  CHECK(read.faults.empty());
  CHECK(read.packets == 4);
  CHECK(read.names.at(read.slices.at(0).name) == std::string(3'000'000, 'n'));
  timeline::Trace two = packed(described());  // a small one behind it
  auto more = packed(trace);
  add(more, 7, TrackEvent::INSTANT);
  more.MergeFrom(packed([] {
    timeline::Trace later;
    add(later, 6, TrackEvent::INSTANT);
    return later;
  }()));
  CHECK(read_trace(more).slices.size() == 3);
  CHECK_THROWS_WITH(read_trace(packed(two)),
                    Catch::EndsWith("not a whole timeline: a compressed block lies in another one"));
  timeline::Trace cut = packed(trace);
  std::string bytes = cut.packet(0).compressed_packets();
  bytes.pop_back();
  cut.mutable_packet(0)->set_compressed_packets(bytes);
  CHECK_THROWS_WITH(read_trace(cut), Catch::EndsWith("not a whole timeline: a compressed block does not inflate"));
  CHECK(read_bytes("").packets == 0);
  CHECK(read_bytes("").faults.empty());
}

}  // namespace test_timeline_reader
