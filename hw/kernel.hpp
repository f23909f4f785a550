// What a device can be asked to run, and what it answers.
//
// A Kernel is one launch after fusion and lowering: a matrix product, attention over cached keys and values, or a
// streaming pass over memory. Shapes of attention are sums over the sequences of a batch (pairs of query and key,
// cached tokens), which is what makes the cost of an iteration a function of few numbers. A Cost is an estimate of one
// launch: time, work, traffic and which resource bounds it. Costs are doubles in SI units; whoever accumulates them
// over a run converts to integer ticks and picojoules first (sim/base/units.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

namespace orrery::hw {

/// Number formats of operands. `fp16` and `bf16` run at the same rate on every device of the catalog.
enum class DType : std::uint8_t { fp32, fp16, bf16, fp8, int8 };

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

/// Name of a format as it stands in configs and tables, e.g. "fp16".
std::string_view to_string(DType dtype);
/// Format of that name; nothing for a name that is none.
std::optional<DType> dtype_of(std::string_view name);

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
  kv_write
};
inline constexpr int kOpClasses = static_cast<int>(OpClass::kv_write) + 1;

/// Name of a class as it stands in results, e.g. "attention_decode".
std::string_view to_string(OpClass op);

/// C[m,n] = A[m,k] B[k,n]: activations times weights, `batch` times over.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
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
  std::int64_t value_dim = 0;    ///< elements of a value, where they differ from a key's head_dim; 0: as many
  bool causal = true;            ///< a tile of queries stops at its last query's keys; the mask itself is in `pairs`
  std::int64_t page_tokens = 0;  ///< tokens of a page of the cache, found through a table of 4-byte entries; 0: none

  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
};

/// One new token a sequence over its whole cached context, all sequences in one launch.
struct AttentionDecode {
  std::int64_t sequences = 0;
  std::int64_t context_tokens = 0;  ///< sum of contexts, the new token included
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;    ///< elements of a value, where they differ from a key's head_dim; 0: as many
  bool latent = false;           ///< values are the first value_dim elements of the keys, so they are read once (MLA)
  std::int64_t longest = 0;      ///< longest context of the batch; 0: all equal
  std::int64_t page_tokens = 0;  ///< tokens of a page of the cache, found through a table of 4-byte entries; 0: none

  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
};

/// A pass over memory: norm, activation, residual, RoPE, embedding, sampling, copies.
struct Streaming {
  std::int64_t read_bytes = 0, write_bytes = 0;
  std::int64_t flops = 0;  ///< on the vector units
};

struct Kernel {
  OpClass op = OpClass::residual;
  DType dtype = DType::fp16;
  std::variant<Gemm, AttentionPrefill, AttentionDecode, Streaming> shape;
};

/// What bounds a kernel.
enum class Bound : std::uint8_t { compute, memory, launch, network };
std::string_view to_string(Bound bound);

/// Work of one launch, exact (no efficiency in it): the hand-checkable part of a Cost.
struct Work {
  double flops = 0;
  double read_bytes = 0;   ///< compulsory traffic from device memory
  double write_bytes = 0;  ///< compulsory traffic to device memory
};

/// Exact FLOPs (a multiply-add is two) and compulsory bytes of a kernel.
/// Attention: 2 * heads * (head_dim + value_dim) FLOPs a pair; softmax is not counted, as in the published FLOP counts.
Work work_of(const Kernel& kernel);

struct Cost {
  double time_s = 0;  ///< from launch to completion, launch cost included
  double flops = 0;
  double dram_bytes = 0;        ///< traffic the model expects at device memory, at least Work's
  double compute_energy_j = 0;  ///< dynamic: by FLOP, and what a busy device draws above idle for the kernel's time
  double memory_energy_j = 0;   ///< dynamic, by byte
  Bound bound = Bound::launch;
};

}  // namespace orrery::hw
