// What a replica counts, what its iterations cost, and what whoever watches the run is told of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "experiments/systems/serving/observe/expert_outcome.hpp"
#include "experiments/systems/serving/observe/host_outcome.hpp"
#include "experiments/systems/serving/observe/kv_outcome.hpp"
#include "experiments/systems/serving/replica/parts.hpp"
#include "experiments/systems/serving/replica/sequence_table.hpp"

namespace orrery::experiments {

/// What one replica (or lane) counts for itself.
struct ReplicaCounts {
  std::int64_t iterations = 0, processed_tokens = 0, preemptions = 0, kv_peak_bytes = 0;
  __int128 busy_ps = 0;
  KvSplit split;                   ///< where the cache reports it
  HostOutcome host;                ///< of whole iterations
  RoutedTotals routed;             ///< where router choices are replayed
  ExpertOutcome experts;           ///< where the devices do not hold all of them
  __int128 wire_wait_ps = 0;       ///< that they lasted longer because others sent too
  __int128 swap_stall_ps = 0;      ///< that iterations waited for copies to and from tiers
  std::int64_t prompt_tokens = 0;  ///< of first admissions, …
  std::int64_t device_tokens = 0;  ///< … and what the cache had of them on the device
};

class Books {
 public:
  explicit Books(const ReplicaParts& parts);

  ReplicaCounts& counts() { return counts_; }
  const ReplicaCounts& counts() const { return counts_; }
  /// Of what was booked.
  RunCost cost() const { return ledger_->total(); }

  /// Iterations of `shape` and those that follow it are over.
  void iterations(const BatchShape& shape, std::int64_t steps);
  /// Devices were at work so long.
  void busy(std::int64_t ps);
  /// An iteration lasted so much longer than where nobody else sends.
  void waited(std::int64_t ps) { counts_.wire_wait_ps += std::max<std::int64_t>(0, ps); }
  /// An iteration of `length` was cut after `elapsed`.
  void cut(const BatchShape& shape, std::int64_t elapsed, std::int64_t length);
  void kv_used(std::int64_t bytes);

  /// Somebody watches iterations, and steps too.
  bool observed() const { return observer_ != nullptr; }
  bool watched() const { return watched_; }
  /// If watched().
  void tell(const Request& request, RequestPhase phase, sim::Time at);
  /// The prompts of the iterations decided upon; if watched().
  void tell_chunks(const policies::BatchDecision& decision, const SequenceTable& sequences);
  /// When the stages of a pipeline have the iteration decided upon; if watched().
  void keep_stages(const std::vector<StageTime>& times) { stage_times_ = times; }
  /// Fills in what all runs of this replica have in common; if observed().
  void tell_iterations(IterationRun& run);
  IterationModel& model() const { return model_; }

 private:
  void book_choices(const BatchShape& shape, std::int64_t steps);

  ServingMetrics& metrics_;
  RunObserver* observer_;
  IterationModel& model_;
  const RouterReplay* replay_;
  ExpertMemory* experts_;
  Rebalancer* rebalancer_;
  std::int32_t lane_, index_, stream_, layers_;
  std::unique_ptr<CostLedger> ledger_;
  ReplicaCounts counts_;
  bool watched_;
  std::vector<ChunkStep> chunks_;                 // that an observer is told of
  std::vector<StageTime> stage_times_;            // of the iteration under way
  std::vector<RouterReplay::Stretch> stretches_;  // of a segment's tokens, …
  std::vector<std::int64_t> rows_;                // … and rows of a layer's experts
};

}  // namespace orrery::experiments
