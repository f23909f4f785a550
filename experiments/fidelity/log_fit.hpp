// Constants of an engine fitted to a log of requests: the config's run is replayed with the log's arrivals and lengths,
// and the named constants are moved until TTFT and TPOT of its requests are those of the log.
//
// At most kMostConstants, since a log has few independent things to say: queues make every request's latency follow
// from those before. For the same reason the interval is no curvature of the loss but a jackknife: the log is cut into
// kStretches stretches of consecutive requests, the fit is made anew with the residuals of one stretch left out (its
// requests are replayed all the same), and the spread of the fits gives the standard error; 1.96 of them either way.
// What a fit to the first two thirds says of the last third is stated beside it.
// Source of the method: Kunsch, The Jackknife and the Bootstrap for General Stationary Observations (1989).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/fit.hpp"
#include "experiments/fidelity/request_log.hpp"
#include "sim/base/document.hpp"

namespace orrery::experiments {

inline constexpr std::size_t kMostConstants = 3;
inline constexpr std::size_t kStretches = 10;

struct LogFitOptions {
  std::string config;                  ///< file of a serving experiment
  std::string log;                     ///< file
  std::vector<std::string> constants;  ///< "host.vllm_v1.request" or "host.vllm_v1.request=MIN:MAX" (SI)
  FitOptions fit;
};

struct LogFit {
  struct Constant {
    std::string path;
    std::string unit;                               ///< of its figures, as the resolved config writes it
    double was = 0, fitted = 0, low = 0, high = 0;  ///< low and high: the interval
    bool at_bound = false;
    bool idle = false;  ///< nothing of the run changes near there: not fitted
  };
  /// Mean over requests, and mean |predicted / measured - 1| of each, as fractions of the measured.
  struct Errors {
    double ttft_mean = 0, tpot_mean = 0, e2e_mean = 0, ttft = 0, tpot = 0;
  };
  std::string log_format;
  std::size_t requests = 0, failed = 0;
  std::vector<Constant> constants;
  Errors before, after;
  Errors last_third;    ///< of its requests, by a fit to those before
  sim::Node overrides;  ///< the constants as a config would lay them over its base
};

/// Fits. Throws sim::ConfigError for a config that is no serving experiment or does not fit its machine, a faulty log,
/// paths that name no number of it, and bounds that hold no range.
LogFit fit_to_log(const LogFitOptions& options, const Systems& systems);

/// The result for people.
std::string log_fit_text(const LogFit& fit);
/// {"log", "requests", "failed", "constants": [{"path", "unit", "was", "fitted", "low", "high", "at_bound", "idle"}],
/// "before", "after", "last_third": {"ttft_mean", "tpot_mean", "e2e_mean", "ttft", "tpot"}}.
sim::Node log_fit_report(const LogFit& fit);

}  // namespace orrery::experiments
