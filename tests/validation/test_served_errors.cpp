// What pages and `orrery run` tell of our accuracy is what the measured tables say today.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/served_errors.hpp"

namespace test_served_errors {

using namespace orrery;
using namespace orrery::experiments;

namespace {

/// A row of docs/fidelity/tables.md up to the bias; what peers reach and what is asked for stand behind it.
std::string page_row(const FidelityLine& line) {
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  return fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {}{} |", line.table, line.metric, line.rows, line.covered,
                     percent(line.errors.mape), percent(line.errors.median), percent(line.errors.p90),
                     line.errors.bias < 0 ? "" : "+", percent(line.errors.bias));
}

}  // namespace

TEST_CASE("errors in the page of tables, and of serving runs that ship, are those of the measured tables",
          "[golden][fidelity]") {
  const std::filesystem::path data = home_folder() / "../shared/data";
  if (!std::filesystem::is_directory(data / "serving")) {
    WARN("skipped: no reference data beside the checkout");
    return;
  }
  const PartShelf parts(home_folder() / "hw/catalog");
  ServedErrors errors;
  const std::vector<FidelityLine> lines = measure_fidelity(
      data, parts, [&](const MeasuredTable& table, const Predictions::Column& column) { errors.add(table, column); });
  // After a change that is meant: orrery fidelity ../shared/data --served experiments/measured/serving.json
  CHECK(errors.node().dump(2) == sim::read_json(home_folder() / "experiments/measured/serving.json").dump(2));

  std::ifstream page(home_folder() / "docs/fidelity/tables.md");
  std::map<std::string, std::string> rows;  // by table and metric, up to the bias
  for (std::string row; std::getline(page, row);) {
    std::size_t end = 0, key = 0;
    for (int column = 0; column < 9 && end != std::string::npos; ++column) {
      end = row.find('|', column == 0 ? 0 : end + 1);
      if (column == 2) key = end;
    }
    if (row.starts_with("| `") && end != std::string::npos) rows[row.substr(0, key + 1)] = row.substr(0, end + 1);
  }
  std::size_t compared = 0;
  for (const FidelityLine& line : lines) {
    const auto row = rows.find(fmt::format("| `{}` | {} |", line.table, line.metric));
    if (line.regime != "all" || line.covered == 0 || row == rows.end()) continue;
    CHECK(row->second == page_row(line));
    ++compared;
  }
  CHECK(compared > 100);
}

}  // namespace test_served_errors
