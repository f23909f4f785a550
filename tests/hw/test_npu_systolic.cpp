// The closed forms of the systolic array: by hand, against a cell-by-cell simulator, and against published counts.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "hw/npu/systolic.hpp"
#include "sim/base/random.hpp"
#include "tests/hw/systolic_simulator.hpp"

namespace test_npu_systolic {

using namespace orrery;
using namespace orrery::hw;

namespace {

constexpr Dataflow kDataflows[] = {Dataflow::ws, Dataflow::os, Dataflow::is};
constexpr SystolicShape k128{128, 128};

test::Matrix random_matrix(std::int64_t rows, std::int64_t columns, sim::RandomStream& stream) {
  test::Matrix m(rows, columns);
  for (std::int64_t& value : m.values) value = static_cast<std::int64_t>(stream.below(19)) - 9;
  return m;
}

test::Matrix product(const test::Matrix& a, const test::Matrix& b) {
  test::Matrix c(a.rows, b.columns);
  for (std::int64_t m = 0; m < a.rows; ++m)
    for (std::int64_t n = 0; n < b.columns; ++n)
      for (std::int64_t k = 0; k < a.columns; ++k) c.at(m, n) += a.get(m, k) * b.get(k, n);
  return c;
}

}  // namespace

TEST_CASE("one fold of 128^3 by hand", "[unit]") {
  // ws: 128 cycles load the weights; the last of 128 rows enters at cycle 128 + 127 and needs 127 + 127 more to reach
  // the far corner: cycle 509. os: the last operand enters the corner's row at 127 and crosses 127 + 127: cycle 381.
  CHECK(systolic_cycles({128, 128, 128}, k128, Dataflow::ws) == 509);
  CHECK(systolic_cycles({128, 128, 128}, k128, Dataflow::os) == 381);
  CHECK(systolic_cycles({128, 128, 128}, k128, Dataflow::is) == 509);
  // Two k folds and three n folds of 300 rows: 6 (300 + 382) - 1.
  CHECK(systolic_cycles({300, 300, 256}, k128, Dataflow::ws) == 4091);
  // Rectangular, 2 x 3: ws 4 + 2*2 + 3 - 2 = 9 a fold, one fold.
  CHECK(systolic_cycles({4, 3, 2}, {2, 3}, Dataflow::ws) == 8);
  CHECK(systolic_cycles({4, 3, 2}, {2, 3}, Dataflow::os) == 2 * (2 + 2 + 3 - 2) - 1);
  CHECK(systolic_cycles({4, 3, 2}, {2, 3}, Dataflow::is) == 2 * (3 + 2 * 2 + 3 - 2) - 1);
}

TEST_CASE("published counts of SCALE-Sim", "[golden]") {
  // m, n, k and cycles of the open TPU tables (128 x 128, ws, m <= n): scalesim-project, TPU v4 validation data.
  CHECK(systolic_cycles({128, 1024, 1024}, k128, Dataflow::ws) == 32639);
  CHECK(systolic_cycles({192, 320, 448}, k128, Dataflow::ws) == 6887);
  CHECK(systolic_cycles({1024, 1024, 1024}, k128, Dataflow::ws) == 89983);
  CHECK(systolic_cycles({128, 192, 192}, k128, Dataflow::ws) == 2039);
}

TEST_CASE("nothing takes no cycles", "[unit]") {
  for (const Dataflow dataflow : kDataflows)
    for (const Gemm& g : {Gemm{0, 4, 4}, Gemm{4, 0, 4}, Gemm{4, 4, 0}, Gemm{4, 4, 4, 0}}) {
      CHECK(systolic_cycles(g, k128, dataflow) == 0);
      CHECK(systolic_traffic(g, k128, dataflow).input_reads == 0);
      CHECK(systolic_utilisation(g, k128, dataflow) == 0);
    }
}

TEST_CASE("operands that really move agree with the closed forms", "[prop]") {
  sim::RandomStream stream(7, "systolic");
  for (int trial = 0; trial < 60; ++trial) {
    const auto size = [&](std::uint64_t most) { return 1 + static_cast<std::int64_t>(stream.below(most)); };
    const SystolicShape array{size(6), size(6)};
    const Gemm shape{size(14), size(14), size(14)};
    const test::Matrix a = random_matrix(shape.m, shape.k, stream), b = random_matrix(shape.k, shape.n, stream);
    const test::Matrix c = product(a, b);
    for (const Dataflow dataflow : kDataflows) {
      INFO(array.rows << "x" << array.columns << " m " << shape.m << " n " << shape.n << " k " << shape.k << " flow "
                      << static_cast<int>(dataflow));
      const test::ArrayRun run = test::ArraySimulator(array).run(a, b, dataflow);
      const SystolicTraffic traffic = systolic_traffic(shape, array, dataflow);
      CHECK(run.c.values == c.values);
      CHECK(run.cycles - 1 == systolic_cycles(shape, array, dataflow));
      CHECK(run.traffic.input_reads == traffic.input_reads);
      CHECK(run.traffic.weight_reads == traffic.weight_reads);
      CHECK(run.traffic.output_writes == traffic.output_writes);
      CHECK(run.traffic.output_reads == traffic.output_reads);
    }
  }
}

TEST_CASE("utilisation is a share, and long streams fill the array", "[prop]") {
  for (const Dataflow dataflow : kDataflows) {
    for (const std::int64_t m : {1, 17, 128, 1000})
      for (const std::int64_t n : {1, 127, 129, 4096}) {
        const double share = systolic_utilisation({m, n, 300}, k128, dataflow);
        CHECK(share > 0);
        CHECK(share <= 1);
      }
    // With 1e6 along every dimension fills vanish: 382 of 1e6 cycles and the last partial fold.
    CHECK(systolic_utilisation({1 << 20, 1 << 20, 1 << 20}, k128, dataflow) > 0.999);
  }
}

TEST_CASE("more work never takes fewer cycles", "[prop]") {
  for (const Dataflow dataflow : kDataflows)
    for (std::int64_t x = 1; x < 600; x += 7) {
      CHECK(systolic_cycles({x + 1, 200, 300}, k128, dataflow) >= systolic_cycles({x, 200, 300}, k128, dataflow));
      CHECK(systolic_cycles({200, x + 1, 300}, k128, dataflow) >= systolic_cycles({200, x, 300}, k128, dataflow));
      CHECK(systolic_cycles({200, 300, x + 1}, k128, dataflow) >= systolic_cycles({200, 300, x}, k128, dataflow));
    }
}

}  // namespace test_npu_systolic
