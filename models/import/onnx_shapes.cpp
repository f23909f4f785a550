// ONNX operators that move or relabel data.
#include <fmt/format.h>

#include <algorithm>

#include "models/import/onnx_reader.hpp"

namespace orrery::models::onnx {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 40;  ///< what exporters write for "to the end" is past it

/// The sizes that Reshape asks for: 0 keeps one, -1 is what is left.
Dims reshaped(const Reader& r, const Node& node, const Dims& from, const Dims& asked) {
  Dims out;
  SymExpr known = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    out.push_back(asked[i]);
    if (asked[i].constant() == 0 && Reader::integer(node, "allowzero", 0) == 0) {
      if (i >= from.size()) throw GraphError("size 0 keeps a dimension that the input does not have");
      out[i] = from[i];
    }
    if (asked[i].constant() == -1)
      open = i;
    else
      known *= out[i];
  }
  if (!open) return out;
  // Sizes that stand on both sides cancel, whatever they are.
  SymExpr all = 1, rest = 1;
  Dims left = from;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i == *open) continue;
    const auto same = std::find(left.begin(), left.end(), out[i]);
    if (same != left.end() && !(out[i] == SymExpr(0)))
      left.erase(same);
    else
      rest *= out[i];
  }
  for (const SymExpr& size : left) all *= size;
  if (rest.constant() == 0) throw GraphError("size -1 beside a size 0");
  out[*open] = rest.constant() == 1 ? all : floor_div(all, rest);
  static_cast<void>(r);
  return out;
}

void reshape(Reader& r, const Node& node) {
  const Dims& from = r.shape(node, 0);
  Dims asked;
  if (const auto* said = Reader::attribute(node, "shape"); said != nullptr) {
    asked.assign(said->ints().begin(), said->ints().end());
  } else if (r.value(node, 1).data) {
    asked = *r.value(node, 1).data;
  } else {
    // Sizes that only a run can tell: what the file says of the output.
    const auto said_out = r.described(node.output(0));
    if (!said_out) throw Unmappable();
    asked = said_out->shape;
  }
  r.give(node, 0, r.reshape(node, r.tensor(node, 0), reshaped(r, node, from, asked)));
}

void flatten(Reader& r, const Node& node) {
  const Dims& from = r.shape(node, 0);
  const std::int64_t axis = Reader::integer(node, "axis", 1);
  const auto split = axis == static_cast<std::int64_t>(from.size()) ? from.size() : axis_of(axis, from.size());
  r.give(node, 0,
         r.reshape(node, r.tensor(node, 0),
                   {product(std::span(from).first(split)), product(std::span(from).subspan(split))}));
}

void squeeze(Reader& r, const Node& node) {
  const Dims& from = r.shape(node, 0);
  const auto axes = r.list(node, "axes", 1);
  std::vector<bool> gone(from.size(), false);
  for (std::size_t i = 0; i < from.size() && !axes; ++i) gone[i] = from[i].constant() == 1;
  if (axes)
    for (const std::int64_t axis : *axes) gone[axis_of(axis, from.size())] = true;
  Dims out;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!gone[i]) out.push_back(from[i]);
  r.give(node, 0, r.reshape(node, r.tensor(node, 0), out));
}

void unsqueeze(Reader& r, const Node& node) {
  const Dims& from = r.shape(node, 0);
  const auto axes = r.list(node, "axes", 1);
  if (!axes) throw GraphError("expected axes");
  const std::size_t rank = from.size() + axes->size();
  std::vector<bool> fresh(rank, false);
  for (const std::int64_t axis : *axes) fresh[axis_of(axis, rank)] = true;
  Dims out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) out.push_back(fresh[i] || next >= from.size() ? SymExpr(1) : from[next++]);
  r.give(node, 0, r.reshape(node, r.tensor(node, 0), out));
}

void transpose(Reader& r, const Node& node) {
  const Dims& from = r.shape(node, 0);
  std::vector<std::int64_t> order = Reader::integers(node, "perm");
  if (order.empty())
    for (std::size_t i = from.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  if (order.size() != from.size())
    throw GraphError(fmt::format("perm has {} entries, the input {} dimensions", order.size(), from.size()));
  Dims out;
  for (const std::int64_t axis : order) out.push_back(from[axis_of(axis, from.size())]);
  r.give(node, 0,
         r.emit(node, OpKind::transpose, {r.tensor(node, 0)}, out, r.value(node, 0).type,
                {{"axes", axes_attribute(order)}}));
}

/// An end of a slice of `size`, from the front.
SymExpr bound(const SymExpr& at, const SymExpr& size) {
  if (const auto place = at.constant()) {
    if (*place >= kFar) return size;
    if (*place <= -kFar) return 0;
    if (*place < 0) return max(size + *place, 0);
  }
  return min(at, size);
}

void slice(Reader& r, const Node& node) {
  const Dims from = r.shape(node, 0);
  Dims out = from;
  const auto part = [&](const char* name, int i) -> std::optional<Dims> {
    if (const auto* said = Reader::attribute(node, name)) return Dims(said->ints().begin(), said->ints().end());
    if (!Reader::has(node, i)) return std::nullopt;
    if (!r.value(node, i).data) throw Unmappable();
    return *r.value(node, i).data;
  };
  const auto starts = part("starts", 1), ends = part("ends", 2), axes = part("axes", 3), steps = part("steps", 4);
  if (!starts || !ends || starts->size() != ends->size()) throw GraphError("expected as many starts as ends");
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::int64_t step = steps ? (*steps)[i].constant().value_or(1) : 1;
    const std::size_t axis =
        axis_of(axes ? (*axes)[i].constant().value_or(0) : static_cast<std::int64_t>(i), from.size());
    if (step < 0) {  // backwards: all of it, or what only a run can tell
      const std::int64_t first = (*starts)[i].constant().value_or(0);
      if ((first != -1 && first < kFar) || (*ends)[i].constant().value_or(0) > -kFar) throw Unmappable();
    }
    const SymExpr length = step > 0 ? bound((*ends)[i], from[axis]) - bound((*starts)[i], from[axis]) : from[axis];
    out[axis] = step == 1 || step == -1 ? length : ceil_div(length, step < 0 ? -step : step);
  }
  r.give(node, 0, r.emit(node, OpKind::slice, {r.tensor(node, 0)}, out, r.value(node, 0).type));
}

void split(Reader& r, const Node& node) {
  const Dims from = r.shape(node, 0);
  const std::size_t axis = axis_of(Reader::integer(node, "axis", 0), from.size());
  const auto sizes = r.list(node, "split", 1);
  const TensorId whole = r.tensor(node, 0);
  SymExpr begin = 0;
  for (int i = 0; i < node.output_size(); ++i) {
    Dims out = from;
    const SymExpr even = ceil_div(from[axis], node.output_size());
    if (sizes && i >= static_cast<int>(sizes->size())) throw GraphError("fewer sizes than outputs");
    out[axis] = sizes                        ? SymExpr((*sizes)[static_cast<std::size_t>(i)])
                : i + 1 < node.output_size() ? even
                                             : from[axis] - even * (node.output_size() - 1);
    Node one = node;  // the op is named after the part that it gives
    one.clear_output();
    one.add_output(node.output(i));
    const Attributes said{{"axis", SymExpr(static_cast<std::int64_t>(axis))}, {"begin", begin}};
    r.give(node, i, r.emit(one, OpKind::slice, {whole}, out, r.value(node, 0).type, said));
    begin += out[axis];
  }
}

void concat(Reader& r, const Node& node) {
  Dims out = r.shape(node, 0);
  const std::size_t axis = axis_of(Reader::integer(node, "axis", 0), out.size());
  std::vector<TensorId> inputs{r.tensor(node, 0)};
  for (int i = 1; i < node.input_size(); ++i) {
    const Dims& part = r.shape(node, i);
    if (part.size() != out.size())
      throw GraphError(fmt::format("operands of {} and {} dimensions", out.size(), part.size()));
    for (std::size_t k = 0; k < part.size(); ++k) {
      const Order order = compare(part[k], out[k], r.graph.facts);
      if (k != axis && (order == Order::less || order == Order::greater))
        throw GraphError(
            fmt::format("sizes {} and {} of dimension {} differ", out[k].to_string(), part[k].to_string(), k));
    }
    out[axis] += part[axis];
    inputs.push_back(r.tensor(node, i));
  }
  r.give(node, 0,
         r.emit(node, OpKind::concat, inputs, out, r.value(node, 0).type,
                {{"axis", SymExpr(static_cast<std::int64_t>(axis))}}));
}

void gather(Reader& r, const Node& node) {
  const Dims from = r.shape(node, 0), picked = r.shape(node, 1);
  Dims out;
  if (node.op_type() == "GatherElements") {
    out = picked;
  } else if (node.op_type() == "GatherND") {
    const auto depth = picked.empty() ? std::nullopt : picked.back().constant();
    if (!depth || *depth > static_cast<std::int64_t>(from.size()) || Reader::integer(node, "batch_dims", 0) != 0)
      throw Unmappable();
    out.assign(picked.begin(), picked.end() - 1);
    out.insert(out.end(), from.begin() + *depth, from.end());
  } else {
    const auto axis = static_cast<std::ptrdiff_t>(axis_of(Reader::integer(node, "axis", 0), from.size()));
    out.assign(from.begin(), from.begin() + axis);
    out.insert(out.end(), picked.begin(), picked.end());
    out.insert(out.end(), from.begin() + axis + 1, from.end());
  }
  const bool table = node.op_type() == "Gather" && from.size() == 2 && Reader::integer(node, "axis", 0) == 0 &&
                     r.value(node, 0).role == TensorRole::parameter;
  const TensorId source = r.tensor(node, 0), indices = r.tensor(node, 1);
  r.give(node, 0,
         r.emit(node, table ? OpKind::embedding : OpKind::gather, {source, indices}, out, r.value(node, 0).type));
}

/// (target, updates, indices) here, (data, indices, updates) there.
void scatter(Reader& r, const Node& node) {
  const Dims& shape = r.shape(node, 0);
  const TensorId target = r.tensor(node, 0), updates = r.tensor(node, 2), indices = r.tensor(node, 1);
  r.give(node, 0, r.emit(node, OpKind::scatter_add, {target, updates, indices}, shape, r.value(node, 0).type));
}

void expand(Reader& r, const Node& node) {
  const Dims from = r.shape(node, 0);
  if (!r.value(node, 1).data) {
    const auto said = r.described(node.output(0));
    if (!said) throw Unmappable();
    r.give(node, 0, r.emit(node, OpKind::expand, {r.tensor(node, 0)}, said->shape, r.value(node, 0).type));
    return;
  }
  const Dims out = broadcast(from, *r.value(node, 1).data);
  r.give(node, 0, r.emit(node, OpKind::expand, {r.tensor(node, 0)}, out, r.value(node, 0).type));
}

void tile(Reader& r, const Node& node) {
  Dims out = r.shape(node, 0);
  const Value& repeats = r.value(node, 1);
  if (!repeats.data || repeats.data->size() != out.size()) throw Unmappable();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= (*repeats.data)[i];
  r.give(node, 0,
         r.emit(node, OpKind::upsample, {r.tensor(node, 0)}, out, r.value(node, 0).type,
                {{"function", std::string("Tile")}}));
}

void pad(Reader& r, const Node& node) {
  Dims out = r.shape(node, 0);
  const auto pads = r.list(node, Reader::attribute(node, "paddings") != nullptr ? "paddings" : "pads", 1);
  const auto axes = r.list(node, "axes", 3);
  if (!pads) throw GraphError("expected pads");
  const std::size_t count = axes ? axes->size() : out.size();
  if (pads->size() != 2 * count) throw GraphError(fmt::format("expected {} pads, got {}", 2 * count, pads->size()));
  for (std::size_t i = 0; i < count; ++i)
    out[axes ? axis_of((*axes)[i], out.size()) : i] += (*pads)[i] + (*pads)[i + count];
  r.give(node, 0, r.emit(node, OpKind::pad, {r.tensor(node, 0)}, out, r.value(node, 0).type));
}

/// Sizes times scales, where either is in the file.
void resize(Reader& r, const Node& node) {
  Dims out = r.shape(node, 0);
  std::vector<double> scales;
  if (const auto* said = Reader::attribute(node, "scales")) scales.assign(said->floats().begin(), said->floats().end());
  const bool sized = Reader::has(node, 3) && r.value(node, 3).data && r.value(node, 3).data->size() == out.size();
  if (sized) {
    out = *r.value(node, 3).data;
  } else if (scales.size() == out.size()) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto whole = static_cast<std::int64_t>(scales[i]);
      if (scales[i] == static_cast<double>(whole))
        out[i] *= whole;
      else if (out[i].constant())
        out[i] = static_cast<std::int64_t>(static_cast<double>(*out[i].constant()) * scales[i]);
      else
        throw Unmappable();
    }
  } else {
    const auto said = r.described(node.output(0));
    if (!said) throw Unmappable();
    out = said->shape;
  }
  r.give(node, 0, r.emit(node, OpKind::upsample, {r.tensor(node, 0)}, out, r.value(node, 0).type));
}

void filled(Reader& r, const Node& node) {
  const Value& sizes = r.value(node, 0);
  if (!sizes.data) throw Unmappable();
  Value out;
  out.shape = *sizes.data;
  const auto* said = Reader::attribute(node, "value");
  out.type = said == nullptr ? ElementType::fp32 : r.element(said->t().data_type());
  r.put(node.output(0), std::move(out));
}

void range(Reader& r, const Node& node) {
  Value out;
  out.type = r.value(node, 0).type;
  for (int i = 0; i < 3; ++i)
    if (!r.value(node, i).data || r.value(node, i).data->size() != 1) throw Unmappable();
  const SymExpr start = r.value(node, 0).data->front(), limit = r.value(node, 1).data->front(),
                step = r.value(node, 2).data->front();
  if (step.constant().value_or(0) <= 0) throw Unmappable();
  out.shape = {ceil_div(limit - start, step)};
  r.put(node.output(0), std::move(out));
}

}  // namespace

void add_shape_handlers(std::map<std::string, Handler>& table) {
  table["Reshape"] = reshape;
  table["Flatten"] = flatten;
  table["Squeeze"] = squeeze;
  table["Unsqueeze"] = unsqueeze;
  table["Transpose"] = transpose;
  table["Slice"] = slice;
  table["Split"] = split;
  table["Concat"] = concat;
  table["Gather"] = table["GatherElements"] = table["GatherND"] = gather;
  table["ScatterElements"] = table["ScatterND"] = table["Scatter"] = scatter;
  table["Expand"] = expand;
  table["Tile"] = tile;
  table["Pad"] = pad;
  table["Resize"] = table["Upsample"] = resize;
  table["ConstantOfShape"] = filled;
  table["Range"] = range;
}

}  // namespace orrery::models::onnx
