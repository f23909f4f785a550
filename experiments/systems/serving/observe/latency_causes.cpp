#include "experiments/systems/serving/observe/latency_causes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/systems/serving/system.hpp"

namespace orrery::experiments {
namespace {

using sim::Unit;

constexpr int kPriced = 64;  // iterations that are priced again without the host

std::string seconds(double value) {
  return sim::humanise(value, Unit::seconds);
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// KV blocks of the fullest replica, as a share of what there are.
double kv_in_use(const ServingResult& result) {
  double most = 0;
  for (const ReplicaResult& replica : result.replicas) {
    const GroupFacts& group = result.machine.groups[static_cast<std::size_t>(replica.group)];
    most =
        std::max(most, share(static_cast<double>(replica.kv_peak_bytes), static_cast<double>(group.kv_capacity_bytes)));
  }
  return most;
}

double busy(const ServingResult& result) {
  double sum = 0;
  for (const ReplicaResult& replica : result.replicas) sum += seconds_of(replica.busy_ps);
  return share(sum, result.simulated_s * static_cast<double>(result.replicas.size()));
}

}  // namespace

void LatencyCauses::request_ended(const RequestRecord& record) {
  PassingObserver::request_ended(record);
  if (!bounds_.ttft_s || !record.first_token || !record.finished) return;
  const double ttft_s = static_cast<double>((*record.first_token - record.arrived).ticks) * bounds_.tick_s;
  if (ttft_s <= *bounds_.ttft_s) return;
  ++late_;
  late_ttft_s_ += ttft_s;
  late_wait_s_ += static_cast<double>((*record.admitted - record.arrived).ticks) * bounds_.tick_s;
  late_prompt_ += static_cast<double>(record.prompt_tokens);
}

void LatencyCauses::iterations_ended(const IterationRun& run) {
  PassingObserver::iterations_ended(run);
  if (!bounds_.tbt_s || run.decodes == 0) return;
  const double first_s = static_cast<double>(run.time_ps) * 1e-12;
  const double step_s = static_cast<double>(run.step_ps) * 1e-12;
  // Iterations of a run get longer by step_s each: those above the bound are its last ones.
  const double over = first_s > *bounds_.tbt_s ? static_cast<double>(run.count)
                      : step_s > 0
                          ? static_cast<double>(run.count) - std::floor((*bounds_.tbt_s - first_s) / step_s) - 1
                          : 0;
  if (over <= 0) return;
  const double last_s = first_s + step_s * static_cast<double>(run.count - 1);
  const double time_s = over * (last_s - step_s * (over - 1) / 2);
  LongGaps& gaps = run.prefill_tokens > 0 ? mixed_ : alone_;
  const auto decodes = static_cast<double>(run.decodes);
  gaps.gaps += over * decodes;
  gaps.time_s += time_s * decodes;
  gaps.prompt_tokens += over * decodes * static_cast<double>(run.prefill_tokens);
  gaps.decodes += over * decodes * decodes;
  gaps.most_prompt = std::max(gaps.most_prompt, run.prefill_tokens);
  price_without_host(run);
}

void LatencyCauses::price_without_host(const IterationRun& run) {
  if (priced_ == kPriced || run.shape == nullptr || run.model == nullptr || !run.stages.empty()) return;
  ++priced_;
  const double device_s = static_cast<double>(run.model->price(*run.shape).time_ps) * 1e-12;
  const double whole_s = static_cast<double>(run.time_ps) * 1e-12;
  priced_s_ += whole_s;
  host_s_ += std::max(0.0, whole_s - device_s);
}

Binding LatencyCauses::tbt(const ServingResult& result) const {
  const ServingMetrics& m = result.metrics;
  Binding binding{.target = "tbt", .missed = share(static_cast<double>(m.missed_tbt), static_cast<double>(m.measured))};
  const double all = mixed_.gaps + alone_.gaps;
  if (m.missed_tbt_preempted * 2 > m.missed_tbt) {
    binding.cause = Cause::preemption;
    binding.text =
        fmt::format("{:.0f} % of the requests that miss it were preempted (KV blocks at most {:.0f} % full)",
                    100 * share(static_cast<double>(m.missed_tbt_preempted), static_cast<double>(m.missed_tbt)),
                    100 * kv_in_use(result));
    return binding;
  }
  if (all == 0) return binding;
  const double host = share(host_s_, priced_s_);
  const LongGaps& most = mixed_.gaps >= alone_.gaps ? mixed_ : alone_;
  const double time_s = most.time_s / most.gaps;
  if (host > 0.5) {
    binding.cause = Cause::host;
    binding.text = fmt::format("iterations of {} wait {:.0f} % of that for the host", seconds(time_s), 100 * host);
  } else if (&most == &mixed_) {
    binding.cause = Cause::prompt_chunk;
    binding.text = fmt::format(
        "iterations with a chunk of prompt tokens (mean {:.0f}, at most {}) beside {:.3g} decodes take {}; they are "
        "{:.0f} "
        "% of the gaps above the target",
        most.prompt_tokens / most.gaps, most.most_prompt, most.decodes / most.gaps, seconds(time_s),
        100 * most.gaps / all);
  } else {
    binding.cause = Cause::decode_batch;
    binding.text =
        fmt::format("iterations of {:.0f} decodes alone take {}; they are {:.0f} % of the gaps above the target",
                    most.decodes / most.gaps, seconds(time_s), 100 * most.gaps / all);
  }
  return binding;
}

Binding LatencyCauses::ttft(const ServingResult& result) const {
  const ServingMetrics& m = result.metrics;
  Binding binding{.target = "ttft",
                  .missed = share(static_cast<double>(m.missed_ttft), static_cast<double>(m.measured))};
  if (late_ == 0) return binding;
  const auto n = static_cast<double>(late_);
  const double wait = share(late_wait_s_, late_ttft_s_);
  if (wait < 0.5) {
    binding.cause = Cause::prompt;
    binding.text = fmt::format(
        "requests that miss it have {:.0f} prompt tokens in the mean, which take {} from admission "
        "to the first token",
        late_prompt_ / n, seconds((late_ttft_s_ - late_wait_s_) / n));
    return binding;
  }
  const bool full = kv_in_use(result) > 0.95;
  binding.cause = full ? Cause::kv_blocks : Cause::queueing;
  binding.text = fmt::format(
      "requests that miss it wait {} of {} to be admitted: {}", seconds(late_wait_s_ / n), seconds(late_ttft_s_ / n),
      full ? "KV blocks are full" : fmt::format("devices are busy {:.0f} %", 100 * busy(result)));
  return binding;
}

Binding LatencyCauses::binding(const ServingResult& result) const {
  const ServingMetrics& m = result.metrics;
  const auto measured = static_cast<double>(m.measured);
  if (m.rejected > std::max(m.missed_ttft, m.missed_tbt))
    return {.target = "rejection",
            .cause = Cause::rejection,
            .missed = share(static_cast<double>(m.rejected), measured),
            .text = fmt::format("{} of {} requests are rejected", m.rejected, m.arrived)};
  if (m.missed_ttft == 0 && m.missed_tbt == 0) return {};
  return m.missed_tbt >= m.missed_ttft ? tbt(result) : ttft(result);
}

}  // namespace orrery::experiments
