#include "sim/timeline/timeline.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "decode_timeline.hpp"
#include "sim/base/random.hpp"
#include "timeline_file.hpp"

namespace test_timeline {

using namespace orrery::sim;
namespace timeline = orrery::timeline;
using orrery::test::decode_timeline;
using timeline::TrackEvent;
using File = orrery::test::TimelineFile;

namespace {

/// Events of a type, in the order of the file.
std::vector<timeline::TracePacket> events(const timeline::Trace& trace, TrackEvent::Type type) {
  std::vector<timeline::TracePacket> found;
  for (const auto& packet : trace.packet())
    if (packet.has_track_event() && packet.track_event().type() == type) found.push_back(packet);
  return found;
}
std::map<std::string, std::int64_t> arguments(const timeline::TracePacket& packet) {
  std::map<std::string, std::int64_t> all;
  for (const auto& annotation : packet.track_event().debug_annotations())
    all[annotation.name()] = annotation.int_value();
  return all;
}
/// Resident memory in bytes.
std::size_t resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, pages = 0;
  file >> total >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("a timeline is a trace of descriptors, slices and counters", "[unit]") {
  const File file;
  {
    TimelineWriter writer(file.path);
    const TrackId group = writer.group("replica 0");
    const TrackId track = writer.track(group, "iterations");
    const TrackId counter = writer.counter(group, "running", "sequences");
    writer.slice(track, 1000, 3000, "prefill", {{"tokens", 512}});
    writer.count(counter, 1000, 2);
    writer.instant(track, 2000, "preempted", {{"tokens", 7}});
    writer.close();
  }
  int blocks = 0;
  const timeline::Trace trace = decode_timeline(file.path, &blocks);
  CHECK(blocks == 1);
  REQUIRE(trace.packet_size() == 7);
  CHECK(trace.packet(0).track_descriptor().process().process_name() == "replica 0");
  CHECK(trace.packet(1).track_descriptor().thread().thread_name() == "iterations");
  CHECK(trace.packet(1).track_descriptor().parent_uuid() == trace.packet(0).track_descriptor().uuid());
  CHECK(trace.packet(2).track_descriptor().counter().unit_name() == "sequences");
  const auto& begin = trace.packet(3);
  CHECK(begin.timestamp() == 1000);
  CHECK(begin.trusted_packet_sequence_id() != 0);
  CHECK(begin.track_event().type() == TrackEvent::SLICE_BEGIN);
  CHECK(begin.track_event().name() == "prefill");
  CHECK(arguments(begin).at("tokens") == 512);
  CHECK(trace.packet(4).timestamp() == 3000);
  CHECK(trace.packet(4).track_event().type() == TrackEvent::SLICE_END);
  CHECK(trace.packet(5).track_event().double_counter_value() == 2);
  CHECK(trace.packet(6).track_event().type() == TrackEvent::INSTANT);
  CHECK(trace.packet(6).track_event().name() == "preempted");
  CHECK(arguments(trace.packet(6)).at("tokens") == 7);
}

TEST_CASE("a timeline that cannot be written says so", "[unit]") {
  CHECK_THROWS_WITH(TimelineWriter("/no/such/folder/t.pftrace"), Catch::Contains("cannot be written"));
  TimelineWriter full("/dev/full");
  full.group("g");
  CHECK_THROWS_WITH(full.close(), Catch::Contains("could not be written in full"));
}

TEST_CASE("tracks belong to their own group, not to the latest", "[unit]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId a = writer.group("a");
  const TrackId b = writer.group("b");
  const TrackId late = writer.track(a, "late");
  writer.close();
  const timeline::Trace trace = decode_timeline(file.path);
  CHECK(trace.packet(2).track_descriptor().thread().pid() == trace.packet(0).track_descriptor().process().pid());
  CHECK(std::set<std::uint64_t>{a.uuid, b.uuid, late.uuid}.size() == 3);
}

TEST_CASE("names are written once", "[unit]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId track = writer.track(writer.group("g"), "t");
  for (int i = 0; i < 1000; ++i)
    writer.slice(track, i, i + 1, i % 2 == 0 ? "decode" : "prefill", {{"tokens", i}, {"context", 2 * i}});
  // More names than are kept: the further ones are written out and read back alike.
  for (int i = 0; i < 5000; ++i) writer.instant(track, 2000 + i, "request " + std::to_string(i));
  writer.close();
  const timeline::Trace trace = decode_timeline(file.path);
  int entries = 0, inlined = 0;
  for (const auto& packet : trace.packet()) {
    entries += packet.interned_data().event_names_size() + packet.interned_data().debug_annotation_names_size();
    inlined += packet.track_event().has_name() && !packet.track_event().has_name_iid() ? 1 : 0;
  }
  CHECK(entries == 4096 + 2);
  CHECK(inlined == 5000 + 2 - 4096);
  const auto begins = events(trace, TrackEvent::SLICE_BEGIN);
  CHECK(begins[7].track_event().name() == "prefill");
  CHECK(arguments(begins[7]).at("context") == 14);
  CHECK(events(trace, TrackEvent::INSTANT)[4999].track_event().name() == "request 4999");
}

TEST_CASE("arrows run through slices and instants and end", "[unit]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId group = writer.group("g");
  const TrackId a = writer.track(group, "a");
  const TrackId b = writer.track(group, "b");
  const std::uint64_t flow = writer.new_flow();
  CHECK(writer.new_flow() != flow);
  writer.slice(a, 0, 10, "send", {}, {flow});
  writer.instant(a, 12, "hop", {}, {flow});
  writer.slice(b, 15, 20, "receive", {}, {flow, true});
  writer.slice(b, 30, 40, "alone");
  writer.close();
  const timeline::Trace trace = decode_timeline(file.path);
  const auto begins = events(trace, TrackEvent::SLICE_BEGIN);
  REQUIRE(begins.size() == 3);
  CHECK(begins[0].track_event().flow_ids(0) == flow);
  CHECK(events(trace, TrackEvent::INSTANT)[0].track_event().flow_ids(0) == flow);
  CHECK(begins[1].track_event().flow_ids_size() == 0);
  CHECK(begins[1].track_event().terminating_flow_ids(0) == flow);
  CHECK(begins[2].track_event().flow_ids_size() + begins[2].track_event().terminating_flow_ids_size() == 0);
  for (const auto& end : events(trace, TrackEvent::SLICE_END)) CHECK(end.track_event().flow_ids_size() == 0);
}

TEST_CASE("a window clips slices and says what it left out", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.window = {100, 200}});
  const TrackId group = writer.group("g");
  const TrackId track = writer.track(group, "t");
  const TrackId level = writer.counter(group, "level", "1");
  const TrackId idle = writer.counter(group, "idle", "1");
  writer.slice(track, 0, 100, "before");
  writer.slice(track, 50, 150, "into");
  writer.slice(track, 120, 130, "inside");
  writer.slice(track, 100, 100, "empty at the border");
  writer.slice(track, 190, 900, "out of");
  writer.slice(track, 200, 210, "after");
  writer.instant(track, 99, "early");
  writer.instant(track, 199, "in time");
  writer.count(level, 10, 1);
  writer.count(level, 90, 2);
  writer.count(level, 110, 3);
  writer.count(level, 250, 4);
  writer.count(idle, 5, 8);
  writer.close();
  const timeline::Trace trace = decode_timeline(file.path);
  std::map<std::string, std::uint64_t> begins;
  std::vector<std::uint64_t> ends;
  for (const auto& packet : events(trace, TrackEvent::SLICE_BEGIN))
    begins[packet.track_event().name()] = packet.timestamp();
  for (const auto& packet : events(trace, TrackEvent::SLICE_END)) ends.push_back(packet.timestamp());
  CHECK(begins == std::map<std::string, std::uint64_t>{
                      {"into", 100}, {"inside", 120}, {"empty at the border", 100}, {"out of", 190}});
  CHECK(ends == std::vector<std::uint64_t>{150, 130, 100, 200});
  std::map<std::uint64_t, std::map<std::uint64_t, double>> values;
  for (const auto& packet : events(trace, TrackEvent::COUNTER))
    values[packet.track_event().track_uuid()][packet.timestamp()] = packet.track_event().double_counter_value();
  CHECK(values[level.uuid] == std::map<std::uint64_t, double>{{100, 2}, {110, 3}});
  CHECK(values[idle.uuid] == std::map<std::uint64_t, double>{{100, 8}});
  const auto instants = events(trace, TrackEvent::INSTANT);
  REQUIRE(instants.size() == 2);
  CHECK(instants[0].track_event().name() == "in time");
  CHECK_THAT(instants[1].track_event().name(), Catch::StartsWith("window"));
  // Two slices, an instant, three counter values before and one after.
  CHECK(arguments(instants[1]) ==
        std::map<std::string, std::int64_t>{{"begin_ns", 100}, {"end_ns", 200}, {"left_out", 7}});
}

TEST_CASE("sampled counters show the last value of each interval", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.counter_interval_ns = 100});
  const TrackId level = writer.counter(writer.group("g"), "level", "1");
  for (const auto& [at, value] : {std::pair{5, 1}, {50, 2}, {99, 3}, {100, 4}, {530, 5}, {540, 6}})
    writer.count(level, at, value);
  writer.close();
  std::vector<std::pair<std::uint64_t, double>> values;
  const timeline::Trace trace = decode_timeline(file.path);
  for (const auto& packet : events(trace, TrackEvent::COUNTER))
    values.emplace_back(packet.timestamp(), packet.track_event().double_counter_value());
  CHECK(values == std::vector<std::pair<std::uint64_t, double>>{{99, 3}, {100, 4}, {540, 6}});
  const auto instants = events(trace, TrackEvent::INSTANT);
  REQUIRE(instants.size() == 1);
  CHECK(arguments(instants[0]).at("left_out") == 3);
}

TEST_CASE("a full timeline stops and says so", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.max_events = 10});
  const TrackId track = writer.track(writer.group("g"), "t");
  for (int i = 0; i < 25; ++i) writer.slice(track, 10 * i, 10 * i + 5, "s");
  CHECK(writer.left_out() == 15);
  writer.close();
  const timeline::Trace trace = decode_timeline(file.path);
  CHECK(events(trace, TrackEvent::SLICE_BEGIN).size() == 10);
  CHECK(events(trace, TrackEvent::SLICE_END).size() == 10);
  const auto instants = events(trace, TrackEvent::INSTANT);
  REQUIRE(instants.size() == 1);
  CHECK(instants[0].timestamp() == 100);
  CHECK(arguments(instants[0]) == std::map<std::string, std::int64_t>{{"shown", 10}, {"left_out", 15}});
}

TEST_CASE("the note of a full timeline lies at the earliest event left out", "[unit]") {
  // One event is shown. The value of 5 waits for the end of its interval and finds the timeline full at the end, after
  // an instant at 2000 was left out.
  const File file;
  TimelineWriter writer(file.path, {.counter_interval_ns = 10, .max_events = 1});
  const TrackId group = writer.group("g");
  const TrackId track = writer.track(group, "t");
  writer.count(writer.counter(group, "level", "1"), 5, 1);
  writer.instant(track, 1000, "shown");
  writer.instant(track, 2000, "left out");
  writer.close();
  CHECK(writer.left_out() == 2);
  const timeline::Trace trace = decode_timeline(file.path);
  CHECK(events(trace, TrackEvent::COUNTER).empty());
  const auto instants = events(trace, TrackEvent::INSTANT);
  REQUIRE(instants.size() == 3);  // shown, the note of sampled counters, and of the cap
  CHECK(instants[2].timestamp() == 5);
  CHECK(arguments(instants[2]) == std::map<std::string, std::int64_t>{{"shown", 1}, {"left_out", 2}});
}

TEST_CASE("a timeline is closed once", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.counter_interval_ns = 10});
  writer.count(writer.counter(writer.group("g"), "level", "1"), 5, 1);
  writer.close();
  const auto size = std::filesystem::file_size(file.path);
  writer.close();
  CHECK(std::filesystem::file_size(file.path) == size);
  CHECK(events(decode_timeline(file.path), TrackEvent::INSTANT).size() == 1);
}

TEST_CASE("a slice may not end before it begins", "[unit]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId track = writer.track(writer.group("g"), "t");
  CHECK_THROWS_AS(writer.slice(track, 5, 4, "backwards"), std::logic_error);
}

TEST_CASE("slices nest as they were drawn", "[prop]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId group = writer.group("g");
  std::vector<TrackId> tracks;
  for (int t = 0; t < 4; ++t) tracks.push_back(writer.track(group, "t" + std::to_string(t)));
  RandomStream random(3, "slices");
  std::size_t drawn = 0;
  for (int i = 0; i < 3000; ++i) {
    // A parent of 100 ns, with children side by side and a grandchild in the first: parents first, as the loop of a
    // simulation would know them last, but the viewer sorts by time.
    const TrackId track = tracks[static_cast<std::size_t>(i) % tracks.size()];
    const std::int64_t at = 100 * i;
    const std::int64_t middle = at + random.integer(1, 99);
    writer.slice(track, at, at + 100, "parent");
    writer.slice(track, at, middle, "child");
    writer.slice(track, at, random.integer(at, middle), "grandchild");
    writer.slice(track, middle, at + 100, "child");
    drawn += 4;
  }
  writer.close();
  const timeline::Trace trace = decode_timeline(file.path);
  std::vector<const timeline::TracePacket*> order;
  for (const auto& packet : trace.packet())
    if (packet.has_track_event()) order.push_back(&packet);
  CHECK(order.size() == 2 * drawn);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->timestamp() < b->timestamp(); });
  std::map<std::uint64_t, std::vector<std::string>> open;
  std::size_t deepest = 0;
  for (const auto* packet : order) {
    auto& stack = open[packet->track_event().track_uuid()];
    if (packet->track_event().type() == TrackEvent::SLICE_END) {
      REQUIRE_FALSE(stack.empty());
      stack.pop_back();
      continue;
    }
    const std::string& name = packet->track_event().name();
    if (name == "parent") CHECK(stack.empty());
    if (name == "child") CHECK(stack.size() == 1);
    stack.push_back(name);
    deepest = std::max(deepest, stack.size());
  }
  for (const auto& [uuid, stack] : open) CHECK(stack.empty());
  CHECK(deepest == 3);
}

TEST_CASE("memory does not grow with events", "[prop]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId group = writer.group("g");
  const TrackId track = writer.track(group, "t");
  const TrackId level = writer.counter(group, "level", "1");
  constexpr std::int64_t kSlices = 1'000'000;
  std::size_t held = 0, resident_before = 0;
  for (std::int64_t i = 0; i < kSlices; ++i) {
    writer.slice(track, 1000 * i, 1000 * i + 900, i % 3 == 0 ? "prefill" : "decode", {{"tokens", i % 700}});
    if (i % 4 == 0) writer.count(level, 1000 * i, static_cast<double>(i % 50));
    if (i == 20'000) {
      held = writer.memory();
      resident_before = resident();
    }
  }
  CHECK(writer.memory() == held);
  CHECK(held < (1U << 20));
#ifndef __SANITIZE_ADDRESS__  // its quarantine keeps what was freed
  CHECK(resident() < resident_before + (2U << 20));
#else
  (void)resident_before;
#endif
  writer.close();
  // 2.25 million packets of 15 to 25 bytes; compressed to a fraction.
  CHECK(std::filesystem::file_size(file.path) < 14'000'000);
}

// The numbers of fields are Perfetto's; a slip there would still parse here, so the bytes are checked once by hand.
TEST_CASE("field numbers on the wire", "[golden]") {
  timeline::Trace trace;
  timeline::TracePacket* packet = trace.add_packet();
  packet->set_timestamp(1);
  packet->set_trusted_packet_sequence_id(1);
  packet->mutable_track_event()->set_type(TrackEvent::SLICE_BEGIN);
  packet->mutable_track_event()->set_track_uuid(7);
  packet->mutable_track_event()->set_name("x");
  // packet = 1 (0x0a), timestamp = 8 (0x40), sequence id = 10 (0x50), track_event = 11 (0x5a): type = 9 (0x48),
  // track_uuid = 11 (0x58), name = 23 (0xba 0x01).
  CHECK(trace.SerializeAsString() == std::string("\x0a\x0e\x40\x01\x50\x01\x5a\x08\x48\x01\x58\x07\xba\x01\x01x", 16));
  trace.Clear();
  packet = trace.add_packet();
  packet->set_sequence_flags(3);
  packet->mutable_track_event()->set_name_iid(2);
  packet->mutable_track_event()->add_debug_annotations()->set_name_iid(3);
  packet->mutable_track_event()->add_flow_ids(4);
  packet->mutable_track_event()->add_terminating_flow_ids(5);
  auto* name = packet->mutable_interned_data()->add_event_names();
  name->set_iid(2);
  name->set_name("y");
  packet->mutable_interned_data()->add_debug_annotation_names()->set_iid(3);
  // track_event = 11 (0x5a): debug_annotations = 4 (0x22): name_iid = 1 (0x08); name_iid = 10 (0x50); flow_ids = 47,
  // fixed64 (47 << 3 | 1 = 377: 0xf9 0x02); terminating_flow_ids = 48 (0x81 0x03). interned_data = 12 (0x62):
  // event_names = 2 (0x12): iid = 1, name = 2; debug_annotation_names = 3 (0x1a). sequence_flags = 13 (0x68).
  const std::string flows("\xf9\x02\x04\0\0\0\0\0\0\0\x81\x03\x05\0\0\0\0\0\0\0", 20);
  CHECK(trace.SerializeAsString() == std::string("\x0a\x2b\x5a\x1a\x22\x02\x08\x03\x50\x02", 10) + flows +
                                         std::string("\x62\x0b\x12\x05\x08\x02\x12\x01y\x1a\x02\x08\x03\x68\x03", 15));
  trace.Clear();
  trace.add_packet()->set_compressed_packets("z");
  // compressed_packets = 50: 50 << 3 | 2 = 402 (0x92 0x03).
  CHECK(trace.SerializeAsString() == std::string("\x0a\x04\x92\x03\x01z", 6));
}

namespace {

/// Name and time of every event of a type, in the order of the file.
std::vector<std::pair<std::string, std::uint64_t>> shown(const File& file, TrackEvent::Type type) {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (const auto& packet : events(decode_timeline(file.path), type))
    all.emplace_back(packet.track_event().name(), packet.timestamp());
  return all;
}
using Shown = std::vector<std::pair<std::string, std::uint64_t>>;

}  // namespace

TEST_CASE("uuids are counted from 1 and name processes and threads too", "[unit]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId group = writer.group("g"), track = writer.track(group, "t"), level = writer.counter(group, "c", "B");
  CHECK(group.uuid == 1);
  CHECK(track.uuid == 2);
  CHECK(level.uuid == 3);
  CHECK(writer.new_flow() == 1);
  CHECK(writer.new_flow() == 2);
  writer.close();
  const timeline::Trace trace = decode_timeline(file.path);
  REQUIRE(trace.packet_size() == 3);
  CHECK_FALSE(trace.packet(0).track_descriptor().has_parent_uuid());
  CHECK(trace.packet(0).track_descriptor().process().pid() == 1);
  CHECK(trace.packet(1).track_descriptor().thread().pid() == 1);
  CHECK(trace.packet(1).track_descriptor().thread().tid() == 2);
  CHECK(trace.packet(2).track_descriptor().parent_uuid() == 1);
  CHECK(trace.packet(2).track_descriptor().name() == "c");
  for (const auto& packet : trace.packet()) CHECK(packet.trusted_packet_sequence_id() == 1);
  CHECK(trace.packet(0).sequence_flags() == timeline::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
  CHECK_FALSE(trace.packet(1).has_sequence_flags());
}

TEST_CASE("a window holds its beginning and not its end", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.window = {100, 200}});
  const TrackId track = writer.track(writer.group("g"), "t");
  for (const std::int64_t at : {99, 100, 199, 200}) writer.instant(track, at, "i" + std::to_string(at));
  writer.slice(track, 99, 99, "a");
  writer.slice(track, 99, 100, "b");  // ends where it begins: nothing of it is inside
  writer.slice(track, 99, 101, "c");
  writer.slice(track, 199, 200, "d");
  writer.slice(track, 199, 201, "e");
  writer.slice(track, 200, 200, "f");
  writer.slice(track, 0, 1000, "g");
  writer.close();
  CHECK(shown(file, TrackEvent::SLICE_BEGIN) == Shown{{"c", 100}, {"d", 199}, {"e", 199}, {"g", 100}});
  CHECK(shown(file, TrackEvent::SLICE_END) == Shown{{"", 101}, {"", 200}, {"", 200}, {"", 200}});
  const auto instants = shown(file, TrackEvent::INSTANT);
  CHECK(instants == Shown{{"i100", 100}, {"i199", 199}, {"window: events outside are left out", 100}});
  // Outside: two instants, a, b and f.
  CHECK(arguments(events(decode_timeline(file.path), TrackEvent::INSTANT)[2]).at("left_out") == 5);
}

TEST_CASE("a window with one end open is one", "[unit]") {
  for (const TimelineWindow window : {TimelineWindow{.begin_ns = 10}, TimelineWindow{.end_ns = 10}}) {
    const File file;
    TimelineWriter writer(file.path, {.window = window});
    writer.close();
    CHECK(events(decode_timeline(file.path), TrackEvent::INSTANT).size() == 1);
  }
  const File file;
  TimelineWriter writer(file.path);  // all of it
  const TrackId track = writer.track(writer.group("g"), "t");
  writer.slice(track, 0, 0, "first");
  writer.close();
  CHECK(shown(file, TrackEvent::SLICE_BEGIN) == Shown{{"first", 0}});
  CHECK(events(decode_timeline(file.path), TrackEvent::INSTANT).empty());
}

TEST_CASE("counters in a window: the value before it, then each of its own", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.window = {100, 200}});
  const TrackId group = writer.group("g");
  const TrackId at_begin = writer.counter(group, "a", "1"), late = writer.counter(group, "b", "1");
  writer.count(at_begin, 50, 1);
  writer.count(at_begin, 100, 2);  // takes the place of the one before
  writer.count(at_begin, 199, 3);
  writer.count(at_begin, 200, 4);
  writer.count(late, 150, 5);
  writer.count(late, 150, 6);  // both are shown: only what waits gives way
  writer.close();
  std::vector<std::tuple<std::uint64_t, std::uint64_t, double>> values;
  for (const auto& packet : events(decode_timeline(file.path), TrackEvent::COUNTER))
    values.emplace_back(packet.track_event().track_uuid(), packet.timestamp(),
                        packet.track_event().double_counter_value());
  CHECK(values == std::vector<std::tuple<std::uint64_t, std::uint64_t, double>>{
                      {at_begin.uuid, 100, 2}, {at_begin.uuid, 199, 3}, {late.uuid, 150, 5}, {late.uuid, 150, 6}});
  // One before and one after; the value that gave way was inside as another's place.
  CHECK(arguments(events(decode_timeline(file.path), TrackEvent::INSTANT)[0]).at("left_out") == 2);
}

TEST_CASE("sampled counters: what waits is shown when its interval is over, or at the end", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.window = {100, 400}, .counter_interval_ns = 100});
  const TrackId group = writer.group("g");
  const TrackId level = writer.counter(group, "level", "1");
  writer.count(level, 10, 1);   // outside, waits as 100
  writer.count(level, 20, 2);   // outside, takes its place: not sampled away
  writer.count(level, 150, 3);  // of the interval of 100: takes its place
  writer.count(level, 199, 4);
  writer.count(level, 200, 5);
  writer.count(level, 400, 6);  // outside
  writer.close();
  std::vector<std::pair<std::uint64_t, double>> values;
  const timeline::Trace trace = decode_timeline(file.path);
  for (const auto& packet : events(trace, TrackEvent::COUNTER))
    values.emplace_back(packet.timestamp(), packet.track_event().double_counter_value());
  CHECK(values == std::vector<std::pair<std::uint64_t, double>>{{199, 4}, {200, 5}});
  const auto notes = events(trace, TrackEvent::INSTANT);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].track_event().name() == "window: events outside are left out");
  CHECK(arguments(notes[0]).at("left_out") == 3);
  CHECK(notes[1].track_event().name() == "counters sampled: the last value of each interval is shown");
  CHECK(notes[1].timestamp() == 100);
  CHECK(arguments(notes[1]) == std::map<std::string, std::int64_t>{{"interval_ns", 100}, {"left_out", 2}});
}

TEST_CASE("a full timeline counts slices, instants and values alike, and stays full", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.max_events = 3});
  const TrackId group = writer.group("g"), track = writer.track(group, "t"), level = writer.counter(group, "c", "1");
  writer.slice(track, 10, 20, "one");
  writer.count(level, 15, 1);
  CHECK(writer.left_out() == 0);
  writer.instant(track, 30, "three");
  CHECK(writer.left_out() == 0);
  writer.instant(track, 50, "four");
  writer.count(level, 40, 2);
  writer.slice(track, 60, 70, "six");
  CHECK(writer.left_out() == 3);
  writer.close();
  CHECK(shown(file, TrackEvent::INSTANT) ==
        Shown{{"three", 30}, {"timeline full: from here on events are left out", 40}});
  CHECK(events(decode_timeline(file.path), TrackEvent::COUNTER).size() == 1);
}

TEST_CASE("a file keeps to its size, notes and arrows' ends included", "[unit]") {
  for (const std::int64_t most : {300'000, 600'000}) {
    const File file;
    TimelineWriter writer(file.path, {.max_bytes = most});
    const TrackId group = writer.group("g"), track = writer.track(group, "t");
    RandomStream random(4, "names");
    std::int64_t at = 0;
    while (writer.left_out() < 100) {
      const std::uint64_t flow = writer.new_flow();  // never ends
      writer.slice(track, at, at + 5, "n" + std::to_string(random.bits()), {}, {flow});
      at += 10;
      REQUIRE(at < 10'000'000);
    }
    writer.close();
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(file.path));
    CHECK(size <= most);
    CHECK(size > most / 4);  // arrows that are open are counted at 64 bytes each, and take fewer
  }
}

TEST_CASE("arrows that do not end are ended, each once", "[unit]") {
  const File file;
  TimelineWriter writer(file.path, {.window = {100, 200}});
  const TrackId track = writer.track(writer.group("g"), "t");
  const std::uint64_t ended = writer.new_flow(), open = writer.new_flow(), outside = writer.new_flow();
  writer.slice(track, 110, 120, "a", {}, {ended});
  writer.slice(track, 130, 140, "b", {}, {ended, true});
  writer.instant(track, 150, "c", {}, {open});
  writer.instant(track, 160, "d", {}, {open});
  writer.instant(track, 50, "out", {}, {outside});
  writer.instant(track, 170, "e", {}, {outside, true});  // its beginning is not shown
  writer.instant(track, 250, "out", {}, {open, true});
  writer.close();
  const timeline::Trace trace = decode_timeline(file.path);
  const auto instants = events(trace, TrackEvent::INSTANT);
  REQUIRE(instants.size() == 5);
  CHECK(instants[2].track_event().name() == "e");
  CHECK(instants[2].track_event().terminating_flow_ids_size() == 0);
  CHECK(instants[3].track_event().name() == "goes on");
  CHECK(instants[3].timestamp() == 170);  // the latest that is shown
  REQUIRE(instants[3].track_event().terminating_flow_ids_size() == 1);
  CHECK(instants[3].track_event().terminating_flow_ids(0) == open);
  std::vector<std::string> tracks;
  for (const auto& packet : trace.packet()) {
    if (packet.track_descriptor().has_process()) tracks.push_back(packet.track_descriptor().process().process_name());
    if (packet.track_descriptor().has_thread()) tracks.push_back(packet.track_descriptor().thread().thread_name());
  }
  CHECK(tracks == std::vector<std::string>{"g", "t", "what this timeline leaves out", "arrows that go on", "limits"});
}

TEST_CASE("several arrows on a slice", "[unit]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId track = writer.track(writer.group("g"), "t");
  const std::uint64_t a = writer.new_flow(), b = writer.new_flow();
  writer.slice(track, 0, 1, "from", {}, std::vector<TimelineFlow>{{a}, {}, {b}});  // one of them is none
  writer.slice(track, 2, 3, "to", {}, std::vector<TimelineFlow>{{a, true}, {b, true}});
  writer.slice(track, 4, 5, "none", {}, std::vector<TimelineFlow>{});
  writer.close();
  const auto begins = events(decode_timeline(file.path), TrackEvent::SLICE_BEGIN);
  CHECK(begins[0].track_event().flow_ids_size() == 2);
  CHECK(begins[1].track_event().terminating_flow_ids_size() == 2);
  CHECK(begins[2].track_event().flow_ids_size() == 0);
  CHECK(events(decode_timeline(file.path), TrackEvent::INSTANT).empty());
}

TEST_CASE("blocks are written as they fill", "[unit]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId track = writer.track(writer.group("g"), "t");
  const std::string name(1000, 'n');
  // 4,096 names are kept by number, each written with its event: some 4 MB in blocks of 128 KiB.
  for (int i = 0; i < 1000; ++i) writer.instant(track, i, name + std::to_string(i));
  CHECK(std::filesystem::file_size(file.path) > 0);  // before it is closed
  writer.close();
  int blocks = 0;
  CHECK(events(decode_timeline(file.path, &blocks), TrackEvent::INSTANT).size() == 1000);
  CHECK(blocks >= 7);  // 1,000 of a thousand bytes are 7.6 blocks
  CHECK(blocks <= 9);
}

TEST_CASE("an event is shown only where it, its arrows and the notes have room", "[unit]") {
  // Of a file with nothing in it: 128 bytes around a block, 1,536 for an event and the notes, 64 for an arrow.
  const auto fits = [](std::int64_t most, std::size_t arrows) {
    const File file;
    TimelineWriter writer(file.path, {.max_bytes = most});
    std::vector<TimelineFlow> flows(arrows);
    for (TimelineFlow& flow : flows) flow.id = writer.new_flow();
    writer.slice(TrackId{1}, 0, 1, "s", {}, flows);
    return writer.left_out() == 0;
  };
  CHECK(fits(1664, 0));
  CHECK_FALSE(fits(1663, 0));
  CHECK(fits(1664 + 64, 1));
  CHECK_FALSE(fits(1664 + 63, 1));
  CHECK(fits(1664 + 128, 2));
  CHECK_FALSE(fits(1664 + 127, 2));
}

TEST_CASE("memory is that of names and of arrows that have not ended", "[unit]") {
  const File file;
  TimelineWriter writer(file.path);
  const TrackId track = writer.track(writer.group("g"), "t");
  const std::size_t before = writer.memory();
  writer.instant(track, 1, "abc");
  CHECK(writer.memory() == before + 3 + 96);  // a name's letters, and what keeps it
  writer.instant(track, 2, "abc", {{"of an argument", 1}});
  CHECK(writer.memory() == before + 99 + 14 + 96);
  const std::size_t named = writer.memory();
  const std::uint64_t a = writer.new_flow(), b = writer.new_flow();
  writer.instant(track, 3, "abc", {}, {a});
  writer.instant(track, 4, "abc", {}, {a});
  writer.instant(track, 5, "abc", {}, {b});
  CHECK(writer.memory() == named + 2 * 48);
  writer.instant(track, 6, "abc", {}, {a, true});
  CHECK(writer.memory() == named + 48);
  writer.close();
}

}  // namespace test_timeline
