#include <unistd.h>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/timeline.hpp"
#include "timeline.pb.h"

using namespace orrery::sim;
namespace timeline = orrery::timeline;

TEST_CASE("a timeline is a trace of descriptors, slices and counters", "[unit]") {
  const auto path =
      std::filesystem::temp_directory_path() / ("orrery-timeline-" + std::to_string(::getpid()) + ".pftrace");
  {
    TimelineWriter writer(path);
    const TrackId group = writer.group("replica 0");
    const TrackId track = writer.track(group, "iterations");
    const TrackId counter = writer.counter(group, "running", "sequences");
    writer.slice(track, 1000, 3000, "prefill", {{"tokens", 512}});
    writer.count(counter, 1000, 2);
    writer.close();
  }
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  std::filesystem::remove(path);
  timeline::Trace trace;
  REQUIRE(trace.ParseFromString(bytes.str()));
  REQUIRE(trace.packet_size() == 6);
  CHECK(trace.packet(0).track_descriptor().process().process_name() == "replica 0");
  CHECK(trace.packet(1).track_descriptor().thread().thread_name() == "iterations");
  CHECK(trace.packet(1).track_descriptor().parent_uuid() == trace.packet(0).track_descriptor().uuid());
  CHECK(trace.packet(2).track_descriptor().counter().unit_name() == "sequences");
  const auto& begin = trace.packet(3);
  CHECK(begin.timestamp() == 1000);
  CHECK(begin.trusted_packet_sequence_id() != 0);
  CHECK(begin.track_event().type() == timeline::TrackEvent::SLICE_BEGIN);
  CHECK(begin.track_event().name() == "prefill");
  CHECK(begin.track_event().debug_annotations(0).int_value() == 512);
  CHECK(trace.packet(4).timestamp() == 3000);
  CHECK(trace.packet(4).track_event().type() == timeline::TrackEvent::SLICE_END);
  CHECK(trace.packet(5).track_event().double_counter_value() == 2);
}

TEST_CASE("a timeline that cannot be written says so", "[unit]") {
  CHECK_THROWS_WITH(TimelineWriter("/no/such/folder/t.pftrace"), Catch::Contains("cannot be written"));
}

// The numbers of fields are Perfetto's; a slip there would still parse here, so the bytes are checked once by hand.
TEST_CASE("field numbers on the wire", "[golden]") {
  timeline::Trace trace;
  timeline::TracePacket* packet = trace.add_packet();
  packet->set_timestamp(1);
  packet->set_trusted_packet_sequence_id(1);
  packet->mutable_track_event()->set_type(timeline::TrackEvent::SLICE_BEGIN);
  packet->mutable_track_event()->set_track_uuid(7);
  packet->mutable_track_event()->set_name("x");
  // packet = 1 (0x0a), timestamp = 8 (0x40), sequence id = 10 (0x50), track_event = 11 (0x5a): type = 9 (0x48),
  // track_uuid = 11 (0x58), name = 23 (0xba 0x01).
  const std::string expected("\x0a\x0e\x40\x01\x50\x01\x5a\x08\x48\x01\x58\x07\xba\x01\x01x", 16);
  CHECK(trace.SerializeAsString() == expected);
}
