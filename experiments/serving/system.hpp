// The serving system: a trace of requests, one replica group, and what comes out.
#pragma once

#include <memory>

#include "experiments/experiment.hpp"
#include "experiments/serving/config.hpp"
#include "experiments/serving/kv_outcome.hpp"
#include "experiments/serving/metrics.hpp"

namespace orrery::experiments {

System serving_system();

/// A serving run without files: for benchmarks and tests.
struct ServingResult {
  ServingMetrics metrics;
  MachineFacts machine;
  std::vector<ReplicaResult> replicas;
  sim::Time end;
  double simulated_s = 0;
  std::uint64_t events = 0;
  KvOutcome kv;
  std::int64_t free_blocks = 0, total_blocks = 0;  ///< of the KV caches when the run ended; prefixes count as free
  traces::SkipCounts skipped;                      ///< lines of the trace, under on_error "skip"
};

/// A design that does not fit.
struct Infeasible {
  std::string reason;
  std::int64_t needed_bytes = 0, available_bytes = 0;  ///< 0 where memory is not what is short
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
                    std::int64_t replication = 0) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// summary.json of a run.
sim::Node summarise(const ServingResult& result, const sim::TickScale& scale);
/// Mean and half width of the 95 % interval (Student's t) of the main figures over replications: the member
/// `replications` of summary.json.
sim::Node summarise_replications(const std::vector<sim::Node>& summaries);
/// summary.json of a design that does not fit.
sim::Node summarise(const Infeasible& infeasible);

}  // namespace orrery::experiments
