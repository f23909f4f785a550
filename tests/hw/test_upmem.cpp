#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "hw/parts/catalog.hpp"
#include "hw/pim/upmem.hpp"

namespace test_upmem {

using namespace orrery;
using namespace orrery::hw;

namespace {

UpmemParams dimms() {
  return read_part<UpmemParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/upmem-ddr4-2400.json").part;
}

/// Round numbers, for arithmetic by hand.
UpmemParams simple() {
  UpmemParams upmem;
  upmem.bank_conflict = 0.5;
  upmem.dma_read = {60, 0.5};
  upmem.dma_write = {40, 0.5};
  upmem.to_dpu = {10e-6, 1e9, 10e9, 0.5e9, 4, 16, 20e-6, 0.25e9};
  upmem.host_cache_bytes = 1e6;
  return upmem;
}

}  // namespace

TEST_CASE("the catalog's DIMMs hold the published facts", "[unit]") {
  const UpmemParams upmem = dimms();
  CHECK(upmem.dpus() == 2560);
  CHECK(upmem.mram_bytes == 64 << 20);
  CHECK(upmem.wram_bytes == 64 << 10);
  CHECK(upmem.iram_bytes == 24 << 10);
  CHECK(upmem.issue_gap == 11);
  CHECK(upmem.max_tasklets == 24);
  CHECK(upmem.clock_hz == 350e6);
}

TEST_CASE("transfers of MRAM are the latencies that PyGim measured", "[golden]") {
  // CMU-SAFARI/PyGim utils/autotuner.py, READ_LATENCY and WRITE_LATENCY, us
  const UpmemParams upmem = dimms();
  const auto read_us = [&](double bytes) { return dma_read_cycles(upmem, bytes) / upmem.clock_hz * 1e6; };
  const auto write_us = [&](double bytes) { return dma_write_cycles(upmem, bytes) / upmem.clock_hz * 1e6; };
  CHECK(read_us(8) == Approx(0.188).epsilon(0.06));
  CHECK(read_us(256) == Approx(0.602).epsilon(0.08));
  CHECK(read_us(1024) == Approx(1.665).epsilon(0.06));
  CHECK(read_us(2048) == Approx(3.283).epsilon(0.03));
  CHECK(write_us(8) == Approx(0.137).epsilon(0.05));
  CHECK(write_us(1024) == Approx(1.628).epsilon(0.03));
  CHECK(write_us(2048) == Approx(3.269).epsilon(0.03));
  CHECK(dma_read_cycles(upmem, 0) == 0);
}

TEST_CASE("a register pair in one bank costs a cycle as often as bank_conflict says", "[unit]") {
  CHECK(issue_cycles(simple(), {8, 5}) == 10.5);  // 8 + 0.5 * 5
  CHECK(multiply(simple(), 6).count == 11);       // 5 around 6 steps
  CHECK(multiply(simple(), 0).count == 6);        // a product with zero makes one step
}

TEST_CASE("free-running tasklets take the longest of issue, transfers and their own chain", "[unit]") {
  const UpmemParams upmem = simple();
  CHECK(free_running_cycles(upmem, {1000, 400, 50, 25}) == 1000);
  CHECK(free_running_cycles(upmem, {1000, 4000, 50, 25}) == 4000);
  CHECK(free_running_cycles(upmem, {1000, 400, 100, 25}) == 1125);  // 11 * 100 + 25
}

TEST_CASE("eleven tasklets fill the pipeline", "[unit]") {
  // n tasklets of 100 instructions: 1,100 cycles up to 11 of them, then 100 more each
  const UpmemParams upmem = simple();
  for (int n = 1; n <= 24; ++n) {
    const double cycles = free_running_cycles(upmem, {100.0 * n, 0, 100, 0});
    CHECK(cycles == std::max(1100.0, 100.0 * n));
  }
}

TEST_CASE("a round in lockstep is two queues of transfers and two stretches of work", "[unit]") {
  // 16 tasklets: 16 * 20 after the barrier, 16 * 40 to write, 16 * 60 to read and 11 * 10 of the last one's work,
  // 16 * 45 for the barrier: 320 + 640 + 1,070 + 720 = 2,750
  CHECK(lockstep_cycles(simple(), {60, 40, 10, 20}, 1) == 2750);
  CHECK(lockstep_cycles(simple(), {60, 40, 10, 20}, 3) == 3 * 2750);
  // work before the barrier outlasts the reads: 60 + 16 * 100 = 1,660 against 960 + 1,100 = 2,060
  CHECK(lockstep_cycles(simple(), {60, 40, 100, 0}, 1) == 640 + 2060 + 720);
}

TEST_CASE("parallel copies by hand", "[unit]") {
  const UpmemParams upmem = simple();
  // 4 DPUs share a burst: 10 us + 1 MB / 1 GB/s + 4 MB / 10 GB/s, all in the cache of 1 MB
  CHECK(parallel_copy_s(upmem, upmem.to_dpu, {4, 1e6, 4e6, 1e6}) == Approx(10e-6 + 1e-3 + 0.4e-3));
  // 16 DPUs: four bursts; three quarters of 4 MB are cold: 0.75 MB for each of 8 chips at 0.5 GB/s
  CHECK(parallel_copy_s(upmem, upmem.to_dpu, {16, 1e6, 16e6, 4e6}) == Approx(10e-6 + 4e-3 + 12e-3 + 1.6e-3));
  // 2 DPUs: cold words of two
  CHECK(parallel_copy_s(upmem, upmem.to_dpu, {2, 1e6, 2e6, 4e6}) == Approx(10e-6 + 1e-3 + 3e-3 + 0.2e-3));
  // 64 DPUs: no more than 16 in flight, and bursts of different banks fetch cold words beside each other
  CHECK(parallel_copy_s(upmem, upmem.to_dpu, {64, 1e6, 64e6, 4e6}) == Approx(10e-6 + 4e-3 + 12e-3 + 6.4e-3));
  // two ranks copy at once
  CHECK(parallel_copy_s(upmem, upmem.to_dpu, {128, 1e6, 128e6, 1e6}) ==
        Approx(parallel_copy_s(upmem, upmem.to_dpu, {64, 1e6, 64e6, 1e6})));
  CHECK(serial_copy_s(upmem.to_dpu, 1e6) == Approx(20e-6 + 4e-3));
}

TEST_CASE("copies with a rank reach the bandwidths of the PrIM paper", "[golden]") {
  // Gomez-Luna et al. 2021, figure 10: 64 DPUs in parallel 6.68 GB/s in and 4.74 GB/s out, 32 MB a DPU. The pim table's
  // host is slower: its largest copies with a rank run at 3.6 and 1.9 GB/s.
  const UpmemParams upmem = dimms();
  const double bytes = 1e6, total = 64e6;
  CHECK(total / parallel_copy_s(upmem, upmem.to_dpu, {64, bytes, total, total}) == Approx(3.6e9).epsilon(0.2));
  CHECK(total / parallel_copy_s(upmem, upmem.from_dpu, {64, bytes, total, total}) == Approx(1.7e9).epsilon(0.2));
  CHECK(serial_copy_s(upmem.from_dpu, 1e9) == Approx(8.4).epsilon(0.02));  // 0.12 GB/s
}

TEST_CASE("copies grow with bytes and never outrun the host", "[prop]") {
  const UpmemParams upmem = dimms();
  std::mt19937 random(3);
  std::uniform_real_distribution<double> log_bytes(2, 18);
  std::uniform_int_distribution<int> dpus(1, 64);
  for (int i = 0; i < 1000; ++i) {
    const double bytes = std::exp(log_bytes(random)), n = dpus(random);
    for (const UpmemHostCopy* way : {&upmem.to_dpu, &upmem.from_dpu}) {
      const double t = parallel_copy_s(upmem, *way, {n, bytes, n * bytes, n * bytes});
      CHECK(t <= parallel_copy_s(upmem, *way, {n, 2 * bytes, 2 * n * bytes, 2 * n * bytes}));
      CHECK(t <= parallel_copy_s(upmem, *way, {std::min(64.0, n + 1), bytes, (n + 1) * bytes, (n + 1) * bytes}));
      CHECK(t >= n * bytes / way->host_bandwidth);
    }
  }
}

TEST_CASE("as a device for kernels", "[unit]") {
  const UpmemParams upmem = dimms();
  const auto model = make_upmem_cost_model(upmem);
  CHECK(model->cost({OpClass::residual, DType::fp16, Streaming{}}).time_s == 0);
  const Cost small = model->cost({OpClass::residual, DType::int8, Streaming{1000, 0, 0}});
  CHECK(small.bound == Bound::launch);
  CHECK(small.time_s == Approx(upmem.launch_s).epsilon(0.01));
  // A vector times a matrix of a GB of 8-bit weights: every byte once, a multiply-add each
  const Gemm gemv{1, 32768, 32768};
  const Cost int8 = model->cost({OpClass::ffn_up, DType::int8, gemv});
  CHECK(int8.bound == Bound::compute);
  CHECK(int8.dram_bytes == Approx(1.0737e9).epsilon(0.001));
  CHECK(model->cost({OpClass::ffn_up, DType::fp32, gemv}).time_s > 5 * int8.time_s);  // emulated
  // twice the rows, twice the passes
  const Cost two = model->cost({OpClass::ffn_up, DType::int8, Gemm{2, 32768, 32768}});
  CHECK(two.time_s - upmem.launch_s == Approx(2 * (int8.time_s - upmem.launch_s)).epsilon(1e-3));
  // half of a streaming pass's bytes take half of the time
  const Cost read = model->cost({OpClass::residual, DType::int8, Streaming{2'000'000'000, 0, 0}});
  const Cost half = model->cost({OpClass::residual, DType::int8, Streaming{1'000'000'000, 0, 0}});
  CHECK(read.time_s - upmem.launch_s == Approx(2 * (half.time_s - upmem.launch_s)));
  CHECK(read.compute_energy_j + read.memory_energy_j ==
        Approx((upmem.dimm_power_w - upmem.dimm_idle_w) * 20 * (read.time_s - upmem.launch_s)));
}

TEST_CASE("faults of a DIMM's file are one line each", "[unit]") {
  const auto faults_after = [](const std::string& assignment) {
    sim::Node node = sim::read_json(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/upmem-ddr4-2400.json");
    sim::assign(node, assignment);
    sim::Faults faults;
    (void)parse_part<UpmemParams>(node, faults);
    REQUIRE(faults.size() == 1);
    return faults.all().front().text();
  };
  CHECK(faults_after("tasklets=30").find("programs use 30 tasklets, and a DPU has 24") != std::string::npos);
  CHECK(faults_after("issue_gap=15").find("issue_gap 15 is longer than a pipeline of 14 stages") != std::string::npos);
  CHECK(faults_after("wram=64 MiB").find("a unit is wrong") != std::string::npos);
  CHECK(faults_after("dpus_per_rank=0").find("/dpus_per_rank") != std::string::npos);
  CHECK(faults_after("clock=350 GHz").find("/clock") != std::string::npos);
}

}  // namespace test_upmem
