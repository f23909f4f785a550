#include "experiments/systems/training/expert_load.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "experiments/experts/placement_trial.hpp"

namespace orrery::experiments::training {
namespace {

using models::index;
using models::OpGraph;
using models::OpId;
using models::OpKind;
using models::OpNode;
using models::TensorId;

bool is_exchange(const OpNode& op) {
  return op.kind == OpKind::all_to_all && op.integer("choices", 0) > 0;
}

bool multiplies_rows(OpKind kind) {
  return kind == OpKind::grouped_matmul || kind == OpKind::grouped_matmul_grad_weight;
}

/// Whether rows that an exchange has brought are multiplied next, perhaps sorted before; else they are back with their
/// tokens.
bool arrives(const OpGraph& graph, TensorId rows) {
  return std::ranges::any_of(graph.consumers(rows), [&](OpId reader) {
    const OpNode& op = graph.op(reader);
    return multiplies_rows(op.kind) || (op.kind == OpKind::copy && arrives(graph, op.outputs.front()));
  });
}

}  // namespace

ExpertLoad::ExpertLoad(traces::RouterTrace trace, std::int64_t planned,
                       policies::ExpertPlacementRegistry::Choice placement)
    : trace_(std::move(trace)),
      planned_(planned),
      placement_(std::move(placement)),
      seen_(placement_view(trace_, {0, planned})) {
  seen_.slots = trace_.experts;
}

PlacedExperts ExpertLoad::place(std::int64_t ranks, std::int64_t nodes) const {
  policies::ExpertPlacementView view = seen_;
  view.gpus = ranks;
  view.nodes = nodes;
  const auto policy = placement_.make();
  std::string why = policies::placement_obstacle(view);
  if (why.empty()) why = policy->obstacle(view);
  if (!why.empty()) return {"policies.placement: " + why, {}};
  return {std::nullopt, policy->place(view)};
}

double ExpertLoad::busiest(const PlacedExperts& placed, std::int64_t ranks, std::int64_t tokens) const {
  const std::vector<double> over = layer_imbalances(trace_, {planned_, trace_.tokens()}, tokens, placed.layers, ranks);
  return 1 + std::accumulate(over.begin(), over.end(), 0.0) / static_cast<double>(over.size());
}

std::vector<bool> rows_of_experts(const OpGraph& graph) {
  std::vector<bool> rows(graph.tensor_count(), false);
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (is_exchange(op)) {
      rows[index(op.outputs.front())] = arrives(graph, op.outputs.front());
      continue;
    }
    const auto reads = std::ranges::find_if(op.inputs, [&](TensorId input) { return rows[index(input)]; });
    if (reads == op.inputs.end()) continue;
    // Of what is made from rows, what has as many of them: gradients of weights and tokens have not.
    const auto& like = graph.tensor(*reads).shape;
    for (const TensorId made : op.outputs)
      if (!like.empty() && !graph.tensor(made).shape.empty() && graph.tensor(made).shape.front() == like.front())
        rows[index(made)] = true;
  }
  return rows;
}

}  // namespace orrery::experiments::training
