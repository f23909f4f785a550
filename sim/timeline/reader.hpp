// A timeline read back, as Perfetto's viewer understands it: tracks, slices by depth, counters, arrows.
//
// Events are sorted by time, equal times by their order in the file; an end closes the innermost slice that is open on
// its track; names given by number are looked up in what the same packet sequence has said before. What the viewer
// would drop or misread, and what a file of ours must not hold, is listed in `faults`: a slice without an end, an end
// without a slice, a track or name that was never described, a counter without a unit, time that runs backwards in a
// counter, an arrow from nowhere or to nowhere, a field that is none of those of sim/timeline.proto.
//
// Read by hand and not by protobuf: a packet costs some tens of nanoseconds, and that the two agree is a test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace orrery::sim {

struct Timeline {
  enum class Kind : std::uint8_t { group, slices, counter };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Track {
    std::uint64_t uuid = 0;
    Kind kind = Kind::group;
    std::uint32_t group = kNone;  ///< in tracks
    std::string name, unit;
  };
  /// A slice, or an instant (which has no length, and nothing inside it).
  struct Slice {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::uint32_t track = 0, name = 0;  ///< in tracks and names
    std::uint32_t parent = kNone;       ///< the slice that it lies in
    std::uint32_t first_argument = 0, arguments = 0;
    std::int32_t depth = 0;
    bool instant = false;
  };
  struct Argument {
    std::uint32_t name = 0;
    std::int64_t value = 0;
  };
  struct Value {
    std::int64_t at_ns = 0;
    std::uint32_t track = 0;
    double value = 0;
  };
  /// One arrow; several of the same id make a way.
  struct Arrow {
    std::uint64_t id = 0;
    std::uint32_t from = 0, to = 0;  ///< in slices
  };

  std::vector<Track> tracks;
  std::vector<std::string> names;  ///< of slices and arguments
  std::vector<Slice> slices;       ///< by begin, equal ones as they stand in the file
  std::vector<Argument> arguments;
  std::vector<Value> values;  ///< of each counter by time
  std::vector<Arrow> arrows;  ///< by id and time
  std::int64_t packets = 0;
  std::vector<std::string> faults;  ///< at most 100

  std::span<const Argument> arguments_of(const Slice& slice) const {
    return {arguments.data() + slice.first_argument, slice.arguments};
  }
};

/// Reads a .pftrace file. Throws std::runtime_error, with the file's name, where it cannot be read, is no trace, or a
/// block of it does not inflate.
Timeline read_timeline(const std::filesystem::path& path);

}  // namespace orrery::sim
