#include "experiments/systems/network/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/figures.hpp"
#include "experiments/systems/network/files.hpp"

namespace orrery::experiments::network {
namespace {

using sim::Node;

constexpr std::array kQuantiles{std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p99", 0.99}};

/// Of samples in ticks.
Node times(const sim::SampleStats& ticks, const sim::TickScale& scale) {
  return distribution_figures(ticks, scale.seconds(sim::Duration{1}), kQuantiles);
}

Node whole(double bytes) {
  return Node::integer(std::llround(bytes));
}

Node job_node(const Job& job, const JobFigures& figures, const sim::TickScale& scale) {
  Node node = Node::object();
  node.set("collective", Node::string(std::string(to_string(job.spec.kind))));
  node.set("algorithm", Node::string(job.algorithm.name));
  node.set("mode", Node::string(job.closed_s ? "closed" : "chunks"));
  node.set("ranks", Node::integer(job.ranks()));
  node.set("bytes", Node::integer(job.spec.bytes));
  node.set("repetitions", Node::integer(figures.time.count()));
  node.set("unfinished", Node::integer(figures.unfinished));
  node.set("time_s", times(figures.time, scale));
  // Of the mean time, as nccl-tests does it.
  const double mean_s = figures.time.mean() * scale.seconds(sim::Duration{1});
  const auto bytes = static_cast<double>(job.spec.bytes);
  node.set("algbw_bytes_per_s", ratio(bytes, mean_s));
  node.set("busbw_bytes_per_s", ratio(bytes * bus_factor(job.spec.kind, job.ranks()), mean_s));
  node.set("messages", job.closed_s ? Node{} : Node::integer(figures.messages));
  return node;
}

Node jobs_node(const NetworkConfig& config, const NetworkResult& result, const sim::TickScale& scale) {
  Node node = Node::object();
  std::int64_t repetitions = 0;
  std::int64_t unfinished = 0;
  Node each = Node::object();
  for (std::size_t i = 0; i < config.jobs.size(); ++i) {
    repetitions += result.jobs[i].time.count();
    unfinished += result.jobs[i].unfinished;
    each.set(config.jobs[i].params.name, job_node(config.jobs[i], result.jobs[i], scale));
  }
  node.set("count", Node::integer(std::ssize(config.jobs)));
  node.set("repetitions", Node::integer(repetitions));
  node.set("unfinished", Node::integer(unfinished));
  node.set("time_s", times(result.job_times, scale));
  node.set("by_name", std::move(each));  // so that a study can ask for jobs.by_name.NAME.time_s.mean
  return node;
}

Node flows_node(const FlowFigures& flows, const sim::TickScale& scale) {
  Node node = Node::object();
  node.set("count", Node::integer(flows.time.count() + flows.unfinished));
  node.set("completed", Node::integer(flows.time.count()));
  node.set("unfinished", Node::integer(flows.unfinished));
  node.set("bytes", whole(static_cast<double>(flows.bytes)));
  node.set("time_s", times(flows.time, scale));
  node.set("slowdown", distribution_figures(flows.slowdown, 1e-6, kQuantiles));
  return node;
}

/// Null where nothing is known of links: a formula says how long, not which way.
Node links_node(const NetworkConfig& config, const NetworkResult& result, double simulated_s) {
  if (result.closed) return {};
  const std::vector<hw::NetworkLink>& links = config.topology->links;
  double sum = 0, most = 0, carried = 0;
  std::int64_t count = 0;
  for (std::size_t l = 0; l < links.size(); ++l) {
    if (links[l].bandwidth <= 0) continue;  // the missing direction of a one-way cable
    const double share = utilisation(links[l], result.carried_bytes[l], simulated_s);
    ++count;
    sum += share;
    most = std::max(most, share);
    carried += result.carried_bytes[l];
  }
  Node node = Node::object();
  node.set("count", Node::integer(count));
  node.set("carried_bytes", whole(carried));
  Node shares = Node::object();
  shares.set("mean", ratio(sum, static_cast<double>(count)));
  shares.set("max", Node::real(most));
  node.set("utilisation", std::move(shares));
  const std::vector<hw::LinkIndex> busiest = busiest_links(config, result, 1);
  const hw::TopologyNames names(*config.topology);
  node.set("busiest", busiest.empty() ? Node{} : Node::string(names.link_name(busiest.front())));
  return node;
}

/// Why nothing moves any more, and what that stopped.
void set_stalled(Node& root, const NetworkConfig& config, const NetworkResult& result) {
  root.set("reason",
           Node::string(fmt::format("{} messages have no path, and no link comes back", result.without_path)));
  Node stopped = Node::object();
  Node jobs = Node::array();
  for (std::size_t i = 0; i < config.jobs.size(); ++i)
    if (result.jobs[i].unfinished > 0) jobs.push(Node::string(config.jobs[i].params.name));
  stopped.set("jobs", std::move(jobs));
  Node flows = Node::array();
  for (const std::int64_t id : result.stalled_flows) flows.push(Node::integer(id));
  stopped.set("flows", std::move(flows));
  root.set("stalled", std::move(stopped));
}

}  // namespace

double bus_factor(hw::CollectiveKind kind, std::int64_t ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (kind) {
    case hw::CollectiveKind::all_reduce:
      return 2 * others;
    case hw::CollectiveKind::all_gather:
    case hw::CollectiveKind::reduce_scatter:
    case hw::CollectiveKind::all_to_all:
      return others;
    case hw::CollectiveKind::broadcast:
    case hw::CollectiveKind::send_recv:
      return 1;
  }
  return 1;
}

std::vector<hw::LinkIndex> busiest_links(const NetworkConfig& config, const NetworkResult& result, std::size_t count) {
  const std::vector<hw::NetworkLink>& links = config.topology->links;
  std::vector<hw::LinkIndex> used;
  for (hw::LinkIndex l = 0; l < result.carried_bytes.size(); ++l)
    if (result.carried_bytes[l] > 0) used.push_back(l);
  count = std::min(count, used.size());
  std::partial_sort(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(count), used.end(),
                    [&](hw::LinkIndex a, hw::LinkIndex b) {
                      const double left = result.carried_bytes[a] * links[b].bandwidth;
                      const double right = result.carried_bytes[b] * links[a].bandwidth;
                      return left != right ? left > right : a < b;
                    });
  used.resize(count);
  return used;
}

Node summarise(const NetworkConfig& config, const NetworkResult& result) {
  const sim::TickScale scale = tick_scale(config.run.tick_s);
  const double simulated_s = scale.seconds(result.end);
  Node root = Node::object();
  root.set("status", Node::string(result.stalled ? "stalled" : "ok"));
  if (result.stalled) set_stalled(root, config, result);
  root.set("simulated_s", Node::real(simulated_s));
  const bool any = result.first_start && result.last_end;
  root.set("makespan_s", any ? Node::real(scale.seconds(*result.last_end - *result.first_start)) : Node{});
  if (!config.jobs.empty()) root.set("jobs", jobs_node(config, result, scale));
  if (!config.flows.empty() || config.traffic) root.set("flows", flows_node(result.flows, scale));
  root.set("links", links_node(config, result, simulated_s));
  root.set("rerouted", Node::integer(result.rerouted));
  root.set("without_path", Node::integer(static_cast<std::int64_t>(result.without_path)));
  Node solver = Node::object();
  solver.set("solves", Node::integer(static_cast<std::int64_t>(result.effort.solves)));
  solver.set("changes", Node::integer(static_cast<std::int64_t>(result.effort.changes)));
  solver.set("freed", Node::integer(static_cast<std::int64_t>(result.effort.freed)));
  solver.set("levels", Node::integer(static_cast<std::int64_t>(result.effort.levels)));
  root.set("solver", std::move(solver));
  root.set("events", Node::integer(static_cast<std::int64_t>(result.events)));
  return root;
}

Node summarise_replications(const std::vector<Node>& summaries) {
  constexpr std::array<std::string_view, 9> kPaths{
      "jobs.time_s.mean",    "jobs.time_s.p99",        "simulated_s",
      "makespan_s",          "flows.time_s.mean",      "flows.time_s.p99",
      "flows.slowdown.mean", "links.utilisation.mean", "links.utilisation.max"};
  return replication_figures(summaries, kPaths);
}

}  // namespace orrery::experiments::network
