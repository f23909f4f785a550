// Part of sim/timeline/reader: what stands in a file, event by event, and what it amounts to.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/timeline/reader.hpp"

namespace orrery::sim {

/// Beside the slices (without end, depth and parent) and counters of a Timeline, all in the order of the file.
struct TimelineEvents {
  static constexpr std::uint32_t kEnd = Timeline::kNone;  ///< in place of a slice: the end of one
  struct Event {
    std::int64_t at_ns = 0;
    std::uint32_t track = 0, slice = 0;
  };
  /// An arrow's number on a slice; `last`: it ends there.
  struct Carried {
    std::uint64_t flow = 0;
    std::uint32_t slice = 0;
    bool last = false;
  };
  std::unordered_map<std::uint64_t, std::uint32_t> by_uuid;  ///< tracks; looked up only
  std::vector<std::uint64_t> parents;                        ///< uuids, by track
  std::vector<Event> events;
  std::vector<Carried> carried;
};

inline void add_fault(Timeline& timeline, std::string text) {
  if (timeline.faults.size() < 100) timeline.faults.push_back(std::move(text));
}

/// Completes the timeline: ends, depths and parents of slices, their order, arrows, groups of tracks; with the faults.
void assemble(Timeline& out, TimelineEvents& in);

}  // namespace orrery::sim
