// FLOPs and bytes of every kernel, counted by hand.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "hw/base/kernel_builders.hpp"

namespace test_kernel_builders {

using namespace orrery::hw;

namespace {

void check(const Kernel& kernel, double flops, double read_bytes, double write_bytes) {
  const Work work = work_of(kernel);
  INFO(to_string(kernel.op) << " " << kernel.shape.index());
  CHECK(work.flops == flops);
  CHECK(work.read_bytes == read_bytes);
  CHECK(work.write_bytes == write_bytes);
}

}  // namespace

TEST_CASE("passes over memory by hand", "[unit]") {
  constexpr DType h = DType::fp16;
  // 3 rows of 8: a tensor of 24 elements, 48 bytes.
  SECTION("norms") {
    // RMS: 3 * (4*8 + 4) = 108; reads the tensor and 8 weights. Layer: 3 * (7*8 + 5) = 183; 8 weights and 8 biases.
    check(norm_kernel(Norm::rms, 3, 8, h), 108, 48 + 16, 48);
    check(norm_kernel(Norm::layer, 3, 8, h), 183, 48 + 32, 48);
    check(norm_kernel(Norm::rms, 0, 8, h), 0, 0, 0);
  }
  SECTION("softmax") {
    check(softmax_kernel(3, 8, DType::fp32), 5 * 24, 96, 96);
  }
  SECTION("activations") {
    check(activation_kernel(Activation::relu, false, 3, 8, h), 24, 48, 48);
    check(activation_kernel(Activation::gelu, false, 3, 8, h), 9 * 24, 48, 48);
    check(activation_kernel(Activation::silu, true, 3, 8, h), 5 * 24, 96, 48);  // 4 and the product with the gate
  }
  SECTION("rotary embedding") {
    // 5 tokens, 4 query and 2 key heads, 6 of their dimensions: 180 elements, and 5 * 6 sines and cosines.
    check(rope_kernel(5, 4, 2, 6, h), 540, 360 + 60, 360);
  }
  SECTION("residual, copy") {
    check(residual_kernel(3, 8, h), 24, 96, 48);
    check(copy_kernel(1000), 0, 1000, 1000);
  }
  SECTION("rows by index") {
    check(embedding_kernel(3, 8, h), 0, 48 + 12, 48);  // three ids of 4 bytes
    check(gather_kernel(3, 8, h), 0, 48 + 12, 48);
    check(scatter_kernel(3, 8, false, h), 0, 48 + 12, 48);
    check(scatter_kernel(3, 8, true, h), 24, 96 + 12, 48);
  }
  SECTION("sampling") {
    check(sampling_kernel(2, 100, true, h), 200, 400, 8);
    check(sampling_kernel(2, 100, false, h), 1600, 400, 8);
  }
  SECTION("quantisation") {
    // 2 rows of 10 in blocks of 4: 3 scales a row. fp16 40 bytes in; fp8 20 bytes and 6 scales of 4 bytes out.
    check(quantise_kernel(2, 10, 4, h, DType::fp8), 4 * 20 + 6, 40, 20 + 24);
    check(dequantise_kernel(2, 10, 4, DType::fp8, h), 20, 20 + 24, 40);
  }
  SECTION("mixture of experts") {
    check(router_kernel(3, 16, 2, h), 3 * 16 * 7, 96, 3 * 2 * 8);
    check(combine_kernel(3, 2, 8, h), 2 * 2 * 24, 2 * 48 + 3 * 2 * 4, 48);
  }
}

TEST_CASE("optimizer steps by hand", "[unit]") {
  // 10 weights. fp16 without a master copy: SGD reads weight and gradient (4 bytes), writes the weight (2).
  check(optimizer_kernel(Optimizer::sgd, 10, false, DType::fp16, DType::fp16), 20, 40, 20);
  // Momentum adds 4 bytes read and written.
  check(optimizer_kernel(Optimizer::sgd_momentum, 10, false, DType::fp16, DType::fp16), 40, 80, 60);
  // Mixed-precision Adam: fp32 master and two states read (12) with the 2-byte gradient; 12 and the fp16 weight
  // written.
  check(optimizer_kernel(Optimizer::adam, 10, true, DType::fp16, DType::fp16), 140, 140, 140);
  check(optimizer_kernel(Optimizer::adamw, 10, true, DType::bf16, DType::fp32), 160, 160, 140);
}

TEST_CASE("grouped products by hand", "[unit]") {
  // Rows 1, 0, 17, 130: three groups, 148 rows. Tiles of 16: 1 + 2 + 9; of 32: 1 + 1 + 5; of 64: 1 + 1 + 3; of 128: 1 +
  // 1 + 2.
  const std::vector<std::int64_t> rows{1, 0, 17, 130};
  const GroupedGemm g = grouped_gemm(rows, 6, 4);
  CHECK(g.groups == 3);
  CHECK(g.rows == 148);
  CHECK(g.max_rows == 130);
  CHECK(g.row_tiles == std::array<std::int64_t, 4>{12, 7, 5, 4});
  // 2*148*6*4 FLOPs; reads (148*4 + 3*4*6) * 2 bytes, writes 148*6*2.
  check({OpClass::expert_up, DType::fp16, g}, 7104, 1328, 1776);
  check({OpClass::expert_up, DType::fp16, grouped_gemm({}, 6, 4)}, 0, 0, 0);
}

TEST_CASE("a grouped product of one group is a product", "[prop]") {
  for (const std::int64_t m : {1, 100, 4097}) {
    const Work one = work_of({OpClass::expert_up, DType::bf16, grouped_gemm(std::vector<std::int64_t>{m}, 96, 64)});
    const Work gemm = work_of({OpClass::ffn_up, DType::bf16, Gemm{m, 96, 64}});
    CHECK(one.flops == gemm.flops);
    CHECK(one.read_bytes == gemm.read_bytes);
    CHECK(one.write_bytes == gemm.write_bytes);
  }
}

TEST_CASE("sparse products by hand", "[unit]") {
  // 3 x 5 with 4 entries, 8 dense columns, fp16, 4-byte indices. Pattern: 4 * 4 + (3 + 1) * 4 = 32 bytes.
  Sparse s{.kind = SparseKind::spmm, .rows = 3, .columns = 5, .nonzeros = 4, .width = 8};
  // SpMM: 2*4*8 FLOPs; values 8 bytes; at most 4 of the 5 rows of B are touched: 4*8*2 = 64; writes 3*8*2.
  check({OpClass::sparse, DType::fp16, s}, 64, 32 + 8 + 64, 48);
  // SDDMM: rows of A 3*8*2 = 48, of B 64; writes 4 values.
  s.kind = SparseKind::sddmm;
  check({OpClass::sparse, DType::fp16, s}, 64, 32 + 48 + 64, 8);
  s.nonzeros = 0;
  check({OpClass::sparse, DType::fp16, s}, 0, 0, 0);
  // An empty matrix times a dense one still writes zeros, and reads its row pointers.
  s.kind = SparseKind::spmm;
  check({OpClass::sparse, DType::fp16, s}, 0, 16, 48);
}

TEST_CASE("Fourier transforms by hand", "[unit]") {
  // 2 transforms of 8 complex points: 5 * 16 * 3 = 240 FLOPs; 16 complex numbers of 4 bytes in complex-half.
  check({OpClass::fft, DType::fp16, Fft{FftKind::complex_to_complex, 8, 1, 2}}, 240, 64, 64);
  check({OpClass::fft, DType::fp32, Fft{FftKind::complex_to_complex, 8, 1, 2}}, 240, 128, 128);
  // Real: half the FLOPs; 16 reals of 2 bytes in, 2 * (8/2 + 1) complex numbers of 4 bytes out. Back: the other way.
  check({OpClass::fft, DType::fp16, Fft{FftKind::real_to_complex, 8, 1, 2}}, 120, 32, 40);
  check({OpClass::fft, DType::fp16, Fft{FftKind::complex_to_real, 8, 1, 2}}, 120, 40, 32);
  // 4 x 8: 32 points, log2 32 = 5: 5*32*5 = 800; the real form keeps 4 * (8/2 + 1) = 20 complex numbers.
  check({OpClass::fft, DType::fp32, Fft{FftKind::complex_to_complex, 4, 8, 1}}, 800, 256, 256);
  check({OpClass::fft, DType::fp32, Fft{FftKind::real_to_complex, 4, 8, 1}}, 400, 128, 160);
  check({OpClass::fft, DType::fp32, Fft{}}, 0, 0, 0);
}

TEST_CASE("convolutions by hand", "[unit]") {
  // 2 images of 3 channels, 5 x 7; 4 kernels of 3 x 3, stride 2, pad 1: (5+2-3)/2+1 = 3 rows, (7+2-3)/2+1 = 4 columns.
  Conv c{.batch = 2, .in_channels = 3, .out_channels = 4, .height = 5, .width = 7};
  c.kernel_height = c.kernel_width = 3;
  c.stride = 2;
  c.pad = 1;
  CHECK(c.out_height() == 3);
  CHECK(c.out_width() == 4);
  // Outputs 2*4*3*4 = 96, taps 3*9 = 27: 5184 FLOPs; reads (2*3*35 + 4*27) * 2 = 636 bytes, writes 192.
  check({OpClass::conv, DType::fp16, c}, 5184, 636, 192);
  // Depthwise: 4 channels in 4 groups of one, 9 taps each.
  c.in_channels = c.groups = 4;
  check({OpClass::conv, DType::fp16, c}, 2.0 * 96 * 9, (2 * 4 * 35 + 4 * 9) * 2, 192);
  // A kernel larger than the padded image has no output; dilation widens it: 1 + 4 (3-1) = 9 > 5 + 2.
  c.dilation = 4;
  CHECK(c.out_height() == 0);
  check({OpClass::conv, DType::fp16, c}, 0, 0, 0);
}

TEST_CASE("fused groups keep FLOPs and lose what stays on chip", "[unit]") {
  // C[4,6] = A[4,8] B[8,6] and a ReLU over C: C's 48 bytes are neither written nor read between them.
  const Kernel gemm{OpClass::ffn_up, DType::fp16, Gemm{4, 6, 8}};
  const Kernel relu = activation_kernel(Activation::relu, false, 4, 6, DType::fp16);
  const Kernel both = fuse(std::vector<Kernel>{gemm, relu}, std::vector<std::int64_t>{48});
  CHECK(both.op == OpClass::ffn_up);
  check(both, 384 + 24, (32 + 48) * 2, 48);
  CHECK(std::get<Fused>(both.shape).kernels == 2);
  CHECK(uses_matrix_units(both));
  CHECK_FALSE(uses_matrix_units(fuse(std::vector<Kernel>{relu, relu}, std::vector<std::int64_t>{48})));

  SECTION("two products: the larger one gives the tiles") {
    const Kernel large{OpClass::ffn_down, DType::fp16, Gemm{4, 60, 6}};
    const Kernel chain = fuse(std::vector<Kernel>{gemm, large}, std::vector<std::int64_t>{48});
    CHECK(std::get<Fused>(chain.shape).gemm.n == 60);
    CHECK(chain.op == OpClass::ffn_down);
    check(chain, 384 + 2880, 160 + (24 + 360) * 2 - 48, 48 + 480 - 48);
  }
  SECTION("faults") {
    CHECK_THROWS_WITH(fuse({}, {}), "fuse: no kernels");
    CHECK_THROWS_WITH(fuse(std::vector<Kernel>{relu}, std::vector<std::int64_t>{-1}),
                      "fuse: a tensor of negative size");
    CHECK_THROWS_WITH(fuse(std::vector<Kernel>{relu}, std::vector<std::int64_t>{49}),
                      "fuse: more bytes stay on chip than the kernels hand on");
  }
}

TEST_CASE("fusing conserves FLOPs and never adds traffic", "[prop]") {
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<Kernel> kernels;
    std::vector<std::int64_t> handed_on;
    Work sum;
    std::int64_t previous = 0;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t rows = 1 + below(100), width = 1 + below(100);
      kernels.push_back(below(2) == 0 ? Kernel{OpClass::ffn_up, DType::fp16, Gemm{rows, width, 1 + below(50)}}
                                      : residual_kernel(rows, width, DType::fp16));
      const Work work = work_of(kernels.back());
      if (i > 0) handed_on.push_back(std::min(previous, static_cast<std::int64_t>(work.read_bytes)));
      previous = static_cast<std::int64_t>(work.write_bytes);
      sum.flops += work.flops;
      sum.read_bytes += work.read_bytes;
      sum.write_bytes += work.write_bytes;
    }
    const Work fused = work_of(fuse(kernels, handed_on));
    std::int64_t kept = 0;
    for (const std::int64_t bytes : handed_on) kept += bytes;
    CHECK(fused.flops == sum.flops);
    CHECK(fused.read_bytes == sum.read_bytes - static_cast<double>(kept));
    CHECK(fused.write_bytes == sum.write_bytes - static_cast<double>(kept));
  }
}

TEST_CASE("a kernel is a small value", "[unit]") {
  STATIC_REQUIRE(std::is_trivially_copyable_v<Kernel>);
  STATIC_REQUIRE(sizeof(Kernel) <= 128);
}

}  // namespace test_kernel_builders
