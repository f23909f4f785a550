// The tables of UPMEM measurements: which rows are predicted, which are named as not covered.
#include <catch2/catch.hpp>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/table_kind.hpp"
#include "hw/pim/prim.hpp"

namespace test_fidelity_pim {

using namespace orrery;
using namespace orrery::experiments;

namespace {

Predictions predictions_of(const std::string& text, const std::string& name = "pim/upmem_prim.csv") {
  Predictions out;
  const auto kind = pim_tables();
  REQUIRE(kind->reads(name));
  kind->predict(MeasuredTable::parse(text, name), PartShelf(home_folder() / "hw/catalog"), out);
  return out;
}

const std::string kHeader = "benchmark,num_dpus,data_prep_param,hw_kernel,hw_cpu_to_dpu,hw_dpu_to_cpu,hw_dpu_to_dpu\n";

}  // namespace

TEST_CASE("one column of predictions a measured column", "[unit][fidelity]") {
  const Predictions out =
      predictions_of(kHeader + "VA,4,8388608,61.4,65.8,84.9,0\nSCAN-RSS,4,262144,4.2,1.6,6.2,0.1\n");
  REQUIRE(out.columns().size() == 4);
  CHECK(out.columns()[0].metric == "kernel");
  CHECK(out.columns()[0].rows.size() == 2);
  CHECK(out.columns()[3].metric == "dpu_to_dpu");
  REQUIRE(out.columns()[3].rows.size() == 1);  // VA has no such part: 0 is not a measurement
  CHECK(out.columns()[3].rows[0].row == 1);
}

TEST_CASE("a prediction does not depend on what was measured", "[unit][fidelity]") {
  const double once = predictions_of(kHeader + "VA,4,8388608,61.4,65.8,84.9,0\n").columns()[0].rows[0].predicted;
  const double again = predictions_of(kHeader + "VA,4,8388608,99,1,2,0\n").columns()[0].rows[0].predicted;
  CHECK(once == again);
  const PartShelf shelf(home_folder() / "hw/catalog");
  const auto part = shelf.for_table<hw::UpmemParams>("upmem_prim");
  REQUIRE(part);
  CHECK(once == hw::prim_times(part.entry->part, hw::Prim::va, 4, 8388608).kernel_s * 1e3);
}

TEST_CASE("rows that nothing models are named", "[unit][fidelity]") {
  const Predictions out = predictions_of(kHeader + "NW,4,1024,1,1,1,1\n");
  REQUIRE(out.columns().size() == 4);
  for (const auto& column : out.columns()) {
    CHECK(column.rows.empty());
    CHECK(column.uncovered == 1);
    REQUIRE(column.reasons.size() == 1);
    CHECK(column.reasons[0] == "benchmark 'NW' is not modelled");
  }
  const Predictions other = predictions_of(kHeader + "VA,4,1024,1,1,1,0\n", "pim/some_chip.csv");
  REQUIRE_FALSE(other.columns().empty());
  CHECK(other.columns()[0].uncovered == 1);
  CHECK(other.columns()[0].reasons[0] == "no part of the catalog stands for it");
}

TEST_CASE("rows of one shape are held out together", "[unit][fidelity]") {
  const auto kind = pim_tables();
  const auto table = MeasuredTable::parse(kHeader + "VA,4,1024,1,1,1,0\nVA,4,1024,2,2,2,0\nVA,16,1024,1,1,1,0\n",
                                          "pim/upmem_prim.csv");
  CHECK(kind->shape_key(table, 0) == kind->shape_key(table, 1));
  CHECK(kind->shape_key(table, 0) != kind->shape_key(table, 2));
}

}  // namespace test_fidelity_pim
