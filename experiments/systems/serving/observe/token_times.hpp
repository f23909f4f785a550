// The device time of tokens: an iteration's time goes in equal parts to the tokens that it computes.
#pragma once

#include "experiments/systems/serving/observe/metrics.hpp"

namespace orrery::experiments {

/// Watches a run, and passes on what it sees.
class TokenTimes final : public PassingObserver {
 public:
  /// `next` may be null.
  explicit TokenTimes(RunObserver* next) : PassingObserver(next) {}
  void iterations_ended(const IterationRun& run) override {
    PassingObserver::iterations_ended(run);
    if (run.prefill_tokens + run.decodes == 0) return;
    all_ps_ += elapsed_ps(run, run.count);
    if (run.prefill_tokens == 0) return;
    // Rounded iteration by iteration, so that runs of many give what one after the other does.
    for (std::int64_t i = 0; i < run.count; ++i)
      prompt_ps_ += static_cast<__int128>(run.time_ps + i * run.step_ps) * run.prefill_tokens /
                    (run.prefill_tokens + run.decodes);
  }
  /// Share of it that goes to prompt tokens; 0 before anything ran.
  double prompt_share() const { return all_ps_ > 0 ? seconds_of(prompt_ps_) / seconds_of(all_ps_) : 0; }

 private:
  __int128 prompt_ps_ = 0, all_ps_ = 0;
};

}  // namespace orrery::experiments
