#include "models/builders/net.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace orrery::models {

using hw::OpClass;

Net::Net(std::string name, ElementType type) : type_(type) {
  graph_.name = std::move(name);
}

void Net::scope(const std::string& path) {
  graph_.set_scope(path);
  owner_ = path;
}

OpGraph Net::finish(const std::vector<TensorId>& outputs) {
  for (const TensorId output : outputs) graph_.mark_output(output);
  return std::move(graph_);
}

SymExpr Net::size(TensorId tensor, int axis) const {
  const Shape& dims = shape(tensor);
  return dims.at(static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(dims.size()) : axis));
}

TensorId Net::parameter(const std::string& name, Shape shape, ElementType type) {
  const std::string full = owner_.empty() ? name : owner_ + "." + name;
  if (const std::optional<TensorId> known = graph_.find_tensor(full)) {
    if (graph_.tensor(*known).shape != shape) throw std::logic_error("parameter '" + full + "' has two shapes");
    return *known;
  }
  return graph_.parameter(full, std::move(shape), type);
}

TensorId Net::constant(const std::string& name, Shape shape, ElementType type) {
  const std::string full = owner_.empty() ? name : owner_ + "." + name;
  if (const std::optional<TensorId> known = graph_.find_tensor(full)) return *known;
  return graph_.constant(full, std::move(shape), type);
}

TensorId Net::emit(OpKind kind, std::vector<TensorId> inputs, OpClass op_class, Attributes attributes) {
  OpNode node;
  node.kind = kind;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.op_class = op_class;
  return graph_.op(graph_.add(std::move(node))).outputs.front();
}

TensorId Net::emit(OpKind kind, std::vector<TensorId> inputs, Shape shape, ElementType type, OpClass op_class,
                   Attributes attributes) {
  OpNode node;
  node.kind = kind;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.op_class = op_class;
  std::vector<Tensor> outputs(1);
  outputs.front().shape = std::move(shape);
  outputs.front().type = type;
  return graph_.op(graph_.add(std::move(node), std::move(outputs))).outputs.front();
}

// ---- views

TensorId Net::reshape(TensorId x, Shape to) {
  return emit(OpKind::reshape, {x}, std::move(to), graph_.tensor(x).type, OpClass::copy);
}

TensorId Net::permute(TensorId x, const std::vector<int>& perm) {
  Shape to;
  std::vector<SymExpr> order;
  for (const int axis : perm) {
    to.push_back(size(x, axis));
    order.emplace_back(axis);
  }
  return emit(OpKind::transpose, {x}, std::move(to), graph_.tensor(x).type, OpClass::copy,
              {{"perm", std::move(order)}});
}

TensorId Net::slice(TensorId x, int axis, const SymExpr& start, const SymExpr& length) {
  Shape to = shape(x);
  const int place = axis < 0 ? axis + static_cast<int>(to.size()) : axis;
  to.at(static_cast<std::size_t>(place)) = length;
  return emit(OpKind::slice, {x}, std::move(to), graph_.tensor(x).type, OpClass::copy,
              {{"axis", SymExpr(place)}, {"start", start}});
}

TensorId Net::expand(TensorId x, Shape to) {
  return emit(OpKind::expand, {x}, std::move(to), graph_.tensor(x).type, OpClass::copy);
}

TensorId Net::split_heads(TensorId x, std::int64_t heads) {
  const SymExpr width = floor_div(size(x, -1), heads);
  return permute(reshape(x, {size(x, 0), size(x, 1), heads, width}), {0, 2, 1, 3});
}

// ---- passes

TensorId Net::copy(TensorId x, OpClass op_class) {
  return emit(OpKind::copy, {x}, op_class);
}

TensorId Net::cast(TensorId x, ElementType to) {
  if (graph_.tensor(x).type == to) return x;
  return emit(OpKind::cast, {x}, OpClass::copy, {{"to", std::string(to_string(to))}});
}

TensorId Net::add(TensorId a, TensorId b, OpClass op_class) {
  return emit(OpKind::add, {a, b}, op_class);
}

TensorId Net::mul(TensorId a, TensorId b, OpClass op_class) {
  return emit(OpKind::mul, {a, b}, op_class);
}

TensorId Net::concat(const std::vector<TensorId>& parts, int axis) {
  Shape to = shape(parts.front());
  const auto place = static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(to.size()) : axis);
  to[place] = 0;
  for (const TensorId part : parts) to[place] += shape(part)[place];
  return emit(OpKind::concat, parts, std::move(to), graph_.tensor(parts.front()).type, OpClass::copy,
              {{"axis", SymExpr(static_cast<std::int64_t>(place))}});
}

TensorId Net::dropout(TensorId x, double p) {
  return p > 0 ? emit(OpKind::dropout, {x}, OpClass::residual, {{"p", p}}) : x;
}

TensorId Net::layer_norm(TensorId x, const std::string& name) {
  const SymExpr width = size(x, -1);
  return emit(OpKind::layer_norm, {x, parameter(name + ".weight", {width}), parameter(name + ".bias", {width})},
              OpClass::norm);
}

TensorId Net::embedding(TensorId ids, std::int64_t rows, std::int64_t width, const std::string& name) {
  const TensorId table = parameter(name + ".weight", {rows, width});
  Shape to = shape(ids);
  to.emplace_back(width);
  return emit(OpKind::embedding, {table, ids}, std::move(to), type_, OpClass::embedding);
}

TensorId Net::cross_entropy(TensorId logits, TensorId labels) {
  return emit(OpKind::cross_entropy, {logits, labels}, {}, ElementType::fp32, OpClass::softmax);
}

TensorId Net::squared_error(TensorId x, TensorId target) {
  const TensorId difference = emit(OpKind::sub, {x, target}, OpClass::residual);
  const TensorId square = mul(difference, difference);
  std::vector<SymExpr> axes;
  for (std::size_t i = 0; i < shape(square).size(); ++i) axes.emplace_back(static_cast<std::int64_t>(i));
  return emit(OpKind::reduce_mean, {square}, OpClass::residual, {{"axes", std::move(axes)}});
}

// ---- products

TensorId Net::linear(TensorId x, std::int64_t out, bool bias, OpClass op_class, const std::string& name) {
  const TensorId weight = parameter(name + ".weight", {out, size(x, -1)});
  if (!bias) return linear(x, weight, nullptr, op_class);
  const TensorId shift = parameter(name + ".bias", {out});
  return linear(x, weight, &shift, op_class);
}

TensorId Net::linear(TensorId x, TensorId weight, const TensorId* bias, OpClass op_class) {
  std::vector<TensorId> inputs{x, weight};
  if (bias != nullptr) inputs.push_back(*bias);
  return emit(OpKind::matmul, std::move(inputs), op_class, {{"trans_b", SymExpr(1)}});
}

// ---- attention

namespace {

/// [batch, heads, tokens, dim] token by token again.
TensorId merge_heads(Net& net, TensorId x) {
  const TensorId by_token = net.permute(x, {0, 2, 1, 3});
  return net.reshape(by_token, {net.size(x, 0), net.size(x, 2), net.size(x, 1) * net.size(x, 3)});
}

/// Grouped heads, copied for every query head.
TensorId repeat_heads(Net& net, TensorId x, const SymExpr& heads) {
  const Shape from = net.shape(x);
  const SymExpr groups = floor_div(heads, from[1]);
  const TensorId alone = net.reshape(x, {from[0], from[1], 1, from[2], from[3]});
  const TensorId dense = net.copy(net.expand(alone, {from[0], from[1], groups, from[2], from[3]}));
  return net.reshape(dense, {from[0], heads, from[2], from[3]});
}

TensorId attend_by_products(Net& net, TensorId q, TensorId k, TensorId v, const AttentionSpec& spec) {
  const OpClass op_class = OpClass::attention_prefill;
  const bool grouped = !(net.size(q, 1) == net.size(k, 1));
  // The batched product wants dense operands; repeated heads are dense already.
  k = grouped ? repeat_heads(net, k, net.size(q, 1)) : net.copy(k);
  if (grouped) v = repeat_heads(net, v, net.size(q, 1));
  TensorId scores = net.emit(OpKind::matmul, {net.copy(q), k}, op_class, {{"trans_b", SymExpr(1)}});
  scores = net.emit(OpKind::scale, {scores}, OpClass::softmax);
  if (spec.mask != nullptr) scores = net.add(scores, *spec.mask, OpClass::softmax);
  const ElementType type = net.graph().tensor(scores).type;
  const Shape alone = net.shape(scores);
  if (spec.sinks != nullptr)
    scores = net.concat({scores, net.expand(*spec.sinks, {alone[0], alone[1], alone[2], 1})}, -1);
  scores = net.emit(OpKind::softmax, {scores}, net.shape(scores), spec.wide_softmax ? ElementType::fp32 : type,
                    OpClass::softmax);
  if (spec.sinks != nullptr) scores = net.slice(scores, -1, 0, alone.back());
  scores = net.dropout(net.cast(scores, type), spec.dropout);
  if (!grouped) v = net.copy(v);
  return net.emit(OpKind::matmul, {scores, v}, op_class);
}

}  // namespace

TensorId attend(Net& net, TensorId q, TensorId k, TensorId v, const AttentionSpec& spec) {
  if (spec.form == AttentionForm::eager) {
    const TensorId out = attend_by_products(net, q, k, v, spec);
    const TensorId dense = net.copy(net.permute(out, {0, 2, 1, 3}));
    return net.reshape(dense, {net.size(out, 0), net.size(out, 2), net.size(out, 1) * net.size(out, 3)});
  }
  Shape to = net.shape(q);
  to.back() = net.size(v, -1);
  Attributes attributes{{"causal", SymExpr(spec.causal ? 1 : 0)}};
  if (spec.window > 0) attributes.emplace_back("window", SymExpr(spec.window));
  if (spec.dropout > 0) attributes.emplace_back("p", spec.dropout);
  std::vector<TensorId> inputs{q, k, v};
  if (spec.sinks != nullptr) {
    attributes.emplace_back("sinks", SymExpr(1));
    inputs.push_back(*spec.sinks);
  }
  const TensorId out = net.emit(OpKind::attention, std::move(inputs), std::move(to), net.graph().tensor(q).type,
                                OpClass::attention_prefill, std::move(attributes));
  return merge_heads(net, out);
}

TensorId tanh_gelu(Net& net, TensorId x, PassForm form) {
  if (form != PassForm::eager) return net.emit(OpKind::gelu, {x}, OpClass::activation);
  // 0.5 x (1 + tanh(c (x + 0.044715 x^3))), a kernel a step
  const auto pass = [&](OpKind kind, TensorId a) { return net.emit(kind, {a}, OpClass::activation); };
  const TensorId cube = pass(OpKind::scale, pass(OpKind::pow, x));
  const TensorId inner = pass(OpKind::tanh, pass(OpKind::scale, net.add(x, cube, OpClass::activation)));
  return net.mul(pass(OpKind::scale, x), pass(OpKind::scale, inner));
}

std::string layer_scope(std::int64_t layer) {
  return fmt::format("layer.{}", layer);
}

sim::Origin builder_origin(const std::string& builder, const std::string& parameter) {
  return {"builder " + builder, "/" + parameter};
}

}  // namespace orrery::models
