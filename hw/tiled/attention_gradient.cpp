// The gradient of attention in one call of a library; equations in hw/gpu/attention.hpp.
#include <algorithm>
#include <cmath>

#include "hw/base/real.hpp"
#include "hw/tiled/stream.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::hw {
namespace {

constexpr double kSumBytes = 4;  // gradients of queries are summed in fp32

/// What a thread block keeps (keys) and walks over (queries): flash_bwd_launch_template.h of FlashAttention-2 and 3.
struct GradientTile {
  std::int64_t queries = 64, keys = 128;
};
GradientTile tile_of(std::int64_t dim) {
  return dim <= 64 ? GradientTile{128, 128} : dim <= 128 ? GradientTile{64, 128} : GradientTile{64, 64};
}

/// Kernels before and after: products of outputs and their gradients with sums set to zero; sums turned into gradients
/// of queries; gradients of keys and values summed over the query heads that share them.
double passes_s(const GpuParams& gpu, const AttentionPrefill& a, double element) {
  const double queries = d(a.q_tokens) * d(a.heads), keys = d(a.kv_tokens) * d(a.head_dim + a.values());
  double bytes = queries * (2 * d(a.values()) * element + d(a.head_dim) * (2 * kSumBytes + element));
  double kernels = 2;
  if (a.kv_heads != a.heads) {
    bytes += keys * (2 * d(a.heads) + d(a.kv_heads)) * element;
    kernels += 2;
  }
  const double hot = hot_share(gpu, queries * d(a.head_dim) * kSumBytes);
  const double launch_s = gpu.launch_graph_s + gpu.stream.fixed_s + gpu.stream.latency_s + gpu.stream.miss_latency_s;
  return kernels * launch_s + (1 - hot) * bytes / (gpu.memory_bandwidth * gpu.attention.memory_efficiency) +
         hot * bytes / (gpu.l2_bandwidth * gpu.stream.l2_share);
}

}  // namespace

TiledTime tiled_attention_gradient(const GpuParams& gpu, const AttentionPrefill& a, DType dtype) {
  if (a.sequences <= 0 || a.q_tokens <= 0 || a.kv_tokens <= 0 || a.heads <= 0 || a.head_dim <= 0) return {};
  const AttentionConstants& k = gpu.attention;
  const GradientTile tile = tile_of(std::max(a.head_dim, a.values()));
  const double queries = d(a.q_tokens) / d(a.sequences), keys = d(a.kv_tokens) / d(a.sequences);
  const double most = std::max(1.0, std::ceil(queries / d(tile.queries)));
  // A causal block of keys begins at its first key's query: half a block before its mean key's. Where a window ends
  // before the queries do, it ends at its last key's last query, half a block behind.
  const bool window = a.causal && a.window > 0 && d(a.window) < keys;
  const double past = window ? keys - d(a.window) : 0;
  const double reach =
      d(a.pairs) / d(a.kv_tokens) + (a.causal ? 0.5 * d(tile.keys) : 0) + window_surplus(past, d(tile.keys), keys);
  const double blocks = a.causal ? std::clamp(reach / d(tile.queries), 1.0, most) : most;
  const double ctas = d(a.sequences) * d(a.heads) * std::ceil(keys / d(tile.keys)), sms = d(gpu.sms);

  const double pairs = d(tile.queries) * d(tile.keys);
  const double flops = 2 * pairs * (3 * d(a.head_dim) + 2 * d(a.values()));
  const double sm_rate = matrix_peak(gpu, dtype) / sms;
  const double added = d(tile.queries) * d(a.head_dim) * kSumBytes * k.gradient_add;
  const double block_s = flops / (sm_rate * k.efficiency) + 2 * pairs / (k.softmax_per_cycle * gpu.clock_hz) +
                         added / (gpu.l2_bandwidth / sms);
  const double start_s = k.gradient_start_cycles / gpu.clock_hz;
  const double longest =
      window ? std::min(most, std::ceil(d(a.window - 1 + tile.keys) / d(tile.queries))) : most;  // blocks of queries
  const double longest_s = start_s + longest * block_s;
  const double waiting = std::max(0.0, 1 - sms / ctas);

  TiledTime t;
  const Work work = work_of({OpClass::attention_prefill, dtype, a});
  t.dram_bytes = work.read_bytes + work.write_bytes;
  t.compute_s = norm4(ctas * (start_s + blocks * block_s) / sms + k.gradient_tail * waiting * longest_s, longest_s);
  t.memory_s = t.dram_bytes / (gpu.memory_bandwidth * k.memory_efficiency);
  t.fixed_s = passes_s(gpu, a, d(bytes_of(dtype)));
  t.time_s = norm4(t.compute_s, t.memory_s) + t.fixed_s;
  return t;
}

}  // namespace orrery::hw
