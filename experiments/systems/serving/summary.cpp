#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "experiments/base/figures.hpp"
#include "experiments/systems/serving/programs/files.hpp"
#include "experiments/systems/serving/system.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

Node latency(const Distribution& distribution) {
  constexpr std::array kQuantiles{std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p95", 0.95},
                                  std::pair{"p99", 0.99}};
  return distribution_figures(*distribution.samples, distribution.unit_s, kQuantiles);
}

double joules(__int128 pj) {
  return static_cast<double>(pj) * 1e-12;
}

/// The replica whose device had most of its memory in use.
std::size_t fullest_replica(const ServingResult& result) {
  std::size_t fullest = 0;
  std::int64_t most = -1;
  for (std::size_t i = 0; i < result.replicas.size(); ++i) {
    const ReplicaResult& replica = result.replicas[i];
    const std::int64_t bytes =
        result.machine.groups[static_cast<std::size_t>(replica.group)].weight_bytes + replica.kv_peak_bytes;
    if (bytes <= most) continue;
    most = bytes;
    fullest = i;
  }
  return fullest;
}

/// What each replica did: the member `replicas` of summary.json.
Node replica_rows(const ServingResult& result) {
  Node rows = Node::array();
  for (const ReplicaResult& replica : result.replicas) {
    const GroupFacts& group = result.machine.groups[static_cast<std::size_t>(replica.group)];
    Node row = Node::object();
    row.set("group", Node::string(group.name));
    row.set("part", Node::string(group.part));
    row.set("devices", Node::integer(group.devices));
    row.set("role", Node::string(group.role));
    row.set("requests", Node::integer(replica.requests));
    row.set("completed", Node::integer(replica.completed));
    row.set("output_tokens", Node::integer(replica.output_tokens));
    row.set("processed_tokens", Node::integer(replica.processed_tokens));
    row.set("iterations", Node::integer(replica.iterations));
    row.set("preemptions", Node::integer(replica.preemptions));
    row.set("busy", ratio(static_cast<double>(replica.busy_ps) * 1e-12, result.simulated_s));
    if (group.stages > 1)
      row.set("bubbles", Node::real(replica.occupied_ps == 0 ? 0.0
                                                             : 1 - static_cast<double>(replica.work_ps) /
                                                                       (static_cast<double>(replica.occupied_ps) *
                                                                        static_cast<double>(group.stages))));
    if (group.lock_step)
      row.set("lock_step_wait",
              Node::real(replica.occupied_ps == 0
                             ? 0.0
                             : 1 - static_cast<double>(replica.work_ps) /
                                       (static_cast<double>(replica.occupied_ps) * static_cast<double>(group.lanes))));
    row.set("kv_peak_bytes", Node::integer(replica.kv_peak_bytes));
    row.set("dynamic_energy_j",
            Node::real(joules(replica.cost.compute_pj + replica.cost.memory_pj + replica.cost.network_pj)));
    rows.push(std::move(row));
  }
  return rows;
}

/// Latencies of each priority: the member `priorities`.
Node priority_figures(const ServingMetrics& metrics) {
  const double tick_s = 1e-12 * static_cast<double>(metrics.ps_per_tick);
  Node all = Node::object();
  for (const auto& [priority, own] : metrics.by_priority) {
    Node& node = all.set(std::to_string(priority), Node::object());
    node.set("completed", Node::integer(own.completed));
    node.set("preemptions", Node::integer(own.preemptions));
    node.set("ttft_s", latency({"ttft", &own.ttft, tick_s}));
    node.set("tpot_s", latency({"tpot", &own.tpot, 1e-12}));
    node.set("e2e_s", latency({"e2e", &own.e2e, tick_s}));
  }
  return all;
}

/// What became of requests between replicas: the member `cluster`.
Node cluster_figures(const ClusterTotals& totals, const sim::TickScale& scale) {
  Node cluster = Node::object();
  const auto transfers = static_cast<double>(totals.transfers.count);
  Node transfer = Node::object();
  transfer.set("count", Node::integer(totals.transfers.count));
  transfer.set("bytes", Node::integer(totals.transfers.bytes));
  transfer.set("mean_s", ratio(static_cast<double>(totals.transfers.ps) * 1e-12, transfers));
  cluster.set("kv_transfers", std::move(transfer));
  const MigrationTotals& moved = totals.migrations;
  Node migration = Node::object();
  migration.set("completed", Node::integer(moved.completed));
  std::int64_t aborted = 0;
  Node reasons = Node::object();
  for (const auto& [name, reason] : sim::names_of<MigrationAbort>) {
    const std::int64_t count = moved.aborted[static_cast<std::size_t>(reason)];
    aborted += count;
    reasons.set(std::string(name), Node::integer(count));
  }
  migration.set("aborted", Node::integer(aborted));
  migration.set("aborted_by_reason", std::move(reasons));
  migration.set("bytes", Node::integer(moved.bytes));
  migration.set("downtime_s",
                ratio(static_cast<double>(moved.downtime_ps) * 1e-12, static_cast<double>(moved.completed)));
  cluster.set("migrations", std::move(migration));
  cluster.set("failures", Node::integer(totals.failures));
  cluster.set("rerouted", Node::integer(totals.rerouted));
  cluster.set("parked", Node::integer(totals.parked));
  const auto starts = static_cast<double>(totals.cold_starts);
  Node cold = Node::object();
  cold.set("count", Node::integer(totals.cold_starts));
  cold.set("mean_s", ratio(scale.seconds(totals.cold.total()), starts));
  cold.set("scheduling_s", ratio(scale.seconds(totals.cold.scheduling), starts));
  cold.set("allocation_s", ratio(scale.seconds(totals.cold.allocation), starts));
  cold.set("code_s", ratio(scale.seconds(totals.cold.code), starts));
  cold.set("load_s", ratio(scale.seconds(totals.cold.load), starts));
  cluster.set("cold_starts", std::move(cold));
  const double tick_s = static_cast<double>(scale.ps_per_tick()) * 1e-12;
  cluster.set("up_s", Node::real(static_cast<double>(totals.up_ticks) * tick_s));
  cluster.set("idle_s", Node::real(static_cast<double>(totals.up_ticks - totals.busy_ticks) * tick_s));
  return cluster;
}

}  // namespace

Node summarise(const ServingResult& result, const sim::TickScale& scale) {
  const ServingMetrics& m = result.metrics;
  const double span = result.simulated_s;
  Node root = Node::object();
  root.set("status", Node::string("ok"));
  root.set("simulated_s", Node::real(span));

  Node requests = Node::object();
  requests.set("arrived", Node::integer(m.arrived));
  requests.set("completed", Node::integer(m.completed));
  requests.set("rejected", Node::integer(m.rejected));
  requests.set("preempted", Node::integer(m.preempted_requests));
  requests.set("unfinished", Node::integer(m.unfinished));
  requests.set("preemptions", Node::integer(m.preemptions));
  Node reasons = Node::object();
  for (const auto& [reason, count] : m.rejected_by_reason) reasons.set(reason, Node::integer(count));
  requests.set("rejected_by_reason", std::move(reasons));
  root.set("requests", std::move(requests));

  for (const Distribution& distribution : distributions(m))
    root.set(std::string(distribution.name) + "_s", latency(distribution));

  if (m.priorities) root.set("priorities", priority_figures(m));

  Node slo = Node::object();
  slo.set("attainment", ratio(static_cast<double>(m.attained), static_cast<double>(m.measured)));
  slo.set("goodput_per_s", ratio(static_cast<double>(m.attained),
                                 std::min(span, scale.seconds(m.measure_until)) - scale.seconds(m.warmup)));
  root.set("slo", std::move(slo));

  Node throughput = Node::object();
  throughput.set("requests_per_s", ratio(static_cast<double>(m.completed), span));
  throughput.set("output_tokens_per_s", ratio(static_cast<double>(m.output_tokens), span));
  throughput.set("total_tokens_per_s", ratio(static_cast<double>(m.prompt_tokens + m.output_tokens), span));
  root.set("throughput", std::move(throughput));

  Node tokens = Node::object();
  tokens.set("prompt", Node::integer(m.prompt_tokens));
  tokens.set("output", Node::integer(m.output_tokens));
  tokens.set("processed", Node::integer(m.processed_tokens));
  root.set("tokens", std::move(tokens));

  Node utilisation = Node::object();
  utilisation.set("mfu", ratio(static_cast<double>(m.cost.flops), result.machine.peak_flops() * span));
  utilisation.set("mbu", ratio(static_cast<double>(m.cost.dram_bytes), result.machine.peak_bytes_per_s() * span));
  __int128 busy_ps = 0;
  for (const ReplicaResult& replica : result.replicas) busy_ps += replica.busy_ps;
  utilisation.set("busy",
                  ratio(static_cast<double>(busy_ps) * 1e-12, static_cast<double>(result.machine.replicas()) * span));
  root.set("utilisation", std::move(utilisation));

  double idle = result.machine.idle_watts() * span;
  for (const ReplicaResult& replica : result.replicas) {
    const GroupFacts& group = result.machine.groups[static_cast<std::size_t>(replica.group)];
    idle -= result.machine.devices[static_cast<std::size_t>(group.device_group)].idle_watts *
            static_cast<double>(group.devices) * static_cast<double>(replica.off_ps) * 1e-12 * (1 - replica.off_power);
  }
  const double dynamic = joules(m.cost.compute_pj + m.cost.memory_pj + m.cost.network_pj);
  Node energy = Node::object();
  energy.set("total", Node::real(idle + dynamic));
  energy.set("idle", Node::real(idle));
  energy.set("compute", Node::real(joules(m.cost.compute_pj)));
  energy.set("memory", Node::real(joules(m.cost.memory_pj)));
  energy.set("network", Node::real(joules(m.cost.network_pj)));
  root.set("energy_j", std::move(energy));
  root.set("energy_per_output_token_j", ratio(idle + dynamic, static_cast<double>(m.output_tokens)));

  Node memory = Node::object();
  const std::size_t fullest = fullest_replica(result);
  const GroupFacts& group = result.machine.groups[static_cast<std::size_t>(result.replicas[fullest].group)];
  memory.set("peak", Node::integer(group.weight_bytes + result.replicas[fullest].kv_peak_bytes));
  memory.set("weights", Node::integer(group.weight_bytes));
  memory.set("kv_peak", Node::integer(result.replicas[fullest].kv_peak_bytes));
  memory.set("kv_capacity", Node::integer(group.kv_capacity_bytes));
  root.set("memory_bytes", std::move(memory));
  root.set("kv", summarise(result.kv, m.prompt_tokens));
  if (result.kv_tiers) root.set("kv_tiers", summarise(*result.kv_tiers));
  root.set("replicas", replica_rows(result));
  root.set("cluster", cluster_figures(result.totals, scale));

  if (m.verifications > 0) {
    Node& speculation = root.set("speculation", Node::object());
    speculation.set("drafted", Node::integer(m.drafted_tokens));
    speculation.set("accepted", Node::integer(m.accepted_tokens));
    speculation.set("acceptance", ratio(static_cast<double>(m.accepted_tokens), static_cast<double>(m.drafted_tokens)));
    speculation.set("tokens_a_step",
                    Node::real(1 + static_cast<double>(m.accepted_tokens) / static_cast<double>(m.verifications)));
  }
  if (result.programs) root.set("programs", summarise_programs(*result.programs, span, scale));
  root.set("iterations", Node::integer(m.iterations));
  root.set("events", Node::integer(static_cast<std::int64_t>(result.events)));
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
  Node root = Node::object();
  root.set("status", Node::string("infeasible"));
  root.set("reason", Node::string(infeasible.reason));
  // Null where memory is not what is short.
  root.set("needed_bytes", infeasible.needed_bytes > 0 ? Node::integer(infeasible.needed_bytes) : Node{});
  root.set("available_bytes", infeasible.needed_bytes > 0 ? Node::integer(infeasible.available_bytes) : Node{});
  return root;
}

}  // namespace orrery::experiments
