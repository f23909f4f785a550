#include "models/autodiff/autodiff.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/autodiff/rules.hpp"
#include "models/graph/graph_rewrite.hpp"
#include "models/graph/op_work.hpp"

namespace orrery::models {
namespace {

using detail::Adjoint;

/// Which tensors depend on a parameter in a way that has a gradient.
std::vector<bool> depends_on_parameters(const OpGraph& graph) {
  std::vector<bool> depends(graph.tensor_count(), false);
  for (const TensorId id : graph.with_role(TensorRole::parameter))
    depends[index(id)] = detail::is_differentiable(graph.tensor(id).type);
  for (const OpId id : graph.ops()) {
    const OpNode& op = graph.op(id);
    if (detail::ends_gradients(op.kind)) continue;
    if (std::ranges::none_of(op.inputs, [&](TensorId input) { return depends[index(input)]; })) continue;
    for (const TensorId output : op.outputs)
      depends[index(output)] = detail::is_differentiable(graph.tensor(output).type);
  }
  return depends;
}

/// The forward graph with the outputs that gradients need. Its own outputs are not marked.
OpGraph forward_part(const OpGraph& forward, const std::vector<bool>& depends, std::vector<TensorId>& outputs) {
  GraphCopy copy(forward);
  for (const OpId id : forward.ops()) {
    const OpNode& op = forward.op(id);
    std::vector<Tensor> further;
    if (!op.outputs.empty() && depends[index(op.outputs.front())]) further = detail::training_outputs(forward, op);
    if (further.empty()) {
      copy.copy(id);
      continue;
    }
    std::vector<Tensor> all{forward.tensor(op.outputs.front())};
    all.insert(all.end(), further.begin(), further.end());
    const OpId added = copy.to().add(copy.node(id), std::move(all));
    copy.put(op.outputs.front(), copy.to().op(added).outputs.front());
  }
  outputs = copy.at(outputs);
  return std::move(copy.to());
}

// ---- loss

bool is_number(const OpGraph& graph, TensorId id) {
  return graph.tensor(id).elements().constant() == 1;
}

std::vector<SymExpr> all_axes(const OpGraph& graph, TensorId id) {
  std::vector<SymExpr> axes;
  for (std::size_t i = 0; i < graph.tensor(id).shape.size(); ++i) axes.emplace_back(static_cast<std::int64_t>(i));
  return axes;
}

TensorId loss_of(OpGraph& graph, TensorId output, LossKind kind, const std::string& suffix) {
  const Tensor out = graph.tensor(output);
  if (kind == LossKind::cross_entropy || kind == LossKind::nll) {
    if (out.shape.empty())
      throw GraphError(fmt::format("output '{}': expected logits [.., classes], got {}", out.name, shape_string(out)));
    const TensorId labels =
        graph.input("labels" + suffix, {out.shape.begin(), out.shape.end() - 1}, ElementType::int64);
    Attributes form;
    if (kind == LossKind::nll) {
      output = graph.emit(OpKind::softmax, {output}, {{"log", SymExpr(1)}}, "loss.log_softmax" + suffix);
      form.emplace_back("of", std::string("log_probabilities"));
    }
    return graph.emit(OpKind::cross_entropy, {output, labels}, {}, ElementType::fp32, form, "loss" + suffix);
  }
  if (kind == LossKind::mean_square) {
    const TensorId target = graph.input("target" + suffix, out.shape, out.type);
    const TensorId error = graph.emit(OpKind::sub, {output, target}, {}, "loss.error" + suffix);
    output = graph.emit(OpKind::mul, {error, error}, {}, "loss.square" + suffix);
    return graph.emit(OpKind::reduce_mean, {output}, {{"axes", all_axes(graph, output)}}, "loss" + suffix);
  }
  return graph.emit(OpKind::reduce_sum, {output}, {{"axes", all_axes(graph, output)}}, "loss" + suffix);
}

TensorId as_scalar(OpGraph& graph, TensorId id) {
  return graph.tensor(id).shape.empty()
             ? id
             : graph.emit(OpKind::reshape, {id}, {}, graph.tensor(id).type, {}, "loss.scalar");
}

/// Adds the loss of `outputs` and returns it: a number.
TensorId add_loss(OpGraph& graph, const std::vector<TensorId>& outputs, LossKind kind) {
  const bool given =
      kind == LossKind::automatic && std::ranges::any_of(outputs, [&](TensorId id) { return is_number(graph, id); });
  if (kind == LossKind::automatic) kind = LossKind::cross_entropy;
  std::vector<TensorId> losses;
  graph.set_scope("loss");
  for (const TensorId id : outputs) {
    if (given && !is_number(graph, id)) continue;
    const std::string suffix = losses.empty() ? "" : fmt::format(".{}", losses.size());
    losses.push_back(as_scalar(graph, given ? id : loss_of(graph, id, kind, suffix)));
  }
  const TensorId loss = losses.size() == 1 ? losses.front() : graph.emit(OpKind::add_n, losses, {}, "loss.sum");
  graph.set_scope("");
  return loss;
}

// ---- backward

class Backward {
 public:
  Backward(OpGraph& graph, std::vector<bool> depends) : graph_(graph), depends_(std::move(depends)) {
    given_.resize(graph.tensor_count());
  }

  /// Walks the ops back from `loss`.
  void run(TensorId loss) {
    const std::size_t forward_ops = graph_.op_count();
    given_[index(loss)].push_back({graph_.constant("loss.gradient", {}, graph_.tensor(loss).type), {}});
    for (std::size_t i = forward_ops; i-- > 0;) visit(static_cast<OpId>(i));
  }

  /// The gradient of a tensor, summed; nothing where the loss does not depend on it.
  std::optional<TensorId> gradient(TensorId id) {
    std::vector<Contribution>& all = given_[index(id)];
    if (all.empty()) return std::nullopt;
    join_parts(id, all);
    if (all.size() > 1) {
      std::vector<TensorId> terms;
      for (const Contribution& one : all) terms.push_back(one.gradient);
      all = {{add(OpKind::add_n, std::move(terms), graph_.tensor(id).shape, id, "sum"), {}}};
    }
    return all.front().gradient;
  }

 private:
  struct Contribution {
    TensorId gradient{};
    std::optional<OpId> slice;  ///< the gradient is that of the part which this op took
  };

  void visit(OpId id) {
    const std::vector<TensorId> outputs = graph_.op(id).outputs, inputs = graph_.op(id).inputs;
    std::vector<std::optional<TensorId>> gradients;
    bool any = false;
    for (const TensorId output : outputs) {
      gradients.push_back(depends_[index(output)] ? gradient(output) : std::nullopt);
      any = any || gradients.back().has_value();
    }
    if (!any) return;
    std::vector<bool> needed;
    for (const TensorId input : inputs) needed.push_back(depends_[index(input)]);
    const OpKind kind = graph_.op(id).kind;
    const detail::GradientRule rule = detail::gradient_rule(kind);
    if (rule == nullptr)
      throw GraphError(
          fmt::format("{} '{}': no gradient rule for this kind of op", to_string(kind), graph_.op(id).name));
    Adjoint adjoint(graph_, id, std::move(gradients), std::move(needed));
    rule(adjoint);
    for (const Adjoint::Given& given : adjoint.given())
      given_[index(inputs[given.slot])].push_back({given.gradient, given.part ? std::optional(id) : std::nullopt});
  }

  TensorId add(OpKind kind, std::vector<TensorId> inputs, std::vector<SymExpr> shape, TensorId of,
               std::string_view what, Attributes attributes = {}) {
    OpNode node;
    node.kind = kind;
    node.name = fmt::format("{}.grad.{}{}", graph_.tensor(of).name, what, joined_++);
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    node.phase = Phase::backward;
    if (const std::optional<OpId> maker = graph_.producer(of)) {
      node.scope = graph_.op(*maker).scope;
      node.op_class = graph_.op(*maker).op_class;
    }
    Tensor out;
    out.shape = std::move(shape);
    out.type = graph_.tensor(of).type;
    return graph_.op(graph_.add(std::move(node), {out})).outputs.front();
  }

  /// Gradients of parts become that of the whole: side by side where they cover it, else each in a frame of zeros.
  void join_parts(TensorId id, std::vector<Contribution>& all) {
    std::vector<Contribution> parts, whole;
    for (const Contribution& one : all) (one.slice ? parts : whole).push_back(one);
    if (parts.empty()) return;
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return *a.slice < *b.slice; });
    const std::vector<SymExpr> shape = graph_.tensor(id).shape;
    if (const std::optional<std::size_t> axis = covering_axis(parts, shape)) {
      std::vector<TensorId> pieces;
      for (const Contribution& part : parts) pieces.push_back(part.gradient);
      const Attributes along{{"axis", SymExpr(static_cast<std::int64_t>(*axis))}};
      whole.push_back({add(OpKind::concat, std::move(pieces), shape, id, "parts", along), {}});
    } else {
      for (const Contribution& part : parts)
        whole.push_back({add(OpKind::pad, {part.gradient}, shape, id, "part", frame(part, shape)), {}});
    }
    all = std::move(whole);
  }

  /// The axis along which the parts, in order, tile the whole.
  std::optional<std::size_t> covering_axis(const std::vector<Contribution>& parts, const std::vector<SymExpr>& shape) {
    if (parts.size() < 2) return std::nullopt;
    std::optional<std::size_t> axis;
    SymExpr end = 0;
    for (const Contribution& part : parts) {
      const std::vector<SymExpr>& own = graph_.tensor(part.gradient).shape;
      const std::optional<std::size_t> differs = detail::differing_axis(graph_, shape, own);
      if (!differs || (axis && *axis != *differs)) return std::nullopt;
      axis = differs;
      if (!provably_equal(graph_.op(*part.slice).expr("start", end), end, graph_.facts)) return std::nullopt;
      end += own[*axis];
    }
    return provably_equal(end, shape[*axis], graph_.facts) ? axis : std::nullopt;
  }

  /// Attributes of the pad that puts a part back: what lies before and after it along each axis.
  Attributes frame(const Contribution& part, const std::vector<SymExpr>& shape) const {
    const OpNode& slice = graph_.op(*part.slice);
    const std::vector<SymExpr>& own = graph_.tensor(part.gradient).shape;
    if (own.size() != shape.size()) return {};
    std::vector<SymExpr> before(shape.size()), after(shape.size());
    const Attribute* start = slice.find("start");
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (own[i] == shape[i]) continue;
      if (start != nullptr) {
        const auto* list = std::get_if<std::vector<SymExpr>>(start);
        before[i] = list == nullptr ? slice.expr("start", 0) : i < list->size() ? (*list)[i] : SymExpr(0);
      }
      after[i] = shape[i] - own[i] - before[i];
    }
    return {{"after", std::move(after)}, {"before", std::move(before)}};
  }

  OpGraph& graph_;
  std::vector<bool> depends_;
  std::vector<std::vector<Contribution>> given_;  ///< by tensor of the forward part
  int joined_ = 0;
};

std::vector<TensorId> differentiable_outputs(const OpGraph& graph, const std::vector<bool>& depends) {
  std::vector<TensorId> found;
  for (const TensorId id : graph.outputs())
    if (depends[index(id)]) found.push_back(id);
  return found;
}

}  // namespace

TrainingGraph differentiate(const OpGraph& given, const AutodiffOptions& options) {
  const OpGraph forward = unfuse(given);
  const std::vector<bool> depends = depends_on_parameters(forward);
  std::vector<TensorId> outputs;
  for (const TensorId id : options.outputs) outputs.push_back(forward.find_tensor(given.tensor(id).name).value());
  if (outputs.empty()) outputs = differentiable_outputs(forward, depends);
  if (outputs.empty()) throw GraphError("nothing to differentiate: no floating output depends on a parameter");

  TrainingGraph training{.graph = forward_part(forward, depends, outputs)};
  OpGraph& graph = training.graph;
  training.loss = add_loss(graph, outputs, options.loss);
  graph.mark_output(training.loss);
  Backward backward(graph, depends_on_parameters(graph));
  backward.run(training.loss);
  for (const TensorId id : graph.with_role(TensorRole::parameter)) {
    if (!detail::is_differentiable(graph.tensor(id).type)) continue;
    if (const std::optional<TensorId> gradient = backward.gradient(id))
      training.gradients.emplace_back(id, *gradient);
    else
      training.unreached.push_back(id);
  }
  if (options.optimizer == OptimizerKind::none)
    for (const auto& [parameter, gradient] : training.gradients) graph.mark_output(gradient);
  else
    detail::add_optimizer(graph, training.gradients, options);
  mark_saved(graph);
  return training;
}

bool has_gradient(OpKind kind) {
  return detail::gradient_rule(kind) != nullptr || detail::ends_gradients(kind);
}

void mark_saved(OpGraph& graph) {
  for (const TensorId id : graph.tensors()) graph.annotate(id).saved = false;
  for (const OpId id : graph.ops()) {
    if (graph.op(id).phase == Phase::forward) continue;
    for (const TensorId input : graph.op(id).inputs) {
      const TensorId memory = storage_of(graph, input);
      const std::optional<OpId> maker = graph.producer(memory);
      if (maker && graph.op(*maker).phase == Phase::forward) graph.annotate(memory).saved = true;
    }
  }
}

}  // namespace orrery::models
