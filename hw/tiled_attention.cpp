// Attention of the `tiled` model; equations in hw/tiled.hpp.
#include <algorithm>
#include <cmath>

#include "hw/tiled.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kChunkRows = 128;  // the query tile that AttentionPrefill::q_tiles counts
constexpr std::int64_t kBlockKeys = 128;  // keys that a decode block takes at a time
constexpr double kOverheadHeadDim = 128;  // head dimension in which overhead keys are counted
constexpr double kPartialBytes = 4;       // partial outputs of split contexts are fp32

double d(std::int64_t value) {
  return static_cast<double>(value);
}

/// FLOPs of a thread block over `keys` keys, its overhead included.
double block_flops(std::int64_t rows, std::int64_t head_dim, double keys, double overhead_keys) {
  return 4.0 * d(rows) * (d(head_dim) * keys + kOverheadHeadDim * overhead_keys);
}

std::int64_t group_of(std::int64_t heads, std::int64_t kv_heads) {
  return std::max<std::int64_t>(1, heads / std::max<std::int64_t>(1, kv_heads));
}

}  // namespace

TiledTime tiled_prefill(const GpuParams& gpu, const AttentionPrefill& a, DType dtype) {
  if (a.sequences <= 0 || a.q_tokens <= 0 || a.heads <= 0 || a.head_dim <= 0) return {};
  const AttentionConstants& c = gpu.attention;
  const double element = d(bytes_of(dtype));
  const double peak = matrix_peak(gpu, dtype);
  const bool single = a.q_tokens == a.sequences;  // chunks of one token take the decode path: grouped heads are rows
  const std::int64_t group = group_of(a.heads, a.kv_heads);
  const std::int64_t packed = c.pack_prefill || single ? group : 1;

  // Tiles of tile_rows: no more than the 128-row tiles hold, nor than every chunk with one partly filled tile.
  const std::int64_t from_tiles = ceil_div(a.q_tiles * kChunkRows * packed, c.tile_rows);
  const std::int64_t from_rows =
      a.sequences + std::max<std::int64_t>(0, a.q_tokens * packed - a.sequences) / c.tile_rows;
  const double ctas = d(std::max<std::int64_t>(1, std::min(from_tiles, from_rows))) * d(a.heads) / d(packed);
  const double chunk = d(a.q_tokens) / d(a.sequences);
  const double keys = d(a.pairs) / d(a.q_tokens) + 0.5 * std::min(d(c.tile_rows) / d(packed), chunk);
  const double longest = d(a.kv_tokens) / d(a.sequences);

  TiledTime t;
  const double all_s =
      ctas * block_flops(c.tile_rows, a.head_dim, keys, c.prefill_overhead_keys) / (peak * c.efficiency);
  const double one_s =
      block_flops(c.tile_rows, a.head_dim, longest, c.prefill_overhead_keys) / (peak / d(gpu.sms) * c.cta_efficiency);
  t.compute_s = norm2(all_s, one_s);
  t.dram_bytes = 2.0 * (d(a.q_tokens) * d(a.heads) + d(a.kv_tokens) * d(a.kv_heads)) * d(a.head_dim) * element;
  const double l2_bytes = ctas * keys * 2.0 * d(a.head_dim) * element;
  t.memory_s =
      t.dram_bytes / (gpu.memory_bandwidth * c.memory_efficiency) + l2_bytes / (gpu.l2_bandwidth * c.l2_delivery);
  t.fixed_s = c.fixed_s + (single && group > 1 && a.sequences > 1 ? c.regroup_s : 0);
  t.time_s = t.fixed_s + norm4(t.compute_s, t.memory_s);
  return t;
}

TiledTime tiled_decode(const GpuParams& gpu, const AttentionDecode& a, DType dtype) {
  if (a.sequences <= 0 || a.heads <= 0 || a.kv_heads <= 0 || a.head_dim <= 0 || a.context_tokens <= 0) return {};
  const AttentionConstants& c = gpu.attention;
  const double element = d(bytes_of(dtype));
  const double sm_rate = matrix_peak(gpu, dtype) / d(gpu.sms);
  const std::int64_t group = group_of(a.heads, a.kv_heads);

  // Split the contexts until the blocks fill the SMs, as far as there are blocks of keys to share out.
  const double blocks = d(a.sequences) * d(a.kv_heads) * d(ceil_div(group, c.tile_rows));
  const double slots = d(gpu.sms * c.ctas_per_sm);
  const std::int64_t key_blocks = ceil_div(ceil_div(a.context_tokens, a.sequences), kBlockKeys);
  std::int64_t split = 1;
  if ((c.split_mha || group > 1) && blocks < slots)
    split = std::max<std::int64_t>(1, std::min(key_blocks, static_cast<std::int64_t>(slots / blocks)));
  const std::int64_t per_split = ceil_div(key_blocks, split);
  split = ceil_div(key_blocks, per_split);

  const double ctas = blocks * d(split);
  const double flops = block_flops(c.tile_rows, a.head_dim, d(per_split * kBlockKeys), c.decode_overhead_keys);
  const double alone_s = flops / (sm_rate * c.cta_efficiency);
  const double shared_s = flops / (sm_rate * c.efficiency);  // of SM time, when others fill the gaps
  TiledTime t;
  t.dram_bytes = 2.0 * (d(a.context_tokens) * d(a.kv_heads) + d(a.sequences) * d(a.heads)) * d(a.head_dim) * element;
  const double cta_s = t.dram_bytes / ctas / (gpu.memory_bandwidth * c.memory_efficiency);

  // Waves of `running` blocks at once: the last is smaller, and cannot use the whole memory if its blocks are few.
  const auto add_wave = [&](double waves, double running) {
    const double compute_s = std::max(alone_s, running / d(gpu.sms) * shared_s);
    const double memory_s = running * cta_s;
    t.compute_s += waves * compute_s;
    t.memory_s += waves * memory_s;
    t.time_s += waves * norm4(compute_s, memory_s);
  };
  const double full = std::floor(ctas / slots);
  const double rest = ctas - full * slots;
  if (full > 0) add_wave(full, slots);
  if (rest > 0) add_wave(1, rest);
  if (split > 1) {
    const double partials = d(a.sequences) * d(a.heads) * d(split) * d(a.head_dim) * kPartialBytes;
    t.time_s += c.combine_s + 2.0 * partials / gpu.l2_bandwidth;
  }
  t.fixed_s = c.fixed_s + (group > 1 && a.sequences > 1 ? c.regroup_s : 0);
  t.time_s += t.fixed_s;
  return t;
}

}  // namespace orrery::hw
