#include "experiments/figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace orrery::experiments {

using sim::Node;

namespace {

/// 97.5 % quantile of Student's t; past 30 degrees of freedom the normal one is within 2 %, and 1.96 + 2.4/df closer.
double student_t(std::int64_t df) {
  constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                              2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                              2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (df <= std::ssize(kTable)) return kTable[static_cast<std::size_t>(df - 1)];
  return 1.96 + 2.4 / static_cast<double>(df);
}

}  // namespace

Node distribution_figures(const sim::SampleStats& samples, double unit,
                          std::span<const std::pair<const char*, double>> quantiles) {
  Node node = Node::object();
  const bool any = samples.count() > 0;
  node.set("mean", any ? Node::real(samples.mean() * unit) : Node{});
  for (const auto& [name, q] : quantiles) node.set(name, any ? Node::real(samples.quantile(q) * unit) : Node{});
  node.set("max", any ? Node::real(static_cast<double>(samples.max()) * unit) : Node{});
  return node;
}

Node ratio(double part, double whole) {
  return whole > 0 ? Node::real(part / whole) : Node{};
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
               n > 1 ? Node::real(student_t(static_cast<std::int64_t>(n) - 1) * std::sqrt(variance / n)) : Node{});
    root.set(std::string(path), std::move(figure));
  }
  return root;
}

}  // namespace orrery::experiments
