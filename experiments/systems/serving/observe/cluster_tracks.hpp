// What a timeline shows of a cluster: choices of the router, KV caches on their way, replicas that fail, start and go.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "experiments/base/track_lanes.hpp"
#include "experiments/systems/serving/observe/run_events.hpp"
#include "sim/base/units.hpp"
#include "sim/timeline/timeline.hpp"

namespace orrery::experiments {

class ClusterTracks {
 public:
  /// `states`: of each replica, the group its track of states goes to.
  ClusterTracks(sim::TimelineWriter& writer, const sim::TickScale& scale, std::vector<sim::TrackId> groups);

  /// `flow`: of the request that it is about; 0: none.
  void draw(const ClusterEvent& event, std::uint64_t flow);
  /// Ends what goes on.
  void finish(std::int64_t end_ns);

 private:
  struct Replica {
    sim::TrackId group;
    std::optional<sim::TrackId> track;
    bool down = false;
    std::string_view power;  // empty: on
    std::string_view shown;  // empty: nothing
    std::int64_t since_ns = 0;
  };
  void change(Replica& replica, std::int64_t at_ns);
  void way(TrackLanes& lanes, const ClusterEvent& event, std::string_view name, std::uint64_t flow);

  sim::TimelineWriter& writer_;
  sim::TickScale scale_;
  sim::TrackId group_;
  std::optional<sim::TrackId> router_, up_;
  std::vector<Replica> replicas_;
  TrackLanes transfers_, migrations_;
};

}  // namespace orrery::experiments
