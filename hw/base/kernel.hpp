// What a device can be asked to run, and what it answers.
//
// A Kernel is one launch after fusion and lowering: a matrix product (plain, or of groups that each have weights of
// their own), attention over cached keys and values, a sparse product, a Fourier transform, a convolution, a streaming
// pass over memory, or a fused group of those. A shape is a plain value that is cheap to copy: what varies within a
// launch (sequences of a batch, rows of an expert) is condensed to the sums that costs depend on. Builders for passes
// (norms, softmax, optimizer steps …) and for condensed shapes stand in hw/base/kernel_builders.hpp.
// docs/explain/kernels.md has every formula.
//
// A Cost is an estimate of one launch: time, work, traffic and which resource bounds it. Costs are doubles in SI units.
// Whoever adds them up over a run converts to integer ticks and picojoules first (sim/base/units.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "sim/base/enum_names.hpp"

namespace orrery::hw {

using sim::to_string;

/// Number formats of operands. `fp16` and `bf16` run at the same rate on every device of the catalog.
enum class DType : std::uint8_t { fp32, fp16, bf16, fp8, int8 };
constexpr auto enum_names(DType) {
  using enum DType;
  return sim::names<DType>({{"fp32", fp32}, {"fp16", fp16}, {"bf16", bf16}, {"fp8", fp8}, {"int8", int8}});
}

/// Bytes of one element of `dtype`.
constexpr std::int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return 4;
    case DType::fp16:
    case DType::bf16:
      return 2;
    case DType::fp8:
    case DType::int8:
      return 1;
  }
  return 0;
}

/// How weights are stored, where that differs from a kernel's `dtype`, which activations and results keep. 4-bit
/// formats and smaller come with scales: `int4`, `int3` and `int2` a 16-bit one for 128 weights (GPTQ, AWQ), `mxfp4` an
/// 8-bit one for 32 (OCP Microscaling), `nvfp4` an 8-bit one for 16.
enum class WeightFormat : std::uint8_t { as_dtype, fp16, bf16, fp8, int8, int4, mxfp4, nvfp4, int3, int2 };
constexpr auto enum_names(WeightFormat) {
  using enum WeightFormat;
  return sim::names<WeightFormat>({{"as_dtype", as_dtype},
                                   {"fp16", fp16},
                                   {"bf16", bf16},
                                   {"fp8", fp8},
                                   {"int8", int8},
                                   {"int4", int4},
                                   {"mxfp4", mxfp4},
                                   {"nvfp4", nvfp4},
                                   {"int3", int3},
                                   {"int2", int2}});
}

/// Bits of a weight in 1/64, its share of the scale included, so that all are whole; 0 for `as_dtype`.
constexpr std::int64_t bits_64ths(WeightFormat format) {
  switch (format) {
    case WeightFormat::as_dtype:
      return 0;
    case WeightFormat::fp16:
    case WeightFormat::bf16:
      return 64 * 16;
    case WeightFormat::fp8:
    case WeightFormat::int8:
      return 64 * 8;
    case WeightFormat::int4:
      return 64 * 4 + 64 * 16 / 128;
    case WeightFormat::mxfp4:
      return 64 * 4 + 64 * 8 / 32;
    case WeightFormat::nvfp4:
      return 64 * 4 + 64 * 8 / 16;
    case WeightFormat::int3:
      return 64 * 3 + 64 * 16 / 128;
    case WeightFormat::int2:
      return 64 * 2 + 64 * 16 / 128;
  }
  return 0;
}

/// Whether weights of this format are only stored in it: widened on their way, and activations keep theirs.
constexpr bool is_weight_only(WeightFormat format) {
  return format == WeightFormat::int4 || format == WeightFormat::int3 || format == WeightFormat::int2;
}

/// Bytes of `count` weights in a kernel of `dtype`, rounded up.
constexpr std::int64_t weight_bytes(WeightFormat format, DType dtype, std::int64_t count) {
  if (format == WeightFormat::as_dtype) return count * bytes_of(dtype);
  const std::int64_t bits = bits_64ths(format);
  return count / 512 * bits + (count % 512 * bits + 511) / 512;
}
/// Bytes of one weight.
constexpr double weight_element(WeightFormat format, DType dtype) {
  return format == WeightFormat::as_dtype ? static_cast<double>(bytes_of(dtype))
                                          : static_cast<double>(bits_64ths(format)) / 512;
}

/// Where time and energy are booked; one row of `energy.csv` a class.
enum class OpClass : std::uint8_t {
  embedding,
  norm,
  qkv_proj,
  rope,
  attention_prefill,
  attention_decode,
  out_proj,
  residual,
  ffn_up,
  activation,
  ffn_down,
  lm_head,
  sampling,
  all_reduce,
  kv_write,
  softmax,
  router,
  expert_up,
  expert_down,
  gather,
  scatter,
  sparse,
  fft,
  conv,
  quantise,
  copy,
  optimizer
};
constexpr auto enum_names(OpClass) {
  using enum OpClass;
  return sim::names<OpClass>({{"embedding", embedding},
                              {"norm", norm},
                              {"qkv_proj", qkv_proj},
                              {"rope", rope},
                              {"attention_prefill", attention_prefill},
                              {"attention_decode", attention_decode},
                              {"out_proj", out_proj},
                              {"residual", residual},
                              {"ffn_up", ffn_up},
                              {"activation", activation},
                              {"ffn_down", ffn_down},
                              {"lm_head", lm_head},
                              {"sampling", sampling},
                              {"all_reduce", all_reduce},
                              {"kv_write", kv_write},
                              {"softmax", softmax},
                              {"router", router},
                              {"expert_up", expert_up},
                              {"expert_down", expert_down},
                              {"gather", gather},
                              {"scatter", scatter},
                              {"sparse", sparse},
                              {"fft", fft},
                              {"conv", conv},
                              {"quantise", quantise},
                              {"copy", copy},
                              {"optimizer", optimizer}});
}

inline constexpr int kOpClasses = static_cast<int>(OpClass::optimizer) + 1;

/// C[m,n] = A[m,k] B[k,n]: activations times weights, `batch` times over.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  WeightFormat weights = WeightFormat::as_dtype;
};

/// Attention of new tokens over themselves and `past` cached tokens, all sequences of a batch in one launch.
struct AttentionPrefill {
  std::int64_t sequences = 0;  ///< chunks in the launch
  std::int64_t q_tokens = 0;   ///< sum of new tokens
  std::int64_t kv_tokens = 0;  ///< sum of past + new tokens
  std::int64_t pairs = 0;      ///< sum over new tokens of the keys each attends to: new*past + new*(new+1)/2
                               ///< causal, new*(past+new) with a full mask
  std::int64_t q_tiles = 0;    ///< sum over chunks of ceil(new / 128): query tiles per head
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;      ///< elements of a value, where they differ from a key's head_dim; 0: as many
  bool causal = true;              ///< a tile of queries stops at its last query's keys; the mask itself is in `pairs`
  std::int64_t window = 0;         ///< keys that a causal query attends to at most, its own the last; 0: all before it
  std::int64_t page_tokens = 0;    ///< tokens of a page of the cache, found through a table of 4-byte entries; 0: none
  std::int64_t cache_element = 0;  ///< bytes of an element of the cache; 0: as the kernel's dtype
  bool backward = false;           ///< the gradient: five products for two, scores made anew from queries and keys

  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
};

/// One new token a sequence over its whole cached context, all sequences in one launch.
struct AttentionDecode {
  std::int64_t sequences = 0;
  std::int64_t context_tokens = 0;  ///< sum of contexts, the new token included
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;      ///< elements of a value, where they differ from a key's head_dim; 0: as many
  bool latent = false;             ///< values are the first value_dim elements of the keys, so they are read once (MLA)
  std::int64_t longest = 0;        ///< longest context of the batch; 0: all equal
  std::int64_t page_tokens = 0;    ///< tokens of a page of the cache, found through a table of 4-byte entries; 0: none
  std::int64_t cache_element = 0;  ///< bytes of an element of the cache; 0: as the kernel's dtype

  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
};
/// Elements of the cache that a token takes in each of its key heads.
constexpr std::int64_t cached_elements(const AttentionDecode& a) {
  const std::int64_t values = a.value_dim > 0 ? a.value_dim : a.head_dim;
  return a.latent ? (values > a.head_dim ? values : a.head_dim) : a.head_dim + values;
}

/// Library kernels that make passes over memory; what they do is in hw/tiled/stream.hpp. `by_class`: the one that an
/// inference engine uses for the kernel's class. `expert_sort`: the small kernels that sort tokens by expert.
/// `expert_sum`: the weighted sum of experts' rows. `stored_norm`: a layer norm that keeps its row in registers
/// (CUTLASS). `compiled`: code that a compiler made for the operation. `one_by_one`: an elementwise kernel that loads
/// and stores single elements and works out each one's place or type, as PyTorch's do with operands that are broadcast
/// or sliced and in casts to a wider type. `many_tensors`: an optimizer's update of a list of tensors, cut into chunks
/// of equal size, a thread block each; `tensor_of_many`: the share that one of them has of such a list.
enum class Pass : std::uint8_t {
  by_class,
  elementwise,
  rms_norm,
  layer_norm,
  gated_activation,
  rope,
  softmax,
  stored_norm,
  compiled,
  expert_sort,
  expert_sum,
  one_by_one,
  many_tensors,
  tensor_of_many
};

/// A pass over memory: norm, activation, residual, RoPE, embedding, sampling, copies.
struct Streaming {
  std::int64_t read_bytes = 0, write_bytes = 0;
  std::int64_t flops = 0;      ///< on the vector units
  std::int64_t rows = 0;       ///< that a kernel takes one by one: tokens, or elements (the last three passes); 0: none
  Pass pass = Pass::by_class;  ///< which library kernel makes it
};

/// Products of groups that share n and k and each have weights of their own (experts), in one launch: group i computes
/// C_i[rows_i,n] = A_i[rows_i,k] B_i[k,n]. Built from the rows by grouped_gemm().
struct GroupedGemm {
  std::int64_t groups = 0;    ///< with at least one row: the weights that are read
  std::int64_t rows = 0;      ///< sum over groups
  std::int64_t max_rows = 0;  ///< of the largest group
  /// Sum over groups of ceil(rows_i / b) for tiles of b = 16, 32, 64 and 128 rows.
  std::array<std::int64_t, 4> row_tiles{};
  std::int64_t n = 0, k = 0;
  WeightFormat weights = WeightFormat::as_dtype;
};
/// Heights of the tiles that GroupedGemm::row_tiles counts.
inline constexpr std::array<std::int64_t, 4> kGroupTiles{16, 32, 64, 128};

/// Product with one operand in compressed rows (CSR). SpMM: C[rows,width] = S[rows,columns] B[columns,width]. SDDMM:
/// the entries of A[rows,width] B[columns,width]^T that the pattern of S names.
enum class SparseKind : std::uint8_t { spmm, sddmm };
struct Sparse {
  SparseKind kind = SparseKind::spmm;
  std::int64_t rows = 0;
  std::int64_t columns = 0;  ///< with at least one entry: rows of B that are read
  std::int64_t nonzeros = 0;
  std::int64_t width = 0;        ///< dense columns ("features")
  std::int64_t longest_row = 0;  ///< most entries of a row; 0: all rows alike
  std::int64_t index_bytes = 4;
};

/// Batched transforms of n0 x n1 points (n1 = 1: one-dimensional). A complex number is two elements of the kernel's
/// dtype, so fp16 is complex-half. Real transforms hold n0 (n1/2 + 1) complex numbers (n0/2 + 1 in one dimension).
enum class FftKind : std::uint8_t { complex_to_complex, real_to_complex, complex_to_real };
struct Fft {
  FftKind kind = FftKind::complex_to_complex;
  std::int64_t n0 = 0, n1 = 1, batch = 1;
};

/// Two-dimensional convolution of `batch` images, channels in `groups`.
struct Conv {
  std::int64_t batch = 0, in_channels = 0, out_channels = 0, height = 0, width = 0;
  std::int32_t kernel_height = 1, kernel_width = 1, stride = 1, pad = 0, dilation = 1, groups = 1;
  /// Groups that there are: no less than one.
  std::int64_t parts() const { return groups > 1 ? groups : 1; }
  /// Rows and columns of the output; 0 where the kernel does not fit.
  std::int64_t out_height() const { return extent(height, kernel_height); }
  std::int64_t out_width() const { return extent(width, kernel_width); }

 private:
  std::int64_t extent(std::int64_t size, std::int64_t kernel) const {
    const std::int64_t reach = static_cast<std::int64_t>(dilation) * (kernel - 1);
    const std::int64_t room = size + 2 * static_cast<std::int64_t>(pad) - reach - 1;
    return room < 0 || size <= 0 ? 0 : room / (stride > 1 ? stride : 1) + 1;
  }
};

/// Kernels that became one launch: their FLOPs, and the traffic that is left when what one hands to the next stays on
/// chip. Built by fuse().
struct Fused {
  Gemm gemm;                            ///< the largest matrix product of the group; empty for passes only
  std::int64_t other_matrix_flops = 0;  ///< of the group's further matrix products and attention
  std::int64_t vector_flops = 0;        ///< of its passes
  std::int64_t read_bytes = 0, write_bytes = 0;
  std::int64_t kernels = 0;  ///< launches that it replaces
};

using KernelShape =
    std::variant<Gemm, AttentionPrefill, AttentionDecode, Streaming, GroupedGemm, Sparse, Fft, Conv, Fused>;

struct Kernel {
  OpClass op = OpClass::residual;
  DType dtype = DType::fp16;
  KernelShape shape;
};

/// Whether the kernel runs on matrix units (products, attention, convolutions) rather than vector units alone.
bool uses_matrix_units(const Kernel& kernel);

/// Format of the weights of a product; `as_dtype` for all else.
WeightFormat weights_of(const Kernel& kernel);

/// What bounds a kernel.
enum class Bound : std::uint8_t { compute, memory, launch, network };
constexpr auto enum_names(Bound) {
  using enum Bound;
  return sim::names<Bound>({{"compute", compute}, {"memory", memory}, {"launch", launch}, {"network", network}});
}

/// Work of one launch, exact (no efficiency in it): the hand-checkable part of a Cost.
struct Work {
  double flops = 0;
  double read_bytes = 0;   ///< compulsory traffic from device memory
  double write_bytes = 0;  ///< compulsory traffic to device memory
};

/// Exact FLOPs (a multiply-add is two) and compulsory bytes of a kernel.
/// Attention: 2 * heads * (head_dim + value_dim) FLOPs a pair; softmax is not counted, as in the published FLOP counts.
/// Convolution: products with padding count, as in the published counts. FFT: 5 N log2 N for N complex points and half
/// of that for real ones, the convention of FFTW's benchmarks, whatever the algorithm. Sparse: entries of S are read,
/// SpMM with their values, SDDMM without; every row of B with an entry is read once.
Work work_of(const Kernel& kernel);

struct Cost {
  double time_s = 0;  ///< from launch to completion, launch cost included
  double flops = 0;
  double dram_bytes = 0;        ///< traffic the model expects at device memory, at least Work's
  double compute_energy_j = 0;  ///< dynamic: by FLOP, and what a busy device draws above idle for the kernel's time
  double memory_energy_j = 0;   ///< dynamic, by byte
  Bound bound = Bound::launch;
  bool beside = false;  ///< done by memory beside the device, to which `dram_bytes` then belong
};

}  // namespace orrery::hw
