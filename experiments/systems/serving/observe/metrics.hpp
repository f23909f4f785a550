// What a serving run measures, as it goes: latencies of requests, tokens, costs, and the summary they become.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/systems/serving/observe/run_events.hpp"
#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "sim/base/document.hpp"
#include "sim/base/units.hpp"
#include "sim/statistics.hpp"
#include "sim/trend.hpp"
#include "traces/asked.hpp"

namespace orrery::experiments {

/// Whole ticks in ps; the most that there is where they are too many (106 days and more).
constexpr std::int64_t to_ps(__int128 ticks, std::int64_t ps_per_tick) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const __int128 ps = ticks * ps_per_tick;
  return ps < kMost ? static_cast<std::int64_t>(ps) : kMost;
}

/// Seconds of an exact sum of picoseconds, joules of one of picojoules.
constexpr double seconds_of(__int128 ps) {
  return static_cast<double>(ps) * 1e-12;
}
constexpr double joules_of(__int128 pj) {
  return static_cast<double>(pj) * 1e-12;
}

/// One request when it leaves the system (a row of requests.csv).
struct RequestRecord : traces::Asked {
  std::int64_t id = 0;
  sim::Time arrived;
  std::optional<sim::Time> admitted, first_token, finished;
  std::int64_t cached_tokens = 0;
  std::int32_t preemptions = 0, replica = 0;
  std::string_view status;  ///< "completed", "rejected:REASON" or "unfinished"
};

/// Consecutive iterations of the same batch when they end, and the state of the replica during them. Iteration i of
/// `count` (i from 0) lasts time_ps + i step_ps; the first starts at `start`, each next one where the one before ends.
struct IterationRun {
  sim::Time start;            ///< first tick not before the first one's start
  std::int64_t start_ps = 0;  ///< picoseconds by which it starts before that tick
  std::int64_t count = 1;
  std::int64_t time_ps = 0, step_ps = 0;
  std::int64_t energy_pj = 0, step_energy_pj = 0;  ///< dynamic, of all devices; of iteration i likewise
  std::int32_t replica = 0;
  std::int32_t stream = 0;  ///< iterations of one stream follow each other; every replica has one, or one a lane
  std::int64_t prefill_tokens = 0, decodes = 0;
  std::int64_t running = 0, waiting = 0;    ///< during the iterations; what arrives meanwhile ends the run of them
  std::int64_t kv_used_bytes = 0;           ///< at the start of the first
  std::int64_t kv_block_bytes = 0;          ///< blocks that decodes take on the way are this large …
  const std::int64_t* kv_growth = nullptr;  ///< … and iteration i > 0 takes kv_growth[(kv_phase + i) % kv_period]
  std::int64_t kv_phase = 0, kv_period = 0;
  std::int64_t chunks = 0;            ///< prompts that have a part in them
  const BatchShape* shape = nullptr;  ///< of the first iteration; null where it was cut short
  IterationModel* model = nullptr;    ///< that prices it
  std::span<const StageTime> stages;  ///< of a pipelined replica, where steps are wanted
};

/// One iteration of a run.
struct IterationRecord {
  sim::Time start, end;
  std::int32_t replica = 0;
  std::int64_t prefill_tokens = 0, decodes = 0;
  std::int64_t running = 0, waiting = 0;
  std::int64_t kv_used_bytes = 0;
  std::int64_t energy_pj = 0;
  std::int64_t chunks = 0;
};

/// Start of iteration i of a run (or, for i = count, the end of the last), in ps after `run.start`'s tick minus
/// start_ps.
std::int64_t elapsed_ps(const IterationRun& run, std::int64_t i);
/// Iteration i of a run by itself.
IterationRecord iteration(const IterationRun& run, std::int64_t i, std::int64_t ps_per_tick);

/// Whoever wants to see requests and iterations as they end: files, timelines, progress bars. How iterations are
/// grouped into runs is not to matter to an observer.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void request_ended(const RequestRecord&) {}
  virtual void iterations_ended(const IterationRun&) {}
  /// A replica's devices are switched on, or off to a share of their idle power.
  virtual void power_changed(std::int32_t /*replica*/, sim::Time /*at*/, double /*share*/) {}
  /// Whether the following are to be called; asked once, when the run begins.
  virtual bool wants_steps() const { return false; }
  virtual void request_step(const RequestStep&) {}
  /// A stream decided on its next iterations: the prompts in them. If they never end, the next call follows.
  virtual void chunks_planned(std::int32_t /*stream*/, std::span<const ChunkStep>) {}
  virtual void cluster_event(const ClusterEvent&) {}
};

/// Passes on what it is told, to another observer or to nobody: for those who watch beside one.
class PassingObserver : public RunObserver {
 public:
  explicit PassingObserver(RunObserver* next) : next_(next) {}
  void request_ended(const RequestRecord& record) override {
    if (next_ != nullptr) next_->request_ended(record);
  }
  void iterations_ended(const IterationRun& run) override {
    if (next_ != nullptr) next_->iterations_ended(run);
  }
  void power_changed(std::int32_t replica, sim::Time at, double share) override {
    if (next_ != nullptr) next_->power_changed(replica, at, share);
  }
  bool wants_steps() const override { return next_ != nullptr && next_->wants_steps(); }
  void request_step(const RequestStep& step) override { next_->request_step(step); }
  void chunks_planned(std::int32_t stream, std::span<const ChunkStep> chunks) override {
    next_->chunks_planned(stream, chunks);
  }
  void cluster_event(const ClusterEvent& event) override { next_->cluster_event(event); }

 private:
  RunObserver* next_;
};

/// Latency targets; absent means always attained.
struct SloTargets {
  std::optional<sim::Duration> ttft;
  std::optional<std::int64_t> tbt_ps;
};

/// The TBTs of one request, as far as its SLO needs them: the P99 (linear between ranks) is within the target or not,
/// and for that the number above the target and the two values next to it suffice.
class TbtVerdict {
 public:
  void add(std::int64_t gap, std::int64_t target, std::int64_t times = 1) {
    count_ += times;
    if (gap > target) {
      if (over_ == 0 || gap < least_over_) least_over_ = gap;
      over_ += times;
    } else if (gap > most_within_) {
      most_within_ = gap;
    }
  }
  /// `count` gaps at once, `over` of them above the target with `least_over` the least; `most_within` the greatest of
  /// the others.
  void add_many(std::int64_t count, std::int64_t over, std::int64_t least_over, std::int64_t most_within) {
    if (over > 0 && (over_ == 0 || least_over < least_over_)) least_over_ = least_over;
    if (count > over && most_within > most_within_) most_within_ = most_within;
    count_ += count;
    over_ += over;
  }
  bool attained(std::int64_t target) const;

 private:
  std::int64_t count_ = 0, over_ = 0, least_over_ = 0, most_within_ = 0;
};

/// Requests up to which percentiles of a figure that each has once are exact; past it they are within 0.05 %. Five
/// such figures of a million requests would take 150 MB.
inline constexpr std::int64_t kExactRequests = 200'000;

/// Requests of one priority past the warm-up.
struct PriorityMetrics {
  std::int64_t completed = 0, preemptions = 0;
  sim::SampleStats ttft{kExactRequests}, e2e{kExactRequests};  ///< in ticks
  sim::SampleStats tpot{kExactRequests};                       ///< in ps
};

/// Requests that met the SLO, and completed ones that missed a target; a request may miss both.
struct SloCounts {
  std::int64_t attained = 0, missed_ttft = 0, missed_tbt = 0;
  std::int64_t missed_tbt_preempted = 0;  ///< of those that miss TBT
};

/// Times in system by order of arrival.
struct ArrivalMetrics {
  sim::Time first = sim::kNever, last;  ///< of all that ended
  sim::PlaceMeans e2e_s;                ///< of completed ones
};

/// Counts and latencies of the requests of a run. Requests that arrived outside [warmup, measure_until) count in
/// totals, not in latencies.
struct RequestMetrics {
  std::int64_t ps_per_tick = 1;
  sim::Time warmup;
  sim::Time measure_until = sim::kNever;
  bool measures(sim::Time at) const { return at >= warmup && at < measure_until; }
  SloTargets slo;
  /// Its target for TTFT in ps.
  std::optional<std::int64_t> ttft_ps() const {
    return slo.ttft ? std::optional(to_ps(slo.ttft->ticks, ps_per_tick)) : std::nullopt;
  }
  std::int64_t arrived = 0, completed = 0, rejected = 0, preempted_requests = 0, preemptions = 0, unfinished = 0;
  std::int64_t measured = 0;  ///< past the warm-up: all that ended
  SloCounts verdicts;         ///< of these
  std::map<std::string, std::int64_t, std::less<>> rejected_by_reason;
  std::int64_t prompt_tokens = 0, output_tokens = 0;  ///< of completed requests
  std::int64_t cached_tokens = 0;                     ///< of these prompts, found in a cache
  sim::SampleStats ttft{kExactRequests}, e2e{kExactRequests}, queueing{kExactRequests};  ///< in ticks
  sim::SampleStats tpot{kExactRequests}, normalised{kExactRequests};  ///< in ps: they must not fall to whole coarse ticks
  sim::SampleStats tbt;                                               ///< in ps, one a token
  ArrivalMetrics arrivals;
  bool priorities = false;  ///< whether requests of each priority are told by themselves
  std::map<std::int32_t, PriorityMetrics> by_priority;

  /// Books a request that ended in whatever way.
  void request_ended(const RequestRecord& record, const TbtVerdict& tbts);
};

/// The same with what replicas did.
struct ServingMetrics : RequestMetrics {
  std::int64_t processed_tokens = 0;  ///< computed, recomputation included
  std::int64_t iterations = 0;
  std::int64_t verifications = 0, drafted_tokens = 0, accepted_tokens = 0;  ///< of speculation, a sequence and step
  RunCost cost;
  __int128 busy_ps = 0;  ///< summed over replicas
  std::int64_t kv_peak_bytes = 0;
};

/// Equal devices of the machine.
struct DeviceFacts {
  std::string part;
  std::int64_t devices = 1;
  std::int64_t used = 0;  ///< those that replicas use: the first ones
  double idle_watts = 0;  ///< of one
};

/// Equal replicas.
struct GroupFacts {
  std::string name, part, role;
  std::int64_t replicas = 1;
  std::int64_t device_group = 0;
  std::int64_t devices = 1;            ///< of one replica
  std::int64_t stages = 1;             ///< of its pipeline
  std::int64_t layouts = 1;            ///< that it switches between
  std::int64_t lanes = 1;              ///< micro-batches that pass it at once, or ranks that attend for themselves
  bool lock_step = false;              ///< of the latter: their iterations begin and end together
  double peak_flops = 0;               ///< of one device at the model's dtype
  double peak_bytes_per_s = 0;         ///< of one device's memory
  std::int64_t weight_bytes = 0;       ///< on one device (that with most of them)
  std::int64_t kv_capacity_bytes = 0;  ///< on one device
};

/// Facts that turn sums into ratios.
struct MachineFacts {
  std::vector<DeviceFacts> devices;
  std::vector<GroupFacts> groups;
  sim::Node passes;  ///< figures of the passes over the operator graph, by name; null where there is none

  std::int64_t replicas() const;
  double idle_watts() const;  ///< of all devices
  double peak_flops() const;  ///< of all devices that replicas use
  double peak_bytes_per_s() const;
};

/// What one replica did.
struct ReplicaResult {
  std::int64_t group = 0;
  std::int64_t requests = 0;       ///< that were sent to it
  std::int64_t completed = 0;      ///< that ended there with all their tokens
  std::int64_t output_tokens = 0;  ///< of these
  std::int64_t iterations = 0, processed_tokens = 0, preemptions = 0;
  std::int64_t kv_peak_bytes = 0;  ///< on one device
  __int128 busy_ps = 0;            ///< in which an iteration runs; of a pipeline the mean over stages
  __int128 off_ps = 0;             ///< in which it was switched off
  __int128 occupied_ps = 0;        ///< of a pipeline: in which anything is in it, …
  __int128 work_ps = 0;            ///< … and its stages' (or lock-stepped lanes') time at work, summed
  double off_power = 0;            ///< of a device while it is off, as a share of its idle power
  RunCost cost;
};

/// One named distribution in seconds.
struct Distribution {
  std::string_view name;
  const sim::SampleStats* samples;
  double unit_s;  ///< seconds of one unit of the samples
};
/// Those of summary.json and distributions.csv, in their order.
std::array<Distribution, 6> distributions(const ServingMetrics& metrics);

}  // namespace orrery::experiments
