// A timeline file as the viewer sees it: blocks inflated, names looked up.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>

#include "timeline.pb.h"

namespace orrery::test {

inline std::string inflated(const std::string& packed) {
  std::string out;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw std::runtime_error("zlib");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t done = out.size();
    out.resize(done + (1 << 18));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = 1 << 18;
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("a block of the timeline does not inflate");
  return out;
}

/// All packets in the order of the file; `blocks` counts the compressed ones. Names stand in place of their numbers.
/// Throws std::runtime_error for a file that the viewer would refuse.
inline timeline::Trace decode_timeline(const std::filesystem::path& path, int* blocks = nullptr) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  timeline::Trace outer, trace;
  if (!outer.ParseFromString(bytes)) throw std::runtime_error("not a trace");
  for (const timeline::TracePacket& packet : outer.packet()) {
    if (!packet.has_compressed_packets()) throw std::runtime_error("a packet is not compressed");
    if (packet.compressed_packets().size() > (512 << 10) - 16) throw std::runtime_error("a block is too large");
    timeline::Trace inner;
    if (!inner.ParseFromString(inflated(packet.compressed_packets()))) throw std::runtime_error("a block is no trace");
    if (blocks != nullptr) ++*blocks;
    trace.MergeFrom(inner);
  }
  std::map<std::uint64_t, std::string> names, keys;
  bool cleared = false;
  for (timeline::TracePacket& packet : *trace.mutable_packet()) {
    if (packet.trusted_packet_sequence_id() == 0) throw std::runtime_error("a packet without a sequence");
    cleared |= (packet.sequence_flags() & timeline::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED) != 0;
    for (const auto& entry : packet.interned_data().event_names())
      if (!names.emplace(entry.iid(), entry.name()).second) throw std::runtime_error("a number for two names");
    for (const auto& entry : packet.interned_data().debug_annotation_names())
      if (!keys.emplace(entry.iid(), entry.name()).second) throw std::runtime_error("a number for two names");
    if (!packet.has_track_event()) continue;
    timeline::TrackEvent& event = *packet.mutable_track_event();
    const auto needs_state = [&] {
      // Without this flag the viewer does not look names up; without the other it skips the packet.
      if (!cleared || (packet.sequence_flags() & timeline::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE) == 0)
        throw std::runtime_error("a packet uses names without saying so");
    };
    if (event.has_name_iid()) {
      needs_state();
      event.set_name(names.at(event.name_iid()));
    }
    for (auto& annotation : *event.mutable_debug_annotations()) {
      if (!annotation.has_name_iid()) continue;
      needs_state();
      annotation.set_name(keys.at(annotation.name_iid()));
    }
  }
  return trace;
}

}  // namespace orrery::test
