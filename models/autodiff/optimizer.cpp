// Optimizer steps: (parameter, gradient, state ..) -> (parameter, state ..), each output over the input it replaces.
//
// State in fp32: sgd none, sgd_momentum one tensor, adam and adamw two; with master weights one more, for parameters of
// 16 bits. Attribute `updates` lists, for each output, the input whose memory it takes. A fused step takes all
// parameters, then all gradients, then each kind of state; attribute `parameters` counts them. Attribute
// `step_casts` counts casts that are kernels of their own.
#include <fmt/format.h>

#include "models/autodiff/rules.hpp"

namespace orrery::models::detail {
namespace {

/// Tensors of one role in the step, one for each parameter or fewer.
struct Column {
  std::vector<TensorId> tensors;
  bool updated = true;
};

std::vector<std::string_view> states_of(std::string_view optimizer) {
  if (optimizer == "sgd_momentum") return {"momentum"};
  if (optimizer == "adam" || optimizer == "adamw") return {"moment1", "moment2"};
  return {};
}

TensorId add_state(OpGraph& graph, TensorId parameter, std::string_view what) {
  Tensor state = graph.tensor(parameter);
  state.name = fmt::format("{}.{}", state.name, what);
  state.type = ElementType::fp32;
  state.role = TensorRole::state;
  return graph.add_tensor(std::move(state));
}

void add_step(OpGraph& graph, const std::vector<Column>& columns, const AutodiffOptions& options, std::string name) {
  OpNode node;
  node.kind = OpKind::optimizer_step;
  node.name = std::move(name);
  node.phase = Phase::optimizer;
  node.op_class = hw::OpClass::residual;
  std::vector<SymExpr> updates;
  std::vector<Tensor> outputs;
  for (const Column& column : columns)
    for (const TensorId id : column.tensors) {
      if (column.updated) {
        updates.emplace_back(static_cast<std::int64_t>(node.inputs.size()));
        Tensor updated = graph.tensor(id);
        updated.name += ".next";
        outputs.push_back(std::move(updated));
      }
      node.inputs.push_back(id);
    }
  node.attributes = {{"optimizer", std::string(to_string(options.optimizer))},
                     {"parameters", SymExpr(static_cast<std::int64_t>(columns.front().tensors.size()))}};
  if (options.step_casts > 0) node.attributes.emplace_back("step_casts", SymExpr(options.step_casts));
  node.attributes.emplace_back("updates", std::move(updates));
  for (const TensorId output : std::vector(graph.op(graph.add(std::move(node), std::move(outputs))).outputs))
    graph.mark_output(output);
}

}  // namespace

void add_optimizer(OpGraph& graph, const std::vector<std::pair<TensorId, TensorId>>& gradients,
                   const AutodiffOptions& options) {
  const std::vector<std::string_view> states = states_of(to_string(options.optimizer));
  const std::size_t kinds = 3 + states.size();  // parameters, gradients, states, masters
  std::vector<Column> all(kinds);
  all[1].updated = false;
  for (const auto& [parameter, gradient] : gradients) {
    std::vector<Column> own(kinds);
    own[1].updated = false;
    own[0].tensors = {parameter};
    own[1].tensors = {gradient};
    for (std::size_t i = 0; i < states.size(); ++i) own[2 + i].tensors = {add_state(graph, parameter, states[i])};
    if (options.master_weights && bytes_of(graph.tensor(parameter).type) == 2)
      own.back().tensors = {add_state(graph, parameter, "master")};
    if (!options.fused_step) {
      add_step(graph, own, options, fmt::format("{}.step", graph.tensor(parameter).name));
      continue;
    }
    for (std::size_t i = 0; i < kinds; ++i)
      all[i].tensors.insert(all[i].tensors.end(), own[i].tensors.begin(), own[i].tensors.end());
  }
  if (options.fused_step && !gradients.empty()) add_step(graph, all, options, "optimizer.step");
}

}  // namespace orrery::models::detail
