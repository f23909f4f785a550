#include "hw/base/kernel.hpp"

#include <algorithm>

#include "hw/base/arithmetic.hpp"
#include "hw/base/kernel_work.hpp"
#include "hw/base/real.hpp"

namespace orrery::hw {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

/// Bytes of the entries that name the pages of `tokens` tokens.
double page_table_bytes(std::int64_t tokens, std::int64_t page_tokens) {
  constexpr double kEntryBytes = 4;
  return page_tokens > 0 ? kEntryBytes * d(ceil_div(tokens, page_tokens)) : 0;
}

Work prefill_work(const AttentionPrefill& a, double element) {
  const double rows = d(a.q_tokens) * d(a.heads), keys = d(a.kv_tokens) * d(a.kv_heads);
  const double dims = d(a.head_dim) + d(a.values());
  if (rows * keys * d(a.head_dim) == 0) return {};
  const double cached = a.cache_element > 0 ? d(a.cache_element) : element;
  const double read =
      rows * d(a.head_dim) * element + keys * dims * cached + page_table_bytes(a.kv_tokens, a.page_tokens);
  return {2 * d(a.heads) * dims * d(a.pairs), read, rows * d(a.values()) * element};
}

Work decode_work(const AttentionDecode& a, double element) {
  const double rows = d(a.sequences) * d(a.heads), keys = d(a.context_tokens) * d(a.kv_heads);
  const double dims = d(a.head_dim) + d(a.values());
  if (rows * keys * d(a.head_dim) == 0) return {};
  const double stored = d(cached_elements(a));
  const double cached = a.cache_element > 0 ? d(a.cache_element) : element;
  const double read =
      rows * d(a.head_dim) * element + keys * stored * cached + page_table_bytes(a.context_tokens, a.page_tokens);
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

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::as_dtype:
      return "as_dtype";
    case WeightFormat::fp16:
      return "fp16";
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::fp8:
      return "fp8";
    case WeightFormat::int8:
      return "int8";
    case WeightFormat::int4:
      return "int4";
    case WeightFormat::mxfp4:
      return "mxfp4";
    case WeightFormat::nvfp4:
      return "nvfp4";
  }
  return "";
}

std::optional<WeightFormat> weight_format_of(std::string_view name) {
  for (const WeightFormat format : {WeightFormat::as_dtype, WeightFormat::fp16, WeightFormat::bf16, WeightFormat::fp8,
                                    WeightFormat::int8, WeightFormat::int4, WeightFormat::mxfp4, WeightFormat::nvfp4})
    if (to_string(format) == name) return format;
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
    case OpClass::softmax:
      return "softmax";
    case OpClass::router:
      return "router";
    case OpClass::expert_up:
      return "expert_up";
    case OpClass::expert_down:
      return "expert_down";
    case OpClass::gather:
      return "gather";
    case OpClass::scatter:
      return "scatter";
    case OpClass::sparse:
      return "sparse";
    case OpClass::fft:
      return "fft";
    case OpClass::conv:
      return "conv";
    case OpClass::quantise:
      return "quantise";
    case OpClass::copy:
      return "copy";
    case OpClass::optimizer:
      return "optimizer";
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
  return std::visit(
      Overloaded{
          [&](const AttentionPrefill& a) -> Work { return prefill_work(a, element); },
          [&](const AttentionDecode& a) -> Work { return decode_work(a, element); },
          [&](const Streaming& s) -> Work {
            return {d(s.flops), d(s.read_bytes), d(s.write_bytes)};
          },
          [&](const Gemm& g) -> Work { return shape_work(g, element, weight_element(g.weights, kernel.dtype)); },
          [&](const GroupedGemm& g) -> Work { return shape_work(g, element, weight_element(g.weights, kernel.dtype)); },
          [&](const auto& other) -> Work { return shape_work(other, element); },
      },
      kernel.shape);
}

WeightFormat weights_of(const Kernel& kernel) {
  if (const auto* gemm = std::get_if<Gemm>(&kernel.shape)) return gemm->weights;
  if (const auto* grouped = std::get_if<GroupedGemm>(&kernel.shape)) return grouped->weights;
  return WeightFormat::as_dtype;
}

bool uses_matrix_units(const Kernel& kernel) {
  if (const auto* fused = std::get_if<Fused>(&kernel.shape))
    return fused->other_matrix_flops > 0 || shape_work(fused->gemm, 1).flops > 0;
  return !std::holds_alternative<Streaming>(kernel.shape) && !std::holds_alternative<Sparse>(kernel.shape) &&
         !std::holds_alternative<Fft>(kernel.shape);
}

}  // namespace orrery::hw
