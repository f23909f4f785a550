#include "hw/tiled/grouped.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "hw/base/expert_rows.hpp"
#include "hw/base/kernel_builders.hpp"
#include "tests/hw/parts.hpp"

namespace test_tiled_grouped {

using namespace orrery::hw;
using orrery::hw::test::part;

namespace {

using Rows = std::vector<std::int64_t>;

std::int64_t sum(const Rows& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

constexpr MoeLayer kLayer{.tokens = 64, .hidden = 2048, .intermediate = 768, .top_k = 8};

double layer_s(const GpuParams& gpu, MoeLayer layer, std::int64_t experts, ExpertLoad load = {},
               Weights weights = Weights::cold) {
  return moe_layer_time(gpu, layer, expert_rows(layer.tokens, layer.top_k, experts, 1, load), DType::bf16, weights);
}

}  // namespace

TEST_CASE("balanced rows by hand", "[unit]") {
  // 4 experts, 2 of them a token, stride 2. Three tokens: choice 0 goes to 0, 1, 2, choice 1 to 2, 3, 0.
  CHECK(expert_rows(3, 2, 4, 1, {}) == Rows{2, 1, 2, 1});
  CHECK(expert_rows(4, 2, 4, 1, {}) == Rows{2, 2, 2, 2});
  CHECK(expert_rows(4, 2, 4, 2, {}) == Rows{2, 2});  // the first of two ranks
  // One token, fewer than the stride: experts 0 and 2.
  CHECK(expert_rows(1, 2, 4, 1, {}) == Rows{1, 0, 1, 0});
  CHECK(expert_rows(0, 2, 4, 1, {}) == Rows{0, 0, 0, 0});
}

TEST_CASE("rows add up and no expert gets a token twice", "[prop]") {
  for (const double exponent : {0.0, 0.5, 1.0, 1.01, 1.2, 2.0})
    for (const std::int64_t tokens : {1, 2, 7, 33, 500, 16384})
      for (const auto& [top_k, experts] : {std::pair<std::int64_t, std::int64_t>{1, 16}, {2, 8}, {8, 256}, {8, 8}}) {
        const Rows rows = expert_rows(tokens, top_k, experts, 1, {exponent});
        INFO(exponent << " " << tokens << " " << top_k << " of " << experts);
        CHECK(sum(rows) == tokens * top_k);
        CHECK(*std::max_element(rows.begin(), rows.end()) <= tokens + 1);  // rounding may add one
        CHECK(*std::min_element(rows.begin(), rows.end()) >= 0);
        for (const std::int64_t ranks : {std::int64_t{2}, experts}) {
          const Rows held = expert_rows(tokens, top_k, experts, ranks, {exponent});
          CHECK(static_cast<std::int64_t>(held.size()) == experts / ranks);
          if (exponent > 0) CHECK(sum(held) * ranks >= tokens * top_k);  // the heaviest is no lighter than the mean
        }
      }
}

TEST_CASE("a steeper power law is less even", "[prop]") {
  std::int64_t before = 0;
  for (const double exponent : {0.0, 1.01, 1.2}) {
    const Rows rows = expert_rows(1000, 8, 128, 1, {exponent});
    const std::int64_t most = *std::max_element(rows.begin(), rows.end());
    CHECK(most > before);
    before = most;
  }
}

TEST_CASE("faults of expert rows", "[unit]") {
  CHECK_THROWS_WITH(expert_rows(-1, 1, 1, 1, {}), "expert_rows: tokens must not be negative");
  CHECK_THROWS_WITH(expert_rows(1, 3, 2, 1, {}), "expert_rows: top_k must be between 1 and the number of experts");
  CHECK_THROWS_WITH(expert_rows(1, 1, 2, 3, {}), "expert_rows: ranks must be between 1 and the number of experts");
}

TEST_CASE("a grouped product by hand", "[unit]") {
  // One SM of 1 TFLOP/s, everything else free: a group of 128 rows, n = k = 128 takes 2*128^3 / 1e12 s in a tile of 128
  // rows; 128 groups of one row fill at best a tile of 16 rows each, which uses a quarter of a matrix instruction.
  GpuParams gpu;
  gpu.peak.bf16 = 1e12;
  gpu.sms = 1;
  gpu.clock_hz = 1e9;
  gpu.memory_bandwidth = gpu.l2_bandwidth = 1e18;
  gpu.moe = {.efficiency = 1, .memory_efficiency = 1, .cta_bandwidth = 1e18, .block_start_s = 0, .l2_delivery = 1};
  const auto plan = [&](const Rows& rows) { return plan_grouped(gpu, grouped_gemm(rows, 128, 128), DType::bf16); };
  CHECK(plan({128}).tile_m == 128);
  CHECK(plan({128}).time.time_s == Approx(2.0 * 128 * 128 * 128 / 1e12));
  CHECK(plan(Rows(128, 1)).tile_m == 16);
  CHECK(plan(Rows(128, 1)).time.time_s == Approx(128 * 2.0 * 16 * 128 * 128 / 0.25e12));
  CHECK(plan({}).time.time_s == 0);
  // Sizes that are no multiple of 16 load element by element: 8 tiles of 16 x 32 ... the cheapest one wins, none is
  // free.
  gpu.moe.unaligned_rate = 1e-3;
  const double narrow_s = plan_grouped(gpu, grouped_gemm(Rows{128}, 120, 128), DType::bf16).time.time_s;
  CHECK(narrow_s > 100 * plan({128}).time.time_s);
  CHECK(plan({128}).time.time_s == Approx(2.0 * 128 * 128 * 128 / 1e12));
}

TEST_CASE("few tokens are bound by the weights of the experts they wake", "[prop]") {
  const GpuParams gpu = part("h100-sxm5-80gb");
  // 256 tokens of 8 choices wake all of 128 experts: 128 * 3 * 2048 * 768 * 2 bytes = 1.21 GB, 361 us at 3.35 TB/s.
  MoeLayer layer = kLayer;
  layer.tokens = 256;
  const double all_s = layer_s(gpu, layer, 128);
  CHECK(all_s > 361e-6);
  CHECK(all_s < 1.5 * 361e-6);
  // One token wakes 8 of them, a sixteenth of the weights.
  layer.tokens = 1;
  CHECK(layer_s(gpu, layer, 128) < all_s / 5);
  // An uneven load wakes fewer experts: faster for few tokens, slower for many.
  layer.tokens = 32;
  CHECK(layer_s(gpu, layer, 128, {1.2}) < layer_s(gpu, layer, 128));
  layer.tokens = 16384;
  CHECK(layer_s(gpu, layer, 128, {1.2}) >= layer_s(gpu, layer, 128));
}

TEST_CASE("a MoE layer costs more with more of anything", "[prop]") {
  for (const char* name : {"h100-sxm5-80gb", "h200-sxm-141gb", "a100-sxm4-80gb", "b200-sxm"}) {
    const GpuParams gpu = part(name);
    double before = 0;
    for (const std::int64_t tokens : {1, 2, 4, 16, 64, 256, 1024, 4096, 16384}) {
      MoeLayer layer = kLayer;
      layer.tokens = tokens;
      const double s = layer_s(gpu, layer, 128);
      INFO(name << " " << tokens);
      CHECK(s >= 0.97 * before);
      CHECK(layer_s(gpu, layer, 128, {}, Weights::hot) <= s);
      before = s;
      layer.expert_parallel = true;
      CHECK(layer_s(gpu, layer, 128) > s);
      layer.hidden *= 2;
      CHECK(layer_s(gpu, layer, 128) > s);
    }
  }
  MoeLayer none = kLayer;
  none.tokens = 0;
  CHECK(moe_layer_time(part("h100-sxm5-80gb"), none, {}, DType::bf16) == 0);
}

}  // namespace test_tiled_grouped
