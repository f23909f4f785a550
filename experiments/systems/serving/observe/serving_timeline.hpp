// timeline.pftrace of a serving run (docs/explain/timeline.md): iterations of each replica with what was in them,
// stages of pipelines, operators of the first few, counters; requests by phase, with an arrow from each through every
// iteration that had a part of its prompt to the one that ended it; what happens in the cluster.
//
// Written as the run goes. An iteration is held back until the next one of its stream, so that requests which it ends
// can be tied to it. A request is drawn when it ends; what is kept of those under way is a few words each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/base/track_lanes.hpp"
#include "experiments/systems/serving/observe/cluster_tracks.hpp"
#include "experiments/systems/serving/observe/metrics.hpp"
#include "sim/timeline/timeline.hpp"

namespace orrery::experiments {

/// What the files show of a replica's iterations (or of one lane of a pipelined one).
struct StreamFacts {
  std::int32_t replica = 0;
  std::string name;         ///< of its group of tracks
  double idle_watts = 0;    ///< of its devices, which are switched off with it
  double other_watts = 0;   ///< of devices that no replica uses: they count with the first, and stay on
  std::int64_t stages = 1;  ///< of its pipeline
  double watts(double share) const { return idle_watts * share + other_watts; }
};

struct TimelineFacts {
  sim::TimelineOptions options;
  std::int64_t iterations = 0;          ///< shown at most, from the start of the window
  std::int64_t operators = 0;           ///< of each stream, the iterations whose operators are shown, …
  std::int64_t operators_begin_ns = 0;  ///< … the first that begin from here on
};

class ServingTimeline {
 public:
  /// Creates the file. Throws std::runtime_error if it cannot.
  ServingTimeline(const std::filesystem::path& path, const TimelineFacts& facts, const sim::TickScale& scale,
                  const std::vector<StreamFacts>& streams);

  void request_step(const RequestStep& step);
  void chunks_planned(std::int32_t stream, std::span<const ChunkStep> chunks);
  /// `idle_watts`: what the stream's devices draw as it is.
  void iterations_ended(const IterationRun& run, double idle_watts);
  void cluster_event(const ClusterEvent& event);
  void request_ended(const RequestRecord& record);
  /// Draws what was held back, and closes the file.
  void finish(sim::Time end);
  /// What the user is to know of what is not shown. `iterations`: of the run.
  std::vector<std::string> notes(std::int64_t iterations) const;

 private:
  struct Arrival {
    std::int64_t request = 0, at_ns = 0;
    std::uint64_t flow = 0;
  };
  struct Held {
    bool any = false;
    IterationRecord record;
    double idle_watts = 0;
    std::vector<sim::TimelineFlow> flows;
    std::vector<Arrival> arrivals;  // of requests whose arrow leads to it first
  };
  /// A counter, and its last value: it is drawn where it changes.
  struct Level {
    sim::TrackId track;
    std::optional<double> last;
  };
  struct Stream {
    std::int32_t replica = 0;
    sim::TrackId group, iterations;
    Level running, waiting, tokens, kv, power;
    std::optional<sim::TrackId> operators;
    std::vector<sim::TrackId> stages;  // of the first lane of a replica
    std::vector<ChunkStep> chunks;     // of what was planned
    std::int64_t operators_left = 0;
    Held held;
  };
  struct Phase {
    std::int64_t at_ns;
    RequestPhase phase;
  };
  /// A request under way.
  struct Way {
    std::int64_t arrived_ns = 0;
    std::uint64_t flow = 0;
    std::int64_t first_chunk_ns = -1;             // begin of the first iteration that it had a part in
    std::int32_t stream = -1, chunk_stream = -1;  // where it is, and where a chunk of it was last
    std::vector<Phase> phases;
  };

  std::int64_t ns(sim::Time time) const;
  void hold(Stream& stream, const IterationRecord& record, double idle_watts);
  void flush(Stream& stream);
  void count(Level& level, std::int64_t at_ns, double value);
  void draw_operators(Stream& stream, const IterationRun& run, std::int64_t i, const IterationRecord& record);
  void draw_stages(Stream& stream, const IterationRun& run);
  void draw_request(std::int64_t id, const Way& way, std::int64_t end_ns, const RequestRecord* record);
  void end_arrow(const Way& way, std::int64_t finished_ns);
  void reject(const RequestRecord& record);
  void draw_rejections();
  void cut();

  TimelineFacts facts_;
  sim::TickScale scale_;
  sim::TimelineWriter writer_;
  std::vector<Stream> streams_;
  std::vector<std::size_t> first_lane_;  // of each replica, in streams_
  std::optional<ClusterTracks> cluster_;
  sim::TrackId requests_;
  std::optional<sim::TrackId> arrivals_;
  std::optional<TrackLanes> lanes_;
  std::map<std::int64_t, Way> under_way_;
  struct Rejection {
    std::int64_t at_ns = 0, request = 0, prompt_tokens = 0;
    std::uint64_t flow = 0;
    std::string status;
  };
  std::vector<Rejection> rejections_;  // written at the end: between iterations, leaps and steps write at other places
  std::int64_t drawn_ = 0, last_ns_ = 0;
  bool over_ = false;  // nothing more is shown
};

}  // namespace orrery::experiments
