#include <catch2/catch.hpp>
#include <string>

#include "hw/parts/catalog.hpp"
#include "hw/pim/prim.hpp"

namespace test_prim {

using namespace orrery;
using namespace orrery::hw;

namespace {

UpmemParams dimms() {
  return read_part<UpmemParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/upmem-ddr4-2400.json").part;
}
/// Without conflicts and launches, and with free transfers: instructions alone.
UpmemParams instructions_only() {
  UpmemParams upmem = dimms();
  upmem.bank_conflict = 0;
  upmem.launch_s = 0;
  upmem.dma_read = upmem.dma_write = {0, 1e-9};
  upmem.instructions.dma_call = 0;
  upmem.instructions.barrier = 0;
  return upmem;
}
double cycles_of(const UpmemParams& upmem, Prim prim, double dpus, double size) {
  return prim_kernel_s(upmem, prim, dpus, size) * upmem.clock_hz;
}
constexpr Prim kAll[] = {Prim::bs,       Prim::gemv, Prim::hst_l, Prim::hst_s, Prim::mlp, Prim::red, Prim::scan_rss,
                         Prim::scan_ssa, Prim::sel,  Prim::trns,  Prim::ts,    Prim::uni, Prim::va};

}  // namespace

TEST_CASE("benchmarks have the names of the tables", "[unit]") {
  for (const Prim prim : kAll) CHECK(sim::value_named<Prim>(to_string(prim)) == prim);
  CHECK(sim::value_named<Prim>("SCAN-RSS") == Prim::scan_rss);
  CHECK_FALSE(sim::value_named<Prim>("BFS").has_value());
  CHECK_FALSE(sim::value_named<Prim>("va").has_value());
}

TEST_CASE("instructions of streaming loops by hand", "[unit]") {
  const UpmemParams upmem = instructions_only();
  // 16 blocks of 256 elements: 8 instructions an element and 10 a block, 16 tasklets
  CHECK(cycles_of(upmem, Prim::va, 1, 4096) == Approx(4096 * 8 + 16 * 10));
  // 32 blocks of 128 elements: 6 and 10
  CHECK(cycles_of(upmem, Prim::red, 1, 4096) == Approx(4096 * 6 + 32 * 10));
  // Four blocks on four tasklets: no more than one instruction in 11 cycles each
  CHECK(cycles_of(upmem, Prim::va, 1, 1024) == Approx(11 * (256 * 8 + 10)));
}

TEST_CASE("instructions of a matrix times a vector by hand", "[unit]") {
  const UpmemParams upmem = instructions_only();
  // 256 columns of zeros, 64 rows on 16 tasklets: 256 * (11 + 6) + 40 a row
  CHECK(cycles_of(upmem, Prim::mlp, 4, 256) == Approx(3 * 64 * (256 * 17 + 40)));
  // 16 rows: 8 pairs on 8 tasklets, which do not fill the pipeline
  CHECK(cycles_of(upmem, Prim::mlp, 16, 256) == Approx(3 * 11 * 2 * (256 * 17 + 40)));
}

TEST_CASE("few rows take the time of one tasklet", "[golden]") {
  // pim/upmem_prim, MLP of 256: 4 rows and 16 rows a DPU measured 1.475 and 1.545 ms, since 8 tasklets or fewer work
  const UpmemParams upmem = dimms();
  CHECK(prim_kernel_s(upmem, Prim::mlp, 64, 256) == Approx(1.475e-3).epsilon(0.15));
  CHECK(prim_kernel_s(upmem, Prim::mlp, 16, 256) == Approx(1.545e-3).epsilon(0.15));
}

TEST_CASE("padding is the host code's", "[unit]") {
  const UpmemParams upmem = dimms();
  CHECK(prim_padded_elements(upmem, Prim::scan_ssa, 1, 1) == 2048);  // 16 blocks of 128
  CHECK(prim_padded_elements(upmem, Prim::ts, 64, 4096) == 1024);    // 16 queries of 64
  CHECK(prim_padded_elements(upmem, Prim::bs, 64, 32768) == 64);     // 4,096 queries
  CHECK(prim_padded_elements(upmem, Prim::bs, 64, 8) == 16);         // one a tasklet
  CHECK(prim_padded_elements(upmem, Prim::va, 3, 10) == 4);
}

TEST_CASE("time series shorter than a query a tasklet take as long as that", "[golden]") {
  // pim/upmem_prim, TS on 64 DPUs: 5.23 ms from 4,096 to 65,536 samples
  const UpmemParams upmem = dimms();
  const double shortest = prim_kernel_s(upmem, Prim::ts, 64, 4096);
  CHECK(shortest == prim_kernel_s(upmem, Prim::ts, 64, 65536));
  CHECK(shortest == Approx(5.23e-3).epsilon(0.1));
}

TEST_CASE("kernel times of single rows", "[golden]") {
  // pim/upmem_prim, ms
  const UpmemParams upmem = dimms();
  CHECK(prim_kernel_s(upmem, Prim::va, 1, 2097152) == Approx(61.45e-3).epsilon(0.1));
  CHECK(prim_kernel_s(upmem, Prim::red, 4, 8388608) == Approx(49.56e-3).epsilon(0.1));
  CHECK(prim_kernel_s(upmem, Prim::gemv, 1, 8192) == Approx(36.42e-3).epsilon(0.1));
  CHECK(prim_kernel_s(upmem, Prim::trns, 1, 128) == Approx(172.97e-3).epsilon(0.1));
  CHECK(prim_kernel_s(upmem, Prim::bs, 16, 131072) == Approx(7.37e-3).epsilon(0.15));
  CHECK(prim_kernel_s(upmem, Prim::scan_rss, 4, 1048576) == Approx(15.93e-3).epsilon(0.2));
}

TEST_CASE("times are positive, and grow with the size", "[prop]") {
  const UpmemParams upmem = dimms();
  for (const Prim prim : kAll)
    for (const std::int64_t dpus : {1, 3, 4, 16, 64, 128, 2560})
      for (std::int64_t size = 256; size <= 262144; size *= 4) {
        if (prim == Prim::trns && size > 1024) break;
        if (prim == Prim::mlp && size > 4096) break;
        CAPTURE(to_string(prim), dpus, size);
        const PrimTimes small = prim_times(upmem, prim, dpus, size), large = prim_times(upmem, prim, dpus, 4 * size);
        CHECK(small.kernel_s > 0);
        CHECK(small.cpu_to_dpu_s > 0);
        CHECK(small.dpu_to_cpu_s > 0);
        CHECK(small.dpu_to_dpu_s >= 0);
        CHECK(large.kernel_s >= small.kernel_s);
        CHECK(large.cpu_to_dpu_s >= small.cpu_to_dpu_s);
        CHECK(large.dpu_to_cpu_s >= small.dpu_to_cpu_s);
      }
}

TEST_CASE("more DPUs never make a launch longer", "[prop]") {
  const UpmemParams upmem = dimms();
  for (const Prim prim : kAll)
    for (const std::int64_t size : {512, 2048})
      for (std::int64_t dpus = 1; dpus < 64; dpus *= 2) {
        CAPTURE(to_string(prim), dpus, size);
        CHECK(prim_times(upmem, prim, 2 * dpus, size).kernel_s <=
              prim_times(upmem, prim, dpus, size).kernel_s * 1.0001);
      }
}

TEST_CASE("only some benchmarks talk between launches", "[unit]") {
  const UpmemParams upmem = dimms();
  for (const Prim prim : kAll) {
    const bool talks = prim == Prim::mlp || prim == Prim::scan_rss || prim == Prim::scan_ssa;
    CHECK((prim_times(upmem, prim, 4, 1024).dpu_to_dpu_s > 0) == talks);
  }
}

TEST_CASE("the CPU beside it moves every operand once", "[unit]") {
  const UpmemParams upmem = dimms();
  CHECK(prim_cpu_s(upmem, Prim::va, 1'000'000) == Approx(12e6 / 23.1e9));
  CHECK(prim_cpu_s(upmem, Prim::mlp, 1000) == Approx(12e6 / 23.1e9));
  for (const Prim prim : kAll)
    CHECK(prim_cpu_s(upmem, prim, 2048) == Approx(prim_cpu_s(upmem, prim, 1024) * (prim == Prim::mlp ? 4 : 2)));
}

}  // namespace test_prim
