#include "experiments/serving/metrics.hpp"

#include <cmath>

namespace orrery::experiments {

bool TbtVerdict::attained(std::int64_t target) const {
  if (over_ == 0) return true;
  // P99 lies between ranks k and k+1 of the sorted gaps (0-based), k = floor(0.99 (n-1)); the last `over_` ranks
  // exceed.
  const double h = 0.99 * static_cast<double>(count_ - 1);
  const auto k = static_cast<std::int64_t>(std::floor(h));
  const std::int64_t first_over = count_ - over_;
  if (first_over <= k) return false;
  if (first_over > k + 1) return true;
  const double p99 = static_cast<double>(most_within_) +
                     (h - static_cast<double>(k)) * static_cast<double>(least_over_ - most_within_);
  return p99 <= static_cast<double>(target);
}

void ServingMetrics::request_ended(const RequestRecord& record, const TbtVerdict& tbts) {
  const bool counts = record.arrived >= warmup;
  if (counts) ++measured;
  preemptions += record.preemptions;
  if (record.preemptions > 0) ++preempted_requests;
  if (!record.finished) {
    if (record.status == "unfinished") {
      ++unfinished;
    } else {
      ++rejected;
      const std::string_view reason = record.status.substr(record.status.find(':') + 1);
      ++rejected_by_reason.try_emplace(std::string(reason), 0).first->second;
    }
    return;
  }
  ++completed;
  prompt_tokens += record.prompt_tokens;
  output_tokens += record.output_tokens;
  if (!counts) return;
  const sim::Duration first = *record.first_token - record.arrived;
  const sim::Duration whole = *record.finished - record.arrived;
  ttft.add(first.ticks);
  e2e.add(whole.ticks);
  queueing.add((*record.admitted - record.arrived).ticks);
  normalised.add(whole.ticks * ps_per_tick / record.output_tokens);
  if (record.output_tokens > 1)
    tpot.add((*record.finished - *record.first_token).ticks * ps_per_tick / (record.output_tokens - 1));
  const bool ttft_ok = !slo.ttft || first <= *slo.ttft;
  const bool tbt_ok = !slo.tbt || tbts.attained(slo.tbt->ticks);
  if (ttft_ok && tbt_ok) ++attained;
}

std::array<Distribution, 6> distributions(const ServingMetrics& metrics) {
  const double tick_s = 1e-12 * static_cast<double>(metrics.ps_per_tick);
  return {Distribution{"ttft", &metrics.ttft, tick_s},
          {"tbt", &metrics.tbt, tick_s},
          {"tpot", &metrics.tpot, 1e-12},
          {"e2e", &metrics.e2e, tick_s},
          {"queueing", &metrics.queueing, tick_s},
          {"normalised_latency", &metrics.normalised, 1e-12}};
}

}  // namespace orrery::experiments
