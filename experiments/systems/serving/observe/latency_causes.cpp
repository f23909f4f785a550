#include "experiments/systems/serving/observe/latency_causes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.hpp"

namespace orrery::experiments {
namespace {

using sim::Unit;

std::string seconds(double value) {
  return sim::humanise(value, Unit::seconds);
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// KV blocks of the fullest replica, as a share of what there are.
double kv_in_use(const WatchedRun& result) {
  double most = 0;
  for (const ReplicaResult& replica : result.replicas) {
    const GroupFacts& group = result.machine.groups[static_cast<std::size_t>(replica.group)];
    most =
        std::max(most, share(static_cast<double>(replica.kv_peak_bytes), static_cast<double>(group.kv_capacity_bytes)));
  }
  return most;
}

double busy(const WatchedRun& result) {
  double sum = 0;
  for (const ReplicaResult& replica : result.replicas) sum += seconds_of(replica.busy_ps);
  return share(sum, result.simulated_s * static_cast<double>(result.replicas.size()));
}

/// Of the time in which iterations run, what the devices wait for the host; 0 where stages of a pipeline overlap.
double host_share(const WatchedRun& result) {
  for (const GroupFacts& group : result.machine.groups)
    if (group.stages > 1) return 0;
  const double busy_s = seconds_of(result.metrics.busy_ps);
  return busy_s > 0 ? std::max(0.0, 1 - seconds_of(result.metrics.cost.time_ps) / busy_s) : 0;
}

/// Of the devices' time, stages of a pipeline summed, what they wait for weights that are not in their memory.
double copy_share(const WatchedRun& result) {
  const RunCost& cost = result.metrics.cost;
  return share(seconds_of(cost.class_ps[static_cast<std::size_t>(hw::OpClass::copy)]), seconds_of(cost.time_ps));
}
std::string copies_text(double of_time) {
  return fmt::format("devices wait for weights that are not in their memory for {:.0f} % of their time", 100 * of_time);
}

}  // namespace

void LatencyCauses::request_ended(const RequestRecord& record) {
  PassingObserver::request_ended(record);
  if (!bounds_.ttft_s || !record.first_token || !record.finished) return;
  const std::int64_t ttft = (*record.first_token - record.arrived).ticks;
  if (static_cast<double>(ttft) * bounds_.tick_s <= *bounds_.ttft_s) return;
  ++late_;
  late_ttft_ += ttft;
  late_wait_ += (*record.admitted - record.arrived).ticks;
  late_prompt_ += record.prompt_tokens;
}

void LatencyCauses::iterations_ended(const IterationRun& run) {
  PassingObserver::iterations_ended(run);
  // Decodes that are in it, or that wait for an iteration of prompts alone.
  const std::int64_t decodes = run.decodes > 0 ? run.decodes : run.running - run.chunks;
  if (!bounds_.tbt_s || decodes <= 0) return;
  const auto bound_ps = static_cast<std::int64_t>(*bounds_.tbt_s * 1e12);
  // Iterations of a run get longer by step_ps each: those above the bound are its last ones.
  std::int64_t within = run.time_ps > bound_ps ? 0 : run.count;
  if (within > 0 && run.step_ps > 0) within = std::min(run.count, (bound_ps - run.time_ps) / run.step_ps + 1);
  const std::int64_t over = run.count - within;
  if (over <= 0) return;
  LongGaps& gaps = run.decodes == 0 ? prompts_ : run.prefill_tokens > 0 ? mixed_ : alone_;
  const __int128 count = static_cast<__int128>(over) * decodes;
  gaps.gaps += count;
  gaps.time_ps += static_cast<__int128>(elapsed_ps(run, run.count) - elapsed_ps(run, within)) * decodes;
  gaps.prompt_tokens += count * run.prefill_tokens;
  gaps.decodes += count * decodes;
  gaps.most_prompt = std::max(gaps.most_prompt, run.prefill_tokens);
}

Binding LatencyCauses::tbt(const WatchedRun& result) const {
  const ServingMetrics& m = result.metrics;
  Binding binding{.target = "tbt",
                  .missed = share(static_cast<double>(m.verdicts.missed_tbt), static_cast<double>(m.measured))};
  if (m.verdicts.missed_tbt_preempted * 2 > m.verdicts.missed_tbt) {
    binding.cause = Cause::preemption;
    binding.text = fmt::format(
        "{:.0f} % of the requests that miss it were preempted (KV blocks at most {:.0f} % full)",
        100 * share(static_cast<double>(m.verdicts.missed_tbt_preempted), static_cast<double>(m.verdicts.missed_tbt)),
        100 * kv_in_use(result));
    return binding;
  }
  const LongGaps* most = &mixed_;
  for (const LongGaps* other : {&prompts_, &alone_})
    if (other->gaps > most->gaps) most = other;
  if (most->gaps == 0) {
    binding.text = "no iteration alone is as long: decodes wait for several, for copies or for another replica";
    return binding;
  }
  const std::string time = seconds(most->mean(most->time_ps) * 1e-12);
  const double of_all =
      100 * static_cast<double>(most->gaps) / static_cast<double>(mixed_.gaps + alone_.gaps + prompts_.gaps);
  const std::string part = fmt::format("they are {:.0f} % of the gaps above the target", of_all);
  const double decodes = most->mean(most->decodes);
  if (const double host = host_share(result); host > 0.5) {
    binding.cause = Cause::host;
    binding.text =
        fmt::format("iterations take {}, and {:.0f} % of their time devices wait for the host", time, 100 * host);
  } else if (const double copies = copy_share(result); copies > 0.5) {
    binding.cause = Cause::host_memory;
    binding.text = fmt::format("iterations take {}: {}", time, copies_text(copies));
  } else if (most == &mixed_) {
    binding.cause = Cause::prompt_chunk;
    binding.text = fmt::format(
        "iterations with a chunk of prompt tokens (mean {:.0f}, at most {}) beside {:.3g} decodes take {}; {}",
        most->mean(most->prompt_tokens), most->most_prompt, decodes, time, part);
  } else if (most == &prompts_) {
    binding.cause = Cause::prompt_first;
    binding.text = fmt::format(
        "iterations of prompts alone (mean {:.0f} tokens, at most {}) take {} while {:.3g} decodes wait; {}",
        most->mean(most->prompt_tokens), most->most_prompt, time, decodes, part);
  } else {
    binding.cause = Cause::decode_batch;
    binding.text = fmt::format("iterations of {:.3g} decodes alone take {}; {}", decodes, time, part);
  }
  return binding;
}

Binding LatencyCauses::ttft(const WatchedRun& result) const {
  const ServingMetrics& m = result.metrics;
  Binding binding{.target = "ttft",
                  .missed = share(static_cast<double>(m.verdicts.missed_ttft), static_cast<double>(m.measured))};
  if (late_ == 0) return binding;
  const auto mean_s = [&](__int128 ticks) {
    return static_cast<double>(ticks) * bounds_.tick_s / static_cast<double>(late_);
  };
  const double wait_s = mean_s(late_wait_);
  const double ttft_s = mean_s(late_ttft_);
  if (const double copies = copy_share(result); wait_s < ttft_s / 2 && copies > 0.5) {
    binding.cause = Cause::host_memory;
    binding.text = fmt::format("prompts take {} from admission to the first token: {}", seconds(ttft_s - wait_s),
                               copies_text(copies));
    return binding;
  }
  if (wait_s < ttft_s / 2) {
    binding.cause = Cause::prompt;
    binding.text = fmt::format(
        "requests that miss it have {:.0f} prompt tokens in the mean, which take {} from admission "
        "to the first token",
        static_cast<double>(late_prompt_) / static_cast<double>(late_), seconds(ttft_s - wait_s));
    return binding;
  }
  const bool full = kv_in_use(result) > 0.95;
  binding.cause = full ? Cause::kv_blocks : Cause::queueing;
  binding.text =
      fmt::format("requests that miss it wait {} of {} to be admitted: {}", seconds(wait_s), seconds(ttft_s),
                  full ? "KV blocks are full" : fmt::format("devices are busy {:.0f} %", 100 * busy(result)));
  return binding;
}

Binding LatencyCauses::binding(const WatchedRun& result) const {
  const ServingMetrics& m = result.metrics;
  const auto measured = static_cast<double>(m.measured);
  if (m.rejected > std::max(m.verdicts.missed_ttft, m.verdicts.missed_tbt))
    return {.target = "rejection",
            .cause = Cause::rejection,
            .missed = share(static_cast<double>(m.rejected), measured),
            .text = fmt::format("{} of {} requests are rejected", m.rejected, m.arrived)};
  if (m.verdicts.missed_ttft == 0 && m.verdicts.missed_tbt == 0) return {};
  return m.verdicts.missed_tbt >= m.verdicts.missed_ttft ? tbt(result) : ttft(result);
}

}  // namespace orrery::experiments
