// ONNX operators over images: convolutions, pooling; and recurrent layers, whose work is known but which have no kind.
#include <fmt/format.h>

#include <algorithm>

#include "models/import/onnx_reader.hpp"

namespace orrery::models::onnx {
namespace {

/// How a window moves over the spatial dimensions.
struct Window {
  std::vector<std::int64_t> kernel, stride, dilation, before, after;

  bool square() const {
    const auto equal = [](const std::vector<std::int64_t>& v) {
      return std::adjacent_find(v.begin(), v.end(), std::not_equal_to<>()) == v.end();
    };
    return equal(stride) && equal(dilation);
  }
  bool even() const { return before == after; }
};

Window window_of(const Node& node, const Dims& x, std::vector<std::int64_t> kernel) {
  Window w;
  w.kernel = std::move(kernel);
  const std::size_t rank = w.kernel.size();
  if (x.size() != rank + 2)
    throw GraphError(fmt::format("a kernel of {} dimensions over an input of {}", rank, x.size()));
  w.stride = Reader::integers(node, "strides");
  w.dilation = Reader::integers(node, "dilations");
  std::vector<std::int64_t> pads = Reader::integers(node, "pads");
  if (w.stride.empty()) w.stride.assign(rank, 1);
  if (w.dilation.empty()) w.dilation.assign(rank, 1);
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (w.stride.size() != rank || w.dilation.size() != rank || pads.size() != 2 * rank)
    throw GraphError("strides, dilations and pads do not fit the kernel");
  w.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  w.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  const std::string automatic = Reader::text(node, "auto_pad");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    for (std::size_t i = 0; i < rank; ++i) {  // as many outputs as ceil(in / stride)
      const std::int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
      std::int64_t total = reach - 1;
      if (w.stride[i] != 1) {
        const auto size = x[i + 2].constant();
        if (!size) throw Unmappable();
        total = std::max<std::int64_t>(0, ((*size + w.stride[i] - 1) / w.stride[i] - 1) * w.stride[i] + reach - *size);
      }
      w.before[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.after[i] = total - w.before[i];
    }
  return w;
}

SymExpr extent(const Window& w, const SymExpr& size, std::size_t i, bool ceil = false) {
  const SymExpr room = size + w.before[i] + w.after[i] - w.dilation[i] * (w.kernel[i] - 1) - 1;
  return (ceil ? ceil_div(room, w.stride[i]) : floor_div(room, w.stride[i])) + 1;
}

std::vector<std::int64_t> kernel_of(const Dims& weights) {
  std::vector<std::int64_t> kernel;
  for (std::size_t i = 2; i < weights.size(); ++i) {
    if (!weights[i].constant()) throw Unmappable();
    kernel.push_back(*weights[i].constant());
  }
  return kernel;
}

/// A convolution that has no kind (three dimensions, strides that differ): its work is counted all the same.
void other_conv(Reader& r, const Node& node, const Dims& x, const Dims& w, const Window& window) {
  Dims out{x[0], w[0]};
  for (std::size_t i = 0; i < window.kernel.size(); ++i) out.push_back(extent(window, x[i + 2], i));
  r.custom(node, product(out) * product(std::span(w).subspan(1)) * 2, {out});
}

void conv(Reader& r, const Node& node) {
  const Dims x = r.shape(node, 0), w = r.shape(node, 1);
  if (w.size() < 3) throw GraphError("expected weights of at least 3 dimensions");
  const Window window = window_of(node, x, kernel_of(w));
  if (w.size() > 4 || !window.square()) {
    other_conv(r, node, x, w, window);
    return;
  }
  std::vector<TensorId> inputs{r.tensor(node, 0), r.tensor(node, 1)};
  if (Reader::has(node, 2)) inputs.push_back(r.tensor(node, 2));
  std::int64_t pad = window.before[0], pad_w = window.before.back();
  if (!window.even()) {
    Dims padded = x;
    for (std::size_t i = 0; i < window.before.size(); ++i) padded[i + 2] += window.before[i] + window.after[i];
    inputs[0] = r.emit(node, OpKind::pad, {inputs[0]}, padded, r.value(node, 0).type);
    pad = pad_w = 0;
  }
  if (w.size() == 3) {  // one dimension: an image of one row
    pad_w = pad;
    pad = 0;
    const Dims line = r.graph.tensor(inputs[0]).shape;
    inputs[0] = r.reshape(node, inputs[0], {line[0], line[1], 1, line[2]});
    inputs[1] = r.reshape(node, inputs[1], {w[0], w[1], 1, w[2]});
  }
  Attributes said{{"stride", SymExpr(window.stride[0])},
                  {"dilation", SymExpr(window.dilation[0])},
                  {"pad", SymExpr(pad)},
                  {"groups", SymExpr(Reader::integer(node, "group", 1))}};
  if (pad_w != pad) said.emplace_back("pad_w", SymExpr(pad_w));
  TensorId out = r.emit(node, OpKind::conv2d, inputs, std::move(said));
  if (w.size() == 3) {
    const Dims image = r.graph.tensor(out).shape;
    out = r.reshape(node, out, {image[0], image[1], image[3]});
  }
  r.give(node, 0, out);
}

/// The gradient of a convolution with respect to its input, used forward: weights are [in, out / groups, kh, kw].
void conv_transpose(Reader& r, const Node& node) {
  const Dims x = r.shape(node, 0), w = r.shape(node, 1);
  const Window window = window_of(node, x, kernel_of(w));
  const std::int64_t groups = Reader::integer(node, "group", 1);
  std::vector<std::int64_t> extra = Reader::integers(node, "output_padding");
  extra.resize(window.kernel.size(), 0);
  Dims out{x[0], w[1] * groups};
  for (std::size_t i = 0; i < window.kernel.size(); ++i)
    out.push_back((x[i + 2] - 1) * window.stride[i] + window.dilation[i] * (window.kernel[i] - 1) + 1 + extra[i] -
                  window.before[i] - window.after[i]);
  if (w.size() != 4) {
    r.custom(node, product(x) * product(std::span(w).subspan(1)) * 2, {out});
    return;
  }
  const Attributes said{
      {"groups", SymExpr(groups)}, {"stride", SymExpr(window.stride[0])}, {"pad", SymExpr(window.before[0])}};
  TensorId result =
      r.emit(node, OpKind::conv2d_grad_input, {r.tensor(node, 0), r.tensor(node, 1)}, out, r.value(node, 0).type, said);
  if (Reader::has(node, 2)) {
    const TensorId bias = r.reshape(node, r.tensor(node, 2), {w[1] * groups, 1, 1});
    result = r.emit(node, OpKind::add, {result, bias});
  }
  r.give(node, 0, result);
}

void pool(Reader& r, const Node& node) {
  const Dims x = r.shape(node, 0);
  const Window window = window_of(node, x, Reader::integers(node, "kernel_shape"));
  const bool ceil = Reader::integer(node, "ceil_mode", 0) != 0;
  Dims out{x[0], x[1]};
  SymExpr taps = 1;
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    out.push_back(extent(window, x[i + 2], i, ceil));
    taps *= window.kernel[i];
  }
  const bool plain = window.kernel.size() == 2 && window.kernel[0] == window.kernel[1] && window.square() &&
                     window.even() && window.before[0] == window.before[1] && window.dilation[0] == 1 && !ceil;
  if (!plain || Reader::wants(node, 1)) {
    r.custom(node, product(out) * taps, std::vector<Dims>(2, out));
    return;
  }
  r.give(node, 0,
         r.emit(node, node.op_type() == "MaxPool" ? OpKind::max_pool2d : OpKind::avg_pool2d, {r.tensor(node, 0)},
                {{"kernel", SymExpr(window.kernel[0])},
                 {"stride", SymExpr(window.stride[0])},
                 {"pad", SymExpr(window.before[0])}}));
}

void global_pool(Reader& r, const Node& node) {
  std::vector<std::int64_t> axes;
  for (std::size_t i = 2; i < r.shape(node, 0).size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  r.give(node, 0,
         r.emit(node, node.op_type() == "GlobalMaxPool" ? OpKind::reduce_max : OpKind::reduce_mean, {r.tensor(node, 0)},
                {{"axes", axes_attribute(axes)}, {"keep", SymExpr(1)}}));
}

/// LSTM, GRU, RNN: [tokens, batch, features] through gates of two products a token and direction.
void recurrent(Reader& r, const Node& node) {
  const Dims x = r.shape(node, 0), w = r.shape(node, 1), recurrence = r.shape(node, 2);
  if (x.size() != 3 || w.size() != 3 || recurrence.size() != 3 || Reader::integer(node, "layout", 0) != 0)
    throw Unmappable();
  const SymExpr hidden = recurrence[2], directions = w[0];
  const SymExpr flops = x[0] * x[1] * directions * w[1] * (w[2] + hidden) * 2;
  const Dims last{directions, x[1], hidden};
  r.custom(node, flops, {{x[0], directions, x[1], hidden}, last, last});
}

}  // namespace

void add_convolution_handlers(std::map<std::string, Handler>& table) {
  table["Conv"] = conv;
  table["ConvTranspose"] = conv_transpose;
  table["MaxPool"] = table["AveragePool"] = pool;
  table["GlobalAveragePool"] = table["GlobalMaxPool"] = global_pool;
  table["LSTM"] = table["GRU"] = table["RNN"] = recurrent;
}

}  // namespace orrery::models::onnx
