#include "sim/timeline.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "timeline.pb.h"

namespace orrery::sim {
namespace {

constexpr std::uint32_t kSequence = 1;  // all packets come from one writer
constexpr std::size_t kFlushBytes = 1 << 20;

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

timeline::TracePacket event(TrackId track, std::int64_t at_ns, timeline::TrackEvent::Type type) {
  timeline::TracePacket packet;
  packet.set_timestamp(static_cast<std::uint64_t>(at_ns));
  packet.set_trusted_packet_sequence_id(kSequence);
  packet.mutable_track_event()->set_type(type);
  packet.mutable_track_event()->set_track_uuid(track.uuid);
  return packet;
}

}  // namespace

TimelineWriter::TimelineWriter(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
  if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
}

template <class Packet>
void TimelineWriter::write(const Packet& packet) {
  // Field 1 of Trace, length-delimited: what Trace with this one packet would serialise to.
  put_varint(buffer_, (1U << 3) | 2U);
  put_varint(buffer_, packet.ByteSizeLong());
  packet.AppendToString(&buffer_);
  if (buffer_.size() < kFlushBytes) return;
  file_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

TrackId TimelineWriter::group(std::string_view name) {
  const TrackId id{next_uuid_++};
  timeline::TracePacket packet;
  packet.set_trusted_packet_sequence_id(kSequence);
  packet.mutable_track_descriptor()->set_uuid(id.uuid);
  packet.mutable_track_descriptor()->mutable_process()->set_pid(++groups_);
  packet.mutable_track_descriptor()->mutable_process()->set_process_name(std::string(name));
  write(packet);
  return id;
}

TrackId TimelineWriter::track(TrackId group, std::string_view name) {
  const TrackId id{next_uuid_++};
  timeline::TracePacket packet;
  packet.set_trusted_packet_sequence_id(kSequence);
  packet.mutable_track_descriptor()->set_uuid(id.uuid);
  packet.mutable_track_descriptor()->set_parent_uuid(group.uuid);
  packet.mutable_track_descriptor()->mutable_thread()->set_pid(groups_);
  packet.mutable_track_descriptor()->mutable_thread()->set_tid(++threads_);
  packet.mutable_track_descriptor()->mutable_thread()->set_thread_name(std::string(name));
  write(packet);
  return id;
}

TrackId TimelineWriter::counter(TrackId group, std::string_view name, std::string_view unit) {
  const TrackId id{next_uuid_++};
  timeline::TracePacket packet;
  packet.set_trusted_packet_sequence_id(kSequence);
  packet.mutable_track_descriptor()->set_uuid(id.uuid);
  packet.mutable_track_descriptor()->set_parent_uuid(group.uuid);
  packet.mutable_track_descriptor()->set_name(std::string(name));
  packet.mutable_track_descriptor()->mutable_counter()->set_unit_name(std::string(unit));
  write(packet);
  return id;
}

void TimelineWriter::slice(TrackId track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
                           std::initializer_list<Argument> arguments) {
  timeline::TracePacket begin = event(track, begin_ns, timeline::TrackEvent::SLICE_BEGIN);
  begin.mutable_track_event()->set_name(std::string(name));
  for (const auto& [key, value] : arguments) {
    timeline::DebugAnnotation* annotation = begin.mutable_track_event()->add_debug_annotations();
    annotation->set_name(std::string(key));
    annotation->set_int_value(value);
  }
  write(begin);
  write(event(track, end_ns, timeline::TrackEvent::SLICE_END));
}

void TimelineWriter::count(TrackId counter, std::int64_t at_ns, double value) {
  timeline::TracePacket packet = event(counter, at_ns, timeline::TrackEvent::COUNTER);
  packet.mutable_track_event()->set_double_counter_value(value);
  write(packet);
}

void TimelineWriter::close() {
  file_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
  file_.flush();
  if (!file_) throw std::runtime_error(fmt::format("{}: could not be written in full", path_.string()));
}

}  // namespace orrery::sim
