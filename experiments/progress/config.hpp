// The config of a training's progress: a noisy quadratic, a schedule, and the job whose steps it takes.
#pragma once

#include <optional>

#include "experiments/job/config.hpp"
#include "experiments/progress/law.hpp"
#include "policies/rate/rate.hpp"

namespace orrery::experiments::progress {

struct ProgressParams {
  std::int64_t modes = 100, steps = 0, peaks = 25;
  double condition = 1000, noise = 0.01, start = 1, lowest = 1e-4, time_s = 0, cost = 0;
  std::optional<double> peak;
  std::optional<LossLaw> law;
  static constexpr auto fields() {
    using sim::Unit;
    using P = ProgressParams;
    return sim::FieldTable{
        sim::field("modes", &P::modes, Unit::count, sim::between(1, 100'000),
                   "Number of eigenvalues of the quadratic."),
        sim::field("condition", &P::condition, Unit::ratio, sim::between(1, 1e12),
                   "Condition number, largest over smallest eigenvalue; they are evenly spaced in the logarithm, and "
                   "the largest is 1."),
        sim::field("noise", &P::noise, Unit::none, sim::between(0, 1e12),
                   "Variance of a mode's gradient over its eigenvalue for one sequence; for a batch it is divided by "
                   "workload.global_batch."),
        sim::field("start", &P::start, Unit::none, sim::between(1e-12, 1e12), "E[x^2] of each mode at the start."),
        sim::field("steps", &P::steps, Unit::count, sim::between(0, 10'000'000),
                   "Budget in steps; 0: as many as `time` or `cost` allow."),
        sim::field("time", &P::time_s, Unit::seconds, sim::between(0, 1e10),
                   "Budget in time, failures included; 0: none is set."),
        sim::field("cost", &P::cost, Unit::none, sim::between(0, 1e12), "Budget at workload.price; 0: none is set."),
        sim::field("peak", &P::peak, Unit::none, sim::between(1e-12, 2),
                   "Peak learning rate; null: the best of several, as found by tuning."),
        sim::field("peaks", &P::peaks, Unit::count, sim::between(1, 1000), "Number of peak rates to try."),
        sim::field("lowest", &P::lowest, Unit::none, sim::between(1e-12, 2),
                   "Lowest peak rate to try; the highest is 2."),
        sim::field("law", &P::law, "Scaling law of parameters and tokens in place of the quadratic; null: none.")};
  }
};

struct ProgressPoliciesParams : job::JobPoliciesParams {
  policies::RateRegistry::Choice rate;
  static constexpr auto fields() {
    return sim::joined(sim::inherited<ProgressPoliciesParams>(job::JobPoliciesParams::fields()),
                       sim::FieldTable{sim::choice("rate", &ProgressPoliciesParams::rate, "linear",
                                                   "Learning-rate schedule: rate of each step relative to the peak.")});
  }
};

struct ProgressSections : job::JobSectionsWith<ProgressPoliciesParams> {
  ProgressParams progress;
  static constexpr auto fields() {
    using S = ProgressSections;
    return sim::joined(sim::inherited<S>(job::JobSectionsWith<ProgressPoliciesParams>::fields()),
                       sim::FieldTable{sim::section("progress", &S::progress, "What is trained, and for how long.")});
  }
};

/// A validated config.
struct ProgressConfig {
  ProgressSections params;
  std::optional<job::JobConfig> job;  ///< none: steps take no time that is known
  sim::Node resolved;
};

ProgressConfig read_progress_config(const sim::Node& root, const sim::RegistrySet& registries, sim::Faults& faults);

}  // namespace orrery::experiments::progress
