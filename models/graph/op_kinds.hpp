// The kinds of operators: one table that shape inference, work counts, fusion and printing all read.
//
// `pattern` says how an output element depends on inputs, which is what fusers ask (after the classes of tensor
// compilers): a view moves nothing, an elementwise op reads the same place of every operand (or a broadcast one), an
// injective op reads one other place, a reduction many of a row, a matrix op a row and a column; a communication moves
// its first operand and waits for the others. `flops` are per element
// of the first output (of the first input for reductions), by the convention of hw/base/kernel_builders.hpp: an
// addition, multiplication, division, root, exponential or comparison is one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sim/base/enum_names.hpp"

namespace orrery::models {

enum class OpKind : std::uint8_t {
  // products
  matmul,
  grouped_matmul,
  grouped_matmul_grad_weight,
  attention,
  attention_grad,
  conv2d,
  conv2d_grad_input,
  conv2d_grad_weight,
  spmm,
  sddmm,
  fft,
  // elementwise
  add,
  sub,
  mul,
  div,
  maximum,
  compare,
  where,
  neg,
  abs,
  exp,
  log,
  sqrt,
  rsqrt,
  sin,
  pow,
  scale,
  clamp,
  relu,
  gelu,
  silu,
  tanh,
  sigmoid,
  erf,
  dropout,
  cast,
  quantise,
  dequantise,
  add_n,
  relu_grad,
  gelu_grad,
  silu_grad,
  tanh_grad,
  sigmoid_grad,
  dropout_grad,
  // reductions and rows
  reduce_sum,
  reduce_mean,
  reduce_max,
  softmax,
  layer_norm,
  rms_norm,
  batch_norm,
  group_norm,
  cross_entropy,
  sampling,
  softmax_grad,
  layer_norm_grad,
  rms_norm_grad,
  batch_norm_grad,
  group_norm_grad,
  cross_entropy_grad,
  // movement
  reshape,
  transpose,
  slice,
  expand,
  concat,
  gather,
  scatter_add,
  embedding,
  embedding_grad,
  pad,
  copy,
  upsample,
  upsample_grad,
  max_pool2d,
  avg_pool2d,
  max_pool2d_grad,
  avg_pool2d_grad,
  rope,
  rope_grad,
  kv_write,
  router,
  combine,
  router_grad,
  combine_grad,
  // training and machines
  optimizer_step,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send,
  recv,
  to_host,
  to_device,
  // structure
  fused,
  branch,
  loop,
  custom
};
inline constexpr int kOpKinds = static_cast<int>(OpKind::custom) + 1;

enum class Pattern : std::uint8_t { view, elementwise, injective, reduction, matrix, opaque, communication, structure };
constexpr auto enum_names(Pattern) {
  using enum Pattern;
  return sim::names<Pattern>({{"view", view},
                              {"elementwise", elementwise},
                              {"injective", injective},
                              {"reduction", reduction},
                              {"matrix", matrix},
                              {"opaque", opaque},
                              {"communication", communication},
                              {"structure", structure}});
}

/// How the shapes of outputs follow from those of inputs.
enum class ShapeRule : std::uint8_t {
  same,       ///< of the first input
  broadcast,  ///< of all inputs, broadcast from the right
  matmul,     ///< [.., m, k] x [.., k, n]; attributes trans_a, trans_b; a third input is a bias of n
  conv,       ///< [n, c, h, w] x [out, c / groups, kh, kw]; attributes stride, pad, dilation, groups
  pool,       ///< [n, c, h, w]; attributes kernel, stride, pad
  reduce,     ///< without the axes of attribute `axes` (kept as 1 where `keep` is 1)
  given       ///< said by whoever adds the op
};

struct OpInfo {
  OpKind kind;
  std::string_view name;
  Pattern pattern;
  ShapeRule rule;
  std::int8_t min_inputs, max_inputs;  ///< max -1: any number
  std::int8_t flops;
};

/// The row of a kind.
const OpInfo& info(OpKind kind);
inline std::string_view to_string(OpKind kind) {
  return info(kind).name;
}
/// The kind of that name; nothing for a name that is none.
std::optional<OpKind> op_kind_of(std::string_view name);
/// All rows, in the order of the enum.
std::span<const OpInfo> op_kinds();

}  // namespace orrery::models
