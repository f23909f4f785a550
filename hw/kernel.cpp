#include "hw/kernel.hpp"

#include <algorithm>

namespace orrery::hw {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

double d(std::int64_t value) {
  return static_cast<double>(value);
}

/// Bytes of the entries that name the pages of `tokens` tokens.
double page_table_bytes(std::int64_t tokens, std::int64_t page_tokens) {
  constexpr double kEntryBytes = 4;
  return page_tokens > 0 ? kEntryBytes * d((tokens + page_tokens - 1) / page_tokens) : 0;
}

Work prefill_work(const AttentionPrefill& a, double element) {
  const double rows = d(a.q_tokens) * d(a.heads), keys = d(a.kv_tokens) * d(a.kv_heads);
  const double dims = d(a.head_dim) + d(a.values());
  if (rows * d(a.head_dim) == 0) return {};
  const double read = (rows * d(a.head_dim) + keys * dims) * element + page_table_bytes(a.kv_tokens, a.page_tokens);
  return {2 * d(a.heads) * dims * d(a.pairs), read, rows * d(a.values()) * element};
}

Work decode_work(const AttentionDecode& a, double element) {
  const double rows = d(a.sequences) * d(a.heads), keys = d(a.context_tokens) * d(a.kv_heads);
  const double dims = d(a.head_dim) + d(a.values());
  if (rows * d(a.head_dim) == 0) return {};
  const double stored = a.latent ? d(std::max(a.head_dim, a.values())) : dims;
  const double read =
      (rows * d(a.head_dim) + keys * stored) * element + page_table_bytes(a.context_tokens, a.page_tokens);
  return {2 * d(a.heads) * dims * d(a.context_tokens), read, rows * d(a.values()) * element};
}

}  // namespace

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "fp32";
    case DType::fp16:
      return "fp16";
    case DType::bf16:
      return "bf16";
    case DType::fp8:
      return "fp8";
    case DType::int8:
      return "int8";
  }
  return "";
}

std::optional<DType> dtype_of(std::string_view name) {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16, DType::fp8, DType::int8})
    if (to_string(dtype) == name) return dtype;
  return std::nullopt;
}

std::string_view to_string(OpClass op) {
  switch (op) {
    case OpClass::embedding:
      return "embedding";
    case OpClass::norm:
      return "norm";
    case OpClass::qkv_proj:
      return "qkv_proj";
    case OpClass::rope:
      return "rope";
    case OpClass::attention_prefill:
      return "attention_prefill";
    case OpClass::attention_decode:
      return "attention_decode";
    case OpClass::out_proj:
      return "out_proj";
    case OpClass::residual:
      return "residual";
    case OpClass::ffn_up:
      return "ffn_up";
    case OpClass::activation:
      return "activation";
    case OpClass::ffn_down:
      return "ffn_down";
    case OpClass::lm_head:
      return "lm_head";
    case OpClass::sampling:
      return "sampling";
    case OpClass::all_reduce:
      return "all_reduce";
    case OpClass::kv_write:
      return "kv_write";
  }
  return "unknown";
}

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::memory:
      return "memory";
    case Bound::launch:
      return "launch";
    case Bound::network:
      return "network";
  }
  return "unknown";
}

Work work_of(const Kernel& kernel) {
  const double element = d(bytes_of(kernel.dtype));
  return std::visit(Overloaded{
                        [&](const Gemm& g) -> Work {
                          const double m = d(g.m), n = d(g.n), k = d(g.k), b = d(g.batch);
                          if (m * n * k * b == 0) return {};
                          return {2 * m * n * k * b, (m * k + k * n) * element * b, m * n * element * b};
                        },
                        [&](const AttentionPrefill& a) -> Work { return prefill_work(a, element); },
                        [&](const AttentionDecode& a) -> Work { return decode_work(a, element); },
                        [&](const Streaming& s) -> Work {
                          return {d(s.flops), d(s.read_bytes), d(s.write_bytes)};
                        },
                    },
                    kernel.shape);
}

}  // namespace orrery::hw
