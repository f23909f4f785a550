#include "experiments/job/failures.hpp"

namespace orrery::experiments::job {

FailureStream::FailureStream(const Failures& failures, std::int64_t nodes, std::int64_t seed, std::int64_t history)
    : failures_(failures),
      nodes_(nodes),
      node_rate_(failures.per_node() * static_cast<double>(nodes)),
      rate_(node_rate_ + failures.per_job_s),
      gaps_(sim::RandomStream(static_cast<std::uint64_t>(seed), "failures/gaps")
                .child(static_cast<std::uint64_t>(history))),
      places_(sim::RandomStream(static_cast<std::uint64_t>(seed), "failures/places")
                  .child(static_cast<std::uint64_t>(history))) {}

Failure FailureStream::next() {
  if (failures_.traced) {
    if (row_ >= failures_.trace.size()) return {};
    const TracedFailure& row = failures_.trace[row_++];
    Failure failure{.time_s = row.time_s, .node = row.node, .component = row.component};
    if (failure.node < 0) failure.node = static_cast<std::int64_t>(places_.below(static_cast<std::uint64_t>(nodes_)));
    failure.repair_s =
        row.repair_s.value_or(failures_.repair_s[static_cast<std::size_t>(std::max<std::int64_t>(0, row.component))]);
    return failure;
  }
  now_ += gaps_.exponential(1 / rate_);
  Failure failure{.time_s = now_};
  double at = places_.uniform() * rate_;
  if (at >= node_rate_) return failure;  // the job's own
  at /= static_cast<double>(nodes_);
  failure.component = 0;
  while (failure.component + 1 < std::ssize(failures_.per_node_s) &&
         at >= failures_.per_node_s[static_cast<std::size_t>(failure.component)])
    at -= failures_.per_node_s[static_cast<std::size_t>(failure.component++)];
  failure.node = static_cast<std::int64_t>(places_.below(static_cast<std::uint64_t>(nodes_)));
  failure.repair_s = failures_.repair_s[static_cast<std::size_t>(failure.component)];
  return failure;
}

}  // namespace orrery::experiments::job
