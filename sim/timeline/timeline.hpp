// Timelines that open in Perfetto (ui.perfetto.dev): tracks with slices, instants and counters, arrows between them.
//
// Times are simulated nanoseconds. Slices of one track must not overlap except by nesting; events may come in any order
// (the viewer sorts them). Names are written once and then referred to by number, packets are compressed in blocks as
// they come (`compressed_packets`, zlib): some 10 to 20 bytes a slice. That form was chosen over a gzip of the whole
// file because the file stays a plain Trace message whose blocks open one by one: a run that was cut off loses its last
// block only.
//
// Memory does not grow with events: one block, a compressor, up to 4,096 names (further ones are written out), and a
// few bytes a track. What is not shown is said in the file: a window, sampled counters and a cap leave an instant on a
// track of their own, with counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace orrery::sim {

/// A row of the timeline.
struct TrackId {
  std::uint64_t uuid = 0;
};

/// An arrow: it runs through all events that carry its id, in order of time, and ends at the one marked `last`, which
/// is to be recorded last. One that has no such event (it was left out, or never came) ends at an instant of its own on
/// a track "arrows that go on".
struct TimelineFlow {
  std::uint64_t id = 0;  ///< from TimelineWriter::new_flow(); 0: none
  bool last = false;
};

/// What part of the time is shown: [begin, end). Slices that reach over are clipped; counters start with their last
/// value before.
struct TimelineWindow {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::max();
};

struct TimelineOptions {
  TimelineWindow window;
  /// Of each counter only the last value in every such stretch is shown; 0: all.
  std::int64_t counter_interval_ns = 0;
  /// Slices, instants and counter values that are shown; those recorded later are counted and left out, and the
  /// earliest time of these is noted.
  std::int64_t max_events = 20'000'000;
  /// Size of the file, likewise. Up to a block (128 KiB) may be left free: how far it shrinks is not known beforehand.
  std::int64_t max_bytes = 256 << 20;
};

class TimelineWriter {
 public:
  using Argument = std::pair<std::string_view, std::int64_t>;
  using Arguments = std::initializer_list<Argument>;

  /// Creates the file. Throws std::runtime_error if it cannot.
  explicit TimelineWriter(const std::filesystem::path& path, const TimelineOptions& options = {});
  ~TimelineWriter();
  TimelineWriter(const TimelineWriter&) = delete;
  TimelineWriter& operator=(const TimelineWriter&) = delete;

  /// A group of tracks, shown together ("process" in the viewer).
  TrackId group(std::string_view name);
  /// A track of slices and instants inside a group.
  TrackId track(TrackId group, std::string_view name);
  /// A counter inside a group, with its unit.
  TrackId counter(TrackId group, std::string_view name, std::string_view unit);
  /// An arrow that no event carries yet.
  std::uint64_t new_flow();

  /// A slice [begin_ns, end_ns), begin <= end (else std::logic_error), with integer arguments that the viewer shows
  /// when it is selected.
  void slice(TrackId track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name, Arguments arguments = {},
             TimelineFlow flow = {}) {
    slice(track, begin_ns, end_ns, name, arguments, std::span(&flow, 1));
  }
  /// The same with several arrows.
  void slice(TrackId track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name, Arguments arguments,
             std::span<const TimelineFlow> flows);
  /// A point in time.
  void instant(TrackId track, std::int64_t at_ns, std::string_view name, Arguments arguments = {},
               TimelineFlow flow = {});
  /// The counter's value from `at_ns` on; times of one counter must not fall.
  void count(TrackId counter, std::int64_t at_ns, double value);

  /// Events that fell past `max_events` or `max_bytes`.
  std::int64_t left_out() const;
  /// Bytes held for writing: the same after 10^4 and after 10^9 events, but for arrows that have not ended.
  std::size_t memory() const;
  /// Writes what is left, with a note of what is not shown. Throws std::runtime_error if anything could not be written.
  /// Nothing may be recorded afterwards; a second call adds nothing.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery::sim
