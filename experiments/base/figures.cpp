#include "experiments/base/figures.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/batch_means.hpp"

namespace orrery::experiments {

using sim::Node;

Node distribution_figures(const sim::SampleStats& samples, double unit,
                          std::span<const std::pair<const char*, double>> quantiles) {
  Node node = Node::object();
  const bool any = samples.count() > 0;
  node.set("mean", any ? Node::real(samples.mean() * unit) : Node{});
  for (const auto& [name, q] : quantiles) node.set(name, any ? Node::real(samples.quantile(q) * unit) : Node{});
  node.set("max", any ? Node::real(static_cast<double>(samples.max()) * unit) : Node{});
  return node;
}

std::string latency_names() {
  std::string names = "{mean,";
  for (const auto& [name, q] : kLatencyQuantiles) names += std::string(name) + ",";
  return names + "max}";
}

Node ratio(double part, double whole) {
  return whole > 0 ? Node::real(part / whole) : Node{};
}

std::string reason_of(const Node& summary) {
  const Node* status = summary.find("status");
  if (status != nullptr && status->is_string() && status->as_string() == "ok") return {};
  std::string text = status != nullptr && status->is_string() ? status->as_string() : "not feasible";
  const Node* reason = summary.find("reason");
  if (reason != nullptr && reason->is_string()) text += ": " + reason->as_string();
  return text;
}

Node replication_figures(const std::vector<Node>& summaries, std::span<const std::string_view> paths) {
  Node root = Node::object();
  root.set("count", Node::integer(std::ssize(summaries)));
  for (const std::string_view path : paths) {
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
               n > 1 ? Node::real(sim::mean_half_width(variance, static_cast<std::int64_t>(n), 0.95)) : Node{});
    root.set(std::string(path), std::move(figure));
  }
  return root;
}

std::vector<FigureInfo> replication_infos() {
  return {{"count", "count", "Runs with seeds seed, seed + 1 …"},
          {"*.{mean,half_width}", "",
           "Mean of simulated_s over the runs, and half width of its 95 % interval (Student's t)."},
          {"*.*.{mean,half_width}", "",
           "Mean over the runs of the figure of that path, and half width of its 95 % interval."}};
}

}  // namespace orrery::experiments
