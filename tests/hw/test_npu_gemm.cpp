// Matrix products of an NPU: by hand, as properties, and against its pipeline run as tasks on engines.
#include <algorithm>
#include <catch2/catch.hpp>

#include "hw/tiled/tiled.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/npu_pipeline.hpp"
#include "tests/hw/npus.hpp"

namespace test_npu_gemm {

using namespace orrery;
using namespace orrery::hw;

TEST_CASE("cycles of matrix units by hand", "[unit]") {
  MatrixUnit array{.rates = {.bf16 = 1}};
  // Four folds of 256 rows; four units take one each. One row a fold waits for 128 cycles of weights.
  CHECK(matrix_cycles(array, 256, 256, 256, DType::bf16) == 4 * 256);
  CHECK(matrix_cycles(array, 1, 256, 256, DType::bf16) == 4 * 128);
  array.per_core = 4;
  CHECK(matrix_cycles(array, 256, 256, 256, DType::bf16) == 256);
  // One fold on four units: its stream is shared, but weights still take 128 cycles.
  CHECK(matrix_cycles(array, 1024, 128, 128, DType::bf16) == 256);
  CHECK(matrix_cycles(array, 256, 128, 128, DType::bf16) == 128);
  // Without preloading, folds are SCALE-Sim's.
  for (const Dataflow flow : {Dataflow::ws, Dataflow::os, Dataflow::is}) {
    const MatrixUnit bare{.dataflow = flow, .preload = false, .rates = {.bf16 = 1}};
    CHECK(matrix_cycles(bare, 300, 200, 500, DType::bf16) ==
          static_cast<double>(systolic_cycles({300, 200, 500}, {128, 128}, flow) + 1));
  }
  const MatrixUnit cube{
      .kind = MatrixKind::cube, .rows = 16, .columns = 16, .depth = 16, .rates = {.fp16 = 1, .int8 = 2}};
  CHECK(matrix_cycles(cube, 17, 16, 32, DType::fp16) == 4);  // two blocks of rows, two of depth
  CHECK(matrix_cycles(cube, 17, 16, 32, DType::int8) == 2);
}

TEST_CASE("a product on one core by hand", "[unit]") {
  // 256^3 in fp16: 16^3 blocks at 1 GHz are 4.096 us; operands 262,144 bytes and results 131,072 at 1 TB/s. A step that
  // costs 10 us leaves one of them: load, compute, store and the step.
  NpuParams npu = hw::test::simple_npu();
  npu.step_s = 10e-6;
  const NpuGemmPlan one = plan_npu_gemm(npu, {256, 256, 256}, DType::fp16);
  CHECK(one.tiles * one.steps_per_tile == 1);
  CHECK(one.time_s == Approx(0.262144e-6 + 4.096e-6 + 0.131072e-6 + 10e-6));
  // Free steps: loads hide behind the cube, but for the first, and the last store.
  npu.step_s = 0;
  const NpuGemmPlan many = plan_npu_gemm(npu, {256, 256, 256}, DType::fp16);
  CHECK(many.time_s > 4.096e-6);
  CHECK(many.time_s < 4.4e-6);
  CHECK(many.steps_per_tile * many.tiles > 1);
}

TEST_CASE("scratchpads bound the tile", "[unit]") {
  const NpuParams npu = hw::test::npu("ascend-910b2");
  for (const Gemm& g : {Gemm{4096, 4096, 4096}, Gemm{1, 4096, 4096}, Gemm{100000, 16, 16}, Gemm{37, 51, 70000}}) {
    const NpuGemmPlan p = plan_npu_gemm(npu, g, DType::fp16);
    INFO(p.tile_m << " " << p.tile_n << " " << p.tile_k);
    CHECK(p.tile_m * p.tile_n * 4 <= npu.scratch.accumulator);
    const std::int64_t buffers = p.waves * p.steps_per_tile > 1 ? 2 : 1;
    CHECK(buffers * (p.tile_m + p.tile_n) * p.tile_k * 2 <= npu.scratch.l1);
    CHECK(2 * p.tile_m * 16 * 2 <= npu.scratch.left);
    CHECK(2 * p.tile_n * 16 * 2 <= npu.scratch.right);
  }
}

TEST_CASE("whole waves of tiles", "[unit]") {
  // Tiles of at most 16 x 16 (L0C of 1 KiB) on four cores: four tiles take one wave, five take two.
  NpuParams npu = hw::test::simple_npu();
  npu.cores = 4;
  npu.scratch.accumulator = 1024;
  npu.memory_bandwidth = 1e18;
  const auto time = [&](std::int64_t n) { return plan_npu_gemm(npu, {16, n, 1600}, DType::fp16).time_s; };
  CHECK(time(64) == Approx(100e-9));  // 1600 / 16 cycles
  CHECK(time(80) == Approx(200e-9));
  CHECK(time(128) == Approx(200e-9));
}

TEST_CASE("the closed form follows the pipeline run as tasks", "[prop]") {
  sim::RandomStream stream(3, "npu pipeline");
  for (const char* name : {"tpu-v4", "ascend-910b2", "neupims-npu", "intel-npu4"}) {
    const NpuParams npu = hw::test::npu(name);
    double worst = 0, sum = 0;
    int cases = 0;
    for (int trial = 0; trial < 150; ++trial) {
      const auto size = [&](std::int64_t most) { return stream.integer(1, most); };
      const Gemm g{size(1500), size(3000), size(3000)};
      const NpuGemmPlan p = plan_npu_gemm(npu, g, DType::fp16);
      const double slow = hw::test::pipeline_s(p, npu.step_s);
      const double error = std::abs(p.time_s / slow - 1);
      INFO(name << " " << g.m << " " << g.n << " " << g.k << " closed " << p.time_s << " tasks " << slow << " waves "
                << p.waves << " steps " << p.steps_per_tile);
      CHECK(error < 0.1);
      worst = std::max(worst, error);
      sum += error;
      ++cases;
    }
    INFO(name << " worst " << worst << " mean " << sum / cases);
    CHECK(sum / cases < 0.01);
  }
}

TEST_CASE("more work is not cheaper on an NPU", "[prop]") {
  constexpr double kSlack = 0.94;  // another tile may suit a little more work a little better
  for (const char* name : {"tpu-v4", "ascend-910b2", "ascend-910a"}) {
    NpuParams npu = hw::test::npu(name);
    npu.whole_operands = false;  // with it, what no longer fits begins to overlap: see below
    const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      return plan_npu_gemm(npu, {m, n, k}, DType::fp16).time_s;
    };
    for (const std::int64_t n : {768, 4096, 11008})
      for (const std::int64_t k : {512, 4096}) {
        double most = 0;
        for (std::int64_t m = 1; m <= 6000; m += m < 300 ? 3 : 61) {
          const double t = time(m, n, k);
          INFO(name << " m " << m << " n " << n << " k " << k);
          CHECK(t >= most * kSlack);
          most = std::max(most, t);
        }
        for (const std::int64_t m : {1, 100, 3000}) {
          CHECK(time(m, n + 64, k) >= time(m, n, k) * kSlack);
          CHECK(time(m, n, k + 64) >= time(m, n, k) * kSlack);
          CHECK(time(m, 2 * n, k) >= time(m, n, k) * kSlack);
          CHECK(time(m, n, 2 * k) >= time(m, n, k) * kSlack);
        }
      }
  }
}

TEST_CASE("a product that fits is not cut, and one that does not fit begins to overlap", "[prop]") {
  const NpuParams npu = hw::test::npu("tpu-v4");
  const NpuGemmPlan small = plan_npu_gemm(npu, {1024, 512, 512}, DType::bf16);
  CHECK(small.tile_m == 512);  // one block of rows for each of two cores
  CHECK(small.tiles * small.steps_per_tile == 2);
  CHECK(small.time_s == Approx(small.fill_s + small.load_s + small.compute_s + small.store_s + npu.step_s));
  NpuParams cutting = npu;
  cutting.whole_operands = false;
  for (std::int64_t m = 128; m <= 8192; m *= 2) {
    const double whole = plan_npu_gemm(npu, {m, 2048, 2048}, DType::bf16).time_s;
    const double cut = plan_npu_gemm(cutting, {m, 2048, 2048}, DType::bf16).time_s;
    CHECK(whole >= cut * (1 - 1e-12));
    CHECK(whole < 2.1 * cut);  // nothing overlapped costs at most twice
  }
}

TEST_CASE("large products come near the achieved ceiling of an NPU", "[prop]") {
  for (const char* name : {"tpu-v4", "ascend-910b2", "neupims-npu"}) {
    const NpuParams npu = hw::test::npu(name);
    const double rate = 2.0 * 8192 * 8192 * 8192 / plan_npu_gemm(npu, {8192, 8192, 8192}, DType::fp16).time_s;
    const double ceiling = matrix_peak(npu, DType::fp16) * npu.matrix.efficiency;
    INFO(name << " " << rate / ceiling);
    CHECK(rate <= ceiling);
    CHECK(rate > 0.8 * ceiling);
  }
}

}  // namespace test_npu_gemm
