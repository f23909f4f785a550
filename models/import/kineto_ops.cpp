// Aten operators as kinds: https://pytorch.org/docs, native_functions.yaml for the order of arguments.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "models/import/kineto_reader.hpp"

namespace orrery::models::kineto {
namespace {

ElementType type_of(const std::string& name) {
  static const std::map<std::string, ElementType> types{{"float", ElementType::fp32},
                                                        {"c10::Half", ElementType::fp16},
                                                        {"c10::BFloat16", ElementType::bf16},
                                                        {"double", ElementType::fp64},
                                                        {"long int", ElementType::int64},
                                                        {"long", ElementType::int64},
                                                        {"int", ElementType::int32},
                                                        {"bool", ElementType::boolean},
                                                        {"signed char", ElementType::int8},
                                                        {"unsigned char", ElementType::int8},
                                                        {"c10::Float8_e4m3fn", ElementType::fp8},
                                                        {"c10::Float8_e5m2", ElementType::fp8}};
  const auto found = types.find(name);
  return found == types.end() ? ElementType::fp32 : found->second;
}

/// Builds one op: inputs are made as they are asked for.
class CallOp {
 public:
  CallOp(OpGraph& graph, const AtenCall& call, OpNode node) : graph_(graph), call_(call), node_(std::move(node)) {}

  bool has(std::size_t i) const { return i < call_.dims.size() && !call_.dims[i].empty(); }
  const std::vector<std::int64_t>& dims(std::size_t i) const { return call_.dims.at(i); }
  std::size_t lists() const { return call_.lists.size(); }
  const std::vector<std::vector<std::int64_t>>& list() const { return call_.lists.front(); }
  CallOp& use(std::size_t i) {
    inputs_.push_back(
        {{dims(i).begin(), dims(i).end()}, i < call_.types.size() ? type_of(call_.types[i]) : ElementType::fp32});
    return *this;
  }
  CallOp& use_list() {
    for (const auto& dims : call_.lists.front())
      inputs_.push_back({{dims.begin(), dims.end()}, type_of(call_.types.empty() ? "" : call_.types.front())});
    return *this;
  }
  void set(const char* name, Attribute value) { node_.set(name, std::move(value)); }
  /// The numbers that argument `i` holds: "[1, 2]", "3", "True".
  std::vector<std::int64_t> numbers(std::size_t i) const {
    std::vector<std::int64_t> out;
    if (i >= call_.concrete.size()) return out;
    const std::string& text = call_.concrete[i];
    if (text == "True" || text == "False") return {text == "True" ? 1 : 0};
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] < '0' || text[at] > '9') continue;
      const bool minus = at > 0 && text[at - 1] == '-';
      std::int64_t value = 0;
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value < (1 << 30); ++at)
        value = value * 10 + (text[at] - '0');
      out.push_back(minus ? -value : value);
    }
    return out;
  }
  /// The one number that argument `i` repeats; nothing where they differ.
  std::optional<std::int64_t> number(std::size_t i, std::int64_t fallback) const {
    const std::vector<std::int64_t> all = numbers(i);
    if (all.empty()) return fallback;
    return std::all_of(all.begin(), all.end(), [&](std::int64_t n) { return n == all[0]; }) ? std::optional(all[0])
                                                                                            : std::nullopt;
  }

  std::optional<OpId> add(OpKind kind) { return finish(kind, std::nullopt); }
  std::optional<OpId> add(OpKind kind, std::vector<SymExpr> shape, ElementType type) {
    return finish(kind, Tensor{.shape = std::move(shape), .type = type});
  }
  ElementType type(std::size_t input) const { return inputs_.at(input).type; }

 private:
  struct Input {
    std::vector<SymExpr> shape;
    ElementType type;
  };

  /// Shapes are tried on a graph of their own first, so that a call that does not fit leaves nothing behind.
  std::optional<OpId> finish(OpKind kind, const std::optional<Tensor>& output) {
    node_.kind = kind;
    OpGraph probe;
    std::vector<Tensor> outputs;
    try {
      OpNode trial = node_;
      for (const Input& input : inputs_) trial.inputs.push_back(probe.input("", input.shape, input.type));
      const OpId id = output ? probe.add(std::move(trial), {*output}) : probe.add(std::move(trial));
      if (!verify(probe, id).empty()) return std::nullopt;
      for (const TensorId made : probe.op(id).outputs) outputs.push_back(probe.tensor(made));
    } catch (const GraphError&) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::string name = fmt::format("{}.in{}", graph_.op_count(), i);
      node_.inputs.push_back(graph_.input(name, inputs_[i].shape, inputs_[i].type));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].name = fmt::format("{}.out{}", graph_.op_count(), i);
    return graph_.add(std::move(node_), std::move(outputs));
  }

  OpGraph& graph_;
  const AtenCall& call_;
  OpNode node_;
  std::vector<Input> inputs_;
};

using Rule = std::function<std::optional<OpId>(CallOp&)>;

Rule unary(OpKind kind) {
  return [kind](CallOp& c) { return c.has(0) ? c.use(0).add(kind) : std::nullopt; };
}

/// With a number for a second operand it is a scaling.
Rule binary(OpKind kind) {
  return [kind](CallOp& c) -> std::optional<OpId> {
    if (!c.has(0)) return std::nullopt;
    return c.has(1) ? c.use(0).use(1).add(kind) : c.use(0).add(OpKind::scale);
  };
}

/// A product whose operands stand at `a` and after it, with a bias of one row at `bias`.
Rule product(std::size_t a, std::optional<std::size_t> bias, bool transposed = false) {
  return [=](CallOp& c) -> std::optional<OpId> {
    if (!c.has(a) || !c.has(a + 1)) return std::nullopt;
    if (transposed) c.set("trans_b", SymExpr(1));
    c.use(a).use(a + 1);
    if (bias && c.has(*bias) && c.dims(*bias).size() == 1) c.use(*bias);
    return c.add(OpKind::matmul);
  };
}

Rule conv(std::size_t stride, std::size_t pad, std::size_t dilation, std::size_t groups) {
  return [=](CallOp& c) -> std::optional<OpId> {
    const auto s = c.number(stride, 1), p = c.number(pad, 0), d = c.number(dilation, 1);
    if (!c.has(0) || !c.has(1) || !s || !p || !d) return std::nullopt;
    c.set("stride", SymExpr(*s));
    c.set("pad", SymExpr(*p));
    c.set("dilation", SymExpr(*d));
    c.set("groups", SymExpr(c.number(groups, 1).value_or(1)));
    return c.use(0).use(1).add(OpKind::conv2d);
  };
}

Rule pool(OpKind kind) {
  return [kind](CallOp& c) -> std::optional<OpId> {
    const auto kernel = c.number(1, 2), stride = c.number(2, kernel.value_or(2)), pad = c.number(3, 0);
    if (!c.has(0) || !kernel || !stride || !pad) return std::nullopt;
    c.set("kernel", SymExpr(*kernel));
    c.set("stride", SymExpr(*stride));
    c.set("pad", SymExpr(*pad));
    return c.use(0).add(kind);
  };
}

Rule norm(OpKind kind, std::vector<std::size_t> operands) {
  return [kind, operands = std::move(operands)](CallOp& c) -> std::optional<OpId> {
    for (const std::size_t i : operands)
      if (c.has(i)) c.use(i);
    return c.has(0) ? c.add(kind) : std::nullopt;
  };
}

Rule reduction(OpKind kind) {
  return [kind](CallOp& c) -> std::optional<OpId> {
    if (!c.has(0)) return std::nullopt;
    std::vector<SymExpr> axes;
    for (const std::int64_t axis : c.numbers(1)) axes.emplace_back(axis);
    for (std::size_t i = 0; i < c.dims(0).size() && c.numbers(1).empty(); ++i)
      axes.emplace_back(static_cast<std::int64_t>(i));
    c.set("axes", std::move(axes));
    if (c.number(2, 0) == 1) c.set("keep", SymExpr(1));
    return c.use(0).add(kind);
  };
}

Rule picked(OpKind kind, std::size_t ids) {
  return [=](CallOp& c) -> std::optional<OpId> {
    if (!c.has(0) || !c.has(ids) || c.dims(0).size() != 2) return std::nullopt;
    std::vector<SymExpr> shape(c.dims(ids).begin(), c.dims(ids).end());
    shape.emplace_back(c.dims(0).back());
    c.use(0).use(ids);
    return c.add(kind, shape, c.type(0));
  };
}

std::optional<OpId> concat(CallOp& c) {
  if (c.lists() == 0 || c.list().front().empty()) return std::nullopt;
  std::vector<SymExpr> shape(c.list().front().begin(), c.list().front().end());
  const std::int64_t said = c.number(1, 0).value_or(0);
  const auto axis = static_cast<std::size_t>(said < 0 ? said + static_cast<std::int64_t>(shape.size()) : said);
  if (axis >= shape.size()) return std::nullopt;
  for (std::size_t i = 1; i < c.list().size(); ++i)
    if (c.list()[i].size() == shape.size()) shape[axis] += c.list()[i][axis];
  c.use_list();
  return c.add(OpKind::concat, shape, c.type(0));
}

Rule attention(std::size_t causal) {
  return [causal](CallOp& c) -> std::optional<OpId> {
    if (!c.has(0) || !c.has(1) || !c.has(2)) return std::nullopt;
    if (c.number(causal, 0) == 1) c.set("causal", SymExpr(1));
    std::vector<SymExpr> shape(c.dims(0).begin(), c.dims(0).end());
    if (shape.size() < 3) return std::nullopt;
    shape.back() = c.dims(2).back();
    c.use(0).use(1).use(2);
    return c.add(OpKind::attention, shape, c.type(0));
  };
}

std::map<std::string, Rule> make_table() {
  using K = OpKind;
  std::map<std::string, Rule> t;
  for (const auto& [name, kind] : std::initializer_list<std::pair<const char*, K>>{{"relu", K::relu},
                                                                                   {"gelu", K::gelu},
                                                                                   {"silu", K::silu},
                                                                                   {"tanh", K::tanh},
                                                                                   {"sigmoid", K::sigmoid},
                                                                                   {"exp", K::exp},
                                                                                   {"log", K::log},
                                                                                   {"sqrt", K::sqrt},
                                                                                   {"rsqrt", K::rsqrt},
                                                                                   {"neg", K::neg},
                                                                                   {"abs", K::abs},
                                                                                   {"sin", K::sin},
                                                                                   {"cos", K::sin},
                                                                                   {"erf", K::erf},
                                                                                   {"pow", K::pow},
                                                                                   {"clone", K::copy},
                                                                                   {"_to_copy", K::copy},
                                                                                   {"contiguous", K::copy},
                                                                                   {"softmax", K::softmax},
                                                                                   {"_softmax", K::softmax},
                                                                                   {"log_softmax", K::softmax},
                                                                                   {"_log_softmax", K::softmax},
                                                                                   {"clamp", K::clamp},
                                                                                   {"native_dropout", K::dropout},
                                                                                   {"dropout", K::dropout},
                                                                                   {"bernoulli", K::dropout}})
    t[name] = unary(kind);
  for (const auto& [name, kind] : std::initializer_list<std::pair<const char*, K>>{{"add", K::add},
                                                                                   {"sub", K::sub},
                                                                                   {"rsub", K::sub},
                                                                                   {"mul", K::mul},
                                                                                   {"div", K::div},
                                                                                   {"maximum", K::maximum},
                                                                                   {"eq", K::compare},
                                                                                   {"ne", K::compare},
                                                                                   {"lt", K::compare},
                                                                                   {"le", K::compare},
                                                                                   {"gt", K::compare},
                                                                                   {"ge", K::compare}})
    t[name] = binary(kind);
  for (const char* name : {"relu", "silu", "tanh", "sigmoid", "exp", "sqrt", "neg", "clamp"})
    t[std::string(name) + "_"] = t[name];
  for (const char* name : {"add", "sub", "mul", "div"}) t[std::string(name) + "_"] = t[name];
  t["copy_"] = [](CallOp& c) { return c.has(1) ? c.use(1).add(K::copy) : std::nullopt; };
  t["where"] = [](CallOp& c) {
    return c.has(0) && c.has(1) && c.has(2) ? c.use(0).use(1).use(2).add(K::where) : std::nullopt;
  };
  t["mm"] = t["bmm"] = t["matmul"] = product(0, std::nullopt);
  t["addmm"] = t["baddbmm"] = product(1, 0);
  t["linear"] = product(0, 2, true);
  t["conv2d"] = conv(3, 4, 5, 6);
  t["convolution"] = t["_convolution"] = conv(3, 4, 5, 8);
  t["cudnn_convolution"] = conv(3, 2, 4, 5);
  t["max_pool2d"] = t["max_pool2d_with_indices"] = pool(K::max_pool2d);
  t["avg_pool2d"] = pool(K::avg_pool2d);
  t["layer_norm"] = t["native_layer_norm"] = norm(K::layer_norm, {0, 2, 3});
  t["rms_norm"] = norm(K::rms_norm, {0, 2});
  t["native_group_norm"] = norm(K::group_norm, {0, 1, 2});
  t["batch_norm"] = t["native_batch_norm"] = t["cudnn_batch_norm"] = norm(K::batch_norm, {0, 1, 2, 3, 4});
  t["sum"] = reduction(K::reduce_sum);
  t["mean"] = reduction(K::reduce_mean);
  t["amax"] = reduction(K::reduce_max);
  t["embedding"] = picked(K::embedding, 1);
  t["index_select"] = picked(K::gather, 2);
  t["cat"] = concat;
  t["_scaled_dot_product_flash_attention"] = t["_flash_attention_forward"] = attention(4);
  t["scaled_dot_product_attention"] = attention(5);
  t["_scaled_dot_product_efficient_attention"] = attention(6);
  return t;
}

}  // namespace

std::optional<OpId> add_aten(OpGraph& graph, const AtenCall& call, OpNode node) {
  static const std::map<std::string, Rule> table = make_table();
  if (!call.name.starts_with("aten::")) return std::nullopt;
  const auto rule = table.find(call.name.substr(6));
  if (rule == table.end()) return std::nullopt;
  CallOp op(graph, call, std::move(node));
  return rule->second(op);
}

}  // namespace orrery::models::kineto
