// What a residual's trees see of a kernel.
#include <algorithm>

#include "hw/base/arithmetic.hpp"
#include "hw/base/cost_model.hpp"
#include "hw/base/real.hpp"
#include "hw/cost/residual.hpp"

namespace orrery::hw {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 46> kGemmInputs{"m",
                                                       "n",
                                                       "k",
                                                       "weights",
                                                       "results",
                                                       "inputs",
                                                       "intensity",
                                                       "n_per_k",
                                                       "m_per_n",
                                                       "elements",
                                                       "aligned_m",
                                                       "aligned_n",
                                                       "aligned_k",
                                                       "m_of_16",
                                                       "m_of_64",
                                                       "m_of_128",
                                                       "m_of_256",
                                                       "n_of_128",
                                                       "n_of_256",
                                                       "fill_16x64",
                                                       "waves_16x64",
                                                       "used_16x64",
                                                       "fill_64x64",
                                                       "waves_64x64",
                                                       "used_64x64",
                                                       "fill_64x128",
                                                       "waves_64x128",
                                                       "used_64x128",
                                                       "fill_128x64",
                                                       "waves_128x64",
                                                       "used_128x64",
                                                       "fill_128x128",
                                                       "waves_128x128",
                                                       "used_128x128",
                                                       "fill_256x64",
                                                       "waves_256x64",
                                                       "used_256x64",
                                                       "fill_64x256",
                                                       "waves_64x256",
                                                       "used_64x256",
                                                       "fill_256x128",
                                                       "waves_256x128",
                                                       "used_256x128",
                                                       "fill_128x256",
                                                       "waves_128x256",
                                                       "used_128x256"};
constexpr std::array<std::string_view, 25> kPrefillInputs{
    "sequences", "tokens",     "heads",       "kv_heads",     "head_dim",        "group",         "all_tokens",
    "keys",      "row",        "key_row",     "heads_in_all", "kv_heads_in_all", "tokens_of_128", "fill_64",
    "waves_64",  "kv_fill_64", "kv_waves_64", "fill_128",     "waves_128",       "kv_fill_128",   "kv_waves_128",
    "fill_256",  "waves_256",  "kv_fill_256", "kv_waves_256"};
constexpr std::array<std::string_view, 16> kDecodeInputs{
    "sequences", "context", "heads",        "kv_heads",        "head_dim", "group", "all_context", "keys",
    "row",       "key_row", "heads_in_all", "kv_heads_in_all", "fill",     "waves", "kv_fill",     "kv_waves"};
constexpr std::array<std::string_view, 7> kCollectiveInputs{"ranks",         "bytes",        "call",      "part_bytes",
                                                            "aligned_bytes", "bytes_a_link", "ring_steps"};

/// Tiles of thread blocks whose waves trees may ask for.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 9> kTiles{
    {{16, 64}, {64, 64}, {64, 128}, {128, 64}, {128, 128}, {256, 64}, {64, 256}, {256, 128}, {128, 256}}};

/// The largest power of two that divides `x`, and no more than `most`.
double alignment(std::int64_t x, std::int64_t most) {
  return d(std::min(x & -x, most));
}

/// Appends inputs to a query.
class Inputs {
 public:
  Inputs(ResidualKind kind, std::size_t sizes) { query_.kind = kind, query_.sizes = sizes; }
  Inputs& add(double value) {
    query_.inputs[query_.count++] = value;
    return *this;
  }
  /// Share of the last wave's room that is used, and waves, of `blocks` on `sms` cores.
  Inputs& add_waves(std::int64_t blocks, std::int64_t sms) {
    const std::int64_t waves = ceil_div(blocks, sms);
    return add(d(blocks) / d(std::max<std::int64_t>(1, waves * sms))).add(d(blocks) / d(sms));
  }
  ResidualQuery query() const { return query_; }

 private:
  ResidualQuery query_;
};

ResidualQuery gemm_query(const Gemm& g, std::int64_t sms) {
  Inputs in(ResidualKind::gemm, 3);
  const double m = d(g.m), n = d(g.n), k = d(g.k), elements = m * n + n * k + m * k;
  in.add(m)
      .add(n)
      .add(k)
      .add(n * k)
      .add(m * n)
      .add(m * k)
      .add(m * n * k / elements)
      .add(n / k)
      .add(m / n)
      .add(elements);
  in.add(alignment(g.m, 512)).add(alignment(g.n, 1024)).add(alignment(g.k, 1024));
  in.add(d(g.m % 16)).add(d(g.m % 64)).add(d(g.m % 128)).add(d(g.m % 256)).add(d(g.n % 128)).add(d(g.n % 256));
  for (const auto& [tile_m, tile_n] : kTiles) {
    const std::int64_t rows = ceil_div(g.m, tile_m), columns = ceil_div(g.n, tile_n);
    in.add_waves(rows * columns, sms).add(m * n / (d(rows * tile_m) * d(columns * tile_n)));
  }
  return in.query();
}

/// Inputs that both kinds of attention have, behind sequences and their length.
void add_heads(Inputs& in, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim, std::int64_t sequences,
               std::int64_t tokens) {
  in.add(d(heads)).add(d(kv_heads)).add(d(dim)).add(d(heads) / d(kv_heads)).add(d(tokens));
  in.add(d(tokens) * d(kv_heads * dim)).add(d(heads * dim)).add(d(kv_heads * dim));
  in.add(d(sequences * heads)).add(d(sequences * kv_heads));
}

ResidualQuery prefill_query(const AttentionPrefill& a, std::int64_t sms) {
  Inputs in(ResidualKind::attention_prefill, 5);
  const std::int64_t tokens = a.q_tokens / a.sequences;
  in.add(d(a.sequences)).add(d(tokens));
  add_heads(in, a.heads, a.kv_heads, a.head_dim, a.sequences, a.q_tokens);
  in.add(d(tokens % 128));
  for (const std::int64_t tile : {64, 128, 256}) {
    const std::int64_t tiles = ceil_div(tokens, tile) * a.sequences;
    in.add_waves(tiles * a.heads, sms).add_waves(tiles * a.kv_heads, sms);
  }
  return in.query();
}

ResidualQuery decode_query(const AttentionDecode& a, std::int64_t sms) {
  Inputs in(ResidualKind::attention_decode, 5);
  in.add(d(a.sequences)).add(d(a.context_tokens / a.sequences));
  add_heads(in, a.heads, a.kv_heads, a.head_dim, a.sequences, a.context_tokens);
  in.add_waves(a.sequences * a.heads, sms).add_waves(a.sequences * a.kv_heads, sms);
  return in.query();
}

}  // namespace

std::span<const std::string_view> residual_inputs(ResidualKind kind) {
  switch (kind) {
    case ResidualKind::gemm:
      return kGemmInputs;
    case ResidualKind::attention_prefill:
      return kPrefillInputs;
    case ResidualKind::attention_decode:
      return kDecodeInputs;
    case ResidualKind::collective:
      return kCollectiveInputs;
  }
  return {};
}

std::size_t residual_sizes(ResidualKind kind) {
  return kind == ResidualKind::gemm ? 3 : kind == ResidualKind::collective ? 2 : 5;
}

std::optional<ResidualQuery> residual_query(const Kernel& kernel, std::int64_t sms) {
  if (is_empty(work_of(kernel))) return {};
  if (const auto* g = std::get_if<Gemm>(&kernel.shape)) {
    if (g->batch != 1 || g->weights != WeightFormat::as_dtype || bytes_of(kernel.dtype) != 2) return {};
    return gemm_query(*g, sms);
  }
  if (const auto* p = std::get_if<AttentionPrefill>(&kernel.shape)) {
    const bool plain = p->causal && !p->backward && p->kv_tokens == p->q_tokens && p->values() == p->head_dim;
    return plain ? std::optional(prefill_query(*p, sms)) : std::nullopt;
  }
  if (const auto* a = std::get_if<AttentionDecode>(&kernel.shape)) {
    const bool plain = !a->latent && a->values() == a->head_dim;
    return plain ? std::optional(decode_query(*a, sms)) : std::nullopt;
  }
  return {};
}

ResidualQuery residual_query(LibraryCall call, std::int64_t ranks, std::int64_t bytes) {
  Inputs in(ResidualKind::collective, 2);
  const bool twice = call == LibraryCall::all_reduce;
  in.add(d(ranks)).add(d(bytes)).add(d(static_cast<std::int64_t>(call))).add(d(bytes) / d(ranks));
  in.add(alignment(bytes, 1 << 20)).add(d(bytes) * d(ranks - 1) / d(ranks)).add(d((twice ? 2 : 1) * (ranks - 1)));
  return in.query();
}

}  // namespace orrery::hw
