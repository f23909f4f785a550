// A job in simulated time: its repetitions one after the other, ranks late where the config says so.
#pragma once

#include <memory>
#include <vector>

#include "experiments/systems/network/live_run.hpp"
#include "hw/network/collective_run.hpp"

namespace orrery::experiments::network {

class JobRunner final : private sim::EventHandler, private hw::CollectiveListener {
 public:
  /// `index` is the job's position in the config; job and run must outlive the runner.
  JobRunner(const Job& job, std::size_t index, LiveRun& run);
  /// Schedules the first repetition.
  void start();
  /// At the end of the run: what did not finish.
  void flush();
  bool done() const { return repetition_ == job_.params.repeat; }

 private:
  enum Event : std::uint64_t { kBegin, kClosedEnd };
  void on_event(std::uint64_t payload) override;
  void all_done() override;
  void begin();
  void record(std::optional<sim::Time> finished);

  const Job& job_;
  std::size_t index_;
  LiveRun& run_;
  sim::RandomStream lateness_;
  sim::Duration spread_, gap_;
  std::unique_ptr<hw::CollectiveRun> collective_;  // of the repetition under way, or the last one
  std::int64_t repetition_ = 0;                    // repetitions that are over
  bool under_way_ = false;
  sim::Time started_;
  std::vector<sim::Time> entered_, ended_;
};

}  // namespace orrery::experiments::network
