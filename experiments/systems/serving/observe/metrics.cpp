#include "experiments/systems/serving/observe/metrics.hpp"

#include <algorithm>
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

void RequestMetrics::request_ended(const RequestRecord& record, const TbtVerdict& tbts) {
  const bool counts = measures(record.arrived);
  if (counts) ++measured;
  arrivals.first = std::min(arrivals.first, record.arrived);
  arrivals.last = std::max(arrivals.last, record.arrived);
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
  cached_tokens += record.cached_tokens;
  output_tokens += record.output_tokens;
  const sim::Duration whole = *record.finished - record.arrived;
  arrivals.e2e_s.add(record.id, seconds_of(static_cast<__int128>(whole.ticks) * ps_per_tick));
  if (!counts) return;
  const sim::Duration first = *record.first_token - record.arrived;
  ttft.add(first.ticks);
  e2e.add(whole.ticks);
  queueing.add((*record.admitted - record.arrived).ticks);
  const auto per_token = [&](sim::Duration time, std::int64_t tokens) {
    std::int64_t ps = 0;
    if (!__builtin_mul_overflow(time.ticks, ps_per_tick, &ps)) return ps / tokens;
    return to_ps(static_cast<__int128>(time.ticks) * ps_per_tick / tokens, 1);
  };
  normalised.add(per_token(whole, record.output_tokens));
  if (record.output_tokens > 1) tpot.add(per_token(*record.finished - *record.first_token, record.output_tokens - 1));
  if (priorities) {
    PriorityMetrics& own = by_priority[record.priority];
    ++own.completed;
    own.preemptions += record.preemptions;
    own.ttft.add(first.ticks);
    own.e2e.add(whole.ticks);
    if (record.output_tokens > 1)
      own.tpot.add(per_token(*record.finished - *record.first_token, record.output_tokens - 1));
  }
  const bool ttft_ok = !slo.ttft || first <= *slo.ttft;
  const bool tbt_ok = !slo.tbt_ps || tbts.attained(*slo.tbt_ps);
  if (ttft_ok && tbt_ok) ++verdicts.attained;
  if (!ttft_ok) ++verdicts.missed_ttft;
  if (!tbt_ok) ++verdicts.missed_tbt;
  if (!tbt_ok && record.preemptions > 0) ++verdicts.missed_tbt_preempted;
}

std::int64_t elapsed_ps(const IterationRun& run, std::int64_t i) {
  return static_cast<std::int64_t>(static_cast<__int128>(run.time_ps) * i +
                                   static_cast<__int128>(run.step_ps) * i * (i - 1) / 2);
}

IterationRecord iteration(const IterationRun& run, std::int64_t i, std::int64_t ps_per_tick) {
  const auto tick = [&](std::int64_t elapsed) {
    const std::int64_t ps = elapsed - run.start_ps;  // >= 0 but for the start of the first, which is that tick itself
    return run.start + sim::Duration{ps <= 0 ? 0 : (ps + ps_per_tick - 1) / ps_per_tick};
  };
  IterationRecord record{.start = tick(elapsed_ps(run, i)),
                         .end = tick(elapsed_ps(run, i + 1)),
                         .replica = run.replica,
                         .prefill_tokens = run.prefill_tokens,
                         .decodes = run.decodes,
                         .running = run.running,
                         .waiting = run.waiting,
                         .kv_used_bytes = run.kv_used_bytes,
                         .energy_pj = run.energy_pj + i * run.step_energy_pj,
                         .chunks = run.chunks};
  if (run.kv_period > 0 && i > 0) {
    std::int64_t blocks = 0;
    std::int64_t period = 0;
    for (std::int64_t r = 0; r < run.kv_period; ++r) period += run.kv_growth[r];
    blocks = i / run.kv_period * period;
    for (std::int64_t k = i / run.kv_period * run.kv_period + 1; k <= i; ++k)
      blocks += run.kv_growth[(run.kv_phase + k) % run.kv_period];
    record.kv_used_bytes += blocks * run.kv_block_bytes;
  }
  return record;
}

std::array<Distribution, 6> distributions(const ServingMetrics& metrics) {
  const double tick_s = 1e-12 * static_cast<double>(metrics.ps_per_tick);
  return {Distribution{"ttft", &metrics.ttft, tick_s},
          {"tbt", &metrics.tbt, 1e-12},
          {"tpot", &metrics.tpot, 1e-12},
          {"e2e", &metrics.e2e, tick_s},
          {"queueing", &metrics.queueing, tick_s},
          {"normalised_latency", &metrics.normalised, 1e-12}};
}

std::int64_t MachineFacts::replicas() const {
  std::int64_t sum = 0;
  for (const GroupFacts& group : groups) sum += group.replicas;
  return sum;
}
double MachineFacts::idle_watts() const {
  double sum = 0;
  for (const DeviceFacts& device : devices) sum += device.idle_watts * static_cast<double>(device.devices);
  return sum;
}
double MachineFacts::peak_flops() const {
  double sum = 0;
  for (const GroupFacts& group : groups) sum += group.peak_flops * static_cast<double>(group.devices * group.replicas);
  return sum;
}
double MachineFacts::peak_bytes_per_s() const {
  double sum = 0;
  for (const GroupFacts& group : groups)
    sum += group.peak_bytes_per_s * static_cast<double>(group.devices * group.replicas);
  return sum;
}

}  // namespace orrery::experiments
