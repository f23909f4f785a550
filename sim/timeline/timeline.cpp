#include "sim/timeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/timeline/block.hpp"
#include "timeline.pb.h"

namespace orrery::sim {
namespace {

using timeline::TracePacket;
using timeline::TrackEvent;

constexpr std::uint32_t kSequence = 1;      // all packets come from one writer
constexpr std::int64_t kEventBytes = 1536;  // of a slice and of what is said at the end, at most
constexpr std::int64_t kArrowBytes = 64;    // of one arrow on a slice, and of the end that it may lack
constexpr std::size_t kMaxNames = 4096;

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
/// By uuid, which is also the number of its process or thread: the viewer wants these to differ.
struct Track {
  std::optional<CounterValue> pending;  ///< of a counter: not shown yet, since a later one may take its place
};

}  // namespace

struct TimelineWriter::State {
  State(const std::filesystem::path& path, const TimelineOptions& wanted) : file(path), options(wanted) {}

  BlockFile file;
  TimelineOptions options;
  Names event_names, argument_names;
  std::vector<Track> tracks{1};  // uuids start at 1
  std::uint64_t flows = 0;
  bool started = false, closed = false, full = false;
  std::set<std::uint64_t> open_flows;  // shown, and not ended
  std::int64_t latest_ns = 0;          // of what is shown
  std::int64_t shown = 0, left_out = 0, outside = 0, sampled_away = 0;
  std::int64_t full_at_ns = std::numeric_limits<std::int64_t>::max();  // the earliest event that was left out
  TrackId notes;                                                       // the group of what is said at the end
  TracePacket packet;  // used again and again: its parts keep their memory

  void write() {
    packet.set_trusted_packet_sequence_id(kSequence);
    if (!started) packet.set_sequence_flags(packet.sequence_flags() | TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    started = true;
    file.write(packet);
    packet.Clear();
  }
  timeline::TrackDescriptor& describe(TrackId& id, std::uint64_t parent) {
    id = {tracks.size()};
    tracks.emplace_back();
    timeline::TrackDescriptor& descriptor = *packet.mutable_track_descriptor();
    descriptor.set_uuid(id.uuid);
    if (parent != 0) descriptor.set_parent_uuid(parent);
    return descriptor;
  }
  TrackId group(std::string_view name) {
    TrackId id;
    timeline::ProcessDescriptor& process = *describe(id, 0).mutable_process();
    process.set_pid(static_cast<std::int32_t>(id.uuid));
    process.set_process_name(std::string(name));
    write();
    return id;
  }
  TrackId track(TrackId group, std::string_view name) {
    TrackId id;
    timeline::ThreadDescriptor& thread = *describe(id, group.uuid).mutable_thread();
    thread.set_pid(static_cast<std::int32_t>(group.uuid));
    thread.set_tid(static_cast<std::int32_t>(id.uuid));
    thread.set_thread_name(std::string(name));
    write();
    return id;
  }

  TrackEvent& event(TrackId track, std::int64_t at_ns, TrackEvent::Type type) {
    packet.set_timestamp(static_cast<std::uint64_t>(at_ns));
    latest_ns = std::max(latest_ns, at_ns);
    packet.mutable_track_event()->set_type(type);
    packet.mutable_track_event()->set_track_uuid(track.uuid);
    return *packet.mutable_track_event();
  }
  void name(TrackEvent& event, std::string_view text);
  void annotate(TrackEvent& event, Arguments arguments);
  void add_flow(TrackEvent& event, TimelineFlow flow);
  /// Whether the event may be shown; counts it either way.
  bool take(std::int64_t at_ns, std::size_t arrows = 0);
  void point(TrackId track, std::int64_t at_ns, std::string_view text, Arguments arguments, TimelineFlow flow);
  void show_counter(TrackId counter, const CounterValue& value);
  TrackId note_track(std::string_view name);
  void end_arrows();
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

bool TimelineWriter::State::take(std::int64_t at_ns, std::size_t arrows) {
  const std::int64_t ends = static_cast<std::int64_t>(open_flows.size() + arrows) * kArrowBytes;
  full = full || shown >= options.max_events || file.size() + ends + kEventBytes > options.max_bytes;
  if (!full) return ++shown > 0;
  ++left_out;
  // Not the first to come: what waited (a counter's last value), or is drawn at its end (a slice), lies before that.
  full_at_ns = std::min(full_at_ns, at_ns);
  return false;
}

void TimelineWriter::State::add_flow(TrackEvent& event, TimelineFlow flow) {
  if (flow.id == 0) return;
  if (flow.last) {
    // Where it came from may lie outside of what is shown: there is then no arrow to end.
    if (open_flows.erase(flow.id) > 0) event.add_terminating_flow_ids(flow.id);
  } else {
    event.add_flow_ids(flow.id);
    open_flows.insert(flow.id);
  }
}

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
  return state_->group(name);
}

TrackId TimelineWriter::track(TrackId group, std::string_view name) {
  return state_->track(group, name);
}

TrackId TimelineWriter::counter(TrackId group, std::string_view name, std::string_view unit) {
  TrackId id;
  timeline::TrackDescriptor& descriptor = state_->describe(id, group.uuid);
  descriptor.set_name(std::string(name));
  descriptor.mutable_counter()->set_unit_name(std::string(unit));
  state_->write();
  return id;
}

std::uint64_t TimelineWriter::new_flow() {
  return ++state_->flows;
}

void TimelineWriter::slice(TrackId track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
                           Arguments arguments, std::span<const TimelineFlow> flows) {
  if (end_ns < begin_ns) throw std::logic_error("timeline: a slice ends before it begins");
  const TimelineWindow& window = state_->options.window;
  const bool before = end_ns < window.begin_ns || (end_ns == window.begin_ns && begin_ns < end_ns);
  if (before || begin_ns >= window.end_ns) {
    ++state_->outside;
    return;
  }
  const std::int64_t shown_from_ns = std::max(begin_ns, window.begin_ns);
  if (!state_->take(shown_from_ns, flows.size())) return;
  TrackEvent& begin = state_->event(track, shown_from_ns, TrackEvent::SLICE_BEGIN);
  state_->name(begin, name);
  state_->annotate(begin, arguments);
  for (const TimelineFlow& flow : flows) state_->add_flow(begin, flow);
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
         state_->tracks.capacity() * sizeof(Track) + state_->open_flows.size() * 48;
}

TrackId TimelineWriter::State::note_track(std::string_view name) {
  if (notes.uuid == 0) notes = group("what this timeline leaves out");
  return track(notes, name);
}

/// Arrows whose last event is not shown end here: what begins also ends.
void TimelineWriter::State::end_arrows() {
  if (open_flows.empty()) return;
  const TrackId track = note_track("arrows that go on");
  const std::set<std::uint64_t> left = open_flows;  // each leaves as it ends
  for (const std::uint64_t flow : left) point(track, latest_ns, "goes on", {}, {flow, true});
}

/// Instants that say what is not shown, on a track of their own.
void TimelineWriter::State::describe_limits() {
  const TimelineWindow whole;
  const bool windowed = options.window.begin_ns != whole.begin_ns || options.window.end_ns != whole.end_ns;
  if (!windowed && options.counter_interval_ns == 0 && left_out == 0) return;
  const TrackId track = note_track("limits");
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
  state_->end_arrows();
  state_->describe_limits();
  state_->file.close();
}

}  // namespace orrery::sim
