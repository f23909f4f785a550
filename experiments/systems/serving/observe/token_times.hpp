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
    const std::int64_t tokens = run.prefill_tokens + run.decodes;
    if (tokens == 0) return;
    const double time_s = static_cast<double>(elapsed_ps(run, run.count)) * 1e-12;
    const double prompt = static_cast<double>(run.prefill_tokens) / static_cast<double>(tokens);
    prompt_s_ += time_s * prompt;
    output_s_ += time_s * (1 - prompt);
  }
  /// Share of it that goes to prompt tokens; 0 before anything ran.
  double prompt_share() const { return prompt_s_ + output_s_ > 0 ? prompt_s_ / (prompt_s_ + output_s_) : 0; }

 private:
  double prompt_s_ = 0, output_s_ = 0;
};

}  // namespace orrery::experiments
