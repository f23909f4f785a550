// The files of a serving run, written as it goes: requests.csv, series.csv, timeline.pftrace (serving_timeline); and at
// its end energy.csv and distributions.csv. Memory stays constant however long the run.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/base/text_file.hpp"
#include "experiments/systems/serving/observe/metrics.hpp"
#include "experiments/systems/serving/observe/serving_timeline.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {

/// Facts the files need beside what the observer calls bring.
struct FileFacts {
  sim::TickScale scale;
  sim::Duration series_interval;
  std::optional<TimelineFacts> timeline;  ///< none: not written
  std::vector<StreamFacts> streams;       ///< at least one
};

class ServingFiles final : public RunObserver {
 public:
  /// Creates the files in `folder`.
  ServingFiles(const std::filesystem::path& folder, const FileFacts& facts);
  ~ServingFiles() override;

  void request_ended(const RequestRecord& record) override;
  void iterations_ended(const IterationRun& run) override;
  void power_changed(std::int32_t replica, sim::Time at, double share) override;
  bool wants_steps() const override { return timeline_ != nullptr; }
  void request_step(const RequestStep& step) override { timeline_->request_step(step); }
  void chunks_planned(std::int32_t stream, std::span<const ChunkStep> chunks) override {
    timeline_->chunks_planned(stream, chunks);
  }
  void cluster_event(const ClusterEvent& event) override { timeline_->cluster_event(event); }
  /// Completes and closes what is written as the run goes.
  void finish(sim::Time end);
  /// What there is to say of the timeline; after finish(). `iterations`: of the run.
  std::vector<std::string> notes(std::int64_t iterations) const;

 private:
  /// series.csv of one stream of iterations.
  struct Stream {
    StreamFacts facts;
    double watts = 0;  // idle power as of now
    // series.csv: the next grid point, and the energy of the interval before it
    sim::Time next_row, last_row;
    __int128 interval_energy_pj = 0;
    std::string rows;             // of all but the first stream, whose rows go to the file at once
    std::filesystem::path spill;  // where more of them are than memory should hold
  };

  void series_row(Stream& stream, sim::Time at, const IterationRecord& state, std::int64_t batch_tokens);
  void series_row(Stream& stream, sim::Time at, const IterationRecord& state, std::int64_t batch_tokens,
                  sim::Duration interval);
  void spill(Stream& stream);
  void advance_series(Stream& stream, const IterationRun& run);
  std::int64_t iteration_at(const IterationRun& run, sim::Time at) const;
  void idle_until(Stream& stream, sim::Time time);
  void advance_row(Stream& stream, std::int64_t steps);

  FileFacts facts_;
  std::filesystem::path folder_;
  BufferedFile requests_, series_;
  std::vector<Stream> streams_;
  std::unique_ptr<ServingTimeline> timeline_;  // null: none is wanted
};

/// energy.csv: joules and busy seconds of each device by operator class, and idle energy. Replicas take the devices of
/// their group of machine.devices in order.
void write_energy(const std::filesystem::path& path, const std::vector<ReplicaResult>& replicas,
                  const MachineFacts& machine, double simulated_s);
/// distributions.csv: `metric,quantile,value_s` at 200 even quantiles and the tail.
void write_distributions(const std::filesystem::path& path, const ServingMetrics& metrics);

}  // namespace orrery::experiments
