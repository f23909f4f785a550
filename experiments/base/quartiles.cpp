#include "experiments/base/quartiles.hpp"

#include <algorithm>
#include <cmath>

namespace orrery::experiments {

sim::Node quartile_figures(std::vector<double> values) {
  using sim::Node;
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    if (values.empty()) return Node{};
    const double place = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double share = place - static_cast<double>(below);
    const double value = share == 0 ? values[below] : values[below] + share * (values[above] - values[below]);
    return std::isfinite(value) ? Node::real(value) : Node{};
  };
  Node node = Node::object();
  node.set("count", Node::integer(std::ssize(values)));
  for (const auto& [name, q] : {std::pair{"min", 0.0}, {"p25", 0.25}, {"p50", 0.5}, {"p75", 0.75}, {"max", 1.0}})
    node.set(name, quantile(q));
  return node;
}

}  // namespace orrery::experiments
