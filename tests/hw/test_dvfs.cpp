// Clocks and voltages: what moves with them and what does not.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "hw/gpu/dvfs.hpp"
#include "tests/hw/parts.hpp"

namespace test_dvfs {

using namespace orrery::hw;
using orrery::hw::test::model;
using orrery::hw::test::part;

namespace {

/// Joules of a kernel with the idle power of its time.
double energy_of(const GpuParams& gpu, const Kernel& kernel) {
  const Cost cost = model("roofline", gpu)->cost(kernel);
  return cost.compute_energy_j + cost.memory_energy_j + gpu.power.idle_w * cost.time_s;
}

const Kernel kBoundByCompute{OpClass::ffn_up, DType::fp16, Gemm{8192, 8192, 8192}};
const Kernel kBoundByMemory{OpClass::residual, DType::fp16, Streaming{1'000'000'000, 500'000'000}};

}  // namespace

TEST_CASE("voltage falls to its floor at the knee", "[unit][dvfs]") {
  const DvfsParams dvfs{.voltage_floor = 0.7, .knee = 0.5};
  CHECK(voltage_at(dvfs, 1) == Approx(1));
  CHECK(voltage_at(dvfs, 0.75) == Approx(0.85));  // half way from knee to top: 0.7 + 0.3 / 2
  CHECK(voltage_at(dvfs, 0.5) == Approx(0.7));
  CHECK(voltage_at(dvfs, 0.2) == Approx(0.7));
}

TEST_CASE("a part at half its clock", "[unit][dvfs]") {
  GpuParams gpu = part("a100-sxm4-80gb");
  gpu.dvfs = {.lowest_clock_hz = 210e6, .step_hz = 15e6, .voltage_floor = 0.7, .knee = 0.4};
  const GpuParams half = at_clock(gpu, gpu.clock_hz / 2);
  const double v = 0.7 + 0.3 * (0.5 - 0.4) / 0.6;  // 0.75
  CHECK(half.peak.fp16 == Approx(gpu.peak.fp16 / 2));
  CHECK(half.l2_bandwidth == Approx(gpu.l2_bandwidth / 2));
  CHECK(half.memory_bandwidth == gpu.memory_bandwidth);
  CHECK(half.power.fp16_flop_j == Approx(gpu.power.fp16_flop_j * v * v));
  CHECK(half.power.active_w == Approx(gpu.power.active_w * 0.5 * v * v));
  CHECK(half.power.idle_w == gpu.power.idle_w);
  // Scaling in two steps is scaling in one.
  const GpuParams twice = at_clock(at_clock(gpu, gpu.clock_hz * 0.8), gpu.clock_hz / 2);
  CHECK(twice.peak.fp16 == Approx(half.peak.fp16));
  CHECK(twice.power.fp16_flop_j == Approx(half.power.fp16_flop_j));
  CHECK_THROWS_AS(at_clock(gpu, 100e6), std::invalid_argument);
  CHECK_THROWS_AS(at_clock(gpu, 3e9), std::invalid_argument);
}

TEST_CASE("time and energy both move with the clock", "[prop][dvfs]") {
  for (const char* name : {"a100-sxm4-80gb", "h100-sxm5-80gb"}) {
    const GpuParams gpu = part(name);
    const std::vector<double> clocks = dvfs_clocks(gpu);
    REQUIRE(clocks.size() > 20);
    CHECK(clocks.front() == gpu.clock_hz);
    double last_compute_s = 0, last_memory_j = 1e30, least_j = 1e30;
    for (const double clock : clocks) {
      const GpuParams slower = at_clock(gpu, clock);
      const double compute_s = model("roofline", slower)->cost(kBoundByCompute).time_s;
      CHECK(compute_s > last_compute_s);
      last_compute_s = compute_s;
      // A pass over memory takes as long at any clock that keeps its FLOPs hidden, and costs less.
      CHECK(model("roofline", slower)->cost(kBoundByMemory).time_s ==
            Approx(model("roofline", gpu)->cost(kBoundByMemory).time_s));
      const double memory_j = energy_of(slower, kBoundByMemory);
      CHECK(memory_j <= last_memory_j);
      last_memory_j = memory_j;
      least_j = std::min(least_j, energy_of(slower, kBoundByCompute));
    }
    // Static power adds up at low clocks, voltage costs at high ones: the least energy lies between.
    CHECK(least_j < energy_of(gpu, kBoundByCompute));
    CHECK(least_j < energy_of(at_clock(gpu, clocks.back()), kBoundByCompute));
  }
}

}  // namespace test_dvfs
