#include "experiments/systems/launch/summary.hpp"

#include <algorithm>

#include "experiments/base/figures.hpp"

namespace orrery::experiments::launch {
namespace {

using sim::Node;

Node whole(const std::optional<std::int64_t>& value) {
  return value ? Node::integer(*value) : Node{};
}

Node proximity_node(const Point& point, const ProximityPoint& fused) {
  Node node = Node::object();
  node.set("chains", Node::integer(fused.chains));
  node.set("launches", Node::integer(fused.launches));
  node.set("launch_ratio", ratio(static_cast<double>(point.stream.launches), static_cast<double>(fused.launches)));
  node.set("il_s", Node::real(fused.il_s));
  node.set("gain", ratio(point.stream.il_s, fused.il_s));
  return node;
}

Node point_node(const Point& point) {
  const hw::LaunchFigures& f = point.stream;
  Node node = Node::object();
  node.set("launches", Node::integer(f.launches));
  node.set("tklqt_s", Node::real(f.tklqt_s));
  node.set("akd_s", Node::real(f.akd_s));
  node.set("il_s", Node::real(f.il_s));
  node.set("gpu_busy_s", Node::real(f.gpu_busy_s));
  node.set("gpu_idle_s", Node::real(f.gpu_idle_s));
  node.set("cpu_busy_s", Node::real(f.cpu_busy_s));
  node.set("queued", Node::real(f.queued));
  node.set("bound", Node::string(std::string(hw::to_string(f.bound))));
  node.set("graph_il_s", Node::real(point.graph.il_s));
  node.set("graph_capture_s", Node::real(point.capture_s));
  node.set("fused_il_s", Node::real(point.fused.il_s));
  node.set("fusion_gain", Node::real(fusion_gain(point)));
  Node by_length = Node::object();
  for (const ProximityPoint& fused : point.proximity)
    by_length.set(std::to_string(fused.length), proximity_node(point, fused));
  node.set("proximity", std::move(by_length));
  const auto shorter = [](const ProximityPoint& a, const ProximityPoint& b) { return a.il_s < b.il_s; };
  const auto best = std::min_element(point.proximity.begin(), point.proximity.end(), shorter);
  if (best != point.proximity.end()) {
    Node node_of_best = proximity_node(point, *best);
    node_of_best.set("length", Node::integer(best->length));
    node.set("proximity_best", std::move(node_of_best));
  }
  Node energy = Node::object();
  energy.set("total", Node::real(point.idle_j + point.compute_j + point.memory_j));
  energy.set("idle", Node::real(point.idle_j));
  energy.set("compute", Node::real(point.compute_j));
  energy.set("memory", Node::real(point.memory_j));
  node.set("energy_j", std::move(energy));
  return node;
}

Node crossover_node(const Crossover& crossover) {
  Node node = Node::object();
  node.set("balance", whole(crossover.balance));
  node.set("tklqt", whole(crossover.tklqt));
  node.set("il", whole(crossover.il));
  return node;
}

Node series_node(const Series& series) {
  Node node = Node::object();
  node.set("crossover", crossover_node(series.crossover));
  Node batches = Node::object();
  for (const Point& point : series.points) batches.set(std::to_string(point.batch), point_node(point));
  node.set("batches", std::move(batches));
  return node;
}

Node quotient(const std::optional<std::int64_t>& above, const std::optional<std::int64_t>& below) {
  return above && below ? ratio(static_cast<double>(*above), static_cast<double>(*below)) : Node{};
}

/// The last platform against another.
Node against(const Series& last, const Series& other) {
  Node node = Node::object();
  Node crossover = Node::object();
  crossover.set("balance", quotient(last.crossover.balance, other.crossover.balance));
  crossover.set("tklqt", quotient(last.crossover.tklqt, other.crossover.tklqt));
  crossover.set("il", quotient(last.crossover.il, other.crossover.il));
  node.set("crossover_ratio", std::move(crossover));
  Node speedup = Node::object();
  for (std::size_t i = 0; i < last.points.size(); ++i)
    speedup.set(std::to_string(last.points[i].batch), ratio(other.points[i].stream.il_s, last.points[i].stream.il_s));
  node.set("speedup", std::move(speedup));
  return node;
}

}  // namespace

double fusion_gain(const Point& point) {
  return point.fused.il_s > 0 ? point.stream.il_s / point.fused.il_s : 1;
}

Node summarise(const LaunchConfig& config, const LaunchResult& result) {
  const std::size_t models = config.models.size();
  const std::size_t last = config.platforms.size() - 1;
  Node root = Node::object();
  root.set("status", Node::string("ok"));
  Node platforms = Node::object();
  for (std::size_t p = 0; p <= last; ++p) {
    Node by_model = Node::object();
    for (std::size_t m = 0; m < models; ++m)
      by_model.set(config.models[m].name, series_node(result.series[p * models + m]));
    platforms.set(config.platforms[p].name, std::move(by_model));
  }
  root.set("platforms", std::move(platforms));
  Node comparison = Node::object();
  for (std::size_t m = 0; m < models; ++m) {
    Node others = Node::object();
    for (std::size_t p = 0; p < last; ++p)
      others.set(config.platforms[p].name, against(result.series[last * models + m], result.series[p * models + m]));
    comparison.set(config.models[m].name, std::move(others));
  }
  root.set("comparison", std::move(comparison));
  root.set("events", Node::integer(static_cast<std::int64_t>(result.events)));
  return root;
}

}  // namespace orrery::experiments::launch
