// Failures in order of time: drawn at constant rates, or those of a trace.
#pragma once

#include <cstdint>
#include <limits>

#include "experiments/job/config.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::job {

struct Failure {
  double time_s = std::numeric_limits<double>::infinity();
  std::int64_t node = -1;       ///< -1: of the job itself
  std::int64_t component = -1;  ///< of Failures::names
  double repair_s = 0;
};

/// What a history meets, whatever the job does: a node that is away when its turn comes is skipped by whoever asks, so
/// two policies meet the same failures.
class FailureStream {
 public:
  FailureStream(const Failures& failures, std::int64_t nodes, std::int64_t seed, std::int64_t history);
  /// The next one; time infinite when there is none.
  Failure next();

 private:
  const Failures& failures_;
  std::int64_t nodes_;
  double node_rate_, rate_;
  sim::RandomStream gaps_, places_;
  double now_ = 0;
  std::size_t row_ = 0;
};

}  // namespace orrery::experiments::job
