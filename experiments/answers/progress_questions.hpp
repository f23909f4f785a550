// Scores of training algorithms, and curves of reward over compute (docs/explain/progress.md).
#pragma once

#include <string>

#include "experiments/progress/curve_fit.hpp"
#include "experiments/progress/score.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments {

struct ScoreParams {
  std::string table;
  double most = 4;
  static constexpr auto fields() {
    using P = ScoreParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("table", &P::table, Unit::path, sim::any_value(),
                                 "CSV file with submission, workload, median_time_to_target_s (inf: never reached).")),
        sim::field("most", &P::most, Unit::ratio, sim::between(1.0001, 1e6),
                   "Ratio to the fastest time at and beyond which the score is 0.")};
  }
};

/// Throws sim::ConfigError.
sim::Node score_node(const ScoreParams& params);
/// The same for people.
std::string score_text(const ScoreParams& params);

struct CurveParams {
  std::string table;
  double start = 0, from = 0, until = 0, at = 0;
  std::int64_t draws = 200, seed = 1;
  static constexpr auto fields() {
    using P = CurveParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::required(sim::field("table", &P::table, Unit::path, sim::any_value(),
                                 "CSV file with compute (gpu_h, in any unit) and reward.")),
        sim::field("start", &P::start, Unit::none, sim::any_value(), "Reward before the first step, R0."),
        sim::field("from", &P::from, Unit::none, sim::at_least(0), "Least compute of the points that are fitted."),
        sim::field("until", &P::until, Unit::none, sim::at_least(0),
                   "Most compute of the points that are fitted; the later ones judge the fit. 0: all are fitted."),
        sim::field("at", &P::at, Unit::none, sim::at_least(0), "Compute at which to predict the reward; 0: none."),
        sim::field("draws", &P::draws, Unit::count, sim::between(0, 10'000),
                   "Number of fits to resampled residuals, for the interval of the ceiling."),
        sim::field("seed", &P::seed, Unit::count, sim::at_least(0), "Seed of the resampling.")};
  }
};

struct CurveAnswer {
  CurveParams params;
  progress::CurveFit fit;
  std::int64_t fitted = 0, judged = 0;
  double judged_error = 0;  ///< root of the mean square over those that were not fitted
};

/// Throws sim::ConfigError: a table without four points to fit, a compute that is not above 0, an answer that the fit
/// cannot give (`at` beyond the window of a fit that is not trusted).
CurveAnswer fit_reward_curve(const CurveParams& params);
sim::Node curve_node(const CurveAnswer& answer);
std::string curve_text(const CurveAnswer& answer);

}  // namespace orrery::experiments
