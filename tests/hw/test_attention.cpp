#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "hw/tiled/tiled.hpp"
#include "tests/hw/parts.hpp"

namespace test_attention {

using namespace orrery::hw;
using orrery::hw::test::part;
using orrery::hw::test::prompts;

namespace {

/// One SM of 1e12 FLOP/s at 1 GHz that a thread block has to itself, memory and L2 far too fast to matter, nothing that
/// costs but FLOPs. Tiles of 64 rows and 128 keys of head dimension 128: 4 * 64 * 128 * 128 FLOPs a block of keys.
GpuParams bare(AttentionLibrary library = AttentionLibrary::flash2) {
  GpuParams gpu;
  gpu.peak.fp16 = 1e12;
  gpu.sms = 1;
  gpu.clock_hz = 1e9;
  gpu.l1_bytes = (28 + 80) << 10;  // 80 KiB of shared memory: one tile
  gpu.l2_bytes = 1 << 20;
  gpu.l2_bandwidth = gpu.memory_bandwidth = 1e18;
  gpu.attention = {.library = library,
                   .efficiency = 1,
                   .softmax_per_cycle = 1e12,
                   .start_cycles = 0,
                   .row_cycles = 0,
                   .block_cycles = 0,
                   .tail = 0,
                   .memory_efficiency = 1,
                   .l2_delivery = 1,
                   .resident_share = 1,
                   .fixed_s = 0,
                   .combine_cycles = 0,
                   .combine_split_cycles = 0};
  return gpu;
}
constexpr double kBlockS = 4.0 * 64 * 128 * 128 / 1e12;  // 4.194 us

double decode_s(const GpuParams& gpu, const AttentionDecode& shape, const AttentionConditions& how = {}) {
  return tiled_decode(gpu, shape, DType::fp16, how).time_s;
}

}  // namespace

TEST_CASE("splits of FlashAttention-2", "[unit]") {
  // 8 thread blocks on 216 places: s splits fill min(1, 8 s / 216) of one wave; 27 fill it, and the first to reach 0.85
  // of that is ceil(0.85 * 27) = 23.
  CHECK(flash2_splits(8, 216, 64) == 23);
  CHECK(flash2_splits(8, 216, 5) == 5);     // 0.85 * 5 / 27 of the best is reached by 5 (4.25 rounds up)
  CHECK(flash2_splits(8, 216, 20) == 17);   // 0.85 * 20
  CHECK(flash2_splits(173, 216, 64) == 1);  // 0.8 * 216 = 172.8: nearly full
  CHECK(flash2_splits(172, 216, 64) ==
        5);  // 5 * 172 = 860 on 4 waves of 864; 4 waves of 4 * 172 reach 688 / 864 = 0.80
  CHECK(flash2_splits(1, 216, 1) == 1);
}

TEST_CASE("splits of FlashAttention-3", "[unit]") {
  // One key head of 512 blocks of keys on 132 SMs: 1.1 * 512 / 132 = 4.3, so 5 blocks an SM and ceil(512 / 5) = 103.
  CHECK(flash3_splits(1, 512, 132, 512) == 103);
  // Planned for 8 key heads: 1.1 * 4096 / 132 = 34.1, 35 an SM, 15 splits; 8 * 15 = 120 of 132 SMs is enough, too.
  CHECK(flash3_splits(8, 8 * 512, 132, 512) == 15);
  CHECK(flash3_splits(8, 64 * 512, 132, 512) == 2);   // eight such sequences: 274 blocks an SM
  CHECK(flash3_splits(8, 512 * 512, 132, 512) == 1);  // 64 of them fill the part
  CHECK(flash3_splits(1, 4, 132, 4) == 4);            // fewer blocks of keys than SMs: one each
  CHECK(flash3_splits(106, 106 * 64, 132, 64) == 1);  // 0.8 * 132 = 105.6: nearly full
}

TEST_CASE("tiles of the libraries", "[unit]") {
  const GpuParams a100 = part("a100-sxm4-80gb"), l40s = part("l40s"), h100 = part("h100-sxm5-80gb");
  // FlashAttention-2, 64 x 128 x 128: (64 + 2 * 128) * 128 * 2 = 80 KiB, twice into 164 KiB, once into 100 KiB.
  CHECK(attention_tile(a100, 128, 128, 1).ctas_per_sm == 2);
  CHECK(attention_tile(l40s, 128, 128, 1).ctas_per_sm == 1);
  CHECK(attention_tile(a100, 64, 64, 1).keys == 256);
  CHECK(attention_tile(a100, 256, 256, 1).keys == 64);
  // FlashAttention-3 takes one group of warps and 64 rows for few queries, two or three groups else.
  CHECK(attention_tile(h100, 128, 128, 8).rows == 64);
  CHECK_FALSE(attention_tile(h100, 128, 128, 8).takes_turns);
  CHECK(attention_tile(h100, 128, 128, 64).rows == 64);
  CHECK(attention_tile(h100, 128, 128, 65).rows == 128);
  CHECK(attention_tile(h100, 64, 64, 4096).rows == 192);
  CHECK(attention_tile(h100, 256, 256, 4096).keys == 80);
  CHECK(attention_tile(h100, 576, 512, 128).rows == 64);  // latent attention: 64 x 64
}

TEST_CASE("decode by hand", "[unit]") {
  GpuParams gpu = bare();
  // 256 keys are two blocks; 257 are three.
  CHECK(decode_s(gpu, {1, 256, 1, 1, 128}) == Approx(2 * kBlockS));
  CHECK(decode_s(gpu, {1, 257, 1, 1, 128}) == Approx(3 * kBlockS));
  // Three sequences on two SMs, one thread block each: two waves. Twice the SMs, twice the peak: a block takes as long.
  gpu.sms = 2;
  gpu.peak.fp16 = 2e12;
  CHECK(decode_s(gpu, {3, 3 * 256, 1, 1, 128}) == Approx(2 * 2 * kBlockS));
  // Two query heads of a key head are rows of one tile. Alone on two SMs (four places) its two blocks of keys are
  // split: one block each, and fp32 partials of 2 heads * 2 splits * 128 written and read at 1e18 bytes a second.
  CHECK(decode_s(gpu, {1, 256, 2, 1, 128}) == Approx(kBlockS));
  gpu.attention.combine_cycles = 3000;
  gpu.attention.combine_split_cycles = 500;
  CHECK(decode_s(gpu, {1, 256, 2, 1, 128}) == Approx(kBlockS + 4e-6));
  CHECK(decode_s(gpu, {1, 256, 1, 1, 128}) == Approx(2 * kBlockS));  // without grouped heads nothing is split
}

TEST_CASE("what a thread block costs beside its FLOPs", "[unit]") {
  GpuParams gpu = bare();
  gpu.attention.start_cycles = 1000;  // 1 us
  gpu.attention.row_cycles = 10;      // one query row: 10 ns
  gpu.attention.block_cycles = 500;   // 0.5 us a block of keys
  CHECK(decode_s(gpu, {1, 256, 1, 1, 128}) == Approx(2 * (kBlockS + 0.5e-6) + 1.01e-6));
  // 64 * 128 scores at 8 a clock: 1024 clocks a block, more than the wait that they stand beside.
  gpu.attention.softmax_per_cycle = 8;
  CHECK(decode_s(gpu, {1, 256, 1, 1, 128}) == Approx(2 * (kBlockS + 1.024e-6) + 1.01e-6));
}

TEST_CASE("prefill by hand", "[unit]") {
  // 256 new tokens, one head: two tiles of 128 rows (FlashAttention-3), a block of keys 2 kBlockS. A query sees 128.5
  // keys in the mean, its tile 64 more: 192.5 / 128 = 1.504 blocks, two tiles 3.008; the longest tile has two blocks.
  const GpuParams gpu = bare(AttentionLibrary::flash3);
  const double s = tiled_prefill(gpu, prompts(1, 256, 1, 1), DType::fp16).time_s;
  CHECK(s == Approx(2 * kBlockS * norm4(2 * 192.5 / 128, 2)));
  // With a full mask both tiles see both blocks.
  AttentionPrefill full = prompts(1, 256, 1, 1);
  full.causal = false;
  full.pairs = 256 * 256;
  CHECK(tiled_prefill(gpu, full, DType::fp16).time_s == Approx(2 * kBlockS * norm4(4, 2)));
  // 128 tokens over 128 cached: one tile whose queries see 192.5 keys, 256 with the tile's last: two blocks.
  const AttentionPrefill chunk{1, 128, 256, 128 * 128 + 128 * 129 / 2, 1, 1, 1, 128};
  CHECK(tiled_prefill(gpu, chunk, DType::fp16).time_s == Approx(2 * kBlockS * norm4(2, 2)));
}

namespace {

/// A prompt of 1,024 tokens of which each sees 128: 128 x 129 / 2 pairs, and 128 for each of the 896 others.
AttentionPrefill in_window(std::int64_t heads) {
  AttentionPrefill a = prompts(1, 1024, heads, heads);
  a.window = 128;
  a.pairs = 128 * 129 / 2 + 896 * 128;
  return a;
}

}  // namespace

TEST_CASE("a window of keys by hand", "[unit]") {
  // Eight tiles of 128 rows. A query sees 122,944 / 1,024 = 120.06 keys in the mean, its tile 64 more, and 64 more
  // again past the window (896 of 1,024 tokens): 240.06 / 128 = 1.8755 blocks (counted: one for the first tile, two for
  // the others, 15 / 8 = 1.875). The longest tile has two.
  const GpuParams gpu = bare(AttentionLibrary::flash3);
  const double blocks = (122944.0 / 1024 + 64 * (1 + 896.0 / 1024)) / 128;
  CHECK(tiled_prefill(gpu, in_window(1), DType::fp16).time_s == Approx(2 * kBlockS * norm4(8 * blocks, 2)));
  // All else but products: a tile that waits for the longest waits for two blocks, not for the prompt's eight.
  GpuParams waits = gpu;
  waits.attention.tail = 1;
  waits.sms = 4;
  waits.peak.fp16 = 4e12;
  CHECK(tiled_prefill(waits, in_window(1), DType::fp16).time_s ==
        Approx(2 * kBlockS * norm4(8 * blocks / 4 + (1 - 4.0 / 8) * 2, 2)));
  // A window as long as the prompt is none, and one without a causal mask is not looked at.
  const AttentionPrefill all = prompts(1, 1024, 1, 1);
  AttentionPrefill wide = all, full = all;
  wide.window = 1024;
  CHECK(tiled_prefill(waits, wide, DType::fp16).time_s == tiled_prefill(waits, all, DType::fp16).time_s);
  full.causal = false;
  AttentionPrefill narrow = full;
  narrow.window = 128;
  CHECK(tiled_prefill(waits, narrow, DType::fp16).time_s == tiled_prefill(waits, full, DType::fp16).time_s);
}

TEST_CASE("a window never costs more than all keys, and a wider one no less", "[prop]") {
  for (const char* name : {"a100-sxm4-80gb", "h100-sxm5-80gb", "gb200"})
    for (const std::int64_t tokens : {300, 1024, 8192})
      for (const bool backward : {false, true}) {
        const GpuParams gpu = part(name);
        AttentionPrefill a = prompts(2, tokens, 64, 8, 64);
        a.backward = backward;
        const double all_s = tiled_prefill(gpu, a, DType::bf16).time_s;
        double before = 0;
        for (const std::int64_t window : {1, 16, 128, 129, 256, 299, 700, 1000, 1023, 4096, 8000, 8191}) {
          if (window >= tokens) continue;
          CAPTURE(name, tokens, backward, window);
          AttentionPrefill b = a;
          b.window = window;
          b.pairs = 2 * (window * (window + 1) / 2 + (tokens - window) * window);
          const double now_s = tiled_prefill(gpu, b, DType::bf16).time_s;
          CHECK(now_s <= all_s * (1 + 1e-12));
          CHECK(now_s >= before * (1 - 1e-12));
          before = now_s;
        }
      }
}

TEST_CASE("memory and cache by hand", "[unit]") {
  GpuParams gpu = bare();
  gpu.peak.fp16 = 1e18;
  gpu.memory_bandwidth = 1e12;
  // One sequence of 1024 keys, one head: 2 * 1024 * 128 * 2 + 2 * 128 * 2 bytes = 524,800 at 1e12 a second.
  const AttentionDecode shape{1, 1024, 1, 1, 128};
  CHECK(decode_s(gpu, shape) == Approx(524800e-12));
  // Repeated, it stays in 1 MiB of L2; in 3/8 MiB 2 - 524800 / 393216 = 0.6654 of it does; in 1/4 MiB nothing does.
  CHECK(decode_s(gpu, shape, {.resident = true}) < 1e-9);
  gpu.l2_bytes = 393216;
  CHECK(decode_s(gpu, shape, {.resident = true}) == Approx(524800e-12 * (524800.0 / 393216 - 1)));
  gpu.l2_bytes = 262144;
  CHECK(decode_s(gpu, shape, {.resident = true}) == Approx(524800e-12));
  // The rate rises for 0.4 us: 0.2 us are lost of what takes longer. For 4 us: bytes that take 0.5248 us at full rate
  // are there after 2 root(0.5248 x 2) us, those of a third of them that the L2 lacks after 2 root(0.1756 x 2).
  gpu.attention.cold_s = 0.2e-6;
  CHECK(decode_s(gpu, shape) == Approx(0.7248e-6));
  gpu.attention.cold_s = 2e-6;
  CHECK(decode_s(gpu, shape) == Approx(2 * std::sqrt(0.5248e-6 * 2e-6)));
  gpu.l2_bytes = 393216;
  CHECK(decode_s(gpu, shape, {.resident = true}) == Approx(2 * std::sqrt(0.5248e-6 * (524800.0 / 393216 - 1) * 2e-6)));
  gpu.l2_bytes = 1 << 20;
  CHECK(decode_s(gpu, shape, {.resident = true}) < 1e-9);
  gpu.attention.cold_s = 0;
  // 10 tokens of 256 elements into the cache: keys and values read and written, 4 * 10 * 256 * 2 = 20,480 bytes at half
  // the bandwidth, and half of 1 ns a token.
  gpu.attention.cache_write = 0.5;
  gpu.attention.cache_token_cycles = 1;
  CHECK(tiled_cache_write(gpu, 10, 256, DType::fp16).time_s == Approx(40.96e-9 + 5e-9));
  CHECK(tiled_cache_write(gpu, 0, 256, DType::fp16).time_s == 0);
}

TEST_CASE("copies that turn heads into rows", "[unit]") {
  GpuParams gpu = bare();
  gpu.attention.regroup_cycles = 1000;
  const auto extra = [&](const AttentionDecode& shape) {
    GpuParams none = gpu;
    none.attention.regroup_cycles = 0;
    return decode_s(gpu, shape) - decode_s(none, shape);
  };
  CHECK(extra({4, 4 * 64, 4, 4, 128}) == 0);             // no grouped heads
  CHECK(extra({1, 64, 8, 2, 128}) == Approx(1e-6));      // one sequence: the outputs
  CHECK(extra({4, 4 * 64, 8, 1, 128}) == Approx(1e-6));  // one key head: rows lie as they are
  CHECK(extra({4, 4 * 64, 8, 2, 128}) == Approx(4e-6));
}

TEST_CASE("what is not the products' moves with the clock, the SMs and the partitions of the L2", "[unit]") {
  GpuParams gpu = bare();
  gpu.sms = 2;
  gpu.peak.fp16 = 2e12;
  gpu.attention.combine_cycles = 3000;
  gpu.attention.combine_split_cycles = 500;
  gpu.attention.regroup_cycles = 1000;
  gpu.attention.sequence_cycles = 10;
  gpu.attention.cache_token_cycles = 100;
  GpuParams fast = gpu;
  fast.clock_hz = 2e9;
  // Two query heads of one key head, two splits: 4000 clocks joined, one copy of 1000 and 10 of scheduling.
  const AttentionDecode shape{1, 256, 2, 1, 128};
  CHECK(decode_s(gpu, shape) == Approx(kBlockS + 5.01e-6));
  CHECK(decode_s(fast, shape) == Approx(kBlockS + 2.505e-6));
  const auto write_s = [](const GpuParams& on) { return tiled_cache_write(on, 1000, 512, DType::fp16).compute_s; };
  CHECK(write_s(gpu) == Approx(1000 * 100 / 1e9 / 2));
  CHECK(write_s(fast) == Approx(write_s(gpu) / 2));
  // 0.5 MiB of keys and values, read again: an L2 of 1 MiB holds them, two halves with a copy each a quarter less: of
  // 0.5 MiB up to resident_share 0.8, so 2 - 1 / 0.8 = 0.75 of them.
  GpuParams halves = bare();
  halves.memory_bandwidth = 1e6;
  halves.attention.resident_share = 0.8;
  const auto read_s = [&](std::int64_t partitions) {
    halves.l2_partitions = partitions;
    return tiled_decode(halves, {8, 8 * 128, 1, 1, 128}, DType::fp16, {.resident = true}).memory_s;
  };
  CHECK(read_s(1) < 1e-6);
  // Queries and outputs are 8 * 2 * 256 bytes beside 8 * 128 * 512.
  const double bytes = 8 * 128 * 512 + 8 * 2 * 256;
  CHECK(read_s(2) == Approx(bytes / 1e6 * (1 - (2 - bytes / (0.8 * (1 << 19))))));
}

TEST_CASE("the plan of FlashAttention-3", "[unit]") {
  GpuParams gpu = bare(AttentionLibrary::flash3);
  gpu.attention.sequence_cycles = 1;
  // Scheduling is paid for a sequence, up to 992 of them.
  const auto fixed = [&](std::int64_t sequences) {
    return tiled_decode(gpu, {sequences, sequences, 1, 1, 128}, DType::fp16).fixed_s;
  };
  CHECK(fixed(10) == Approx(10e-9));
  CHECK(fixed(5000) == Approx(992e-9));
  // A plan for twice the query heads of a key head has twice the tiles; the surplus works through all keys. 256 tokens:
  // two tiles of 1.504 blocks and two of two.
  const double s = tiled_prefill(gpu, prompts(1, 256, 1, 1), DType::fp16, {.plan_heads = 2, .plan_kv_heads = 1}).time_s;
  CHECK(s - 1e-9 == Approx(2 * kBlockS * norm4(2 * 192.5 / 128 + 4, 2)));
  // Only tiles with queries have a start: 1 us for each of two, and for the one that is waited for.
  gpu.attention.start_cycles = 1000;
  const double later =
      tiled_prefill(gpu, prompts(1, 256, 1, 1), DType::fp16, {.plan_heads = 2, .plan_kv_heads = 1}).time_s;
  const double b = 2 * kBlockS;
  CHECK(later - 1e-9 == Approx(norm4(2 * (1e-6 + 192.5 / 128 * b) + 4 * b, 1e-6 + 2 * b)));
}

TEST_CASE("splits and packing can be told", "[unit]") {
  const GpuParams gpu = bare(AttentionLibrary::flash3_sm80);
  const AttentionPrefill shape = prompts(1, 64, 4, 1);
  // 64 queries of four heads: four tiles of 128 rows, half empty; packed two heads a tile, two full ones.
  const double apart = tiled_prefill(gpu, shape, DType::fp16, {.pack = 1}).compute_s;
  const double packed = tiled_prefill(gpu, shape, DType::fp16, {.pack = 2}).compute_s;
  CHECK(packed < 0.6 * apart);
  GpuParams wide = bare();
  wide.sms = 4;
  wide.peak.fp16 = 4e12;
  CHECK(decode_s(wide, {1, 512, 1, 1, 128}, {.splits = 4}) == Approx(kBlockS));
  CHECK(decode_s(wide, {1, 512, 1, 1, 128}, {.splits = 100}) == Approx(kBlockS));  // no more than blocks of keys
}

TEST_CASE("contexts of unequal length wait for the longest", "[prop]") {
  for (const char* name : {"a100-sxm4-80gb", "h100-sxm5-80gb", "l40s"}) {
    const GpuParams gpu = part(name);
    AttentionDecode shape{32, 32 * 2048, 32, 8, 128};
    const double even = decode_s(gpu, shape);
    double last = 0;
    for (const std::int64_t longest : {4096, 8192, 32768}) {
      shape.longest = longest;
      const double s = decode_s(gpu, shape);
      INFO(name << " longest " << longest);
      CHECK(s > 0.9 * even);
      CHECK(s >= last);
      last = s;
    }
    shape.longest = 0;
    shape.context_tokens += 1;  // a sum that does not divide changes nothing much
    CHECK(decode_s(gpu, shape) == Approx(even).epsilon(0.1));
  }
}

TEST_CASE("attention of random shapes", "[prop]") {
  std::mt19937_64 random(7);
  const auto draw = [&](std::int64_t most) {
    return static_cast<std::int64_t>(std::exp(std::uniform_real_distribution(0.0, std::log(double(most)))(random)));
  };
  for (const char* name :
       {"a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "l40s", "b200-sxm", "jetson-agx-orin"}) {
    const GpuParams gpu = part(name);
    GpuParams faster = gpu;
    faster.clock_hz *= 2;
    for (int i = 0; i < 300; ++i) {
      const std::int64_t sequences = draw(500), tokens = draw(20000), kv_heads = draw(16), heads = kv_heads * draw(16);
      const std::int64_t dim = std::array{64, 96, 128, 192, 256, 512}[static_cast<std::size_t>(i) % 6];
      const AttentionDecode decode{sequences, sequences * tokens, heads, kv_heads, dim};
      const AttentionPrefill prefill = prompts(sequences, tokens, heads, kv_heads, dim);
      INFO(name << " " << sequences << " x " << tokens << ", " << heads << "/" << kv_heads << " heads of " << dim);
      const TiledTime d = tiled_decode(gpu, decode, DType::bf16), p = tiled_prefill(gpu, prefill, DType::bf16);
      for (const TiledTime& t : {d, p}) {
        CHECK(std::isfinite(t.time_s));
        CHECK(t.time_s > t.fixed_s);
        CHECK(t.dram_bytes > 0);
      }
      // Operands that stay in the cache, a faster clock, fewer key heads for as many queries: never slower.
      CHECK(tiled_decode(gpu, decode, DType::bf16, {.resident = true}).time_s <= d.time_s);
      CHECK(tiled_prefill(gpu, prefill, DType::bf16, {.resident = true}).time_s <= p.time_s);
      CHECK(tiled_prefill(faster, prefill, DType::bf16).time_s <= p.time_s);
      // A full mask is not cheaper than a causal one.
      AttentionPrefill full = prefill;
      full.causal = false;
      full.pairs = sequences * tokens * tokens;
      CHECK(tiled_prefill(gpu, full, DType::bf16).time_s >= p.time_s * (1 - 1e-9));
    }
  }
}

TEST_CASE("published rates of attention on H100", "[golden]") {
  const GpuParams gpu = part("h100-sxm5-80gb");
  const auto tflops = [&](const Kernel& kernel, double s) { return work_of(kernel).flops / s * 1e-12; };
  // FlashAttention-3 (arXiv:2407.08608, fig. 5, 6): 16k tokens, causal: about 500 TFLOP/s at head dimension 64, 600 to
  // 650 at 128, up to 750 at 256, with contiguous keys.
  for (const auto& [dim, least, most] : {std::tuple{64, 420.0, 560.0}, {128, 560.0, 700.0}, {256, 640.0, 780.0}}) {
    const AttentionPrefill shape = prompts(1, 16384, 2048 / dim, 2048 / dim, dim);
    const Kernel kernel{OpClass::attention_prefill, DType::bf16, shape};
    INFO("head dimension " << dim);
    CHECK(tflops(kernel, tiled_prefill(gpu, shape, DType::bf16).time_s) > least);
    CHECK(tflops(kernel, tiled_prefill(gpu, shape, DType::bf16).time_s) < most);
  }
  // FlashMLA (deepseek-ai/FlashMLA README, April 2025; H800 SXM5): up to 660 TFLOP/s where compute bounds latent
  // decode. Nothing of this model was fitted to it.
  const AttentionDecode latent{.sequences = 128,
                               .context_tokens = 128 * 8192,
                               .heads = 128,
                               .kv_heads = 1,
                               .head_dim = 576,
                               .value_dim = 512,
                               .latent = true};
  const Kernel kernel{OpClass::attention_decode, DType::bf16, latent};
  const double rate = tflops(kernel, tiled_decode(gpu, latent, DType::bf16).time_s);
  CHECK(rate > 0.75 * 660);
  CHECK(rate < 1.1 * 660);
}

TEST_CASE("decodes beside a chunk read their contexts once a query head that runs apart", "[unit]") {
  // RTX 4090: 128 SMs with one thread block each (80 KB of tiles in 100 KB). 4 query heads a key head.
  const GpuParams gpu = part("rtx-4090");
  const AttentionPrefill chunk{1, 16, 16400, 16 * 16384 + 136, 1, 32, 8, 128};
  const double chunk_bytes = tiled_prefill(gpu, chunk, DType::bf16).dram_bytes;
  const auto reads = [&](std::int64_t sequences, std::int64_t context) {
    const AttentionDecode decodes{sequences, sequences * context, 32, 8, 128};
    const double once = tiled_decode(gpu, decodes, DType::bf16).dram_bytes;
    return (tiled_mixed(gpu, chunk, decodes, DType::bf16).dram_bytes - chunk_bytes) / once;
  };
  CHECK(reads(32, 16384) == Approx(1));   // 4 * 32 thread blocks run together
  CHECK(reads(64, 16384) == Approx(2));   // two heads at a time
  CHECK(reads(128, 16384) == Approx(4));  // head after head; 128 * 16384 * 512 bytes of a key head are 1 GiB
  CHECK(reads(128, 16) == Approx(1));     // 1 MiB stays in the L2
}

TEST_CASE("a launch over chunk and decodes is either alone where the other is empty, and no shorter than both",
          "[prop]") {
  for (const char* name : {"rtx-4090", "a100-sxm4-80gb", "h100-sxm5-80gb"}) {
    const GpuParams gpu = part(name);
    const AttentionPrefill chunk{1, 256, 1280, 256 * 1024 + 256 * 257 / 2, 2, 32, 8, 128};
    const AttentionDecode decodes{16, 16 * 2000, 32, 8, 128};
    CHECK(tiled_mixed(gpu, chunk, {}, DType::bf16).time_s == tiled_prefill(gpu, chunk, DType::bf16).time_s);
    CHECK(tiled_mixed(gpu, {}, decodes, DType::bf16).time_s == tiled_decode(gpu, decodes, DType::bf16).time_s);
    const double both_s = tiled_mixed(gpu, chunk, decodes, DType::bf16).time_s;
    CHECK(both_s > tiled_prefill(gpu, chunk, DType::bf16).time_s);
    double last_s = 0;
    for (const std::int64_t context : {16, 256, 4096, 16384}) {
      const double s = tiled_mixed(gpu, chunk, {16, 16 * context, 32, 8, 128}, DType::bf16).time_s;
      CHECK(s >= last_s);
      last_s = s;
    }
  }
}

namespace {

/// The gradient of a causal prompt of 128 tokens in one sequence, `heads` query heads over `kv_heads`.
AttentionPrefill gradient(std::int64_t heads, std::int64_t kv_heads) {
  return {.sequences = 1,
          .q_tokens = 128,
          .kv_tokens = 128,
          .pairs = 128 * 129 / 2,
          .q_tiles = 1,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 128,
          .backward = true};
}

/// Nothing but the FLOPs of a gradient costs.
GpuParams bare_gradient() {
  GpuParams gpu = bare();
  gpu.attention.gradient_start_cycles = gpu.attention.gradient_add = gpu.attention.gradient_tail = 0;
  gpu.stream.fixed_s = gpu.stream.latency_s = gpu.stream.miss_latency_s = 0;
  return gpu;
}

double gradient_s(const GpuParams& gpu, const AttentionPrefill& shape) {
  return tiled_prefill(gpu, shape, DType::fp16).time_s;
}

}  // namespace

TEST_CASE("a gradient's thread block keeps keys and makes five products with the queries that see them", "[unit]") {
  GpuParams gpu = bare_gradient();
  // A block of 64 queries and 128 keys: 5 products of 2 * 64 * 128 * 128 FLOPs, 10.49 us at 1e12 a second. 128 keys
  // are one thread block a head, which walks over both blocks of queries: 1,000 heads in turn.
  const double block_s = 5 * 2.0 * 64 * 128 * 128 / 1e12;
  CHECK(gradient_s(gpu, gradient(1000, 1000)) == Approx(2000 * block_s).epsilon(1e-6));
  // Not causal, the same two blocks; twice the keys, twice the thread blocks.
  AttentionPrefill full = gradient(1000, 1000);
  full.causal = false;
  full.kv_tokens = 256;
  full.pairs = 128 * 256;
  CHECK(gradient_s(gpu, full) == Approx(4000 * block_s).epsilon(1e-6));
  // A thousand clocks of 1 ns each thread block.
  gpu.attention.gradient_start_cycles = 1000;
  CHECK(gradient_s(gpu, gradient(1000, 1000)) == Approx(2000 * block_s + 1000e-6).epsilon(1e-6));
  gpu.attention.gradient_start_cycles = 0;
  // Sums of 64 queries, 128 numbers of 4 bytes each, go to an L2 of 1e12 bytes a second: 32.8 ns a block.
  gpu.attention.gradient_add = 1;
  gpu.l2_bandwidth = 1e12;
  gpu.l2_bytes = 1;  // passes go to the memory, which costs nothing
  CHECK(gradient_s(gpu, gradient(1000, 1000)) == Approx(2000 * (block_s + 64 * 128 * 4 / 1e12)).epsilon(1e-5));
}

TEST_CASE("in a window a gradient's thread block ends at its last key's last query", "[unit]") {
  // 128 keys are seen by 120.06 queries each in the mean, all of them by 64 more, and by 64 more again but for the last
  // block: 240.06 / 64 = 3.751 blocks for each of eight thread blocks a head (counted: 4 for seven, 2 for the last,
  // 3.75); the longest has four.
  const GpuParams gpu = bare_gradient();
  const double block_s = 5 * 2.0 * 64 * 128 * 128 / 1e12, blocks = (122944.0 / 1024 + 64 * (1 + 896.0 / 1024)) / 64;
  AttentionPrefill many = in_window(1000), one = in_window(1);
  many.backward = one.backward = true;
  CHECK(gradient_s(gpu, many) == Approx(8000 * blocks * block_s).epsilon(1e-6));
  GpuParams waits = gpu;
  waits.attention.gradient_tail = 1;
  waits.sms = 4;
  waits.peak.fp16 = 4e12;
  CHECK(gradient_s(waits, one) == Approx(block_s * norm4(8 * blocks / 4 + (1 - 4.0 / 8) * 4, 4)).epsilon(1e-6));
  AttentionPrefill wide = prompts(1, 1024, 1, 1);
  wide.backward = true;
  const double all_s = gradient_s(waits, wide);
  wide.window = 1024;
  CHECK(gradient_s(waits, wide) == all_s);
}

TEST_CASE("query heads that share keys add two passes to a gradient", "[unit]") {
  GpuParams gpu = bare_gradient();
  const double alone_s = gradient_s(gpu, gradient(1000, 1000));
  gpu.launch_graph_s = 1e-3;  // of each kernel beside the main one, whose launch is not in the time
  CHECK(gradient_s(gpu, gradient(1000, 1000)) - alone_s == Approx(2e-3));
  CHECK(gradient_s(gpu, gradient(1000, 250)) - alone_s == Approx(4e-3));
}

TEST_CASE("a gradient of nothing takes no time, and of more tokens no less", "[prop]") {
  const GpuParams gpu = part("h100-sxm5-80gb");
  CHECK(tiled_attention_gradient(gpu, {}, DType::bf16).time_s == 0);
  double before = 0;
  for (std::int64_t tokens = 1; tokens <= 1 << 14; tokens *= 2) {
    AttentionPrefill a = gradient(16, 4);
    a.q_tokens = a.kv_tokens = tokens;
    a.pairs = tokens * (tokens + 1) / 2;
    const double now = gradient_s(gpu, a);
    CHECK(now >= before);
    AttentionPrefill forward = a;
    forward.backward = false;
    CHECK(now > gradient_s(gpu, forward));
    before = now;
  }
}

TEST_CASE("FlashAttention-2 is another set of constants where it is not the part's own library", "[unit]") {
  const GpuParams hopper = part("h100-sxm5-80gb"), ampere = part("a100-sxm4-80gb");
  const GpuParams second = with_attention(hopper, AttentionLibrary::flash2);
  CHECK(second.attention.library == AttentionLibrary::flash2);
  CHECK(second.attention.efficiency == hopper.flash2.efficiency);
  CHECK(with_attention(hopper, AttentionLibrary::flash3).attention.efficiency == hopper.attention.efficiency);
  CHECK(with_attention(ampere, AttentionLibrary::flash2).attention.efficiency == ampere.attention.efficiency);
}

}  // namespace test_attention
