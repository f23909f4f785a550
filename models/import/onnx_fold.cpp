// Integer arithmetic on shapes, followed symbolically: what exporters write to compute the operands of Reshape, Expand
// and Slice. Where the contents of all inputs are known, so are those of the output, and no op is left.
#include <algorithm>

#include "models/import/onnx_reader.hpp"

namespace orrery::models::onnx {
namespace {

using Inputs = std::vector<const Value*>;

std::optional<std::int64_t> whole(const Value& value) {
  if (!value.data || value.data->size() != 1) return std::nullopt;
  return value.data->front().constant();
}

/// A comparison that holds or fails for all sizes; nothing where that depends.
std::optional<SymExpr> compared(const std::string& op, const SymExpr& a, const SymExpr& b, const Facts& facts) {
  const Order order = compare(a, b, facts);
  if (order == Order::unknown) return std::nullopt;
  const bool less = order == Order::less, greater = order == Order::greater, equal = order == Order::equal;
  if (op == "Equal") return less || greater || equal ? std::optional<SymExpr>(equal ? 1 : 0) : std::nullopt;
  if (op == "Less" && (less || equal || greater || order == Order::greater_equal)) return less ? 1 : 0;
  if (op == "Greater" && (less || equal || greater || order == Order::less_equal)) return greater ? 1 : 0;
  if (op == "LessOrEqual" && (less || equal || greater || order == Order::less_equal)) return greater ? 0 : 1;
  if (op == "GreaterOrEqual" && (less || equal || greater || order == Order::greater_equal)) return less ? 0 : 1;
  return std::nullopt;
}

std::optional<SymExpr> combined(const std::string& op, const SymExpr& a, const SymExpr& b, const Facts& facts) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Min") return min(a, b);
  if (op == "Max") return max(a, b);
  if (op == "And") return a * b;
  if (op == "Div") {
    if (!b.constant() || *b.constant() <= 0) return std::nullopt;
    // The format rounds to zero; sizes are not negative.
    if (a.constant()) return SymExpr(*a.constant() / *b.constant());
    return floor_div(a, b);
  }
  if (op == "Mod") {
    if (!b.constant() || *b.constant() <= 0) return std::nullopt;
    return a - floor_div(a, b) * b;
  }
  return compared(op, a, b, facts);
}

/// Elementwise on two lists of one length, or a list and one number.
std::optional<Value> binary(const std::string& op, const Value& a, const Value& b, const Facts& facts) {
  static const std::set<std::string> kOps{"Add", "Sub",  "Mul",   "Div",     "Min",         "Max",           "And",
                                          "Mod", "Less", "Equal", "Greater", "LessOrEqual", "GreaterOrEqual"};
  if (!kOps.contains(op)) return std::nullopt;
  const std::size_t n = std::max(a.data->size(), b.data->size());
  if ((a.data->size() != n && a.data->size() != 1) || (b.data->size() != n && b.data->size() != 1)) return std::nullopt;
  Value out;
  Dims items;
  for (std::size_t i = 0; i < n; ++i) {
    const auto item =
        combined(op, (*a.data)[a.data->size() == 1 ? 0 : i], (*b.data)[b.data->size() == 1 ? 0 : i], facts);
    if (!item) return std::nullopt;
    items.push_back(*item);
  }
  out.shape = a.shape.size() >= b.shape.size() ? a.shape : b.shape;
  if (!out.shape.empty()) out.shape = {static_cast<std::int64_t>(n)};
  out.type = kOps.contains(op) && (op == "Equal" || op[0] == 'L' || op[0] == 'G') ? ElementType::boolean : a.type;
  out.data = std::move(items);
  return out;
}

std::optional<Value> slice_of(const Reader& reader, const Node& node, const Inputs& in) {
  const auto starts = reader.list(node, "starts", 1), ends = reader.list(node, "ends", 2);
  const auto steps = reader.list(node, "steps", 4);
  if (!starts || !ends || starts->size() != 1 || ends->size() != 1 || in[0]->shape.size() != 1) return std::nullopt;
  const auto size = static_cast<std::int64_t>(in[0]->data->size());
  const std::int64_t step = steps ? steps->front() : 1;
  const auto place = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  Value out;
  Dims items;
  if (step > 0)
    for (std::int64_t i = place(starts->front(), 0, size); i < place(ends->front(), 0, size); i += step)
      items.push_back((*in[0]->data)[static_cast<std::size_t>(i)]);
  if (step < 0)
    for (std::int64_t i = place(starts->front(), 0, size - 1); i > place(ends->front(), -1, size - 1); i += step)
      items.push_back((*in[0]->data)[static_cast<std::size_t>(i)]);
  out.shape = {static_cast<std::int64_t>(items.size())};
  out.data = std::move(items);
  return out;
}

std::optional<Value> gather_of(const Node& node, const Inputs& in) {
  if (Reader::integer(node, "axis", 0) != 0 || in[0]->shape.size() != 1) return std::nullopt;
  Value out;
  out.shape = in[1]->shape;
  Dims items;
  for (const SymExpr& item : *in[1]->data) {
    const auto size = static_cast<std::int64_t>(in[0]->data->size());
    if (!item.constant()) return std::nullopt;
    const std::int64_t at = *item.constant() < 0 ? *item.constant() + size : *item.constant();
    if (at < 0 || at >= size) return std::nullopt;
    items.push_back((*in[0]->data)[static_cast<std::size_t>(at)]);
  }
  out.data = std::move(items);
  return out;
}

std::optional<Value> reduced(const Node& node, const Value& in) {
  const std::string& op = node.op_type();
  if (in.shape.size() != 1 || in.data->empty()) return std::nullopt;
  Value out;
  out.data = Dims{in.data->front()};
  for (std::size_t i = 1; i < in.data->size(); ++i) {
    SymExpr& sum = out.data->front();
    const SymExpr& item = (*in.data)[i];
    sum = op == "ReduceProd"  ? sum * item
          : op == "ReduceSum" ? sum + item
          : op == "ReduceMax" ? max(sum, item)
                              : min(sum, item);
  }
  if (Reader::integer(node, "keepdims", 1) != 0) out.shape = {1};
  return out;
}

std::optional<Value> range_of(const Inputs& in) {
  const auto start = whole(*in[0]), limit = whole(*in[1]), step = whole(*in[2]);
  if (!start || !limit || !step || *step <= 0) return std::nullopt;
  if ((*limit - *start) / *step > static_cast<std::int64_t>(kMostData)) return std::nullopt;
  Value out;
  Dims items;
  for (std::int64_t i = *start; i < *limit; i += *step) items.push_back(i);
  out.shape = {static_cast<std::int64_t>(items.size())};
  out.data = std::move(items);
  return out;
}

std::optional<Value> filled_of(const Node& node, const Inputs& in) {
  const bool expand = node.op_type() == "Expand";
  const Value& sizes = *in[expand ? 1 : 0];
  if (sizes.data->size() > 1 || (expand && in[0]->data->size() != 1)) return std::nullopt;
  const std::int64_t count = sizes.data->empty() ? 1 : sizes.data->front().constant().value_or(-1);
  if (count < 0 || count > static_cast<std::int64_t>(kMostData)) return std::nullopt;
  SymExpr item = expand ? in[0]->data->front() : SymExpr(0);
  if (const auto* value = Reader::attribute(node, "value"); !expand && value != nullptr) {
    const std::optional<Dims> said = integers_of(value->t(), 1);
    if (!said) return std::nullopt;
    item = said->front();
  } else if (!expand) {
    return std::nullopt;  // zeros of floating type
  }
  Value out;
  out.data = Dims(static_cast<std::size_t>(count), item);
  if (!sizes.data->empty()) out.shape = {count};
  return out;
}

std::optional<Value> where_of(const Inputs& in) {
  const std::size_t n = std::max({in[0]->data->size(), in[1]->data->size(), in[2]->data->size()});
  const auto at = [&](std::size_t k, std::size_t i) { return (*in[k]->data)[in[k]->data->size() == 1 ? 0 : i]; };
  for (const Value* value : in)
    if (value->data->size() != n && value->data->size() != 1) return std::nullopt;
  Value out;
  Dims items;
  for (std::size_t i = 0; i < n; ++i) {
    if (!at(0, i).constant()) return std::nullopt;
    items.push_back(*at(0, i).constant() != 0 ? at(1, i) : at(2, i));
  }
  out.shape = {static_cast<std::int64_t>(n)};
  out.data = std::move(items);
  return out;
}

/// What a node that relabels contents makes of their shape; nothing where it does something else.
std::optional<Dims> relabelled(const Node& node, const Inputs& in) {
  const std::string& op = node.op_type();
  const std::size_t count = in[0]->data->size();
  if (op == "Unsqueeze" && in[0]->shape.empty()) return Dims{1};
  if (op == "Squeeze" && count == 1) return Dims{};
  if (op == "Reshape" && in.size() == 2 && in[1]->data->size() <= 1) {
    if (!in[1]->data->empty()) return Dims{static_cast<std::int64_t>(count)};
    return count == 1 ? std::optional(Dims{}) : std::nullopt;
  }
  const bool same =
      op == "Cast" || op == "Identity" || op == "Floor" || op == "Ceil" || op == "Round" || op == "Neg" || op == "Not";
  return same ? std::optional(in[0]->shape) : std::nullopt;
}

std::optional<Value> mapped(const Node& node, const Inputs& in) {
  const std::optional<Dims> shape = relabelled(node, in);
  if (!shape) return std::nullopt;
  Dims items = *in[0]->data;
  for (SymExpr& item : items) {
    if (node.op_type() == "Neg") item = SymExpr(0) - item;
    if (node.op_type() == "Not") item = SymExpr(1) - item;
  }
  Value out;
  out.shape = *shape;
  out.type = in[0]->type;
  out.data = std::move(items);
  return out;
}

std::optional<Value> folded(Reader& reader, const Node& node, const Inputs& in) {
  const std::string& op = node.op_type();
  if (in.size() == 2)
    if (auto out = binary(op, *in[0], *in[1], reader.graph.facts)) return out;
  if (op == "Gather") return gather_of(node, in);
  if (op == "Slice") return slice_of(reader, node, in);
  if (op == "Where") return where_of(in);
  if (op == "Range") return range_of(in);
  if (op == "ConstantOfShape" || op == "Expand") return filled_of(node, in);
  if (op == "ReduceProd" || op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin") return reduced(node, *in[0]);
  if (op == "Concat") {
    Value out;
    Dims items;
    for (const Value* part : in) {
      if (part->shape.size() != 1) return std::nullopt;
      items.insert(items.end(), part->data->begin(), part->data->end());
    }
    out.shape = {static_cast<std::int64_t>(items.size())};
    out.data = std::move(items);
    return out;
  }
  return mapped(node, in);
}

bool constant(Reader& reader, const Node& node) {
  if (node.attribute_size() == 0) return false;
  const onnx_file::Attribute& said = node.attribute(0);
  Value out;
  if (said.name() == "value") {
    reader.put_weight(said.t(), node.output(0), false);
    return true;
  }
  if (said.name() == "value_int" || said.name() == "value_ints") {
    out.type = ElementType::int64;
    out.data.emplace();
    if (said.name() == "value_int") out.data->emplace_back(static_cast<std::int64_t>(said.i()));
    for (const std::int64_t item : said.ints()) out.data->emplace_back(item);
    if (said.name() == "value_ints") out.shape = {static_cast<std::int64_t>(out.data->size())};
  } else if (said.name() == "value_float") {
    out.number = static_cast<double>(said.f());
  } else if (said.name() == "value_floats") {
    out.shape = {static_cast<std::int64_t>(said.floats_size())};
  } else {
    return false;
  }
  reader.put(node.output(0), std::move(out));
  return true;
}

bool shape_of(Reader& reader, const Node& node) {
  const Value& input = reader.value(node, 0);
  if (!input.shaped) return false;
  Value out;
  out.type = ElementType::int64;
  if (node.op_type() == "Size") {
    out.data = Dims{product(input.shape)};
  } else {
    const auto rank = static_cast<std::int64_t>(input.shape.size());
    const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const std::int64_t begin = place(Reader::integer(node, "start", 0)),
                       end = place(Reader::integer(node, "end", rank));
    out.data.emplace();
    for (std::int64_t i = begin; i < end; ++i) out.data->push_back(input.shape[static_cast<std::size_t>(i)]);
    out.shape = {static_cast<std::int64_t>(out.data->size())};
  }
  reader.put(node.output(0), std::move(out));
  return true;
}

}  // namespace

bool fold(Reader& reader, const Node& node) {
  if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
  if (node.output_size() != 1) return false;
  if (node.op_type() == "Constant") return constant(reader, node);
  if (node.op_type() == "Shape" || node.op_type() == "Size") return shape_of(reader, node);
  Inputs in;
  for (int i = 0; i < node.input_size(); ++i) {
    if (!Reader::has(node, i)) continue;
    in.push_back(&reader.value(node, i));
    if (!in.back()->data) return false;
  }
  if (in.empty()) return false;
  std::optional<Value> out = folded(reader, node, in);
  if (!out || out->data->size() > kMostData) return false;
  if (out->type == ElementType::fp32) out->type = ElementType::int64;
  if (node.op_type() == "Cast") out->type = reader.element(static_cast<int>(Reader::integer(node, "to", 7)));
  reader.put(node.output(0), std::move(*out));
  return true;
}

}  // namespace orrery::models::onnx
