// Ends a serving run once a figure of its requests is certain to be beyond a bound.
#pragma once

#include <string>
#include <vector>

#include "experiments/base/early_end.hpp"
#include "experiments/systems/serving/observe/metrics.hpp"

namespace orrery::experiments {

/// Distributions that have one value a request, so that it is known how many there will be; and SLO attainment.
EndFigures end_figures();

class EarlyEnd final : public PassingObserver {
 public:
  /// `requests`: the most that there will be. `metrics`, the run's, hear of a request before this does. Other figures
  /// than end_figures() do not end a run.
  EarlyEnd(RunObserver* next, const std::vector<RunEnd>& ends, std::int64_t requests, const ServingMetrics& metrics);
  /// Throws EndedEarly.
  void request_ended(const RequestRecord& record) override;

 private:
  struct Watched {
    const RunEnd* end;
    std::string distribution;
    CertainlyAbove above;
  };
  std::optional<double> value_of(const RequestRecord& record, std::string_view distribution) const;
  bool attains_too_few(double least) const;
  double so_far(const RunEnd& on) const;
  [[noreturn]] void end(const RunEnd& on) const;

  const ServingMetrics& metrics_;
  std::vector<Watched> all_;
  const RunEnd* attainment_ = nullptr;
  std::int64_t requests_, ended_ = 0;
};

}  // namespace orrery::experiments
