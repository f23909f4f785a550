// Weights in formats of their own: bytes, rates, and what the cost models make of them.
#include <catch2/catch.hpp>

#include "hw/base/kernel_builders.hpp"
#include "hw/tiled/grouped.hpp"
#include "hw/tiled/tiled.hpp"
#include "tests/hw/parts.hpp"

namespace orrery::hw::test_weight_formats {
namespace {

constexpr WeightFormat kAll[] = {WeightFormat::as_dtype, WeightFormat::fp16, WeightFormat::bf16,  WeightFormat::fp8,
                                 WeightFormat::int8,     WeightFormat::int4, WeightFormat::mxfp4, WeightFormat::nvfp4,
                                 WeightFormat::int3,     WeightFormat::int2};

TEST_CASE("work counts weights in their format", "[unit]") {
  Gemm g{8, 1024, 512};
  // 8 x 512 activations and 8 x 1024 results of two bytes; 524,288 weights of 2, 1 and 4.5 / 8 bytes.
  CHECK(work_of({OpClass::ffn_up, DType::bf16, g}).read_bytes == 8 * 512 * 2 + 524288 * 2);
  g.weights = WeightFormat::fp8;
  CHECK(work_of({OpClass::ffn_up, DType::bf16, g}).read_bytes == 8 * 512 * 2 + 524288);
  g.weights = WeightFormat::nvfp4;
  const Work work = work_of({OpClass::ffn_up, DType::bf16, g});
  CHECK(work.read_bytes == 8 * 512 * 2 + 294912);
  CHECK(work.write_bytes == 8 * 1024 * 2);
  CHECK(work.flops == 2.0 * 8 * 1024 * 512);
  const std::int64_t rows[] = {3, 5};
  GroupedGemm e = grouped_gemm(rows, 1024, 512);
  e.weights = WeightFormat::int4;
  CHECK(work_of({OpClass::expert_up, DType::bf16, e}).read_bytes == 8 * 512 * 2 + 2 * 524288 * 4.125 / 8);
}

TEST_CASE("every format has a name, and names their formats", "[unit]") {
  for (const WeightFormat format : kAll) CHECK(sim::value_named<WeightFormat>(to_string(format)) == format);
  CHECK_FALSE(sim::value_named<WeightFormat>("fp3").has_value());
}

TEST_CASE("rates go by the units that a part has", "[unit]") {
  const GpuParams a100 = test::part("a100-sxm4-80gb"), h100 = test::part("h100-sxm5-80gb"),
                  b200 = test::part("b200-sxm");
  const auto peak = [](const GpuParams& gpu, WeightFormat format) {
    return matrix_operands(gpu, DType::bf16, format).peak;
  };
  CHECK(peak(a100, WeightFormat::fp8) == 312e12);  // widened: no 8-bit floating point
  CHECK(peak(a100, WeightFormat::int8) == 624e12);
  CHECK(peak(h100, WeightFormat::fp8) == 1979e12);
  CHECK(peak(h100, WeightFormat::nvfp4) == 989e12);  // widened
  CHECK(peak(h100, WeightFormat::mxfp4) == 989e12);
  CHECK(peak(b200, WeightFormat::nvfp4) == 9000e12);
  CHECK(peak(b200, WeightFormat::mxfp4) == 4500e12);  // activations of 8 bits
  CHECK(peak(b200, WeightFormat::int4) == 2250e12);
  CHECK(matrix_operands(b200, DType::bf16, WeightFormat::nvfp4).activation == 4.5 / 8);
}

TEST_CASE("the same format said twice costs the same", "[prop]") {
  const GpuParams gpu = test::part("h200-sxm-141gb");
  for (const std::int64_t m : {1, 17, 256, 4096}) {
    const Gemm plain{m, 4096, 2048}, named{m, 4096, 2048, 1, WeightFormat::bf16};
    CHECK(plan_gemm(gpu, plain, DType::bf16).time.time_s == plan_gemm(gpu, named, DType::bf16).time.time_s);
  }
}

TEST_CASE("fewer bits never cost more: a vector against weights goes with their bytes", "[prop]") {
  for (const char* part : {"h100-sxm5-80gb", "b200-sxm"}) {
    const GpuParams gpu = test::part(part);
    const auto model = test::model("tiled", gpu);
    for (const std::int64_t m : {1, 8, 64, 512, 8192}) {
      CAPTURE(part, m);
      const auto time = [&](WeightFormat format) {
        return model->cost({OpClass::ffn_up, DType::bf16, Gemm{m, 8192, 8192, 1, format}}).time_s;
      };
      CHECK(time(WeightFormat::fp8) < time(WeightFormat::as_dtype));
      CHECK(time(WeightFormat::nvfp4) < time(WeightFormat::fp8) * (gpu.peak.fp4 > 0 || m < 64 ? 1.0 : 3.0));
      const auto roof = test::model("roofline", gpu);
      CHECK(roof->cost({OpClass::ffn_up, DType::bf16, Gemm{m, 8192, 8192, 1, WeightFormat::nvfp4}}).time_s <=
            roof->cost({OpClass::ffn_up, DType::bf16, Gemm{m, 8192, 8192}}).time_s);
    }
  }
}

TEST_CASE("a cache of 8 bits halves what a long decode reads", "[unit]") {
  const GpuParams gpu = test::part("h200-sxm-141gb");
  AttentionDecode wide{64, 64 * 16384, 32, 8, 128}, narrow = wide;
  narrow.cache_element = 1;
  const Work a = work_of({OpClass::attention_decode, DType::bf16, wide});
  const Work b = work_of({OpClass::attention_decode, DType::bf16, narrow});
  // Queries: 64 x 32 x 128 of two bytes on either side.
  CHECK(a.read_bytes - 64 * 32 * 128 * 2 == 2 * (b.read_bytes - 64 * 32 * 128 * 2));
  const double ratio = tiled_decode(gpu, narrow, DType::bf16).time_s / tiled_decode(gpu, wide, DType::bf16).time_s;
  CHECK(ratio < 0.65);
  CHECK(ratio > 0.45);
}

TEST_CASE("experts of odd sizes are slow only in 16 bits: other formats are padded", "[unit]") {
  const GpuParams gpu = test::part("b200-sxm");
  std::vector<std::int64_t> rows(64, 4);
  GroupedGemm odd = grouped_gemm(rows, 360, 2880), even = grouped_gemm(rows, 368, 2880);
  CHECK(plan_grouped(gpu, odd, DType::bf16).time.time_s > 1.5 * plan_grouped(gpu, even, DType::bf16).time.time_s);
  odd.weights = even.weights = WeightFormat::mxfp4;
  CHECK(plan_grouped(gpu, odd, DType::bf16).time.time_s <= plan_grouped(gpu, even, DType::bf16).time.time_s);
}

}  // namespace
}  // namespace orrery::hw::test_weight_formats
