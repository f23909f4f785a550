// Tracks for slices that overlap in time: each slice takes the first track that is free when it begins.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/timeline/timeline.hpp"

namespace orrery::experiments {

class TrackLanes {
 public:
  /// Tracks "NAME 0", "NAME 1" … of `group`, at most `most`.
  TrackLanes(sim::TrackId group, std::string name, std::size_t most)
      : group_(group), name_(std::move(name)), most_(most) {}

  /// The track for [begin_ns, end_ns), which is then taken; nothing if all are. Calls come in any order, but none may
  /// begin before the end of an earlier one on its track: a track is free from the latest end on.
  std::optional<sim::TrackId> take(sim::TimelineWriter& writer, std::int64_t begin_ns, std::int64_t end_ns) {
    auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.free_from_ns <= begin_ns; });
    if (lane == lanes_.end()) {
      if (lanes_.size() == most_) {
        ++left_out_;
        return std::nullopt;
      }
      lanes_.push_back({writer.track(group_, fmt::format("{} {}", name_, lanes_.size())), 0});
      lane = std::prev(lanes_.end());
    }
    lane->free_from_ns = end_ns;
    return lane->track;
  }
  /// Slices that found no track.
  std::int64_t left_out() const { return left_out_; }

 private:
  struct Lane {
    sim::TrackId track;
    std::int64_t free_from_ns = 0;
  };
  sim::TrackId group_;
  std::string name_;
  std::size_t most_;
  std::vector<Lane> lanes_;
  std::int64_t left_out_ = 0;
};

}  // namespace orrery::experiments
