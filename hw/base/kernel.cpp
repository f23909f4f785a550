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
  const double flops = 2 * d(a.heads) * dims * d(a.pairs);
  if (a.backward)  // three products along keys, two along values; outputs and their gradients are read too
    return {2 * d(a.heads) * (3 * d(a.head_dim) + 2 * d(a.values())) * d(a.pairs),
            read + 2 * rows * d(a.values()) * element, rows * d(a.head_dim) * element + keys * dims * cached};
  return {flops, read, rows * d(a.values()) * element};
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
