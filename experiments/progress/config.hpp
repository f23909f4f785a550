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
        sim::field("modes", &P::modes, Unit::count, sim::between(1, 100'000), "Eigenvalues of the quadratic."),
        sim::field("condition", &P::condition, Unit::ratio, sim::between(1, 1e12),
                   "Largest over smallest of them; evenly spaced in their logarithm, the largest is 1."),
        sim::field("noise", &P::noise, Unit::none, sim::between(0, 1e12),
                   "Variance of a mode's gradient over its eigenvalue, for one sequence; a batch has that over "
                   "workload.global_batch."),
        sim::field("start", &P::start, Unit::none, sim::between(1e-12, 1e12), "E[x^2] of each mode at the begin."),
        sim::field("steps", &P::steps, Unit::count, sim::between(0, 10'000'000),
                   "Budget in steps; 0: as many as `time` or `cost` allow."),
        sim::field("time", &P::time_s, Unit::seconds, sim::between(0, 1e10),
                   "Budget in time, failures and all; 0: none is set."),
        sim::field("cost", &P::cost, Unit::none, sim::between(0, 1e12), "Budget at workload.price; 0: none is set."),
        sim::field("peak", &P::peak, Unit::none, sim::between(1e-12, 2),
                   "Peak rate; null: the best of some, as somebody finds who tunes it."),
        sim::field("peaks", &P::peaks, Unit::count, sim::between(1, 1000), "How many are tried."),
        sim::field("lowest", &P::lowest, Unit::none, sim::between(1e-12, 2), "The lowest of them; the highest is 2."),
        sim::field("law", &P::law,
                   "A law of parameters and tokens in place of the quadratic, which then has no say; null: none.")};
  }
};

struct ProgressPoliciesParams : job::JobPoliciesParams {
  policies::RateRegistry::Choice rate;
  static constexpr auto fields() {
    return sim::joined(sim::inherited<ProgressPoliciesParams>(job::JobPoliciesParams::fields()),
                       sim::FieldTable{sim::choice("rate", &ProgressPoliciesParams::rate, "linear",
                                                   "The learning rate of each step, over its peak.")});
  }
};

struct ProgressSections : job::JobSectionsWith<ProgressPoliciesParams> {
  ProgressParams progress;
  static constexpr auto fields() {
    using S = ProgressSections;
    return sim::joined(sim::inherited<S>(job::JobSectionsWith<ProgressPoliciesParams>::fields()),
                       sim::FieldTable{sim::section("progress", &S::progress, "What is trained, for how long.")});
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
