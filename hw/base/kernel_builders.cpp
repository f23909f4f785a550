#include "hw/base/kernel_builders.hpp"

#include <algorithm>
#include <stdexcept>

#include "hw/base/arithmetic.hpp"
#include "hw/base/kernel_work.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kIndexBytes = 4;
constexpr std::int64_t kStateBytes = 4;  // optimizer states, scales and routing weights are fp32

Kernel pass(OpClass op, DType dtype, std::int64_t read_bytes, std::int64_t write_bytes, std::int64_t flops,
            std::int64_t rows = 0, Pass pass = Pass::by_class) {
  return {op, dtype, Streaming{read_bytes, write_bytes, flops, rows, pass}};
}

constexpr std::int64_t flops_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return 1;
    case Activation::gelu:
      return 9;  // x/2 (1 + tanh(a (x + b x^3))): 5 products, 2 sums, tanh as one, and the halving
    case Activation::silu:
      return 4;
  }
  return 0;
}

std::int64_t blocks(std::int64_t columns, std::int64_t block) {
  return block > 0 ? ceil_div(columns, block) : 1;
}

}  // namespace

Kernel norm_kernel(Norm norm, std::int64_t rows, std::int64_t hidden, DType dtype) {
  const std::int64_t e = bytes_of(dtype), tensor = rows * hidden * e;
  const bool layer = norm == Norm::layer;
  const std::int64_t weights = rows > 0 ? (layer ? 2 : 1) * hidden * e : 0;
  return pass(OpClass::norm, dtype, tensor + weights, tensor, rows * ((layer ? 7 : 4) * hidden + (layer ? 5 : 4)), rows,
              layer ? Pass::layer_norm : Pass::rms_norm);
}

Kernel softmax_kernel(std::int64_t rows, std::int64_t columns, DType dtype) {
  const std::int64_t tensor = rows * columns * bytes_of(dtype);
  return pass(OpClass::softmax, dtype, tensor, tensor, 5 * rows * columns, rows);
}

Kernel activation_kernel(Activation activation, bool gated, std::int64_t rows, std::int64_t width, DType dtype) {
  const std::int64_t elements = rows * width, tensor = elements * bytes_of(dtype);
  return pass(OpClass::activation, dtype, (gated ? 2 : 1) * tensor, tensor,
              elements * (flops_of(activation) + (gated ? 1 : 0)), rows);
}

Kernel rope_kernel(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t rotated, DType dtype) {
  const std::int64_t e = bytes_of(dtype), elements = tokens * (heads + kv_heads) * rotated;
  return pass(OpClass::rope, dtype, (elements + tokens * rotated) * e, elements * e, 3 * elements, tokens);
}

Kernel residual_kernel(std::int64_t rows, std::int64_t hidden, DType dtype) {
  const std::int64_t elements = rows * hidden, tensor = elements * bytes_of(dtype);
  return pass(OpClass::residual, dtype, 2 * tensor, tensor, elements);
}

Kernel embedding_kernel(std::int64_t tokens, std::int64_t hidden, DType dtype) {
  const std::int64_t tensor = tokens * hidden * bytes_of(dtype);
  return pass(OpClass::embedding, dtype, tensor + tokens * kIndexBytes, tensor, 0);
}

Kernel sampling_kernel(std::int64_t rows, std::int64_t vocabulary, bool greedy, DType dtype) {
  const std::int64_t logits = rows * vocabulary;
  return pass(OpClass::sampling, dtype, logits * bytes_of(dtype), rows * kIndexBytes, logits * (greedy ? 1 : 8));
}

Kernel gather_kernel(std::int64_t rows, std::int64_t width, DType dtype) {
  const std::int64_t tensor = rows * width * bytes_of(dtype);
  return pass(OpClass::gather, dtype, tensor + rows * kIndexBytes, tensor, 0);
}

Kernel scatter_kernel(std::int64_t rows, std::int64_t width, bool adds, DType dtype) {
  const std::int64_t elements = rows * width, tensor = elements * bytes_of(dtype);
  return pass(OpClass::scatter, dtype, (adds ? 2 : 1) * tensor + rows * kIndexBytes, tensor, adds ? elements : 0);
}

Kernel copy_kernel(std::int64_t bytes) {
  return pass(OpClass::copy, DType::int8, bytes, bytes, 0);
}

Kernel quantise_kernel(std::int64_t rows, std::int64_t columns, std::int64_t block, DType from, DType to) {
  const std::int64_t elements = rows * columns, scales = rows * blocks(columns, block);
  return pass(OpClass::quantise, to, elements * bytes_of(from), elements * bytes_of(to) + scales * kStateBytes,
              4 * elements + scales);
}

Kernel dequantise_kernel(std::int64_t rows, std::int64_t columns, std::int64_t block, DType from, DType to) {
  const std::int64_t elements = rows * columns, scales = rows * blocks(columns, block);
  return pass(OpClass::quantise, to, elements * bytes_of(from) + scales * kStateBytes, elements * bytes_of(to),
              elements);
}

Kernel optimizer_kernel(Optimizer optimizer, std::int64_t parameters, bool master, DType dtype, DType gradient) {
  std::int64_t states = 0, flops = 2;
  if (optimizer == Optimizer::sgd_momentum) states = 1, flops = 4;
  if (optimizer == Optimizer::adam) states = 2, flops = 14;
  if (optimizer == Optimizer::adamw) states = 2, flops = 16;
  const std::int64_t e = bytes_of(dtype);
  const std::int64_t kept = states * kStateBytes + (master ? kStateBytes : e);  // read and written
  return pass(OpClass::optimizer, dtype, parameters * (kept + bytes_of(gradient)),
              parameters * (kept + (master ? e : 0)), parameters * flops);
}

Kernel router_kernel(std::int64_t tokens, std::int64_t experts, std::int64_t k, DType dtype) {
  return pass(OpClass::router, dtype, tokens * experts * bytes_of(dtype), tokens * k * (kStateBytes + kIndexBytes),
              tokens * experts * (5 + k));
}

Kernel combine_kernel(std::int64_t tokens, std::int64_t k, std::int64_t width, DType dtype) {
  const std::int64_t tensor = tokens * width * bytes_of(dtype);
  return pass(OpClass::scatter, dtype, k * tensor + tokens * k * kStateBytes, tensor, 2 * k * tokens * width);
}

GroupedGemm grouped_gemm(std::span<const std::int64_t> rows, std::int64_t n, std::int64_t k) {
  GroupedGemm out{.n = n, .k = k};
  for (const std::int64_t r : rows) {
    if (r <= 0) continue;
    ++out.groups;
    out.rows += r;
    out.max_rows = std::max(out.max_rows, r);
    for (std::size_t t = 0; t < kGroupTiles.size(); ++t) out.row_tiles[t] += ceil_div(r, kGroupTiles[t]);
  }
  return out;
}

Kernel fuse(std::span<const Kernel> kernels, std::span<const std::int64_t> on_chip_bytes) {
  if (kernels.empty()) throw std::invalid_argument("fuse: no kernels");
  Fused out;
  Kernel fused{kernels.front().op, kernels.front().dtype, {}};
  for (const Kernel& kernel : kernels) {
    const Work work = work_of(kernel);
    const auto flops = static_cast<std::int64_t>(work.flops);
    out.read_bytes += static_cast<std::int64_t>(work.read_bytes);
    out.write_bytes += static_cast<std::int64_t>(work.write_bytes);
    out.kernels += 1;
    const auto* gemm = std::get_if<Gemm>(&kernel.shape);
    if (gemm && work.flops > shape_work(out.gemm, 1).flops) {
      out.other_matrix_flops += static_cast<std::int64_t>(shape_work(out.gemm, 1).flops);
      out.gemm = *gemm;
      fused.op = kernel.op;
      fused.dtype = kernel.dtype;
    } else if (uses_matrix_units(kernel)) {
      out.other_matrix_flops += flops;
    } else {
      out.vector_flops += flops;
    }
  }
  for (const std::int64_t bytes : on_chip_bytes) {
    if (bytes < 0) throw std::invalid_argument("fuse: a tensor of negative size");
    out.read_bytes -= bytes;
    out.write_bytes -= bytes;
  }
  if (out.read_bytes < 0 || out.write_bytes < 0)
    throw std::invalid_argument("fuse: more bytes stay on chip than the kernels hand on");
  fused.shape = out;
  return fused;
}

}  // namespace orrery::hw
