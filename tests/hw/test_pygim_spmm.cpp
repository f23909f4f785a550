#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "hw/parts/catalog.hpp"
#include "hw/pim/pygim_spmm.hpp"

namespace test_pygim_spmm {

using namespace orrery;
using namespace orrery::hw;

namespace {

PimSpmmParams machine() {
  return read_part<PimSpmmParams>(std::string(ORRERY_SOURCE_DIR) + "/hw/catalog/pygim-upmem.json").part;
}
PimSpmmParams simple() {
  PimSpmmParams pim;
  pim.dpus = 64;
  pim.groups = 4;
  pim.host_to_dpu_bandwidth = 10e9;
  pim.cpu_memory_bandwidth = 20e9;
  pim.dpu_to_host_bandwidth = {{1000, 1e9}, {3000, 3e9}};
  pim.fma_rows = {{2, 4e6}, {4, 2e6}};
  pim.copied_rows = {{4, 10e6}};
  pim.added_rows = {{4, 20e6}};
  return pim;
}
SpmmTimes times_of(const PimSpmmParams& pim, const SpmmShape& shape, SpmmSplit split) {
  const auto result = pim_spmm(pim, shape, split);
  REQUIRE(std::holds_alternative<SpmmTimes>(result));
  return std::get<SpmmTimes>(result);
}
/// Graphs of the paper: nodes, edges, and 256 hidden features.
const SpmmShape kGraphs[] = {{169343, 1.3e6, 256}, {132534, 79.1e6, 256}, {232965, 114.6e6, 256}};

}  // namespace

TEST_CASE("a sparse product by hand", "[unit]") {
  // 6,400 rows, 1.6 M non-zeros, 16 columns in 4 parts of 4; two parts of A would be (2, 2)
  const SpmmShape shape{6400, 1.6e6, 16};
  const SpmmTimes one = times_of(simple(), shape, {1, 4});
  CHECK(one.load_s == Approx(64 * 6400 * 4 * 4 / 10e9));
  CHECK(one.kernel_s == Approx(1.6e6 / 16 / 2e6));         // 16 DPUs a group
  CHECK(one.retrieve_s == Approx(6400.0 * 16 * 4 / 3e9));  // 400 rows of 16 bytes: past the last point
  CHECK(one.merge_s == Approx(6400 / 10e6));
  const SpmmTimes two = times_of(simple(), shape, {2, 2});
  CHECK(two.load_s == Approx(one.load_s));              // half of the rows, twice the columns
  CHECK(two.kernel_s == Approx(1.6e6 / 2 / 16 / 1e6));  // 8 columns: half the rate of 4
  CHECK(two.retrieve_s == Approx(2 * 6400.0 * 16 * 4 / 3e9));
  CHECK(two.merge_s == Approx(6400 / 5e6 + 6400 / 10e6));
}

TEST_CASE("the baseline moves every operand once from memory", "[unit]") {
  // 100 non-zeros of 8 bytes and a row of 64, 10 rows of 64 written, at 20 GB/s
  CHECK(cpu_spmm_s(simple(), {10, 100, 16}) == Approx((100 * (8 + 64) + 10 * 64) / 20e9));
}

TEST_CASE("curves are straight between points", "[unit]") {
  // 125 rows a DPU of 16 bytes: 2,000 bytes, half way between 1 and 3 GB/s
  CHECK(times_of(simple(), {2000, 1, 16}, {1, 4}).retrieve_s == Approx(2000.0 * 16 * 4 / 2e9));
}

TEST_CASE("configurations are the factorings of the groups", "[unit]") {
  const auto splits = spmm_splits(machine());
  REQUIRE(splits.size() == 6);  // 1, 2, 4, 8, 16, 32
  CHECK(splits.front().dense_parts == 32);
  CHECK(splits.back().sparse_parts == 32);
}

TEST_CASE("PIM time is U-shaped in the sparse parts", "[golden]") {
  // PyGim, figure on configurations: neither end is the best for large graphs
  const PimSpmmParams pim = machine();
  bool inside = false;
  for (const SpmmShape& shape : kGraphs) {
    std::vector<double> totals;
    for (const SpmmSplit split : spmm_splits(pim)) totals.push_back(times_of(pim, shape, split).total_s());
    int turns = 0;
    for (std::size_t i = 2; i < totals.size(); ++i)
      if ((totals[i - 1] < totals[i - 2]) != (totals[i] < totals[i - 1])) ++turns;
    CHECK(turns <= 1);
    CHECK(totals.back() > *std::min_element(totals.begin(), totals.end()));
    inside = inside || turns == 1;
  }
  CHECK(inside);
}

TEST_CASE("the tuner beats a fixed configuration, and the machine a CPU where there is work", "[golden]") {
  const PimSpmmParams pim = machine();
  for (const SpmmShape& shape : kGraphs) {
    const auto tuned = tune_pim_spmm(pim, shape);
    REQUIRE(std::holds_alternative<TunedSpmm>(tuned));
    const double best = std::get<TunedSpmm>(tuned).times.total_s();
    const double fixed = times_of(pim, shape, {1, 32}).total_s();
    CHECK(fixed / best >= 1.0);
    CHECK(fixed / best <= 2.0);
    for (const SpmmSplit split : spmm_splits(pim)) CHECK(best <= times_of(pim, shape, split).total_s());
  }
}

TEST_CASE("what a DPU cannot hold is a value with a reason", "[unit]") {
  const auto big = pim_spmm(machine(), {100e6, 1e9, 256}, {1, 32});
  REQUIRE(std::holds_alternative<SpmmDoesNotFit>(big));
  CHECK(std::get<SpmmDoesNotFit>(big).reason.find("a DPU would hold") == 0);
  const auto thin = pim_spmm(machine(), {1000, 1e4, 16}, {1, 32});
  REQUIRE(std::holds_alternative<SpmmDoesNotFit>(thin));
  CHECK(std::get<SpmmDoesNotFit>(thin).reason == "16 feature columns cannot be cut into 32 parts");
  CHECK(std::holds_alternative<SpmmDoesNotFit>(tune_pim_spmm(machine(), {1e12, 1e13, 256})));
}

TEST_CASE("times grow with non-zeros, rows and imbalance", "[prop]") {
  const PimSpmmParams pim = machine();
  std::mt19937 random(5);
  std::uniform_real_distribution<double> rows(1e3, 2e5), degree(1, 200);
  for (int i = 0; i < 300; ++i) {
    const double n = rows(random);
    const SpmmShape shape{n, n * degree(random), 64};
    for (const SpmmSplit split : {SpmmSplit{1, 32}, SpmmSplit{4, 8}}) {
      const SpmmTimes times = times_of(pim, shape, split);
      SpmmShape more = shape;
      more.nonzeros *= 1.5;
      CHECK(times_of(pim, more, split).kernel_s > times.kernel_s);
      CHECK(times_of(pim, more, split).retrieve_s == times.retrieve_s);
      more = shape;
      more.busiest = {1.3, 1.3};
      CHECK(times_of(pim, more, split).kernel_s == Approx(1.3 * times.kernel_s));
      CHECK(cpu_spmm_s(pim, shape) > 0);
    }
  }
}

TEST_CASE("faults of curves are one line each", "[unit]") {
  PimSpmmParams pim = simple();
  pim.fma_rows.clear();
  pim.added_rows = {{4, 1}, {2, 1}};
  sim::Faults faults;
  sim::Node fields = sim::Node::object();
  fields.set_origin({"x.json", ""});
  PimSpmmParams::check(pim, fields, faults);
  REQUIRE(faults.size() == 2);
  CHECK(faults.all()[0].text() == "x.json: fma_rows has no points");
  CHECK(faults.all()[1].text() == "x.json: added_rows: points rise in `at`, and 2 follows 4");
  pim = simple();
  pim.groups = 100;
  sim::Faults groups;
  PimSpmmParams::check(pim, fields, groups);
  REQUIRE(groups.size() == 1);
  CHECK(groups.all()[0].text() == "x.json: 100 groups, and only 64 DPUs to fill them");
}

}  // namespace test_pygim_spmm
