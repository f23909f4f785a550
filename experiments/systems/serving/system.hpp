// The serving system: requests, the replicas that serve them, and what comes out.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/systems/serving/cluster/cluster.hpp"
#include "experiments/systems/serving/config/config.hpp"
#include "experiments/systems/serving/observe/expert_outcome.hpp"
#include "experiments/systems/serving/observe/kv_outcome.hpp"
#include "experiments/systems/serving/observe/latency_causes.hpp"
#include "experiments/systems/serving/observe/metrics.hpp"
#include "experiments/systems/serving/programs/program.hpp"

namespace orrery::experiments {

System serving_system();

/// A serving run without files: for benchmarks and tests.
struct ServingResult {
  ServingMetrics metrics;
  MachineFacts machine;
  std::vector<ReplicaResult> replicas;
  ClusterTotals totals;
  sim::Time end;
  double simulated_s = 0;
  std::uint64_t events = 0;
  KvOutcome kv;
  HostOutcome host;
  ExpertOutcome experts;                           ///< where devices do not hold all of them
  RoutedTotals routed;                             ///< where router choices are replayed
  std::optional<sim::Node> network;                ///< member `network`, where the machine has one
  __int128 wire_wait_ps = 0;                       ///< that iterations lasted longer because others sent too
  std::optional<TierOutcome> kv_tiers;             ///< where there are any
  std::int64_t free_blocks = 0, total_blocks = 0;  ///< of the KV caches when the run ended; prefixes count as free
  std::optional<ProgramMetrics> programs;          ///< of a load that is a program
  traces::SkipCounts skipped;                      ///< lines of the trace, under on_error "skip"
  // Where somebody watched for them (run_watched()):
  std::optional<Binding> binds;             ///< the target that binds, if there are targets
  std::optional<double> prompt_time_share;  ///< of device time

  WatchedRun watched() const { return {metrics, machine, replicas, simulated_s}; }
};

/// Energy of all devices, what they draw always included.
double total_joules(const ServingResult& result);

/// A design that does not fit.
struct Infeasible {
  std::string reason;
  std::int64_t needed_bytes = 0, available_bytes = 0;  ///< 0 where memory is not what is short
};

/// What one run does otherwise than its config says.
struct RunChange {
  std::int64_t replication = 0;      ///< added to the seed
  std::optional<double> rate_scale;  ///< in place of workload.rate_scale
  /// How many requests (of a program: instances) are sent, in place of workload.limit and of the number that the
  /// generator or the program has; of a trace no more than it holds.
  std::optional<std::int64_t> requests;
  std::int64_t skip = 0;       ///< requests of the trace that are left out beside those of workload.skip
  double slo_scale = 1;        ///< targets of `slo` times this, in what is measured (policies do not see it)
  std::vector<RunEnd> ends{};  ///< figures that end it before its time, by EndedEarly
};

/// The config made ready to run: part and model read, iteration model built, memory divided. Copies nothing between
/// runs, so it can run many times.
class ServingSetup {
 public:
  /// Throws sim::ConfigError for faults in the part or the model.
  explicit ServingSetup(const ServingConfig& config);
  ~ServingSetup();
  ServingSetup(ServingSetup&&) noexcept;
  ServingSetup& operator=(ServingSetup&&) noexcept;

  /// Set if the design does not fit; run() must then not be called.
  const std::optional<Infeasible>& infeasible() const;
  const MachineFacts& machine() const;
  /// Context the model was made for.
  std::int64_t model_positions() const;
  /// Replays the workload; `observer` may be null, `progress` empty. `replication` is added to the config's seed. Not
  /// for several threads at once: runs share the table of dense costs.
  ServingResult run(RunObserver* observer, const std::function<void(const Progress&)>& progress = {},
                    std::int64_t replication = 0) const {
    return run(observer, progress, RunChange{.replication = replication});
  }
  ServingResult run(RunObserver* observer, const std::function<void(const Progress&)>& progress,
                    const RunChange& change) const;

  /// For setup.cpp and setup_run.cpp.
  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// A run that is watched for what binds and for the device time of its tokens; `observer` (or null) sees it too.
ServingResult run_watched(const ServingConfig& config, const ServingSetup& setup, RunObserver* observer,
                          const std::function<void(const Progress&)>& progress, const RunChange& change);

/// Files whose content decides the result (Experiment::inputs), and what decides it wherever they lie (identity).
std::vector<std::filesystem::path> serving_inputs(const ServingConfig& config);
sim::Node serving_identity(const ServingConfig& config);
/// What a user should know of a config's part and model that its result does not say.
std::vector<std::string> serving_notes(const ServingConfig& config, const ServingSetup& setup);

/// summary.json of a run.
sim::Node summarise(const ServingResult& result, const sim::TickScale& scale);
/// Mean and half width of the 95 % interval (Student's t) of the main figures over replications: the member
/// `replications` of summary.json.
sim::Node summarise_replications(const std::vector<sim::Node>& summaries);
/// summary.json of a design that does not fit.
sim::Node summarise(const Infeasible& infeasible);
/// All figures of these.
std::vector<FigureInfo> serving_figures();

}  // namespace orrery::experiments
