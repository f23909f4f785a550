#include "sim/timeline/reader.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "sim/base/input_limits.hpp"
#include "sim/timeline/assembly.hpp"
#include "sim/timeline/wire.hpp"

namespace orrery::sim {
namespace {

using wire::Field;
using wire::key;
using wire::Message;
using wire::Type;

constexpr std::size_t kMostBlockBytes = 1U << 28;  // inflated; ours have some 128 KiB

/// Inflates one block into `out`.
void inflate_block(std::string_view packed, std::string& out) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  if (out.size() < (1U << 18)) out.resize(1U << 18);
  std::size_t done = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (done >= kMostBlockBytes) break;
    if (done == out.size()) out.resize(2 * out.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(out.size() - done);
    status = inflate(&stream, Z_NO_FLUSH);
    done = out.size() - stream.avail_out;
    if (status == Z_BUF_ERROR && stream.avail_in == 0) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("a compressed block does not inflate");
  out.resize(done);
}

/// What a packet sequence has said so far.
struct Sequence {
  bool cleared = false;
  std::unordered_map<std::uint64_t, std::uint32_t> event_names, argument_names;  // by number, to names
};

/// TrackEvent, as far as we write it.
struct EventFields {
  std::uint64_t type = 0, track = 0;
  std::uint64_t name_number = 0;
  std::string_view name;
  bool named = false, has_value = false;
  double value = 0;
};

class Reader {
 public:
  Reader(Timeline& out, TimelineEvents& events) : out_(out), events_(events) {}

  void trace(std::string_view bytes, bool outer) {
    Message message(bytes);
    for (Field field; message.next(field);) {
      if (field.key() != key(1, Type::bytes)) {
        unknown("Trace", field);
        continue;
      }
      packet(field.bytes, outer);
    }
  }

 private:
  void fault(std::string text) { add_fault(out_, std::move(text)); }
  void unknown(std::string_view message, const Field& field) {
    fault(fmt::format("packet {}: {} has a field {} that a timeline of ours has not", out_.packets, message,
                      field.number));
  }
  void packet(std::string_view bytes, bool outer);
  void describe(std::string_view bytes);
  std::string nested_text(std::string_view bytes, std::string_view message, std::uint32_t name_field,
                          std::uint32_t last_number_field);
  void intern(std::string_view bytes, Sequence& sequence);
  void entry(std::string_view bytes, std::unordered_map<std::uint64_t, std::uint32_t>& names);
  void event(std::string_view bytes, std::int64_t at_ns, const Sequence* sequence);
  void annotation(std::string_view bytes, const Sequence* sequence);
  void record(const EventFields& fields, std::int64_t at_ns, const Sequence* sequence, std::uint32_t first_argument);
  std::uint32_t name_of(std::string_view text);
  std::uint32_t look_up(const std::unordered_map<std::uint64_t, std::uint32_t>* names, std::uint64_t number);

  Timeline& out_;
  TimelineEvents& events_;
  std::string inflated_;
  std::map<std::uint64_t, Sequence> sequences_;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::vector<std::pair<std::uint64_t, bool>> flows_;  // of the event at hand; true: it ends there
};

std::uint32_t Reader::name_of(std::string_view text) {
  const auto [at, fresh] = names_.try_emplace(std::string(text), static_cast<std::uint32_t>(out_.names.size()));
  if (fresh) out_.names.emplace_back(text);
  return at->second;
}

std::uint32_t Reader::look_up(const std::unordered_map<std::uint64_t, std::uint32_t>* names, std::uint64_t number) {
  if (names != nullptr)
    if (const auto at = names->find(number); at != names->end()) return at->second;
  fault(fmt::format("packet {}: name {} was never given", out_.packets, number));
  return name_of("");
}

void Reader::packet(std::string_view bytes, bool outer) {
  std::uint64_t sequence_id = 0, flags = 0;
  std::int64_t at_ns = 0;
  std::string_view track_event, interned, descriptor, packed;
  bool has_event = false;
  Message message(bytes);
  for (Field field; message.next(field);) {
    switch (field.key()) {
      case key(8, Type::varint):
        at_ns = static_cast<std::int64_t>(field.value);
        break;
      case key(10, Type::varint):
        sequence_id = field.value;
        break;
      case key(11, Type::bytes):
        track_event = field.bytes;
        has_event = true;
        break;
      case key(12, Type::bytes):
        interned = field.bytes;
        break;
      case key(13, Type::varint):
        flags = field.value;
        break;
      case key(50, Type::bytes):
        packed = field.bytes;
        break;
      case key(60, Type::bytes):
        descriptor = field.bytes;
        break;
      default:
        unknown("TracePacket", field);
    }
  }
  if (!packed.empty()) {
    if (!outer) throw std::runtime_error("a compressed block lies in another one");
    inflate_block(packed, inflated_);
    return trace(inflated_, false);
  }
  ++out_.packets;
  if (sequence_id == 0) fault(fmt::format("packet {}: it names no sequence", out_.packets));
  Sequence& sequence = sequences_[sequence_id];
  if ((flags & 1) != 0) {  // SEQ_INCREMENTAL_STATE_CLEARED
    sequence = {};
    sequence.cleared = true;
  }
  if (!interned.empty()) intern(interned, sequence);
  if (!descriptor.empty()) describe(descriptor);
  // SEQ_NEEDS_INCREMENTAL_STATE: without it the viewer looks no names up.
  if (has_event) event(track_event, at_ns, (flags & 2) != 0 && sequence.cleared ? &sequence : nullptr);
}

/// The text in `name_field` of a message whose other fields are numbers up to `last_number_field`.
std::string Reader::nested_text(std::string_view bytes, std::string_view message, std::uint32_t name_field,
                                std::uint32_t last_number_field) {
  std::string text;
  Message fields(bytes);
  for (Field field; fields.next(field);) {
    if (field.key() == key(name_field, Type::bytes)) {
      text = field.bytes;
    } else if (field.type != Type::varint || field.number > last_number_field) {
      unknown(message, field);
    }
  }
  return text;
}

void Reader::describe(std::string_view bytes) {
  Timeline::Track track;
  std::uint64_t parent = 0;
  int kinds = 0;
  Message message(bytes);
  for (Field field; message.next(field);) {
    switch (field.key()) {
      case key(1, Type::varint):
        track.uuid = field.value;
        break;
      case key(2, Type::bytes):
        track.name = field.bytes;
        break;
      case key(3, Type::bytes):
        track.name = nested_text(field.bytes, "ProcessDescriptor", 6, 1);
        ++kinds;
        break;
      case key(4, Type::bytes):
        track.kind = Timeline::Kind::slices;
        track.name = nested_text(field.bytes, "ThreadDescriptor", 5, 2);
        ++kinds;
        break;
      case key(5, Type::varint):
        parent = field.value;
        break;
      case key(8, Type::bytes):
        track.kind = Timeline::Kind::counter;
        track.unit = nested_text(field.bytes, "CounterDescriptor", 6, 0);
        ++kinds;
        break;
      default:
        unknown("TrackDescriptor", field);
    }
  }
  if (kinds != 1) fault(fmt::format("track {}: it is not one of process, thread and counter", track.uuid));
  const auto number = static_cast<std::uint32_t>(out_.tracks.size());
  if (!events_.by_uuid.emplace(track.uuid, number).second) fault(fmt::format("track {}: described twice", track.uuid));
  out_.tracks.push_back(std::move(track));
  events_.parents.push_back(parent);
}

void Reader::entry(std::string_view bytes, std::unordered_map<std::uint64_t, std::uint32_t>& names) {
  std::uint64_t number = 0;
  std::string_view text;
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.key() == key(1, Type::varint)) {
      number = field.value;
    } else if (field.key() == key(2, Type::bytes)) {
      text = field.bytes;
    } else {
      unknown("EventName", field);
    }
  }
  if (!names.emplace(number, name_of(text)).second)
    fault(fmt::format("packet {}: name {} is given twice", out_.packets, number));
}

void Reader::intern(std::string_view bytes, Sequence& sequence) {
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.key() == key(2, Type::bytes)) {
      entry(field.bytes, sequence.event_names);
    } else if (field.key() == key(3, Type::bytes)) {
      entry(field.bytes, sequence.argument_names);
    } else {
      unknown("InternedData", field);
    }
  }
}

void Reader::annotation(std::string_view bytes, const Sequence* sequence) {
  Timeline::Argument argument{};
  bool named = false;
  Message message(bytes);
  for (Field field; message.next(field);) {
    switch (field.key()) {
      case key(1, Type::varint):
        argument.name = look_up(sequence != nullptr ? &sequence->argument_names : nullptr, field.value);
        named = true;
        break;
      case key(4, Type::varint):
        argument.value = static_cast<std::int64_t>(field.value);
        break;
      case key(10, Type::bytes):
        argument.name = name_of(field.bytes);
        named = true;
        break;
      default:
        unknown("DebugAnnotation", field);
    }
  }
  if (!named) fault(fmt::format("packet {}: an argument has no name", out_.packets));
  out_.arguments.push_back(argument);
}

void Reader::event(std::string_view bytes, std::int64_t at_ns, const Sequence* sequence) {
  EventFields fields;
  const auto first_argument = static_cast<std::uint32_t>(out_.arguments.size());
  flows_.clear();
  Message message(bytes);
  for (Field field; message.next(field);) {
    switch (field.key()) {
      case key(4, Type::bytes):
        annotation(field.bytes, sequence);
        break;
      case key(9, Type::varint):
        fields.type = field.value;
        break;
      case key(10, Type::varint):
        fields.name_number = field.value;
        break;
      case key(11, Type::varint):
        fields.track = field.value;
        break;
      case key(23, Type::bytes):
        fields.name = field.bytes;
        fields.named = true;
        break;
      case key(30, Type::varint):
        fields.value = static_cast<double>(static_cast<std::int64_t>(field.value));
        fields.has_value = true;
        break;
      case key(44, Type::fixed64):
        fields.value = field.real();
        fields.has_value = true;
        break;
      case key(47, Type::fixed64):
        flows_.emplace_back(field.value, false);
        break;
      case key(48, Type::fixed64):
        flows_.emplace_back(field.value, true);
        break;
      default:
        unknown("TrackEvent", field);
    }
  }
  record(fields, at_ns, sequence, first_argument);
}

void Reader::record(const EventFields& fields, std::int64_t at_ns, const Sequence* sequence,
                    std::uint32_t first_argument) {
  const auto at = events_.by_uuid.find(fields.track);
  if (at == events_.by_uuid.end())
    return fault(fmt::format("packet {}: track {} is unknown", out_.packets, fields.track));
  const std::uint32_t track = at->second;
  constexpr std::uint64_t kBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4;
  const bool counts = fields.type == kCounter;
  if (fields.type < kBegin || fields.type > kCounter)
    return fault(fmt::format("packet {}: an event of type {}", out_.packets, fields.type));
  if (out_.tracks[track].kind != (counts ? Timeline::Kind::counter : Timeline::Kind::slices))
    fault(fmt::format("packet {}: the event does not suit track {}", out_.packets, fields.track));
  if (counts) {
    if (!fields.has_value) fault(fmt::format("packet {}: a counter without a value", out_.packets));
    out_.values.push_back({at_ns, track, fields.value});
    return;
  }
  if (fields.type == kSliceEnd) {
    events_.events.push_back({at_ns, track, TimelineEvents::kEnd});
    return;
  }
  Timeline::Slice slice{.begin_ns = at_ns, .end_ns = at_ns, .track = track};
  if (fields.named) {
    slice.name = name_of(fields.name);
  } else {
    slice.name = look_up(sequence != nullptr ? &sequence->event_names : nullptr, fields.name_number);
  }
  slice.first_argument = first_argument;
  slice.arguments = static_cast<std::uint32_t>(out_.arguments.size()) - first_argument;
  slice.instant = fields.type == kInstant;
  const auto number = static_cast<std::uint32_t>(out_.slices.size());
  for (const auto& [flow, last] : flows_) events_.carried.push_back({flow, number, last});
  events_.events.push_back({at_ns, track, number});
  out_.slices.push_back(slice);
}

}  // namespace

Timeline read_timeline(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) || std::filesystem::is_directory(path, ignored))
    throw std::runtime_error(fmt::format("{}: expected a timeline, found none", path.string()));
  const std::string bytes = read_whole(path, "timeline");
  Timeline timeline;
  TimelineEvents events;
  Reader reader(timeline, events);
  try {
    reader.trace(bytes, true);
    assemble(timeline, events);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("{}: not a whole timeline: {}", path.string(), error.what()));
  }
  return timeline;
}

}  // namespace orrery::sim
