// The files of a serving run, written as it goes: requests.csv, series.csv, timeline.pftrace; and at its end energy.csv
// and distributions.csv. Memory stays constant however long the run.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/serving/metrics.hpp"
#include "experiments/text_file.hpp"
#include "sim/base/units.hpp"
#include "sim/timeline.hpp"

namespace orrery::experiments {

/// What the files show of a replica's iterations (or of one lane of a pipelined one).
struct StreamFacts {
  std::int32_t replica = 0;
  std::string name;       ///< of its group of tracks
  double idle_watts = 0;  ///< of its devices; what no replica uses counts with the first
};

/// Facts the files need beside what the observer calls bring.
struct FileFacts {
  sim::TickScale scale;
  sim::Duration series_interval;
  std::optional<sim::TimelineOptions> timeline;  ///< none: not written
  std::int64_t timeline_iterations = 0;          ///< that it shows at most, from the start of its window
  std::vector<StreamFacts> streams;              ///< at least one
};

class ServingFiles final : public RunObserver {
 public:
  /// Creates the files in `folder`.
  ServingFiles(const std::filesystem::path& folder, const FileFacts& facts);
  ~ServingFiles() override;

  void request_ended(const RequestRecord& record) override;
  void iterations_ended(const IterationRun& run) override;
  void power_changed(std::int32_t replica, sim::Time at, double share) override;
  /// Completes and closes what is written as the run goes.
  void finish(sim::Time end);
  /// Whether iterations of the timeline's window are missing from it, and how many it shows.
  bool timeline_truncated() const { return truncated_ && timeline_; }
  std::int64_t timeline_iterations() const { return drawn_; }

 private:
  /// series.csv and timeline.pftrace of one stream of iterations.
  struct Stream {
    StreamFacts facts;
    double watts = 0;  // idle power as of now
    // series.csv: the next grid point, and the energy of the interval before it
    sim::Time next_row, last_row;
    __int128 interval_energy_pj = 0;
    std::string rows;             // of all but the first stream, whose rows go to the file at once
    std::filesystem::path spill;  // where more of them are than memory should hold
    // timeline.pftrace
    sim::TrackId iterations, running, waiting, kv, power;
  };

  void series_row(Stream& stream, sim::Time at, const IterationRecord& state, std::int64_t batch_tokens);
  void series_row(Stream& stream, sim::Time at, const IterationRecord& state, std::int64_t batch_tokens,
                  sim::Duration interval);
  void spill(Stream& stream);
  void advance_series(Stream& stream, const IterationRun& run);
  std::int64_t iteration_at(const IterationRun& run, sim::Time at) const;
  void idle_until(Stream& stream, sim::Time time);
  void open_timeline(const std::filesystem::path& path);
  void advance_row(Stream& stream, std::int64_t steps);
  void draw_iteration(const Stream& stream, const IterationRecord& record);
  void draw_request(const RequestRecord& record);
  std::int64_t ns(sim::Time time) const;

  FileFacts facts_;
  std::filesystem::path folder_;
  BufferedFile requests_, series_;
  std::vector<Stream> streams_;
  std::unique_ptr<sim::TimelineWriter> timeline_;
  sim::TrackId lanes_group_;
  struct Lane {
    sim::TrackId track;
    sim::Time free_from;
  };
  std::vector<Lane> lanes_;
  std::int64_t drawn_ = 0;
  bool truncated_ = false;
};

/// energy.csv: joules and busy seconds of each device by operator class, and idle energy. Replicas take the devices of
/// their group of machine.devices in order.
void write_energy(const std::filesystem::path& path, const std::vector<ReplicaResult>& replicas,
                  const MachineFacts& machine, double simulated_s);
/// distributions.csv: `metric,quantile,value_s` at 200 even quantiles and the tail.
void write_distributions(const std::filesystem::path& path, const ServingMetrics& metrics);

}  // namespace orrery::experiments
