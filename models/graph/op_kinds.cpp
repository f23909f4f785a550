#include "models/graph/op_kinds.hpp"

#include <algorithm>
#include <array>

namespace orrery::models {
namespace {

constexpr std::array<OpInfo, kOpKinds> kTable{{
    {OpKind::matmul, "matmul", Pattern::matrix, ShapeRule::matmul, 2, 3, 0},
    {OpKind::grouped_matmul, "grouped_matmul", Pattern::matrix, ShapeRule::given, 2, 4, 0},
    {OpKind::grouped_matmul_grad_weight, "grouped_matmul_grad_weight", Pattern::matrix, ShapeRule::given, 2, 4, 0},
    {OpKind::attention, "attention", Pattern::matrix, ShapeRule::given, 3, 5, 0},
    {OpKind::attention_grad, "attention_grad", Pattern::matrix, ShapeRule::given, 4, 8, 0},
    {OpKind::conv2d, "conv2d", Pattern::matrix, ShapeRule::conv, 2, 3, 0},
    {OpKind::conv2d_grad_input, "conv2d_grad_input", Pattern::matrix, ShapeRule::given, 2, 2, 0},
    {OpKind::conv2d_grad_weight, "conv2d_grad_weight", Pattern::matrix, ShapeRule::given, 2, 2, 0},
    {OpKind::spmm, "spmm", Pattern::matrix, ShapeRule::given, 2, 4, 0},
    {OpKind::sddmm, "sddmm", Pattern::matrix, ShapeRule::given, 2, 4, 0},
    {OpKind::fft, "fft", Pattern::opaque, ShapeRule::given, 1, 1, 0},
    {OpKind::add, "add", Pattern::elementwise, ShapeRule::broadcast, 2, 2, 1},
    {OpKind::sub, "sub", Pattern::elementwise, ShapeRule::broadcast, 2, 2, 1},
    {OpKind::mul, "mul", Pattern::elementwise, ShapeRule::broadcast, 2, 2, 1},
    {OpKind::div, "div", Pattern::elementwise, ShapeRule::broadcast, 2, 2, 1},
    {OpKind::maximum, "maximum", Pattern::elementwise, ShapeRule::broadcast, 2, 2, 1},
    {OpKind::compare, "compare", Pattern::elementwise, ShapeRule::broadcast, 2, 2, 1},
    {OpKind::where, "where", Pattern::elementwise, ShapeRule::broadcast, 3, 3, 1},
    {OpKind::neg, "neg", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::abs, "abs", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::exp, "exp", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::log, "log", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::sqrt, "sqrt", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::rsqrt, "rsqrt", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::sin, "sin", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::pow, "pow", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::scale, "scale", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::clamp, "clamp", Pattern::elementwise, ShapeRule::same, 1, 1, 2},
    {OpKind::relu, "relu", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::gelu, "gelu", Pattern::elementwise, ShapeRule::same, 1, 1, 9},
    {OpKind::silu, "silu", Pattern::elementwise, ShapeRule::same, 1, 1, 4},
    {OpKind::tanh, "tanh", Pattern::elementwise, ShapeRule::same, 1, 1, 5},
    {OpKind::sigmoid, "sigmoid", Pattern::elementwise, ShapeRule::same, 1, 1, 3},
    {OpKind::erf, "erf", Pattern::elementwise, ShapeRule::same, 1, 1, 5},
    {OpKind::dropout, "dropout", Pattern::elementwise, ShapeRule::same, 1, 1, 2},
    {OpKind::cast, "cast", Pattern::elementwise, ShapeRule::same, 1, 1, 1},
    {OpKind::quantise, "quantise", Pattern::elementwise, ShapeRule::same, 1, 2, 4},
    {OpKind::dequantise, "dequantise", Pattern::elementwise, ShapeRule::same, 1, 2, 1},
    {OpKind::add_n, "add_n", Pattern::elementwise, ShapeRule::broadcast, 1, -1, 1},
    {OpKind::relu_grad, "relu_grad", Pattern::elementwise, ShapeRule::same, 2, 2, 1},
    {OpKind::gelu_grad, "gelu_grad", Pattern::elementwise, ShapeRule::same, 2, 3, 14},
    {OpKind::silu_grad, "silu_grad", Pattern::elementwise, ShapeRule::same, 2, 2, 6},
    {OpKind::tanh_grad, "tanh_grad", Pattern::elementwise, ShapeRule::same, 2, 2, 3},
    {OpKind::sigmoid_grad, "sigmoid_grad", Pattern::elementwise, ShapeRule::same, 2, 2, 3},
    {OpKind::dropout_grad, "dropout_grad", Pattern::elementwise, ShapeRule::same, 2, 2, 2},
    {OpKind::reduce_sum, "reduce_sum", Pattern::reduction, ShapeRule::reduce, 1, 1, 1},
    {OpKind::reduce_mean, "reduce_mean", Pattern::reduction, ShapeRule::reduce, 1, 1, 1},
    {OpKind::reduce_max, "reduce_max", Pattern::reduction, ShapeRule::reduce, 1, 1, 1},
    {OpKind::softmax, "softmax", Pattern::reduction, ShapeRule::same, 1, 2, 5},
    {OpKind::layer_norm, "layer_norm", Pattern::reduction, ShapeRule::same, 1, 3, 7},
    {OpKind::rms_norm, "rms_norm", Pattern::reduction, ShapeRule::same, 1, 2, 4},
    {OpKind::batch_norm, "batch_norm", Pattern::reduction, ShapeRule::same, 1, 5, 7},
    {OpKind::group_norm, "group_norm", Pattern::reduction, ShapeRule::same, 1, 3, 7},
    {OpKind::cross_entropy, "cross_entropy", Pattern::reduction, ShapeRule::given, 2, 2, 5},
    {OpKind::sampling, "sampling", Pattern::reduction, ShapeRule::given, 1, 1, 1},
    {OpKind::softmax_grad, "softmax_grad", Pattern::reduction, ShapeRule::same, 2, 2, 4},
    {OpKind::layer_norm_grad, "layer_norm_grad", Pattern::reduction, ShapeRule::given, 2, 5, 12},
    {OpKind::rms_norm_grad, "rms_norm_grad", Pattern::reduction, ShapeRule::given, 2, 4, 9},
    {OpKind::batch_norm_grad, "batch_norm_grad", Pattern::reduction, ShapeRule::given, 2, 5, 12},
    {OpKind::group_norm_grad, "group_norm_grad", Pattern::reduction, ShapeRule::given, 2, 5, 12},
    {OpKind::cross_entropy_grad, "cross_entropy_grad", Pattern::elementwise, ShapeRule::given, 2, 3, 2},
    {OpKind::reshape, "reshape", Pattern::view, ShapeRule::given, 1, 1, 0},
    {OpKind::transpose, "transpose", Pattern::view, ShapeRule::given, 1, 1, 0},
    {OpKind::slice, "slice", Pattern::view, ShapeRule::given, 1, 1, 0},
    {OpKind::expand, "expand", Pattern::view, ShapeRule::given, 1, 1, 0},
    {OpKind::concat, "concat", Pattern::injective, ShapeRule::given, 1, -1, 0},
    {OpKind::gather, "gather", Pattern::injective, ShapeRule::given, 2, 2, 0},
    {OpKind::scatter_add, "scatter_add", Pattern::opaque, ShapeRule::given, 2, 3, 1},
    {OpKind::embedding, "embedding", Pattern::injective, ShapeRule::given, 2, 2, 0},
    {OpKind::embedding_grad, "embedding_grad", Pattern::opaque, ShapeRule::given, 2, 2, 1},
    {OpKind::pad, "pad", Pattern::injective, ShapeRule::given, 1, 1, 0},
    {OpKind::copy, "copy", Pattern::injective, ShapeRule::same, 1, 1, 0},
    {OpKind::upsample, "upsample", Pattern::injective, ShapeRule::given, 1, 1, 0},
    {OpKind::upsample_grad, "upsample_grad", Pattern::injective, ShapeRule::given, 1, 1, 1},
    {OpKind::max_pool2d, "max_pool2d", Pattern::reduction, ShapeRule::pool, 1, 1, 1},
    {OpKind::avg_pool2d, "avg_pool2d", Pattern::reduction, ShapeRule::pool, 1, 1, 1},
    {OpKind::max_pool2d_grad, "max_pool2d_grad", Pattern::opaque, ShapeRule::given, 2, 3, 1},
    {OpKind::avg_pool2d_grad, "avg_pool2d_grad", Pattern::injective, ShapeRule::given, 1, 1, 1},
    {OpKind::rope, "rope", Pattern::injective, ShapeRule::same, 1, 3, 3},
    {OpKind::rope_grad, "rope_grad", Pattern::injective, ShapeRule::same, 1, 3, 3},
    {OpKind::kv_write, "kv_write", Pattern::opaque, ShapeRule::given, 2, 4, 0},
    {OpKind::router, "router", Pattern::reduction, ShapeRule::given, 1, 2, 5},
    {OpKind::combine, "combine", Pattern::opaque, ShapeRule::given, 2, 3, 2},
    {OpKind::router_grad, "router_grad", Pattern::opaque, ShapeRule::given, 2, 4, 5},
    {OpKind::combine_grad, "combine_grad", Pattern::opaque, ShapeRule::given, 2, 4, 2},
    {OpKind::optimizer_step, "optimizer_step", Pattern::opaque, ShapeRule::given, 2, -1, 0},
    {OpKind::all_reduce, "all_reduce", Pattern::communication, ShapeRule::given, 1, -1, 0},
    {OpKind::all_gather, "all_gather", Pattern::communication, ShapeRule::given, 1, -1, 0},
    {OpKind::reduce_scatter, "reduce_scatter", Pattern::communication, ShapeRule::given, 1, -1, 0},
    {OpKind::all_to_all, "all_to_all", Pattern::communication, ShapeRule::given, 1, -1, 0},
    {OpKind::send, "send", Pattern::communication, ShapeRule::given, 1, -1, 0},
    {OpKind::recv, "recv", Pattern::communication, ShapeRule::given, 1, -1, 0},
    {OpKind::to_host, "to_host", Pattern::communication, ShapeRule::given, 1, -1, 0},
    {OpKind::to_device, "to_device", Pattern::communication, ShapeRule::given, 1, -1, 0},
    {OpKind::fused, "fused", Pattern::structure, ShapeRule::given, 0, -1, 0},
    {OpKind::branch, "branch", Pattern::structure, ShapeRule::given, 0, -1, 0},
    {OpKind::loop, "loop", Pattern::structure, ShapeRule::given, 0, -1, 0},
    {OpKind::custom, "custom", Pattern::opaque, ShapeRule::given, 0, -1, 0},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<std::size_t>(kTable[i].kind) != i) return false;
  return true;
}
static_assert(in_order(), "the table follows the order of the enum");

}  // namespace

const OpInfo& info(OpKind kind) {
  return kTable[static_cast<std::size_t>(kind)];
}

std::optional<OpKind> op_kind_of(std::string_view name) {
  const auto row = std::find_if(kTable.begin(), kTable.end(), [&](const OpInfo& op) { return op.name == name; });
  return row == kTable.end() ? std::nullopt : std::optional(row->kind);
}

std::span<const OpInfo> op_kinds() {
  return kTable;
}

}  // namespace orrery::models
