#include "experiments/systems/serving/cluster/cluster_figures.hpp"

#include <string>

#include "experiments/base/figures.hpp"

namespace orrery::experiments {
namespace {

struct ReplicaSource {
  const ReplicaResult& did;
  const GroupFacts& group;
  double span_s;
};

/// 1 - time at work / (time in which anything was in the replica x those that could work).
double idle_share(const ReplicaResult& did, std::int64_t workers) {
  if (did.occupied_ps == 0) return 0;
  return 1 - static_cast<double>(did.work_ps) / (static_cast<double>(did.occupied_ps) * static_cast<double>(workers));
}

const FigureTable<ReplicaSource>& replica_table() {
  using Replica = ReplicaSource;
  static const FigureTable<Replica> table{
      {"{group,part}", "", "Name of the replica's group in cluster.replicas; part that it is built from.",
       [](const Replica& replica) { return replica.group.name; },
       [](const Replica& replica) { return replica.group.part; }},
      {"devices", "count", "Devices of the replica.", [](const Replica& replica) { return replica.group.devices; }},
      {"role", "", "Role (both, prefill, decode).", [](const Replica& replica) { return replica.group.role; }},
      {"{requests,completed}", "requests", "Requests routed to the replica; requests completed there.",
       [](const Replica& replica) { return replica.did.requests; },
       [](const Replica& replica) { return replica.did.completed; }},
      {"{output_tokens,processed_tokens}", "tokens", "Output tokens of its requests; all tokens that it computed.",
       [](const Replica& replica) { return replica.did.output_tokens; },
       [](const Replica& replica) { return replica.did.processed_tokens; }},
      {"{iterations,preemptions}", "count", "Iterations and preemptions of the replica.",
       [](const Replica& replica) { return replica.did.iterations; },
       [](const Replica& replica) { return replica.did.preemptions; }},
      {"busy", "ratio", "Share of time in which the replica runs an iteration; mean over stages in a pipeline.",
       [](const Replica& replica) { return ratio(seconds_of(replica.did.busy_ps), replica.span_s); }},
      {"bubbles", "ratio", "Bubble share of a pipeline: 1 - work / (stages x time in which anything was in it).",
       [](const Replica& replica) -> FigureValue {
         if (replica.group.stages == 1) return std::nullopt;
         return idle_share(replica.did, replica.group.stages);
       }},
      {"lock_step_wait", "ratio",
       "Share of time that lanes in lock step wait for each other: 1 - work / (lanes x time of their steps).",
       [](const Replica& replica) -> FigureValue {
         if (!replica.group.lock_step) return std::nullopt;
         return idle_share(replica.did, replica.group.lanes);
       }},
      {"kv_peak_bytes", "B", "Most KV in use on one device of the replica.",
       [](const Replica& replica) { return replica.did.kv_peak_bytes; }},
      {"dynamic_energy_j", "J", "Energy of the replica's iterations, without idle energy.", [](const Replica& replica) {
         const RunCost& cost = replica.did.cost;
         return joules_of(cost.compute_pj + cost.memory_pj + cost.network_pj);
       }}};
  return table;
}

struct ClusterSource {
  const ClusterTotals& totals;
  const sim::TickScale& scale;

  /// Mean over starts.
  sim::Node of_a_start(sim::Duration sum) const {
    return ratio(scale.seconds(sum), static_cast<double>(totals.cold_starts));
  }
  double seconds(__int128 ticks) const {
    return static_cast<double>(ticks) * (static_cast<double>(scale.ps_per_tick()) * 1e-12);
  }
};

std::int64_t aborted(const MigrationTotals& moved) {
  std::int64_t sum = 0;
  for (const std::int64_t count : moved.aborted) sum += count;
  return sum;
}

sim::Node aborted_by_reason(const MigrationTotals& moved) {
  sim::Node reasons = sim::Node::object();
  for (const auto& [name, reason] : sim::names_of<MigrationAbort>)
    reasons.set(std::string(name), sim::Node::integer(moved.aborted[static_cast<std::size_t>(reason)]));
  return reasons;
}

const FigureTable<ClusterSource>& cluster_table() {
  using Source = ClusterSource;
  static const FigureTable<Source> table{
      {"kv_transfers.{count,bytes,mean_s}", "count, B, s",
       "Copies of KV from prefill to decode replicas: number, bytes, mean time.",
       [](const Source& cluster) { return cluster.totals.transfers.count; },
       [](const Source& cluster) { return cluster.totals.transfers.bytes; },
       [](const Source& cluster) {
         const TransferTotals& transfers = cluster.totals.transfers;
         return ratio(seconds_of(transfers.ps), static_cast<double>(transfers.count));
       }},
      {"migrations.{completed,aborted}", "count",
       "Running requests that migrated to another replica; migrations that were aborted.",
       [](const Source& cluster) { return cluster.totals.migrations.completed; },
       [](const Source& cluster) { return aborted(cluster.totals.migrations); }},
      {"migrations.aborted_by_reason.*", "count", "Aborted migrations by reason.",
       [](const Source& cluster) { return aborted_by_reason(cluster.totals.migrations); }},
      {"migrations.{bytes,downtime_s}", "B, s", "Bytes copied; mean time in which a migrating request did not advance.",
       [](const Source& cluster) { return cluster.totals.migrations.bytes; },
       [](const Source& cluster) {
         const MigrationTotals& moved = cluster.totals.migrations;
         return ratio(seconds_of(moved.downtime_ps), static_cast<double>(moved.completed));
       }},
      {"{failures,rerouted,parked}", "count",
       "Failures of replicas; requests routed again; requests that found no replica up and waited.",
       [](const Source& cluster) { return cluster.totals.failures; },
       [](const Source& cluster) { return cluster.totals.rerouted; },
       [](const Source& cluster) { return cluster.totals.parked; }},
      {"cold_starts.count", "count", "Replicas that were started during the run.",
       [](const Source& cluster) { return cluster.totals.cold_starts; }},
      {"cold_starts.{mean_s,scheduling_s,allocation_s,code_s,load_s}", "s",
       "Mean time of a cold start, and of its components.",
       [](const Source& cluster) { return cluster.of_a_start(cluster.totals.cold.total()); },
       [](const Source& cluster) { return cluster.of_a_start(cluster.totals.cold.scheduling); },
       [](const Source& cluster) { return cluster.of_a_start(cluster.totals.cold.allocation); },
       [](const Source& cluster) { return cluster.of_a_start(cluster.totals.cold.code); },
       [](const Source& cluster) { return cluster.of_a_start(cluster.totals.cold.load); }},
      {"{up_s,idle_s}", "s", "Time that replicas were up, summed; the part of it in which they had no work.",
       [](const Source& cluster) { return cluster.seconds(cluster.totals.up_ticks); },
       [](const Source& cluster) { return cluster.seconds(cluster.totals.up_ticks - cluster.totals.busy_ticks); }}};
  return table;
}

}  // namespace

sim::Node summarise(std::span<const ReplicaResult> replicas, const MachineFacts& machine, double span_s) {
  sim::Node rows = sim::Node::array();
  for (const ReplicaResult& replica : replicas)
    rows.push(replica_table().written({replica, machine.groups[static_cast<std::size_t>(replica.group)], span_s}));
  return rows;
}

std::vector<FigureInfo> replica_figures() {
  return replica_table().infos();
}

sim::Node summarise(const ClusterTotals& totals, const sim::TickScale& scale) {
  return cluster_table().written({totals, scale});
}

std::vector<FigureInfo> cluster_figures() {
  return cluster_table().infos();
}

}  // namespace orrery::experiments
