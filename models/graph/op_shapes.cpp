// Shape rules: what an op's outputs look like, and whether given outputs can be right.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/graph/op_graph.hpp"

namespace orrery::models {
namespace {

[[noreturn]] void fail(const OpNode& op, const std::string& what) {
  throw GraphError(fmt::format("{} '{}': {}", to_string(op.kind), op.name, what));
}

std::string shape_text(std::span<const SymExpr> shape) {
  std::string all = "[";
  for (const SymExpr& dim : shape) all += (all.size() > 1 ? ", " : "") + dim.to_string();
  return all + "]";
}

void check_inputs(const OpNode& op) {
  const OpInfo& row = info(op.kind);
  const auto count = static_cast<int>(op.inputs.size());
  if (count < row.min_inputs || (row.max_inputs >= 0 && count > row.max_inputs)) {
    const std::string range = row.max_inputs < 0 ? fmt::format("at least {}", row.min_inputs)
                              : row.min_inputs == row.max_inputs
                                  ? fmt::format("{}", row.min_inputs)
                                  : fmt::format("{} to {}", row.min_inputs, row.max_inputs);
    fail(op, fmt::format("expected {} inputs, got {}", range, count));
  }
}

bool is_floating(ElementType type) {
  return type != ElementType::int32 && type != ElementType::int64 && type != ElementType::boolean;
}

/// Type of what an op computes: what a cast says, else the first floating input's.
ElementType result_type(const OpGraph& graph, const OpNode& op) {
  if (op.kind == OpKind::cast || op.kind == OpKind::quantise || op.kind == OpKind::dequantise) {
    const std::optional<ElementType> type = sim::value_named<ElementType>(op.text("to"));
    if (!type) fail(op, fmt::format("attribute 'to': expected an element type, got '{}'", op.text("to")));
    return *type;
  }
  if (op.kind == OpKind::compare) return ElementType::boolean;
  for (const TensorId input : op.inputs)
    if (is_floating(graph.tensor(input).type)) return graph.tensor(input).type;
  return op.inputs.empty() ? ElementType::fp32 : graph.tensor(op.inputs.front()).type;
}

/// False only where the two are proven to differ for all sizes of at least 1.
bool may_be_equal(const OpGraph& graph, const SymExpr& a, const SymExpr& b) {
  if (a == b) return true;
  const auto differ = [](Order order) { return order == Order::less || order == Order::greater; };
  const Order order = compare(a, b, graph.facts);
  if (order != Order::less_equal && order != Order::greater_equal) return !differ(order);
  SymExpr apart = graph.facts.canonical(a - b);
  for (const Symbol symbol : apart.symbols()) apart = apart.substitute(symbol, SymExpr(symbol) + 1);
  return !differ(compare(apart, 0));
}

std::vector<SymExpr> matmul_shape(const OpGraph& graph, const OpNode& op) {
  std::vector<SymExpr> a = graph.tensor(op.inputs[0]).shape, b = graph.tensor(op.inputs[1]).shape;
  if (a.size() < 2 || b.size() < 2)
    fail(op, fmt::format("expected matrices, got {} and {}", shape_text(a), shape_text(b)));
  if (op.integer("trans_a", 0) != 0) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (op.integer("trans_b", 0) != 0) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (!may_be_equal(graph, a.back(), b[b.size() - 2]))
    fail(op, fmt::format("{} times {}: the inner sizes {} and {} differ", shape_text(a), shape_text(b),
                         a.back().to_string(), b[b.size() - 2].to_string()));
  std::vector<SymExpr> out;
  try {
    out = broadcast(std::span(a).first(a.size() - 2), std::span(b).first(b.size() - 2));
  } catch (const GraphError& error) {
    fail(op, fmt::format("batch sizes: {}", error.what()));
  }
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  return out;
}

SymExpr window(const SymExpr& size, std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t dilation) {
  return floor_div(size + 2 * pad - dilation * (kernel - 1) - 1, stride) + 1;
}

std::vector<SymExpr> conv_shape(const OpGraph& graph, const OpNode& op) {
  const std::vector<SymExpr>& x = graph.tensor(op.inputs[0]).shape;
  const std::vector<SymExpr>& w = graph.tensor(op.inputs[1]).shape;
  if (x.size() != 4 || w.size() != 4)
    fail(op,
         fmt::format("expected [n, c, h, w] and [out, c/groups, kh, kw], got {} and {}", shape_text(x), shape_text(w)));
  const std::int64_t groups = op.integer("groups", 1);
  if (!may_be_equal(graph, x[1], w[1] * groups))
    fail(op, fmt::format("{} channels in, but weights {} in {} groups take {}", x[1].to_string(), shape_text(w), groups,
                         (w[1] * groups).to_string()));
  const std::optional<std::int64_t> kh = w[2].constant(), kw = w[3].constant();
  if (!kh || !kw) fail(op, "expected a kernel of known size");
  const std::int64_t stride = op.integer("stride", 1), pad = op.integer("pad", 0), dilation = op.integer("dilation", 1);
  if (stride < 1 || pad < 0 || dilation < 1 || groups < 1)
    fail(op, "expected stride, dilation and groups of at least 1 and pad of at least 0");
  return {x[0], w[0], window(x[2], *kh, stride, pad, dilation),
          window(x[3], *kw, stride, op.integer("pad_w", pad), dilation)};
}

std::vector<SymExpr> pool_shape(const OpGraph& graph, const OpNode& op) {
  const std::vector<SymExpr>& x = graph.tensor(op.inputs[0]).shape;
  if (x.size() != 4) fail(op, fmt::format("expected [n, c, h, w], got {}", shape_text(x)));
  const std::int64_t kernel = op.integer("kernel", 2), stride = op.integer("stride", kernel),
                     pad = op.integer("pad", 0);
  if (kernel < 1 || stride < 1 || pad < 0) fail(op, "expected kernel and stride of at least 1 and pad of at least 0");
  return {x[0], x[1], window(x[2], kernel, stride, pad, 1), window(x[3], kernel, stride, pad, 1)};
}

std::vector<SymExpr> reduce_shape(const OpGraph& graph, const OpNode& op) {
  const std::vector<SymExpr>& x = graph.tensor(op.inputs[0]).shape;
  const Attribute* attribute = op.find("axes");
  const auto* axes = attribute == nullptr ? nullptr : std::get_if<std::vector<SymExpr>>(attribute);
  if (axes == nullptr) fail(op, "expected attribute 'axes', a list");
  std::vector<bool> gone(x.size(), false);
  for (const SymExpr& axis : *axes) {
    std::int64_t place = axis.constant().value_or(-1000000);
    if (place < 0) place += static_cast<std::int64_t>(x.size());
    if (place < 0 || place >= static_cast<std::int64_t>(x.size()))
      fail(op, fmt::format("axis {} of {}", axis.to_string(), shape_text(x)));
    gone[static_cast<std::size_t>(place)] = true;
  }
  std::vector<SymExpr> out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!gone[i]) out.push_back(x[i]);
    if (gone[i] && op.integer("keep", 0) != 0) out.push_back(1);
  }
  return out;
}

std::vector<SymExpr> ruled_shape(const OpGraph& graph, const OpNode& op) {
  switch (info(op.kind).rule) {
    case ShapeRule::same:
      return graph.tensor(op.inputs.front()).shape;
    case ShapeRule::broadcast: {
      std::vector<SymExpr> shape = graph.tensor(op.inputs.front()).shape;
      for (const TensorId input : std::span(op.inputs).subspan(1)) try {
          shape = broadcast(shape, graph.tensor(input).shape);
        } catch (const GraphError& error) {
          fail(op, error.what());
        }
      return shape;
    }
    case ShapeRule::matmul:
      return matmul_shape(graph, op);
    case ShapeRule::conv:
      return conv_shape(graph, op);
    case ShapeRule::pool:
      return pool_shape(graph, op);
    case ShapeRule::reduce:
      return reduce_shape(graph, op);
    case ShapeRule::given:
      break;
  }
  fail(op, "its output shape has to be given");
}

/// What a rule says of given outputs; nothing: they can be right.
std::optional<std::string> contradiction(const OpGraph& graph, const OpNode& op) {
  if (op.outputs.empty()) return std::nullopt;
  const Tensor& out = graph.tensor(op.outputs.front());
  if (info(op.kind).rule != ShapeRule::given) {
    const std::vector<SymExpr> shape = ruled_shape(graph, op);
    bool equal = shape.size() == out.shape.size();
    for (std::size_t i = 0; equal && i < shape.size(); ++i) equal = may_be_equal(graph, shape[i], out.shape[i]);
    if (!equal) return fmt::format("expected an output of {}, got {}", shape_text(shape), shape_text(out.shape));
  }
  if (op.kind == OpKind::reshape) {  // of as many elements; a complex number may be seen as its two halves
    const Tensor& in = graph.tensor(op.inputs[0]);
    const auto parts = [](const Tensor& tensor) { return tensor.elements() * (is_complex(tensor.type) ? 2 : 1); };
    const bool halves = is_complex(in.type) != is_complex(out.type);
    if (!may_be_equal(graph, halves ? parts(in) : in.elements(), halves ? parts(out) : out.elements()))
      return fmt::format("{} elements in, {} out", in.elements().to_string(), out.elements().to_string());
  }
  return std::nullopt;
}

/// What work and lowering count on where no rule gives the shapes: results, and operands of enough dimensions.
void check_ranks(const OpGraph& graph, const OpNode& op) {
  const auto need = [&](TensorId id, std::size_t rank) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.shape.size() < rank)
      fail(op,
           fmt::format("'{}': expected at least {} dimensions, got {}", tensor.name, rank, shape_text(tensor.shape)));
  };
  const auto need_further = [&](std::size_t slot, std::size_t rank, const char* attribute) {
    if (op.inputs.size() <= slot)
      fail(op, fmt::format("attribute '{}' says that there is an input {}", attribute, slot));
    need(op.inputs[slot], rank);
  };
  const Pattern pattern = info(op.kind).pattern;
  if (op.outputs.empty() && pattern != Pattern::opaque && pattern != Pattern::communication &&
      pattern != Pattern::structure)
    fail(op, "expected an output");
  switch (op.kind) {
    case OpKind::attention:
    case OpKind::attention_grad:
      for (const std::size_t slot : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) need(op.inputs[slot], 3);
      if (op.integer("window", 0) < 0) fail(op, "expected a window of at least 0 keys");
      if (op.integer("sinks", 0) != 0) need_further(op.kind == OpKind::attention ? 3 : 6, 4, "sinks");
      break;
    case OpKind::grouped_matmul:
      need(op.inputs[0], 2);
      need(op.inputs[1], 3);
      need(op.outputs[0], 1);
      if (op.integer("bias", 0) != 0) need_further(2, 3, "bias");
      break;
    case OpKind::grouped_matmul_grad_weight:
      need(op.inputs[0], 2);
      need(op.inputs[1], 2);
      need(op.outputs[0], 3);
      break;
    case OpKind::conv2d_grad_input:
      need(op.inputs[0], 4);
      need(op.inputs[1], 4);
      break;
    case OpKind::conv2d_grad_weight:
      need(op.inputs[1], 4);
      need(op.outputs[0], 4);
      break;
    case OpKind::spmm:
    case OpKind::sddmm:
      need(op.inputs[1], 2);
      break;
    default:
      break;
  }
}

void verify_regions(const OpGraph& graph, const OpNode& op, std::vector<std::string>& faults) {
  const std::size_t expected = op.kind == OpKind::branch                             ? 2
                               : op.kind == OpKind::loop || op.kind == OpKind::fused ? 1
                                                                                     : 0;
  if (op.regions.size() != expected) {
    faults.push_back(
        fmt::format("{} '{}': expected {} regions, got {}", to_string(op.kind), op.name, expected, op.regions.size()));
    return;
  }
  for (const auto& region : op.regions) {
    for (const TensorId id : region->tensors())
      if (op.kind == OpKind::fused && !region->producer(id) && region->tensor(id).role != TensorRole::input)
        faults.push_back(
            fmt::format("fused '{}': tensor '{}' of its region has to be an input", op.name, region->tensor(id).name));
    const std::vector<TensorId> inputs = region->with_role(TensorRole::input);
    if (inputs.size() != op.inputs.size() || region->outputs().size() != op.outputs.size())
      faults.push_back(fmt::format("{} '{}': a region takes {} tensors and gives {}, the op {} and {}",
                                   to_string(op.kind), op.name, inputs.size(), region->outputs().size(),
                                   op.inputs.size(), op.outputs.size()));
    else
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Tensor &inner = region->tensor(inputs[i]), &outer = graph.tensor(op.inputs[i]);
        if (inner.type != outer.type || !may_be_equal(graph, inner.elements(), outer.elements()))
          faults.push_back(fmt::format("{} '{}': input {} is {}, its region takes {}", to_string(op.kind), op.name, i,
                                       shape_string(outer), shape_string(inner)));
      }
    for (const std::string& fault : verify(*region))
      faults.push_back(fmt::format("{} '{}': {}", to_string(op.kind), op.name, fault));
  }
}

}  // namespace

std::vector<SymExpr> broadcast(std::span<const SymExpr> a, std::span<const SymExpr> b) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<SymExpr> out(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) {
    SymExpr& dim = out[out.size() - 1 - i];
    const SymExpr& other = b[b.size() - 1 - i];
    if (dim == other || other.constant() == 1) continue;
    if (dim.constant() == 1) {
      dim = other;
      continue;
    }
    if (dim.constant() && other.constant())
      throw GraphError(fmt::format("{} and {} do not broadcast", shape_text(a), shape_text(b)));
    // Sizes that may or may not agree: the numbers decide; the named one gives way to a constant.
    if (other.constant()) dim = other;
  }
  return out;
}

std::vector<Tensor> infer_outputs(const OpGraph& graph, const OpNode& op) {
  check_inputs(op);
  Tensor out;
  out.shape = ruled_shape(graph, op);
  out.type = result_type(graph, op);
  if (!op.inputs.empty() && out.shape == graph.tensor(op.inputs.front()).shape)
    out.layout = graph.tensor(op.inputs.front()).layout;
  std::vector<Tensor> outputs{out};
  if (op.kind == OpKind::dropout) {  // the mask that the backward pass needs
    outputs.push_back(out);
    outputs.back().type = ElementType::boolean;
  }
  return outputs;
}

std::vector<std::string> verify(const OpGraph& graph, OpId id) {
  std::vector<std::string> faults;
  const OpNode& op = graph.op(id);
  try {
    check_inputs(op);
    check_ranks(graph, op);
    if (const auto wrong = contradiction(graph, op)) fail(op, *wrong);
  } catch (const GraphError& error) {
    faults.emplace_back(error.what());
  }
  verify_regions(graph, op, faults);
  return faults;
}

std::vector<std::string> verify(const OpGraph& graph) {
  std::vector<std::string> faults;
  for (const OpId id : graph.ops())
    for (std::string& fault : verify(graph, id)) faults.push_back(std::move(fault));
  std::set<std::string_view> names;
  for (const OpId id : graph.ops())
    if (!names.insert(graph.op(id).name).second)
      faults.push_back(fmt::format("two ops are named '{}'", graph.op(id).name));
  for (const TensorId id : graph.outputs())
    if (!graph.producer(id) && graph.tensor(id).role == TensorRole::activation)
      faults.push_back(fmt::format("output '{}': no op makes it", graph.tensor(id).name));
  return faults;
}

std::string shape_string(const Tensor& tensor) {
  return std::string(to_string(tensor.type)) + shape_text(tensor.shape);
}

}  // namespace orrery::models
