// Why requests miss their latency targets: which target binds, and what makes it bind.
//
// TTFT: of the requests that miss it, the share of their TTFT that they waited to be admitted says whether the queue or
// the prompt itself is at fault; a queue stands behind full KV blocks or behind a busy device. TBT: an iteration gives
// every decode in it one gap as long as it lasts, so the iterations above the target are counted by their decodes, and
// divided into those that carry prompt chunks too and those that do not; iterations of prompts alone count by the
// decodes that wait for them. The host is at fault where it keeps the devices waiting for most of the time. All sums
// are whole numbers: how iterations are grouped into runs does not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/systems/serving/observe/metrics.hpp"

namespace orrery::experiments {

enum class Cause : std::uint8_t {
  none,
  prompt_chunk,  ///< prompt tokens beside decodes
  prompt_first,  ///< iterations of prompts alone, for which decodes wait
  decode_batch,  ///< decodes alone: too many of them, or too large a model
  host_memory,   ///< weights that are not in device memory
  host,          ///< what the CPU does between iterations
  preemption,    ///< decodes that were stopped and started again
  prompt,        ///< prompts take that long themselves
  queueing,      ///< behind a busy device
  kv_blocks,     ///< queueing behind a full KV cache
  rejection
};
constexpr auto enum_names(Cause) {
  using enum Cause;
  return sim::names<Cause>({{"none", none},
                            {"prompt_chunk", prompt_chunk},
                            {"prompt_first", prompt_first},
                            {"decode_batch", decode_batch},
                            {"host_memory", host_memory},
                            {"host", host},
                            {"preemption", preemption},
                            {"prompt", prompt},
                            {"queueing", queueing},
                            {"kv_blocks", kv_blocks},
                            {"rejection", rejection}});
}

/// The target that most requests miss.
struct Binding {
  std::string target;  ///< "ttft", "tbt", "rejection"; empty: none is missed
  Cause cause = Cause::none;
  double missed = 0;  ///< share of measured requests that miss it
  std::string text;   ///< for people: one line
};

/// What is asked of a run that is over.
struct WatchedRun {
  const ServingMetrics& metrics;
  const MachineFacts& machine;
  const std::vector<ReplicaResult>& replicas;
  double simulated_s;
};

/// Latencies that are asked for; which of them bind is asked of a run.
struct LatencyBounds {
  std::optional<double> ttft_s, tbt_s;
  double tick_s = 1e-12;  ///< of the run
};

/// Watches a run, and passes on what it sees.
class LatencyCauses final : public PassingObserver {
 public:
  /// `next` may be null.
  LatencyCauses(const LatencyBounds& bounds, RunObserver* next) : PassingObserver(next), bounds_(bounds) {}
  void request_ended(const RequestRecord& record) override;
  void iterations_ended(const IterationRun& run) override;

  /// After the run.
  Binding binding(const WatchedRun& run) const;
  /// The same of one of them: "ttft" or "tbt".
  Binding ttft(const WatchedRun& run) const;
  Binding tbt(const WatchedRun& run) const;

 private:
  /// Iterations above the target, counted by the decodes that have or await a token: sums over these gaps.
  struct LongGaps {
    __int128 gaps = 0, time_ps = 0, prompt_tokens = 0, decodes = 0;
    std::int64_t most_prompt = 0;
    double mean(__int128 sum) const { return static_cast<double>(sum) / static_cast<double>(gaps); }
  };

  LatencyBounds bounds_;
  LongGaps mixed_, alone_, prompts_;
  std::int64_t late_ = 0;  ///< requests above the bound for TTFT, and the sums of theirs
  __int128 late_wait_ = 0, late_ttft_ = 0, late_prompt_ = 0;
};

}  // namespace orrery::experiments
