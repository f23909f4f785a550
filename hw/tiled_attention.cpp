// Attention of the `tiled` model; equations in hw/tiled.hpp.
#include <algorithm>
#include <cmath>

#include "hw/tiled.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kPlanTile = 128;  // the query tile that AttentionPrefill::q_tiles counts
constexpr std::int64_t kPlannedSequences = 992;  // that the plan of FlashAttention-3 holds
constexpr double kPartialBytes = 4;      // partial outputs of split contexts are fp32

double d(std::int64_t value) {
  return static_cast<double>(value);
}

/// A launch in the terms that both phases share.
struct Call {
  std::int64_t sequences = 0, heads = 0, kv_heads = 0, key_dim = 0, value_dim = 0;
  double new_tokens = 1;      ///< of a sequence, mean
  double keys = 0;            ///< that a query attends to, mean
  std::int64_t longest = 0;   ///< keys of the longest sequence
  std::int64_t q_tiles = 0;   ///< of 128 queries and one head; 0: new_tokens hold for every sequence
  bool one_token = false, causal = true, latent = false;
  double bytes = 0;           ///< compulsory
  double element = 2;
};

/// Thread blocks of a launch.
struct Grid {
  AttentionTile tile;
  std::int64_t pack = 1;      ///< query heads whose rows share a tile
  double ctas = 0;
  double blocks = 0;          ///< of keys in a thread block, mean
  double longest = 0;         ///< of keys in the longest thread block
  std::int64_t split = 1;
  double idle_ctas = 0, idle_blocks = 0;  ///< thread blocks planned beyond the queries, each over all keys
};

/// Query tiles of all sequences for one head or, packed, one key head.
double query_tiles(const Call& c, std::int64_t rows, std::int64_t pack) {
  const double n = d(c.sequences), all = n * c.new_tokens * d(pack), m = d(rows);
  const double even = n * std::ceil(c.new_tokens * d(pack) / m);
  if (c.q_tiles == 0) return even;
  const double most = std::min(n + std::floor((all - n) / m), std::ceil(d(c.q_tiles * kPlanTile * pack) / m));
  return std::max(1.0, std::min(even, most));
}

Grid grid_of(const GpuParams& gpu, const Call& c, const AttentionConditions& how) {
  const AttentionConstants& k = gpu.attention;
  const std::int64_t group = std::max<std::int64_t>(1, c.heads / std::max<std::int64_t>(1, c.kv_heads));
  const bool flash3 = k.library == AttentionLibrary::flash3;
  Grid g;
  g.pack = how.pack > 0 ? std::min(how.pack, group) : flash3 || c.one_token ? group : 1;
  const auto rows = static_cast<std::int64_t>(std::ceil(c.new_tokens)) * g.pack;
  g.tile = attention_tile(gpu, c.key_dim, c.value_dim, rows, c.one_token);
  const double units = d(c.heads) / d(g.pack), n = d(g.tile.keys);
  const double tiles = query_tiles(c, g.tile.rows, g.pack) * units;
  const std::int64_t key_blocks = ceil_div(c.longest, g.tile.keys);

  // A causal tile stops at its last query, on average half a tile and half a block of keys behind the mean query.
  const double tile_tokens = std::min(c.new_tokens, d(g.tile.rows) / d(g.pack));
  const double reach = std::min(d(c.longest), c.keys + (c.causal && !c.one_token ? 0.5 * tile_tokens : 0));
  double blocks = std::ceil(reach / n);
  if (c.causal && !c.one_token && key_blocks > 1)
    blocks = std::min(d(key_blocks), reach / n + 0.5 * std::max(0.0, 1 - tile_tokens / n));
  blocks = std::max(1.0, blocks);

  if (flash3) {
    const std::int64_t plan_kv = how.plan_kv_heads > 0 ? how.plan_kv_heads : c.kv_heads;
    const std::int64_t plan_group = how.plan_heads > 0 ? std::max<std::int64_t>(1, how.plan_heads / plan_kv) : g.pack;
    const double plan_tiles = std::ceil(c.new_tokens * d(plan_group) / d(g.tile.rows));
    const double work = plan_tiles * d(key_blocks) * d(c.sequences) * d(plan_kv);
    g.split = flash3_splits(static_cast<std::int64_t>(plan_tiles) * plan_kv, work, gpu.sms, key_blocks);
    const double spare = plan_tiles - std::ceil(c.new_tokens * d(g.pack) / d(g.tile.rows));
    if (spare > 0) {
      g.idle_ctas = spare * d(c.sequences) * units;
      g.idle_blocks = d(key_blocks);
    }
  } else if (k.library == AttentionLibrary::flash2 && c.one_token && group > 1) {
    g.split = flash2_splits(static_cast<std::int64_t>(tiles), 2 * gpu.sms, key_blocks);
  }
  if (how.splits > 0) g.split = std::min(how.splits, key_blocks);
  const std::int64_t per_split = ceil_div(key_blocks, g.split);
  g.split = std::max<std::int64_t>(1, ceil_div(key_blocks, per_split));
  g.ctas = tiles * d(g.split);
  g.blocks = c.one_token ? blocks / d(g.split) : std::max(1.0, blocks / d(g.split));
  g.longest = d(per_split);
  if (c.one_token && g.split == 1) g.blocks = std::ceil(reach / n);
  return g;
}

/// Share of `bytes` that a repeated call finds in the L2.
double hit_share(const GpuParams& gpu, double bytes) {
  const double room = d(gpu.l2_bytes) * gpu.attention.resident_share;
  return bytes <= 0 ? 0 : std::clamp(2.0 - bytes / room, 0.0, 1.0);
}

TiledTime run(const GpuParams& gpu, const Call& c, DType dtype, const AttentionConditions& how) {
  const AttentionConstants& k = gpu.attention;
  const Grid g = grid_of(gpu, c, how);
  const double sms = d(gpu.sms), per_sm = d(g.tile.ctas_per_sm), slots = sms * per_sm;
  const double pairs = d(g.tile.rows * g.tile.keys);
  const double flops = 2.0 * pairs * (d(c.key_dim) + d(c.value_dim));
  const double sm_rate = matrix_peak(gpu, dtype) / sms;
  const double shared_s = flops / (sm_rate * k.efficiency) + pairs / (k.softmax_per_clock * gpu.clock_hz);
  // Two and more groups of warps take turns; one alone waits for its keys and its softmax in every block of keys.
  const double alone_s = g.tile.takes_turns ? shared_s : flops / sm_rate + k.block_clocks / gpu.clock_hz;
  const double rows = std::min(d(g.tile.rows), c.new_tokens * d(g.pack));
  const double start_s = (k.start_clocks + rows * k.row_clocks) / gpu.clock_hz;
  const auto cta_s = [&](double blocks) { return start_s + blocks * alone_s; };
  // SM time that a thread block takes from its neighbours: its start hides behind the other blocks of the SM.
  const auto sm_s = [&](double blocks) { return std::max(blocks * shared_s + start_s / per_sm, cta_s(blocks) / per_sm); };

  TiledTime t;
  const double hit = how.resident ? hit_share(gpu, c.bytes) : 0;
  const double dram_s = (1 - hit) * c.bytes / (gpu.memory_bandwidth * k.memory_efficiency);
  const double block_bytes = d(g.tile.keys) * (c.latent ? d(c.key_dim) : d(c.key_dim + c.value_dim)) * c.element;
  const double l2_s = g.ctas * g.blocks * block_bytes / (gpu.l2_bandwidth * k.l2_delivery);
  const double mover_s = norm4(dram_s, l2_s);
  t.dram_bytes = c.bytes;

  if (c.one_token && c.longest * c.sequences <= static_cast<std::int64_t>(c.keys * d(c.sequences) + 0.5)) {
    // Equal blocks run in waves; a thin last wave cannot use the whole memory.
    const double blocks = g.longest;
    const auto add_wave = [&](double waves, double running) {
      const double compute_s = std::max(cta_s(blocks), std::ceil(running / sms) * sm_s(blocks));
      const double memory_s = running / g.ctas * mover_s;
      t.compute_s += waves * compute_s;
      t.memory_s += waves * memory_s;
      t.time_s += waves * norm4(compute_s, memory_s);
    };
    const double full = std::floor(g.ctas / slots), rest = g.ctas - full * slots;
    if (full > 0) add_wave(full, slots);
    if (rest > 0) add_wave(1, rest);
  } else {
    const double all_s = (g.ctas * sm_s(g.blocks) + g.idle_ctas * sm_s(g.idle_blocks)) / sms;
    const double longest_s = cta_s(std::max(g.longest, g.idle_blocks));
    const double waiting = std::max(0.0, 1 - slots / (g.ctas + g.idle_ctas));
    t.compute_s = norm4(all_s + k.tail * waiting * longest_s, longest_s);
    t.memory_s = mover_s;
    t.time_s = norm4(t.compute_s, t.memory_s);
  }
  if (g.split > 1) {
    const double all_rows = d(c.sequences) * c.new_tokens * d(c.heads);
    t.time_s += k.combine_s + d(g.split) * k.combine_split_s + 2.0 * all_rows * d(g.split) * d(c.value_dim) * kPartialBytes / gpu.l2_bandwidth;
  }
  t.fixed_s = k.fixed_s + k.sequence_s * d(std::min<std::int64_t>(c.sequences, kPlannedSequences));
  if (c.one_token && c.heads > c.kv_heads && k.regroup_s > 0) {
    // Queries in, outputs back; with several sequences and key heads the layouts differ and copies are made.
    const double copies = c.sequences > 1 && c.kv_heads > 1 ? 4 : 1;
    const double copy_bytes = 2.0 * d(c.sequences * c.heads * c.key_dim) * c.element;
    t.fixed_s += copies * (k.regroup_s + copy_bytes / gpu.l2_bandwidth);
  }
  t.time_s += t.fixed_s;
  return t;
}

}  // namespace

TiledTime tiled_prefill(const GpuParams& gpu, const AttentionPrefill& a, DType dtype,
                        const AttentionConditions& how) {
  if (a.sequences <= 0 || a.q_tokens <= 0 || a.heads <= 0 || a.head_dim <= 0) return {};
  const Work work = work_of({OpClass::attention_prefill, dtype, a});
  Call c;
  c.sequences = a.sequences;
  c.heads = a.heads;
  c.kv_heads = std::max<std::int64_t>(1, a.kv_heads);
  c.key_dim = a.head_dim;
  c.value_dim = a.values();
  c.new_tokens = d(a.q_tokens) / d(a.sequences);
  c.keys = d(a.pairs) / d(a.q_tokens);
  c.longest = std::max<std::int64_t>(1, ceil_div(a.kv_tokens, a.sequences));
  c.q_tiles = a.q_tiles;
  c.one_token = a.q_tokens == a.sequences;  // chunks of one token take the decode path: grouped heads are rows
  c.causal = a.causal;
  c.bytes = work.read_bytes + work.write_bytes;
  c.element = d(bytes_of(dtype));
  return run(gpu, c, dtype, how);
}

TiledTime tiled_decode(const GpuParams& gpu, const AttentionDecode& a, DType dtype,
                        const AttentionConditions& how) {
  if (a.sequences <= 0 || a.heads <= 0 || a.kv_heads <= 0 || a.head_dim <= 0 || a.context_tokens <= 0) return {};
  const Work work = work_of({OpClass::attention_decode, dtype, a});
  Call c;
  c.sequences = a.sequences;
  c.heads = a.heads;
  c.kv_heads = a.kv_heads;
  c.key_dim = a.head_dim;
  c.value_dim = a.values();
  c.keys = d(a.context_tokens) / d(a.sequences);
  c.longest = std::max(a.longest, ceil_div(a.context_tokens, a.sequences));
  c.one_token = true;
  c.latent = a.latent;
  c.bytes = work.read_bytes + work.write_bytes;
  c.element = d(bytes_of(dtype));
  return run(gpu, c, dtype, how);
}

}  // namespace orrery::hw
