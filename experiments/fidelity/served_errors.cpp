#include "experiments/fidelity/served_errors.hpp"

#include <cmath>

namespace orrery::experiments {
namespace {

using sim::Node;

/// Four digits behind the point: a file that is read by people, and does not change with the last bit of a sum.
Node rounded_share(double value) {
  constexpr double kDigits = 1e4;
  return Node::real(std::round(value * kDigits) / kDigits);
}

}  // namespace

void ServedErrors::add(const MeasuredTable& table, const Predictions::Column& column) {
  for (const Predictions::Row& row : column.rows) {
    if (!row.served) continue;
    const ServedRun& run = *row.served;
    Errors& errors = groups_[{run.part, std::string(run.policy), std::string(run.engine), run.experts}];
    errors.tables.insert(table.name());
    errors.by_figure[std::string(run.figure)].push_back(row.predicted / row.measured - 1);
  }
}

Node ServedErrors::node() const {
  Node runs = Node::array();
  for (const auto& [group, errors] : groups_) {
    Node run = Node::object();
    run.set("part", Node::string(group.part));
    run.set("engine", Node::string(group.engine));
    run.set("policy", group.policy.empty() ? Node{} : Node::string(group.policy));
    run.set("model", Node::string(group.experts ? "experts" : "dense"));
    Node tables = Node::array();
    for (const std::string& table : errors.tables) tables.push(Node::string(table));
    run.set("tables", std::move(tables));
    for (const char* figure : {"ttft", "tpot"}) {
      const auto found = errors.by_figure.find(figure);
      Node node;
      if (found != errors.by_figure.end()) {
        const ErrorSummary summary = summarise_errors(found->second);
        node = Node::object();
        node.set("rows", Node::integer(static_cast<std::int64_t>(summary.rows)));
        node.set("mape", rounded_share(summary.mape));
        node.set("bias", rounded_share(summary.bias));
      }
      run.set(figure, std::move(node));
    }
    runs.push(std::move(run));
  }
  Node root = Node::object();
  root.set("runs", std::move(runs));
  return root;
}

}  // namespace orrery::experiments
