#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "experiments/base/figures.hpp"
#include "experiments/systems/serving/cluster/cluster_figures.hpp"
#include "experiments/systems/serving/programs/files.hpp"
#include "experiments/systems/serving/system.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

Node latency(const sim::SampleStats& samples, double unit_s) {
  return distribution_figures(samples, unit_s, kLatencyQuantiles);
}

/// What devices draw always: those that are switched off, their share of it.
double idle_joules(const ServingResult& result) {
  double idle = result.machine.idle_watts() * result.simulated_s;
  for (const ReplicaResult& replica : result.replicas) {
    const GroupFacts& group = result.machine.groups[static_cast<std::size_t>(replica.group)];
    idle -= result.machine.devices[static_cast<std::size_t>(group.device_group)].idle_watts *
            static_cast<double>(group.devices) * static_cast<double>(replica.off_ps) * 1e-12 * (1 - replica.off_power);
  }
  return idle;
}

double dynamic_joules(const ServingResult& result) {
  const auto& cost = result.metrics.cost;
  return joules_of(cost.compute_pj + cost.memory_pj + cost.network_pj);
}

/// Memory of a device.
struct DeviceMemory {
  std::int64_t weights = 0, kv_peak = 0, kv_capacity = 0;
};

/// That of the replica whose device had most of its memory in use.
DeviceMemory fullest_device(const ServingResult& result) {
  DeviceMemory fullest;
  std::int64_t most = -1;
  for (const ReplicaResult& replica : result.replicas) {
    const GroupFacts& group = result.machine.groups[static_cast<std::size_t>(replica.group)];
    if (group.weight_bytes + replica.kv_peak_bytes <= most) continue;
    most = group.weight_bytes + replica.kv_peak_bytes;
    fullest = {group.weight_bytes, replica.kv_peak_bytes, group.kv_capacity_bytes};
  }
  return fullest;
}

/// A run, and what several of its figures are made of.
struct FinishedRun {
  const ServingResult& result;
  const sim::TickScale& scale;
  const ServingMetrics& m = result.metrics;
  double span_s = result.simulated_s;
  double idle_j = idle_joules(result);
  double dynamic_j = dynamic_joules(result);
  DeviceMemory memory = fullest_device(result);

  Node per_s(std::int64_t count) const { return ratio(static_cast<double>(count), span_s); }
  Node latency_of(std::string_view name) const {
    for (const Distribution& distribution : distributions(m))
      if (distribution.name == name) return latency(*distribution.samples, distribution.unit_s);
    throw std::logic_error("no distribution has the name of a figure");
  }
};

Node rejections(const FinishedRun& run) {
  Node reasons = Node::object();
  for (const auto& [reason, count] : run.m.rejected_by_reason) reasons.set(reason, Node::integer(count));
  return reasons;
}

/// Over the part of the run that is measured.
Node goodput(const FinishedRun& run) {
  const double until_s = std::min(run.span_s, run.scale.seconds(run.m.measure_until));
  return ratio(static_cast<double>(run.m.verdicts.attained), until_s - run.scale.seconds(run.m.warmup));
}

/// Mean over replicas.
Node busy_share(const FinishedRun& run) {
  __int128 busy_ps = 0;
  for (const ReplicaResult& replica : run.result.replicas) busy_ps += replica.busy_ps;
  return ratio(seconds_of(busy_ps), static_cast<double>(run.result.machine.replicas()) * run.span_s);
}

struct PrioritySource {
  const PriorityMetrics& own;
  double tick_s;
};

const FigureTable<PrioritySource>& priority_table() {
  using Priority = PrioritySource;
  static const FigureTable<Priority> table{
      {"{completed,preemptions}", "count", "Completed requests and preemptions of this priority (0 normal, 1 high).",
       [](const Priority& priority) { return priority.own.completed; },
       [](const Priority& priority) { return priority.own.preemptions; }},
      {"{ttft_s,tpot_s,e2e_s}." + latency_names(), "s", "Latencies of requests of this priority.",
       [](const Priority& priority) { return latency(priority.own.ttft, priority.tick_s); },
       [](const Priority& priority) { return latency(priority.own.tpot, 1e-12); },
       [](const Priority& priority) { return latency(priority.own.e2e, priority.tick_s); }}};
  return table;
}

/// An object for each priority.
FigureValue priorities(const FinishedRun& run) {
  if (!run.m.priorities) return std::nullopt;
  const double tick_s = 1e-12 * static_cast<double>(run.m.ps_per_tick);
  Node all = Node::object();
  for (const auto& [priority, own] : run.m.by_priority)
    all.set(std::to_string(priority), priority_table().written({own, tick_s}));
  return all;
}

const FigureTable<ServingMetrics>& speculation_table() {
  static const FigureTable<ServingMetrics> table{
      {"{drafted,accepted}", "tokens", "Draft tokens verified; draft tokens accepted.", &ServingMetrics::drafted_tokens,
       &ServingMetrics::accepted_tokens},
      {"acceptance", "ratio", "Acceptance rate: accepted over drafted tokens.",
       [](const ServingMetrics& m) {
         return ratio(static_cast<double>(m.accepted_tokens), static_cast<double>(m.drafted_tokens));
       }},
      {"tokens_a_step", "tokens", "Mean tokens that a decode step yields for a sequence.", [](const ServingMetrics& m) {
         return 1 + static_cast<double>(m.accepted_tokens) / static_cast<double>(m.verifications);
       }}};
  return table;
}

const FigureTable<RoutedTotals>& routed_table() {
  static const FigureTable<RoutedTotals> table{
      {"activated", "count",
       "Experts of a layer that an iteration's tokens choose, mean over iterations; each iteration counts one layer, "
       "in turn.",
       [](const RoutedTotals& it) { return ratio(static_cast<double>(it.experts), static_cast<double>(it.layers)); }},
      {"imbalance", "ratio",
       "Imbalance of experts: rows of the expert-parallel rank that has most, over the mean of the ranks, minus 1.",
       [](const RoutedTotals& it) { return ratio(static_cast<double>(it.most_rows) - it.mean_rows, it.mean_rows); }},
      {"placements", "count", "Times that experts were placed anew (policies.rebalance).",
       [](const RoutedTotals& it) { return it.placements; }},
      {"moved", "count", "Experts that ranks copied from each other for it, counted in each layer.",
       [](const RoutedTotals& it) { return it.moved_experts; }},
      {"moved_bytes", "B", "Weights that ranks copied from each other for it.",
       [](const RoutedTotals& it) { return it.moved_bytes; }},
      {"move_s", "s", "Time of these copies. Iterations wait for it, unless policies.rebalance.overlap is on.",
       [](const RoutedTotals& it) { return static_cast<double>(it.move_ps) * 1e-12; }}};
  return table;
}

const FigureTable<ExpertOutcome>& expert_memory_table() {
  using It = ExpertOutcome;
  const auto seconds = [](__int128 It::*time) {
    return [time](const It& it) { return static_cast<double>(it.*time) * 1e-12; };
  };
  static const FigureTable<It> table{
      {"hit_rate", "ratio",
       "Experts that were in device memory, over all that the tokens of an iteration chose in a layer.",
       [](const It& it) { return it.counts.hit_rate(); }},
      {"{fetched,on_host,read}", "count",
       "Experts copied over the link when they were needed, computed by the host, and read from the drive.",
       &It::fetched, &It::on_host, &It::read},
      {"{prefetched,prefetched_used}", "count", "Experts copied ahead of their layer; those of them that it used.",
       &It::prefetched, &It::prefetched_used},
      {"{link_s,host_s,drive_s}", "s", "Time that the link, the host and the drive were busy with experts.",
       seconds(&It::link_ps), seconds(&It::host_ps), seconds(&It::drive_ps)},
      {"waited_s", "s", "By how much iterations lasted longer than with all experts in device memory, summed.",
       seconds(&It::longer_ps)},
      {"host_energy_j", "J", "Dynamic energy of the experts that the host computed; energy_j leaves it out.",
       &It::host_j}};
  return table;
}

std::string nobody_served(const ServingMetrics& m) {
  std::string text =
      fmt::format("none of {} requests was completed: {} rejected, {} unfinished", m.arrived, m.rejected, m.unfinished);
  for (const auto& [reason, count] : m.rejected_by_reason) text += fmt::format(" ({}: {})", reason, count);
  return text;
}

const FigureTable<std::string>& status_table() {
  static const FigureTable<std::string> table{
      {"status", "",
       "`ok`; `unfinished`: no request that arrived was completed; or `infeasible`: the design does not fit, and only "
       "reason, needed_bytes and available_bytes follow.",
       [](const std::string& status) { return status; }}};
  return table;
}

const FigureTable<Infeasible>& infeasible_table() {
  static const FigureTable<Infeasible> table{
      {"reason", "", "Why the design does not fit, or why no request was completed.", &Infeasible::reason},
      {"needed_bytes", "B", "Memory that the design needs on a device; null if memory is not the limit.",
       [](const Infeasible& it) { return it.needed_bytes > 0 ? Node::integer(it.needed_bytes) : Node{}; }},
      {"available_bytes", "B", "Memory that a device has; null if memory is not the limit.",
       [](const Infeasible& it) { return it.needed_bytes > 0 ? Node::integer(it.available_bytes) : Node{}; }}};
  return table;
}

const FigureTable<Binding>& binding_table() {
  static const FigureTable<Binding> table{
      {"target", "", "Target that most requests miss: ttft, tbt or rejection.", &Binding::target},
      {"cause", "",
       "Main cause of the misses: prompt_chunk, decode_batch, host_memory, host, preemption, prompt, queueing, "
       "kv_blocks or "
       "rejection.",
       [](const Binding& it) { return std::string(sim::to_string(it.cause)); }},
      {"missed", "ratio", "Share of requests that miss this target.", &Binding::missed},
      {"text", "", "Target, cause and share as a sentence.", &Binding::text}};
  return table;
}

/// What became of requests.
const FigureTable<FinishedRun>& request_table() {
  using Run = FinishedRun;
  static const std::string spread = "." + latency_names();
  static const FigureTable<Run> table{
      {"simulated_s", "s", "Simulated time: that of the last event, or run.until.", &Run::span_s},
      {"requests.{arrived,completed,rejected}", "requests",
       "Requests that arrived, that got all their tokens, and that were rejected.",
       [](const Run& run) { return run.m.arrived; }, [](const Run& run) { return run.m.completed; },
       [](const Run& run) { return run.m.rejected; }},
      {"requests.preempted", "requests", "Requests preempted at least once.",
       [](const Run& run) { return run.m.preempted_requests; }},
      {"requests.unfinished", "requests", "Requests that were not done when the run ended.",
       [](const Run& run) { return run.m.unfinished; }},
      {"requests.preemptions", "count", "Preemptions of all requests, summed.",
       [](const Run& run) { return run.m.preemptions; }},
      {"requests.rejected_by_reason.*", "requests",
       "Requests rejected for this reason (queue_full, context_exceeded …).", rejections},
      {"ttft_s" + spread, "s", "Time to first token: from arrival to the first output token.",
       [](const Run& run) { return run.latency_of("ttft"); }},
      {"tbt_s" + spread, "s",
       "Time between tokens (ITL): gaps between successive output tokens, over all tokens of all requests.",
       [](const Run& run) { return run.latency_of("tbt"); }},
      {"tpot_s" + spread, "s", "Time per output token of a request: (end - first token) / (output tokens - 1).",
       [](const Run& run) { return run.latency_of("tpot"); }},
      {"e2e_s" + spread, "s", "End-to-end latency: from arrival to the last token.",
       [](const Run& run) { return run.latency_of("e2e"); }},
      {"queueing_s" + spread, "s", "Queueing time: from arrival to first admission.",
       [](const Run& run) { return run.latency_of("queueing"); }},
      {"normalised_latency_s" + spread, "s", "End-to-end latency of a request divided by its output tokens.",
       [](const Run& run) { return run.latency_of("normalised_latency"); }},
      {"priorities.*", priority_table().infos(), priorities},
      {"slo.attainment", "ratio",
       "Attainment: share of requests whose TTFT is within slo.ttft and whose own P99 TBT is within slo.tbt; rejected "
       "requests count as missed.",
       [](const Run& run) {
         return ratio(static_cast<double>(run.m.verdicts.attained), static_cast<double>(run.m.measured));
       }},
      {"slo.goodput_per_s", "1/s", "Goodput: requests per second that attain the SLO.", goodput},
      {"slo.{missed_ttft,missed_tbt}", "requests", "Completed requests that miss this target; some miss both.",
       [](const Run& run) { return run.m.verdicts.missed_ttft; },
       [](const Run& run) { return run.m.verdicts.missed_tbt; }},
      {"binds", binding_table().infos(), [](const Run& run) -> FigureValue {
         if (!run.result.binds || run.result.binds->target.empty()) return std::nullopt;
         return binding_table().written(*run.result.binds);
       }}};
  return table;
}

/// What devices did.
const FigureTable<FinishedRun>& device_table() {
  using Run = FinishedRun;
  static const FigureTable<Run> table{
      {"throughput.requests_per_s", "1/s", "Completed requests per second of simulated_s.",
       [](const Run& run) { return run.per_s(run.m.completed); }},
      {"throughput.{output_tokens_per_s,total_tokens_per_s}", "1/s",
       "Output tokens (total: prompt and output tokens) of completed requests per second of simulated_s.",
       [](const Run& run) { return run.per_s(run.m.output_tokens); },
       [](const Run& run) { return run.per_s(run.m.prompt_tokens + run.m.output_tokens); }},
      {"tokens.{prompt,output}", "tokens", "Prompt and output tokens of completed requests.",
       [](const Run& run) { return run.m.prompt_tokens; }, [](const Run& run) { return run.m.output_tokens; }},
      {"tokens.processed", "tokens", "Tokens computed by all replicas, recomputation included.",
       [](const Run& run) { return run.m.processed_tokens; }},
      {"utilisation.mfu", "ratio",
       "Model FLOPs utilisation: FLOPs that the model needs over the peak FLOPs of all devices during simulated_s.",
       [](const Run& run) {
         return ratio(static_cast<double>(run.m.cost.flops), run.result.machine.peak_flops() * run.span_s);
       }},
      {"utilisation.mbu", "ratio",
       "Memory bandwidth utilisation: bytes moved over what all devices could move at peak bandwidth during "
       "simulated_s.",
       [](const Run& run) {
         return ratio(static_cast<double>(run.m.cost.dram_bytes), run.result.machine.peak_bytes_per_s() * run.span_s);
       }},
      {"utilisation.busy", "ratio", "Share of time in which a replica runs an iteration, mean over replicas.",
       busy_share},
      {"utilisation.prompt_time", "ratio",
       "Share of device time that prompt tokens take, with an iteration's time divided equally among its tokens. Only "
       "in runs with targets, and in plans.",
       [](const Run& run) {
         return run.result.prompt_time_share ? FigureValue(*run.result.prompt_time_share) : std::nullopt;
       }},
      {"energy_j.{total,idle,compute,memory,network}", "J",
       "Energy of all devices: idle power, and dynamic energy of FLOPs, memory traffic and link traffic; total is "
       "their sum.",
       [](const Run& run) { return run.idle_j + run.dynamic_j; }, &Run::idle_j,
       [](const Run& run) { return joules_of(run.m.cost.compute_pj); },
       [](const Run& run) { return joules_of(run.m.cost.memory_pj); },
       [](const Run& run) { return joules_of(run.m.cost.network_pj); }},
      {"energy_per_output_token_j", "J", "Total energy divided by output tokens.",
       [](const Run& run) { return ratio(run.idle_j + run.dynamic_j, static_cast<double>(run.m.output_tokens)); }},
      {"memory_bytes.peak", "B", "Peak memory use of one device: weights and the most KV in use.",
       [](const Run& run) { return run.memory.weights + run.memory.kv_peak; }},
      {"memory_bytes.{weights,kv_peak,kv_capacity}", "B",
       "Memory of one device: weights, most KV in use, capacity for KV.",
       [](const Run& run) { return run.memory.weights; }, [](const Run& run) { return run.memory.kv_peak; },
       [](const Run& run) { return run.memory.kv_capacity; }}};
  return table;
}

/// What the parts of the system say of themselves.
const FigureTable<FinishedRun>& part_table() {
  using Run = FinishedRun;
  static const FigureTable<Run> table{
      {"kv", kv_figures(), [](const Run& run) { return summarise(run.result.kv, run.m.prompt_tokens); }},
      {"kv_tiers", tier_figures(),
       [](const Run& run) {
         return run.result.kv_tiers ? FigureValue(summarise(*run.result.kv_tiers)) : std::nullopt;
       }},
      {"host", host_figures(),
       [](const Run& run) { return run.result.host.any() ? FigureValue(summarise(run.result.host)) : std::nullopt; }},
      {"network.**", "",
       "Figures of machine.network. `waited_s`: by how much iterations lasted longer than alone on the network as "
       "configured, summed. The members jobs, flows, links (null where collectives were priced by a formula) and "
       "rerouted are as in summary.json of a network run.",
       [](const Run& run) { return run.result.network ? FigureValue(*run.result.network) : std::nullopt; }},
      {"replicas.*", replica_figures(),
       [](const Run& run) { return summarise(run.result.replicas, run.result.machine, run.span_s); }},
      {"cluster", cluster_figures(), [](const Run& run) { return summarise(run.result.totals, run.scale); }},
      {"experts", routed_table().infos(),
       [](const Run& run) {
         const RoutedTotals& routed = run.result.routed;
         return routed.layers > 0 ? FigureValue(routed_table().written(routed)) : std::nullopt;
       }},
      {"expert_memory", expert_memory_table().infos(),
       [](const Run& run) {
         return run.result.experts.counts.requests > 0 ? FigureValue(expert_memory_table().written(run.result.experts))
                                                       : std::nullopt;
       }},
      {"speculation", speculation_table().infos(),
       [](const Run& run) {
         return run.m.verifications > 0 ? FigureValue(speculation_table().written(run.m)) : std::nullopt;
       }},
      {"programs", program_figures(),
       [](const Run& run) -> FigureValue {
         if (!run.result.programs) return std::nullopt;
         return summarise_programs(*run.result.programs, run.span_s, run.scale);
       }},
      {"passes.*.*", "", "Figures that each pass over the operator graph reports, for the first kind of replica.",
       [](const Run& run) {
         return run.result.machine.passes.is_null() ? std::nullopt : FigureValue(run.result.machine.passes);
       }},
      {"iterations", "count", "Iterations of all replicas.", [](const Run& run) { return run.m.iterations; }},
      {"events", "count", "Events of the simulation engine; run.leap makes them fewer than iterations.",
       [](const Run& run) { return static_cast<std::int64_t>(run.result.events); }}};
  return table;
}

}  // namespace

double total_joules(const ServingResult& result) {
  return idle_joules(result) + dynamic_joules(result);
}

Node summarise(const ServingResult& result, const sim::TickScale& scale) {
  const FinishedRun run{result, scale};
  const bool served = result.metrics.completed > 0 || result.metrics.arrived == 0;
  Node root = status_table().written(served ? "ok" : "unfinished");
  if (!served) root.set("reason", Node::string(nobody_served(result.metrics)));
  request_table().write(run, root);
  device_table().write(run, root);
  part_table().write(run, root);
  return root;
}

Node summarise_replications(const std::vector<Node>& summaries) {
  constexpr std::array<std::string_view, 14> kPaths{"simulated_s",
                                                    "ttft_s.mean",
                                                    "ttft_s.p99",
                                                    "tbt_s.mean",
                                                    "tbt_s.p99",
                                                    "tpot_s.mean",
                                                    "e2e_s.mean",
                                                    "e2e_s.p99",
                                                    "queueing_s.mean",
                                                    "slo.attainment",
                                                    "slo.goodput_per_s",
                                                    "throughput.requests_per_s",
                                                    "throughput.output_tokens_per_s",
                                                    "energy_j.total"};
  return replication_figures(summaries, kPaths);
}

Node summarise(const Infeasible& infeasible) {
  Node root = status_table().written("infeasible");
  infeasible_table().write(infeasible, root);
  return root;
}

std::vector<FigureInfo> serving_figures() {
  std::vector<FigureInfo> all;
  for (const std::vector<FigureInfo>& some :
       {status_table().infos(), infeasible_table().infos(), request_table().infos(), device_table().infos(),
        part_table().infos(), figures_below("replications", replication_infos())})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace orrery::experiments
