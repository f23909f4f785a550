// Rows dealt to DPUs and tasklets: by hand, against properties, and what balance is worth.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "hw/pim/row_dealing.hpp"
#include "sim/base/random.hpp"

namespace test_row_dealing {

using namespace orrery::hw;

namespace {

RowDealing dealing(SparseFormat format, RowBalance both, std::int64_t tasklets) {
  return {.format = format, .over_dpus = both, .over_tasklets = both, .tasklets = tasklets};
}

}  // namespace

TEST_CASE("rows dealt by hand", "[unit]") {
  // Rows of 6, 1, 1, 4 non-zeros over two DPUs of two tasklets each; mean of a DPU 6, a tasklet issues every 2 cycles.
  const std::vector<double> rows{6, 1, 1, 4};
  // Equal rows: DPUs have 7 and 5, their busiest tasklets 6 and 4: max(7, 2 x 6) and max(5, 2 x 4), so 12 of 6.
  const RowLoad row = busiest_dpu(rows, 2, dealing(SparseFormat::csr, RowBalance::row, 2), 2);
  CHECK(row.nonzeros == Approx(7.0 / 6));
  CHECK(row.time == Approx(12.0 / 6));
  // Equal non-zeros, whole rows: 6 | 1 1 4. Tasklets: the first row cannot be cut, 2 x 6; then 1 1 | 4.
  const RowLoad nnz = busiest_dpu(rows, 2, dealing(SparseFormat::csr, RowBalance::nnz, 2), 2);
  CHECK(nnz.nonzeros == Approx(1));
  CHECK(nnz.time == Approx(12.0 / 6));
  // COO cuts rows: every tasklet has 3, and the pipelines are full.
  const RowLoad cut = busiest_dpu(rows, 2, dealing(SparseFormat::coo, RowBalance::nnz, 2), 2);
  CHECK(cut.nonzeros == Approx(1));
  CHECK(cut.time == Approx(1));
  // One tasklet fills half of a pipeline of two.
  CHECK(busiest_dpu(rows, 2, dealing(SparseFormat::coo, RowBalance::nnz, 1), 2).time == Approx(2));
  // More DPUs than rows: the row of 6 is the busiest, 6 over a mean of 12 / 8.
  CHECK(busiest_dpu(rows, 8, dealing(SparseFormat::csr, RowBalance::nnz, 1), 1).nonzeros == Approx(4));
  CHECK(busiest_dpu({}, 4, {}, 11).time == 1);
  CHECK(busiest_dpu(std::vector<double>{0, 0}, 4, {}, 11).time == 1);
}

TEST_CASE("dealing bounds, whatever the rows", "[prop]") {
  orrery::sim::RandomStream random(5, "rows");
  for (int round = 0; round < 60; ++round) {
    std::vector<double> rows(static_cast<std::size_t>(1 + random.below(3'000)));
    for (double& row : rows) row = std::floor(random.log_normal(2, 1.5));
    rows.front() += 1;
    const auto dpus = static_cast<std::int64_t>(1 + random.below(40));
    const auto tasklets = static_cast<std::int64_t>(1 + random.below(24));
    CAPTURE(rows.size(), dpus, tasklets);
    const double all = std::accumulate(rows.begin(), rows.end(), 0.0);
    const double largest = *std::max_element(rows.begin(), rows.end());
    const double mean = all / static_cast<double>(dpus);
    for (const SparseFormat format : {SparseFormat::csr, SparseFormat::coo})
      for (const RowBalance balance : {RowBalance::row, RowBalance::nnz}) {
        const RowLoad load = busiest_dpu(rows, dpus, dealing(format, balance, tasklets), 11);
        CHECK(load.nonzeros >= 1 - 1e-12);
        CHECK(load.time >= load.nonzeros - 1e-12);
        CHECK(load.nonzeros <= static_cast<double>(dpus) + 1e-9);
        // No tasklet has less than its share on the busiest DPU.
        CHECK(load.time >= 11.0 / static_cast<double>(tasklets) - 1e-9);
        CHECK(load.time <= 11 * load.nonzeros + 1e-9);
        if (balance == RowBalance::nnz && format == SparseFormat::csr) CHECK(load.nonzeros <= 1 + largest / mean);
        if (balance == RowBalance::nnz && format == SparseFormat::coo) {
          CHECK(load.nonzeros == Approx(1));
          CHECK(load.time == Approx(std::max(1.0, 11.0 / static_cast<double>(tasklets))));
        }
      }
  }
}

}  // namespace test_row_dealing
