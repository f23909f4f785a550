// ONNX operators that compute: elementwise, products, norms, reductions.
#include <fmt/format.h>

#include <algorithm>

#include "models/import/onnx_reader.hpp"

namespace orrery::models::onnx {
namespace {

/// A function of one tensor that keeps its shape. Functions without a kind of their own take one that costs as much and
/// say which they are in attribute `function`.
Handler unary(OpKind kind, const char* function = nullptr) {
  return [kind, function](Reader& r, const Node& node) {
    r.shape(node, 0);
    Attributes said;
    if (function != nullptr) said.emplace_back("function", std::string(function));
    r.give(node, 0, r.emit(node, kind, {r.tensor(node, 0)}, std::move(said)));
  };
}

Handler binary(OpKind kind, const char* function = nullptr) {
  return [kind, function](Reader& r, const Node& node) {
    r.shape(node, 0);
    r.shape(node, 1);
    Attributes said;
    if (function != nullptr) said.emplace_back("function", std::string(function));
    r.give(node, 0, r.emit(node, kind, {r.tensor(node, 0), r.tensor(node, 1)}, std::move(said)));
  };
}

/// Any number of operands.
void several(Reader& r, const Node& node) {
  std::vector<TensorId> inputs;
  for (int i = 0; i < node.input_size(); ++i) {
    r.shape(node, i);
    inputs.push_back(r.tensor(node, i));
  }
  if (node.op_type() != "Max" && node.op_type() != "Min") {
    r.give(node, 0, r.emit(node, OpKind::add_n, inputs, {{"function", node.op_type()}}));
    return;
  }
  TensorId all = inputs.at(0);
  for (std::size_t i = 1; i < inputs.size(); ++i)
    all = r.emit(node, OpKind::maximum, {all, inputs[i]}, {{"function", node.op_type()}});
  if (inputs.size() == 1) all = r.emit(node, OpKind::copy, {all});
  r.give(node, 0, all);
}

/// The value itself, under another name.
void same(Reader& r, const Node& node) {
  if (Reader::has(node, 2) && (!r.value(node, 2).data || !(r.value(node, 2).data->front() == SymExpr(0))))
    throw Unmappable();  // a dropout that drops
  const Value input = r.value(node, 0);
  if (!input.tensor) r.tensor(node, 0);
  r.put(node.output(0), r.value(node, 0));
  if (!Reader::wants(node, 1)) return;
  Value mask;  // all ones
  mask.shape = input.shape;
  mask.type = ElementType::boolean;
  r.put(node.output(1), std::move(mask));
}

/// A slope a channel may stand as a list, in older files.
void prelu(Reader& r, const Node& node) {
  const Dims &x = r.shape(node, 0), &slope = r.shape(node, 1);
  const TensorId input = r.tensor(node, 0);
  TensorId slopes = r.tensor(node, 1);
  if (slope.size() == 1 && x.size() > 2 && slope[0] == x[1]) {
    Dims channels(x.size() - 1, SymExpr(1));
    channels[0] = slope[0];
    slopes = r.reshape(node, slopes, channels);
  }
  r.give(node, 0, r.emit(node, OpKind::maximum, {input, slopes}, {{"function", std::string("PRelu")}}));
}

void power(Reader& r, const Node& node) {
  r.shape(node, 0);
  const Value& exponent = r.value(node, 1);
  Attributes said;
  if (exponent.number)
    said.emplace_back("exponent", *exponent.number);
  else if (exponent.data && exponent.data->size() == 1)
    said.emplace_back("exponent", exponent.data->front());
  else
    throw Unmappable();
  r.give(node, 0, r.emit(node, OpKind::pow, {r.tensor(node, 0)}, std::move(said)));
}

void where(Reader& r, const Node& node) {
  std::vector<TensorId> inputs;
  for (int i = 0; i < 3; ++i) {
    r.shape(node, i);
    inputs.push_back(r.tensor(node, i));
  }
  OpNode probe = r.op_of(node, OpKind::where);
  probe.inputs = inputs;
  const Dims shape = infer_outputs(r.graph, probe).front().shape;
  r.give(node, 0, r.emit(node, OpKind::where, inputs, shape, r.value(node, 1).type));
}

void cast(Reader& r, const Node& node) {
  r.shape(node, 0);
  const ElementType type = node.op_type() == "CastLike" ? r.value(node, 1).type
                                                        : r.element(static_cast<int>(Reader::integer(node, "to", 1)));
  r.give(node, 0, r.emit(node, OpKind::cast, {r.tensor(node, 0)}, {{"to", std::string(to_string(type))}}));
}

void quantise(Reader& r, const Node& node) {
  r.shape(node, 0);
  const bool back = node.op_type() == "DequantizeLinear";
  const ElementType type = back                   ? r.value(node, 1).type
                           : Reader::has(node, 2) ? r.value(node, 2).type
                                                  : ElementType::int8;
  r.give(node, 0,
         r.emit(node, back ? OpKind::dequantise : OpKind::quantise, {r.tensor(node, 0), r.tensor(node, 1)},
                {{"to", std::string(to_string(type))}}));
}

// ---- products

void matmul(Reader& r, const Node& node) {
  Dims a = r.shape(node, 0), b = r.shape(node, 1);
  if (a.empty() || b.empty()) throw GraphError("expected matrices or vectors");
  TensorId left = r.tensor(node, 0), right = r.tensor(node, 1);
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) left = r.reshape(node, left, {1, a[0]});
  if (column) right = r.reshape(node, right, {b[0], 1});
  TensorId out{};
  if (node.op_type() == "MatMulInteger") {
    OpNode probe = r.op_of(node, OpKind::matmul);
    probe.inputs = {left, right};
    out = r.emit(node, OpKind::matmul, {left, right}, infer_outputs(r.graph, probe).front().shape, ElementType::int32);
  } else {
    out = r.emit(node, OpKind::matmul, {left, right});
  }
  if (row || column) {
    Dims shape = r.graph.tensor(out).shape;
    if (column) shape.pop_back();
    if (row) shape.erase(shape.end() - (column ? 1 : 2));
    out = r.reshape(node, out, shape);
  }
  r.give(node, 0, out);
}

void gemm(Reader& r, const Node& node) {
  r.shape(node, 0);
  r.shape(node, 1);
  Attributes said;
  if (Reader::integer(node, "transA", 0) != 0) said.emplace_back("trans_a", SymExpr(1));
  if (Reader::integer(node, "transB", 0) != 0) said.emplace_back("trans_b", SymExpr(1));
  std::vector<TensorId> inputs{r.tensor(node, 0), r.tensor(node, 1)};
  const double alpha = Reader::number(node, "alpha", 1), beta = Reader::number(node, "beta", 1);
  const bool bias = Reader::has(node, 2) && beta != 0;
  const bool row = bias && r.shape(node, 2).size() == 1 && alpha == 1 && beta == 1;
  if (row) inputs.push_back(r.tensor(node, 2));
  TensorId out = r.emit(node, OpKind::matmul, inputs, std::move(said));
  if (alpha != 1) out = r.emit(node, OpKind::scale, {out}, {{"by", alpha}});
  if (bias && !row) {
    TensorId addend = r.tensor(node, 2);
    if (beta != 1) addend = r.emit(node, OpKind::scale, {addend}, {{"by", beta}});
    out = r.emit(node, OpKind::add, {out, addend});
  }
  r.give(node, 0, out);
}

/// Work of a contraction: two FLOPs for every combination of the indices that occur.
void einsum(Reader& r, const Node& node) {
  std::string equation = Reader::text(node, "equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const auto arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) throw Unmappable();
  std::map<char, SymExpr> sizes;
  int operand = 0;
  std::size_t axis = 0;
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      ++operand;
      axis = 0;
      continue;
    }
    const Dims& shape = r.shape(node, operand);
    if (axis >= shape.size()) throw GraphError(fmt::format("equation '{}' does not fit operand {}", equation, operand));
    sizes.try_emplace(c, shape[axis++]);
  }
  SymExpr flops = node.input_size() > 1 ? 2 : 1;
  for (const auto& [index, size] : sizes) flops *= size;
  Dims out;
  for (const char c : equation.substr(arrow + 2)) {
    if (!sizes.contains(c)) throw GraphError(fmt::format("equation '{}': index {} has no size", equation, c));
    out.push_back(sizes.at(c));
  }
  r.custom(node, flops, {out});
}

// ---- norms and reductions

Handler norm(OpKind kind, int operands) {
  return [kind, operands](Reader& r, const Node& node) {
    r.shape(node, 0);
    if (Reader::wants(node, 1)) throw Unmappable();  // means and variances: training
    std::vector<TensorId> inputs;
    for (int i = 0; i < operands && Reader::has(node, i); ++i) inputs.push_back(r.tensor(node, i));
    r.give(node, 0, r.emit(node, kind, inputs));
  };
}

/// A residual sum and its norm; the sum is output 3.
void skip_norm(Reader& r, const Node& node) {
  r.shape(node, 0);
  r.shape(node, 1);
  const bool rms = node.op_type() == "SkipSimplifiedLayerNormalization";
  TensorId sum = r.emit(node, OpKind::add, {r.tensor(node, 0), r.tensor(node, 1)});
  const int bias = rms ? 3 : 4;
  if (Reader::has(node, bias)) sum = r.emit(node, OpKind::add, {sum, r.tensor(node, bias)});
  std::vector<TensorId> inputs{sum, r.tensor(node, 2)};
  if (!rms && Reader::has(node, 3)) inputs.push_back(r.tensor(node, 3));
  r.give(node, 0, r.emit(node, rms ? OpKind::rms_norm : OpKind::layer_norm, inputs));
  r.give(node, 3, sum);
}

void softmax(Reader& r, const Node& node) {
  const std::size_t rank = r.shape(node, 0).size();
  const std::int64_t fallback = r.import().opset >= 13 || rank < 2 ? -1 : 1;
  const std::size_t axis = axis_of(Reader::integer(node, "axis", fallback), rank);
  Attributes said{{"axis", SymExpr(static_cast<std::int64_t>(axis))}};
  if (node.op_type() == "LogSoftmax") said.emplace_back("function", std::string("LogSoftmax"));
  r.give(node, 0, r.emit(node, OpKind::softmax, {r.tensor(node, 0)}, std::move(said)));
}

Handler reduction(OpKind kind, const char* function = nullptr) {
  return [kind, function](Reader& r, const Node& node) {
    const std::size_t rank = r.shape(node, 0).size();
    std::vector<std::int64_t> axes;
    if (const auto said = r.list(node, "axes", 1)) axes = *said;
    if (axes.empty() && Reader::integer(node, "noop_with_empty_axes", 0) != 0) {
      same(r, node);
      return;
    }
    if (axes.empty())
      for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
    for (std::int64_t& axis : axes) axis = static_cast<std::int64_t>(axis_of(axis, rank));
    Attributes said{{"axes", axes_attribute(axes)}};
    if (Reader::integer(node, "keepdims", 1) != 0) said.emplace_back("keep", SymExpr(1));
    if (function != nullptr) said.emplace_back("function", std::string(function));
    r.give(node, 0, r.emit(node, kind, {r.tensor(node, 0)}, std::move(said)));
  };
}

void arg_extreme(Reader& r, const Node& node) {
  Dims shape = r.shape(node, 0);
  const std::size_t axis = axis_of(Reader::integer(node, "axis", 0), shape.size());
  if (Reader::integer(node, "keepdims", 1) != 0)
    shape[axis] = 1;
  else
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  r.give(
      node, 0,
      r.emit(node, OpKind::sampling, {r.tensor(node, 0)}, shape, ElementType::int64, {{"function", node.op_type()}}));
}

void top_k(Reader& r, const Node& node) {
  Dims shape = r.shape(node, 0);
  const Value* k = Reader::has(node, 1) ? &r.value(node, 1) : nullptr;
  const std::size_t axis = axis_of(Reader::integer(node, "axis", -1), shape.size());
  if (k != nullptr && (!k->data || k->data->size() != 1)) throw Unmappable();
  shape[axis] = k != nullptr ? k->data->front() : SymExpr(Reader::integer(node, "k", 1));
  OpNode op = r.op_of(node, OpKind::sampling);
  op.inputs = {r.tensor(node, 0)};
  op.set("function", std::string("TopK"));
  std::vector<Tensor> outputs(2);
  outputs[0] = {.shape = shape, .type = r.value(node, 0).type};
  outputs[1] = {.shape = shape, .type = ElementType::int64};
  for (int i = 0; i < 2; ++i)
    if (Reader::wants(node, i)) outputs[static_cast<std::size_t>(i)].name = node.output(i);
  const OpId id = r.graph.add(std::move(op), std::move(outputs));
  r.give(node, 0, r.graph.op(id).outputs[0]);
  r.give(node, 1, r.graph.op(id).outputs[1]);
}

std::map<std::string, Handler> make_table() {
  std::map<std::string, Handler> table;
  using K = OpKind;
  for (const auto& [name, kind] : std::initializer_list<std::pair<const char*, K>>{{"Relu", K::relu},
                                                                                   {"Gelu", K::gelu},
                                                                                   {"FastGelu", K::gelu},
                                                                                   {"QuickGelu", K::gelu},
                                                                                   {"Swish", K::silu},
                                                                                   {"Tanh", K::tanh},
                                                                                   {"Sigmoid", K::sigmoid},
                                                                                   {"Erf", K::erf},
                                                                                   {"Exp", K::exp},
                                                                                   {"Log", K::log},
                                                                                   {"Sqrt", K::sqrt},
                                                                                   {"Abs", K::abs},
                                                                                   {"Neg", K::neg},
                                                                                   {"Sin", K::sin}})
    table[name] = unary(kind);
  for (const auto& [name, kind] :
       std::initializer_list<std::pair<const char*, K>>{{"Cos", K::sin},           {"Tan", K::sin},
                                                        {"Asin", K::sin},          {"Acos", K::sin},
                                                        {"Atan", K::sin},          {"Sinh", K::exp},
                                                        {"Cosh", K::exp},          {"Reciprocal", K::rsqrt},
                                                        {"Floor", K::scale},       {"Ceil", K::scale},
                                                        {"Round", K::scale},       {"Sign", K::scale},
                                                        {"LeakyRelu", K::clamp},   {"ThresholdedRelu", K::clamp},
                                                        {"HardSigmoid", K::clamp}, {"Clip", K::clamp},
                                                        {"HardSwish", K::silu},    {"Mish", K::silu},
                                                        {"Elu", K::sigmoid},       {"Selu", K::sigmoid},
                                                        {"Celu", K::sigmoid},      {"Softplus", K::sigmoid},
                                                        {"Softsign", K::clamp},    {"Not", K::neg}})
    table[name] = unary(kind, name);
  for (const auto& [name, kind] : std::initializer_list<std::pair<const char*, K>>{
           {"Add", K::add}, {"Sub", K::sub}, {"Mul", K::mul}, {"Div", K::div}})
    table[name] = binary(kind);
  for (const char* name : {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor"})
    table[name] = binary(K::compare, name);
  table["Mod"] = binary(K::div, "Mod");
  table["PRelu"] = prelu;
  for (const char* name : {"Max", "Min", "Sum", "Mean"}) table[name] = several;
  table["Identity"] = table["Dropout"] = same;
  table["Pow"] = power;
  table["Where"] = where;
  table["Cast"] = table["CastLike"] = cast;
  table["QuantizeLinear"] = table["DequantizeLinear"] = quantise;
  table["MatMul"] = table["MatMulInteger"] = matmul;
  table["Gemm"] = gemm;
  table["Einsum"] = einsum;
  table["BatchNormalization"] = norm(K::batch_norm, 5);
  table["InstanceNormalization"] = table["GroupNormalization"] = norm(K::group_norm, 3);
  table["LayerNormalization"] = norm(K::layer_norm, 3);
  table["RMSNormalization"] = table["SimplifiedLayerNormalization"] = norm(K::rms_norm, 2);
  table["SkipLayerNormalization"] = table["SkipSimplifiedLayerNormalization"] = skip_norm;
  table["Softmax"] = table["LogSoftmax"] = softmax;
  table["ReduceSum"] = reduction(K::reduce_sum);
  table["ReduceMean"] = reduction(K::reduce_mean);
  table["ReduceMax"] = reduction(K::reduce_max);
  for (const char* name : {"ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"})
    table[name] = reduction(std::string_view(name) == "ReduceMin" ? K::reduce_max : K::reduce_sum, name);
  table["ArgMax"] = table["ArgMin"] = arg_extreme;
  table["TopK"] = top_k;
  add_shape_handlers(table);
  add_convolution_handlers(table);
  return table;
}

const std::map<std::string, Handler>& table() {
  static const std::map<std::string, Handler> all = make_table();
  return all;
}

}  // namespace

const Handler* handler_of(const Node& node) {
  if (!node.domain().empty() && node.domain() != "ai.onnx" && node.domain() != "com.microsoft") return nullptr;
  const auto found = table().find(node.op_type());
  return found == table().end() ? nullptr : &found->second;
}

std::vector<std::string> handled() {
  std::vector<std::string> names;
  for (const auto& [name, handler] : table()) names.push_back(name);
  return names;
}

}  // namespace orrery::models::onnx
