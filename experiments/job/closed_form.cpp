#include "experiments/job/closed_form.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/math.hpp"

namespace orrery::experiments::job {

double exact_ettr(const CheckpointTimes& times, double mttf_s) {
  const double work = (times.interval_s + times.pause_s) / mttf_s;
  if (work > 600) return 0;  // e^work has no double
  return times.interval_s / (mttf_s * sim::det_exp(times.recovery_s / mttf_s) * (sim::det_exp(work) - 1));
}

double published_ettr(const CheckpointTimes& times, double mttf_s) {
  const double pauses = times.pause_s / (times.interval_s + times.pause_s);
  return std::max(0.0, 1 - (times.recovery_s + times.interval_s / 2) / mttf_s - pauses);
}

double young_interval_s(double pause_s, double mttf_s) {
  return std::sqrt(2 * pause_s * mttf_s);
}

double daly_interval_s(double pause_s, double mttf_s) {
  if (pause_s >= 2 * mttf_s) return mttf_s;
  const double half = pause_s / (2 * mttf_s);
  return young_interval_s(pause_s, mttf_s) * (1 + std::sqrt(half) / 3 + half / 9) - pause_s;
}

}  // namespace orrery::experiments::job
