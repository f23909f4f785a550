#include "sim/timeline.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "timeline.pb.h"

namespace orrery::sim {
namespace {

using timeline::TracePacket;
using timeline::TrackEvent;

constexpr std::uint32_t kSequence = 1;  // all packets come from one writer
// A block before compression. The viewer wants compressed packets below 512 KiB; deflate never adds that much.
constexpr std::size_t kBlockBytes = 128 << 10;
constexpr std::size_t kMaxNames = 4096;
// Of a million slices with two arguments level 3 makes 18 bytes each in 0.4 s, level 6 17 bytes in 1.8 s.
constexpr int kLevel = 3;

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

/// Field 1 of Trace, length-delimited: what Trace with this one packet would serialise to.
void put_packet(std::string& out, const TracePacket& packet) {
  put_varint(out, (1U << 3) | 2U);
  put_varint(out, packet.ByteSizeLong());
  packet.AppendToString(&out);
}

/// The file: packets are gathered in a block, compressed and appended.
class BlockFile {
 public:
  explicit BlockFile(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written", path_.string()));
    if (deflateInit(&stream_, kLevel) != Z_OK) throw std::bad_alloc();
    block_.reserve(kBlockBytes + (kBlockBytes >> 3));
    packed_.resize(deflateBound(&stream_, static_cast<uLong>(block_.capacity())));
  }
  ~BlockFile() { deflateEnd(&stream_); }
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  void write(const TracePacket& packet) {
    put_packet(block_, packet);
    if (block_.size() >= kBlockBytes) flush();
  }
  void flush() {
    if (block_.empty()) return;
    packed_.resize(std::max<std::size_t>(packed_.size(), deflateBound(&stream_, static_cast<uLong>(block_.size()))));
    stream_.next_in = reinterpret_cast<Bytef*>(block_.data());
    stream_.avail_in = static_cast<uInt>(block_.size());
    stream_.next_out = reinterpret_cast<Bytef*>(packed_.data());
    stream_.avail_out = static_cast<uInt>(packed_.size());
    if (deflate(&stream_, Z_FINISH) != Z_STREAM_END) throw std::logic_error("timeline: a block did not fit its bound");
    const std::size_t size = packed_.size() - stream_.avail_out;
    deflateReset(&stream_);
    // Packet with the one field compressed_packets = 50, written by hand: the bytes are not copied.
    head_.clear();
    std::string field;
    put_varint(field, (50U << 3) | 2U);
    put_varint(field, size);
    put_varint(head_, (1U << 3) | 2U);
    put_varint(head_, field.size() + size);
    head_ += field;
    file_.write(head_.data(), static_cast<std::streamsize>(head_.size()));
    file_.write(packed_.data(), static_cast<std::streamsize>(size));
    block_.clear();
  }
  void close() {
    flush();
    file_.flush();
    if (!file_) throw std::runtime_error(fmt::format("{}: could not be written in full", path_.string()));
  }
  std::size_t memory() const { return block_.capacity() + packed_.capacity() + head_.capacity(); }

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  z_stream stream_{};
  std::string block_, packed_, head_;
};

/// Numbers of names: given once, from 1.
class Names {
 public:
  struct Found {
    std::uint64_t id;  ///< 0: there are too many names, write this one out
    bool fresh;
  };
  Found find(std::string_view name) {
    if (const auto it = ids_.find(name); it != ids_.end()) return {it->second, false};
    if (ids_.size() == kMaxNames) return {0, false};
    bytes_ += name.size() + 96;  // a node of the map, about
    return {ids_.emplace(name, ids_.size() + 1).first->second, true};
  }
  std::size_t memory() const { return bytes_; }

 private:
  std::map<std::string, std::uint64_t, std::less<>> ids_;
  std::size_t bytes_ = 0;
};

struct CounterValue {
  std::int64_t at_ns;
  double value;
};
/// By uuid.
struct Track {
  std::int32_t pid = 0;
  std::optional<CounterValue> pending;  ///< of a counter: not shown yet, since a later one may take its place
};

}  // namespace

struct TimelineWriter::State {
  State(const std::filesystem::path& path, const TimelineOptions& wanted) : file(path), options(wanted) {}

  BlockFile file;
  TimelineOptions options;
  Names event_names, argument_names;
  std::vector<Track> tracks{1};  // uuids start at 1
  std::int32_t groups = 0, threads = 0;
  std::uint64_t flows = 0;
  bool started = false, closed = false;
  std::int64_t shown = 0, left_out = 0, outside = 0, sampled_away = 0;
  std::int64_t full_at_ns = std::numeric_limits<std::int64_t>::max();  // the earliest event that was left out
  TracePacket packet;  // used again and again: its parts keep their memory

  void write() {
    packet.set_trusted_packet_sequence_id(kSequence);
    if (!started) packet.set_sequence_flags(packet.sequence_flags() | TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    started = true;
    file.write(packet);
    packet.Clear();
  }
  timeline::TrackDescriptor& describe(TrackId& id, std::uint64_t parent, std::int32_t pid) {
    id = {tracks.size()};
    tracks.push_back({.pid = pid, .pending = {}});
    timeline::TrackDescriptor& descriptor = *packet.mutable_track_descriptor();
    descriptor.set_uuid(id.uuid);
    if (parent != 0) descriptor.set_parent_uuid(parent);
    return descriptor;
  }
  std::int32_t pid_of(TrackId group) const { return group.uuid < tracks.size() ? tracks[group.uuid].pid : 0; }

  TrackEvent& event(TrackId track, std::int64_t at_ns, TrackEvent::Type type) {
    packet.set_timestamp(static_cast<std::uint64_t>(at_ns));
    packet.mutable_track_event()->set_type(type);
    packet.mutable_track_event()->set_track_uuid(track.uuid);
    return *packet.mutable_track_event();
  }
  void name(TrackEvent& event, std::string_view text);
  void annotate(TrackEvent& event, Arguments arguments);
  /// Whether the event may be shown; counts it either way.
  bool take(std::int64_t at_ns);
  void point(TrackId track, std::int64_t at_ns, std::string_view text, Arguments arguments, TimelineFlow flow);
  void show_counter(TrackId counter, const CounterValue& value);
  void describe_limits();
};

void TimelineWriter::State::name(TrackEvent& event, std::string_view text) {
  const auto [id, fresh] = event_names.find(text);
  if (id == 0) return event.set_name(std::string(text));
  event.set_name_iid(id);
  packet.set_sequence_flags(TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
  if (!fresh) return;
  timeline::InternedName& entry = *packet.mutable_interned_data()->add_event_names();
  entry.set_iid(id);
  entry.set_name(std::string(text));
}

void TimelineWriter::State::annotate(TrackEvent& event, Arguments arguments) {
  for (const auto& [key, value] : arguments) {
    timeline::DebugAnnotation& annotation = *event.add_debug_annotations();
    annotation.set_int_value(value);
    const auto [id, fresh] = argument_names.find(key);
    if (id == 0) {
      annotation.set_name(std::string(key));
      continue;
    }
    annotation.set_name_iid(id);
    packet.set_sequence_flags(TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
    if (!fresh) continue;
    timeline::InternedName& entry = *packet.mutable_interned_data()->add_debug_annotation_names();
    entry.set_iid(id);
    entry.set_name(std::string(key));
  }
}

bool TimelineWriter::State::take(std::int64_t at_ns) {
  if (shown < options.max_events) return ++shown > 0;
  ++left_out;
  // Not the first to come: what waited (a counter's last value), or is drawn at its end (a slice), lies before that.
  full_at_ns = std::min(full_at_ns, at_ns);
  return false;
}

namespace {
void add_flow(TrackEvent& event, TimelineFlow flow) {
  if (flow.id == 0) return;
  if (flow.last)
    event.add_terminating_flow_ids(flow.id);
  else
    event.add_flow_ids(flow.id);
}
}  // namespace

void TimelineWriter::State::point(TrackId track, std::int64_t at_ns, std::string_view text, Arguments arguments,
                                  TimelineFlow flow) {
  TrackEvent& instant = event(track, at_ns, TrackEvent::INSTANT);
  name(instant, text);
  annotate(instant, arguments);
  add_flow(instant, flow);
  write();
}

void TimelineWriter::State::show_counter(TrackId counter, const CounterValue& value) {
  event(counter, value.at_ns, TrackEvent::COUNTER).set_double_counter_value(value.value);
  write();
}

TimelineWriter::TimelineWriter(const std::filesystem::path& path, const TimelineOptions& options)
    : state_(std::make_unique<State>(path, options)) {}
TimelineWriter::~TimelineWriter() = default;

TrackId TimelineWriter::group(std::string_view name) {
  TrackId id;
  timeline::TrackDescriptor& descriptor = state_->describe(id, 0, ++state_->groups);
  descriptor.mutable_process()->set_pid(state_->groups);
  descriptor.mutable_process()->set_process_name(std::string(name));
  state_->write();
  return id;
}

TrackId TimelineWriter::track(TrackId group, std::string_view name) {
  TrackId id;
  const std::int32_t pid = state_->pid_of(group);
  timeline::TrackDescriptor& descriptor = state_->describe(id, group.uuid, pid);
  descriptor.mutable_thread()->set_pid(pid);
  descriptor.mutable_thread()->set_tid(++state_->threads);
  descriptor.mutable_thread()->set_thread_name(std::string(name));
  state_->write();
  return id;
}

TrackId TimelineWriter::counter(TrackId group, std::string_view name, std::string_view unit) {
  TrackId id;
  timeline::TrackDescriptor& descriptor = state_->describe(id, group.uuid, state_->pid_of(group));
  descriptor.set_name(std::string(name));
  descriptor.mutable_counter()->set_unit_name(std::string(unit));
  state_->write();
  return id;
}

std::uint64_t TimelineWriter::new_flow() {
  return ++state_->flows;
}

void TimelineWriter::slice(TrackId track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
                           Arguments arguments, TimelineFlow flow) {
  if (end_ns < begin_ns) throw std::logic_error("timeline: a slice ends before it begins");
  const TimelineWindow& window = state_->options.window;
  const bool before = end_ns < window.begin_ns || (end_ns == window.begin_ns && begin_ns < end_ns);
  if (before || begin_ns >= window.end_ns) {
    ++state_->outside;
    return;
  }
  const std::int64_t shown_from_ns = std::max(begin_ns, window.begin_ns);
  if (!state_->take(shown_from_ns)) return;
  TrackEvent& begin = state_->event(track, shown_from_ns, TrackEvent::SLICE_BEGIN);
  state_->name(begin, name);
  state_->annotate(begin, arguments);
  add_flow(begin, flow);
  state_->write();
  state_->event(track, std::min(end_ns, window.end_ns), TrackEvent::SLICE_END);
  state_->write();
}

void TimelineWriter::instant(TrackId track, std::int64_t at_ns, std::string_view name, Arguments arguments,
                             TimelineFlow flow) {
  const TimelineWindow& window = state_->options.window;
  if (at_ns < window.begin_ns || at_ns >= window.end_ns) {
    ++state_->outside;
    return;
  }
  if (state_->take(at_ns)) state_->point(track, at_ns, name, arguments, flow);
}

void TimelineWriter::count(TrackId counter, std::int64_t at_ns, double value) {
  const TimelineWindow& window = state_->options.window;
  if (at_ns >= window.end_ns) {
    ++state_->outside;
    return;
  }
  std::optional<CounterValue>& pending = state_->tracks.at(counter.uuid).pending;
  const std::int64_t interval = state_->options.counter_interval_ns;
  // The value of before the window holds when it begins.
  if (at_ns < window.begin_ns) ++state_->outside;
  const CounterValue next{std::max(at_ns, window.begin_ns), value};
  const bool waits = interval > 0 || at_ns < window.begin_ns;
  if (pending) {
    const bool replaced =
        pending->at_ns == next.at_ns || (interval > 0 && pending->at_ns / interval == next.at_ns / interval);
    if (replaced)
      state_->sampled_away += at_ns >= window.begin_ns ? 1 : 0;
    else if (state_->take(pending->at_ns))
      state_->show_counter(counter, *pending);
    pending.reset();
  }
  if (waits)
    pending = next;
  else if (state_->take(at_ns))
    state_->show_counter(counter, next);
}

std::int64_t TimelineWriter::left_out() const {
  return state_->left_out;
}

std::size_t TimelineWriter::memory() const {
  return state_->file.memory() + state_->event_names.memory() + state_->argument_names.memory() +
         state_->tracks.capacity() * sizeof(Track);
}

/// Instants that say what is not shown, on a track of their own.
void TimelineWriter::State::describe_limits() {
  const TimelineWindow whole;
  const bool windowed = options.window.begin_ns != whole.begin_ns || options.window.end_ns != whole.end_ns;
  if (!windowed && options.counter_interval_ns == 0 && left_out == 0) return;
  TrackId group, track;
  timeline::TrackDescriptor& process = describe(group, 0, ++groups);
  process.mutable_process()->set_pid(groups);
  process.mutable_process()->set_process_name("what this timeline leaves out");
  write();
  timeline::TrackDescriptor& thread = describe(track, group.uuid, groups);
  thread.mutable_thread()->set_pid(groups);
  thread.mutable_thread()->set_tid(++threads);
  thread.mutable_thread()->set_thread_name("limits");
  write();
  if (windowed)
    point(track, options.window.begin_ns, "window: events outside are left out",
          {{"begin_ns", options.window.begin_ns}, {"end_ns", options.window.end_ns}, {"left_out", outside}}, {});
  if (options.counter_interval_ns > 0)
    point(track, options.window.begin_ns, "counters sampled: the last value of each interval is shown",
          {{"interval_ns", options.counter_interval_ns}, {"left_out", sampled_away}}, {});
  if (left_out > 0)
    point(track, full_at_ns, "timeline full: from here on events are left out",
          {{"shown", shown}, {"left_out", left_out}}, {});
}

void TimelineWriter::close() {
  if (std::exchange(state_->closed, true)) return state_->file.close();
  for (std::size_t uuid = 1; uuid < state_->tracks.size(); ++uuid) {
    std::optional<CounterValue>& pending = state_->tracks[uuid].pending;
    if (pending && state_->take(pending->at_ns)) state_->show_counter(TrackId{uuid}, *pending);
    pending.reset();
  }
  state_->describe_limits();
  state_->file.close();
}

}  // namespace orrery::sim
