#include <catch2/catch.hpp>

#include "tests/hw/parts.hpp"

namespace test_cost_roofline {

using namespace orrery::hw;
using orrery::hw::test::model;
using orrery::hw::test::part;

TEST_CASE("roofline limits", "[unit]") {
  const GpuParams gpu = part("a100-sxm4-80gb");
  const auto roofline = model("roofline", gpu);

  SECTION("a large product runs at peak") {
    // 2 * 8192^3 = 1.0995e12 FLOPs at 312e12 FLOP/s = 3.524 ms; 3 * 8192^2 * 2 bytes need 0.197 ms only.
    const Cost cost = roofline->cost({OpClass::ffn_up, DType::fp16, Gemm{8192, 8192, 8192}});
    CHECK(cost.time_s == Approx(gpu.launch_graph_s + 2.0 * 8192 * 8192 * 8192 / 312e12));
    CHECK(cost.bound == Bound::compute);
    CHECK(cost.dram_bytes == 3.0 * 8192 * 8192 * 2);
  }
  SECTION("a product with one row runs at memory speed") {
    const Cost cost = roofline->cost({OpClass::ffn_up, DType::fp16, Gemm{1, 8192, 8192}});
    CHECK(cost.time_s == Approx(gpu.launch_graph_s + (8192.0 * 8192 + 2 * 8192) * 2 / 2.039e12));
    CHECK(cost.bound == Bound::memory);
  }
  SECTION("a tiny kernel is a launch") {
    const Cost cost = roofline->cost({OpClass::norm, DType::fp16, Streaming{.read_bytes = 64, .write_bytes = 64}});
    CHECK(cost.time_s == Approx(gpu.launch_graph_s).epsilon(1e-3));
    CHECK(cost.bound == Bound::launch);
  }
  SECTION("nothing costs nothing") {
    const Cost cost = roofline->cost({OpClass::ffn_up, DType::fp16, Gemm{0, 8192, 8192}});
    CHECK(cost.time_s == 0);
    CHECK(cost.dram_bytes == 0);
  }
  SECTION("energy is FLOPs, bytes and busy time times their prices") {
    const Cost cost = roofline->cost({OpClass::ffn_up, DType::fp16, Gemm{16, 32, 64}});
    CHECK(cost.compute_energy_j ==
          Approx(2.0 * 16 * 32 * 64 * gpu.power.fp16_flop_j + cost.time_s * gpu.power.active_w));
    CHECK(cost.memory_energy_j == Approx((16.0 * 64 + 64 * 32 + 16 * 32) * 2 * gpu.power.memory_byte_j));
  }
}

TEST_CASE("formats run at their own peaks, or at the 16-bit one where the device lacks them", "[unit]") {
  const GpuParams a100 = part("a100-sxm4-80gb"), h100 = part("h100-sxm5-80gb");
  CHECK(matrix_peak(a100, DType::fp16) == 312e12);
  CHECK(matrix_peak(a100, DType::int8) == 624e12);
  CHECK(matrix_peak(a100, DType::fp8) == 312e12);
  CHECK(matrix_peak(a100, DType::fp32) == 19.5e12);
  CHECK(matrix_peak(h100, DType::fp8) == 1979e12);
  CHECK(matrix_flop_energy(a100, DType::fp8) == a100.power.fp16_flop_j);
  CHECK(matrix_flop_energy(h100, DType::fp8) == h100.power.fp8_flop_j);
}

TEST_CASE("a stream launch costs more than a graph launch", "[unit]") {
  GpuParams gpu = part("a100-sxm4-80gb");
  const Kernel kernel{OpClass::ffn_up, DType::fp16, Gemm{16, 4096, 4096}};
  for (const char* name : {"roofline", "tiled"}) {
    gpu.launch_mode = LaunchMode::graph;
    const double graph = model(name, gpu)->cost(kernel).time_s;
    gpu.launch_mode = LaunchMode::stream;
    CHECK(model(name, gpu)->cost(kernel).time_s - graph == Approx(2.62e-6 - 1.34e-6));
  }
}

}  // namespace test_cost_roofline
