// What `orrery run` tells of its accuracy is what the measured tables say today.
#include <catch2/catch.hpp>
#include <filesystem>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/served_errors.hpp"

namespace test_served_errors {

using namespace orrery;
using namespace orrery::experiments;

TEST_CASE("the errors of serving runs that ship are those of the measured tables", "[golden][fidelity]") {
  const std::filesystem::path data = home_folder() / "../shared/data";
  if (!std::filesystem::is_directory(data / "serving")) {
    WARN("skipped: no reference data beside the checkout");
    return;
  }
  const PartShelf parts(home_folder() / "hw/catalog");
  ServedErrors errors;
  (void)measure_fidelity(
      data, parts, [&](const MeasuredTable& table, const Predictions::Column& column) { errors.add(table, column); });
  // After a change that is meant: orrery fidelity ../shared/data --served experiments/measured/serving.json
  CHECK(errors.node().dump(2) == sim::read_json(home_folder() / "experiments/measured/serving.json").dump(2));
}

}  // namespace test_served_errors
