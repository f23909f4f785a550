// Attention of the `tiled` model; equations in hw/tiled/tiled.hpp.
#include <algorithm>
#include <cmath>

#include "hw/base/real.hpp"
#include "hw/tiled/tiled.hpp"

namespace orrery::hw {
namespace {

constexpr std::int64_t kPlanTile = 128;          // the query tile that AttentionPrefill::q_tiles counts
constexpr std::int64_t kPlannedSequences = 992;  // that the plan of FlashAttention-3 holds
constexpr double kPartialOutputBytes = 4;        // partial outputs of split contexts are fp32
constexpr double kCacheThreads = 512;            // of a thread block that writes a token into the cache
constexpr double kCacheL2 = 0.5;                 // share of the L2's read bandwidth of what reads and writes in turn

/// A launch in the terms that both phases share.
struct Call {
  std::int64_t sequences = 0, heads = 0, kv_heads = 0, key_dim = 0, value_dim = 0;
  double new_tokens = 1;     ///< of a sequence, mean
  double keys = 0;           ///< that a query attends to, mean
  std::int64_t longest = 0;  ///< keys of the longest sequence
  std::int64_t q_tiles = 0;  ///< of 128 queries and one head; 0: new_tokens hold for every sequence
  std::int64_t window = 0;   ///< keys that a query attends to at most; 0: all before it
  bool one_token = false, causal = true, latent = false, even = true;
  double bytes = 0;                ///< compulsory
  double element = 2, cached = 2;  ///< bytes of an element of queries and outputs, and of the cache
  std::int64_t group() const { return std::max<std::int64_t>(1, heads / kv_heads); }
};

/// Thread blocks of a launch.
struct AttentionGrid {
  AttentionTile tile;
  std::int64_t pack = 1;  ///< query heads whose rows share a tile
  std::int64_t split = 1;
  double ctas = 0;
  double blocks = 0;          ///< of keys in a thread block, mean
  double longest = 0;         ///< of keys in the longest thread block
  double surplus_ctas = 0;    ///< planned beyond the queries there are
  double surplus_blocks = 0;  ///< of keys in each of those: all that a tile can reach
};

/// Times of a thread block with `blocks` blocks of keys.
struct BlockTimes {
  double start_s = 0, alone_s = 0, shared_s = 0, per_sm = 1;
  /// Alone on its SM.
  double latency_s(double blocks) const { return start_s + blocks * alone_s; }
  /// SM time that it takes from the others: its start hides behind the blocks that share the SM.
  double busy_s(double blocks) const {
    return std::max(start_s / per_sm + blocks * shared_s, latency_s(blocks) / per_sm);
  }
};

/// Query tiles of all sequences for one head or, packed, one key head.
double query_tiles(const Call& c, std::int64_t rows, std::int64_t pack) {
  const double n = d(c.sequences), all = n * c.new_tokens * d(pack), m = d(rows);
  const double even = n * std::ceil(c.new_tokens * d(pack) / m);
  if (c.q_tiles == 0) return even;
  const double most = std::min(n + std::floor((all - n) / m), std::ceil(d(c.q_tiles * kPlanTile * pack) / m));
  return std::max(1.0, std::min(even, most));
}

double tile_tokens(const Call& c, const AttentionGrid& g) {
  return std::min(c.new_tokens, d(g.tile.rows) / d(g.pack));
}

/// Keys of the longest tile: with a window, those before its first query's window are skipped.
std::int64_t longest_keys(const Call& c, const AttentionGrid& g) {
  if (c.window == 0) return c.longest;
  return std::min(c.longest, c.window - 1 + static_cast<std::int64_t>(std::ceil(tile_tokens(c, g))));
}

/// Blocks of keys that a tile works through, mean. A causal tile stops at its last query's keys: half a tile behind its
/// mean query, and half a block further unless tiles end where blocks do. Past the window it begins with its first
/// query's window, half a tile before its mean query's.
double mean_blocks(const Call& c, const AttentionGrid& g, std::int64_t key_blocks) {
  const double n = d(g.tile.keys);
  if (!c.causal || c.one_token || key_blocks == 1) return std::max(1.0, std::ceil(std::min(d(c.longest), c.keys) / n));
  const double tokens = tile_tokens(c, g);
  const double past = c.window == 0 ? 0 : std::clamp(d(c.longest) - d(c.window), 0.0, c.new_tokens);
  const double reach = std::min(d(c.longest), c.keys + 0.5 * tokens + window_surplus(past, tokens, c.new_tokens));
  return std::clamp(reach / n + 0.5 * std::max(0.0, 1 - tokens / n), 1.0, d(key_blocks));
}

/// Splits of every context, and for FlashAttention-3 the tiles that a plan made for other heads adds.
void plan(const GpuParams& gpu, const Call& c, const AttentionConditions& how, double tiles, std::int64_t key_blocks,
          AttentionGrid& g) {
  const AttentionLibrary library = gpu.attention.library;
  if (library == AttentionLibrary::flash2 && c.one_token && c.group() > 1)
    g.split = flash2_splits(static_cast<std::int64_t>(tiles), 2 * gpu.sms, key_blocks);
  if (library == AttentionLibrary::flash3) {
    const std::int64_t kv_heads = how.plan_kv_heads > 0 ? how.plan_kv_heads : c.kv_heads;
    const std::int64_t pack = how.plan_heads > 0 ? std::max<std::int64_t>(1, how.plan_heads / kv_heads) : g.pack;
    const double own = std::ceil(c.new_tokens * d(g.pack) / d(g.tile.rows));
    const double planned = std::ceil(c.new_tokens * d(pack) / d(g.tile.rows));
    const double work = planned * d(key_blocks) * d(c.sequences) * d(kv_heads);
    g.split = flash3_splits(static_cast<std::int64_t>(own) * c.heads / g.pack, work, gpu.sms, key_blocks);
    const double surplus = planned - own;
    if (surplus > 0) {
      g.surplus_ctas = surplus * d(c.sequences) * d(c.heads) / d(g.pack);
      g.surplus_blocks = d(key_blocks);
    }
  }
  if (how.splits > 0) g.split = std::min(how.splits, key_blocks);
}

AttentionGrid grid_of(const GpuParams& gpu, const Call& c, const AttentionConditions& how) {
  AttentionGrid g;
  const bool packs = c.one_token || gpu.attention.library == AttentionLibrary::flash3;
  g.pack = how.pack > 0 ? std::min(how.pack, c.group()) : packs ? c.group() : 1;
  const auto rows = static_cast<std::int64_t>(std::ceil(c.new_tokens)) * g.pack;
  g.tile = attention_tile(gpu, c.key_dim, c.value_dim, rows);
  const double tiles = query_tiles(c, g.tile.rows, g.pack) * d(c.heads) / d(g.pack);
  const std::int64_t key_blocks = ceil_div(longest_keys(c, g), g.tile.keys);
  const double blocks = mean_blocks(c, g, key_blocks);
  plan(gpu, c, how, tiles, key_blocks, g);
  const std::int64_t per_split = ceil_div(key_blocks, g.split);
  g.split = ceil_div(key_blocks, per_split);
  g.ctas = tiles * d(g.split);
  g.blocks = std::max(1.0, blocks / d(g.split));
  g.longest = d(per_split);
  return g;
}

/// Share of `bytes` that the L2 still holds when they are read again: all up to resident_share of a partition, each of
/// which keeps a copy, none from twice that on.
double kept_share(const GpuParams& gpu, double bytes) {
  const double partition = d(gpu.l2_bytes) / d(gpu.l2_partitions);
  return std::clamp(2.0 - bytes / (partition * gpu.attention.resident_share), 0.0, 1.0);
}

/// The same of a repeated call's operands.
double hit_share(const GpuParams& gpu, const AttentionConditions& how, double bytes) {
  if (!how.resident || bytes <= 0) return 0;
  return kept_share(gpu, bytes);
}

/// What the memory takes for `bytes` of which the L2 holds a share: its rate rises evenly for twice cold_s, so that
/// cold_s is lost by whatever takes longer.
double memory_seconds(const GpuParams& gpu, double bytes, double hit) {
  const AttentionConstants& k = gpu.attention;
  const double even_s = (1 - hit) * bytes / (gpu.memory_bandwidth * k.memory_efficiency);
  return even_s >= k.cold_s ? even_s + k.cold_s : 2 * std::sqrt(even_s * k.cold_s);
}

/// Equal thread blocks run in waves; a thin last wave is bound by its blocks, a full one by the memory.
void add_waves(const GpuParams& gpu, const AttentionGrid& g, const BlockTimes& block, double move_s, TiledTime& t) {
  const double sms = d(gpu.sms), slots = sms * block.per_sm;
  const auto add_wave = [&](double waves, double running) {
    const double compute_s = std::max(block.latency_s(g.longest), std::ceil(running / sms) * block.busy_s(g.longest));
    const double memory_s = running / g.ctas * move_s;
    t.compute_s += waves * compute_s;
    t.memory_s += waves * memory_s;
    t.time_s += waves * norm4(compute_s, memory_s);
  };
  const double full = std::floor(g.ctas / slots), rest = g.ctas - full * slots;
  if (full > 0) add_wave(full, slots);
  if (rest > 0) add_wave(1, rest);
}

/// Uneven thread blocks are handed out as SMs fall free; the end waits for a share of the longest.
void add_uneven(const GpuParams& gpu, const AttentionGrid& g, const BlockTimes& block, double move_s, TiledTime& t) {
  const double sms = d(gpu.sms), slots = sms * block.per_sm;
  double all_s = g.ctas * block.busy_s(g.blocks) / sms;
  if (g.surplus_ctas > 0)  // no queries to load and nothing to write: they start while the tile before computes
    all_s += g.surplus_ctas * (block.busy_s(g.surplus_blocks) - block.start_s / block.per_sm) / sms;
  const double longest_s = block.latency_s(std::max(g.longest, g.surplus_blocks));
  const double waiting = std::max(0.0, 1 - slots / (g.ctas + g.surplus_ctas));
  t.compute_s = norm4(all_s + gpu.attention.tail * waiting * longest_s, longest_s);
  t.memory_s = move_s;
  t.time_s = norm4(t.compute_s, t.memory_s);
}

/// Passes beside the attention kernel itself, and what does not depend on the shape.
void add_passes(const GpuParams& gpu, const Call& c, const AttentionGrid& g, TiledTime& t) {
  const AttentionConstants& k = gpu.attention;
  if (g.split > 1) {
    const double partials =
        d(c.sequences) * c.new_tokens * d(c.heads) * d(g.split) * d(c.value_dim) * kPartialOutputBytes;
    t.time_s +=
        (k.combine_cycles + d(g.split) * k.combine_split_cycles) / gpu.clock_hz + 2 * partials / gpu.l2_bandwidth;
  }
  t.fixed_s = k.fixed_s + k.sequence_cycles / gpu.clock_hz * d(std::min(c.sequences, kPlannedSequences));
  if (c.one_token && c.group() > 1 && k.regroup_cycles > 0) {
    // Outputs are copied back; with several sequences and key heads queries and outputs change their layout too.
    const double copies = c.sequences > 1 && c.kv_heads > 1 ? 4 : 1;
    const double bytes = 2 * d(c.sequences) * d(c.heads) * d(c.key_dim) * c.element;
    t.fixed_s += copies * (k.regroup_cycles / gpu.clock_hz + bytes / gpu.l2_bandwidth);
  }
  t.time_s += t.fixed_s;
}

/// Times of the grid's thread blocks.
BlockTimes block_times(const GpuParams& gpu, const Call& c, const AttentionGrid& g, DType dtype) {
  const AttentionConstants& k = gpu.attention;
  const double pairs = d(g.tile.rows) * d(g.tile.keys);
  const double flops = 2 * pairs * d(c.key_dim + c.value_dim);
  const double sm_rate = matrix_peak(gpu, dtype) / d(gpu.sms);
  const double rows = std::min(d(g.tile.rows), c.new_tokens * d(g.pack));
  BlockTimes block;
  block.per_sm = d(g.tile.ctas_per_sm);
  block.start_s = (k.start_cycles + rows * k.row_cycles) / gpu.clock_hz;
  block.shared_s = flops / (sm_rate * k.efficiency) + pairs / (k.softmax_per_cycle * gpu.clock_hz);
  block.alone_s = g.tile.takes_turns ? block.shared_s : flops / sm_rate + k.block_cycles / gpu.clock_hz;
  return block;
}

double block_bytes(const Call& c, const AttentionGrid& g) {
  return d(g.tile.keys) * d(c.latent ? c.key_dim : c.key_dim + c.value_dim) * c.cached;
}

TiledTime attention(const GpuParams& gpu, const Call& c, DType dtype, const AttentionConditions& how) {
  const AttentionConstants& k = gpu.attention;
  const AttentionGrid g = grid_of(gpu, c, how);
  const BlockTimes block = block_times(gpu, c, g, dtype);
  TiledTime t;
  t.dram_bytes = c.bytes;
  const double l2_s = g.ctas * g.blocks * block_bytes(c, g) / (gpu.l2_bandwidth * k.l2_delivery);
  const double dram_s = memory_seconds(gpu, c.bytes, hit_share(gpu, how, c.bytes));
  const double move_s = norm4(dram_s, l2_s);
  if (c.one_token && c.even) {
    add_waves(gpu, g, block, move_s, t);
  } else {
    add_uneven(gpu, g, block, move_s, t);
  }
  add_passes(gpu, c, g, t);
  return t;
}

bool is_empty(const AttentionPrefill& a) {
  return a.sequences <= 0 || a.q_tokens <= 0 || a.heads <= 0 || a.head_dim <= 0;
}

bool is_empty(const AttentionDecode& a) {
  return a.sequences <= 0 || a.heads <= 0 || a.kv_heads <= 0 || a.head_dim <= 0 || a.context_tokens <= 0;
}

Call call_of(const AttentionPrefill& a, DType dtype) {
  const Work work = work_of({OpClass::attention_prefill, dtype, a});
  Call c;
  c.sequences = a.sequences;
  c.heads = a.heads;
  c.kv_heads = std::clamp<std::int64_t>(a.kv_heads, 1, a.heads);
  c.key_dim = a.head_dim;
  c.value_dim = a.values();
  c.new_tokens = d(a.q_tokens) / d(a.sequences);
  c.keys = d(a.pairs) / d(a.q_tokens);
  c.longest = std::max<std::int64_t>(1, ceil_div(a.kv_tokens, a.sequences));
  c.q_tiles = a.q_tiles;
  c.one_token = a.q_tokens == a.sequences;  // chunks of one token take the decode path: grouped heads are rows
  c.causal = a.causal;
  c.window = a.causal && a.window < c.longest ? a.window : 0;
  c.bytes = work.read_bytes + work.write_bytes;
  c.element = d(bytes_of(dtype));
  c.cached = a.cache_element > 0 ? d(a.cache_element) : c.element;
  return c;
}

Call call_of(const AttentionDecode& a, DType dtype) {
  const Work work = work_of({OpClass::attention_decode, dtype, a});
  const std::int64_t mean = ceil_div(a.context_tokens, a.sequences);
  Call c;
  c.sequences = a.sequences;
  c.heads = a.heads;
  c.kv_heads = std::min(a.kv_heads, a.heads);
  c.key_dim = a.head_dim;
  c.value_dim = a.values();
  c.keys = d(a.context_tokens) / d(a.sequences);
  c.longest = std::max(a.longest, mean);
  c.even = a.longest <= mean;
  c.one_token = true;
  c.latent = a.latent;
  c.bytes = work.read_bytes + work.write_bytes;
  c.element = d(bytes_of(dtype));
  c.cached = a.cache_element > 0 ? d(a.cache_element) : c.element;
  return c;
}

/// Passes over the keys and values of decodes that do not pack grouped heads. Thread blocks run head after head, so
/// query heads of a key head share what they read only while they run at the same time, or while the contexts of one
/// key head fit the L2.
double repeated_reads(const GpuParams& gpu, const Call& c, double slots) {
  const double apart = std::clamp(d(c.group()) * d(c.sequences) / slots, 1.0, d(c.group()));
  const double between = d(c.sequences) * c.keys * d(c.latent ? c.key_dim : c.key_dim + c.value_dim) * c.cached;
  const double kept = kept_share(gpu, between);
  return 1 + (1 - kept) * (apart - 1);
}

/// FlashAttention-2's one launch of prompts and decodes: a decode is a prompt of one token in a tile of its own a head.
TiledTime mixed(const GpuParams& gpu, Call prompts, Call decodes, DType dtype, const AttentionConditions& how) {
  const AttentionConstants& k = gpu.attention;
  prompts.one_token = decodes.one_token = false;
  AttentionConditions plain = how;
  plain.splits = plain.pack = 1;
  const AttentionGrid p = grid_of(gpu, prompts, plain), q = grid_of(gpu, decodes, plain);
  const BlockTimes long_one = block_times(gpu, prompts, p, dtype), short_one = block_times(gpu, decodes, q, dtype);
  const double sms = d(gpu.sms), slots = sms * long_one.per_sm;
  const double longest_s = std::max(long_one.latency_s(p.longest), short_one.latency_s(q.longest));
  const double waiting = std::max(0.0, 1 - slots / (p.ctas + q.ctas));
  const double busy_s = (p.ctas * long_one.busy_s(p.blocks) + q.ctas * short_one.busy_s(q.blocks)) / sms;

  TiledTime t;
  t.dram_bytes = prompts.bytes + decodes.bytes * repeated_reads(gpu, decodes, slots);
  t.compute_s = norm4(busy_s + k.tail * waiting * longest_s, longest_s);
  const double l2_bytes = p.ctas * p.blocks * block_bytes(prompts, p) + q.ctas * q.blocks * block_bytes(decodes, q);
  const double dram_s = memory_seconds(gpu, t.dram_bytes, hit_share(gpu, how, prompts.bytes + decodes.bytes));
  t.memory_s = norm4(dram_s, l2_bytes / (gpu.l2_bandwidth * k.l2_delivery));
  t.fixed_s = k.fixed_s +
              k.sequence_cycles / gpu.clock_hz * d(std::min(prompts.sequences + decodes.sequences, kPlannedSequences));
  t.time_s = norm4(t.compute_s, t.memory_s) + t.fixed_s;
  return t;
}

}  // namespace

double window_surplus(double past, double tile, double tokens) {
  const double whole = std::floor(past / tile), rest = past - whole * tile;
  return 0.5 * (whole * tile * tile + rest * rest) / tokens;
}

TiledTime tiled_prefill(const GpuParams& gpu, const AttentionPrefill& a, DType dtype, const AttentionConditions& how) {
  if (is_empty(a)) return {};
  return a.backward ? tiled_attention_gradient(gpu, a, dtype) : attention(gpu, call_of(a, dtype), dtype, how);
}

TiledTime tiled_decode(const GpuParams& gpu, const AttentionDecode& a, DType dtype, const AttentionConditions& how) {
  if (is_empty(a)) return {};
  return attention(gpu, call_of(a, dtype), dtype, how);
}

TiledTime tiled_mixed(const GpuParams& gpu, const AttentionPrefill& prompts, const AttentionDecode& decodes,
                      DType dtype, const AttentionConditions& how) {
  if (is_empty(prompts)) return tiled_decode(gpu, decodes, dtype, how);
  if (is_empty(decodes)) return tiled_prefill(gpu, prompts, dtype, how);
  if (gpu.attention.library != AttentionLibrary::flash2) {
    TiledTime t = tiled_prefill(gpu, prompts, dtype, how);
    const TiledTime other = tiled_decode(gpu, decodes, dtype, how);
    t.time_s += other.time_s - gpu.attention.fixed_s;
    t.compute_s += other.compute_s;
    t.memory_s += other.memory_s;
    t.dram_bytes += other.dram_bytes;
    return t;
  }
  return mixed(gpu, call_of(prompts, dtype), call_of(decodes, dtype), dtype, how);
}

TiledTime tiled_cache_write(const GpuParams& gpu, std::int64_t tokens, std::int64_t elements, DType dtype,
                            const AttentionConditions& how) {
  if (tokens <= 0 || elements <= 0) return {};
  const AttentionConstants& k = gpu.attention;
  TiledTime t;
  t.dram_bytes = 4 * d(tokens) * d(elements) * d(bytes_of(dtype));  // keys and values, read and written
  const double hit = hit_share(gpu, how, t.dram_bytes);
  t.memory_s = (1 - hit) * t.dram_bytes / (gpu.memory_bandwidth * k.cache_write) +
               hit * t.dram_bytes / (gpu.l2_bandwidth * kCacheL2);
  t.compute_s =
      d(tokens) * std::min(1.0, d(elements) / kCacheThreads) * k.cache_token_cycles / (d(gpu.sms) * gpu.clock_hz);
  t.time_s = t.memory_s + t.compute_s;
  return t;
}

}  // namespace orrery::hw
