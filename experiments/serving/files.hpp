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

/// Facts the files need beside what the observer calls bring.
struct FileFacts {
  sim::TickScale scale;
  sim::Duration series_interval;
  std::optional<sim::TimelineOptions> timeline;  ///< none: not written
  std::int64_t timeline_iterations = 0;          ///< that it shows at most, from the start of its window
  double idle_watts = 0;                         ///< of all devices
};

class ServingFiles final : public RunObserver {
 public:
  /// Creates the files in `folder`.
  ServingFiles(const std::filesystem::path& folder, const FileFacts& facts);
  ~ServingFiles() override;

  void request_ended(const RequestRecord& record) override;
  void iterations_ended(const IterationRun& run) override;
  /// Completes and closes what is written as the run goes.
  void finish(sim::Time end);
  /// Whether iterations of the timeline's window are missing from it, and how many it shows.
  bool timeline_truncated() const { return truncated_ && timeline_; }
  std::int64_t timeline_iterations() const { return drawn_; }

 private:
  void series_row(sim::Time at, const IterationRecord& state, std::int64_t batch_tokens);
  void series_row(sim::Time at, const IterationRecord& state, std::int64_t batch_tokens, sim::Duration interval);
  void advance_series(const IterationRun& run);
  std::int64_t iteration_at(const IterationRun& run, sim::Time at) const;
  void idle_until(sim::Time time);
  void open_timeline(const std::filesystem::path& path);
  void advance_row(std::int64_t steps);
  void draw_iteration(const IterationRecord& record);
  void draw_request(const RequestRecord& record);
  std::int64_t ns(sim::Time time) const;

  FileFacts facts_;
  BufferedFile requests_, series_;
  // series.csv: the next grid point, and the energy of the interval before it
  sim::Time next_row_, last_row_;
  __int128 interval_energy_pj_ = 0;
  // timeline.pftrace
  std::unique_ptr<sim::TimelineWriter> timeline_;
  sim::TrackId group_, lanes_group_, iterations_, running_, waiting_, kv_, power_;
  struct Lane {
    sim::TrackId track;
    sim::Time free_from;
  };
  std::vector<Lane> lanes_;
  std::int64_t drawn_ = 0;
  bool truncated_ = false;
};

/// energy.csv: joules and busy seconds of each device by operator class, and idle energy.
void write_energy(const std::filesystem::path& path, const ServingMetrics& metrics, const MachineFacts& machine,
                  const std::string& part, double simulated_s);
/// distributions.csv: `metric,quantile,value_s` at 200 even quantiles and the tail.
void write_distributions(const std::filesystem::path& path, const ServingMetrics& metrics);

}  // namespace orrery::experiments
