#include "hw/tiled/shapes.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "hw/base/kernel_builders.hpp"
#include "tests/hw/parts.hpp"

namespace test_tiled_shapes {

using namespace orrery::hw;
using orrery::hw::test::model;
using orrery::hw::test::part;

namespace {

const std::vector<const char*> kParts{"a100-sxm4-80gb", "h100-sxm5-80gb", "a40", "mi210", "jetson-agx-orin"};

Conv conv(std::int64_t batch, std::int64_t channels, std::int64_t size, std::int32_t kernel) {
  Conv c{.batch = batch, .in_channels = channels, .out_channels = channels, .height = size, .width = size};
  c.kernel_height = c.kernel_width = kernel;
  c.pad = kernel / 2;
  return c;
}

std::vector<Kernel> every_shape(std::int64_t scale) {
  std::vector<std::int64_t> rows(16, scale);
  std::vector<Kernel> all{
      {OpClass::expert_up, DType::bf16, grouped_gemm(rows, 1024, 512)},
      {OpClass::sparse, DType::fp32,
       Sparse{SparseKind::spmm, 1000 * scale, 1000 * scale, 9000 * scale, 64, 50 * scale}},
      {OpClass::sparse, DType::fp16, Sparse{SparseKind::sddmm, 1000 * scale, 1000 * scale, 9000 * scale, 64}},
      {OpClass::fft, DType::fp16, Fft{FftKind::complex_to_complex, 256, 256, scale}},
      {OpClass::fft, DType::fp32, Fft{FftKind::real_to_complex, 1000, 1, scale}},
      {OpClass::conv, DType::fp16, conv(scale, 64, 56, 3)},
      {OpClass::softmax, DType::fp16, softmax_kernel(scale, 4096, DType::fp16).shape},
      optimizer_kernel(Optimizer::adamw, 1000 * scale, true, DType::bf16, DType::bf16),
      router_kernel(scale, 128, 8, DType::bf16),
  };
  const Kernel gemm{OpClass::ffn_up, DType::fp16, Gemm{scale, 512, 256}};
  all.push_back(fuse(std::vector<Kernel>{gemm, activation_kernel(Activation::gelu, false, scale, 512, DType::fp16)},
                     std::vector<std::int64_t>{scale * 1024}));
  return all;
}

}  // namespace

TEST_CASE("both models answer every kernel, more work at no less", "[prop]") {
  for (const char* name : kParts) {
    const auto tiled = model("tiled", part(name)), roofline = model("roofline", part(name));
    std::vector<double> before(10, 0);
    for (const std::int64_t scale : {1, 3, 20, 100, 3000}) {
      const std::vector<Kernel> all = every_shape(scale);
      REQUIRE(all.size() == before.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        INFO(name << " kernel " << i << " scale " << scale);
        const Cost cost = tiled->cost(all[i]), bound = roofline->cost(all[i]);
        const Work work = work_of(all[i]);
        CHECK(std::isfinite(cost.time_s));
        CHECK(cost.time_s >= 0.97 * before[i]);
        CHECK(cost.flops == work.flops);
        CHECK(bound.flops == work.flops);
        CHECK(cost.dram_bytes >= work.read_bytes + work.write_bytes);
        CHECK(bound.time_s > 0);
        before[i] = cost.time_s;
      }
    }
  }
}

TEST_CASE("nothing costs nothing in any shape", "[unit]") {
  const auto tiled = model("tiled", part("a100-sxm4-80gb")), roofline = model("roofline", part("a100-sxm4-80gb"));
  for (const KernelShape& shape :
       std::vector<KernelShape>{GroupedGemm{}, Sparse{}, Fft{}, Conv{}, Fused{}, Streaming{}}) {
    CHECK(tiled->cost({OpClass::copy, DType::fp16, shape}).time_s == 0);
    CHECK(roofline->cost({OpClass::copy, DType::fp16, shape}).time_s == 0);
  }
}

TEST_CASE("passes of a transform", "[unit]") {
  // 164 KiB an SM: half of it holds 10,496 complex numbers of 8 bytes.
  GpuParams gpu = part("a100-sxm4-80gb");
  gpu.l1_bytes = 164 * 1024;
  const auto plan = [&](std::int64_t n0, std::int64_t n1) {
    return plan_fft(gpu, Fft{FftKind::complex_to_complex, n0, n1, 1});
  };
  CHECK(plan(8192, 1).passes == 1);
  CHECK(plan(16384, 1).passes == 2);
  CHECK(plan(1 << 26, 1).passes == 2);
  CHECK(plan(1 << 27, 1).passes == 3);
  CHECK(plan(64, 64).passes == 1);    // 4,096 points fit whole
  CHECK(plan(512, 512).passes == 2);  // an axis each
  CHECK(plan(1000, 1).work == 1);     // 2^3 5^3
  // 17 is prime beyond the built-in radices: three transforms of 64 >= 2*17 - 1 points.
  CHECK(plan(17, 1).work == Approx(3.0 * 64 / 17));
}

TEST_CASE("a 1x1 convolution is a product", "[unit]") {
  const Gemm gemm = implicit_gemm(conv(2, 64, 14, 1));
  CHECK(gemm.m == 2 * 14 * 14);
  CHECK(gemm.n == 64);
  CHECK(gemm.k == 64);
  CHECK(gemm.batch == 1);
  Conv grouped = conv(2, 64, 14, 3);
  grouped.groups = 4;
  const Gemm four = implicit_gemm(grouped);
  CHECK(four.n == 16);
  CHECK(four.k == 16 * 9);
  CHECK(four.batch == 4);
}

TEST_CASE("a large 3x3 convolution runs near the rate of products", "[prop]") {
  const GpuParams gpu = part("a100-sxm4-80gb");
  const Conv c = conv(64, 512, 28, 3);
  const Work work = work_of({OpClass::conv, DType::fp16, c});
  const double rate = work.flops / model("tiled", gpu)->cost({OpClass::conv, DType::fp16, c}).time_s;
  CHECK(rate > 0.5 * gpu.peak.fp16);
  CHECK(rate < 0.9 * gpu.peak.fp16);
}

TEST_CASE("a gathered operand that fits the cache is read once", "[unit]") {
  const GpuParams gpu = part("a100-sxm4-80gb");
  const auto traffic = [&](std::int64_t columns) {
    const Sparse s{SparseKind::spmm, columns, columns, 10 * columns, 64};
    const Work work = work_of({OpClass::sparse, DType::fp32, s});
    return tiled_sparse(gpu, s, DType::fp32).dram_bytes / (work.read_bytes + work.write_bytes);
  };
  CHECK(traffic(1000) == Approx(1).epsilon(1e-3));  // 256 KB
  CHECK(traffic(10'000'000) > 3);                   // 2.6 GB: ten gathers of each row
  // One row with all entries is one warp's work.
  const Sparse even{SparseKind::spmm, 100'000, 100'000, 1'000'000, 32, 10};
  Sparse skewed = even;
  skewed.longest_row = 900'000;
  CHECK(tiled_sparse(gpu, skewed, DType::fp32).time_s > 10 * tiled_sparse(gpu, even, DType::fp32).time_s);
}

TEST_CASE("fusing an epilogue saves a launch and a round trip", "[prop]") {
  for (const char* name : kParts) {
    const auto tiled = model("tiled", part(name));
    const Kernel gemm{OpClass::ffn_up, DType::fp16, Gemm{4096, 4096, 512}};
    const Kernel relu = activation_kernel(Activation::relu, false, 4096, 4096, DType::fp16);
    const Kernel both = fuse(std::vector<Kernel>{gemm, relu}, std::vector<std::int64_t>{4096 * 4096 * 2});
    CHECK(tiled->cost(both).time_s < tiled->cost(gemm).time_s + tiled->cost(relu).time_s);
  }
}

}  // namespace test_tiled_shapes
