#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/serving/system.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

Node latency(const Distribution& distribution) {
  const sim::SampleStats& samples = *distribution.samples;
  const double unit_s = distribution.unit_s;
  Node node = Node::object();
  const bool any = samples.count() > 0;
  node.set("mean", any ? Node::real(samples.mean() * unit_s) : Node{});
  for (const auto& [name, q] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}})
    node.set(name, any ? Node::real(samples.quantile(q) * unit_s) : Node{});
  node.set("max", any ? Node::real(static_cast<double>(samples.max()) * unit_s) : Node{});
  return node;
}

Node ratio(double part, double whole) {
  return whole > 0 ? Node::real(part / whole) : Node{};
}

/// 97.5 % quantile of Student's t; past 30 degrees of freedom the normal one is within 2 %, and 1.96 + 2.4/df closer.
double student_t(std::int64_t df) {
  constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                              2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                              2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (df <= std::ssize(kTable)) return kTable[static_cast<std::size_t>(df - 1)];
  return 1.96 + 2.4 / static_cast<double>(df);
}

double joules(__int128 pj) {
  return static_cast<double>(pj) * 1e-12;
}

}  // namespace

Node summarise(const ServingResult& result, const sim::TickScale& scale) {
  const ServingMetrics& m = result.metrics;
  const double span = result.simulated_s;
  const auto active = static_cast<double>(result.machine.active_devices);
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

  Node slo = Node::object();
  slo.set("attainment", ratio(static_cast<double>(m.attained), static_cast<double>(m.measured)));
  slo.set("goodput_per_s", ratio(static_cast<double>(m.attained), span - scale.seconds(m.warmup)));
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
  utilisation.set("mfu", ratio(static_cast<double>(m.cost.flops), result.machine.peak_flops * active * span));
  utilisation.set("mbu",
                  ratio(static_cast<double>(m.cost.dram_bytes), result.machine.peak_bytes_per_s * active * span));
  utilisation.set("busy", ratio(scale.seconds_of_sum(m.busy_ticks), span));
  root.set("utilisation", std::move(utilisation));

  const double idle = result.machine.idle_watts * static_cast<double>(result.machine.devices) * span;
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
  memory.set("peak", Node::integer(result.machine.weight_bytes + m.kv_peak_bytes));
  memory.set("weights", Node::integer(result.machine.weight_bytes));
  memory.set("kv_peak", Node::integer(m.kv_peak_bytes));
  memory.set("kv_capacity", Node::integer(result.machine.kv_capacity_bytes));
  root.set("memory_bytes", std::move(memory));

  root.set("iterations", Node::integer(m.iterations));
  root.set("events", Node::integer(static_cast<std::int64_t>(result.events)));
  return root;
}

Node summarise_replications(const std::vector<Node>& summaries) {
  Node root = Node::object();
  root.set("count", Node::integer(std::ssize(summaries)));
  for (const char* path : {"simulated_s", "ttft_s.mean", "ttft_s.p99", "tbt_s.mean", "tbt_s.p99", "tpot_s.mean",
                           "e2e_s.mean", "e2e_s.p99", "queueing_s.mean", "slo.attainment", "slo.goodput_per_s",
                           "throughput.requests_per_s", "throughput.output_tokens_per_s", "energy_j.total"}) {
    double n = 0, sum = 0, squares = 0;
    for (const Node& summary : summaries) {
      const Node* value = summary.at(path);
      if (value == nullptr || !value->is_number()) continue;  // undefined in this replication
      ++n;
      sum += value->as_number();
      squares += value->as_number() * value->as_number();
    }
    Node figure = Node::object();
    figure.set("mean", n > 0 ? Node::real(sum / n) : Node{});
    const double variance = n > 1 ? std::max(0.0, (squares - sum * sum / n) / (n - 1)) : 0;
    figure.set("half_width",
               n > 1 ? Node::real(student_t(static_cast<std::int64_t>(n) - 1) * std::sqrt(variance / n)) : Node{});
    root.set(path, std::move(figure));
  }
  return root;
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
