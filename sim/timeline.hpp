// Timelines that open in Perfetto (ui.perfetto.dev): tracks with slices and counters, written as they come.
//
// Times are simulated nanoseconds. Slices of one track must not overlap except by nesting, and events of a track come
// in order of time. Nothing is kept in memory but the file's buffer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace orrery::sim {

/// A row of the timeline.
struct TrackId {
  std::uint64_t uuid = 0;
};

class TimelineWriter {
 public:
  using Argument = std::pair<std::string_view, std::int64_t>;

  /// Creates the file. Throws std::runtime_error if it cannot.
  explicit TimelineWriter(const std::filesystem::path& path);

  /// A group of tracks, shown together ("process" in the viewer).
  TrackId group(std::string_view name);
  /// A track of slices inside a group.
  TrackId track(TrackId group, std::string_view name);
  /// A counter inside a group, with its unit.
  TrackId counter(TrackId group, std::string_view name, std::string_view unit);

  /// A slice [begin_ns, end_ns) with integer arguments that the viewer shows when it is selected.
  void slice(TrackId track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
             std::initializer_list<Argument> arguments = {});
  void count(TrackId counter, std::int64_t at_ns, double value);
  /// Flushes. Throws std::runtime_error if anything could not be written.
  void close();

 private:
  template <class Packet>
  void write(const Packet& packet);

  std::filesystem::path path_;
  std::ofstream file_;
  std::string buffer_;
  std::uint64_t next_uuid_ = 1;
  std::int32_t groups_ = 0;
  std::int32_t threads_ = 0;
};

}  // namespace orrery::sim
